use std::fmt;

use manyway_wire::PeerId;
use rand::CryptoRng;
use zeroize::Zeroizing;

use super::noise::{KEY_LEN, public_key};

/// A static key pair (X25519) that stays the same, so that peers know who connects.
///
/// The private key is the whole secret. It is zeroed when dropped; `Debug` shows the id only.
#[derive(Clone)]
pub struct Identity {
    private_key: Zeroizing<[u8; KEY_LEN]>,
    id: PeerId,
}

impl Identity {
    /// Length of [`Identity::to_bytes`].
    pub const BYTES: usize = KEY_LEN;

    /// A new identity. Same generator state, same identity.
    pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Identity {
        let mut private_key = Zeroizing::new([0; KEY_LEN]);
        rng.fill_bytes(&mut *private_key);
        Identity::from_bytes(&private_key)
    }

    /// That of this private key. Any 32 bytes are one.
    pub fn from_bytes(private_key: &[u8; Identity::BYTES]) -> Identity {
        Identity {
            private_key: Zeroizing::new(*private_key),
            id: PeerId(public_key(private_key)),
        }
    }

    /// The private key, to be stored where nobody else can read it.
    pub fn to_bytes(&self) -> Zeroizing<[u8; Identity::BYTES]> {
        self.private_key.clone()
    }

    /// What others know it by: the public key.
    pub fn id(&self) -> PeerId {
        self.id
    }

    pub(super) fn private_key(&self) -> &[u8; KEY_LEN] {
        &self.private_key
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.id).finish()
    }
}
