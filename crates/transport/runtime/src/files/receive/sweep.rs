//! Removes what receivers that were killed have left behind.

use super::disk::{Disk, Lock, Maker, lock};
use super::part::touch;
use super::temporary::is_temporary;
use super::transfers::Sweeping;
use manyway_transfer::SafeName;
use manyway_units::printable;
use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most names looked at: a home directory may have millions.
const MOST: usize = 100_000;
/// What a transfer makes while this goes on is none of the future, and stays unlocked: a part that
/// somebody else locks isn't the receiver's own.
const MARGIN: Duration = Duration::from_secs(3600);
const DIRECTORY: OFlag = OFlag::O_DIRECTORY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC)
    .union(OFlag::O_RDONLY);

/// Looks for incomplete files in a directory and below it, in a thread of its own, and removes
/// those that nobody writes and that nobody has touched for so long; the same for links that have
/// no name of their own yet. The transfer doesn't wait.
pub(super) fn begin(root: BorrowedFd<'_>, disk: Arc<dyn Disk>, keep: Duration, sweeping: Sweeping) {
    let begun = Dir::openat(root, ".", DIRECTORY, Mode::empty()).map_err(Into::into);
    let begun = begun.and_then(|root| {
        let thread = std::thread::Builder::new().name("sweep".to_owned());
        thread.spawn(move || {
            Sweep::new(&*disk, SystemTime::now(), keep).visit(root, 0);
            drop(sweeping);
        })
    });
    if let Err(error) = begun {
        tracing::debug!(%error, "can't look for incomplete files of former transfers");
    }
}

struct Sweep<'a> {
    disk: &'a dyn Disk,
    /// What was touched later, in seconds and nanoseconds since 1970, was touched by another clock.
    future: (i64, i64),
    /// What was touched since stays.
    before: (i64, i64),
    /// The same for links, which nobody can lock: a transfer has one for a moment only.
    links_before: (i64, i64),
    left: usize,
}

impl<'a> Sweep<'a> {
    fn new(disk: &'a dyn Disk, now: SystemTime, keep: Duration) -> Self {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = |since: Duration| (since.as_secs() as i64, since.subsec_nanos().into());
        Self {
            disk,
            future: time(now + MARGIN),
            before: time(now.saturating_sub(keep)),
            links_before: time(now.saturating_sub(keep.max(MARGIN))),
            left: MOST,
        }
    }

    /// Goes through a directory, then through those in it; never through a link.
    fn visit(&mut self, mut dir: Dir, depth: usize) {
        let mut below = Vec::new();
        let maker = Maker::default();
        // The stream of names must not be borrowed while one of them is opened.
        let (mut parts, mut links) = (Vec::new(), Vec::new());
        for entry in dir.iter().flatten() {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            match entry.file_type() {
                Some(Type::Directory) if name != "." && name != ".." => below.push(name.to_owned()),
                Some(Type::File) | None if is_temporary(name) => parts.push(name.to_owned()),
                Some(Type::Symlink) if is_temporary(name) => links.push(name.to_owned()),
                _ => {}
            }
        }
        for name in parts {
            // Locked until it is removed: a transfer could go on with it meanwhile.
            if let Some(_dead) = self.dead(dir.as_fd(), &name, &maker) {
                self.remove(dir.as_fd(), &name);
            }
        }
        for name in links {
            if self.is_dead_link(dir.as_fd(), &name, &maker) {
                self.remove(dir.as_fd(), &name);
            }
        }
        for name in below {
            if depth < SafeName::MAX_DEPTH
                && let Ok(dir) = Dir::openat(dir.as_fd(), name.as_str(), DIRECTORY, Mode::empty())
            {
                self.visit(dir, depth + 1);
            }
        }
    }

    fn remove(&self, dir: BorrowedFd<'_>, name: &str) {
        let file = printable(name, SafeName::MAX_LEN);
        tracing::info!(%file, "removing an incomplete file of a former transfer");
        if let Err(error) = self.disk.remove(dir, name) {
            tracing::warn!(%file, %error, "can't remove an incomplete file");
        }
    }

    /// A symbolic link of ours that is old.
    fn is_dead_link(&self, dir: BorrowedFd<'_>, name: &str, maker: &Maker) -> bool {
        fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(|stat| {
            SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFLNK
                && (stat.st_ctime, stat.st_ctime_nsec) < self.links_before
                && maker.is(stat.st_uid, self.disk, dir)
        })
    }

