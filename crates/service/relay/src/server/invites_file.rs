use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use manyway_os::secret::{self, SecretError, Watch};

use crate::Invites;
use crate::invites::InvitesError;

/// The files are never longer.
const LONGEST: u64 = 2 << 20;
/// How often a relay looks whether its file has changed.
const PERIOD: Duration = Duration::from_secs(1);

/// A relay's list of invitations, in a file beside its key file, with `.invites` at the end of its
/// name. There are no secrets in it, but it isn't for everybody either: only its owner can read it.
#[derive(Clone, Debug)]
pub struct InvitesFile {
    path: PathBuf,
    key_file: PathBuf,
}

/// Why a list of invitations can't be used or changed.
#[derive(Debug, thiserror::Error)]
pub enum InvitesFileError {
    /// The file can't be read or written, or others can read it.
    #[error(transparent)]
    File(#[from] SecretError),
    /// The file was there before.
    #[error("{0} is gone")]
    Gone(PathBuf),
    /// Another process can't be kept from changing the file at the same time.
    #[error("can't lock the directory {path}: {error}")]
    Lock {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// It isn't a list.
    #[error("{path}: {error}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        error: InvitesError,
    },
    /// The change isn't possible.
    #[error(transparent)]
    Change(InvitesError),
}

impl InvitesFile {
    /// The list of the relay with this key file.
    pub fn beside(key_file: &Path) -> Self {
        let mut name = key_file.as_os_str().to_owned();
        name.push(".invites");
        Self {
            path: name.into(),
            key_file: key_file.to_owned(),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it. If there is no file, nobody is invited.
    ///
    /// # Errors
    /// [`InvitesFileError`].
    pub fn read(&self) -> Result<Invites, InvitesFileError> {
        parse(&self.path, secret::read(&self.path, LONGEST)?)
    }

    /// Changes it while nobody else does, and leaves out what has ended at `now`, Unix time. A
    /// running relay notices within some seconds.
    ///
    /// # Errors
    /// [`InvitesFileError`].
    pub fn change<T>(
        &self,
        now: Duration,
        change: impl FnOnce(&mut Invites) -> Result<T, InvitesError>,
    ) -> Result<T, InvitesFileError> {
        let parent = self.path.parent().filter(|it| !it.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        // Until it is dropped. The file itself is replaced, so a lock of it would lock nothing.
        let _locked = lock(parent).map_err(|error| InvitesFileError::Lock {
            path: parent.to_owned(),
            error,
        })?;
        let mut list = self.read()?;
        let before = list.clone();
        list.forget_ended(u32::try_from(now.as_secs()).unwrap_or(u32::MAX));
        let done = change(&mut list).map_err(InvitesFileError::Change)?;
        if list != before {
            secret::replace(&self.path, &list.to_text())?;
            self.hand_over().map_err(|error| SecretError::Write {
                path: self.path.clone(),
                error,
            })?;
        }
        Ok(done)
    }

    /// Gives the file to the owner of the relay's key: the relay has to read what root has written.
    fn hand_over(&self) -> io::Result<()> {
        match fs::metadata(&self.key_file) {
            Ok(key) if key.uid() != fs::metadata(&self.path)?.uid() => {
                chown(&self.path, Some(key.uid()), Some(key.gid()))
            }
            // Without a key there is no relay yet.
            _ => Ok(()),
        }
    }

    /// Reads it, and follows its changes.
    pub(super) fn watch(&self) -> Result<(Watched, Invites), InvitesFileError> {
        let (watch, text) = Watch::start(&self.path, LONGEST)?;
        let list = parse(&self.path, text)?;
        let next = Instant::now() + PERIOD;
        Ok((Watched { watch, next }, list))
    }
}

fn lock(dir: &Path) -> io::Result<File> {
    let dir = File::open(dir)?;
    dir.lock()?;
    Ok(dir)
}

fn parse(path: &Path, text: Option<impl AsRef<str>>) -> Result<Invites, InvitesFileError> {
    let Some(text) = text else {
        return Ok(Invites::default());
    };
    Invites::parse(text.as_ref()).map_err(|error| InvitesFileError::Content {
        path: path.to_owned(),
        error,
    })
}

/// A list that a running relay follows.
pub(super) struct Watched {
    watch: Watch,
    next: Instant,
}

impl Watched {
    /// The new list, if there is one. One that is gone or can't be read is told once, and the relay
    /// goes on with the list that it has: a mistake allows nobody who was refused.
    pub(super) fn changed(&mut self) -> Option<Invites> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.next = now + PERIOD;
        let path = self.watch.path().to_owned();
        let text = self.watch.changed()?;
        let list = text
            .map_err(InvitesFileError::from)
            .and_then(|text| match text {
                Some(text) => parse(&path, Some(text)),
                None => Err(InvitesFileError::Gone(path)),
            });
        list.inspect_err(|error| {
            tracing::error!(%error, "can't read the list of invitations again; the relay goes on \
                with the one it had");
        })
        .ok()
    }
}

#[cfg(test)]
mod tests {
    use manyway_wire::relay::RateClass;

    use super::*;
    use crate::AccountTag;
    use crate::invites::Invite;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn invite(number: u8, expires: Duration) -> Invite {
        Invite {
            account: AccountTag([number; 8]),
            name: None,
            class: RateClass::MAX,
            created: NOW.as_secs() as u32,
            expires: expires.as_secs() as u32,
            revoked: false,
        }
    }

    #[test]
    fn changes_are_on_disk_and_what_has_ended_goes() {
        let dir = tempfile::tempdir().unwrap();
        let file = InvitesFile::beside(&dir.path().join("relay.key"));
        assert_eq!(file.path(), dir.path().join("relay.key.invites"));
        assert_eq!(file.read().unwrap(), Invites::default());
        let end = NOW + Duration::from_secs(10);
        file.change(NOW, |list| list.add(invite(1, end))).unwrap();
        let later = end + Duration::from_secs(5);
        file.change(NOW, |list| list.add(invite(2, later))).unwrap();
        assert_eq!(file.read().unwrap().iter().count(), 2);
        let tag = AccountTag([2; 8]);
        file.change(end, |list| list.revoke(tag, || unreachable!()))
            .unwrap();
        let left = file.read().unwrap();
        assert!(left.iter().count() == 1 && left.revoked().contains(&tag));
    }

    #[test]
    fn a_change_that_fails_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = InvitesFile::beside(&dir.path().join("relay.key"));
        fs::write(file.path(), "something else").unwrap();
        fs::set_permissions(
            file.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        )
        .unwrap();
        let error = file.change(NOW, |list| list.add(invite(1, NOW)));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("relay.key.invites: this isn't a relay's list"),
            "{error}"
        );
        assert_eq!(fs::read(file.path()).unwrap(), b"something else");
        fs::remove_dir_all(dir.path()).unwrap();
        let error = file.change(NOW, |list| list.add(invite(1, NOW)));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("can't lock the directory"), "{error}");
    }

