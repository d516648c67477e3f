//! The path set: which paths there are, and which one is to be used.
//!
//! It owns every path, the congestion controllers that couple them and the ordered sets. A path's
//! place in these is brought up to date by [`PathSet::refresh`] after each datagram in or out. It
//! neither opens nor seals packets, knows nothing of streams and relays, and says nothing to
//! anybody: what has to be sent or told it returns. Which ids paths have, and which address pairs
//! are tried, stands beside it in [`ConnectionIds`] and [`Pairs`].

mod controllers;
mod ecn;
mod frames;
mod ids;
mod memory;
mod migration;
mod mtu;
mod named;
mod numbers;
mod order;
mod outlook;
mod pairs;
mod path;
mod relocate;
mod schedule;
mod sender;
mod silence;
#[cfg(test)]
mod tests;
mod types;
mod validation;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::time::Duration;

use manyway_control::scheduler::Waiting;
use manyway_control::{Controller, Outcome, PathVerdict, Target, TimerEvent};
use manyway_units::Time;
use manyway_wire::{AckFrame, ConnectionId, PathId};
use rand::CryptoRng;
use slab::Slab;

use crate::config::Config;
use crate::driver::Local;
use crate::event::{PathDownReason, PathEvent};
use crate::observe::{self, PacketEvent, PathObservers};
use crate::stats::{PathState, PathStats, PathSurvey};

use super::packet::Payload;
use controllers::Controllers;
use migration::Ranges;
use mtu::Mtu;
use numbers::Numbers;
use order::PathOrder;

pub(super) use ids::ConnectionIds;
pub(crate) use memory::PathMemory;
pub(crate) use migration::Origin;
pub(crate) use named::{Named, NamedInAll};
pub(super) use pairs::{Next, Pairs};
pub(crate) use path::Path;
use types::{Beginning, hosts};
pub(crate) use types::{NewPath, PathTransport, RelayHeader, Response};

/// Statistics kept of paths that are over.
const MAX_CLOSED_PATHS: usize = 256;
/// A path is kept alive no more often, however soon the peer takes it for dead.
const LEAST_KEEP_ALIVE: Duration = Duration::from_millis(333);
/// Bytes of an interface's packets if nobody says.
const ASSUMED_MTU: u32 = 1500;

/// What the peer has declared about paths.
#[derive(Copy, Clone, Debug)]
pub(super) struct PeerLimits {
    /// The largest datagram that it takes, in bytes.
    pub(super) max_datagram: usize,
    /// How long it holds ACKs back.
    pub(super) ack_delay: Duration,
    /// How many paths it wants at most.
    pub(super) max_paths: usize,
}

/// Every path of a connection.
#[derive(Debug)]
pub(super) struct PathSet {
    config: Arc<Config>,
    initiator: bool,
    peer: PeerLimits,
    /// A path on which nothing was sent for so long sends a probe.
    keep_alive: Duration,
    controllers: Controllers,
    waiting: Waiting,
    survey_from: Time,
    slab: Slab<Path>,
    by_id: BTreeMap<PathId, usize>,
    order: PathOrder,
    /// Paths that carry data only while no other is active: their relay is leaving.
    backups: Vec<usize>,
    /// Paths that carry data only while none but backups is active: the others have as much
    /// without them.
    standbys: Vec<usize>,
    /// Paths on carriers, oldest first.
    on_carriers: Vec<usize>,
    closed: VecDeque<PathStats>,
    /// Paths on which something has arrived since their places were brought up to date.
    stale: Vec<usize>,
    /// Packets of all paths whose fate is open, and control frames in them, as last counted.
    unsettled: usize,
    /// What the sender of a path has just said of its packets; reused, as `ranges` is.
    outcome: Outcome<Payload>,
    ranges: Ranges,
    observers: Option<Box<dyn PathObservers>>,
    memory: PathMemory,
}

/// A path that was taken out.
pub(super) struct ClosedPath {
    pub(super) path: Path,
    /// What was in flight on it, oldest first.
    pub(super) in_flight: Vec<Payload>,
    /// It was validated once: the application knows of it.
    pub(super) was_up: bool,
}

/// What an ACK has said.
#[derive(Copy, Clone, Debug)]
pub(super) struct Acked {
    /// It has shown that the path carries another size.
    pub(super) resized: bool,
    /// It acknowledges packets for the first time.
    pub(super) any: bool,
    /// Packets are lost by it.
    pub(super) lost: bool,
}

