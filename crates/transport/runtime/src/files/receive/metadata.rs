//! Which metadata files, directories and links get.

use super::super::attributes::{self, Kinds};
use super::super::summary::Skipped;
use super::disk::Disk;
use super::options::ReceiveOptions;
use super::tree::Dir;
use manyway_os::file::attributes::Of;
use manyway_transfer::{Agreement, Attribute, Entry, Owner, Policy};
use manyway_units::printable;
use nix::sys::stat::{FileStat, fstat};
use nix::unistd::{Group, User, geteuid};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

/// The set-user-ID, set-group-ID and sticky bits.
const SUID: u16 = 0o4000;
const SGID: u16 = 0o2000;
const STICKY: u16 = 0o1000;

const OLD: &str = "its metadata is unchanged: another user owns it, or it has another name";
const UNSET: &str = "the system doesn't set its set-user-ID, set-group-ID or sticky bit";

/// What of its entry's metadata something gets.
#[derive(Debug)]
pub(super) struct Metadata {
    /// Also what exists already.
    existing: bool,
    modes: bool,
    /// With the special bits.
    special: bool,
    owners: bool,
    groups: bool,
    attributes: Kinds,
    users_here: Ids,
    groups_here: Ids,
}

impl Metadata {
    pub(super) fn new(options: &ReceiveOptions, agreed: Agreement) -> Self {
        // What the sender doesn't tell isn't removed.
        let attributes = Kinds::agreed(agreed);
        let owners = options.owners || options.groups;
        let asked = options.keeps_modes() || owners || attributes.any();
        Self {
            existing: options.policy == Policy::Overwrite && asked,
            modes: options.keeps_modes(),
            special: options.keep_modes,
            owners: options.owners,
            groups: options.groups,
            attributes,
            users_here: Ids::default(),
            groups_here: Ids::default(),
        }
    }

    /// Is what exists already brought up to date?
    pub(super) fn updates(&self) -> bool {
        self.existing
    }

    /// Gives a file or directory all that its entry says, and notes what isn't possible.
    pub(super) fn restore(
        &self,
        disk: &dyn Disk,
        of: BorrowedFd<'_>,
        entry: &Entry,
        altered: &mut Skipped,
    ) -> io::Result<()> {
        for (uid, gid) in self.owners_of(entry, &fstat(of)?) {
            note(
                "owner or group",
                entry,
                disk.set_owner(of, uid, gid),
                altered,
            )?;
        }
        for (name, value) in self.attributes_of(entry, of) {
            if let Err(error) = disk.set_attribute(of, &name, value.as_deref()) {
                // It is the sender's.
                let name = printable(&name, Attribute::MAX_NAME);
                let reason = format_args!("its extended attribute {name} is unchanged: {error}");
                altered.add(&entry.name, reason);
            }
        }
        let mode = self.mode_of(entry, of)?;
        for (bit, name, of) in [
            (SUID, "set-user-ID", "owner"),
            (SGID, "set-group-ID", "group"),
        ] {
            if entry.mode & !mode & bit != 0 {
                let reason = format_args!(
                    "its {name} bit isn't set, as its {of} isn't the sender's (`--{of}`)"
                );
                altered.add(&entry.name, reason);
            }
        }
        // At last: it may take away the right to do the rest.
        let restored = match mode == entry.mode {
            true => disk.restore(of, entry),
            false => disk.restore(
                of,
                &Entry {
                    mode,
                    ..entry.clone()
                },
            ),
        };
        note("mode or time", entry, restored, altered)?;
        // A system that doesn't allow it may say nothing: Linux does so with the set-group-ID bit
        // of a group that isn't ours.
        if mode & Entry::SPECIAL & !(fstat(of)?.st_mode as u16) != 0 {
            altered.add(&entry.name, UNSET);
        }
        Ok(())
    }

