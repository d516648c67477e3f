use manyway_control::bottleneck::{BottleneckConfig, Watched};
use manyway_control::{Controller, LawSpec};

use super::path::{Path, Under};

/// The connection's congestion control, and a window for paths on trial that it knows nothing of.
#[derive(Debug)]
pub(super) struct Controllers {
    law: Law,
    trial: Box<dyn Controller>,
}

#[derive(Debug)]
enum Law {
    Plain(Box<dyn Controller>),
    Watched(Box<Watched<Box<dyn Controller>>>),
}

impl Controllers {
    pub(super) fn new(law: Box<dyn Controller>, watch: Option<BottleneckConfig>) -> Self {
        let law = match watch {
            Some(config) => Law::Watched(Box::new(Watched::new(law, config))),
            None => Law::Plain(law),
        };
        // A path on trial sends its challenges and is closed: any law will do that never couples.
        let trial = Box::new(LawSpec::reno().controller(&Default::default()));
        Self { law, trial }
    }

    pub(super) fn of(&self, path: &Path) -> &dyn Controller {
        self.under(path.under)
    }

    pub(super) fn under(&self, under: Under) -> &dyn Controller {
        match under {
            Under::Law => match &self.law {
                Law::Plain(law) => &**law,
                Law::Watched(law) => &**law,
            },
            // It has nothing to say about a path with control of its own, and isn't asked.
            Under::Trial | Under::Own(_) => &*self.trial,
        }
    }

    /// The law with the records of its paths, if they are kept.
    pub(super) fn watched(&mut self) -> Option<&mut Watched<Box<dyn Controller>>> {
        match &mut self.law {
            Law::Plain(_) => None,
            Law::Watched(law) => Some(law),
        }
    }

    pub(super) fn of_mut(&mut self, under: Under) -> &mut dyn Controller {
        match under {
            Under::Law => match &mut self.law {
                Law::Plain(law) => &mut **law,
                Law::Watched(law) => &mut **law,
            },
            Under::Trial | Under::Own(_) => &mut *self.trial,
        }
    }
}
