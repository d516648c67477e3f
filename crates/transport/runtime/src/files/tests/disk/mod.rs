//! What a receiver does to its disk, in which order, and what a crash or a failing disk leaves.

mod crashes;
mod failures;
mod model;

use super::*;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};
use receive::{Disk, Os};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use tempfile::{TempDir, tempdir};

/// How long a disk stands still, so that another transfer can do something meanwhile.
pub(super) const PAUSE: std::time::Duration = std::time::Duration::from_secs(2);

/// An operation; files and directories go by inode.
#[derive(Clone, Debug, PartialEq)]
enum Op {
    MakeDir {
        dir: u64,
        name: String,
    },
    Create {
        dir: u64,
        name: String,
    },
    Write {
        file: u64,
        len: u64,
    },
    SetLen {
        file: u64,
        len: u64,
    },
    SetOwner {
        inode: u64,
    },
    Restore {
        inode: u64,
    },
    Symlink {
        dir: u64,
        name: String,
        target: String,
    },
    Link {
        dir: u64,
        name: String,
    },
    RestoreLink {
        dir: u64,
        name: String,
    },
    SyncFile {
        file: u64,
    },
    Rename {
        dir: u64,
        from: String,
        to: String,
    },
    Remove {
        dir: u64,
        name: String,
    },
    RemoveDir {
        dir: u64,
        name: String,
    },
    SyncDir {
        dir: u64,
    },
}

impl Op {
    fn kind(&self) -> &'static str {
        match self {
            Op::MakeDir { .. } => "make dir",
            Op::Create { name, .. } if name.starts_with(".top.") => "mark",
            Op::Create { .. } => "create",
            Op::Write { .. } => "write",
            Op::SetLen { .. } => "set len",
            Op::SetOwner { .. } => "set owner",
            Op::Restore { .. } => "restore",
            Op::Symlink { .. } => "symlink",
            Op::Link { .. } => "link",
            Op::RestoreLink { .. } => "restore link",
            Op::SyncFile { .. } => "sync file",
            Op::Rename { .. } => "rename",
            Op::Remove { .. } => "remove",
            Op::RemoveDir { .. } => "remove dir",
            Op::SyncDir { .. } => "sync dir",
        }
    }
}

/// An operation that was done.
#[derive(Clone, Debug)]
struct Step {
    op: Op,
    made: Option<Made>,
    /// Files that had been reported as saved before it began.
    reported: u64,
}

/// What was made.
#[derive(Clone, Debug)]
struct Made {
    inode: u64,
    /// A file, which may lose all its names: as long as it is open, it keeps its number.
    file: Option<Arc<fs::File>>,
}

impl Made {
    fn at(dir: BorrowedFd<'_>, name: &str) -> Self {
        let stat = fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW).unwrap();
        let is_file = stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits();
        // Opened anew: the receiver's lock isn't held here.
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let open = || fs::File::from(openat(dir, name, flags, Mode::empty()).unwrap());
        Self {
            inode: stat.st_ino,
            file: is_file.then(|| Arc::new(open())),
        }
    }
}

type Fault = Box<dyn FnMut(&Op) -> Option<Errno> + Send>;

/// A real disk that records what is done to it, and fails when it is told to.
pub(super) struct TestDisk {
    progress: Arc<Progress>,
    inner: Mutex<(Vec<Step>, Fault)>,
    /// Mode bits that it sets.
    modes: u16,
    /// Whether the modes of directories count, as they do for all but root.
    obeys: bool,
    /// Who gets all files that are made.
    owner: Option<u32>,
    /// The unit in which it keeps times, in nanoseconds.
    unit: i128,
}

impl fmt::Debug for TestDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestDisk")
    }
}

