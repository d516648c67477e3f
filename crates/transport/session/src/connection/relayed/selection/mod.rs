//! Which of the relays carry paths, if the user wants so many and no more: the overlay paper's path
//! selection, live.
//!
//! The control room's [`LiveSelector`] decides by relay. This component tells it how they do, over
//! UDP (routes with grants) and over TCP (what the driver says it can dial), and what has arrived
//! through each. It says which paths are to be left and which relays lack one, and neither opens
//! nor closes any. A path through a relay that isn't chosen any more carries data until another
//! path does.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_control::paths::RelayKey;
use manyway_control::rate_control::{
    LiveConfig, LiveSelector, Liveness, Measured, Reason, Selected,
};
use manyway_units::{Backoff, Rate, Time};

use crate::event::{PathDownReason, PathEvent, PickReason};
use crate::relays::{RelayAccess, RelayAddress, RelayId};
use crate::stats::{PathState, SelectionStats};

use super::super::paths::{Path, PathSet};
use super::routes::{Routes, best};

/// A relay whose TCP connection failed isn't dialled again for this long.
const REST: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));
/// While too few relays are alive, the user is asked for others at this interval.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// What to do with a path through a relay that isn't chosen.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// Its relay is to blame: it answers no more.
    Failed,
    /// It has done its work.
    Released,
    /// It carries data until another path does.
    Backup,
}

/// A connection's choice of relays.
#[derive(Debug)]
pub(super) struct RelaySelection {
    selector: LiveSelector,
    /// Every relay ever heard of: its place is what the selector knows it by.
    known: Vec<RelayAddress>,
    /// Those that the driver can reach over TCP now.
    over_tcp: BTreeMap<RelayId, OverTcp>,
    /// Bytes that arrived by paths that are closed.
    closed: BTreeMap<RelayId, u64>,
    /// Path 0 leads through it, and the selector hasn't heard.
    led_there: bool,
    /// A path or relay has changed since the last run.
    dirty: bool,
    /// Since when there is nothing to send, and for how long that was so before.
    starved_since: Option<Time>,
    starved: Duration,
    ask_at: Option<Time>,
    /// When a path that is stalled counts as dead.
    dead_at: Option<Time>,
}

#[derive(Clone, Debug)]
struct OverTcp {
    access: RelayAccess,
    failures: u32,
    rest_until: Time,
}

impl RelaySelection {
    /// `None` if the settings can't work, which the endpoint has checked.
    pub(super) fn new(config: LiveConfig, seed: u64) -> Option<Self> {
        Some(Self {
            selector: LiveSelector::new(config, seed).ok()?,
            known: Vec::new(),
            over_tcp: BTreeMap::new(),
            closed: BTreeMap::new(),
            led_there: true,
            dirty: true,
            starved_since: None,
            starved: Duration::ZERO,
            ask_at: None,
            dead_at: None,
        })
    }

    pub(super) fn timeout(&self) -> Option<Time> {
        if self.dirty {
            return Some(Time::ZERO);
        }
        let resting = self.over_tcp.values().map(|tcp| tcp.rest_until);
        let resting = resting.filter(|at| *at > Time::ZERO);
        let others = [self.selector.timeout(), self.ask_at, self.dead_at];
        resting.chain(others.into_iter().flatten()).min()
    }

    fn number(&self, id: RelayId) -> Option<RelayKey> {
        let at = self.known.iter().position(|relay| relay.id == id)?;
        Some(RelayKey(at as u64))
    }

    fn note(&mut self, relay: RelayAddress) -> RelayKey {
        self.number(relay.id).unwrap_or_else(|| {
            self.known.push(relay);
            RelayKey(self.known.len() as u64 - 1)
        })
    }

    pub(super) fn uses(&self, id: RelayId) -> bool {
        self.number(id)
            .is_some_and(|relay| self.selector.uses(relay))
    }

    fn address(&self, relay: RelayKey) -> Option<SocketAddr> {
        Some(self.known.get(relay.0 as usize)?.address)
    }