    /// Otherwise an invitation by root would keep the relay from its list.
    #[test]
    fn the_list_is_the_relays_whoever_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let key_file = dir.path().join("relay.key");
        fs::write(&key_file, "").unwrap();
        if chown(&key_file, Some(12_345), Some(54_321)).is_err() {
            // Only root can have others' files.
            return;
        }
        let file = InvitesFile::beside(&key_file);
        for number in 1..3 {
            let end = NOW + Duration::from_secs(10);
            file.change(NOW, |list| list.add(invite(number, end)))
                .unwrap();
            let written = fs::metadata(file.path()).unwrap();
            let found = (written.uid(), written.gid(), written.mode() & 0o777);
            assert_eq!(found, (12_345, 54_321, 0o600));
        }
    }

    #[test]
    fn a_list_stays_in_force_when_it_is_gone_or_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let file = InvitesFile::beside(&dir.path().join("relay.key"));
        let (mut watched, list) = file.watch().unwrap();
        assert_eq!(list, Invites::default());
        // What a relay finds in two looks: at the first one, somebody may still be writing.
        let mut look = || {
            let looks = [0, 1].map(|_| {
                watched.next = Instant::now();
                watched.changed()
            });
            let [None, found] = looks else {
                panic!("{looks:?}")
            };
            found
        };
        let end = NOW + Duration::from_secs(10);
        file.change(NOW, |list| list.add(invite(1, end))).unwrap();
        let good = look().unwrap();
        assert_eq!(good.iter().count(), 1);
        fs::remove_file(file.path()).unwrap();
        assert_eq!(look(), None);
        secret::replace(file.path(), "damaged").unwrap();
        assert_eq!(look(), None);
        secret::replace(file.path(), &good.to_text()).unwrap();
        assert_eq!(look(), Some(good));
        // It looks once a second only.
        watched.next = Instant::now() + PERIOD;
        fs::remove_file(file.path()).unwrap();
        assert_eq!(watched.changed(), None);
    }

    /// As two commands at a time do.
    #[test]
    fn no_change_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let file = InvitesFile::beside(&dir.path().join("relay.key"));
        let end = NOW + Duration::from_secs(10);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    for number in 0..10 {
                        let invite = invite(10 * thread + number, end);
                        file.change(NOW, |list| list.add(invite)).unwrap();
                    }
                });
            }
        });
        assert_eq!(file.read().unwrap().iter().count(), 40);
    }
}
