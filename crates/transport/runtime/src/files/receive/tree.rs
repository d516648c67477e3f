//! The directories between the receiving one and the current entry, held open.
//!
//! Everything below the receiving directory is reached by descriptor, one component at a time and
//! never through a symbolic link, so that nothing another process does with links can lead a write
//! outside.

use super::disk::{Disk, Found, Id, Maker, mtime};
use manyway_os::file::{is_mount_point, path_of};
use manyway_transfer::{Entry, Existing, SafeName, Timestamp};
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, fstat, stat};
use nix::unistd::geteuid;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What failures call the receiving directory: its path is nobody else's business.
pub(super) const RECEIVING_DIR: &str = "the receiving directory";

/// What a directory's owner needs to change what is in it: the rights to write and to search.
const CHANGES: u32 = 0o300;

/// An open directory.
#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
    disk: Arc<dyn Disk>,
    maker: Maker,
    /// Its name below the receiving directory as it is here; `None` for that directory itself.
    local: Option<SafeName>,
    /// Its own mode, while it has [another one](Dir::open_up).
    mode: Mutex<Option<u32>>,
}

impl Dir {
    /// Opens the receiving directory, which may be a symbolic link.
    pub(super) fn root(path: &Path, disk: Arc<dyn Disk>) -> io::Result<Arc<Self>> {
        let fd = open(
            path,
            OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_RDONLY,
            Mode::empty(),
        )?;
        Ok(Self::new(fd, disk, None))
    }

    /// Does the path still lead here?
    pub(super) fn is_at(&self, path: &Path) -> bool {
        match (fstat(&self.fd), stat(path)) {
            (Ok(here), Ok(there)) => (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino),
            _ => false,
        }
    }

    /// Which directory it is.
    pub(super) fn id(&self) -> io::Result<Id> {
        let stat = fstat(&self.fd)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Is something mounted under that name, which was found in this directory?
    pub(super) fn has_mount(&self, name: &str, found: &Found) -> bool {
        let device = found.any_id().map(|(device, _)| device);
        let other = || fstat(&self.fd).is_ok_and(|here| device != Some(here.st_dev));
        // Of files, an overlay says the devices of its layers.
        found.existing == Existing::Directory && other() || is_mount_point(&self.fd, name)
    }

    /// Where it is now, if the system knows.
    pub(super) fn path(&self) -> Option<PathBuf> {
        path_of(&self.fd)
    }

    /// Opens the directory `name` in this one; fails if it is a symbolic link.
    pub(super) fn open(&self, name: &str) -> io::Result<Arc<Self>> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_RDONLY;
        let fd = openat(&self.fd, name, flags, Mode::empty())?;
        let local = Some(self.local_name(name)?);
        Ok(Self::new(fd, self.disk.clone(), local))
    }

    fn new(fd: OwnedFd, disk: Arc<dyn Disk>, local: Option<SafeName>) -> Arc<Self> {
        let mode = Mutex::default();
        Arc::new(Self {
            fd,
            disk,
            maker: Maker::default(),
            local,
            mode,
        })
    }

    /// Lets us change what is in it if it is ours but read-only, until it is closed.
    pub(super) fn open_up(&self) {
        let Ok(stat) = fstat(&self.fd) else {
            return;
        };
        let mode = stat.st_mode & 0o7777;
        let set_group = Mode::S_ISGID.bits();
        // Whoever isn't in its group takes the set-group-ID bit away with any change of the mode.
        let keeps = mode & set_group == 0 || geteuid().is_root();
        if mode & CHANGES == CHANGES || stat.st_uid != geteuid().as_raw() || !keeps {
            return;
        }
        // Where that fails, whatever is to be changed says why.
        if self.disk.set_mode(self.as_fd(), mode | CHANGES).is_ok() {
            *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = Some(mode);
        }
    }

    /// Gives it its own mode again.
    pub(super) fn close_again(&self) -> io::Result<()> {
        let own = self
            .mode
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        own.map_or(Ok(()), |mode| self.disk.set_mode(self.as_fd(), mode))
    }

    /// Makes the directory `name`, open to nobody else until its own mode is set.
    pub(super) fn make(&self, name: &str) -> io::Result<()> {
        self.disk.make_dir(self.as_fd(), name)
    }

    /// What `name` is in this directory.
    pub(super) fn look(&self, name: &str) -> io::Result<Found> {
        Ok(Found::look(&self.fd, name)?)
    }

    /// Could that be an incomplete file of ours? Nobody else may have a hand on it. With
    /// `only_look`, nothing is made to find out.
    pub(super) fn is_ours(&self, found: &Found, only_look: bool) -> bool {
        let ours = |uid| match only_look {
            true => self.maker.is_known(uid),
            false => self.maker.is(uid, self.disk(), self.as_fd()),
        };
        let sole = found.stat().filter(|stat| stat.st_nlink == 1);
        found.existing == Existing::File && sole.is_some_and(|stat| ours(stat.st_uid))
    }

    /// Its name below the receiving directory; `None` for that directory itself.
    pub(super) fn local(&self) -> Option<&SafeName> {
        self.local.as_ref()
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// The name below the receiving directory of `name` in this one.
    pub(super) fn local_name(&self, name: &str) -> io::Result<SafeName> {
        let joined = match &self.local {
            Some(local) => local.join(name),
            None => SafeName::parse(name),
        };
        joined.map_err(io::Error::other)
    }

    /// When its names last changed.
    pub(super) fn mtime(&self) -> io::Result<Timestamp> {
        Ok(mtime(&fstat(&self.fd)?))
    }

    /// Brings the directory itself, that is the names in it, to disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.disk.sync_dir(self.as_fd())
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        self.close_again().ok();
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
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
    /// If it is to be given mode and time.
    pub(super) made: Option<Made>,
}

/// A directory that gets mode and time, mostly because transfers have made it.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) entry: Entry,
    /// Where a [marker](super::part::mark) says that it isn't complete; `None`: nowhere.
    pub(super) marked: Option<Arc<Dir>>,
    /// It was there before, complete.
    pub(super) existed: bool,
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
