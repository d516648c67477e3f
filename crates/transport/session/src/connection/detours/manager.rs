//! mPath's path manager at work: what it has to hear of the connection, and what becomes of its
//! commands.

use manyway_control::paths::{Command, Event, PathKey, PathManager, RelayKey};
use manyway_control::{LawSpec, PathVerdict};
use manyway_units::Time;
use manyway_wire::PathId;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::event::{self, PathDownReason};
use crate::relays::Lane;

use super::super::Connection;
use super::super::path::Under;

/// The manager of a connection whose law comes with one, and what it was told last of each path.
#[derive(Debug)]
pub(super) struct Manager {
    manager: PathManager,
    told: BTreeMap<PathId, Told>,
    /// Probes in a row that were given up.
    strikes: BTreeMap<Lane, u32>,
    most_strikes: u32,
    /// The direct path has answered.
    started: bool,
}

/// A path's counters when the manager heard of them.
#[derive(Copy, Clone, Debug, Default)]
struct Told {
    bytes: u64,
    loss_events: u64,
}

impl Manager {
    /// A manager, if the law is one that comes with it.
    pub(super) fn of(law: &LawSpec, seed: u64) -> Option<Self> {
        let config = law.path_manager()?;
        Some(Self {
            manager: PathManager::new(config, seed).ok()?,
            told: BTreeMap::new(),
            strikes: BTreeMap::new(),
            most_strikes: config.strikes,
            started: false,
        })
    }

    pub(super) fn timeout(&self) -> Option<Time> {
        self.manager.timeout()
    }

    pub(super) fn on_candidate(&mut self, now: Time, lane: Lane) {
        self.manager.handle(now, Event::Relays(&[RelayKey(lane.0)]));
    }

    pub(super) fn on_gone(&mut self, now: Time, lane: Lane) {
        self.manager.handle(now, Event::Gone(RelayKey(lane.0)));
    }
}

impl Connection {
    pub(super) fn is_managed(&self) -> bool {
        self.detours.as_ref().is_some_and(|d| d.manager.is_some())
    }

    fn manager(&mut self) -> Option<&mut Manager> {
        self.detours.as_mut()?.manager.as_mut()
    }

    /// What the manager calls a path; `None` if it has nothing to do with it.
    fn key_of(&self, index: usize) -> Option<PathKey> {
        let path = &self.paths[index];
        if path.under != Under::Law {
            return None;
        }
        let oldest = self
            .by_id
            .values()
            .find(|&&other| self.paths[other].under == Under::Law);
        match path.lane() {
            // The law takes its oldest path for the direct one, and so do we.
            _ if oldest == Some(&index) => Some(PathKey::Direct),
            Some(lane) => Some(PathKey::Via(RelayKey(lane.0))),
            None => None,
        }
    }

    /// A path's window, for [`Connection::observe`] to know what it was.
    pub(in super::super) fn window_before(&self, index: usize) -> f64 {
        if !self.is_managed() {
            return 0.0;
        }
        let path = &self.paths[index];
        path.sender.window(self.controllers.of(path))
    }

    /// What came of a path's packets is settled: the manager hears of it, if it wants to know.
    pub(in super::super) fn observe(&mut self, now: Time, index: usize, before: f64, lost: bool) {
        if !self.is_managed() {
            return;
        }
        let Some(path) = self.paths.get(index) else {
            return;
        };
        let (id, events) = (path.id, path.sender.stats().loss_events);
        let has_sample = path.sender.rtt().has_sample();
        let Some(manager) = self.manager() else {
            return;
        };
        let told = manager.told.entry(id).or_default();
        let cut = std::mem::replace(&mut told.loss_events, events) != events;
        let first = !manager.started && has_sample;
        if !cut && !lost && !first {
            return;
        }
        let Some(key) = self.key_of(index) else {
            return;
        };
        let event = cut.then_some(Event::Loss {
            path: key,
            window: before,
        });
        let about = (key != PathKey::Direct).then_some(index);
        self.manage(now, about, event);
    }

    /// A probe timeout on a path. True if the manager has dealt with it, whatever became of the
    /// path.
    pub(in super::super) fn on_silence(&mut self, now: Time, index: usize) -> bool {
        if !self.is_managed() {
            return false;
        }
        let Some(key) = self.key_of(index) else {
            // A trial's end is the manager's to say.
            return self.paths[index].under == Under::Trial;
        };
        let window = self.window_before(index);
        let id = self.paths[index].id;
        self.manage(now, None, Some(Event::Timeout { path: key, window }));
        self.by_id.get(&id) != Some(&index)
    }

    /// Tells the manager what has happened, and does what it says. `about` is the path that it
    /// happened to, if that is all there is to look at.
    pub(super) fn manage(
        &mut self,
        now: Time,
        about: Option<usize>,
        event: Option<Event<'static>>,
    ) {
        if !self.has_started() {
            return;
        }
        if about.is_none() {
            self.brief(now);
        }
        if let (Some(manager), Some(event)) = (self.manager(), event) {
            manager.manager.handle(now, event);
        }
        let open = match about {
            Some(index) => vec![index],
            None => self.by_id.values().copied().collect(),
        };
        for index in open {
            self.judge(now, index, about.is_some());
        }
        if let Some(manager) = self.manager() {
            manager.manager.on_timeout(now);
        }
        self.obey(now);
        if let Some(detours) = &mut self.detours {
            detours.reschedule(now);
        }
    }

