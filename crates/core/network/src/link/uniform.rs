//! A queue whose packets have one size: when each leaves follows from when the last one does.

use super::fine::{FRACTION_BITS, Fine, service_time};

/// No link has more work in its queue than this, in 2^-31 ns, if its packets are to be `Uniform`:
/// 73 years, so that nothing saturates.
const MOST_WORK: u128 = 1 << (61 + FRACTION_BITS);

/// The packets of a link that is nothing but DropTail, as long as they have one size. They leave
/// one service time apart, so nobody has to remember when each does.
#[derive(Debug, Copy, Clone)]
pub(super) struct Uniform {
    /// Bytes of each packet; 0 if they differ, or there was none yet.
    pub(super) bytes: u32,
    /// Time that a packet takes.
    pub(super) service: Fine,
    /// There is room for a packet as long as the ones before take no longer than this.
    pub(super) room: Fine,
}

impl Uniform {
    pub(super) const NONE: Self = Self {
        bytes: 0,
        service: Fine::from_nanos(0),
        room: Fine::from_nanos(0),
    };

    /// Of a queue that is limited to so many packets and bytes. `None` if no packet of this size
    /// fits into it, or its work is beyond all measure.
    pub(super) fn new(bytes: u32, per_byte: u64, limits: (u64, u64)) -> Option<Self> {
        let limit = limits.0.min(limits.1 / u64::from(bytes));
        let service = service_time(per_byte, bytes);
        let room = service
            .bits()
            .checked_mul(u128::from(limit.checked_sub(1)?))?;
        (room <= MOST_WORK && service.bits() <= MOST_WORK).then_some(Self {
            bytes,
            service,
            room: Fine::from_bits(room),
        })
    }

    /// Packets that have not left by `now`, in ns, if the last one leaves at `free_at`.
    pub(super) fn waiting(&self, now: u64, free_at: Fine) -> u64 {
        let work = free_at.bits().saturating_sub(Fine::from_nanos(now).bits());
        work.div_ceil(self.service.bits()) as u64
    }

    /// When those leave, in ns, the first one first.
    pub(super) fn departures(&self, now: u64, free_at: Fine) -> impl Iterator<Item = u64> {
        let (last, service) = (free_at.bits(), self.service.bits());
        let behind = (0..u128::from(self.waiting(now, free_at))).rev();
        behind.map(move |behind| Fine::from_bits(last - behind * service).ceil())
    }
}
