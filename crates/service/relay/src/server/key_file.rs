use std::path::{Path, PathBuf};
use std::time::Duration;

use manyway_os::secret::{self, SecretError};
use rand::CryptoRng;

use crate::{Keys, KeysError};

/// Key files are never longer.
const LONGEST: u64 = 4096;
/// After a failure to write the file.
const RETRY: Duration = Duration::from_secs(60);

/// A relay's keys in a file that only its owner can read.
pub struct KeyFile {
    path: PathBuf,
    keys: Keys,
    /// Before that, there is no use in trying to write the file again.
    retry: Duration,
}

/// Why a key file can't be used. Never quotes its contents.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It can't be read or written, or others can read it.
    #[error(transparent)]
    File(#[from] SecretError),
    /// It isn't a key file.
    #[error("the key file {path} can't be used: {error}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        error: KeysError,
    },
}

impl KeyFile {
    /// Reads the file. If there is none, makes one with new keys and mode 0600.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn open(
        path: &Path,
        now: Duration,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<Self, KeyFileError> {
        let keys = match secret::read(path, LONGEST)? {
            Some(text) => Keys::from_text(&text).map_err(|error| KeyFileError::Content {
                path: path.to_owned(),
                error,
            })?,
            None => {
                let keys = Keys::generate(now, rng);
                secret::create(path, &keys.to_text())?;
                keys
            }
        };
        Ok(Self {
            path: path.to_owned(),
            keys,
            retry: Duration::ZERO,
        })
    }

    /// A copy of the keys.
    pub fn keys(&self) -> Keys {
        Keys::from_text(&self.keys.to_text()).expect("what we write, we can read")
    }

    /// When the newest key was made: Unix time.
    pub(crate) fn newest(&self) -> Duration {
        self.keys.newest()
    }

    /// Makes new keys and writes them to the file before it returns them. Returns `None` if it is
    /// too early.
    ///
    /// # Errors
    /// They can't be written. The old ones stay, and it is too early for the next minute.
    pub fn rotate(
        &mut self,
        now: Duration,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<Option<Keys>, KeyFileError> {
        if now < self.retry {
            return Ok(None);
        }
        let mut keys = self.keys();
        if !keys.rotate(now, rng) {
            return Ok(None);
        }
        self.retry = now + RETRY;
        secret::replace(&self.path, &keys.to_text())?;
        self.keys = keys;
        Ok(Some(self.keys()))
    }
}

impl std::fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyFile")
            .field("path", &self.path)
            .field("keys", &self.keys)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use manyway_wire::relay::GRANT_LIFE;
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn open(path: &Path, seed: u64) -> Result<KeyFile, KeyFileError> {
        KeyFile::open(path, NOW, &mut ChaCha20Rng::seed_from_u64(seed))
    }

    #[test]
    fn keys_are_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("relay.key");
        let made = open(&path, 1).unwrap().keys().id();
        assert_eq!(open(&path, 2).unwrap().keys().id(), made);
    }

    #[test]
    fn rotation_is_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("relay.key");
        let mut file = open(&path, 1).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        assert!(file.rotate(NOW, &mut rng).unwrap().is_none());
        let rotated = file.rotate(NOW + GRANT_LIFE, &mut rng).unwrap().unwrap();
        assert_eq!(open(&path, 1).unwrap().keys().to_text(), rotated.to_text());
        // Where it can't be written, the old keys stay.
        fs::remove_dir_all(dir.path()).unwrap();
        let before = file.keys().to_text();
        let late = NOW + 3 * GRANT_LIFE;
        file.rotate(late, &mut rng).unwrap_err();
        assert_eq!(file.keys().to_text(), before);
        // Nobody needs to hear of it ten times a second.
        let soon = file.rotate(late + Duration::from_secs(59), &mut rng);
        assert!(soon.unwrap().is_none());
        fs::create_dir(dir.path()).unwrap();
        let rotated = file.rotate(late + RETRY, &mut rng).unwrap().unwrap();
        assert_eq!(open(&path, 1).unwrap().keys().to_text(), rotated.to_text());
    }

    #[test]
    fn what_is_no_key_file_is_named_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("other");
        fs::write(&path, "a secret of somebody's").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = open(&path, 1).unwrap_err().to_string();
        assert!(
            error.contains("isn't a relay's key file") && !error.contains("secret"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"a secret of somebody's");
        let error = open(&dir.path().join("missing/relay.key"), 1).unwrap_err();
        assert!(
            matches!(error, KeyFileError::File(SecretError::Write { .. })),
            "{error}"
        );
    }
}
