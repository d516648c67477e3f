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

    /// Tells the manager what has happened, to one path if that is all there is to look at, and
    /// whether there is more to send. Whether it may have commands by now.
    pub(super) fn report(
        &mut self,
        now: Time,
        (paths, unsatisfied): (&PathSet, bool),
        about: Option<usize>,
        event: Option<Event<'static>>,
    ) -> bool {
        // Before the direct path has answered there is no round-trip time to probe by.
        self.started |= direct_rtt(paths).is_some();
        if !self.started {
            return false;
        }
        if about.is_none() {
            self.brief(now, paths, unsatisfied);
        }
        if let Some(event) = event {
            self.manager.handle(now, event);
        }
        match about {
            Some(index) => self.judge(now, paths, index, Some(unsatisfied)),
            None => paths
                .iter()
                .for_each(|(index, _)| self.judge(now, paths, index, None)),
        }
        self.manager.on_timeout(now);
        true
    }

    /// Passes on what the controller thinks of a path, after what else is to be known if that is
    /// still to be done: `brief` says whether there is more to send.
    fn judge(&mut self, now: Time, paths: &PathSet, index: usize, brief: Option<bool>) {
        let Some(PathKey::Via(relay)) = key_of(paths, index) else {
            return;
        };
        let verdict = paths.verdict(index);
        if verdict == PathVerdict::Keep {
            return;
        }
        if let Some(unsatisfied) = brief {
            self.brief(now, paths, unsatisfied);
        }
        self.manager.handle(now, Event::Verdict { relay, verdict });
    }

    /// Brings the manager up to date: what the paths have delivered, the direct one's round trip,
    /// and whether there is more to send.
    fn brief(&mut self, now: Time, paths: &PathSet, unsatisfied: bool) {
        self.reported.retain(|&id, _| paths.index_of(id).is_some());
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

#[cfg(test)]
mod tests {
    use super::super::super::core::tests::{exchange, new_path, paths};
    use super::super::fixtures::{T0, begin, granted, local, relay};
    use super::*;

    const RTT: Duration = Duration::from_millis(40);
    const PROBES: Duration = Duration::from_millis(250);

    fn manager() -> Manager {
        let law: LawSpec = "mpath".parse().expect("a law");
        Manager::of(&law, 1).expect("it has one")
    }

    /// The direct path and one through a relay, both in use.
    fn two() -> (PathSet, [usize; 2], RelayRoute) {
        let (mut routes, all) = granted(&[local(1, "if")], &[relay(1)]);
        let mut paths = paths(true);
        let direct = paths.add(T0, new_path(0), None);
        let via = begin(&mut paths, &mut routes, (all[0], 1), PathTransport::Coupled);
        for index in [direct, via] {
            paths.on_validated(index, Some(RTT));
            paths.refresh(T0, index);
        }
        (paths, [direct, via], all[0])
    }

    #[test]
    fn only_a_law_that_has_a_manager_brings_one() {
        assert!(Manager::of(&LawSpec::default(), 1).is_none());
        assert_eq!(manager().most_strikes, 2);
    }

    #[test]
    fn relays_are_probed_once_the_direct_path_has_answered_and_there_is_more_to_send() {
        let mut manager = manager();
        let mut paths = paths(true);
        let direct = paths.add(T0, new_path(0), None);
        manager.on_candidate(T0, RelayRoute(7));
        assert!(!manager.report(T0, (&paths, true), None, None));
        assert_eq!((manager.next_command(), manager.timeout()), (None, None));
        paths.on_validated(direct, Some(RTT));
        assert!(manager.report(T0, (&paths, false), None, None));
        assert_eq!(manager.next_command(), None, "nothing to send");
        assert!(manager.report(T0, (&paths, true), None, None));
        assert_eq!(manager.next_command(), Some(Command::Probe(RelayKey(7))));
        manager.on_answered(T0, RelayRoute(7));
        manager.on_candidate(T0, RelayRoute(8));
        assert_eq!(manager.timeout(), Some(T0 + PROBES), "the next probe");
    }

    #[test]
    fn a_relay_is_out_after_as_many_strikes_in_a_row() {
        let (mut manager, route) = (manager(), RelayRoute(7));
        assert!(!manager.on_strike(route));
        manager.on_answered(T0, route);
        assert!(!manager.on_strike(route), "an answer made up for the first");
        assert!(manager.on_strike(route));
        assert!(manager.strikes.is_empty(), "and is forgotten");
    }

    #[test]
    fn the_oldest_path_is_the_direct_one_and_trials_are_none() {
        let (mut paths, [direct, via], route) = two();
        let key = PathKey::Via(RelayKey(route.0));
        assert_eq!(key_of(&paths, direct), Some(PathKey::Direct));
        assert_eq!(key_of(&paths, via), Some(key));
        let Some(Event::Timeout { path, window }) = Manager::timeout_on(&paths, via) else {
            panic!("nothing to say");
        };
        assert_eq!((path, window), (key, paths.window(via)));
        let (mut routes, all) = granted(&[local(1, "if")], &[relay(2)]);
        let trial = begin(&mut paths, &mut routes, (all[0], 2), PathTransport::Trial);
        assert_eq!(Manager::timeout_on(&paths, trial), None);
        paths.close(T0, direct);
        assert_eq!(key_of(&paths, via), Some(PathKey::Direct));
    }

    #[test]
    fn a_loss_is_told_once_with_the_window_before_it() {
        let (mut paths, [direct, via], route) = two();
        let mut manager = manager();
        assert_eq!(
            manager.observe(&paths, direct, 9.0, false),
            Some((None, None)),
            "it begins"
        );
        manager.report(T0, (&paths, true), None, None);
        assert_eq!(manager.observe(&paths, direct, 9.0, false), None);
        for (index, path, about) in [
            (direct, PathKey::Direct, None),
            (via, PathKey::Via(RelayKey(route.0)), Some(via)),
        ] {
            exchange(T0 + RTT, &mut paths, index, 10, 4);
            let event = Event::Loss { path, window: 9.0 };
            let told = manager.observe(&paths, index, 9.0, true);
            assert_eq!(told, Some((about, Some(event))));
            let told = manager.observe(&paths, index, 9.0, true);
            assert_eq!(told, Some((about, None)), "more packets of the same loss");
        }
        paths.close(T0, via);
        assert_eq!(manager.observe(&paths, via, 9.0, true), None);
    }

    #[test]
    fn what_a_path_delivers_counts_once_and_closed_paths_are_forgotten() {
        let (mut paths, [_, via], _) = two();
        let mut manager = manager();
        exchange(T0 + RTT, &mut paths, via, 4, 4);
        manager.report(T0, (&paths, true), None, None);
        let reported = |manager: &Manager| manager.reported.get(&PathId(1)).map(|r| r.bytes);
        assert_eq!(reported(&manager), Some(4800));
        paths.close(T0, via);
        manager.report(T0, (&paths, true), None, None);
        assert_eq!(reported(&manager), None);
    }
}