    fn at(&self, address: SocketAddr) -> Option<RelayId> {
        let mut reachable = self.over_tcp.values().map(|tcp| tcp.access.relay);
        let known = |relay: &RelayAddress| relay.address == address;
        let relay = reachable.find(known);
        let relay = relay.or_else(|| self.known.iter().copied().find(known));
        Some(relay?.id)
    }

    /// How long there was nothing to send.
    fn starved(&self, now: Time) -> Duration {
        let lately = self
            .starved_since
            .map_or(Duration::ZERO, |at| now.since(at));
        self.starved + lately
    }
}

impl RelaySelection {
    /// Something has happened to a path or a relay: it is looked at before time goes on.
    pub(super) fn wake(&mut self) {
        self.dirty = true;
    }

    /// There is something to send, or nothing.
    pub(super) fn note_starved(&mut self, now: Time, starved: bool) {
        if starved {
            self.starved_since.get_or_insert(now);
        } else if let Some(since) = self.starved_since.take() {
            self.starved += now.since(since);
        }
    }

    /// These relays could be dialled over TCP now.
    pub(super) fn set_over_tcp(&mut self, relays: &[RelayAccess]) {
        let mut before = std::mem::take(&mut self.over_tcp);
        let mut news = false;
        for access in relays.iter().take(manyway_wire::MAX_RELAYS) {
            let known = before.remove(&access.relay.id);
            news |= known.is_none();
            let (failures, rest_until) =
                known.map_or((0, Time::ZERO), |tcp| (tcp.failures, tcp.rest_until));
            self.over_tcp.entry(access.relay.id).or_insert(OverTcp {
                access: access.clone(),
                failures,
                rest_until,
            });
        }
        self.dirty |= news || !before.is_empty();
    }

    /// The relays that are to have a TCP connection now, if they aren't reached by UDP.
    pub(super) fn to_dial(&self) -> Vec<RelayId> {
        let mut chosen = self.chosen();
        chosen.retain(|id| {
            let tcp = self.over_tcp.get(id);
            tcp.is_some_and(|tcp| tcp.rest_until == Time::ZERO)
        });
        chosen
    }

    pub(super) fn chosen(&self) -> Vec<RelayId> {
        let chosen = self.selector.relays();
        let ids = chosen.filter_map(|relay| Some(self.known.get(relay.0 as usize)?.id));
        ids.collect()
    }

    /// A TCP connection to the relay, or through it, didn't come about.
    pub(super) fn on_dial_failed(&mut self, now: Time, relay: RelayId) {
        if let Some(tcp) = self.over_tcp.get_mut(&relay) {
            tcp.rest_until = now + REST.delay(tcp.failures);
            tcp.failures += 1;
            self.dirty = true;
        }
    }

    /// Whether a carrier through a relay, at this address, may carry a path.
    pub(super) fn takes_carrier_at(&self, address: SocketAddr) -> bool {
        self.at(address).is_some_and(|id| self.uses(id))
    }

    /// The relay that a path leads through.
    pub(super) fn relay_of(&self, path: &Path, routes: Option<&Routes>) -> Option<RelayId> {
        match path.route() {
            Some(route) => Some(routes?.client.relay_of(route)?.id),
            None if path.facts().relay => self.at(path.remote()),
            None => None,
        }
    }

    /// A path comes to its end: what it carried is kept, and whether its relay is to blame.
    pub(super) fn on_closing(
        &mut self,
        now: Time,
        path: &Path,
        routes: Option<&Routes>,
        reason: PathDownReason,
    ) {
        if let Some(id) = self.relay_of(path, routes) {
            *self.closed.entry(id).or_default() += path.sender().stats().bytes_acked;
            if path.facts().reliable && reason != PathDownReason::Reselected {
                self.on_dial_failed(now, id);
            }
        }
        self.dirty = true;
    }

    /// A path works.
    pub(super) fn on_working(&mut self, path: &Path, routes: Option<&Routes>) {
        let relay = self.relay_of(path, routes);
        if let Some(tcp) = relay.and_then(|id| self.over_tcp.get_mut(&id)) {
            (tcp.failures, tcp.rest_until) = (0, Time::ZERO);
        }
        self.dirty = true;
    }

