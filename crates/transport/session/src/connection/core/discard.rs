//! What a connection lets go of that is over, because there is no room for it.

use manyway_units::Time;

use crate::stats::PathState;

use super::super::outbox::Change;
use super::super::paths::{Path, PathTransport};
use super::Core;

impl Core {
    /// Lets go of what the application hasn't read, and of what it has written.
    pub(crate) fn discard(&mut self) {
        self.data.streams.discard();
        self.data.datagrams.discard();
    }

    /// Lets go of everything else but one path, on which the end is said: what a closed connection
    /// still takes would otherwise cost others their place.
    pub(crate) fn leave_paths(&mut self, now: Time, initiator: bool) {
        self.outbox.withdraw(|_| true);
        let closable = self.paths.iter().map(|(_, path)| path);
        let closable = closable.filter(|path| path.takes_close(initiator));
        let kept = closable.min_by_key(|path| (path.state() != PathState::Active, path.id()));
        let kept = kept.map(Path::id);
        for index in self.paths.indices(|path| Some(path.id()) != kept) {
            let path = self.paths.close(now, index).path;
            self.retire_cid(path.id());
            if let PathTransport::Carrier(_) = path.transport() {
                self.outbox.change(Change::CarrierOver(path.local().id));
            }
        }
        if let Some(index) = kept.and_then(|id| self.paths.index_of(id)) {
            self.paths.abandon_flight(now, index);
            self.paths.refresh(now, index);
        }
    }
}
