use std::fmt;
use std::time::Duration;

use manyway_units::Time;

use super::error::OpenError;
use super::keys::Chain;
use super::packet_key::PacketKey;
use super::{KeyLimits, TAG_LEN};

/// Opens the packets of one direction, following the sender from epoch to epoch.
pub struct Opener {
    previous: Option<Previous>,
    current: Box<dyn PacketKey>,
    /// Derived in advance, so that forged packets cannot make us derive keys.
    next: Box<dyn PacketKey>,
    chain: Chain,
    limits: KeyLimits,
    epoch: u8,
    forged: u64,
}

struct Previous {
    key: Box<dyn PacketKey>,
    expires: Time,
}

impl Opener {
    pub(super) fn new(mut chain: Chain, limits: KeyLimits) -> Opener {
        Opener {
            previous: None,
            current: chain.next_key(),
            next: chain.next_key(),
            chain,
            limits,
            epoch: 0,
            forged: 0,
        }
    }

    /// Opens `packet`, whose first `header_len` bytes are its header, in place, and returns the
    /// plaintext. `pto` is the largest probe timeout of the connection's paths: when this packet is
    /// the first of a new epoch, the old keys are kept for three times that long.
    ///
    /// The caller checks for replays before (cheaper) and notes the packet number after.
    ///
    /// # Errors
    /// [`OpenError`]; the packet's contents may be lost then.
    #[expect(
        clippy::too_many_arguments,
        reason = "flat on the hot path; each argument has a type or a name of its own"
    )]
    pub fn open<'a>(
        &mut self,
        now: Time,
        pto: Duration,
        path: u32,
        pn: u64,
        epoch: u8,
        packet: &'a mut [u8],
        header_len: usize,
    ) -> Result<&'a mut [u8], OpenError> {
        self.drop_expired(now);
        if self.forged >= self.limits.integrity {
            return Err(self.integrity_limit());
        }
        let len = packet.len();
        let (header, payload) = packet
            .split_at_mut_checked(header_len)
            .filter(|(_, payload)| payload.len() >= TAG_LEN)
            .ok_or(OpenError::TooShort { len })?;
        match self.key(epoch)?.open_in_place(path, pn, header, payload) {
            Ok(plaintext) => {
                if epoch == self.epoch.wrapping_add(1) {
                    self.advance(now, pto);
                }
                Ok(plaintext)
            }
            Err(error) => {
                self.forged += 1;
                if self.forged >= self.limits.integrity {
                    return Err(self.integrity_limit());
                }
                Err(error)
            }
        }
    }

    /// The epoch of the newest packet that has opened, modulo 256.
    pub fn epoch(&self) -> u8 {
        self.epoch
    }

    /// How many packets have failed to open although their epoch's keys were held.
    pub fn forged(&self) -> u64 {
        self.forged
    }

    fn key(&self, epoch: u8) -> Result<&dyn PacketKey, OpenError> {
        match (epoch.wrapping_sub(self.epoch), &self.previous) {
            (0, _) => Ok(&*self.current),
            (1, _) => Ok(&*self.next),
            (u8::MAX, Some(previous)) => Ok(&*previous.key),
            _ => Err(OpenError::UnknownEpoch {
                packet: epoch,
                current: self.epoch,
            }),
        }
    }

    fn advance(&mut self, now: Time, pto: Duration) {
        let newer = std::mem::replace(&mut self.next, self.chain.next_key());
        let older = std::mem::replace(&mut self.current, newer);
        self.previous = Some(Previous {
            key: older,
            expires: now + pto.saturating_mul(3),
        });
        self.epoch = self.epoch.wrapping_add(1);
    }

    fn drop_expired(&mut self, now: Time) {
        if self.previous.as_ref().is_some_and(|p| p.expires <= now) {
            self.previous = None;
        }
    }

    fn integrity_limit(&self) -> OpenError {
        OpenError::IntegrityLimit {
            forged: self.forged,
        }
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener")
            .field("epoch", &self.epoch)
            .field("previous_held", &self.previous.is_some())
            .field("forged", &self.forged)
            .finish_non_exhaustive()
    }
}
