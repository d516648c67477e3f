//! Everything that a receiver changes on a disk, one function per operation.
//!
//! The rest of the receiver decides what happens in which order. So the tests can put a disk in
//! place that records the operations, fails one, or stops for ever after one, as a crash would.

use manyway_transfer::{Entry, Existing};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat, fstatat, futimens, mkdirat};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, fsync, linkat, unlinkat};
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// The operations. Names are single components of `dir`.
pub(in crate::files) trait Disk: Debug + Send + Sync {
    /// Makes the directory `name`, open to nobody else until its own mode is set.
    fn make_dir(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()>;
    /// Makes an empty file, readable by nobody else, and locks it for as long as it is open.
    fn create(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<File>;
    /// Appends to a file.
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<()>;
    /// Gives a file or directory the mode and time of its entry.
    fn restore(&self, of: BorrowedFd<'_>, entry: &Entry) -> io::Result<()>;
    /// Brings a file's content, mode and time to disk.
    fn sync_file(&self, file: &File) -> io::Result<()>;
    /// Gives a file its final name; with `replace`, in place of a file or link of that name. Fails
    /// with [`io::ErrorKind::AlreadyExists`] if something is in the way.
    fn rename(&self, dir: BorrowedFd<'_>, from: &str, to: &str, replace: bool) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()>;
    /// Brings the names in a directory, and its own mode and time, to disk.
    fn sync_dir(&self, dir: BorrowedFd<'_>) -> io::Result<()>;
}

/// The operating system's disk.
#[derive(Debug)]
pub(in crate::files) struct Os;

impl Disk for Os {
    fn make_dir(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        Ok(mkdirat(dir, name, Mode::S_IRWXU)?)
    }

    fn create(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<File> {
        let flags =
            OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file: File = openat(dir, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?.into();
        // The lock tells sweeps that somebody is at work. Some file systems have none.
        let _ = file.try_lock();
        Ok(file)
    }

    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn restore(&self, of: BorrowedFd<'_>, entry: &Entry) -> io::Result<()> {
        let mut mode = Mode::from_bits_truncate(u32::from(entry.mode & Entry::MODE_MASK));
        if !entry.is_file() {
            // A directory may have inherited its group here; that isn't the sender's business.
            mode |= Mode::from_bits_truncate(fstat(of)?.st_mode) & Mode::S_ISGID;
        }
        fchmod(of, mode)?;
        let mtime = TimeSpec::new(entry.mtime.seconds, i64::from(entry.mtime.nanos));
        Ok(futimens(of, &TimeSpec::UTIME_OMIT, &mtime)?)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, dir: BorrowedFd<'_>, from: &str, to: &str, replace: bool) -> io::Result<()> {
        let renamed = match replace {
            true => overwrite(dir, from, to),
            false => rename_new(dir, from, to),
        };
        match renamed {
            Err(Errno::EISDIR | Errno::ENOTDIR) => Err(Errno::EEXIST.into()),
            other => Ok(other?),
        }
    }

    fn remove(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        Ok(unlinkat(dir, name, UnlinkatFlags::NoRemoveDir)?)
    }

    fn sync_dir(&self, dir: BorrowedFd<'_>) -> io::Result<()> {
        match fsync(dir) {
            // Some file systems have no fsync for directories.
            Err(Errno::EINVAL | Errno::ENOTSUP) => Ok(()),
            other => Ok(other?),
        }
    }
}

/// What `name` is in a directory.
pub(super) fn existing(dir: impl AsFd, name: &str) -> Result<Existing, Errno> {
    let stat = match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::ENOENT) => return Ok(Existing::Nothing),
        Err(error) => return Err(error),
    };
    Ok(
        match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => Existing::File,
            SFlag::S_IFDIR => Existing::Directory,
            SFlag::S_IFLNK => Existing::Symlink,
            _ => Existing::Other,
        },
    )
}

/// Renames over a file or a link, never over anything else.
fn overwrite(dir: BorrowedFd<'_>, from: &str, to: &str) -> Result<(), Errno> {
    match existing(dir, to) {
        Ok(Existing::Other | Existing::Directory) => Err(Errno::EEXIST),
        // A directory that comes in between makes this fail.
        _ => renameat(dir, from, dir, to),
    }
}

/// Renames unless the new name exists, atomically where the file system can.
fn rename_new(dir: BorrowedFd<'_>, from: &str, to: &str) -> Result<(), Errno> {
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
fn rename_by_link(dir: BorrowedFd<'_>, from: &str, to: &str) -> Result<(), Errno> {
    match linkat(dir, from, dir, to, AtFlags::empty()) {
        Ok(()) => unlinkat(dir, from, UnlinkatFlags::NoRemoveDir),
        Err(Errno::EPERM | Errno::ENOTSUP | Errno::ENOSYS | Errno::EMLINK) => {
            match existing(dir, to) {
                Ok(Existing::Nothing) => renameat(dir, from, dir, to),
                _ => Err(Errno::EEXIST),
            }
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

    #[test]
    fn the_fallback_for_naming_does_not_replace() {
        let at = tempfile::tempdir().unwrap();
        let dir = File::open(at.path()).unwrap();
        let path = |name: &str| at.path().join(name);
        std::fs::write(path("new"), "new").unwrap();
        std::fs::write(path("old"), "old").unwrap();
        for rename in [rename_by_link, rename_new] {
            assert_eq!(rename(dir.as_fd(), "new", "old"), Err(Errno::EEXIST));
            assert_eq!(std::fs::read(path("old")).unwrap(), b"old");
        }
        rename_by_link(dir.as_fd(), "new", "other").unwrap();
        assert!(!path("new").exists());
        assert_eq!(std::fs::read(path("other")).unwrap(), b"new");
    }

    /// What can't be synced says so. That an fsync was skipped shows in no other way.
    #[cfg(target_os = "linux")]
    #[test]
    fn syncs_reach_the_system() {
        let (pipe, _writer) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        let error = Os.sync_file(&pipe).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::EINVAL as i32));
        // A file system that has no fsync for directories answers the same.
        Os.sync_dir(pipe.as_fd()).unwrap();
        let mut options = std::fs::OpenOptions::new();
        let handle = options.read(true).custom_flags(OFlag::O_PATH.bits());
        let handle = handle.open("/").unwrap();
        let error = Os.sync_dir(handle.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::EBADF as i32));
    }

    #[test]
    fn a_new_file_or_directory_is_its_owners_alone() {
        let at = tempfile::tempdir().unwrap();
        let dir = File::open(at.path()).unwrap();
        let file = Os.create(dir.as_fd(), "file").unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o600);
        Os.make_dir(dir.as_fd(), "dir").unwrap();
        let made = std::fs::metadata(at.path().join("dir")).unwrap();
        assert_eq!(made.mode() & 0o7777, 0o700);
        let error = Os.create(dir.as_fd(), "dir").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
}