    /// Brings the selector up to date, and has it choose.
    pub(super) fn run(
        &mut self,
        now: Time,
        paths: &PathSet,
        routes: Option<&Routes>,
        delivered: u64,
    ) {
        self.dirty = false;
        for tcp in self.over_tcp.values_mut() {
            if tcp.rest_until <= now {
                tcp.rest_until = Time::ZERO;
            }
        }
        let dead_at = paths.iter().filter_map(|(_, path)| path.dead_at());
        self.dead_at = dead_at.filter(|at| *at > now).min();
        self.inform(now, paths, routes, delivered);
    }

    /// Tells the selector how each relay does, and what has arrived.
    fn inform(&mut self, now: Time, paths: &PathSet, routes: Option<&Routes>, delivered: u64) {
        let standings = self.standings(now, paths, routes);
        let relays = self.carried(paths, routes);
        let active = paths.iter().map(|(_, path)| path);
        let active = active.filter(|path| path.state() == PathState::Active);
        let rtt = active.map(|path| path.sender().rtt().smoothed()).max();
        let first = paths.oldest().map(Path::remote);
        for (relay, standing, bound) in standings {
            let number = self.note(relay);
            self.selector.set(number, standing);
            if let Some(bound) = bound {
                self.selector.set_bound(number, bound);
            }
            if first == Some(relay.address) && std::mem::take(&mut self.led_there) {
                self.selector.adopt(number);
            }
        }
        let measured = Measured {
            delivered,
            starved: self.starved(now),
            rtt: rtt.unwrap_or_default(),
            relays: &relays,
        };
        self.selector.on_timeout(now, &measured);
    }

    /// Bytes that have arrived through each relay.
    fn carried(&self, paths: &PathSet, routes: Option<&Routes>) -> Vec<(RelayKey, u64)> {
        let mut carried = self.closed.clone();
        for (_, path) in paths.iter() {
            if let Some(id) = self.relay_of(path, routes) {
                *carried.entry(id).or_default() += path.sender().stats().bytes_acked;
            }
        }
        let numbered = carried.into_iter();
        numbered
            .filter_map(|(id, bytes)| Some((self.number(id)?, bytes)))
            .collect()
    }

    /// How each relay does, and what it allows (bytes/s); those that aren't candidates any more
    /// too.
    fn standings(
        &self,
        now: Time,
        paths: &PathSet,
        routes: Option<&Routes>,
    ) -> Vec<(RelayAddress, Liveness, Option<f64>)> {
        let mut found: BTreeMap<RelayId, (RelayAddress, Liveness, Option<f64>)> = BTreeMap::new();
        let known = self.known.iter();
        found.extend(known.map(|&relay| (relay.id, (relay, Liveness::Gone, None))));
        let mut better = |relay: RelayAddress, standing: Liveness, bound: f64| {
            let entry = found.entry(relay.id);
            let entry = entry.or_insert((relay, Liveness::Gone, None));
            entry.1 = best(entry.1, standing);
            entry.2 = entry.2.or(Some(bound));
        };
        let over_udp = routes.map(|routes| routes.standings(now, paths));
        for (relay, standing, bound) in over_udp.into_iter().flatten() {
            better(relay, standing, bound);
        }
        for tcp in self.over_tcp.values() {
            let standing = match tcp.rest_until > now {
                true => Liveness::Dead,
                false => Liveness::Alive,
            };
            better(tcp.access.relay, standing, tcp.access.bound());
        }
        // What a path shows counts more than what may be.
        for (_, path) in paths.iter().filter(|(_, path)| path.facts().reliable) {
            let relay = self.relay_of(path, routes);
            if let Some(entry) = relay.and_then(|id| found.get_mut(&id)) {
                entry.1 = match path.is_dead(now) {
                    true => Liveness::Dead,
                    false => Liveness::Alive,
                };
            }
        }
        found.into_values().collect()
    }

