//! What a receiver looks at before it accepts anything: what exists, and what is hidden.

use super::super::summary::Kept;
use super::arrived::Arrived;
use super::delete::Deletion;
use super::disk::{Found, Id};
use super::end::{End, write_failure};
use super::link::leads_to;
use super::options::{Dotfiles, Links, ReceiveOptions};
use super::part::{renew, worthwhile};
use super::temporary::is_temporary;
use super::times::Times;
use super::tree::{Dir, Level, Tree};
use manyway_transfer::{
    Conflict, Decision, Entry, Existing, Failure, FailureCode, Filter, GROUP, Kind, Policy,
    SafeName, Want, Wants, decide,
};
use std::collections::HashSet;
use std::hash::RandomState;
use std::sync::Arc;

/// Most names that are told.
const TOLD: usize = 4;

/// A look at what exists, before anything is accepted.
pub(super) struct Preview {
    tree: Tree,
    found: Arrived,
    times: Times,
    policy: Policy,
    checksum: bool,
    links: Links,
    deletes: bool,
    deletes_hidden: bool,
    /// See [`Scope::top`](manyway_transfer::Scope::top).
    pub(super) top: bool,
    pub(super) dry_run: bool,
    /// What the sender's user has left out.
    pub(super) filter: Filter,
    /// What is there and becomes another kind.
    replaced: HashSet<Id>,
    entries: u64,
    wants: Wants,
    /// The files that are there under the names of those that hard links may lead to.
    shared: Vec<Option<Id>>,
    missing: u64,
    holes: u64,
    there: Kept,
    conflicts: Vec<(Entry, Conflict)>,
    count: u64,
}

impl Preview {
    pub(super) fn new(root: Arc<Dir>, options: &ReceiveOptions) -> Self {
        Self {
            tree: Tree::new(root),
            found: Arrived::default(),
            times: Times::default(),
            policy: options.policy,
            checksum: options.checksum,
            links: options.links,
            deletes: options.deletes(),
            deletes_hidden: options.deletes_hidden(),
            top: false,
            dry_run: false,
            filter: Filter::default(),
            replaced: HashSet::new(),
            entries: 0,
            wants: Wants::default(),
            shared: Vec::new(),
            missing: 0,
            holes: 0,
            there: Kept::default(),
            conflicts: Vec::new(),
            count: 0,
        }
    }

    /// What is wanted of the entries so far.
    pub(super) fn wants(self) -> Wants {
        self.wants
    }

    /// What is there and becomes another kind.
    pub(super) fn replaced(&mut self) -> HashSet<Id> {
        std::mem::take(&mut self.replaced)
    }

    /// The files that are there.
    pub(super) fn there(&self) -> Kept {
        self.there
    }

    /// Bytes that are to be written, as far as is known.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// How many of them are said to lie in holes, and take no room.
    pub(super) fn holes(&self) -> u64 {
        self.holes
    }

    /// Looks at the next entry, until it is over: a directory may hold much.
    pub(super) fn look(&mut self, entry: &Entry, is_over: &dyn Fn() -> bool) -> Result<(), End> {
        let number = self.entries;
        self.entries += 1;
        // It would be a word on another file or directory. Not all file systems tell cases apart.
        let refused = self.links.refusal(entry, self.top, self.deletes_hidden);
        if matches!(entry.kind, Kind::LeftOut(_)) || refused.is_some() {
            self.wants.set(number, Want::Nothing);
            return Ok(());
        }
        if !entry.is_directory() && is_temporary(&entry.name.file_name().to_ascii_lowercase()) {
            let reason = "the receiver accepts no file of that name: its incomplete files have \
                          such names";
            return Err(Failure::new(FailureCode::Refused, reason)
                .of(&entry.name)
                .into());
        }
        let (inside, want, there) = match self.policy {
            // Whatever exists, there will be another name.
            Policy::Rename => (None, Want::All, 0),
            _ => self.find(entry, is_over)?,
        };
        self.wants.set(number, want);
        match entry.kind {
            Kind::Symlink(_) | Kind::HardLink(_) | Kind::LeftOut(_) => {}
            Kind::Directory if self.policy == Policy::Rename => {}
            Kind::Directory => self.tree.enter(Level {
                dir: inside,
                made: None,
            }),
            Kind::File => {
                let missing = entry.size - there.min(entry.size);
                self.missing += missing;
                self.holes += missing.min(entry.holes);
                if want == Want::Nothing {
                    self.there.add(Kept::whole(entry.size));
                }
            }
        }
        Ok(())
    }

