//! A registry's identity: its key and the file that holds it.

use std::fmt;
use std::path::{Path, PathBuf};

use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::signature::Ed25519KeyPair;
use data_encoding::HEXLOWER;
use manyway_os::secret::{self, SecretError};
use manyway_relay::keys::{public_key, sign};
use manyway_wire::relay::{RelayId, Voucher, VoucherTerms};
use rand::CryptoRng;
use zeroize::Zeroizing;

use crate::hkdf::Len32;

const HEADER: &str = "manyway registry key 1";

/// Key files are never longer.
const LONGEST: u64 = 4096;

/// A registry's Ed25519 key. It signs vouchers and, unless the registry has a certificate of
/// another kind, proves the registry's identity in TLS. The contexts of these signatures differ
/// (RFC 8446, section 4.4.3), so neither passes for the other. Registries that serve one fleet
/// share it. Zeroed when dropped; `Debug` shows the public key only.
#[derive(Clone)]
pub struct RegistryKey {
    seed: Zeroizing<[u8; 32]>,
    id: RelayId,
}

/// Why a key file can't be used. Never quotes its contents.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It can't be read or written, or others can read it.
    #[error(transparent)]
    File(#[from] SecretError),
    /// It isn't a key file.
    #[error(
        "{0} isn't a registry's key file: restore it from a copy, or remove it to start with a \
         new identity"
    )]
    Content(PathBuf),
}

impl RegistryKey {
    /// A new key. The same generator state gives the same key.
    pub fn generate(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        Self::new(seed)
    }

    /// Reads the file. If there is none, makes one with a new key and mode 0600.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn open(path: &Path, rng: &mut (impl CryptoRng + ?Sized)) -> Result<Self, KeyError> {
        let Some(text) = secret::read(path, LONGEST)? else {
            let key = Self::generate(rng);
            let hex = Zeroizing::new(HEXLOWER.encode(&*key.seed));
            secret::create(path, &format!("{HEADER}\n{}\n", *hex))?;
            return Ok(key);
        };
        text.strip_prefix(HEADER)
            .and_then(|hex| HEXLOWER.decode(hex.trim().as_bytes()).ok())
            .and_then(|bytes| Some(Self::new(Zeroizing::new(bytes.try_into().ok()?))))
            .ok_or_else(|| KeyError::Content(path.to_owned()))
    }

    fn new(seed: Zeroizing<[u8; 32]>) -> Self {
        let id = RelayId(public_key(&seed).0);
        Self { seed, id }
    }

    /// The public key, which relays trust.
    pub fn id(&self) -> RelayId {
        self.id
    }

    /// The voucher with its signature.
    pub(crate) fn vouch(&self, terms: VoucherTerms) -> Voucher {
        terms.seal(|bytes| sign(&self.seed, bytes))
    }

    /// A secret for one purpose, which doesn't reveal the key.
    pub(crate) fn derive(&self, purpose: &[u8]) -> Zeroizing<[u8; 32]> {
        let mut secret = Zeroizing::new([0; 32]);
        Salt::none(HKDF_SHA256)
            .extract(&*self.seed)
            .expand(&[purpose], Len32)
            .and_then(|okm| okm.fill(&mut *secret))
            .expect("HKDF gives up to 8160 bytes");
        secret
    }

    /// As PKCS #8, for a certificate.
    pub(crate) fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        let pair =
            Ed25519KeyPair::from_seed_unchecked(&*self.seed).expect("any 32 bytes are a seed");
        let document = pair.to_pkcs8v1().expect("a key pair can be written");
        Zeroizing::new(document.as_ref().to_vec())
    }
}

impl fmt::Debug for RegistryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;

    use super::*;

    #[test]
    fn a_key_survives_in_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registry.key");
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let key = RegistryKey::open(&path, &mut rng).unwrap();
        assert_eq!(RegistryKey::open(&path, &mut rng).unwrap().id(), key.id());
        assert!(!format!("{key:?}").contains(&HEXLOWER.encode(&*key.seed)));
        fs::write(&path, "secret words").unwrap();
        let error = RegistryKey::open(&path, &mut rng).unwrap_err().to_string();
        assert!(
            error.contains("isn't a registry's key file") && !error.contains("words"),
            "{error}"
        );
    }
}
