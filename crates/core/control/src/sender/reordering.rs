//! How late packets arrive that others have overtaken. It decides no packet's fate.

use std::time::Duration;

use manyway_units::Time;

use crate::rtt::{Rtt, nanos};

/// What was seen is remembered for this many round trips (RFC 8985 §6.2: 16 recoveries), …
const MEMORY_RTTS: u64 = 32;
/// … but at least this long, ns.
const MIN_MEMORY: u64 = 2_000_000_000;

/// How much longer than a round trip overtaken packets took, lately.
#[derive(Clone, Debug, Default)]
pub(super) struct Reordering {
    /// The most in the present span and in the one before, ns; 0 if no packet was overtaken.
    lateness: [u64; 2],
    /// When the present span ends.
    until: Time,
}

impl Reordering {
    /// A packet that was sent at `sent` was acknowledged at `now`, after one that was sent later.
    #[cold]
    pub(super) fn on_overtaken(&mut self, now: Time, sent: Time, rtt: &Rtt) {
        self.forget(now, rtt);
        let late = nanos(now.since(sent)).saturating_sub(rtt.loss_base());
        self.lateness[0] = self.lateness[0].max(late).max(1);
    }

    /// How much longer than a round trip to wait for a packet that others have overtaken, ns
    /// (RFC 8985's reordering window); `None` while none was overtaken.
    ///
    /// It is a quarter more than what was seen to be needed, and no more than what a probe timeout
    /// waits: RFC 8985 stops at a round trip, which short paths with much jitter exceed.
    #[inline]
    pub(super) fn window(&mut self, now: Time, rtt: &Rtt) -> Option<u64> {
        self.forget(now, rtt);
        let late = self.lateness[0].max(self.lateness[1]);
        (late > 0).then(|| (late + late / 4).min(rtt.pto_nanos()))
    }

    /// Ends the span if it is over.
    #[inline]
    fn forget(&mut self, now: Time, rtt: &Rtt) {
        if now < self.until {
            return;
        }
        let memory = (rtt.smoothed_nanos().saturating_mul(MEMORY_RTTS)).max(MIN_MEMORY);
        let missed = now.since(self.until) >= Duration::from_nanos(memory);
        self.lateness = match missed {
            true => [0, 0],
            false => [0, self.lateness[0]],
        };
        self.until = now + Duration::from_nanos(memory);
    }
}