    /// Whether the direct path has answered, so that there is a round-trip time to probe by.
    fn has_started(&mut self) -> bool {
        let answered = self.direct_rtt().is_some();
        let Some(manager) = self.manager() else {
            return false;
        };
        manager.started |= answered;
        manager.started
    }

    fn direct_rtt(&self) -> Option<Duration> {
        let mut paths = self.by_id.values().map(|&index| &self.paths[index]);
        let direct = paths.find(|path| path.under == Under::Law)?;
        let rtt = direct.sender.rtt();
        rtt.has_sample().then(|| rtt.smoothed())
    }

    /// Passes on what the controller thinks of a path, after what else is to be known if that is
    /// still to be done.
    fn judge(&mut self, now: Time, index: usize, brief: bool) {
        let Some(PathKey::Via(relay)) = self.key_of(index) else {
            return;
        };
        let path = &self.paths[index];
        let verdict = path.sender.verdict(self.controllers.of(path));
        if verdict == PathVerdict::Keep {
            return;
        }
        if brief {
            self.brief(now);
        }
        if let Some(manager) = self.manager() {
            manager
                .manager
                .handle(now, Event::Verdict { relay, verdict });
        }
    }

    /// Brings the manager up to date: what the paths have delivered, the direct one's round trip,
    /// and whether there is more to send.
    fn brief(&mut self, now: Time) {
        let unsatisfied = self.has_data();
        let rtt = self.direct_rtt();
        let paths: Vec<_> = self
            .by_id
            .iter()
            .map(|(&id, &index)| (id, self.key_of(index), self.paths[index].sender.stats()))
            .collect();
        let Some(manager) = self.manager() else {
            return;
        };
        manager
            .told
            .retain(|id, _| paths.iter().any(|(open, ..)| open == id));
        manager.manager.handle(now, Event::Unsatisfied(unsatisfied));
        for (id, key, stats) in paths {
            let told = manager.told.entry(id).or_default();
            let bytes = stats.bytes_acked - std::mem::replace(&mut told.bytes, stats.bytes_acked);
            if let Some(PathKey::Via(relay)) = key {
                manager
                    .manager
                    .handle(now, Event::Delivered { relay, bytes });
            }
        }
        if let Some(rtt) = rtt {
            manager.manager.handle(now, Event::DirectRtt(rtt));
        }
    }

    /// Carries out the manager's commands.
    fn obey(&mut self, now: Time) {
        while let Some(command) = self.manager().and_then(|m| m.manager.next_command()) {
            match command {
                Command::Probe(relay) => {
                    // If it can't be sent, it isn't answered: a strike.
                    self.open_detour(now, Lane(relay.0), Under::Trial);
                }
                Command::Resend(relay) => self.give_up_trial(now, Lane(relay.0)),
                Command::Open(relay) => {
                    if !self.open_detour(now, Lane(relay.0), Under::Law)
                        && let Some(manager) = self.manager()
                    {
                        manager.on_gone(now, Lane(relay.0));
                    }
                }
                Command::Close { relay, for_good } => {
                    self.close_lane(now, Lane(relay.0), PathDownReason::Dropped);
                    if for_good && let Some(detours) = &mut self.detours {
                        detours.client.remove(Lane(relay.0));
                    }
                }
                Command::MoreRelays => {
                    self.events.push_back(event::Event::MoreRelays);
                    if let Some(manager) = self.manager() {
                        manager.manager.handle(now, Event::Relays(&[]));
                    }
                }
            }
        }
    }

    /// Closes a lane's path as the manager wants it: no failure of the relay's.
    pub(in super::super) fn close_lane(&mut self, now: Time, lane: Lane, reason: PathDownReason) {
        let Some(index) = self.path_on(lane) else {
            return;
        };
        let usable = self.detours.as_mut().and_then(|d| d.lanes.get_mut(&lane));
        if let Some(usable) = usable {
            usable.path = None;
        }
        self.close_path(now, index, reason, true);
    }

    fn give_up_trial(&mut self, now: Time, lane: Lane) {
        self.close_lane(now, lane, PathDownReason::TimedOut);
        let Some(detours) = &mut self.detours else {
            return;
        };
        let Some(manager) = &mut detours.manager else {
            return;
        };
        let strikes = manager.strikes.entry(lane).or_default();
        *strikes += 1;
        if *strikes >= manager.most_strikes {
            manager.strikes.remove(&lane);
            detours.client.remove(lane);
        } else {
            detours.client.distrust(now, lane);
        }
    }

    /// A relay on trial has answered; the packet that says so may have more to say, so the path is
    /// closed after it.
    pub(in super::super) fn on_trial_answered(&mut self, index: usize) {
        let path = &self.paths[index];
        if let Some(lane) = path.lane()
            && let Some(detours) = &mut self.detours
        {
            detours.answered.push((lane, path.id));
        }
        self.on_detour_validated(index);
    }

    pub(super) fn on_trial_over(&mut self, now: Time, lane: Lane, path: PathId) {
        if self.path_on(lane) != self.by_id.get(&path).copied() {
            return;
        }
        self.close_lane(now, lane, PathDownReason::Dropped);
        if let Some(manager) = self.manager() {
            manager.strikes.remove(&lane);
            manager
                .manager
                .handle(now, Event::Answered(RelayKey(lane.0)));
        }
    }
}
