//! What the paths of a connection share: the controller of their windows, and its clock. It knows
//! nothing of noq.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use manyway_control::{Controller, NewPath, SenderConfig, Slot};
use manyway_units::Time;

/// The paths that are coupled with each other.
#[derive(Clone, Debug)]
pub(crate) struct Group(Arc<Mutex<Shared>>);

/// A [`Group`]'s state.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) controller: Box<dyn Controller>,
    /// When the first path was added: the controller's time 0.
    epoch: Option<Instant>,
    paths: usize,
}

/// A path's place in its group, which it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Member {
    group: Group,
    slot: Slot,
}

impl Group {
    pub(crate) fn new(controller: impl Controller + 'static) -> Self {
        Group(Arc::new(Mutex::new(Shared {
            controller: Box::new(controller),
            epoch: None,
            paths: 0,
        })))
    }

    /// Adds a path whose packets have so many bytes.
    pub(crate) fn join(&self, now: Instant, packet_size: u16) -> Member {
        let defaults = SenderConfig::default();
        let mut shared = self.lock();
        let path = NewPath {
            now: shared.time(now),
            initial_window: defaults.initial_window,
            packet_size: u32::from(packet_size),
            initial_rtt: defaults.initial_rtt,
        };
        let slot = shared.controller.add_path(path);
        shared.paths += 1;
        Member {
            group: self.clone(),
            slot,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.group.lock()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut shared = self.group.lock();
        shared.controller.remove_path(self.slot);
        shared.paths -= 1;
    }
}

impl Shared {
    /// The instant on the controller's clock.
    pub(crate) fn time(&mut self, now: Instant) -> Time {
        let epoch = *self.epoch.get_or_insert(now);
        Time::ZERO + now.saturating_duration_since(epoch)
    }

    pub(crate) fn paths(&self) -> usize {
        self.paths
    }
}
