//! mPath's path manager at work: what it has to hear of the connection's paths.
//!
//! It owns the manager and what that was told last of each path. It reads the paths and never
//! changes one: the manager's commands are carried out by whoever asks for them.

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_control::paths::{Command, Event, PathKey, PathManager, RelayKey};
use manyway_control::{LawSpec, PathVerdict};
use manyway_units::Time;
use manyway_wire::PathId;

use crate::relays::RelayRoute;

use super::super::core::Core;
use super::super::paths::{PathSet, PathTransport};

/// The manager of a connection whose law is `mpath`.
#[derive(Debug)]
pub(super) struct Manager {
    manager: PathManager,
    reported: BTreeMap<PathId, Reported>,
    /// Probes in a row that were given up.
    strikes: BTreeMap<RelayRoute, u32>,
    most_strikes: u32,
    /// The direct path has answered.
    started: bool,
}

/// A path's counters when the manager heard of them.
#[derive(Copy, Clone, Debug, Default)]
struct Reported {
    bytes: u64,
    loss_events: u64,
}

impl Manager {
    /// A manager, if the law is one that comes with it.
    pub(super) fn of(law: &LawSpec, seed: u64) -> Option<Self> {
        let config = law.path_manager()?;
        Some(Self {
            manager: PathManager::new(config, seed).ok()?,
            reported: BTreeMap::new(),
            strikes: BTreeMap::new(),
            most_strikes: config.strikes,
            started: false,
        })
    }

    pub(super) fn timeout(&self) -> Option<Time> {
        self.manager.timeout()
    }

    pub(super) fn on_candidate(&mut self, now: Time, route: RelayRoute) {
        let relays = [RelayKey(route.0)];
        self.manager.handle(now, Event::Relays(&relays));
    }

    pub(super) fn on_gone(&mut self, now: Time, route: RelayRoute) {
        self.manager.handle(now, Event::Gone(RelayKey(route.0)));
    }

    /// There are no more relays than those that it was told of.
    pub(super) fn on_no_more(&mut self, now: Time) {
        self.manager.handle(now, Event::Relays(&[]));
    }

    /// A trial of the route was answered.
    pub(super) fn on_answered(&mut self, now: Time, route: RelayRoute) {
        self.strikes.remove(&route);
        self.manager.handle(now, Event::Answered(RelayKey(route.0)));
    }

    /// A trial of the route was given up. Whether it was one too many.
    pub(super) fn on_strike(&mut self, route: RelayRoute) -> bool {
        let strikes = self.strikes.entry(route).or_default();
        *strikes += 1;
        let out = *strikes >= self.most_strikes;
        if out {
            self.strikes.remove(&route);
        }
        out
    }

    pub(super) fn next_command(&mut self) -> Option<Command> {
        self.manager.next_command()
    }

    /// A probe timeout on a path, if the manager has to do with it.
    pub(super) fn timeout_on(paths: &PathSet, index: usize) -> Option<Event<'static>> {
        let path = key_of(paths, index)?;
        let window = paths.window(index);
        Some(Event::Timeout { path, window })
    }

    /// What came of a path's packets is settled: what the manager wants to hear of it, if anything.
    /// The window was `before`. With an index, that path is all there is to look at.
    pub(super) fn observe(
        &mut self,
        paths: &PathSet,
        index: usize,
        before: f64,
        lost: bool,
    ) -> Option<(Option<usize>, Option<Event<'static>>)> {
        let path = paths.get(index)?;
        let events = path.sender().stats().loss_events;
        let reported = self.reported.entry(path.id()).or_default();
        let cut = std::mem::replace(&mut reported.loss_events, events) != events;
        let first = !self.started && path.sender().rtt().has_sample();
        if !cut && !lost && !first {
            return None;
        }
        let path = key_of(paths, index)?;
        let event = cut.then_some(Event::Loss {
            path,
            window: before,
        });
        Some(((path != PathKey::Direct).then_some(index), event))
    }

    /// Tells the manager what has happened, to one path if that is all there is to look at. Whether
    /// it may have commands by now.
    pub(super) fn report(
        &mut self,
        now: Time,
        core: &Core,
        about: Option<usize>,
        event: Option<Event<'static>>,
    ) -> bool {
        // Before the direct path has answered there is no round-trip time to probe by.
        self.started |= direct_rtt(&core.paths).is_some();
        if !self.started {
            return false;
        }
        if about.is_none() {
            self.brief(now, core);
        }
        if let Some(event) = event {
            self.manager.handle(now, event);
        }
        match about {
            Some(index) => self.judge(now, core, index, true),
            None => core
                .paths
                .iter()
                .for_each(|(index, _)| self.judge(now, core, index, false)),
        }
        self.manager.on_timeout(now);
        true
    }

    /// Passes on what the controller thinks of a path, after what else is to be known if that is
    /// still to be done.
    fn judge(&mut self, now: Time, core: &Core, index: usize, brief: bool) {
        let Some(PathKey::Via(relay)) = key_of(&core.paths, index) else {
            return;
        };
        let verdict = core.paths.verdict(index);
        if verdict == PathVerdict::Keep {
            return;
        }
        if brief {
            self.brief(now, core);
        }
        self.manager.handle(now, Event::Verdict { relay, verdict });
    }

    /// Brings the manager up to date: what the paths have delivered, the direct one's round trip,
    /// and whether there is more to send.
    fn brief(&mut self, now: Time, core: &Core) {
        let paths = &core.paths;
        self.reported.retain(|&id, _| paths.index_of(id).is_some());
        let unsatisfied = core.data.has_any();
        self.manager.handle(now, Event::Unsatisfied(unsatisfied));
        for (index, path) in paths.iter() {
            let acked = path.sender().stats().bytes_acked;
            let reported = self.reported.entry(path.id()).or_default();
            let bytes = acked - std::mem::replace(&mut reported.bytes, acked);
            if let Some(PathKey::Via(relay)) = key_of(paths, index) {
                self.manager.handle(now, Event::Delivered { relay, bytes });
            }
        }
        if let Some(rtt) = direct_rtt(paths) {
            self.manager.handle(now, Event::DirectRtt(rtt));
        }
    }
}

/// What the manager calls a path; `None` if it has nothing to do with it. The law takes its oldest
/// path for the direct one, and so do we.
fn key_of(paths: &PathSet, index: usize) -> Option<PathKey> {
    let path = &paths[index];
    if path.transport() != PathTransport::Coupled {
        return None;
    }
    if paths.oldest_coupled() == Some(index) {
        return Some(PathKey::Direct);
    }
    Some(PathKey::Via(RelayKey(path.route()?.0)))
}

/// The round-trip time of the direct path, once it has answered.
fn direct_rtt(paths: &PathSet) -> Option<Duration> {
    let rtt = paths[paths.oldest_coupled()?].sender().rtt();
    rtt.has_sample().then(|| rtt.smoothed())
}