    /// A regular file of ours that is old and that no receiver has open. One of the future was made
    /// before the clock was set back: it is as old as today.
    fn dead(&self, dir: BorrowedFd<'_>, name: &str, maker: &Maker) -> Option<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = File::from(openat(dir, name, flags, Mode::empty()).ok()?);
        let stat = fstat(&file).ok()?;
        // Not the time of modification: the receiver sets that to the sender's.
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        let is_free = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG
            && (changed < self.before || changed > self.future)
            && maker.is(stat.st_uid, self.disk, dir)
            && lock(&file, dir, name).is_ok_and(|lock| lock == Lock::Ours);
        if is_free && changed > self.future {
            touch(&file).ok();
            return None;
        }
        is_free.then_some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::Os;
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    const MINUTE: Duration = Duration::from_secs(60);

    /// What is left if it is `now`, and incomplete files are kept for a minute.
    fn sweep(at: &Path, now: SystemTime) -> Vec<String> {
        let root = File::open(at).unwrap();
        let root = Dir::openat(&root, ".", DIRECTORY, Mode::empty()).unwrap();
        Sweep::new(&Os, now, MINUTE).visit(root, 0);
        let mut left = Vec::new();
        for item in walkdir::WalkDir::new(at).min_depth(1).sort_by_file_name() {
            let item = item.unwrap();
            if !item.file_type().is_dir() {
                left.push(item.file_name().to_str().unwrap().to_owned());
            }
        }
        left
    }

    #[test]
    fn only_dead_parts_are_removed() {
        let (at, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let others = [
            ".a.manyway-part-0123456",
            ".a.manyway-part-0123456g",
            ".a.manyway-part-012345678",
            ".a.manyway-part-0123456A",
            ".manyway-part-01234567",
            "a.manyway-part-01234567",
            "notes.txt",
        ];
        fs::create_dir_all(at.path().join("d/e")).unwrap();
        let parts = [".a.manyway-part-01234567", "d/e/.b.c.manyway-part-89abcdef"];
        for name in others.iter().chain(&parts) {
            fs::write(at.path().join(name), "x").unwrap();
        }
        let linked = elsewhere.path().join(".l.manyway-part-01234567");
        fs::write(&linked, "x").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), at.path().join("link")).unwrap();
        std::os::unix::fs::symlink(&linked, at.path().join(".s.manyway-part-01234567")).unwrap();
        let live = Os.create(
            File::open(at.path()).unwrap().as_fd(),
            ".live.manyway-part-01234567",
        );
        let all = others.len() + parts.len() + 3;

        // Nothing is old enough yet.
        let now = SystemTime::now();
        assert_eq!(sweep(at.path(), now).len(), all);
        let left = sweep(at.path(), now + 2 * MINUTE);
        assert_eq!(left.len(), all - 2, "{left:?}");
        for part in [".a.manyway-part-01234567", ".b.c.manyway-part-89abcdef"] {
            assert!(!left.iter().any(|name| name == part), "{left:?}");
        }
        assert!(linked.exists());
        // Once its receiver is dead, it goes.
        drop(live);
        let left = sweep(at.path(), now + 2 * MINUTE);
        assert_eq!(left.len(), all - 3, "{left:?}");
        // Nobody can tell whose a link is, unless it is really old.
        let left = sweep(at.path(), now + 61 * MINUTE);
        assert_eq!(left.len(), all - 4, "{left:?}");
        assert!(linked.exists() && !at.path().join(".s.manyway-part-01234567").is_symlink());
    }

    /// The transfer makes files meanwhile.
    #[test]
    fn what_is_made_meanwhile_is_left_alone() {
        let at = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        std::thread::sleep(Duration::from_millis(50));
        let part = at.path().join(".a.manyway-part-01234567");
        fs::write(&part, "x").unwrap();
        let changed = || {
            let metadata = fs::metadata(&part).unwrap();
            (metadata.ctime(), metadata.ctime_nsec())
        };
        let made = changed();
        let root = File::open(at.path()).unwrap();
        let sweep = Sweep::new(&Os, now, Duration::ZERO);
        assert!(
            sweep
                .dead(root.as_fd(), ".a.manyway-part-01234567", &Maker::default())
                .is_none()
        );
        assert_eq!(changed(), made);
    }

    /// It would stay until the clock is there again, and so long after.
    #[test]
    fn what_comes_from_the_future_counts_from_now_on() {
        let at = tempfile::tempdir().unwrap();
        let part = at.path().join(".a.manyway-part-01234567");
        fs::write(&part, "x").unwrap();
        let changed = || {
            let metadata = fs::metadata(&part).unwrap();
            (metadata.ctime(), metadata.ctime_nsec())
        };
        let made = changed();
        std::thread::sleep(Duration::from_millis(50));
        // It is new.
        sweep(at.path(), SystemTime::now());
        assert_eq!(changed(), made);
        // A year ago.
        let now = SystemTime::now() - 525_600 * MINUTE;
        assert_eq!(sweep(at.path(), now).len(), 1);
        assert!(changed() > made);
    }
}