    /// The mode of a file or directory that has the owner and group that it gets. A program runs as
    /// them only if they are the sender's.
    fn mode_of(&self, entry: &Entry, of: BorrowedFd<'_>) -> io::Result<u16> {
        let mut mode = entry.mode;
        if entry.is_file() && mode & (SUID | SGID) != 0 {
            let stat = fstat(of)?;
            let theirs = entry.owner.as_ref().map(|owner| self.here(owner));
            if !(self.owners && theirs.is_some_and(|(uid, _)| uid == stat.st_uid)) {
                mode &= !SUID;
            }
            if !(self.groups && theirs.is_some_and(|(_, gid)| gid == stat.st_gid)) {
                mode &= !SGID;
            }
        } else if !entry.is_file() && !self.special {
            // Whose group names in it get, and who may remove them, isn't the sender's business.
            mode |= fstat(of)?.st_mode as u16 & (SGID | STICKY);
        }
        Ok(mode)
    }

    /// Gives a symbolic link owner and time.
    pub(super) fn restore_link(
        &self,
        dir: &Dir,
        name: &str,
        entry: &Entry,
        altered: &mut Skipped,
    ) -> io::Result<()> {
        if let Some(stat) = dir.look(name)?.stat() {
            for (uid, gid) in self.owners_of(entry, stat) {
                let set = dir.disk().set_owner_of_link(dir.as_fd(), name, uid, gid);
                note("owner or group", entry, set, altered)?;
            }
        }
        dir.disk().restore_link(dir.as_fd(), name, entry.mtime)
    }

    /// Brings a file up to date whose content is there.
    pub(super) fn update_file(
        &self,
        dir: &Dir,
        entry: &Entry,
        altered: &mut Skipped,
    ) -> io::Result<()> {
        let file = match dir.open_file(entry.name.file_name()) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                altered.add(&entry.name, OLD);
                return Ok(());
            }
            opened => opened?,
        };
        let stat = fstat(&file)?;
        if self.is_up_to_date(&stat, entry) && self.attributes_of(entry, file.as_fd()).is_empty() {
            return Ok(());
        }
        // Another name of it, elsewhere, isn't the sender's business.
        let elsewhere = stat.st_nlink > 1 && !entry.shared;
        if elsewhere || self.lends_rights(entry, &stat) || !file.metadata()?.is_file() {
            altered.add(&entry.name, OLD);
            return Ok(());
        }
        self.update(dir, file.as_fd(), entry, altered)?;
        dir.disk().sync_file(&file)
    }

    /// Would what another user may have written run with rights that aren't that user's?
    fn lends_rights(&self, entry: &Entry, stat: &FileStat) -> bool {
        let theirs = entry.owner.as_ref().map(|owner| self.here(owner).0);
        stat.st_uid != geteuid().as_raw()
            && (entry.mode & SGID != 0
                || entry.mode & SUID != 0 && theirs.is_some_and(|uid| uid != stat.st_uid))
    }

    /// Brings a directory up to date that was there.
    pub(super) fn update_dir(
        &self,
        dir: &Dir,
        entry: &Entry,
        altered: &mut Skipped,
    ) -> io::Result<()> {
        dir.close_again()?;
        self.update(dir, dir.as_fd(), entry, altered)
    }

    fn update(
        &self,
        dir: &Dir,
        of: BorrowedFd<'_>,
        entry: &Entry,
        altered: &mut Skipped,
    ) -> io::Result<()> {
        let stat = fstat(of)?;
        if stat.st_uid != geteuid().as_raw() && !geteuid().is_root() {
            altered.add(&entry.name, OLD);
            return Ok(());
        }
        let mut entry = entry.clone();
        if !self.modes {
            entry.mode = stat.st_mode as u16 & Entry::MODE_MASK & !Entry::SPECIAL;
        }
        self.restore(dir.disk(), of, &entry, altered)
    }

    fn is_up_to_date(&self, stat: &FileStat, entry: &Entry) -> bool {
        let same_mode = stat.st_mode as u16 & 0o7777 == entry.mode;
        (same_mode || !self.modes) && self.owners_of(entry, stat).next().is_none()
    }

    /// Extended attributes that are to be set, or removed.
    fn attributes_of(&self, entry: &Entry, of: BorrowedFd<'_>) -> Vec<(String, Option<Vec<u8>>)> {
        if !self.attributes.any() {
            return Vec::new();
        }
        // What can't be read can still be set.
        let there = attributes::read(Of::Open(of), self.attributes, |_| {}).unwrap_or_default();
        let wanted = entry.attributes.iter();
        let wanted: Vec<_> = wanted
            .filter(|new| self.attributes.want(&new.name))
            .collect();
        let gone = there
            .iter()
            .filter(|old| wanted.iter().all(|new| new.name != old.name));
        let gone = gone.map(|old| (old.name.clone(), None));
        let new = wanted.iter().filter(|new| !there.contains(new));
        let new = new.map(|new| (new.name.clone(), Some(new.value.clone())));
        gone.chain(new).collect()
    }

    /// User and group that are to be set, one at a time: one may be allowed, and the other not.
    fn owners_of(
        &self,
        entry: &Entry,
        stat: &FileStat,
    ) -> impl Iterator<Item = (Option<u32>, Option<u32>)> + use<> {
        let wanted = entry.owner.as_ref().map(|owner| self.here(owner));
        let uid = wanted.filter(|_| self.owners).map(|(uid, _)| uid);
        let gid = wanted.filter(|_| self.groups).map(|(_, gid)| gid);
        let uid = uid.filter(|&uid| uid != stat.st_uid);
        let gid = gid.filter(|&gid| gid != stat.st_gid);
        // Once it is somebody else's, its group can't be set.
        let gid = gid.map(|gid| (None, Some(gid)));
        gid.into_iter().chain(uid.map(|uid| (Some(uid), None)))
    }

    /// The numbers here: by name if that exists. Root is root everywhere.
    fn here(&self, owner: &Owner) -> (u32, u32) {
        let user = |name: &str| Some(User::from_name(name).ok()??.uid.as_raw());
        let group = |name: &str| Some(Group::from_name(name).ok()??.gid.as_raw());
        let uid = self.users_here.get(owner.uid, &owner.user, user);
        let gid = self.groups_here.get(owner.gid, &owner.group, group);
        (uid, gid)
    }
}

