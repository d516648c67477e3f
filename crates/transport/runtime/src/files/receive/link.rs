//! Puts links in their places.

use super::super::summary::Skipped;
use super::disk::{Found, Id};
use super::end::{End, write_failure};
use super::metadata::Metadata;
use super::part::{Named, take_name};
use super::room::Room;
use super::temporary::{left_name, random_name};
use super::tree::Dir;
use manyway_transfer::{Entry, Existing, Failure, Policy, Target};
use nix::errno::Errno;
use nix::fcntl::readlinkat;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// What a link takes from its temporary name to its final one, and much more.
const MOMENT: Duration = Duration::from_secs(1);

/// A link to be put somewhere.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) dir: Arc<Dir>,
    pub(super) entry: Entry,
}

impl Link {
    /// Makes a symbolic link, and says which; `None`: the same was there.
    pub(super) fn place_symlink(
        &self,
        target: &Target,
        room: &mut Room<'_>,
        metadata: &Metadata,
        altered: &mut Skipped,
    ) -> Result<Option<Id>, End> {
        let Self { dir, entry } = self;
        let name = entry.name.file_name();
        let failure = |error| write_failure("making the link", &entry.name, error);
        if room.policy != Policy::Rename && leads_to(dir, name, target).map_err(failure)? {
            // The link itself may have another time or owner.
            let touched = match room.policy {
                Policy::Overwrite => metadata.restore_link(dir, name, entry, altered),
                _ => Ok(()),
            };
            touched.map_err(failure)?;
            return Ok(None);
        }
        let is_left = |found: &Found| found.existing == Existing::Symlink;
        let temporary = self.temporary(is_left, |name| {
            dir.disk().symlink(dir.as_fd(), target.as_str(), name)?;
            let restored = metadata.restore_link(dir, name, entry, altered);
            restored.or_else(|error| dir.disk().remove(dir.as_fd(), name).and(Err(error)))
        });
        let temporary = temporary.map_err(failure)?;
        let is_same = |name: &str| leads_to(dir, name, target).unwrap_or(false);
        let named = take_name(dir, entry, &temporary, room, is_same);
        match named {
            Ok(Named::As(name)) => Ok(dir.look(&name).map_err(failure)?.any_id()),
            Ok(Named::Same) => Ok(self.remove(&temporary).map(|()| None)?),
            Err(end) => Err(self.remove(&temporary).map_or_else(End::from, |()| end)),
        }
    }

    /// Makes a hard link to a file, unless it has that name. `false`: that isn't possible here.
    pub(super) fn place_hard_link(
        &self,
        (from, from_name, id): (Arc<Dir>, String, Id),
        room: &mut Room<'_>,
    ) -> Result<bool, End> {
        let Self { dir, entry } = self;
        let failure = |error| write_failure("making the link", &entry.name, error);
        let is_it = |name: &str| Ok::<_, io::Error>(dir.look(name)?.id() == Some(id));
        if room.policy != Policy::Rename && is_it(entry.name.file_name()).map_err(failure)? {
            return Ok(true);
        }
        let is_left = |found: &Found| found.id() == Some(id);
        let made = self.temporary(is_left, |name| {
            let of = (from.as_fd(), &*from_name);
            dir.disk().link(of, dir.as_fd(), name)
        });
        let temporary = match made {
            Err(error) if cannot_link(&error) => return Ok(false),
            made => made.map_err(failure)?,
        };
        // Somebody may have put another file there.
        if !is_it(&temporary).map_err(failure)? {
            return Ok(self.remove(&temporary).map(|()| false)?);
        }
        let is_same = |name: &str| is_it(name).unwrap_or(false);
        match take_name(dir, entry, &temporary, room, is_same) {
            Ok(Named::As(_)) => Ok(true),
            Ok(Named::Same) => Ok(self.remove(&temporary).map(|()| true)?),
            Err(end) => Err(self.remove(&temporary).map_or_else(End::from, |()| end)),
        }
    }

    /// Makes something under a temporary name, and says which. `is_left`: that is such a thing.
    fn temporary(
        &self,
        is_left: impl Fn(&Found) -> bool,
        mut make: impl FnMut(&str) -> io::Result<()>,
    ) -> io::Result<String> {
        let mut name = left_name(self.entry.name.file_name());
        self.clear(&name, is_left)?;
        loop {
            match make(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    name = random_name(self.entry.name.file_name());
                }
                made => return made.map(|()| name),
            }
        }
    }

    /// Removes what a receiver that was killed has left there. One that is alive, which makes the
    /// same link, needs the name for a moment only.
    fn clear(&self, name: &str, is_left: impl Fn(&Found) -> bool) -> io::Result<()> {
        let left = || {
            let found = self.dir.look(name)?;
            // A number may be used again.
            let which = found
                .stat()
                .map(|s| (s.st_ino, s.st_ctime, s.st_ctime_nsec));
            Ok::<_, io::Error>(which.filter(|_| is_left(&found)))
        };
        let Some(before) = left()? else {
            return Ok(());
        };
        std::thread::sleep(MOMENT);
        if left()? != Some(before) {
            return Ok(());
        }
        match self.dir.disk().remove(self.dir.as_fd(), name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn remove(&self, name: &str) -> Result<(), Failure> {
        let removed = self.dir.disk().remove(self.dir.as_fd(), name);
        removed.map_err(|error| write_failure("removing a link", &self.entry.name, error))
    }
}

/// Not every file system has hard links, nor as many as one may want, nor to other file systems.
fn cannot_link(error: &io::Error) -> bool {
    use Errno::{EACCES, EMLINK, ENOENT, ENOSYS, EPERM, EXDEV};
    let no = [EACCES, EMLINK, ENOENT, ENOSYS, Errno::ENOTSUP, EPERM, EXDEV];
    let errno = error.raw_os_error().map(Errno::from_raw);
    errno.is_some_and(|errno| no.contains(&errno))
}

/// Is it a symbolic link to that target?
pub(super) fn leads_to(dir: &Dir, name: &str, target: &Target) -> io::Result<bool> {
    Ok(dir.look(name)?.existing == Existing::Symlink
        && readlinkat(dir, name).is_ok_and(|found| found == target.as_str()))
}
