use std::fmt;

use super::error::SealError;
use super::keys::Chain;
use super::packet_key::PacketKey;
use super::{KeyLimits, TAG_LEN};

/// Seals the packets of one direction, and moves to new keys in time.
pub struct Sealer {
    key: Box<dyn PacketKey>,
    chain: Chain,
    limits: KeyLimits,
    epoch: u8,
    /// Packets sealed in this epoch, over all paths.
    sealed: u64,
    /// Whether the peer has acknowledged a packet of this epoch: only then does it surely hold the
    /// keys of the next one.
    acknowledged: bool,
}

impl Sealer {
    pub(super) fn new(mut chain: Chain, limits: KeyLimits) -> Sealer {
        Sealer {
            key: chain.next_key(),
            chain,
            limits,
            epoch: 0,
            sealed: 0,
            acknowledged: false,
        }
    }

    /// The epoch to put into the next packet's header. Moves to the next epoch if it is time, so it
    /// must be asked anew for every packet, before that packet is sealed.
    pub fn epoch(&mut self) -> u8 {
        if self.sealed >= self.limits.epoch_packets && self.acknowledged {
            self.key = self.chain.next_key();
            self.epoch = self.epoch.wrapping_add(1);
            self.sealed = 0;
            self.acknowledged = false;
        }
        self.epoch
    }

    /// Seals the packet that reaches from `start` to the end of `buf`: its first `header_len` bytes
    /// are authenticated, the rest is encrypted in place and [`TAG_LEN`] bytes of tag are appended.
    ///
    /// A pair of `path` and `pn` must never be used twice in a connection.
    ///
    /// # Errors
    /// [`SealError`]; the packet must not be sent then.
    pub fn seal(
        &mut self,
        path: u32,
        pn: u64,
        buf: &mut Vec<u8>,
        start: usize,
        header_len: usize,
    ) -> Result<(), SealError> {
        if self.sealed >= self.limits.confidentiality {
            return Err(SealError::ConfidentialityLimit {
                packets: self.sealed,
            });
        }
        let len = buf.len();
        let (header, payload) = buf
            .get_mut(start..)
            .and_then(|packet| packet.split_at_mut_checked(header_len))
            .ok_or(SealError::HeaderOutOfBounds {
                start,
                header_len,
                len,
            })?;
        self.sealed += 1;
        let tag = self.key.seal_in_place(path, pn, header, payload)?;
        debug_assert_eq!(tag.len(), TAG_LEN);
        buf.extend_from_slice(&tag);
        Ok(())
    }

    /// The peer acknowledged a packet that was sealed in `epoch`.
    pub fn on_acked(&mut self, epoch: u8) {
        if epoch == self.epoch {
            self.acknowledged = true;
        }
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("epoch", &self.epoch)
            .field("sealed", &self.sealed)
            .field("acknowledged", &self.acknowledged)
            .finish_non_exhaustive()
    }
}