/// What isn't permitted is left as it is; what fails otherwise ends the transfer.
fn note(what: &str, entry: &Entry, set: io::Result<()>, altered: &mut Skipped) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    match set {
        Err(error) if matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported) => {
            let reason = format_args!("its {what} is unchanged: {error}");
            altered.add(&entry.name, reason);
            Ok(())
        }
        other => other,
    }
}

/// The numbers of names here; a lookup may ask another host.
#[derive(Debug, Default)]
struct Ids(Mutex<HashMap<String, Option<u32>>>);

impl Ids {
    const MOST: usize = 10_000;

    fn get(&self, id: u32, name: &str, look: impl Fn(&str) -> Option<u32>) -> u32 {
        if id == 0 || name.is_empty() {
            return id;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == Self::MOST && !known.contains_key(name) {
            known.clear();
        }
        let found = known.entry(name.to_owned()).or_insert_with(|| look(name));
        found.unwrap_or(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manyway_transfer::{Hello, Role};

    #[test]
    fn names_count_where_they_exist_and_root_is_root() {
        let options = ReceiveOptions::default();
        let theirs = Hello::new(Role::Sender);
        let metadata = Metadata::new(&options, options.hello().agree(theirs).unwrap());
        let here = |uid, gid, user: &str, group: &str| {
            metadata.here(&Owner {
                uid,
                gid,
                user: user.to_owned(),
                group: group.to_owned(),
            })
        };
        assert_eq!(here(12345, 12346, "root", "root"), (0, 0));
        assert_eq!(here(12345, 12346, "", "nobody here"), (12345, 12346));
        assert_eq!(here(0, 0, "nobody", "nogroup"), (0, 0));
    }

    #[test]
    fn lookups_are_remembered_within_bounds() {
        let ids = Ids::default();
        for n in 0..2 * Ids::MOST as u32 {
            assert_eq!(ids.get(7, &n.to_string(), |_| Some(n)), n);
            assert_eq!(ids.get(7, &n.to_string(), |_| None), n);
        }
        assert!(ids.0.lock().unwrap().len() <= Ids::MOST);
    }
}