/// What became of what packets carried.
pub(super) enum Fate<'a> {
    /// All that arrived, with their numbers.
    Acked(&'a [(u64, Payload)]),
    Lost(Payload),
}

/// Where a path led before it moved.
pub(super) struct Moved {
    pub(super) previous: SocketAddr,
    /// The round-trip time to the new address, if it can be told.
    pub(super) rtt: Option<Duration>,
    /// What was in flight to where nobody is any more.
    pub(super) in_flight: Vec<(u64, Payload)>,
}

impl Index<usize> for PathSet {
    type Output = Path;

    fn index(&self, index: usize) -> &Path {
        &self.slab[index]
    }
}

impl IndexMut<usize> for PathSet {
    fn index_mut(&mut self, index: usize) -> &mut Path {
        &mut self.slab[index]
    }
}

impl PathSet {
    pub(super) fn new(
        now: Time,
        config: &Arc<Config>,
        (initiator, peer): (bool, PeerLimits),
        idle_timeout: Duration,
        controller: Box<dyn Controller>,
        memory: PathMemory,
    ) -> Self {
        let observers = config.observers.as_ref();
        Self {
            config: config.clone(),
            initiator,
            peer,
            keep_alive: (idle_timeout / 3).max(LEAST_KEEP_ALIVE),
            controllers: Controllers::new(controller, config.watch),
            waiting: Waiting::new(config.scheduler),
            survey_from: now,
            slab: Slab::new(),
            by_id: BTreeMap::new(),
            order: PathOrder::default(),
            backups: Vec::new(),
            standbys: Vec::new(),
            on_carriers: Vec::new(),
            closed: VecDeque::new(),
            stale: Vec::new(),
            unsettled: 0,
            outcome: Outcome::default(),
            ranges: Vec::new(),
            observers: observers.map(|observers| observers.of_connection(initiator)),
            memory,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether we open paths, to addresses that we were told.
    pub(super) fn is_initiator(&self) -> bool {
        self.initiator
    }

    /// Packets whose fate is open, and control frames in them, over all paths.
    pub(super) fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// Whether we may open another path.
    pub(super) fn has_room(&self) -> bool {
        self.len() < self.peer.max_paths.min(self.config.max_paths as usize)
    }

    pub(super) fn get(&self, index: usize) -> Option<&Path> {
        self.slab.get(index)
    }

    /// The index of an open path; another path may have it later.
    pub(super) fn index_of(&self, id: PathId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Every open path in the order of their ids, with its index.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Path)> {
        self.by_id.values().map(|&index| (index, &self.slab[index]))
    }

    /// The indices of paths that meet a condition, in the order of these.
    pub(super) fn indices(&self, mut meets: impl FnMut(&Path) -> bool) -> Vec<usize> {
        let found = self.slab.iter().filter(|(_, path)| meets(path));
        found.map(|(index, _)| index).collect()
    }

    /// The open path that was opened first.
    pub(super) fn oldest(&self) -> Option<&Path> {
        self.iter().next().map(|(_, path)| path)
    }

    /// The oldest path under the connection's congestion control: the law takes it for the direct
    /// one.
    pub(super) fn oldest_coupled(&self) -> Option<usize> {
        let mut paths = self.iter();
        let (index, _) = paths.find(|(_, path)| path.transport() == PathTransport::Coupled)?;
        Some(index)
    }

    // Opening and closing.

    /// Whether the peer may open a path.
    pub(super) fn admits(&self) -> bool {
        !self.initiator && self.len() < self.config.max_paths as usize
    }

    /// Whether its paths leave out packet numbers.
    pub(super) fn leaves_out_numbers(&self) -> bool {
        self.config.leave_out_numbers
    }

    /// Adds a path that nobody has been asked about yet. `seed` decides which packet numbers it
    /// leaves out; none without it.
    pub(super) fn add(&mut self, now: Time, new: NewPath, seed: Option<[u8; 32]>) -> usize {
        let (id, transport) = (new.id, new.transport);
        let mtu = match transport {
            // Nothing to look for: it takes what it says.
            PathTransport::Carrier(facts) => Mtu::new(facts.max_packet, facts.max_packet),
            PathTransport::Coupled | PathTransport::Trial => {
                let limit = self.datagram_limit(&new.local, new.remote);
                Mtu::new(self.base_size(), limit)
            }
        };
        let hosts = hosts(transport, &new.relay, &new.local, new.remote);
        let remembered = hosts.and_then(|hosts| self.memory.take(now, hosts));
        let controller = self.controllers.of_mut(transport);
        let start = Beginning {
            numbers: Numbers::new(seed),
            mtu,
            peer_ack_delay: self.peer.ack_delay,
            remembered,
        };
        let mut path = Path::new(now, new, start, &self.config, controller);
        path.observer = self.observers.as_ref().map(|observers| {
            let path = observe::NewPath {
                id,
                name: &path.local().name,
                remote: path.remote(),
            };
            observers.of_path(now, path)
        });
        let index = self.slab.insert(path);
        self.by_id.insert(id, index);
        if let PathTransport::Carrier(_) = transport {
            self.on_carriers.push(index);
        }
        index
    }

    /// Challenges the path's address: it carries data only after the answer.
    pub(super) fn challenge(&mut self, now: Time, index: usize, rng: &mut impl CryptoRng) {
        self.slab[index].challenge(now, rng);
    }

    /// The address has answered. Whether the path carries data from now on: it may have done so
    /// before, and one on trial never does.
    pub(super) fn on_validated(&mut self, index: usize, rtt: Option<Duration>) -> bool {
        let path = &mut self.slab[index];
        path.validation.set_validated();
        if let Some(rtt) = rtt {
            path.sender.seed_rtt(rtt);
        }
        let validating = path.state == PathState::Validating;
        let up = validating && path.transport() != PathTransport::Trial;
        if up {
            path.state = PathState::Active;
        }
        up
    }

    /// Takes a path out for good.
    pub(super) fn close(&mut self, now: Time, index: usize) -> ClosedPath {
        self.backups.retain(|&other| other != index);
        self.standbys.retain(|&other| other != index);
        self.order.remove(index);
        self.refresh_backups(now);
        let mut path = self.slab.remove(index);
        self.unsettled -= path.counted;
        self.by_id.remove(&path.id());
        self.on_carriers.retain(|&other| other != index);
        let was_up = path.state != PathState::Validating;
        path.remember(&self.memory);
        path.state = PathState::Closed;
        let transport = path.transport();
        let stats = path.stats(self.controllers.of(transport));
        let in_flight = path.sender.retire(self.controllers.of_mut(transport));
        if was_up {
            self.closed.push_back(stats);
            if self.closed.len() > MAX_CLOSED_PATHS {
                self.closed.pop_front();
            }
        }
        ClosedPath {
            path,
            in_flight,
            was_up,
        }
    }

    /// The peer broke the protocol: what it has acknowledged is no reason to send more to it.
    pub(super) fn distrust(&mut self) {
        self.memory = PathMemory::default();
    }

    /// The connection is over: what its paths carried is for the next ones.
    pub(super) fn remember(&self) {
        for (_, path) in self.iter() {
            path.remember(&self.memory);
        }
    }

    /// The peer has told its connection id for an open path.
    pub(super) fn set_remote_cid(&mut self, now: Time, index: usize, cid: ConnectionId) {
        self.slab[index].remote_cid = Some(cid);
        self.refresh(now, index);
    }

    // Sizes.

    /// The largest datagram that a path may ever have: what both ends take, and the interface.
    fn datagram_limit(&self, local: &Local, remote: SocketAddr) -> usize {
        let headers = if remote.is_ipv4() { 28 } else { 48 };
        let interface = local.mtu.unwrap_or(ASSUMED_MTU).saturating_sub(headers);
        self.config
            .max_datagram
            .min(self.peer.max_datagram)
            .min(interface as usize)
            .max(self.base_size())
    }

    /// What a path starts with.
    fn base_size(&self) -> usize {
        self.config.initial_datagram.min(self.peer.max_datagram)
    }

    /// A path's datagrams have another size from now on.
    fn apply_mtu(&mut self, index: usize) {
        let path = &mut self.slab[index];
        let bytes = path.mtu.size() as u32;
        let controller = self.controllers.of_mut(path.transport());
        path.sender.set_packet_size(bytes, controller);
    }

    /// The kernel refused a datagram as too large for its interface.
    pub(super) fn on_too_big(&mut self, now: Time, index: usize) {
        if self.slab[index].mtu.on_refused(now) {
            self.apply_mtu(index);
        }
        self.refresh(now, index);
    }

    // Acknowledgements and losses.

    /// An ACK of the path. What it says of its packets is [settled](Self::settle) next; `None` if
    /// it says nothing of them.
    ///
    /// # Errors
    /// The ACK can't be true: in words for CLOSE.
    pub(super) fn on_ack(
        &mut self,
        now: Time,
        index: usize,
        (ack, elsewhere): (&AckFrame<'_>, bool),
    ) -> Result<Option<Acked>, String> {
        let path = &mut self.slab[index];
        let controller = self.controllers.of_mut(path.transport());
        let ack = (ack, elsewhere);
        let resized = path.on_ack(now, ack, &mut self.ranges, controller, &mut self.outcome)?;
        Ok(resized.map(|resized| Acked {
            resized,
            any: !self.outcome.acked.is_empty(),
            lost: !self.outcome.lost.is_empty(),
        }))
    }

    /// Goes through what a sender said of its packets: first those that arrived, all at once, then
    /// each that is lost.
    pub(super) fn settle(&mut self, now: Time, index: usize, mut each: impl FnMut(Fate<'_>)) {
        self.observe_fates(now, index);
        let path = &mut self.slab[index];
        path.note_fates(self.outcome.acked.len(), self.outcome.lost.len());
        let settled = self.outcome.acked.iter().chain(&self.outcome.lost);
        settled.for_each(|(_, payload)| path.let_go(payload));
        let mtu = &mut path.mtu;
        for (number, _) in self.outcome.acked.iter().filter(|(_, sent)| sent.large) {
            mtu.on_large_acked(*number);
        }
        each(Fate::Acked(&self.outcome.acked));
        self.outcome.acked.clear();
        let mut black_hole = false;
        for (number, payload) in self.outcome.lost.drain(..) {
            black_hole |= payload.large && mtu.on_large_lost(now, number);
            each(Fate::Lost(payload));
        }
        if black_hole {
            self.apply_mtu(index);
        }
    }

    /// Tells the observer what becomes of a path's packets, and what congestion control makes of
    /// it.
    fn observe_fates(&self, now: Time, index: usize) {
        let path = &self.slab[index];
        if path.observer.is_none() {
            return;
        }
        for (number, _) in &self.outcome.acked {
            let number = path.number_of(*number);
            path.observe(now, || PacketEvent::Acked { number });
        }
        for (number, _) in &self.outcome.lost {
            let number = path.number_of(*number);
            path.observe(now, || PacketEvent::Lost { number });
        }
        let rtt = path.sender.rtt();
        path.observe(now, || PacketEvent::Metrics {
            window: (self.window(index) * path.mtu.size() as f64) as u64,
            in_flight: path.sender.bytes_in_flight(),
            smoothed: rtt.smoothed(),
            latest: rtt.latest(),
            min: rtt.min(),
        });
    }

    /// The ACK has shown that the path carries another size.
    pub(super) fn on_resized(&mut self, index: usize) {
        self.apply_mtu(index);
    }

    // Timers.

    /// When a path has something to do.
    pub(super) fn timeout(&self) -> Option<Time> {
        self.order.next_timer()
    }

    /// Paths whose timers are due, in the order of these.
    pub(super) fn due(&self, now: Time) -> Vec<usize> {
        self.order.due(now)
    }

    /// Runs the timers of what arrived and of the path's size. Whether validation has failed: every
    /// challenge went unanswered.
    pub(super) fn on_timer(&mut self, now: Time, index: usize) -> bool {
        let path = &mut self.slab[index];
        path.on_timer(now);
        path.validation.has_failed(now)
    }

    /// Keeps the path alive, and runs its sender's timer if that is due: whether packets are lost
    /// by it. What it says of them is [settled](Self::settle) next.
    pub(super) fn on_sender_timer(
        &mut self,
        now: Time,
        index: usize,
    ) -> Option<(TimerEvent, bool)> {
        let path = &mut self.slab[index];
        path.keep_alive(now, self.keep_alive);
        if path.sender.timeout().is_none_or(|at| at > now) {
            return None;
        }
        let controller = self.controllers.of_mut(path.transport());
        let event = path.sender.on_timeout(now, controller, &mut self.outcome);
        Some((event, !self.outcome.lost.is_empty()))
    }

    /// A probe timeout ran out: perhaps the peer has moved.
    pub(super) fn doubt_home(&mut self, index: usize) {
        self.slab[index].migration.on_probe_timeout();
    }

    /// A probe timeout ran out: the path is probed.
    pub(super) fn probe_silent(&mut self, index: usize) {
        self.slab[index].on_probe_timeout();
    }

    /// Whether a path was silent for too long while others are alive.
    pub(super) fn is_lost(&self, now: Time, index: usize) -> bool {
        self.order.active_len() > 0 && self.get(index).is_some_and(|path| path.is_lost(now))
    }

    /// The longest probe timeout of the paths in use.
    pub(super) fn largest_pto(&self) -> Duration {
        let slowest = self.order.active().next_back();
        slowest
            .map(|index| self.slab[index].sender.pto())
            .or_else(|| self.slab.iter().map(|(_, p)| p.sender.pto()).max())
            .unwrap_or(Duration::from_secs(1))
    }

    /// The delivery time of the slowest active path.
    pub(super) fn slowest_rtt(&self) -> Duration {
        let slowest = self.order.slowest_key().map(Duration::from_nanos);
        slowest.unwrap_or(Duration::from_millis(100))
    }

    // What is known of them.

    /// A path's window, in packets.
    pub(super) fn window(&self, index: usize) -> f64 {
        let path = &self.slab[index];
        path.sender.window(self.controllers.of(path.transport()))
    }

    /// Whether a path is in slow start; one on a carrier never is, as far as is known.
    pub(super) fn in_slow_start(&self, index: usize) -> bool {
        let path = &self.slab[index];
        let law = self.controllers.of(path.transport());
        let sender = path.sender.windowed();
        sender.is_some_and(|sender| law.in_slow_start(sender.slot()))
    }

    /// A path has another window, in packets, if the law lets it be set.
    pub(super) fn set_window(&mut self, now: Time, index: usize, window: f64) {
        let path = &self.slab[index];
        if let Some(slot) = path.sender.windowed().map(|sender| sender.slot()) {
            let law = self.controllers.of_mut(path.transport());
            law.set_window(slot, window, Target::Unchanged);
        }
        self.refresh(now, index);
    }

    /// What the law thinks of a path.
    pub(super) fn verdict(&self, index: usize) -> PathVerdict {
        let path = &self.slab[index];
        path.sender.verdict(self.controllers.of(path.transport()))
    }

    /// Every path, open ones and those that closed, in the order of their ids.
    pub(super) fn stats(&self) -> Vec<PathStats> {
        let open = self.iter().map(|(_, path)| self.stats_of(path));
        let mut paths: Vec<_> = self.closed.iter().cloned().chain(open).collect();
        paths.sort_by_key(|p| p.id.0);
        paths
    }

    fn stats_of(&self, path: &Path) -> PathStats {
        path.stats(self.controllers.of(path.transport()))
    }

    /// The records of the paths begin anew.
    pub(super) fn restart_survey(&mut self, now: Time) {
        if let Some(watched) = self.controllers.watched() {
            watched.restart(now);
        }
        self.survey_from = now;
    }

    /// What was seen of every path over UDP in use since the survey began; empty if no records are
    /// kept.
    pub(super) fn survey(&mut self, now: Time) -> Vec<PathSurvey> {
        let in_use = |state| matches!(state, PathState::Active | PathState::Stalled);
        let slot_of = |(index, path): (usize, &Path)| {
            let watched = in_use(path.state) && path.transport() == PathTransport::Coupled;
            let sender = path.sender.windowed().filter(|_| watched)?;
            Some((index, sender.slot()))
        };
        let (used, slots): (Vec<usize>, Vec<_>) = self.iter().filter_map(slot_of).unzip();
        let Some(watched) = self.controllers.watched() else {
            return Vec::new();
        };
        let groups = watched.groups(now, &slots);
        let records: Vec<_> = slots
            .iter()
            .map(|slot| {
                let record = watched.path(*slot)?;
                Some((
                    record.bytes_acked(),
                    record.bytes_lost(),
                    record.loss_events(),
                    record.estimate(now),
                ))
            })
            .collect();
        let span = now.since(self.survey_from);
        used.iter()
            .zip(groups)
            .zip(records)
            .filter_map(|((&index, group), record)| {
                let (acked, lost, loss_events, estimate) = record?;
                Some(PathSurvey {
                    path: self.stats_of(&self.slab[index]),
                    span,
                    bytes_acked: acked as u64,
                    bytes_lost: lost as u64,
                    loss_events: loss_events as u64,
                    estimate,
                    group,
                })
            })
            .collect()
    }

    /// The event that says that a path carries packets.
    pub(super) fn up_event(&self, index: usize) -> PathEvent {
        let path = &self.slab[index];
        PathEvent::Up {
            path: path.id(),
            name: path.local.name.clone(),
            remote: path.remote,
        }
    }
}

impl Path {
    /// The event that says that it carries no packets any more.
    pub(super) fn down_event(&self, reason: PathDownReason) -> PathEvent {
        PathEvent::Down {
            path: self.id(),
            name: self.local.name.clone(),
            remote: self.remote,
            reason,
        }
    }
}