    /// What the user has to hear of what the selector says.
    pub(super) fn events(&mut self, now: Time) -> Vec<PathEvent> {
        let mut events = Vec::new();
        while let Some(selected) = self.selector.next_selected() {
            events.push(match selected {
                Selected::Changed { reason, .. } => {
                    let relays = self.selector.relays();
                    let relays: Vec<_> = relays.filter_map(|relay| self.address(relay)).collect();
                    tracing::debug!(?reason, ?relays, "relays picked");
                    PathEvent::RelaysPicked {
                        relays,
                        reason: reason.into(),
                    }
                }
                Selected::Few { alive, known } => {
                    self.ask_at = Some(now);
                    PathEvent::FewRelays {
                        alive,
                        known,
                        wanted: self.wanted(),
                    }
                }
            });
        }
        if self.ask_at.is_some_and(|at| at <= now) {
            let few = self.selector.alive() < self.wanted();
            self.ask_at = few.then_some(now + ASK_AGAIN);
            if few {
                events.push(PathEvent::MoreRelays);
            }
        }
        events
    }

    fn wanted(&self) -> usize {
        self.selector.config().select.paths
    }

    /// Paths through relays that aren't chosen, and whether another path carries data.
    pub(super) fn unchosen(
        &self,
        paths: &PathSet,
        routes: Option<&Routes>,
    ) -> (Vec<manyway_wire::PathId>, bool) {
        let (mut leave, mut others) = (Vec::new(), false);
        for (_, path) in paths.iter() {
            match self.relay_of(path, routes) {
                Some(id) if !self.uses(id) => leave.push(path.id()),
                // Whose relay it is, the driver is about to tell.
                _ => others |= path.state() == PathState::Active,
            }
        }
        if !self.selector.has_chosen() {
            // Before the first choice no relay is left.
            leave.clear();
        }
        (leave, others)
    }

    /// What to do with a path through a relay that isn't chosen; `others` carry data or not.
    pub(super) fn leave(&self, path: &Path, paths: &PathSet, others: bool) -> Leave {
        let unused = path.state() == PathState::Validating && paths.len() > 1;
        match path.state() {
            _ if !(others || unused) => Leave::Backup,
            PathState::Stalled => Leave::Failed,
            _ => Leave::Released,
        }
    }

    /// Backups that needn't be any more: their relays are chosen.
    pub(super) fn wanted_back(&self, paths: &PathSet, routes: Option<&Routes>) -> Vec<usize> {
        let backups = paths.backups().iter().copied();
        backups
            .filter(|&index| {
                let path = &paths[index];
                let leaving = path
                    .route()
                    .is_some_and(|route| routes.is_some_and(|r| r.is_leaving(route)));
                let relay = self.relay_of(path, routes);
                relay.is_some_and(|id| self.uses(id)) && !leaving
            })
            .collect()
    }

    pub(super) fn stats(&self) -> SelectionStats {
        let judged = self.selector.judgements();
        let chosen = self.selector.relays();
        SelectionStats {
            wanted: self.wanted(),
            relays: chosen.filter_map(|relay| self.address(relay)).collect(),
            demand: self.selector.config().demand.map(Rate::from_bytes_per_sec),
            iterations: judged.iterations,
            reselections: judged.reselections,
            rate: judged.last.map(|(rate, _)| Rate::from_bytes_per_sec(rate)),
            satisfied: judged.last.map(|(_, satisfied)| satisfied),
        }
    }

    /// Relays over TCP, of which nothing else is known here: those in use, and those that could be.
    pub(super) fn stats_over_tcp(
        &self,
        paths: &PathSet,
        routes: Option<&Routes>,
    ) -> Vec<(RelayAddress, bool)> {
        let relays = self.over_tcp.values().map(|tcp| tcp.access.relay);
        let in_use = |relay: RelayAddress| {
            let through = |path: &Path| self.relay_of(path, routes) == Some(relay.id);
            let mut paths = paths.iter();
            paths.any(|(_, path)| path.facts().relay && through(path))
        };
        relays.map(|relay| (relay, in_use(relay))).collect()
    }
}

impl From<Reason> for PickReason {
    fn from(reason: Reason) -> Self {
        let bits = |bytes: f64| (bytes * 8.0).round() as u64;
        match reason {
            Reason::First => PickReason::First,
            Reason::Vacancy => PickReason::Vacancy,
            Reason::Unsatisfied { rate, demand } => PickReason::Unsatisfied {
                rate: bits(rate),
                demand: bits(demand),
            },
        }
    }
}
