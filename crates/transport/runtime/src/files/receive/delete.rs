//! Removes what the sender doesn't have, where the receiver's user wants that.
//!
//! It goes through the manifest once more when everything else is done. In each directory of the
//! manifest, what the manifest doesn't name goes.

use super::disk::{Found, Id};
use super::end::{End, spool_failure, sync_failure, write_failure};
use super::outgoing::Outgoing;
use super::temporary::is_temporary;
use super::tree::{Dir, RECEIVING_DIR};
use crate::files::spool::Stored;
use crate::files::summary::Deleted;
use manyway_transfer::failure::Side;
use manyway_transfer::message::Batch;
use manyway_transfer::{Entry, Existing, Failure, Filter, Message, SafeName, Timestamp};
use nix::dir::Dir as Listing;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use tokio::sync::mpsc;

/// What is removed, and how.
pub(super) struct Deletion<'a, T> {
    /// What the sender's user has left out stays.
    pub(super) filter: &'a Filter,
    /// Names at the top that begin with a dot may go, too.
    pub(super) dotfiles: bool,
    /// Nothing goes: what would go is only told.
    pub(super) dry_run: bool,
    /// The sender is gone: its user may have thought better of it.
    pub(super) is_over: &'a dyn Fn() -> bool,
    /// Hears each name, in the order in which they go.
    pub(super) tell: T,
    /// Of names.
    pub(super) hasher: RandomState,
}

/// What has gone, and what of it the sender hasn't heard yet.
#[derive(Default)]
pub(super) struct Told {
    deleted: Deleted,
    names: Vec<SafeName>,
    batch: Batch,
}

impl Told {
    /// Tells the sender in messages that are not too long.
    pub(super) fn add(&mut self, name: SafeName, out: &mpsc::Sender<Outgoing>) {
        self.deleted.add(&name);
        if !self.batch.add(name.as_str().len()) {
            self.flush(out);
            self.batch.add(name.as_str().len());
        }
        self.names.push(name);
    }

    /// All that has gone: the sender has heard of it.
    pub(super) fn end(mut self, out: &mpsc::Sender<Outgoing>) -> Deleted {
        self.flush(out);
        self.deleted
    }

    fn flush(&mut self, out: &mpsc::Sender<Outgoing>) {
        self.batch = Batch::default();
        let names = std::mem::take(&mut self.names);
        if !names.is_empty() {
            // If nobody listens any more, that shows elsewhere.
            let _ = out.blocking_send(Outgoing::Frame(Message::Deleted(names).to_bytes()));
        }
    }
}

/// A directory of the manifest.
struct Level {
    /// `None`: it doesn't exist.
    dir: Option<Arc<Dir>>,
    /// Does the manifest say all that is in it?
    whole: bool,
    /// Its time at the sender.
    mtime: Option<Timestamp>,
    /// What is there under each name that the manifest has. By hashes of the names: one in the way
    /// keeps a file that should go.
    names: HashMap<u64, Option<Id>>,
}

impl Level {
    fn new(dir: Option<Arc<Dir>>, whole: bool, mtime: Option<Timestamp>) -> Self {
        Self {
            dir,
            whole,
            mtime,
            names: HashMap::new(),
        }
    }

    /// What the manifest has by another spelling than those `listed` (hashes of all names that are
    /// there): not every file system tells `a` from `A`, or keeps how `é` is written.
    fn spelt_otherwise(&self, listed: &HashSet<u64>) -> HashSet<Id> {
        let absent = self.names.iter().filter(|(name, _)| !listed.contains(name));
        absent.filter_map(|(_, id)| *id).collect()
    }
}

