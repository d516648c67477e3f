//! A file while it is received: it has a temporary name until it is complete, and is removed if the
//! transfer ends before.

use super::tree::{Dir, restore};
use manyway_transfer::conflict::cut;
use manyway_transfer::{
    Conflict, Decision, Digest, Entry, Existing, Failure, Kind, Policy, SafeName, decide,
    failure::Side, numbered,
};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Most names tried for one entry.
pub(super) const MOST_NUMBERS: u32 = 10_000;

/// A file being received, in its final directory.
#[derive(Debug)]
pub(super) struct Part {
    dir: Arc<Dir>,
    /// Its present name; `None` once it has its final one.
    temporary: Option<String>,
    file: File,
    pub(super) entry: Entry,
    #[cfg(test)]
    fault: Option<DiskFault>,
}

impl Part {
    /// A new, empty file beside where `entry` is to be, readable by nobody else.
    pub(super) fn new(dir: Arc<Dir>, entry: Entry) -> Result<Self, Failure> {
        let flags =
            OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        loop {
            let temporary = temporary_name(entry.name.file_name());
            match openat(
                &*dir,
                temporary.as_str(),
                flags,
                Mode::S_IRUSR | Mode::S_IWUSR,
            ) {
                Ok(fd) => {
                    return Ok(Self {
                        dir,
                        temporary: Some(temporary),
                        file: File::from(fd),
                        entry,
                        #[cfg(test)]
                        fault: None,
                    });
                }
                Err(Errno::EEXIST) => {}
                Err(error) => return Err(write_failure("creating", &entry.name, error.into())),
            }
        }
    }

    #[cfg(test)]
    pub(super) fn with_fault(mut self, fault: Option<DiskFault>) -> Self {
        self.fault = fault;
        self
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        #[cfg(test)]
        if let Some(fault) = &self.fault {
            fault
                .strike(bytes.len())
                .map_err(|error| self.failure("writing", error))?;
        }
        self.file
            .write_all(bytes)
            .map_err(|error| self.failure("writing", error))
    }

    /// Gives the complete file its mode and time.
    pub(super) fn restore(&self) -> Result<(), Failure> {
        restore(self.file.as_fd(), &self.entry)
            .map_err(|error| self.failure("setting mode and time", error))
    }

    /// Brings the content to disk.
    pub(super) fn sync(&self) -> Result<(), Failure> {
        self.file
            .sync_all()
            .map_err(|error| self.failure("syncing", error))
    }

    /// Gives the file its final name, and says which.
    pub(super) fn place(&mut self, policy: Policy) -> Result<SafeName, Failure> {
        let Some(temporary) = self.temporary.clone() else {
            return self.local_name(self.entry.name.file_name());
        };
        let wanted = self.entry.name.file_name().to_owned();
        let mut name = wanted.clone();
        for n in 1..=MOST_NUMBERS {
            if self.try_place(&temporary, &name, policy)? {
                self.temporary = None;
                return self.local_name(&name);
            }
            let existing = self
                .dir
                .existing(&name)
                .map_err(|error| self.failure("naming", error))?;
            match decide(policy, Kind::File, existing) {
                Decision::Rename => name = numbered(&wanted, n),
                Decision::Refuse(conflict) => {
                    return Err(Failure::conflict(&self.entry.name, conflict));
                }
                // It is gone again.
                Decision::Create | Decision::Replace | Decision::Merge => {}
            }
        }
        Err(Failure::conflict(&self.entry.name, Conflict::Exists))
    }

    pub(super) fn dir(&self) -> &Arc<Dir> {
        &self.dir
    }

    /// `false`: something is in the way.
    fn try_place(&self, temporary: &str, name: &str, policy: Policy) -> Result<bool, Failure> {
        let dir = &*self.dir;
        let renamed = match policy {
            Policy::Overwrite => overwrite(dir, temporary, name),
            Policy::Refuse | Policy::Rename => rename_new(dir, temporary, name),
        };
        match renamed {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST | Errno::EISDIR | Errno::ENOTDIR) => Ok(false),
            Err(error) => Err(self.failure("naming", error.into())),
        }
    }

    fn local_name(&self, name: &str) -> Result<SafeName, Failure> {
        self.dir
            .local_name(name)
            .map_err(|error| self.failure("naming", error))
    }

    fn failure(&self, doing: &str, error: io::Error) -> Failure {
        write_failure(doing, &self.entry.name, error)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take()
            && let Err(error) = unlinkat(&*self.dir, temporary.as_str(), UnlinkatFlags::NoRemoveDir)
        {
            tracing::warn!(file = %temporary, %error, "can't remove an incomplete file");
        }
    }
}

