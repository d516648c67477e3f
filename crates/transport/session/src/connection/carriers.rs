//! Paths on carriers: TCP connections that the driver sets up. They have no window of ours; an
//! application-level controller sets their rates ([`super::overlay`]).

use std::collections::VecDeque;
use std::time::Duration;

use manyway_units::Time;
use manyway_wire::PathId;
use rand::RngExt;

use crate::carrier::{Carrier, Facts};
use crate::driver::LocalId;
use crate::event::PathDownReason;
use crate::stats::PathState;

use super::Connection;
use super::overlay::Overlay;
use super::path::{NewPath, Under};

/// Carriers that wait for the peer's connection ids.
const MAX_WAITING: usize = 64;

/// What a connection knows of its carriers.
#[derive(Debug, Default)]
pub(super) struct Carriers {
    /// Set up, and without a path as yet (initiator only).
    waiting: VecDeque<Carrier>,
    /// Paths on carriers, by their place in the connection's slab.
    pub(super) paths: Vec<usize>,
    changes: Vec<CarrierChange>,
    pub(super) overlay: Overlay,
    /// Paths whose ACK leaves with the next packet of whatever path.
    pub(super) lent: Vec<PathId>,
}

/// What the endpoint has to note of a carrier.
#[derive(Copy, Clone, Debug)]
pub(crate) enum CarrierChange {
    /// A path runs on it.
    Opened(LocalId, PathId),
    /// No path runs on it any more, and none will.
    Over(LocalId),
}

impl Carriers {
    pub(super) fn on_created(&mut self, index: usize, local: LocalId, path: PathId) {
        self.paths.push(index);
        self.changes.push(CarrierChange::Opened(local, path));
    }

    pub(super) fn on_closed(&mut self, index: usize, local: LocalId) {
        self.paths.retain(|&other| other != index);
        self.changes.push(CarrierChange::Over(local));
    }
}

impl Connection {
    /// Opens a path on a carrier, as soon as the peer's connection ids are there. Whether it is
    /// wanted.
    pub(crate) fn offer_carrier(&mut self, now: Time, carrier: Carrier) -> bool {
        if !self.initiator || self.is_closed() || self.carriers.waiting.len() >= MAX_WAITING {
            return false;
        }
        if carrier.facts.relay && !self.takes_carrier_at(carrier.remote) {
            return false;
        }
        self.carriers.waiting.push_back(carrier);
        self.open_on_carriers(now);
        true
    }

    pub(super) fn open_on_carriers(&mut self, now: Time) {
        while !self.carriers.waiting.is_empty() && self.paths.len() < self.max_paths() {
            let id = PathId(self.next_path);
            let Some(&remote_cid) = self.remote_cids.get(&id) else {
                return;
            };
            let Some(carrier) = self.carriers.waiting.pop_front() else {
                return;
            };
            let index = self.create_path(
                now,
                NewPath {
                    id,
                    local: carrier.local,
                    remote: carrier.remote,
                    remote_cid: Some(remote_cid),
                    under: Under::of(carrier.facts),
                    through: None,
                    initial_rtt: None,
                },
            );
            let challenge = self.rng.random();
            self.paths[index].validation.start(now, challenge);
            self.issue_cids();
            self.refresh(now, index);
        }
    }

    /// A carrier has broken or was closed: what was in flight on it goes over the other paths.
    pub(crate) fn remove_carrier(&mut self, now: Time, id: LocalId) {
        self.carriers.waiting.retain(|c| c.local.id != id);
        let index = self.on_carrier(id);
        if let Some(index) = index {
            self.close_path(now, index, PathDownReason::CarrierClosed, true);
        }
    }

    /// So many more bytes of packets were written to a carrier.
    pub(crate) fn on_carrier_written(&mut self, now: Time, id: LocalId, bytes: u64) {
        let Some(index) = self.on_carrier(id) else {
            return;
        };
        if let Some(sender) = self.paths[index].sender.carried_mut() {
            sender.on_written(bytes);
        }
        self.refresh(now, index);
    }

    /// The rate at which a carrier delivers, bytes/s.
    pub(crate) fn carrier_rate(&self, id: LocalId) -> Option<f64> {
        self.paths[self.on_carrier(id)?].sender.carried()?.rate()
    }

    pub(crate) fn take_carrier_changes(&mut self) -> Vec<CarrierChange> {
        std::mem::take(&mut self.carriers.changes)
    }

    fn on_carrier(&self, id: LocalId) -> Option<usize> {
        let mut paths = self.carriers.paths.iter().copied();
        paths.find(|&i| self.paths[i].local.id == id)
    }

    /// The carrier in use on which the least waits to be written.
    pub(super) fn least_queued(&self) -> Option<usize> {
        let queued = |&index: &usize| {
            let path = &self.paths[index];
            let sender = path.sender.carried()?;
            let usable = path.state == PathState::Active && sender.takes_small();
            usable.then(|| (sender.unwritten(), sender.delivery(), index))
        };
        let least = self.carriers.paths.iter().filter_map(queued).min();
        least.map(|(_, _, index)| index)
    }

    /// The path that another path's ACK leaves on. A carrier's goes by the carrier on which the
    /// least waits: nobody's data should have to be kept for want of an ACK that stands in a queue.
    pub(super) fn path_for_ack(&mut self, index: usize) -> usize {
        let path = &self.paths[index];
        let Some(sender) = path.sender.carried() else {
            return index;
        };
        if !path.received.is_due() || sender.unwritten() == 0 {
            return index;
        }
        match self.least_queued() {
            Some(other) if other != index => {
                let id = path.id;
                if !self.carriers.lent.contains(&id) {
                    self.carriers.lent.push(id);
                }
                other
            }
            _ => index,
        }
    }

    /// The round trip of the slowest carrier.
    pub(super) fn carrier_rtt(&self) -> Duration {
        let rtts = self.carriers.paths.iter();
        let slowest = rtts.map(|&index| self.paths[index].sender.rtt().smoothed());
        slowest.max().unwrap_or_default()
    }
}

impl Under {
    /// Who gives the window on what declares these facts.
    pub(crate) fn of(facts: Facts) -> Self {
        match facts.own_control {
            true => Under::Own(facts),
            false => Under::Law,
        }
    }
}