impl<T: FnMut(SafeName)> Deletion<'_, T> {
    /// Removes it; with `top`, also in the receiving directory itself. A dry run also tells which
    /// directories make room for files or links, of what is to be `replaced`.
    ///
    /// Memory grows by some 50 bytes for each entry of the directories that hold each other.
    pub(super) fn run(
        mut self,
        root: &Arc<Dir>,
        top: bool,
        manifest: &Stored,
        replaced: &HashSet<Id>,
    ) -> Result<(), End> {
        let mut levels = vec![Level::new(Some(root.clone()), top, None)];
        for entry in manifest.entries() {
            let entry = entry.map_err(spool_failure)?;
            for level in levels.drain(entry.name.depth()..).rev() {
                self.clean(&level)?;
            }
            let Some(level) = levels.last_mut() else {
                break;
            };
            let inside = self.note(level, &entry, replaced)?;
            if entry.is_directory() {
                levels.push(Level::new(inside, true, Some(entry.mtime)));
            }
        }
        levels.iter().rev().try_for_each(|level| self.clean(level))
    }

    /// Notes that the manifest has it; the directory, if it is one that exists.
    fn note(
        &mut self,
        level: &mut Level,
        entry: &Entry,
        replaced: &HashSet<Id>,
    ) -> Result<Option<Arc<Dir>>, End> {
        let explain = |error| write_failure("looking up", &entry.name, error);
        let name = entry.name.file_name();
        let id = level.names.entry(self.hasher.hash_one(name)).or_default();
        let Some(dir) = &level.dir else {
            return Ok(None);
        };
        let found = dir.look(name).map_err(explain)?;
        *id = found.any_id();
        if found.existing != Existing::Directory {
            return Ok(None);
        }
        if entry.is_directory() {
            return Ok(Some(dir.open(name).map_err(explain)?));
        }
        // Otherwise it has gone, unless its successor was left out.
        if self.dry_run && id.is_some_and(|id| replaced.contains(&id)) {
            self.remove(dir, name, &found)?;
        }
        Ok(None)
    }

    fn clean(&mut self, level: &Level) -> Result<(), End> {
        let Some(dir) = level.dir.as_ref().filter(|_| level.whole) else {
            return Ok(());
        };
        let (names, _) = list(dir)?;
        let listed: HashSet<_> = names
            .iter()
            .map(|name| self.hasher.hash_one(name))
            .collect();
        let others = level.spelt_otherwise(&listed);
        // If it had the sender's time, it keeps that.
        let kept = level
            .mtime
            .filter(|mtime| dir.mtime().is_ok_and(|now| now == *mtime));
        let mut changed = false;
        for name in names {
            if level.names.contains_key(&self.hasher.hash_one(&name)) {
                continue;
            }
            let found = dir.look(&name);
            let found = found.map_err(|error| named(dir, "looking up", &name, error))?;
            if found.any_id().is_none_or(|id| !others.contains(&id)) {
                changed |= self.remove(dir, &name, &found)?;
            }
        }
        if changed && !self.dry_run {
            let timed = kept.map_or(Ok(()), |mtime| dir.disk().set_time(dir.as_fd(), mtime));
            let synced = timed.and_then(|()| dir.sync());
            synced.map_err(|error| sync_failure(dir, &error))?;
        }
        Ok(())
    }

    /// Removes what has that name, with all below it; `false`: it stays, or something below it.
    pub(super) fn remove(
        &mut self,
        dir: &Arc<Dir>,
        name: &str,
        found: &Found,
    ) -> Result<bool, End> {
        // A transfer may go on with it.
        match is_temporary(&name.to_ascii_lowercase()) {
            true => Ok(false),
            false => self.remove_file_or_dir(dir, name, found),
        }
    }

    fn remove_file_or_dir(
        &mut self,
        dir: &Arc<Dir>,
        name: &str,
        found: &Found,
    ) -> Result<bool, End> {
        if (self.is_over)() {
            return Err(End::Gone);
        }
        let is_directory = match found.existing {
            Existing::Nothing => return Ok(true),
            existing => existing == Existing::Directory,
        };
        // Deeper than names can be.
        let Ok(local) = dir.local_name(name) else {
            return Ok(false);
        };
        let is_hidden = local.depth() == 1 && name.starts_with('.');
        if is_hidden && !self.dotfiles
            || !self.filter.takes(&local, is_directory)
            // What is mounted here isn't the receiver's.
            || dir.has_mount(name, found)
        {
            return Ok(false);
        }
        let explain = |error| write_failure("deleting", &local, error);
        if is_directory {
            let inside = match dir.open(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                opened => opened.map_err(explain)?,
            };
            if !self.empty(&inside)? {
                return Ok(false);
            }
        }
        if !self.dry_run {
            dir.open_up();
            let removed = match is_directory {
                true => dir.disk().remove_dir(dir.as_fd(), name),
                false => dir.disk().remove(dir.as_fd(), name),
            };
            match removed {
                Ok(()) => {}
                // Somebody else was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                // Something new has come into it.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(false),
                Err(error) => return Err(explain(error).into()),
            }
        }
        (self.tell)(local);
        Ok(true)
    }

    /// Removes all that is in a directory; `false`: something stays.
    fn empty(&mut self, dir: &Arc<Dir>) -> Result<bool, End> {
        let (names, mut all) = list(dir)?;
        for name in names {
            let found = dir.look(&name);
            let found = found.map_err(|error| named(dir, "looking up", &name, error))?;
            all &= match is_temporary(&name.to_ascii_lowercase()) {
                true => self.remove_part(dir, &name, &found)?,
                false => self.remove_file_or_dir(dir, &name, &found)?,
            };
        }
        Ok(all)
    }

    /// Removes an incomplete file of a directory that goes, unless somebody writes it: no transfer
    /// could go on with it there. It is nothing that the users have to hear of.
    fn remove_part(&self, dir: &Arc<Dir>, name: &str, found: &Found) -> Result<bool, End> {
        let removed = dir.lock_part(name, found, self.dry_run).and_then(|locked| {
            if locked.is_some() && !self.dry_run {
                dir.open_up();
                dir.disk().remove(dir.as_fd(), name)?;
            }
            Ok(locked.is_some())
        });
        match removed {
            // Whoever wrote it has ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            removed => removed.map_err(|error| named(dir, "deleting", name, error).into()),
        }
    }
}

