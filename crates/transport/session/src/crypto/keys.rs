//! The AEAD behind a trait, and the chain of keys that epochs walk along.

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use zeroize::Zeroizing;

use super::error::{OpenError, SealError};
use super::packet_key::PacketKey;
use super::{Suite, Tag};

const KEY_LEN: usize = 32;
const IV_LEN: usize = 12;

/// A packet key by aws-lc. The key schedule lives inside the library, which cleans it when freed.
struct AeadKey {
    key: LessSafeKey,
    iv: Zeroizing<[u8; IV_LEN]>,
}

impl AeadKey {
    fn nonce(&self, path: u32, packet_number: u64) -> Nonce {
        Nonce::assume_unique_for_key(nonce(&self.iv, path, packet_number))
    }
}

impl PacketKey for AeadKey {
    fn seal_in_place(
        &self,
        path: u32,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, SealError> {
        let nonce = self.nonce(path, packet_number);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(header), payload)
            .map_err(|_| SealError::TooLong)?;
        Ok(tag
            .as_ref()
            .try_into()
            .expect("both suites have tags of TAG_LEN bytes"))
    }

    fn open_in_place<'a>(
        &self,
        path: u32,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a mut [u8], OpenError> {
        let nonce = self.nonce(path, packet_number);
        self.key
            .open_in_place(nonce, Aad::from(header), payload)
            .map_err(|_| OpenError::Forged)
    }
}

/// IV ⊕ (path id ‖ packet number): one-to-one, so distinct packets have distinct nonces.
pub(super) fn nonce(iv: &[u8; IV_LEN], path: u32, packet_number: u64) -> [u8; IV_LEN] {
    let mut nonce = *iv;
    let counter = path
        .to_be_bytes()
        .into_iter()
        .chain(packet_number.to_be_bytes());
    for (byte, count) in nonce.iter_mut().zip(counter) {
        *byte ^= count;
    }
    nonce
}

/// Which way the packets go.
#[derive(Copy, Clone)]
pub(super) enum Direction {
    FromInitiator,
    FromResponder,
}

/// The not yet used end of one direction's chain of keys.
pub(super) struct Chain {
    suite: Suite,
    /// The secret of the next key to be handed out; the library zeroes it when dropped.
    secret: Prk,
}

impl Chain {
    pub(super) fn new(
        suite: Suite,
        direction: Direction,
        material: &[u8; 32],
        handshake_hash: &[u8],
    ) -> Chain {
        let label: &[u8] = match direction {
            Direction::FromInitiator => b"manyway from initiator ",
            Direction::FromResponder => b"manyway from responder ",
        };
        let root = Salt::new(HKDF_SHA256, handshake_hash).extract(material);
        Chain {
            suite,
            secret: expand_secret(&root, &[label, suite.name().as_bytes()]),
        }
    }

    /// The next epoch's key. The secret it came from is gone afterwards, so that a key found later
    /// tells nothing of earlier epochs.
    pub(super) fn next_key(&mut self) -> Box<dyn PacketKey> {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        let mut iv = Zeroizing::new([0; IV_LEN]);
        expand(&self.secret, &[b"manyway key"], &mut *key);
        expand(&self.secret, &[b"manyway iv"], &mut *iv);
        self.secret = expand_secret(&self.secret, &[b"manyway next"]);
        let algorithm = match self.suite {
            Suite::Aes256Gcm => &AES_256_GCM,
            Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            #[cfg(feature = "simulation")]
            Suite::Checksum => return Box::new(super::checksum::ChecksumKey::new(&key)),
        };
        let key = UnboundKey::new(algorithm, &*key).expect("both suites have keys of KEY_LEN");
        Box::new(AeadKey {
            key: LessSafeKey::new(key),
            iv,
        })
    }
}

/// HKDF-Expand's output length.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand(secret: &Prk, info: &[&[u8]], out: &mut [u8]) {
    secret
        .expand(info, Length(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("HKDF gives up to 8160 bytes");
}

fn expand_secret(secret: &Prk, info: &[&[u8]]) -> Prk {
    secret
        .expand(info, HKDF_SHA256)
        .expect("HKDF gives up to 8160 bytes")
        .into()
}