/// A complete file with its hash.
#[derive(Debug)]
pub(super) struct Complete {
    pub(super) part: Part,
    pub(super) digest: Digest,
}

pub(super) fn write_failure(doing: &str, name: &SafeName, error: io::Error) -> Failure {
    Failure::disk(Side::Receiver, doing, name, &error)
}

/// Renames over a file or a link, never over anything else.
fn overwrite(dir: &Dir, from: &str, to: &str) -> Result<(), Errno> {
    match dir.existing(to) {
        Ok(Existing::Other | Existing::Directory) => Err(Errno::EEXIST),
        // A directory that comes in between makes this fail.
        _ => renameat(dir, from, dir, to),
    }
}

/// Renames unless the new name exists, atomically where the file system can.
fn rename_new(dir: &Dir, from: &str, to: &str) -> Result<(), Errno> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    match nix::fcntl::renameat2(
        dir,
        from,
        dir,
        to,
        nix::fcntl::RenameFlags::RENAME_NOREPLACE,
    ) {
        // Neither does every file system know the flag.
        Err(Errno::EINVAL | Errno::ENOSYS | Errno::ENOTSUP) => {}
        other => return other,
    }
    rename_by_link(dir, from, to)
}

/// The same by a hard link, or, where there are none, by looking first.
fn rename_by_link(dir: &Dir, from: &str, to: &str) -> Result<(), Errno> {
    match linkat(dir, from, dir, to, AtFlags::empty()) {
        Ok(()) => unlinkat(dir, from, UnlinkatFlags::NoRemoveDir),
        Err(Errno::EPERM | Errno::ENOTSUP | Errno::ENOSYS | Errno::EMLINK) => {
            match dir.existing(to) {
                Ok(Existing::Nothing) => renameat(dir, from, dir, to),
                _ => Err(Errno::EEXIST),
            }
        }
        Err(error) => Err(error),
    }
}

/// `.NAME.manyway-part-XXXXXXXX`, with NAME cut to what a component may hold.
fn temporary_name(name: &str) -> String {
    const MARK: &str = ".manyway-part-";
    // Uniqueness is the kernel's O_EXCL; this only has to be unlikely to clash.
    let random = RandomState::new().hash_one(0) as u32;
    let room = SafeName::MAX_COMPONENT - 1 - MARK.len() - 8;
    format!(".{}{MARK}{random:08x}", cut(name, room))
}

/// A disk that fails, for tests: the write that would pass `after` bytes gets `errno`.
#[cfg(test)]
#[derive(Clone, Debug)]
pub(in crate::files) struct DiskFault {
    pub(in crate::files) after: Arc<std::sync::atomic::AtomicUsize>,
    pub(in crate::files) errno: i32,
}

#[cfg(test)]
impl DiskFault {
    fn strike(&self, bytes: usize) -> io::Result<()> {
        use std::sync::atomic::Ordering::Relaxed;
        let left = self.after.load(Relaxed);
        if left < bytes {
            return Err(io::Error::from_raw_os_error(self.errno));
        }
        self.after.store(left - bytes, Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fallback_for_naming_does_not_replace() {
        let at = tempfile::tempdir().unwrap();
        let dir = Dir::root(at.path()).unwrap();
        let path = |name: &str| at.path().join(name);
        std::fs::write(path("new"), "new").unwrap();
        std::fs::write(path("old"), "old").unwrap();
        for rename in [rename_by_link, rename_new] {
            assert_eq!(rename(&dir, "new", "old"), Err(Errno::EEXIST));
            assert_eq!(std::fs::read(path("old")).unwrap(), b"old");
        }
        rename_by_link(&dir, "new", "other").unwrap();
        assert!(!path("new").exists());
        assert_eq!(std::fs::read(path("other")).unwrap(), b"new");
    }

    #[test]
    fn temporary_names_are_safe_and_short_enough() {
        for name in ["a", &"é".repeat(127), &"x".repeat(255)] {
            let temporary = temporary_name(name);
            assert!(SafeName::parse(&temporary).is_ok(), "{temporary}");
            assert!(temporary.starts_with(&format!(".{}", cut(name, 60))));
        }
    }
}