impl TestDisk {
    fn new(
        progress: &Arc<Progress>,
        fault: impl FnMut(&Op) -> Option<Errno> + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            progress: progress.clone(),
            inner: Mutex::new((Vec::new(), Box::new(fault))),
            modes: Entry::MODE_MASK,
            obeys: false,
            owner: None,
            unit: 1,
        })
    }

    /// It sets no special bits, and says nothing.
    pub(super) fn that_sets_no_special_bits() -> Arc<Self> {
        let mut disk = Self::new(&Progress::new(), |_| None);
        Arc::get_mut(&mut disk).unwrap().modes &= !Entry::SPECIAL;
        disk
    }

    /// It changes nothing in a directory whose owner mustn't, also for root.
    pub(super) fn that_obeys_modes() -> Arc<Self> {
        let mut disk = Self::new(&Progress::new(), |_| None);
        Arc::get_mut(&mut disk).unwrap().obeys = true;
        disk
    }

    /// It gives all files to one user, as NFS does with root's and a mounted FAT with everybody's.
    pub(super) fn that_gives_files_to(owner: u32) -> Arc<Self> {
        let mut disk = Self::new(&Progress::new(), |_| None);
        Arc::get_mut(&mut disk).unwrap().owner = Some(owner);
        disk
    }

    /// It cuts times to a unit of so many nanoseconds.
    pub(super) fn that_cuts_times(unit: i128) -> Arc<Self> {
        let mut disk = Self::new(&Progress::new(), |_| None);
        Arc::get_mut(&mut disk).unwrap().unit = unit;
        disk
    }

    /// The time that it keeps.
    fn cut(&self, time: Timestamp) -> Timestamp {
        const SECOND: i128 = 1_000_000_000;
        let time = i128::from(time.seconds) * SECOND + i128::from(time.nanos);
        let time = time - time.rem_euclid(self.unit);
        Timestamp {
            seconds: time.div_euclid(SECOND) as i64,
            nanos: time.rem_euclid(SECOND) as u32,
        }
    }

    /// The write that would pass so many bytes fails.
    pub(super) fn that_fails_after(bytes: u64, errno: Errno) -> Arc<Self> {
        let mut left = bytes;
        Self::new(&Progress::new(), move |op| match op {
            Op::Write { len, .. } if *len > left => Some(errno),
            Op::Write { len, .. } => {
                left -= len;
                None
            }
            _ => None,
        })
    }

    /// Removing a directory or anything else fails so.
    pub(super) fn that_cannot_remove(directory: Errno, other: Errno) -> Arc<Self> {
        Self::new(&Progress::new(), move |op| match op {
            Op::RemoveDir { .. } => Some(directory),
            Op::Remove { name, .. } => (!name.contains(".manyway-part-")).then_some(other),
            _ => None,
        })
    }

    /// Whoever listens learns that such an operation is to be done, and has time to react.
    pub(super) fn that_tells_of(
        kind: &'static str,
        told: tokio::sync::mpsc::UnboundedSender<()>,
        pause: std::time::Duration,
    ) -> Arc<Self> {
        Self::new(&Progress::new(), move |op| {
            if op.kind() == kind && told.send(()).is_ok() {
                std::thread::sleep(pause);
            }
            None
        })
    }

    /// Whoever listens learns that a file has got its name, and then it stands still.
    pub(super) fn that_tells_of_names(
        told: tokio::sync::mpsc::UnboundedSender<()>,
        mut stand_still: impl FnMut() + Send + 'static,
    ) -> Arc<Self> {
        let mut named = false;
        Self::new(&Progress::new(), move |op| {
            if named && matches!(op, Op::SyncDir { .. }) && told.send(()).is_ok() {
                named = false;
                stand_still();
            }
            named |= matches!(op, Op::Rename { .. });
            None
        })
    }

    /// It stands still for so long before each write.
    pub(super) fn that_waits_before_it_writes(
        mut pause: impl FnMut() -> Option<std::time::Duration> + Send + 'static,
    ) -> Arc<Self> {
        Self::new(&Progress::new(), move |op| {
            if matches!(op, Op::Write { .. }) {
                std::thread::sleep(pause().unwrap_or_default());
            }
            None
        })
    }

    /// Before a hard link is made, somebody puts another file in the place of this one.
    pub(super) fn that_replaces_before_it_links(file: std::path::PathBuf) -> Arc<Self> {
        Self::new(&Progress::new(), move |op| {
            if matches!(op, Op::Link { .. }) {
                fs::write(file.with_file_name("secret"), "secret").unwrap();
                fs::rename(file.with_file_name("secret"), &file).unwrap();
            }
            None
        })
    }

    /// Nobody may give files away.
    pub(super) fn that_keeps_owners() -> Arc<Self> {
        let fails = |op: &Op| matches!(op, Op::SetOwner { .. }).then_some(Errno::EPERM);
        Self::new(&Progress::new(), fails)
    }

    /// All files are somebody else's, whatever is done, as on a mounted FAT.
    pub(super) fn that_keeps_modes() -> Arc<Self> {
        let fails = |op: &Op| matches!(op, Op::Restore { .. }).then_some(Errno::EPERM);
        Self::new(&Progress::new(), fails)
    }

    /// It has no hard links.
    pub(super) fn that_cannot_link() -> Arc<Self> {
        let fails = |op: &Op| matches!(op, Op::Link { .. }).then_some(Errno::EPERM);
        Self::new(&Progress::new(), fails)
    }

    /// One operation at a time, so that the record has their order.
    fn step<T>(
        &self,
        op: Op,
        act: impl FnOnce() -> io::Result<T>,
        made: impl FnOnce(&T) -> Option<Made>,
    ) -> io::Result<T> {
        let (steps, fault) = &mut *self.inner.lock().unwrap();
        let reported = self.progress.files_done();
        if let Some(errno) = fault(&op) {
            return Err(errno.into());
        }
        let done = act()?;
        let made = made(&done);
        steps.push(Step { op, made, reported });
        Ok(done)
    }

    /// An operation that changes what is in a directory.
    fn step_in<T>(
        &self,
        dir: BorrowedFd<'_>,
        op: Op,
        act: impl FnOnce() -> io::Result<T>,
        made: impl FnOnce(&T) -> Option<Made>,
    ) -> io::Result<T> {
        if self.obeys && fstat(dir)?.st_mode & 0o300 != 0o300 {
            return Err(Errno::EACCES.into());
        }
        self.step(op, act, made)
    }

    fn steps(&self) -> Vec<Step> {
        self.inner.lock().unwrap().0.clone()
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.steps().iter().map(|step| step.op.kind()).collect()
    }
}

