use std::fmt;
use std::net::SocketAddr;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::hmac;
use manyway_wire::relay::{ListenKey, ListenerName, RelayId};
use manyway_wire::{PeerId, Ticket};
use rand::CryptoRng;
use zeroize::Zeroizing;

use super::identity::Identity;
use super::noise::KEY_LEN;

const TICKET_ID_LEN: usize = 8;
const PSK_LEN: usize = 32;

/// What a listener keeps for a ticket: the private half of what the ticket gives away.
///
/// Zeroed when dropped; `Debug` shows the ticket id and the listener's id only.
#[derive(Clone)]
pub struct Secrets {
    ticket_id: [u8; TICKET_ID_LEN],
    identity: Identity,
    psk: Zeroizing<[u8; PSK_LEN]>,
}

/// Stored secrets could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{len} bytes are not a listener's secrets, which have {expected}: restore the file, or let the \
     listener make a new ticket",
    expected = Secrets::BYTES
)]
pub struct SecretsError {
    len: usize,
}

impl Secrets {
    /// Length of [`Secrets::to_bytes`].
    pub const BYTES: usize = TICKET_ID_LEN + KEY_LEN + PSK_LEN;

    /// New secrets for a new ticket. Same generator state, same secrets.
    pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Secrets {
        let mut bytes = Zeroizing::new([0; Self::BYTES]);
        rng.fill_bytes(&mut *bytes);
        Secrets::from_array(&bytes)
    }

    /// New secrets for a new ticket of a listener that has an identity already: as with
    /// [`Secrets::generate`], nobody gets in with another ticket, and the holders of this one know
    /// whom it leads to.
    pub fn of<R: CryptoRng + ?Sized>(identity: &Identity, rng: &mut R) -> Secrets {
        Secrets {
            identity: identity.clone(),
            ..Secrets::generate(rng)
        }
    }

    /// The ticket that lets its holder connect to this listener at `addresses`.
    pub fn ticket(&self, addresses: Vec<SocketAddr>) -> Ticket {
        Ticket {
            version: Ticket::VERSION,
            id: self.ticket_id,
            public_key: self.identity.id().0,
            secret: *self.psk,
            addresses,
            relays: Vec::new(),
            lent: manyway_wire::LentAccess::default(),
        }
    }

    /// What the listener is found by at a relay, by whoever has the ticket.
    pub fn relay_name(&self, relay: &RelayId) -> ListenerName {
        relay_name(&self.psk, relay)
    }

    /// What the listener shows to be found at a relay over TCP, by whoever has the ticket.
    pub fn listen_key(&self, relay: &RelayId) -> ListenKey {
        listen_key(&self.psk, relay)
    }

    /// The ticket's id, by which the listener knows which of its tickets a peer holds.
    pub fn ticket_id(&self) -> [u8; 8] {
        self.ticket_id
    }

    /// The listener's static key pair. An endpoint that connects with it is known by the same id as
    /// this listener.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What the holders of the ticket know the listener by.
    pub fn id(&self) -> PeerId {
        self.identity.id()
    }

    /// The secrets as they are stored: ticket id (8 bytes), private key (32), pre-shared key (32).
    pub fn to_bytes(&self) -> Zeroizing<[u8; Secrets::BYTES]> {
        let mut bytes = Zeroizing::new([0; Self::BYTES]);
        bytes[..TICKET_ID_LEN].copy_from_slice(&self.ticket_id);
        bytes[TICKET_ID_LEN..][..KEY_LEN].copy_from_slice(self.private_key());
        bytes[TICKET_ID_LEN + KEY_LEN..].copy_from_slice(&*self.psk);
        bytes
    }

