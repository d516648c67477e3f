use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::CryptoRng;
use zeroize::Zeroizing;

use crate::{Keys, KeysError};

/// No key file is longer.
const LONGEST: u64 = 4096;

/// A relay's keys in a file that is its owner's alone.
pub struct KeyFile {
    path: PathBuf,
    keys: Keys,
}

/// Why a key file can't be used. Never quotes what is in it.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Others can read it.
    #[error(
        "others than its owner can read the key file {path} (mode {mode:04o}): run chmod 600 {path}, and if \
         somebody may have read it, remove it instead, to start with a new identity"
    )]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It can't be read.
    #[error("can't read the key file {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// It can't be written.
    #[error("can't write the key file {path}: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// It isn't what it should be.
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
    /// Reads the file, or makes it with new keys, mode 0600, where there is none.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn open(
        path: &Path,
        now: Duration,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<Self, KeyFileError> {
        let keys = match read(path)? {
            Some(text) => Keys::from_text(&text).map_err(|error| KeyFileError::Content {
                path: path.to_owned(),
                error,
            })?,
            None => {
                let keys = Keys::generate(now, rng);
                write(path, &keys)?;
                keys
            }
        };
        Ok(Self {
            path: path.to_owned(),
            keys,
        })
    }

    /// The keys, once more.
    pub fn keys(&self) -> Keys {
        Keys::from_text(&self.keys.to_text()).expect("what we write, we can read")
    }

    /// When the newest key was made: Unix time.
    pub fn newest(&self) -> Duration {
        self.keys.newest()
    }

    /// Makes new keys and writes them before it hands them out; none if it is too early.
    ///
    /// # Errors
    /// They can't be written: the old ones stay.
    pub fn rotate(
        &mut self,
        now: Duration,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<Option<Keys>, KeyFileError> {
        let mut keys = self.keys();
        if !keys.rotate(now, rng) {
            return Ok(None);
        }
        write(&self.path, &keys)?;
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

fn read(path: &Path) -> Result<Option<Zeroizing<String>>, KeyFileError> {
    let failed = |error| KeyFileError::Read {
        path: path.to_owned(),
        error,
    };
    let file = match fs::OpenOptions::new()
        .read(true)
        .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(path)
    {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(io::Error::other("it is no regular file")));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(KeyFileError::Mode {
            path: path.to_owned(),
            mode: metadata.mode() & 0o7777,
        });
    }
    let mut text = Zeroizing::new(String::with_capacity(LONGEST as usize));
    file.take(LONGEST)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(Some(text))
}

/// At once or not at all, and on disk before it is used.
fn write(path: &Path, keys: &Keys) -> Result<(), KeyFileError> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let written = || -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o600))
            .tempfile_in(parent)?;
        file.write_all(keys.to_text().as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    written().map_err(|error| KeyFileError::Write {
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use manyway_wire::relay::GRANT_LIFE;
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn open(path: &Path, seed: u64) -> Result<KeyFile, KeyFileError> {
        KeyFile::open(path, NOW, &mut ChaCha20Rng::seed_from_u64(seed))
    }

    #[test]
    fn keys_are_made_once_and_for_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("relay.key");
        let made = open(&path, 1).unwrap().keys().id();
        assert_eq!(open(&path, 2).unwrap().keys().id(), made);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("relay.key");
        open(&path, 1).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = open(&path, 1).unwrap_err().to_string();
        assert!(
            error.contains("mode 0640") && error.contains("chmod 600"),
            "{error}"
        );
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
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        // Where it can't be written, the old keys stay.
        fs::remove_dir_all(dir.path()).unwrap();
        let before = file.keys().to_text();
        file.rotate(NOW + 3 * GRANT_LIFE, &mut rng).unwrap_err();
        assert_eq!(file.keys().to_text(), before);
    }

    #[test]
    fn what_is_no_key_file_is_named_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let error = open(dir.path(), 1).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
        let path = dir.path().join("other");
        fs::write(&path, "a secret of somebody's").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = open(&path, 1).unwrap_err().to_string();
        assert!(
            error.contains("no key file") && !error.contains("secret"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"a secret of somebody's");
        let error = open(&dir.path().join("missing/relay.key"), 1).unwrap_err();
        assert!(matches!(error, KeyFileError::Write { .. }), "{error}");
    }
}