fn inode(of: impl AsFd) -> u64 {
    fstat(of).unwrap().st_ino
}

impl Disk for TestDisk {
    fn make_dir(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        let op = Op::MakeDir {
            dir: inode(dir),
            name: name.to_owned(),
        };
        let made = |_: &()| Some(Made::at(dir, name));
        self.step_in(dir, op, || Os.make_dir(dir, name), made)
    }

    fn create(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<fs::File> {
        let op = Op::Create {
            dir: inode(dir),
            name: name.to_owned(),
        };
        let create = || {
            let file = Os.create(dir, name)?;
            if self.owner.is_some() {
                std::os::unix::fs::fchown(&file, self.owner, None)?;
            }
            Ok(file)
        };
        self.step_in(dir, op, create, |_| Some(Made::at(dir, name)))
    }

    fn write(&self, file: &fs::File, bytes: &[u8], at: u64) -> io::Result<()> {
        let op = Op::Write {
            file: inode(file),
            len: bytes.len() as u64,
        };
        self.step(op, || Os.write(file, bytes, at), |()| None)
    }

    fn punch(&self, file: &fs::File, at: u64, len: u64) -> io::Result<()> {
        // The next write, or the end, counts.
        Os.punch(file, at, len)
    }

    fn set_len(&self, file: &fs::File, len: u64) -> io::Result<()> {
        let op = Op::SetLen {
            file: inode(file),
            len,
        };
        self.step(op, || Os.set_len(file, len), |()| None)
    }

    fn set_owner(&self, of: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        let op = Op::SetOwner { inode: inode(of) };
        self.step(op, || Os.set_owner(of, uid, gid), |()| None)
    }

    fn set_owner_of_link(
        &self,
        dir: BorrowedFd<'_>,
        name: &str,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> io::Result<()> {
        let op = Op::SetOwner {
            inode: Made::at(dir, name).inode,
        };
        let set = || Os.set_owner_of_link(dir, name, uid, gid);
        self.step(op, set, |()| None)
    }

    fn set_attribute(
        &self,
        of: BorrowedFd<'_>,
        name: &str,
        value: Option<&[u8]>,
    ) -> io::Result<()> {
        Os.set_attribute(of, name, value)
    }

    fn restore(&self, of: BorrowedFd<'_>, entry: &Entry) -> io::Result<()> {
        let op = Op::Restore { inode: inode(of) };
        let entry = Entry {
            mode: entry.mode & self.modes,
            mtime: self.cut(entry.mtime),
            ..entry.clone()
        };
        self.step(op, || Os.restore(of, &entry), |()| None)
    }

    fn set_mode(&self, of: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
        Os.set_mode(of, mode)
    }

    fn set_mode_of(&self, dir: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<()> {
        Os.set_mode_of(dir, name, mode)
    }

    fn symlink(&self, dir: BorrowedFd<'_>, target: &str, name: &str) -> io::Result<()> {
        let op = Op::Symlink {
            dir: inode(dir),
            name: name.to_owned(),
            target: target.to_owned(),
        };
        let made = |_: &()| Some(Made::at(dir, name));
        self.step_in(dir, op, || Os.symlink(dir, target, name), made)
    }

    fn link(&self, of: (BorrowedFd<'_>, &str), dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        let op = Op::Link {
            dir: inode(dir),
            name: name.to_owned(),
        };
        let made = |_: &()| Some(Made::at(dir, name));
        self.step_in(dir, op, || Os.link(of, dir, name), made)
    }

    fn restore_link(&self, dir: BorrowedFd<'_>, name: &str, mtime: Timestamp) -> io::Result<()> {
        let op = Op::RestoreLink {
            dir: inode(dir),
            name: name.to_owned(),
        };
        self.step(op, || Os.restore_link(dir, name, mtime), |()| None)
    }

    fn set_time(&self, of: BorrowedFd<'_>, mtime: Timestamp) -> io::Result<()> {
        let op = Op::Restore { inode: inode(of) };
        self.step(op, || Os.set_time(of, self.cut(mtime)), |()| None)
    }

    fn sync_file(&self, file: &fs::File) -> io::Result<()> {
        let op = Op::SyncFile { file: inode(file) };
        self.step(op, || Os.sync_file(file), |()| None)
    }

    fn rename(&self, dir: BorrowedFd<'_>, from: &str, to: &str, replace: bool) -> io::Result<()> {
        let op = Op::Rename {
            dir: inode(dir),
            from: from.to_owned(),
            to: to.to_owned(),
        };
        self.step_in(dir, op, || Os.rename(dir, from, to, replace), |()| None)
    }

    fn remove(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        let op = Op::Remove {
            dir: inode(dir),
            name: name.to_owned(),
        };
        self.step_in(dir, op, || Os.remove(dir, name), |()| None)
    }

    fn remove_dir(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        let op = Op::RemoveDir {
            dir: inode(dir),
            name: name.to_owned(),
        };
        self.step_in(dir, op, || Os.remove_dir(dir, name), |()| None)
    }

    fn sync_dir(&self, dir: BorrowedFd<'_>) -> io::Result<()> {
        let op = Op::SyncDir { dir: inode(dir) };
        self.step(op, || Os.sync_dir(dir), |()| None)
    }
}
