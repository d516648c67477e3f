//! The directories between the receiving one and the current entry, held open.
//!
//! Everything below the receiving directory is reached by descriptor, one component at a time and
//! never through a symbolic link, so that nothing another process does with links can lead a write
//! outside.

use manyway_transfer::{Entry, Existing, SafeName};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat, fstatat, futimens, mkdirat};
use nix::sys::time::TimeSpec;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// An open directory.
#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
    /// Its name below the receiving directory as it is here; `None` for that directory itself.
    local: Option<SafeName>,
}

impl Dir {
    /// Opens the receiving directory, which may be a symbolic link.
    pub(super) fn root(path: &Path) -> io::Result<Arc<Self>> {
        let fd = open(
            path,
            OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_RDONLY,
            Mode::empty(),
        )?;
        Ok(Arc::new(Self { fd, local: None }))
    }

    /// Opens the directory `name` in this one; fails if it is a symbolic link.
    pub(super) fn open(&self, name: &str) -> io::Result<Arc<Self>> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_RDONLY;
        let fd = openat(&self.fd, name, flags, Mode::empty())?;
        let local = Some(self.local_name(name)?);
        Ok(Arc::new(Self { fd, local }))
    }

    /// Makes the directory `name`, open to nobody else until its own mode is set.
    pub(super) fn make(&self, name: &str) -> io::Result<()> {
        Ok(mkdirat(&self.fd, name, Mode::S_IRWXU)?)
    }

    /// What `name` is in this directory.
    pub(super) fn existing(&self, name: &str) -> io::Result<Existing> {
        let stat = match fstatat(&self.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => return Ok(Existing::Nothing),
            Err(error) => return Err(error.into()),
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

    /// The name below the receiving directory of `name` in this one.
    pub(super) fn local_name(&self, name: &str) -> io::Result<SafeName> {
        let joined = match &self.local {
            Some(local) => local.join(name),
            None => SafeName::parse(name),
        };
        joined.map_err(io::Error::other)
    }

    /// Gives a directory we made the mode and time it was sent with.
    pub(super) fn restore(&self, entry: &Entry) -> io::Result<()> {
        restore(self.as_fd(), entry)
    }

    /// Brings the directory itself, that is the names in it, to disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        match nix::unistd::fsync(&self.fd) {
            // Some file systems have no fsync for directories.
            Err(Errno::EINVAL | Errno::ENOTSUP) => Ok(()),
            other => Ok(other?),
        }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Gives an open file or directory the mode and time it was sent with.
pub(super) fn restore(fd: BorrowedFd<'_>, entry: &Entry) -> io::Result<()> {
    let mut mode = Mode::from_bits_truncate(u32::from(entry.mode & Entry::MODE_MASK));
    if !entry.is_file() {
        // A directory may have inherited its group here; that isn't the sender's business.
        mode |= Mode::from_bits_truncate(fstat(fd)?.st_mode) & Mode::S_ISGID;
    }
    fchmod(fd, mode)?;
    let mtime = TimeSpec::new(entry.mtime.seconds, i64::from(entry.mtime.nanos));
    Ok(futimens(fd, &TimeSpec::UTIME_OMIT, &mtime)?)
}

/// The open directories, outermost first, in the course of a manifest.
#[derive(Debug)]
pub(super) struct Tree {
    root: Arc<Dir>,
    levels: Vec<Level>,
}

/// A directory of the manifest.
#[derive(Debug)]
pub(super) struct Level {
    /// Open, or `None` if it doesn't exist (while nothing is made yet).
    pub(super) dir: Option<Arc<Dir>>,
    /// Its entry, if it was made by us and is to be given mode and time.
    pub(super) made: Option<Entry>,
}

impl Tree {
    pub(super) fn new(root: Arc<Dir>) -> Self {
        Self {
            root,
            levels: Vec::new(),
        }
    }

    /// Closes the directories that don't hold the entry and yields them, innermost first. A checked
    /// [`Manifest`](manyway_transfer::Manifest) guarantees that those of its depth do hold it.
    pub(super) fn leave_for(&mut self, name: &SafeName) -> impl Iterator<Item = Level> {
        self.leave_to(name.depth() - 1)
    }

    /// Closes all but the outermost `depth` directories.
    pub(super) fn leave_to(&mut self, depth: usize) -> impl Iterator<Item = Level> {
        self.levels.drain(depth.min(self.levels.len())..).rev()
    }

    /// The innermost directory, if it exists.
    pub(super) fn innermost(&self) -> Option<&Arc<Dir>> {
        self.levels
            .last()
            .map_or(Some(&self.root), |level| level.dir.as_ref())
    }

    pub(super) fn enter(&mut self, level: Level) {
        self.levels.push(level);
    }
}
