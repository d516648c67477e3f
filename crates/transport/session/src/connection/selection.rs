//! Which of the relays carry paths, if the user wants so many and no more: the overlay paper's path
//! selection, live.
//!
//! The control room's [`LiveSelector`] decides by relay. Here it hears how they do, over UDP (lanes
//! with grants) and over TCP (what the driver says it can dial), and what has arrived through each;
//! paths of those that it chooses are opened, or dialled by the driver, and those of others are
//! closed. A path through a relay that isn't chosen any more carries data until another path does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_control::paths::RelayKey;
use manyway_control::rate_control::{
    LiveConfig, LiveSelector, Liveness, Measured, Reason, Selected,
};
use manyway_units::{Backoff, Rate, Time};
use rand::RngExt;

use crate::event::{Event, PathDownReason, PickReason};
use crate::relays::{Lane, RelayAccess, RelayAddress, RelayId};
use crate::stats::{PathState, SelectionStats};

use super::Connection;
use super::path::Under;

/// A relay whose TCP connection failed isn't dialled again for this long, then twice as long, up to
/// a minute.
const REST: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));
/// While too few relays are alive, others are asked for so often.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// A path that is stalled for less than this may just have met a full queue: its data goes
/// elsewhere already.
const STALLED: Duration = Duration::from_secs(1);

/// A connection's choice of relays.
#[derive(Debug)]
pub(super) struct Selection {
    selector: LiveSelector,
    /// Every relay ever heard of: its place is what the selector knows it by.
    known: Vec<RelayAddress>,
    /// Those that the driver can reach over TCP now.
    over_tcp: BTreeMap<RelayId, OverTcp>,
    /// Bytes that arrived by paths that are closed.
    closed: BTreeMap<RelayId, u64>,
    /// Path 0 leads through it, and the selector hasn't heard.
    led_there: bool,
    /// Something has happened that it may have to do with.
    dirty: bool,
    /// There is nothing to send since then, and was for so long before.
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

impl Selection {
    /// `None` if the settings can't work, which the endpoint has checked.
    pub(super) fn new(config: LiveConfig, seed: u64) -> Option<Box<Self>> {
        Some(Box::new(Self {
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
        }))
    }

