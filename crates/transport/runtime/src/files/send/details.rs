//! What an entry says beside name, kind, mode and time, if the receiver wants to know it.

use super::super::attributes::{self, Kinds};
use super::super::summary::Skipped;
use manyway_os::file::attributes::Of;
use manyway_transfer::{Agreement, Attribute, Entry, Hello, Kind, Owner};
use manyway_units::printable;
use nix::unistd::{Gid, Group, Uid, User};
use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What to look up, and what was looked up.
pub(super) struct Details {
    owners: bool,
    attributes: Kinds,
    users: Names,
    groups: Names,
}

impl Details {
    pub(super) fn new(agreed: Agreement) -> Self {
        Self {
            owners: agreed.has(Hello::OWNERS),
            attributes: Kinds::agreed(agreed),
            users: Names::default(),
            groups: Names::default(),
        }
    }

    /// Completes the entry of what is at `path`.
    pub(super) fn add(
        &mut self,
        entry: &mut Entry,
        metadata: &Metadata,
        path: &Path,
        skipped: &mut Skipped,
    ) {
        // Of a hard link, they are its file's.
        if matches!(entry.kind, Kind::HardLink(_) | Kind::LeftOut(_)) {
            return;
        }
        if self.owners {
            entry.owner = Some(self.owner(metadata.uid(), metadata.gid()));
        }
        if self.attributes.any() {
            let missed = |attribute: &str| {
                let attribute = printable(attribute, Attribute::MAX_NAME);
                let reason = format_args!("its extended attribute {attribute} isn't sent");
                skipped.add(&entry.name, reason);
            };
            match attributes::read(Of::Path(path), self.attributes, missed) {
                Ok(list) if Attribute::are_valid(&list) => entry.attributes = list,
                Ok(_) => skipped.add(&entry.name, "its extended attributes have more than 32 KiB"),
                Err(error) => {
                    let reason = format_args!("its extended attributes can't be sent: {error}");
                    skipped.add(&entry.name, reason);
                }
            }
        }
    }

    fn owner(&mut self, uid: u32, gid: u32) -> Owner {
        let user = |id| User::from_uid(Uid::from_raw(id)).ok().flatten();
        let group = |id| Group::from_gid(Gid::from_raw(id)).ok().flatten();
        let owner = Owner {
            uid,
            gid,
            user: self.users.get(uid, |id| user(id).map(|user| user.name)),
            group: self.groups.get(gid, |id| group(id).map(|group| group.name)),
        };
        match owner.is_valid() {
            true => owner,
            false => Owner {
                user: String::new(),
                group: String::new(),
                ..owner
            },
        }
    }
}

/// Names of users or groups; a lookup may ask another host.
#[derive(Default)]
struct Names(HashMap<u32, String>);

impl Names {
    const MOST: usize = 10_000;

    fn get(&mut self, id: u32, look: impl Fn(u32) -> Option<String>) -> String {
        if self.0.len() == Self::MOST && !self.0.contains_key(&id) {
            self.0.clear();
        }
        let name = self.0.entry(id);
        name.or_insert_with(|| look(id).unwrap_or_default()).clone()
    }
}
