use manyway_control::bottleneck::{BottleneckConfig, Watched};
use manyway_control::{Controller, LawSpec};

use super::types::PathTransport;

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

    pub(super) fn of(&self, transport: PathTransport) -> &dyn Controller {
        match transport {
            PathTransport::Coupled => match &self.law {
                Law::Plain(law) => &**law,
                Law::Watched(law) => &**law,
            },
            // Nobody asks it about a carrier, which controls congestion itself.
            PathTransport::Trial | PathTransport::Carrier(_) => &*self.trial,
        }
    }

    /// The law with the records of its paths, if they are kept.
    pub(super) fn watched(&mut self) -> Option<&mut Watched<Box<dyn Controller>>> {
        match &mut self.law {
            Law::Plain(_) => None,
            Law::Watched(law) => Some(law),
        }
    }

    pub(super) fn of_mut(&mut self, transport: PathTransport) -> &mut dyn Controller {
        match transport {
            PathTransport::Coupled => match &mut self.law {
                Law::Plain(law) => &mut **law,
                Law::Watched(law) => &mut **law,
            },
            PathTransport::Trial | PathTransport::Carrier(_) => &mut *self.trial,
        }
    }
}
