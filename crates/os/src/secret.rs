//! Files with secrets: mode 0600, written at once or not at all, refused where others can read
//! them.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use crate::file::system_error;

/// A file with secrets can't be used. Never quotes the file's content.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Others can read it.
    #[error(
        "users other than the owner can read {path} (mode {mode:04o}): run chmod 600 {path}, or \
         remove it and make a new one if somebody may have read it"
    )]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It can't be read.
    #[error("can't read {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// It can't be written.
    #[error("can't write {path}: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
}

/// The file's text; `None` if the file doesn't exist.
///
/// # Errors
/// It can't be read, is no text, has more than `longest` bytes, or others can read it.
pub fn read(path: &Path, longest: u64) -> Result<Option<Zeroizing<String>>, SecretError> {
    let failed = |error| SecretError::Read {
        path: path.to_owned(),
        error,
    };
    // A pipe without a writer must not keep us waiting.
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(io::Error::other("it is no regular file")));
    }
    if metadata.len() > longest {
        let error = format!("it has more than {longest} bytes, so it isn't what it should be");
        return Err(failed(io::Error::other(error)));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(SecretError::Mode {
            path: path.to_owned(),
            mode: metadata.mode() & 0o7777,
        });
    }
    // With room for all of it, no copy is left behind where the text grew.
    let mut text = Zeroizing::new(String::with_capacity(metadata.len() as usize + 1));
    file.take(metadata.len())
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(Some(text))
}

/// Makes a new file. If the file exists, it stays, and this is an error.
///
/// # Errors
/// The file exists already, or can't be written.
pub fn create(path: &Path, text: &str) -> Result<(), SecretError> {
    write(path, text, |file| file.persist_noclobber(path))
}

/// Makes a file, or replaces an existing one.
///
/// # Errors
/// It can't be written; an existing file stays.
pub fn replace(path: &Path, text: &str) -> Result<(), SecretError> {
    write(path, text, |file| file.persist(path))
}

/// Notices that a file with secrets has changed.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    longest: u64,
    /// The file whose text the caller has.
    read: Option<Stamp>,
    /// The file as it was when we last looked.
    seen: Option<Stamp>,
}

/// What tells whether a file has changed, without reading it: inode, size, mode, time of change.
type Stamp = (u64, u64, u32, (i64, i64));

impl Watch {
    /// Watches a file of at most `longest` bytes from now on, and reads it: `None` if it doesn't
    /// exist.
    ///
    /// # Errors
    /// As [`read`].
    pub fn start(
        path: &Path,
        longest: u64,
    ) -> Result<(Self, Option<Zeroizing<String>>), SecretError> {
        // Before the text, so that a change while we read it is noticed later.
        let stamp = stamp(path);
        let text = read(path, longest)?;
        let watch = Self {
            path: path.to_owned(),
            longest,
            read: stamp,
            seen: stamp,
        };
        Ok((watch, text))
    }

    /// The file's text if it has changed since it was last returned, and if it has stayed as it is
    /// since the call before: somebody may still be writing it. Call it once a second or so.
    ///
    /// # Errors
    /// As [`read`], once for each change.
    pub fn changed(&mut self) -> Option<Result<Option<Zeroizing<String>>, SecretError>> {
        let now = stamp(&self.path);
        let settled = std::mem::replace(&mut self.seen, now) == now;
        if !settled || now == self.read {
            return None;
        }
        self.read = now;
        Some(read(&self.path, self.longest))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    Some((metadata.ino(), metadata.len(), metadata.mode(), changed))
}

/// On disk before anybody uses it.
fn write(
    path: &Path,
    text: &str,
    persist: impl FnOnce(NamedTempFile) -> Result<fs::File, tempfile::PersistError>,
) -> Result<(), SecretError> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let written = || -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o600))
            .tempfile_in(parent)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        persist(file)?;
        Ok(())
    };
    written().map_err(|error| SecretError::Write {
        path: path.to_owned(),
        error: system_error(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_written_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        assert!(read(&path, 100).unwrap().is_none());
        create(&path, "first").unwrap();
        assert_eq!(mode(&path), 0o600);
        create(&path, "second").unwrap_err();
        assert_eq!(*read(&path, 100).unwrap().unwrap(), "first");
        replace(&path, "third").unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(*read(&path, 100).unwrap().unwrap(), "third");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        create(&path, "words").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = read(&path, 100).unwrap_err().to_string();
        assert!(
            error.contains("mode 0640") && error.contains("chmod 600") && !error.contains("words"),
            "{error}"
        );
    }

    #[test]
    fn a_change_is_noticed_once_it_has_settled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let (mut watch, text) = Watch::start(&path, 100).unwrap();
        assert_eq!(text, None);
        let mut changed = || {
            let text = watch.changed()?.unwrap();
            Some(text.map(|text| text.to_string()))
        };
        assert_eq!(changed(), None);
        for words in ["first", "other"] {
            replace(&path, words).unwrap();
            assert_eq!(changed(), None, "it may still be written");
            assert_eq!(changed(), Some(Some(words.to_owned())));
            assert_eq!(changed(), None);
        }
        fs::remove_file(&path).unwrap();
        assert_eq!((changed(), changed(), changed()), (None, Some(None), None));
        // Written in two steps, between which somebody looks.
        replace(&path, "on").unwrap();
        assert_eq!(changed(), None);
        let file = fs::OpenOptions::new().append(true).open(&path);
        file.unwrap().write_all(b"ce").unwrap();
        assert_eq!(
            (changed(), changed()),
            (None, Some(Some("once".to_owned())))
        );
        // What can't be read is told once for each change.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(watch.changed().is_none() && watch.changed().unwrap().is_err());
        assert!(watch.changed().is_none());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(watch.changed().is_none() && watch.changed().unwrap().is_ok());
    }

    #[test]
    fn what_is_no_such_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = read(dir.path(), 100).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
        let path = dir.path().join("long");
        create(&path, &"x".repeat(101)).unwrap();
        let error = read(&path, 100).unwrap_err().to_string();
        assert!(error.contains("more than 100 bytes"), "{error}");
        let missing = dir.path().join("missing/key");
        let error = create(&missing, "words").unwrap_err().to_string();
        assert!(
            error.ends_with("No such file or directory (os error 2)"),
            "{error}"
        );
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = read(&fifo, 100).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
    }
}
