use manyway_control::Controller;

use super::path::{Path, Under};

/// The connection's congestion control, and a window for paths on trial that it knows nothing of.
#[derive(Debug)]
pub(super) struct Controllers {
    law: Box<dyn Controller>,
    trial: Box<dyn Controller>,
}

impl Controllers {
    pub(super) fn new(law: Box<dyn Controller>) -> Self {
        // A path on trial sends its challenges and is closed: any law will do that never couples.
        let trial = manyway_control::registry::controller("reno", &Default::default())
            .expect("every release knows Reno");
        Self { law, trial }
    }

    pub(super) fn of(&self, path: &Path) -> &dyn Controller {
        self.under(path.under)
    }

    pub(super) fn under(&self, under: Under) -> &dyn Controller {
        match under {
            Under::Law => &*self.law,
            // It has nothing to say about a path with control of its own, and isn't asked.
            Under::Trial | Under::Own(_) => &*self.trial,
        }
    }

    pub(super) fn of_mut(&mut self, under: Under) -> &mut dyn Controller {
        match under {
            Under::Law => &mut *self.law,
            Under::Trial | Under::Own(_) => &mut *self.trial,
        }
    }
}
