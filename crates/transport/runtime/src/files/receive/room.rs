//! Makes room for a file or link where a directory was: the sender's user has made it another kind.

use super::delete::{Deletion, Told};
use super::disk::{Found, Id};
use super::end::End;
use super::outgoing::Outgoing;
use super::tree::Dir;
use manyway_transfer::{Conflict, Existing, Filter, Policy};
use std::collections::HashSet;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::mpsc;

/// What may be removed for what comes.
pub(super) struct Room<'a> {
    pub(super) policy: Policy,
    /// What was there before anything came, and is to be replaced by another kind. Nothing else is
    /// removed: it could be what this transfer has made, where two names are one to the disk.
    pub(super) replaced: &'a HashSet<Id>,
    pub(super) filter: &'a Filter,
    pub(super) dotfiles: bool,
    /// The transfer has failed.
    pub(super) failed: &'a AtomicBool,
    pub(super) told: Told,
    pub(super) out: mpsc::Sender<Outgoing>,
}

impl Room<'_> {
    /// Removes a directory, as deletion does, or says why it stays, or something in it.
    pub(super) fn make(
        &mut self,
        dir: &Arc<Dir>,
        name: &str,
        found: &Found,
    ) -> Result<Option<Conflict>, End> {
        let is_known = found.any_id().is_some_and(|id| self.replaced.contains(&id));
        let may = self.policy == Policy::Overwrite && found.existing == Existing::Directory;
        if !is_known || !may {
            return Ok(Some(Conflict::IsDirectory));
        }
        let (out, told, failed) = (&self.out, &mut self.told, self.failed);
        let mut deletion = Deletion {
            filter: self.filter,
            dotfiles: self.dotfiles,
            dry_run: false,
            is_over: &|| failed.load(Relaxed) || out.is_closed(),
            tell: |name| told.add(name, out),
            hasher: RandomState::new(),
        };
        let has_gone = deletion.remove(dir, name, found)?;
        Ok((!has_gone).then_some(Conflict::KeepsDirectory))
    }
}
