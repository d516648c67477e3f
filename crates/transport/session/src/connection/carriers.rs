//! Carriers: TCP connections that the driver sets up, each for one path. They have no window of
//! ours; an application-level controller sets their rates.
//!
//! It owns the carriers that have no path as yet, and the rate control of those that do. The paths
//! themselves are the path set's, and the connections the driver's.

use std::collections::VecDeque;

use manyway_units::{Rate, Time};
use manyway_wire::{ConnectionId, PathId};
use rand::Rng;

use crate::carrier::Carrier;
use crate::config::Config;
use crate::driver::LocalId;

use super::paths::{NewPath, PathSet, PathTransport};
use super::rate_control::RateControl;

/// Carriers that wait for the peer's connection ids.
const MAX_WAITING: usize = 64;

/// What a connection knows of its carriers.
#[derive(Debug)]
pub(super) struct Carriers {
    /// Carriers that have no path yet (initiator only).
    waiting: VecDeque<Carrier>,
    rate_control: RateControl,
}

impl Carriers {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            waiting: VecDeque::new(),
            rate_control: RateControl::new(config),
        }
    }

    /// Takes a carrier, for a path that is opened when that can be. Whether there is room for it.
    pub(super) fn offer(&mut self, carrier: Carrier) -> bool {
        let room = self.waiting.len() < MAX_WAITING;
        if room {
            self.waiting.push_back(carrier);
        }
        room
    }

    /// A carrier has broken before a path ran on it.
    pub(super) fn withdraw(&mut self, id: LocalId) {
        self.waiting.retain(|c| c.local.id != id);
    }

    /// The most that the connection may send changes.
    pub(super) fn set_limit(&mut self, limit: Option<Rate>) {
        self.rate_control.set_limit(limit);
    }

    /// Whether one waits for a path.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// What the path on the next one that waits starts from.
    pub(super) fn next(&mut self, (id, remote_cid): (PathId, ConnectionId)) -> Option<NewPath> {
        let carrier = self.waiting.pop_front()?;
        Some(NewPath {
            id,
            local: carrier.local,
            remote: carrier.remote,
            remote_cid: Some(remote_cid),
            transport: PathTransport::of(carrier.facts),
            relay: None,
            initial_rtt: None,
        })
    }

    // Rate control.

    pub(super) fn timeout(&self) -> Option<Time> {
        self.rate_control.timeout()
    }

    /// The paths that are to be held to another rate, in bytes/s, or left to their carriers.
    pub(super) fn on_timeout(
        &mut self,
        now: Time,
        paths: &PathSet,
        rng: &mut impl Rng,
    ) -> Vec<(usize, Option<f64>)> {
        self.rate_control.on_timeout(now, paths, rng)
    }

    /// A path carries data from now on.
    pub(super) fn on_path_up(&mut self, now: Time, paths: &PathSet) {
        self.rate_control.on_path_up(now, paths);
    }

    /// There is nothing to send.
    pub(super) fn on_starved(&mut self) {
        self.rate_control.on_starved();
    }

    /// The carrier whose turn it is, while their rates are being found.
    pub(super) fn next_in_turn(&mut self, paths: &PathSet, limited: bool) -> Option<usize> {
        let turns = limited && paths.on_carriers().len() >= 2;
        turns.then(|| self.rate_control.next_in_turn(paths))?
    }
}
