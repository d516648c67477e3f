//! Everything that a receiver changes on a disk, one function per operation.
//!
//! The rest of the receiver decides what happens in which order. So the tests can put a disk in
//! place that records the operations, fails one, or stops for ever after one, as a crash would.

use super::temporary::random_name;
use manyway_os::file::{attributes, hole, rename_new};
use manyway_transfer::{Entry, Existing, GROUP, Timestamp, ZEROS};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{
    FchmodatFlags, FileStat, Mode, SFlag, UtimensatFlags, fchmod, fchmodat, fstat, fstatat,
    futimens, mkdirat, utimensat,
};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, fsync, geteuid, linkat, symlinkat, unlinkat};
use std::fmt::Debug;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// The mode of incomplete files.
pub(super) const OWNERS: nix::sys::stat::mode_t = 0o600;

/// The operations. Names are single components of `dir`.
pub(in crate::files) trait Disk: Debug + Send + Sync {
    /// Makes the directory `name`, open to nobody else until its own mode is set.
    fn make_dir(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()>;
    /// Makes an empty file, readable by nobody else, and locks it for as long as it is open.
    fn create(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<File>;
    /// Writes at a place of a file.
    fn write(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Makes a range of a file zeros, and a hole where the file system can.
    fn punch(&self, file: &File, at: u64, len: u64) -> io::Result<()>;
    /// Cuts a file that is longer, or ends a shorter one with a hole.
    fn set_len(&self, file: &File, len: u64) -> io::Result<()>;
    /// Gives a file or directory another user or group, or both.
    fn set_owner(&self, of: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> io::Result<()>;
    /// The same for a symbolic link.
    fn set_owner_of_link(
        &self,
        dir: BorrowedFd<'_>,
        name: &str,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> io::Result<()>;
    /// Sets an extended attribute, or removes it.
    fn set_attribute(&self, of: BorrowedFd<'_>, name: &str, value: Option<&[u8]>)
    -> io::Result<()>;
    /// Gives a file or directory the mode and time of its entry.
    fn restore(&self, of: BorrowedFd<'_>, entry: &Entry) -> io::Result<()>;
    /// Gives a directory that mode.
    fn set_mode(&self, of: BorrowedFd<'_>, mode: u32) -> io::Result<()>;
    /// Gives what has that name that mode; never what a symbolic link leads to.
    fn set_mode_of(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<()>;
    /// Makes a symbolic link.
    fn symlink(&self, dir: BorrowedFd<'_>, target: &str, name: &str) -> io::Result<()>;
    /// Makes a hard link in `dir` to a file of another directory.
    fn link(&self, of: (BorrowedFd<'_>, &str), dir: BorrowedFd<'_>, name: &str) -> io::Result<()>;
    /// Gives a symbolic link its time.
    fn restore_link(&self, dir: BorrowedFd<'_>, name: &str, mtime: Timestamp) -> io::Result<()>;
    /// Gives a directory that time.
    fn set_time(&self, of: BorrowedFd<'_>, mtime: Timestamp) -> io::Result<()>;
    /// Brings a file's content, mode and time to disk.
    fn sync_file(&self, file: &File) -> io::Result<()>;
    /// Gives a file its final name; with `replace`, in place of a file or link of that name. Fails
    /// with [`io::ErrorKind::AlreadyExists`] if something is in the way.
    fn rename(&self, dir: BorrowedFd<'_>, from: &str, to: &str, replace: bool) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()>;
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
            OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file: File = openat(dir, name, flags, Mode::from_bits_truncate(OWNERS))?.into();
        // The lock tells others that somebody is at work. They may have been faster.
        match lock(&file, dir, name)? {
            Lock::Ours | Lock::Unknown => Ok(file),
            Lock::Busy | Lock::Gone => Err(Errno::EEXIST.into()),
        }
    }

    fn write(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        file.write_all_at(bytes, at)
    }

    fn punch(&self, file: &File, at: u64, len: u64) -> io::Result<()> {
        if hole::punch(file, at, len) {
            return Ok(());
        }
        let mut done = 0;
        while done < len {
            let now = (len - done).min(GROUP);
            file.write_all_at(&ZEROS[..now as usize], at + done)?;
            done += now;
        }
        Ok(())
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn set_owner(&self, of: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        std::os::unix::fs::fchown(of, uid, gid)
    }

    fn set_owner_of_link(
        &self,
        dir: BorrowedFd<'_>,
        name: &str,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> io::Result<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        Ok(fchownat(dir, name, uid, gid, AtFlags::AT_SYMLINK_NOFOLLOW)?)
    }

    fn set_attribute(
        &self,
        of: BorrowedFd<'_>,
        name: &str,
        value: Option<&[u8]>,
    ) -> io::Result<()> {
        attributes::set(of, name, value)
    }

    fn restore(&self, of: BorrowedFd<'_>, entry: &Entry) -> io::Result<()> {
        let mode = fchmod(of, Mode::from_bits_truncate(entry.mode.into()));
        // Also if the mode isn't permitted.
        futimens(of, &TimeSpec::UTIME_OMIT, &spec(entry.mtime))?;
        Ok(mode?)
    }

    fn set_mode(&self, of: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
        Ok(fchmod(of, Mode::from_bits_truncate(mode))?)
    }

    fn set_mode_of(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<()> {
        let (mode, follow) = (
            Mode::from_bits_truncate(mode),
            FchmodatFlags::NoFollowSymlink,
        );
        Ok(fchmodat(dir, name, mode, follow)?)
    }

    fn symlink(&self, dir: BorrowedFd<'_>, target: &str, name: &str) -> io::Result<()> {
        Ok(symlinkat(target, dir, name)?)
    }

    fn link(&self, of: (BorrowedFd<'_>, &str), dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        // Of a symbolic link, it would be another name.
        Ok(linkat(of.0, of.1, dir, name, AtFlags::empty())?)
    }

    fn restore_link(&self, dir: BorrowedFd<'_>, name: &str, mtime: Timestamp) -> io::Result<()> {
        let follow = UtimensatFlags::NoFollowSymlink;
        match utimensat(dir, name, &TimeSpec::UTIME_OMIT, &spec(mtime), follow) {
            // Not every file system keeps times of links.
            Err(Errno::ENOTSUP | Errno::ENOSYS) => Ok(()),
            other => Ok(other?),
        }
    }

    fn set_time(&self, of: BorrowedFd<'_>, mtime: Timestamp) -> io::Result<()> {
        Ok(futimens(of, &TimeSpec::UTIME_OMIT, &spec(mtime))?)
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

    fn remove_dir(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        Ok(unlinkat(dir, name, UnlinkatFlags::RemoveDir)?)
    }

    fn sync_dir(&self, dir: BorrowedFd<'_>) -> io::Result<()> {
        match fsync(dir) {
            // Some file systems have no fsync for directories.
            Err(Errno::EINVAL | Errno::ENOTSUP) => Ok(()),
            other => Ok(other?),
        }
    }
}

fn spec(time: Timestamp) -> TimeSpec {
    TimeSpec::new(time.seconds, i64::from(time.nanos))
}

/// When the content changed last.
pub(super) fn mtime(stat: &FileStat) -> Timestamp {
    Timestamp {
        seconds: stat.st_mtime,
        nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
    }
}

/// Device and inode.
pub(super) type Id = (nix::libc::dev_t, nix::libc::ino_t);

/// What a directory has under a name.
pub(super) struct Found {
    pub(super) existing: Existing,
    stat: Option<FileStat>,
}

impl Found {
    /// What `name` is in a directory.
    pub(super) fn look(dir: impl AsFd, name: &str) -> Result<Self, Errno> {
        match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Self::of(stat)),
            Err(Errno::ENOENT) => Ok(Self {
                existing: Existing::Nothing,
                stat: None,
            }),
            Err(error) => Err(error),
        }
    }

    pub(super) fn of(stat: FileStat) -> Self {
        let existing = match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => Existing::File,
            SFlag::S_IFDIR => Existing::Directory,
            SFlag::S_IFLNK => Existing::Symlink,
            _ => Existing::Other,
        };
        Self {
            existing,
            stat: Some(stat),
        }
    }

    /// What is known of it; `None` if nothing has the name.
    pub(super) fn stat(&self) -> Option<&FileStat> {
        self.stat.as_ref()
    }

    /// The file's size; `None` if it is none.
    pub(super) fn size(&self) -> Option<u64> {
        let stat = self.stat.filter(|_| self.existing == Existing::File)?;
        u64::try_from(stat.st_size).ok()
    }

    /// Which file it is; `None` if it is none.
    pub(super) fn id(&self) -> Option<Id> {
        self.any_id().filter(|_| self.existing == Existing::File)
    }

    /// Which file, directory or link it is; `None` if it is nothing.
    pub(super) fn any_id(&self) -> Option<Id> {
        self.stat.map(|stat| (stat.st_dev, stat.st_ino))
    }

    /// Which file, directory or link it is, if it has no other name.
    pub(super) fn sole_id(&self) -> Option<Id> {
        let stat = self.stat.as_ref()?;
        let is_sole = stat.st_nlink == 1 || self.existing == Existing::Directory;
        self.any_id().filter(|_| is_sole)
    }
}

/// Who owns the files that we make in a directory: not always we. NFS gives root's to nobody, and
/// FAT, exFAT, NTFS and SMB give all files to the user that they were mounted for.
#[derive(Debug, Default)]
pub(super) struct Maker(OnceLock<Option<u32>>);

impl Maker {
    /// Is that this user, as far as is known?
    pub(super) fn is_known(&self, uid: u32) -> bool {
        uid == geteuid().as_raw() || self.0.get() == Some(&Some(uid))
    }

    /// Is that this user? Nothing but a file that is made tells.
    pub(super) fn is(&self, uid: u32, disk: &dyn Disk, dir: BorrowedFd<'_>) -> bool {
        let owner = || {
            let name = random_name("owner");
            let file = disk.create(dir, &name).ok()?;
            disk.remove(dir, &name).ok();
            Some(fstat(file).ok()?.st_uid)
        };
        self.is_known(uid) || *self.0.get_or_init(owner) == Some(uid)
    }
}

/// Whose a file is that was opened.
#[derive(Debug, PartialEq)]
pub(super) enum Lock {
    /// Ours alone, until it is closed.
    Ours,
    /// Somebody else is at work on it.
    Busy,
    /// It hasn't that name any more: whoever had the lock before has removed or renamed it.
    Gone,
    /// Nobody can tell: the file system has no locks.
    Unknown,
}

/// Locks a file that was opened by that name.
pub(super) fn lock(file: &File, dir: impl AsFd, name: &str) -> io::Result<Lock> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(Lock::Busy),
        Err(TryLockError::Error(_)) => return Ok(Lock::Unknown),
        Ok(()) => {}
    }
    let there = fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW);
    let here = fstat(file)?;
    let same = there.is_ok_and(|there| (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino));
    Ok(if same { Lock::Ours } else { Lock::Gone })
}

/// Renames over a file or a link, never over anything else.
fn overwrite(dir: BorrowedFd<'_>, from: &str, to: &str) -> Result<(), Errno> {
    match Found::look(dir, to).map(|found| found.existing) {
        Ok(Existing::Other | Existing::Directory) => Err(Errno::EEXIST),
        // A directory that comes in between makes this fail.
        _ => renameat(dir, from, dir, to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

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

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_is_locked_if_it_has_its_name() {
        let at = tempfile::tempdir().unwrap();
        let dir = File::open(at.path()).unwrap();
        let (old, new) = (at.path().join("old"), at.path().join("new"));
        let first = Os.create(dir.as_fd(), "old").unwrap();
        let second = File::open(&old).unwrap();
        assert_eq!(lock(&second, &dir, "old").unwrap(), Lock::Busy);
        drop(first);
        assert_eq!(lock(&second, &dir, "old").unwrap(), Lock::Ours);
        // As where there are no locks.
        let mut options = std::fs::OpenOptions::new();
        let handle = options.read(true).custom_flags(OFlag::O_PATH.bits());
        let handle = handle.open(&old).unwrap();
        assert_eq!(lock(&handle, &dir, "old").unwrap(), Lock::Unknown);
        std::fs::write(&new, "").unwrap();
        std::fs::rename(&new, &old).unwrap();
        assert_eq!(lock(&second, &dir, "old").unwrap(), Lock::Gone);
        std::fs::remove_file(&old).unwrap();
        assert_eq!(lock(&second, &dir, "old").unwrap(), Lock::Gone);
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
