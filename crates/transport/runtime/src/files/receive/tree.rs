//! The directories between the receiving one and the current entry, held open.
//!
//! Everything below the receiving directory is reached by descriptor, one component at a time and
//! never through a symbolic link, so that nothing another process does with links can lead a write
//! outside.

use super::disk::{Disk, Found, Id, Lock, Maker, OWNERS, lock, mtime};
use manyway_os::file::{is_mount_point, path_of};
use manyway_transfer::{Entry, Existing, SafeName, Timestamp};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, fstat, stat};
use nix::unistd::geteuid;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What failures call the receiving directory: its path is nobody else's business.
pub(super) const RECEIVING_DIR: &str = "the receiving directory";

/// What a directory's owner needs to look into it: the rights to read and to search.
const LOOKS: u32 = 0o500;
/// And to change what is in it.
const CHANGES: u32 = 0o300;

/// An open directory.
#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
    disk: Arc<dyn Disk>,
    maker: Maker,
    /// Its name below the receiving directory as it is here; `None` for that directory itself.
    local: Option<SafeName>,
    id: Id,
    open: Arc<Open>,
}

/// The directories that a transfer has open. Several threads may have the same one.
#[derive(Debug, Default)]
struct Open {
    dirs: Mutex<HashMap<Id, Users>>,
    /// No mode changes.
    only_look: AtomicBool,
}

#[derive(Debug, Default)]
struct Users {
    count: usize,
    /// The directory's own mode, while it has [another one](Dir::open_up).
    mode: Option<u32>,
}

impl Open {
    fn dirs(&self) -> MutexGuard<'_, HashMap<Id, Users>> {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dir {
    /// Opens the receiving directory, which may be a symbolic link.
    pub(super) fn root(path: &Path, disk: Arc<dyn Disk>) -> io::Result<Arc<Self>> {
        let fd = open(
            path,
            OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_RDONLY,
            Mode::empty(),
        )?;
        let open = Arc::new(Open::default());
        let mut dirs = open.dirs();
        Self::new(fd, disk, None, &open, &mut dirs)
    }

    /// From now on, no directory gets another mode.
    pub(super) fn only_look(&self) {
        self.open.only_look.store(true, Relaxed);
    }

    /// Does the path still lead here?
    pub(super) fn is_at(&self, path: &Path) -> bool {
        stat(path).is_ok_and(|there| (there.st_dev, there.st_ino) == self.id)
    }

    /// Which directory it is.
    pub(super) fn id(&self) -> Id {
        self.id
    }

    /// Is something mounted under that name, which was found in this directory?
    pub(super) fn has_mount(&self, name: &str, found: &Found) -> bool {
        let device = found.any_id().map(|(device, _)| device);
        let other = || device != Some(self.id.0);
        // Of files, an overlay says the devices of its layers.
        found.existing == Existing::Directory && other() || is_mount_point(&self.fd, name)
    }

    /// Where it is now, if the system knows.
    pub(super) fn path(&self) -> Option<PathBuf> {
        path_of(&self.fd)
    }

