//! Sealing: packet keys, their schedule and the epochs they live in.
//!
//! The keys of one direction form a chain. The Noise split gives each direction 32 bytes of key
//! material; HKDF-SHA256 (RFC 5869), salted with the handshake hash, turns it into the direction's
//! first secret, and each secret into a key, an IV and the next secret. A link of that chain is an
//! *epoch*; its number modulo 256 travels, authenticated, in each packet's header.
//!
//! * The [`Sealer`] moves to the next epoch once [`KeyLimits::epoch_packets`] packets, summed over
//!   all paths, were sealed in the present one and the peer has acknowledged one of them.
//! * The [`Opener`] follows only after a packet of the next epoch has opened, so that nobody but
//!   the peer can move it, and keeps the previous keys for three probe timeouts for packets that
//!   were reordered. The next keys are derived once, in advance: a forged packet costs one failed
//!   open and never a key derivation (RFC 9001 §9.5 has the timing side of the same rule).
//!
//! The nonce is the IV ⊕ (path id as `u32` ‖ packet number as `u64`), big-endian: unique as long as
//! path ids are never reused and packet numbers never repeat on a path, which the session sees to.
//!
//! There is no header protection: the header is authenticated but readable.

#[cfg(feature = "simulation")]
mod checksum;
mod error;
mod keys;
mod opener;
mod packet_key;
mod sealer;
#[cfg(test)]
mod tests;

pub use error::{OpenError, SealError};
pub use opener::Opener;
pub use packet_key::PacketKey;
pub use sealer::Sealer;

use std::fmt;
use std::str::FromStr;

use keys::{Chain, Direction};

/// Length in bytes of the authentication tag that sealing appends to a packet, in both suites.
pub const TAG_LEN: usize = manyway_wire::TAG_LEN;

/// The authentication tag of a sealed packet.
pub type Tag = [u8; TAG_LEN];

/// The AEAD that seals packets after the handshake. Both sides must be set to the same one: it is
/// part of the handshake's prologue, not negotiated.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Suite {
    /// AES-256-GCM: the fastest where the processor has AES instructions.
    #[default]
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439): for processors without AES instructions.
    ChaCha20Poly1305,
    /// No encryption, and a checksum that anybody could forge: packets of the same sizes for less
    /// work. [`Endpoint::simulated`](crate::Endpoint::simulated) alone takes it.
    #[cfg(feature = "simulation")]
    Checksum,
}

impl Suite {
    /// All suites that may protect something, the default first.
    pub const ALL: [Suite; 2] = [Suite::Aes256Gcm, Suite::ChaCha20Poly1305];

    /// The suite's name, as people write it in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Suite::Aes256Gcm => "aes-256-gcm",
            Suite::ChaCha20Poly1305 => "chacha20-poly1305",
            #[cfg(feature = "simulation")]
            Suite::Checksum => "checksum",
        }
    }

    /// How many packets one key may seal (RFC 9001 §6.6, appendix B).
    pub const fn confidentiality_limit(self) -> u64 {
        match self {
            Suite::Aes256Gcm => 1 << 23,
            Suite::ChaCha20Poly1305 => 1 << 62,
            #[cfg(feature = "simulation")]
            Suite::Checksum => 1 << 62,
        }
    }

    /// How many forged packets a connection may meet before it must close (RFC 9001 §6.6).
    pub const fn integrity_limit(self) -> u64 {
        match self {
            Suite::Aes256Gcm => 1 << 52,
            Suite::ChaCha20Poly1305 => 1 << 36,
            #[cfg(feature = "simulation")]
            Suite::Checksum => 1 << 36,
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A suite's name was not recognised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown suite {0:?}: use aes-256-gcm or chacha20-poly1305, the same on both sides")]
pub struct UnknownSuite(String);

impl FromStr for Suite {
    type Err = UnknownSuite;

    fn from_str(name: &str) -> Result<Self, UnknownSuite> {
        Suite::ALL
            .into_iter()
            .find(|suite| suite.name().eq_ignore_ascii_case(name.trim()))
            .ok_or_else(|| UnknownSuite(name.to_owned()))
    }
}

/// How far keys are used. The suite's own limits always hold; these can only be lower.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// Packets, over all paths, after which the sender moves to the next epoch. At most half of the
    /// confidentiality limit is used, so that there is time to hear an acknowledgement.
    pub epoch_packets: u64,
    /// Packets that one key may seal; sealing fails beyond.
    pub confidentiality: u64,
    /// Packets that may fail to open, over all epochs, before opening fails for good.
    pub integrity: u64,
}

impl Default for KeyLimits {
    /// An epoch of 2²² packets; the suite's limits otherwise.
    fn default() -> Self {
        KeyLimits {
            epoch_packets: 1 << 22,
            confidentiality: u64::MAX,
            integrity: u64::MAX,
        }
    }
}

impl KeyLimits {
    /// These limits, lowered to what `suite` allows.
    fn within(self, suite: Suite) -> KeyLimits {
        let confidentiality = self.confidentiality.min(suite.confidentiality_limit());
        KeyLimits {
            epoch_packets: self.epoch_packets.clamp(1, (confidentiality / 2).max(1)),
            confidentiality,
            integrity: self.integrity.min(suite.integrity_limit()),
        }
    }
}

/// What a finished handshake hands to [`split`].
pub struct SplitInput<'a> {
    /// Key material for packets from the initiator to the responder.
    pub initiator_key: &'a [u8; 32],
    /// Key material for packets from the responder to the initiator.
    pub responder_key: &'a [u8; 32],
    /// The hash over the whole handshake; binds the keys to it.
    pub handshake_hash: &'a [u8],
    /// Whether this side is the initiator.
    pub is_initiator: bool,
    /// The AEAD to use.
    pub suite: Suite,
    /// How far to use each key.
    pub limits: KeyLimits,
}

/// Derives both directions' keys of epoch 0.
pub fn split(input: SplitInput<'_>) -> (Sealer, Opener) {
    let chain = |direction: Direction| {
        let material = match direction {
            Direction::FromInitiator => input.initiator_key,
            Direction::FromResponder => input.responder_key,
        };
        Chain::new(input.suite, direction, material, input.handshake_hash)
    };
    let (ours, theirs) = if input.is_initiator {
        (Direction::FromInitiator, Direction::FromResponder)
    } else {
        (Direction::FromResponder, Direction::FromInitiator)
    };
    let limits = input.limits.within(input.suite);
    (
        Sealer::new(chain(ours), limits),
        Opener::new(chain(theirs), limits),
    )
}
