//! What a receiver looks at before it accepts anything: what exists, and what is hidden.

use super::options::Dotfiles;
use super::part::write_failure;
use super::tree::{Dir, Level, Tree};
use manyway_transfer::{
    Conflict, Decision, Entry, Failure, FailureCode, Kind, Policy, SafeName, decide,
};
use std::sync::Arc;

/// Most names that are told.
const TOLD: usize = 4;

/// A look at what exists, before anything is accepted.
pub(super) struct Preview {
    tree: Tree,
    policy: Policy,
    conflicts: Vec<(Entry, Conflict)>,
    count: u64,
}

impl Preview {
    pub(super) fn new(root: Arc<Dir>, policy: Policy) -> Self {
        Self {
            tree: Tree::new(root),
            policy,
            conflicts: Vec::new(),
            count: 0,
        }
    }

    pub(super) fn look(&mut self, entry: &Entry) -> Result<(), Failure> {
        if self.policy == Policy::Rename {
            // Whatever exists, there will be another name.
            return Ok(());
        }
        self.tree.leave_for(&entry.name).for_each(drop);
        let failure = |error| write_failure("looking it up", &entry.name, error);
        let mut inside = None;
        if let Some(parent) = self.tree.innermost() {
            let existing = parent.existing(entry.name.file_name()).map_err(failure)?;
            match decide(self.policy, entry.kind, existing) {
                Decision::Merge => {
                    inside = Some(parent.open(entry.name.file_name()).map_err(failure)?)
                }
                Decision::Refuse(conflict) => self.note(entry, conflict),
                Decision::Create | Decision::Replace | Decision::Rename => {}
            }
        }
        if entry.kind == Kind::Directory {
            self.tree.enter(Level {
                dir: inside,
                made: None,
            });
        }
        Ok(())
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
            "the receiver doesn't take names at the top that begin with a dot{more}: such files \
             can change which programs run; receive with --allow-dotfiles, or send the directory \
             that holds them"
        );
        Err(Failure::new(FailureCode::Refused, reason).of(first))
    }
}