    /// Reads what [`Secrets::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`SecretsError`] if the length is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Secrets, SecretsError> {
        let array = bytes
            .try_into()
            .map_err(|_| SecretsError { len: bytes.len() })?;
        Ok(Secrets::from_array(array))
    }

    pub(super) fn private_key(&self) -> &[u8; KEY_LEN] {
        self.identity.private_key()
    }

    pub(super) fn psk(&self) -> &[u8; PSK_LEN] {
        &self.psk
    }

    fn from_array(bytes: &[u8; Secrets::BYTES]) -> Secrets {
        let mut private_key = Zeroizing::new([0; KEY_LEN]);
        private_key.copy_from_slice(&bytes[TICKET_ID_LEN..][..KEY_LEN]);
        let mut secrets = Secrets {
            ticket_id: [0; TICKET_ID_LEN],
            identity: Identity::from_bytes(&private_key),
            psk: Zeroizing::new([0; PSK_LEN]),
        };
        secrets.ticket_id.copy_from_slice(&bytes[..TICKET_ID_LEN]);
        secrets
            .psk
            .copy_from_slice(&bytes[TICKET_ID_LEN + KEY_LEN..]);
        secrets
    }
}

/// The name of a ticket's listener at a relay: each relay sees another one.
pub(crate) fn relay_name(ticket_secret: &[u8; PSK_LEN], relay: &RelayId) -> ListenerName {
    ListenerName(for_relay(ticket_secret, b"manyway relay name", relay))
}

/// What a ticket's listener shows at a relay over TCP: its [name](listener_name) there is a hash of
/// it.
pub fn listen_key(ticket_secret: &[u8; PSK_LEN], relay: &RelayId) -> ListenKey {
    ListenKey(for_relay(ticket_secret, b"manyway relay listen key", relay))
}

/// What a listener with this key is called by at a relay over TCP.
pub fn listener_name(key: &ListenKey) -> ListenerName {
    let hash = digest(&SHA256, &key.hashed_bytes());
    let mut name = [0; ListenerName::LEN];
    name.copy_from_slice(&hash.as_ref()[..ListenerName::LEN]);
    ListenerName(name)
}

fn for_relay(ticket_secret: &[u8; PSK_LEN], purpose: &[u8], relay: &RelayId) -> [u8; 16] {
    let secret = Salt::none(HKDF_SHA256).extract(ticket_secret);
    let info = [purpose];
    let key = secret
        .expand(&info, hmac::HMAC_SHA256)
        .expect("HKDF gives up to 8160 bytes");
    let whole = hmac::sign(&key.into(), &relay.0);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&whole.as_ref()[..16]);
    bytes
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets")
            .field("ticket_id", &self.ticket_id)
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// The keys of `mac1` and of what hides a cookie: who can't make a `mac1` doesn't hold the ticket,
/// and costs no Diffie-Hellman.
pub(super) struct Mac1 {
    key: hmac::Key,
    mask: hmac::Key,
}

impl Mac1 {
    pub(super) const LEN: usize = manyway_wire::MAC1_LEN;

    pub(super) fn new(ticket_secret: &[u8; PSK_LEN]) -> Mac1 {
        let secret = Salt::none(HKDF_SHA256).extract(ticket_secret);
        let key = |label: &'static [u8]| -> hmac::Key {
            let label = [label];
            let key = secret
                .expand(&label, hmac::HMAC_SHA256)
                .expect("HKDF gives up to 8160 bytes");
            key.into()
        };
        Mac1 {
            key: key(b"manyway mac1"),
            mask: key(b"manyway cookie"),
        }
    }

    /// What a cookie is masked with, in answer to the INIT with this `mac1`.
    pub(super) fn mask(&self, nonce: &[u8], init_mac1: &[u8]) -> [u8; 16] {
        let tag = hmac::sign(&self.mask, &[nonce, init_mac1].concat());
        *tag.as_ref()
            .first_chunk()
            .expect("HMAC-SHA256 gives 32 bytes")
    }

    pub(super) fn sign(&self, bytes: &[u8]) -> [u8; Mac1::LEN] {
        hmac::sign(&self.key, bytes)
            .as_ref()
            .try_into()
            .expect("HMAC-SHA256 gives 32 bytes")
    }

    /// Whether `mac` is the right one for `bytes`, in constant time.
    pub(super) fn verify(&self, bytes: &[u8], mac: &[u8]) -> bool {
        hmac::verify(&self.key, bytes, mac).is_ok()
    }
}
