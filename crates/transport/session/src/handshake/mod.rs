//! The handshake: one INIT, one REPLY, then sealed packets.
//!
//! Noise `IKpsk2` (the Noise Protocol Framework, revision 34, §9) carries both sides' transport
//! parameters. The ticket gives the [`Initiator`] the listener's static key, so that nobody else
//! can answer, and a pre-shared key, so that nobody without the ticket gets an answer. `mac1`,
//! keyed from that secret as in WireGuard, guards both datagrams and is checked before any
//! Diffie-Hellman.
//!
//! The first message proves nothing about the pre-shared key and may be a replay. So the
//! [`Responder`] answers it and keeps a bounded, short-lived half-open entry; a connection comes of
//! it only when [`Responder::try_open`] has opened a sealed packet.
//!
//! When handshakes come faster than they should, the responder answers with a COOKIE first: it
//! works only for those who are where they seem to be, and for each host only so much
//! ([`LoadLimits`]).
//!
//! The prologue is `manyway` ‖ version (1 byte) ‖ ticket id (8) ‖ suite (1: AES-256-GCM,
//! 2: ChaCha20-Poly1305). Two sides that disagree about any of it don't understand each other.
//!
//! An initiator with an [`Identity`] takes that for its static key, and says so in its transport
//! parameters. Message 1 alone proves nothing about it either: who knows the listener's private key
//! could have forged it. But the packet keys also come from a Diffie-Hellman of that static key
//! with the listener's ephemeral one, so that a packet that opens proves the identity.
//!
//! All randomness comes from seeds that the caller gives, so that a run repeats.

mod cookie;
mod identity;
mod initiator;
mod noise;
mod places;
mod responder;
mod secrets;
#[cfg(test)]
mod tests;

pub use cookie::LoadLimits;
pub(crate) use cookie::host;
pub use identity::Identity;
pub use initiator::{HandshakeError, Initiator, InitiatorConfig};
pub use places::{Place, Places};
pub use responder::{Ignored, Opened, Outcome, Responder, ResponderConfig, ResponderStats};
pub(crate) use secrets::relay_name;
pub use secrets::{Secrets, SecretsError, listen_key, listener_name};

use manyway_wire::{ConnectionId, PeerId, TransportParameters};

use crate::crypto::{Opener, Sealer, Suite};

/// What both sides have after the handshake.
#[derive(Debug)]
pub struct Established {
    /// Seals our packets.
    pub sealer: Sealer,
    /// Opens the peer's packets.
    pub opener: Opener,
    /// What the peer said of itself.
    pub peer: TransportParameters,
    /// Whom the peer has proven to be: the listener of our ticket, or an initiator with an
    /// identity. `None` for an initiator whose key is for this connection alone.
    pub identity: Option<PeerId>,
    /// Our connection id for path 0: the peer puts it on its packets.
    pub local_cid: ConnectionId,
    /// The peer's connection id for path 0: we put it on our packets.
    pub remote_cid: ConnectionId,
}

fn prologue(ticket_id: &[u8; 8], suite: Suite) -> Vec<u8> {
    let suite = match suite {
        Suite::Aes256Gcm => 1,
        Suite::ChaCha20Poly1305 => 2,
        #[cfg(feature = "simulation")]
        Suite::Checksum => 255,
    };
    let mut prologue = b"manyway".to_vec();
    prologue.push(manyway_wire::VERSION);
    prologue.extend_from_slice(ticket_id);
    prologue.push(suite);
    prologue
}