    /// The directory that exists; what is wanted of the entry, and how much of a file needn't be
    /// written.
    fn find(
        &mut self,
        entry: &Entry,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(Option<Arc<Dir>>, Want, u64), End> {
        let failure = |error| write_failure("looking it up", &entry.name, error);
        self.tree.leave_for(&entry.name).for_each(drop);
        let none = Ok((None, Want::All, 0));
        let there = Ok((None, Want::Nothing, entry.size));
        let Some(parent) = self.tree.innermost().cloned() else {
            if entry.shared {
                self.shared.push(None);
            }
            return none;
        };
        let name = entry.name.file_name();
        let found = parent.look(name).map_err(failure)?;
        if let Some(id) = found.sole_id()
            && !self.found.add(&parent, id)
        {
            self.note(entry, Conflict::Alias);
            return none;
        }
        if entry.shared {
            self.shared.push(found.id());
        }
        let compares = entry.is_file() && !self.checksum;
        let times = &mut self.times;
        if compares && times.are_equal(&parent, &found, entry, self.dry_run) {
            return there;
        }
        if let Kind::Symlink(target) = &entry.kind
            && leads_to(&parent, name, target).map_err(failure)?
        {
            return there;
        }
        if let Kind::HardLink(number) = entry.kind
            && found.id().is_some()
            && self.shared.get(number as usize) == Some(&found.id())
        {
            return there;
        }
        let same_size = entry.is_file() && found.size() == Some(entry.size) && self.checksum;
        match decide(self.policy, &entry.kind, found.existing) {
            Decision::Merge => {
                let dir = parent.open(name).map_err(failure)?;
                return Ok((Some(dir), Want::Nothing, 0));
            }
            // The content decides.
            Decision::Refuse(_) if same_size => return Ok((None, Want::Difference, entry.size)),
            Decision::Refuse(Conflict::IsDirectory) if self.replaces_directories() => {
                if !self.is_to_go(&parent, name, &found, is_over)? {
                    self.note(entry, Conflict::KeepsDirectory);
                    return none;
                }
                self.replaced.extend(found.any_id());
            }
            Decision::Refuse(Conflict::IsDirectory) if !self.is_covered(&parent) => {
                self.note(entry, Conflict::IsTopDirectory);
                return none;
            }
            Decision::Refuse(conflict) => {
                self.note(entry, conflict);
                return none;
            }
            Decision::Replace if entry.is_directory() => match found.sole_id() {
                Some(id) => self.replaced.extend([id]),
                // It may be one of this transfer, where two names are one to the disk.
                None => {
                    self.note(entry, Conflict::HasOtherName);
                    return none;
                }
            },
            Decision::Create | Decision::Replace | Decision::Rename => {}
        }
        if !entry.is_file() {
            return none;
        }
        if let Some(left) = worthwhile(&parent, entry, self.dry_run).map_err(failure)? {
            if !self.dry_run {
                renew(&parent, entry).map_err(failure)?;
            }
            return Ok((None, Want::Difference, left));
        }
        let comparable = |size| size >= GROUP && entry.size >= GROUP;
        let compare =
            found.existing == Existing::File && (same_size || found.size().is_some_and(comparable));
        Ok((None, if compare { Want::Difference } else { Want::All }, 0))
    }

    /// Would deletion remove the whole directory if the sender didn't have its name?
    fn is_to_go(
        &self,
        dir: &Arc<Dir>,
        name: &str,
        found: &Found,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool, End> {
        let mut deletion = Deletion {
            filter: &self.filter,
            dotfiles: self.deletes_hidden,
            dry_run: true,
            is_over,
            tell: drop,
            hasher: RandomState::new(),
        };
        Ok(self.is_covered(dir) && deletion.remove(dir, name, found)?)
    }

    /// At the top, only a sender of all that is there says what may go.
    fn is_covered(&self, dir: &Dir) -> bool {
        self.top || dir.local().is_some()
    }

    fn replaces_directories(&self) -> bool {
        self.deletes && self.policy == Policy::Overwrite
    }

    fn note(&mut self, entry: &Entry, conflict: Conflict) {
        self.count += 1;
        if self.conflicts.len() < TOLD {
            self.conflicts.push((entry.clone(), conflict));
        }
    }

    pub(super) fn verdict(&self) -> Result<(), Failure> {
        let Some(((first, conflict), others)) = self.conflicts.split_first() else {
            return Ok(());
        };
        if self.count == 1 {
            return Err(Failure::conflict(&first.name, *conflict));
        }
        let others: Vec<&str> = others
            .iter()
            .map(|(entry, _)| entry.name.as_str())
            .collect();
        let more = if self.count > TOLD as u64 {
            ", …"
        } else {
            ""
        };
        let reason = format_args!(
            "{conflict} (and {} more: {}{more})",
            self.count - 1,
            others.join(", ")
        );
        Err(Failure::new(FailureCode::Conflict, reason).of(&first.name))
    }
}

/// Names at the top that begin with a dot.
#[derive(Debug, Default)]
pub(super) struct Dots {
    first: Vec<SafeName>,
    count: u64,
}

impl Dots {
    pub(super) fn look(&mut self, name: &SafeName) {
        if name.depth() == 1 && name.as_str().starts_with('.') {
            self.count += 1;
            if self.first.len() < TOLD {
                self.first.push(name.clone());
            }
        }
    }

    pub(super) fn verdict(&self, dotfiles: &Dotfiles) -> Result<(), Failure> {
        let Some(first) = self.first.first() else {
            return Ok(());
        };
        let taken = match dotfiles {
            Dotfiles::Refuse => false,
            Dotfiles::Allow => true,
            Dotfiles::Ask(ask) => ask(&self.first, self.count),
        };
        if taken {
            return Ok(());
        }
        let more = match self.count - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let reason = format_args!(
            "the receiver doesn't accept names at the top that begin with a dot{more}: such files \
             can change which programs run; receive with --allow-dotfiles, or send the directory \
             that holds them"
        );
        Err(Failure::new(FailureCode::Refused, reason).of(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::receive::Os;

    /// However many directories are offered.
    #[test]
    fn directories_are_held_only_while_one_is_in_the_other() {
        for policy in [Policy::Refuse, Policy::Overwrite, Policy::Rename] {
            let at = tempfile::tempdir().unwrap();
            let options = ReceiveOptions {
                policy,
                ..ReceiveOptions::default()
            };
            let mut preview = Preview::new(Dir::root(at.path(), Arc::new(Os)).unwrap(), &options);
            for n in 100..200 {
                let name = SafeName::parse(&format!("d{n}")).unwrap();
                let entry = Entry::new(name, Kind::Directory);
                preview.look(&entry, &|| false).unwrap();
            }
            assert!(preview.tree.leave_to(0).count() <= 1, "{policy:?}");
        }
    }

    /// Which may hold much.
    #[test]
    fn a_look_at_what_is_in_the_way_ends_with_the_transfer() {
        let at = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(at.path().join("f/old")).unwrap();
        let options = ReceiveOptions {
            policy: Policy::Overwrite,
            delete: true,
            ..ReceiveOptions::default()
        };
        for (is_over, goes) in [(false, true), (true, false)] {
            let root = Dir::root(at.path(), Arc::new(Os)).unwrap();
            let mut preview = Preview::new(root, &options);
            preview.top = true;
            let file = Entry::new(SafeName::parse("f").unwrap(), Kind::File);
            let looked = preview.look(&file, &|| is_over);
            assert!(goes == looked.is_ok());
            assert_eq!(preview.replaced().len(), usize::from(goes));
        }
    }
}