    /// Opens the directory `name` in this one; fails if it is a symbolic link. If it is ours, but
    /// we mayn't look into it, it is open to us until nobody here has it open.
    pub(super) fn open(&self, name: &str) -> io::Result<Arc<Self>> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_RDONLY;
        let local = Some(self.local_name(name)?);
        // Nobody closes it meanwhile.
        let mut dirs = self.open.dirs();
        let found = self.look(name)?;
        let stat = found
            .stat()
            .filter(|_| found.existing == Existing::Directory);
        let closed = stat.and_then(|stat| lacking(stat, LOOKS));
        let closed = closed.filter(|_| !geteuid().is_root() && !self.open.only_look.load(Relaxed));
        if closed.is_some() {
            // Another directory that comes in between isn't opened to others.
            self.disk.set_mode_of(self.as_fd(), name, 0o700)?;
        }
        let fd = openat(&self.fd, name, flags, Mode::empty())?;
        let dir = Self::new(fd, self.disk.clone(), local, &self.open, &mut dirs)?;
        if found.any_id() == Some(dir.id)
            && let Some(users) = dirs.get_mut(&dir.id)
        {
            users.mode = users.mode.or(closed);
        }
        Ok(dir)
    }

    fn new(
        fd: OwnedFd,
        disk: Arc<dyn Disk>,
        local: Option<SafeName>,
        open: &Arc<Open>,
        dirs: &mut HashMap<Id, Users>,
    ) -> io::Result<Arc<Self>> {
        let stat = fstat(&fd)?;
        let id = (stat.st_dev, stat.st_ino);
        dirs.entry(id).or_default().count += 1;
        Ok(Arc::new(Self {
            fd,
            disk,
            maker: Maker::default(),
            local,
            id,
            open: open.clone(),
        }))
    }

    /// Lets us change what is in it if it is ours but read-only, until nobody here has it open.
    pub(super) fn open_up(&self) {
        let mut dirs = self.open.dirs();
        let (Some(users), Ok(stat)) = (dirs.get_mut(&self.id), fstat(&self.fd)) else {
            return;
        };
        // Where that fails, whatever is to be changed says why.
        if let Some(mode) = lacking(&stat, CHANGES)
            && self.disk.set_mode(self.as_fd(), mode | CHANGES).is_ok()
        {
            users.mode = users.mode.or(Some(mode));
        }
    }

    /// Gives it its own mode again.
    pub(super) fn close_again(&self) -> io::Result<()> {
        let mut dirs = self.open.dirs();
        let own = dirs.get_mut(&self.id).and_then(|users| users.mode.take());
        own.map_or(Ok(()), |mode| self.disk.set_mode(self.as_fd(), mode))
    }

    /// Opens a file in it for reading. If it is ours, it needn't be readable.
    pub(super) fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let open = || openat(&self.fd, name, flags, Mode::empty());
        let refused = match open() {
            Err(error @ Errno::EACCES) => error,
            other => return Ok(other?.into()),
        };
        let found = self.look(name)?;
        let stat = found.stat().filter(|_| found.existing == Existing::File);
        let mode = stat.and_then(|stat| lacking(stat, 0o400)).ok_or(refused)?;
        self.disk.set_mode_of(self.as_fd(), name, OWNERS)?;
        let file = File::from(open()?);
        if Found::of(fstat(&file)?).any_id() == found.any_id() {
            self.disk.set_mode(file.as_fd(), mode)?;
        }
        Ok(file)
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

    /// An incomplete file of ours that nobody writes, locked. With `only_look`, nothing is made to
    /// find out.
    pub(super) fn lock_part(
        &self,
        name: &str,
        found: &Found,
        only_look: bool,
    ) -> io::Result<Option<File>> {
        if !self.is_ours(found, only_look) {
            return Ok(None);
        }
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = File::from(openat(self, name, flags, Mode::empty())?);
        Ok((lock(&file, self, name)? == Lock::Ours).then_some(file))
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
        let mut dirs = self.open.dirs();
        let Some(users) = dirs.get_mut(&self.id) else {
            return;
        };
        users.count -= 1;
        if users.count > 0 {
            return;
        }
        let users = dirs.remove(&self.id);
        if let Some(mode) = users.and_then(|users| users.mode) {
            self.disk.set_mode(self.as_fd(), mode).ok();
        }
    }
}

/// The mode of something, if it lacks these rights, and is ours to give them and take them away.
fn lacking(stat: &FileStat, rights: u32) -> Option<u32> {
    let mode = stat.st_mode & 0o7777;
    let set_group = Mode::S_ISGID.bits();
    // Whoever isn't in its group takes the set-group-ID bit away with any change of the mode.
    let keeps = mode & set_group == 0 || geteuid().is_root();
    (mode & rights != rights && stat.st_uid == geteuid().as_raw() && keeps).then_some(mode)
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

#[cfg(test)]
mod tests {
    use super::super::disk::Os;
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    /// Threads of a transfer come and go, and the last one closes it.
    #[test]
    fn a_directory_that_was_opened_up_stays_open_as_long_as_it_is_used() {
        let at = tempfile::tempdir().unwrap();
        let path = at.path().join("d");
        std::fs::create_dir(&path).unwrap();
        let close = || std::fs::set_permissions(&path, PermissionsExt::from_mode(0o555)).unwrap();
        let mode = || std::fs::metadata(&path).unwrap().mode() & 0o7777;
        let root = Dir::root(at.path(), Arc::new(Os)).unwrap();
        close();
        let [first, second, third] = [0; 3].map(|_| root.open("d").unwrap());
        second.open_up();
        assert_eq!(mode(), 0o755);
        third.open_up();
        drop(second);
        drop(first);
        assert_eq!(mode(), 0o755);
        drop(third);
        assert_eq!(mode(), 0o555);
        assert_eq!(root.open.dirs().len(), 1);
        let (first, second) = (root.open("d").unwrap(), root.open("d").unwrap());
        first.open_up();
        second.close_again().unwrap();
        assert_eq!(mode(), 0o555);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o500)).unwrap();
        drop((first, second));
        assert_eq!(mode(), 0o500);
    }
}