/// The names in a directory, sorted, and whether they are all. One that isn't UTF-8 is none that a
/// sender could have sent: it stays, and with it the directory.
fn list(dir: &Dir) -> Result<(Vec<String>, bool), Failure> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_RDONLY;
    let listed = Listing::openat(dir.as_fd(), ".", flags, Mode::empty()).and_then(|mut all| {
        let (mut names, mut complete) = (Vec::new(), true);
        for item in all.iter() {
            match item?.file_name().to_str() {
                Ok("." | "..") => {}
                Ok(name) => names.push(name.to_owned()),
                Err(_) => complete = false,
            }
        }
        names.sort();
        Ok((names, complete))
    });
    listed.map_err(|error: Errno| named(dir, "listing", "", error.into()))
}

/// Of something in a directory, or of the directory.
fn named(dir: &Dir, doing: &str, name: &str, error: io::Error) -> Failure {
    let below = match (dir.local(), name) {
        (Some(local), "") => local.as_str().to_owned(),
        (Some(local), name) => format!("{local}/{name}"),
        (None, "") => RECEIVING_DIR.to_owned(),
        (None, name) => name.to_owned(),
    };
    Failure::disk(Side::Receiver, doing, below, &error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As if the file system didn't tell cases apart. A second name of a file is no spelling of it.
    #[test]
    fn what_is_spelt_otherwise_is_known() {
        let [upper, lower, other, gone] = [1, 2, 3, 4];
        let mut level = Level::new(None, true, None);
        let files = [(upper, Some((9, 1))), (other, Some((9, 2))), (gone, None)];
        level.names.extend(files);
        let others = level.spelt_otherwise(&HashSet::from([lower, other]));
        assert_eq!(others, HashSet::from([(9, 1)]));
    }
}