    fn timeout(&self) -> Option<Time> {
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

    fn uses(&self, id: RelayId) -> bool {
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

impl Connection {
    /// Something has happened to a path or a relay: it is looked at before time goes on.
    pub(super) fn wake_selection(&mut self) {
        if let Some(selection) = &mut self.selection {
            selection.dirty = true;
        }
    }

    pub(super) fn selection_timeout(&self) -> Option<Time> {
        self.selection.as_ref()?.timeout()
    }

    /// There is something to send, or nothing.
    pub(super) fn note_starved(&mut self, now: Time, starved: bool) {
        let Some(selection) = &mut self.selection else {
            return;
        };
        match starved {
            true => {
                selection.starved_since.get_or_insert(now);
            }
            false => {
                let since = selection.starved_since.take();
                selection.starved += since.map_or(Duration::ZERO, |at| now.since(at));
            }
        }
    }

    /// These relays could be dialled over TCP now; nothing is known of whether they answer. Of use
    /// with [`Config::selection`](crate::Config::selection) only: [`Connection::relays_to_dial`]
    /// says which are wanted.
    pub fn relays_over_tcp(&mut self, relays: &[RelayAccess]) {
        let Some(selection) = &mut self.selection else {
            return;
        };
        let mut before = std::mem::take(&mut selection.over_tcp);
        let relays = relays.iter().take(manyway_wire::MAX_RELAYS);
        let mut news = false;
        for access in relays {
            let known = before.remove(&access.relay.id);
            news |= known.is_none();
            let (failures, rest_until) =
                known.map_or((0, Time::ZERO), |tcp| (tcp.failures, tcp.rest_until));
            selection
                .over_tcp
                .entry(access.relay.id)
                .or_insert(OverTcp {
                    access: access.clone(),
                    failures,
                    rest_until,
                });
        }
        selection.dirty |= news || !before.is_empty();
    }

    /// The relays that are to have a TCP connection now, if they aren't reached by UDP; `None` if
    /// all of them may.
    pub fn relays_to_dial(&self) -> Option<Vec<RelayId>> {
        let mut chosen = self.chosen()?;
        let over_tcp = &self.selection.as_ref()?.over_tcp;
        chosen.retain(|id| {
            over_tcp
                .get(id)
                .is_some_and(|tcp| tcp.rest_until == Time::ZERO)
        });
        Some(chosen)
    }

    fn chosen(&self) -> Option<Vec<RelayId>> {
        let selection = self.selection.as_ref()?;
        let chosen = selection.selector.relays();
        let ids = chosen.filter_map(|relay| Some(selection.known.get(relay.0 as usize)?.id));
        Some(ids.collect())
    }

    /// A TCP connection to the relay, or through it, didn't come about.
    pub fn on_dial_failed(&mut self, now: Time, relay: RelayId) {
        let Some(selection) = &mut self.selection else {
            return;
        };
        if let Some(tcp) = selection.over_tcp.get_mut(&relay) {
            tcp.rest_until = now + REST.delay(tcp.failures);
            tcp.failures += 1;
            selection.dirty = true;
        }
    }

    /// Whether a carrier through a relay, at this address, may carry a path.
    pub(super) fn takes_carrier_at(&self, address: SocketAddr) -> bool {
        let Some(selection) = &self.selection else {
            return true;
        };
        selection.at(address).is_some_and(|id| selection.uses(id))
    }

    /// The relay that a path leads through.
    fn relay_of(&self, index: usize) -> Option<RelayId> {
        let path = &self.paths[index];
        match path.lane() {
            Some(lane) => self.lane_relay(lane),
            None if path.facts.relay => self.selection.as_ref()?.at(path.remote),
            None => None,
        }
    }

    /// A path comes to its end: what it carried is kept, and whether its relay is to blame.
    pub(super) fn note_closing(&mut self, now: Time, index: usize, reason: PathDownReason) {
        if self.selection.is_none() {
            return;
        }
        let relay = self.relay_of(index);
        let path = &self.paths[index];
        let (bytes, on_carrier) = (path.sender.stats().bytes_acked, path.facts.reliable);
        if let (Some(selection), Some(id)) = (&mut self.selection, relay) {
            *selection.closed.entry(id).or_default() += bytes;
            if on_carrier && reason != PathDownReason::Reselected {
                self.on_dial_failed(now, id);
            }
        }
        self.wake_selection();
    }

    /// A path works.
    pub(super) fn note_working(&mut self, index: usize) {
        if self.selection.is_none() {
            return;
        }
        let relay = self.relay_of(index);
        if let (Some(selection), Some(id)) = (&mut self.selection, relay)
            && let Some(tcp) = selection.over_tcp.get_mut(&id)
        {
            (tcp.failures, tcp.rest_until) = (0, Time::ZERO);
        }
        self.wake_selection();
    }

    /// Does what has become necessary; costs nothing if that is nothing.
    pub(super) fn drive_selection(&mut self, now: Time) {
        let due = |selection: &Selection| selection.timeout().is_some_and(|at| at <= now);
        if !self.selection.as_deref().is_some_and(due) || self.is_closed() {
            return;
        }
        let Some(mut selection) = self.selection.take() else {
            return;
        };
        selection.dirty = false;
        for tcp in selection.over_tcp.values_mut() {
            if tcp.rest_until <= now {
                tcp.rest_until = Time::ZERO;
            }
        }
        let stalled = self.paths.iter().map(|(_, path)| path);
        let stalled = stalled.filter(|path| path.state == PathState::Stalled);
        let dead_at = stalled.map(|path| path.stalled_since + STALLED);
        selection.dead_at = dead_at.filter(|at| *at > now).min();
        self.selection = Some(selection);
        self.inform(now);
        self.pass_on(now);
        self.leave_unchosen(now);
        self.open_chosen(now);
    }

    /// Whether nothing comes back on a path any more.
    pub(super) fn is_dead(&self, now: Time, index: usize) -> bool {
        let path = &self.paths[index];
        path.state == PathState::Stalled && path.stalled_since + STALLED <= now
    }

    /// Tells the selector how each relay does, and what has arrived.
    fn inform(&mut self, now: Time) {
        let standings = self.standings(now);
        let relays: Vec<(RelayKey, u64)> = self.carried();
        let slowest = self.by_id.values().map(|&index| &self.paths[index]);
        let slowest = slowest.filter(|path| path.state == PathState::Active);
        let rtt = slowest.map(|path| path.sender.rtt().smoothed()).max();
        let Some(selection) = &mut self.selection else {
            return;
        };
        for (relay, standing, bound) in standings {
            let number = selection.note(relay);
            selection.selector.set(number, standing);
            if let Some(bound) = bound {
                selection.selector.set_bound(number, bound);
            }
            let open = self.by_id.values().next().map(|&index| &self.paths[index]);
            let leads = open.is_some_and(|path| path.remote == relay.address);
            if leads && std::mem::take(&mut selection.led_there) {
                selection.selector.adopt(number);
            }
        }
        let measured = Measured {
            delivered: self.acked,
            starved: selection.starved(now),
            rtt: rtt.unwrap_or_default(),
            relays: &relays,
        };
        selection.selector.on_timeout(now, &measured);
    }

    /// Bytes that have arrived through each relay.
    fn carried(&self) -> Vec<(RelayKey, u64)> {
        let Some(selection) = &self.selection else {
            return Vec::new();
        };
        let mut carried = selection.closed.clone();
        for &index in self.by_id.values() {
            if let Some(id) = self.relay_of(index) {
                *carried.entry(id).or_default() += self.paths[index].sender.stats().bytes_acked;
            }
        }
        let numbered = carried.into_iter();
        numbered
            .filter_map(|(id, bytes)| Some((selection.number(id)?, bytes)))
            .collect()
    }

    /// How each relay does, and what it allows (bytes/s); those that aren't candidates any more
    /// too.
    fn standings(&self, now: Time) -> Vec<(RelayAddress, Liveness, Option<f64>)> {
        let Some(selection) = &self.selection else {
            return Vec::new();
        };
        let mut found: BTreeMap<RelayId, (RelayAddress, Liveness, Option<f64>)> = BTreeMap::new();
        let known = selection.known.iter();
        found.extend(known.map(|&relay| (relay.id, (relay, Liveness::Gone, None))));
        let mut better = |relay: RelayAddress, standing: Liveness, bound: Option<f64>| {
            let entry = found.entry(relay.id);
            let entry = entry.or_insert((relay, Liveness::Gone, None));
            entry.1 = best(entry.1, standing);
            entry.2 = entry.2.or(bound);
        };
        for (relay, standing, bound) in self.lane_standings(now) {
            better(relay, standing, Some(bound));
        }
        for tcp in selection.over_tcp.values() {
            let rests = tcp.rest_until > now;
            let standing = if rests {
                Liveness::Dead
            } else {
                Liveness::Alive
            };
            better(tcp.access.relay, standing, Some(tcp.access.bound()));
        }
        // What a path shows counts more than what may be.
        for &index in self.by_id.values() {
            let path = &self.paths[index];
            let relay = self.relay_of(index).filter(|_| path.facts.reliable);
            if let Some(entry) = relay.and_then(|id| found.get_mut(&id)) {
                entry.1 = match self.is_dead(now, index) {
                    true => Liveness::Dead,
                    false => Liveness::Alive,
                };
            }
        }
        found.into_values().collect()
    }

    /// Tells the user what the selector says.
    fn pass_on(&mut self, now: Time) {
        let Some(selection) = &mut self.selection else {
            return;
        };
        while let Some(selected) = selection.selector.next_selected() {
            let event = match selected {
                Selected::Changed { reason, .. } => {
                    let chosen = selection.selector.relays();
                    let relays = chosen.filter_map(|relay| selection.address(relay));
                    let relays: Vec<SocketAddr> = relays.collect();
                    tracing::debug!(?reason, ?relays, "relays picked");
                    Event::RelaysPicked {
                        relays,
                        reason: reason.into(),
                    }
                }
                Selected::Few { alive, known } => {
                    selection.ask_at = Some(now);
                    let wanted = selection.selector.config().select.paths;
                    Event::FewRelays {
                        alive,
                        known,
                        wanted,
                    }
                }
            };
            self.events.push_back(event);
        }
        if selection.ask_at.is_some_and(|at| at <= now) {
            let few = selection.selector.alive() < selection.selector.config().select.paths;
            selection.ask_at = few.then_some(now + ASK_AGAIN);
            if few {
                self.events.push_back(Event::MoreRelays);
            }
        }
    }

    /// Closes the paths through relays that aren't chosen, as soon as another path carries data.
    fn leave_unchosen(&mut self, now: Time) {
        let (mut leave, mut others) = (Vec::new(), false);
        for &index in self.by_id.values() {
            let Some(selection) = &self.selection else {
                return;
            };
            match self.relay_of(index) {
                Some(id) if !selection.uses(id) => leave.push(self.paths[index].id),
                // Whose relay it is, the driver is about to tell.
                _ => others |= self.paths[index].state == PathState::Active,
            }
        }
        // Before the first choice nobody is left.
        let chosen = self
            .selection
            .as_ref()
            .is_some_and(|s| s.selector.has_chosen());
        for id in leave.into_iter().filter(|_| chosen) {
            let Some(&index) = self.by_id.get(&id) else {
                continue;
            };
            let path = &self.paths[index];
            let (state, lane) = (path.state, path.lane());
            if others || state == PathState::Validating && self.paths.len() > 1 {
                match (state, lane) {
                    // It answers no more: a failure of the relay's, which rests.
                    (PathState::Stalled, _) => {
                        self.close_path(now, index, PathDownReason::TimedOut, true);
                    }
                    (_, Some(lane)) => self.close_lane(now, lane, PathDownReason::Reselected),
                    (_, None) => self.close_path(now, index, PathDownReason::Reselected, true),
                }
            } else if !self.backups.contains(&index) {
                self.set_backup(now, index, true);
            }
        }
    }

    /// Opens a path from each interface through each chosen relay that grants one. What has to be
    /// dialled the driver dials.
    fn open_chosen(&mut self, now: Time) {
        let Some(selection) = &self.selection else {
            return;
        };
        let chosen: Vec<RelayId> = self.chosen().unwrap_or_default();
        let mut wanted: Vec<Lane> = Vec::new();
        for &id in &chosen {
            wanted.extend(self.lanes_to_open(now, id));
        }
        let mut back = Vec::new();
        for &index in &self.backups {
            let relay = self.relay_of(index);
            let leaving = self.paths[index]
                .lane()
                .is_some_and(|lane| self.is_leaving(lane));
            if relay.is_some_and(|id| selection.uses(id)) && !leaving {
                back.push(index);
            }
        }
        for index in back {
            self.set_backup(now, index, false);
        }
        for lane in wanted {
            if !self.open_detour(now, lane, Under::Law) {
                self.put_off(now, lane);
            }
        }
    }

    pub(super) fn selection_stats(&self) -> Option<SelectionStats> {
        let selection = self.selection.as_ref()?;
        let selector = &selection.selector;
        let judged = selector.judgements();
        let chosen = selector.relays();
        Some(SelectionStats {
            wanted: selector.config().select.paths,
            relays: chosen
                .filter_map(|relay| selection.address(relay))
                .collect(),
            demand: selector.config().demand.map(Rate::from_bytes_per_sec),
            iterations: judged.iterations,
            reselections: judged.reselections,
            rate: judged.last.map(|(rate, _)| Rate::from_bytes_per_sec(rate)),
            satisfied: judged.last.map(|(_, satisfied)| satisfied),
        })
    }

    /// Relays over TCP, of which nothing else is known here: those in use, and those that could be.
    pub(super) fn stats_over_tcp(&self) -> Vec<(RelayAddress, bool)> {
        let Some(selection) = &self.selection else {
            return Vec::new();
        };
        let relays = selection.over_tcp.values().map(|tcp| tcp.access.relay);
        let in_use = |relay: RelayAddress| {
            let mut paths = self.by_id.values();
            paths.any(|&i| self.paths[i].facts.relay && self.relay_of(i) == Some(relay.id))
        };
        relays.map(|relay| (relay, in_use(relay))).collect()
    }

    /// Begins to choose, if the user wants so many relays and no more.
    pub(super) fn begin_selection(&mut self) {
        if let (true, Some(config)) = (self.initiator, self.config.selection) {
            self.selection = Selection::new(config, self.rng.random());
        }
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

/// A relay does as well as the best way through it.
pub(super) fn best(a: Liveness, b: Liveness) -> Liveness {
    let order = [
        Liveness::Alive,
        Liveness::Unanswered,
        Liveness::Dead,
        Liveness::Gone,
    ];
    let mut order = order.into_iter();
    order
        .find(|standing| [a, b].contains(standing))
        .unwrap_or(a)
}
