//! The initiator's routes through relays: which have grants, which carry a path, and when one that
//! failed may be tried again.
//!
//! It owns the relay client and one record for each route with grants. It looks at paths to say how
//! a route does, and never opens or closes one.

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_control::rate_control::Liveness;
use manyway_units::{Backoff, Time};
use manyway_wire::PathId;
use manyway_wire::relay::Grant;

use crate::driver::Local;
use crate::relays::{RelayAddress, RelayClient, RelayId, RelayRoute};
use crate::stats::{RelayState, RelayStats};

use super::super::paths::{Path, PathSet, PathTransport, RelayHeader};

/// A route whose path failed gets another one after this long.
const RETRY: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));
/// Without room for a path or a valid grant, the route is looked at again after this long.
const PUT_OFF: Duration = Duration::from_millis(500);

/// All that an initiator knows of routes.
#[derive(Debug)]
pub(super) struct Routes {
    pub(super) client: RelayClient,
    /// Those with grants.
    granted: BTreeMap<RelayRoute, GrantedRoute>,
    /// Counts GRANT frames.
    grants: u64,
    wake: Option<Time>,
}

/// A route with grants.
#[derive(Debug, Default)]
struct GrantedRoute {
    path: Option<PathId>,
    failures: u32,
    retry_at: Time,
    /// The relay is leaving, or is said to be: nothing new is begun there.
    leaving: bool,
    /// The path manager was told that it is gone.
    forgotten: bool,
    /// It really leaves.
    left: bool,
    /// Its last path failed, and the relay hasn't been heard since.
    failed: bool,
    /// The round-trip time that a trial or a path has found.
    rtt: Option<Duration>,
}

/// What a path on a route starts from.
pub(super) struct RouteStart {
    pub(super) local: Local,
    pub(super) relay: std::net::SocketAddr,
    pub(super) header: RelayHeader,
    pub(super) rtt: Option<Duration>,
    /// The relay is leaving: the path carries data only for want of a better one.
    pub(super) leaving: bool,
}

impl GrantedRoute {
    /// Whether a path there may be begun: after a failure, only when it is over and the relay has
    /// been heard since.
    fn is_fit(&self, now: Time) -> bool {
        !self.leaving && !self.failed && (self.failures == 0 || self.retry_at <= now)
    }

    /// Whether it waits for a path.
    fn is_vacant(&self) -> bool {
        !self.leaving && self.path.is_none()
    }
}

impl Routes {
    pub(super) fn new(client: RelayClient) -> Self {
        Self {
            client,
            granted: BTreeMap::new(),
            grants: 0,
            wake: None,
        }
    }

    pub(super) fn timeout(&self) -> Option<Time> {
        [self.client.timeout(), self.wake]
            .into_iter()
            .flatten()
            .min()
    }

    /// When something other than the client's requests is due: a path manager says so itself.
    pub(super) fn wake_at(&mut self, at: Option<Time>) {
        self.wake = at;
    }

    /// When a route without a path may have one again.
    pub(super) fn retry(&self, now: Time) -> Option<Time> {
        let waiting = self.granted.values().filter(|route| route.is_vacant());
        waiting
            .map(|route| route.retry_at)
            .filter(|at| *at > now)
            .min()
    }

    /// Routes that wait for a path, and have waited long enough.
    pub(super) fn due(&self, now: Time) -> Vec<RelayRoute> {
        let due = |known: &GrantedRoute| known.is_vacant() && known.retry_at <= now;
        let routes = self.granted.iter().filter(|(_, known)| due(known));
        routes.map(|(&route, _)| route).collect()
    }

    // What becomes of a route.

    /// The route has grants.
    pub(super) fn on_granted(&mut self, route: RelayRoute) {
        self.granted.entry(route).or_default();
    }

    /// The relay has given newer grants: it is heard.
    pub(super) fn on_renewed(&mut self, route: RelayRoute) {
        if let Some(known) = self.granted.get_mut(&route) {
            known.failed = false;
        }
    }

    /// The relay tells senders to go elsewhere.
    pub(super) fn on_leaving(&mut self, route: RelayRoute) {
        if let Some(known) = self.granted.get_mut(&route) {
            known.leaving = true;
        }
    }

    /// It really leaves. Whether the route had grants.
    pub(super) fn on_left(&mut self, route: RelayRoute) -> bool {
        let known = self.granted.get_mut(&route);
        let is_known = known.is_some();
        if let Some(known) = known {
            known.left = true;
        }
        is_known
    }

    /// The path manager counts the route as gone.
    pub(super) fn forget(&mut self, route: RelayRoute) {
        if let Some(known) = self.granted.get_mut(&route) {
            known.forgotten = true;
        }
    }

    /// It doesn't leave. Whether the path manager counts it as gone, if the route is known.
    pub(super) fn on_stays(&mut self, route: RelayRoute) -> Option<bool> {
        let known = self.granted.get_mut(&route)?;
        (known.leaving, known.left) = (false, false);
        Some(std::mem::take(&mut known.forgotten))
    }

    /// The route is no more.
    pub(super) fn on_gone(&mut self, route: RelayRoute) {
        self.granted.remove(&route);
    }

    /// There was no room or no valid grant: no failure of the path's.
    pub(super) fn put_off(&mut self, now: Time, route: RelayRoute) {
        if let Some(known) = self.granted.get_mut(&route) {
            known.retry_at = now + PUT_OFF;
        }
    }

    // Its path.

    /// The route's path.
    pub(super) fn path(&self, route: RelayRoute) -> Option<PathId> {
        self.granted.get(&route)?.path
    }

    /// The route has this path, which was there before.
    pub(super) fn adopt(&mut self, route: RelayRoute, path: PathId) {
        self.granted.entry(route).or_default().path = Some(path);
    }

    /// Begins a path; `None` if that can't be now. What is left of a path through a relay that
    /// leaves is kept for want of a better one.
    pub(super) fn begin(
        &mut self,
        now: Time,
        route: RelayRoute,
        path: PathId,
    ) -> Option<RouteStart> {
        let taken = |known: &GrantedRoute| known.path.is_some() || known.forgotten;
        if self.granted.get(&route).is_some_and(taken) {
            return None;
        }
        let header = self.header(now, route)?;
        let (local, relay) = self.client.ends(route)?;
        let known = self.granted.entry(route).or_default();
        known.path = Some(path);
        Some(RouteStart {
            local: local.clone(),
            relay,
            header,
            rtt: known.rtt,
            leaving: known.leaving,
        })
    }

    /// What goes in front of our datagrams from now on, with a number of its own.
    pub(super) fn header(&mut self, now: Time, route: RelayRoute) -> Option<RelayHeader> {
        let grant = self.client.grants(now, route)?.there;
        self.grants += 1;
        Some(RelayHeader {
            route: Some(route),
            grant,
            seq: self.grants,
        })
    }

    /// The grant that the peer needs on a path, with the number of its frame.
    pub(super) fn grant_back(&self, now: Time, path: &Path) -> Option<(u64, Grant)> {
        let relay = path.relay()?;
        Some((relay.seq, self.back(now, relay.route?)?))
    }

    /// The grant that goes in front of the peer's datagrams.
    pub(super) fn back(&self, now: Time, route: RelayRoute) -> Option<Grant> {
        Some(self.client.grants(now, route)?.back)
    }

    /// The path works, or a trial was answered.
    pub(super) fn on_answered(&mut self, path: &Path) {
        let rtt = path.sender().rtt();
        let rtt = rtt.has_sample().then(|| rtt.smoothed());
        if let Some(known) = path.route().and_then(|r| self.granted.get_mut(&r)) {
            (known.failures, known.failed) = (0, false);
            known.rtt = rtt.or(known.rtt);
        }
    }

    /// The path is given up without a failure of the relay's.
    pub(super) fn release(&mut self, route: RelayRoute) {
        if let Some(known) = self.granted.get_mut(&route) {
            known.path = None;
        }
    }

    /// The route's path has failed. Whether it was that of the route.
    pub(super) fn on_failed(&mut self, now: Time, route: RelayRoute, path: PathId) -> bool {
        let known = self.granted.get_mut(&route);
        let Some(known) = known.filter(|known| known.path == Some(path)) else {
            return false;
        };
        known.path = None;
        known.retry_at = now + RETRY.delay(known.failures);
        known.failures += 1;
        known.failed = true;
        self.client.distrust(now, route);
        true
    }

    // What a selection has to know.

    /// How each relay does over UDP, and what access to it allows, in bytes/s.
    pub(super) fn standings(
        &self,
        now: Time,
        paths: &PathSet,
    ) -> Vec<(RelayAddress, Liveness, f64)> {
        let standing = |routes: &[RelayRoute]| {
            let each = routes.iter().map(|&route| self.standing(now, paths, route));
            each.reduce(best)
        };
        let relays = self.client.bounds().into_iter();
        // One that no socket of ours can reach is no candidate.
        relays
            .filter_map(|(relay, bound, routes)| Some((relay, standing(&routes)?, bound)))
            .collect()
    }

    fn standing(&self, now: Time, paths: &PathSet, route: RelayRoute) -> Liveness {
        let Some(known) = self.granted.get(&route) else {
            return Liveness::Unanswered;
        };
        let fine = match known.path.and_then(|id| paths.index_of(id)) {
            Some(index) => !paths[index].is_dead(now) && !known.left,
            None => self.client.grants(now, route).is_some() && known.is_fit(now),
        };
        match fine {
            true => Liveness::Alive,
            false => Liveness::Dead,
        }
    }

    /// The relay leaves, or is said to.
    pub(super) fn is_leaving(&self, route: RelayRoute) -> bool {
        self.granted.get(&route).is_some_and(|known| known.leaving)
    }

    /// The routes through a relay that lack a path: one from each interface, whatever addresses
    /// both have.
    pub(super) fn to_open(&self, now: Time, id: RelayId) -> Vec<RelayRoute> {
        let name = |route: &RelayRoute| {
            let (local, _) = self.client.ends(*route)?;
            Some(local.name.clone())
        };
        let routes = self.client.bounds().into_iter();
        let routes = routes.filter(|(relay, ..)| relay.id == id);
        let routes: Vec<RelayRoute> = routes.flat_map(|(_, _, routes)| routes).collect();
        let open = |route: &&RelayRoute| self.path(**route).is_some();
        let mut used: Vec<_> = routes.iter().filter(open).map(name).collect();
        let mut wanted = Vec::new();
        for &route in &routes {
            let fit = self.granted.get(&route).is_some_and(|known| {
                known.path.is_none() && known.is_fit(now) && known.retry_at <= now
            });
            let granted = fit && self.client.grants(now, route).is_some();
            if granted && !used.contains(&name(&route)) {
                used.push(name(&route));
                wanted.push(route);
            }
        }
        wanted
    }

    /// Every relay that was offered, as far as it hasn't been given up.
    pub(super) fn stats(&self, paths: &PathSet) -> Vec<RelayStats> {
        let state = |routes: &[RelayRoute]| {
            let known = || routes.iter().filter_map(|route| self.granted.get(route));
            let path = known()
                .filter_map(|known| paths.index_of(known.path?))
                .next();
            match path.map(|index| paths[index].transport()) {
                Some(PathTransport::Coupled) => RelayState::InUse,
                _ if known().next().is_some() => RelayState::Available,
                _ => RelayState::Waiting,
            }
        };
        let rtt = |routes: &[RelayRoute]| {
            let mut known = routes.iter().filter_map(|route| self.granted.get(route));
            known.find_map(|known| known.rtt)
        };
        let relays = self.client.relays();
        let stats = relays.map(|(relay, refused, routes)| RelayStats {
            address: relay.address,
            id: relay.id,
            state: state(&routes),
            rtt: rtt(&routes),
            refused: refused.map(|reason| reason.to_string()),
        });
        stats.collect()
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

#[cfg(test)]
mod tests {
    use super::super::super::core::tests::{address, paths};
    use super::super::fixtures::{T0, answer, begin, granted, local, relay, seconds};
    use super::*;

    const PATH: PathId = PathId(1);

    fn one() -> (Routes, RelayRoute) {
        let (routes, all) = granted(&[local(1, "if")], &[relay(1)]);
        (routes, all[0])
    }

    #[test]
    fn a_route_carries_one_path_and_rests_ever_longer_when_that_fails() {
        let (mut routes, route) = one();
        assert_eq!(routes.due(T0), [route]);
        let mut now = T0;
        for pause in [5, 10, 20, 40, 60, 60] {
            assert!(routes.begin(now, route, PATH).is_some());
            assert!(routes.begin(now, route, PathId(2)).is_none(), "it has one");
            assert!(routes.due(now).is_empty());
            assert!(!routes.on_failed(now, route, PathId(2)), "not its path");
            assert!(routes.on_failed(now, route, PATH));
            let retry = routes.retry(now).expect("it is tried again");
            assert_eq!(retry.since(now), Duration::from_secs(pause));
            now = retry;
            assert_eq!(routes.due(now), [route]);
            answer(&mut routes.client, now);
        }
    }

    #[test]
    fn a_path_that_works_makes_up_for_earlier_failures() {
        let (mut routes, route) = one();
        routes.begin(T0, route, PATH);
        routes.on_failed(T0, route, PATH);
        routes.begin(T0, route, PATH);
        routes.on_failed(T0, route, PATH);
        let mut paths = paths(true);
        let index = begin(&mut paths, &mut routes, (route, 1), PathTransport::Coupled);
        let rtt = Duration::from_millis(40);
        paths.on_validated(index, Some(rtt));
        routes.on_answered(&paths[index]);
        assert!(routes.on_failed(T0, route, PATH));
        assert_eq!(routes.retry(T0), Some(seconds(5)));
        let next = routes.begin(T0, route, PATH).expect("free");
        assert_eq!(next.rtt, Some(rtt), "what is known of the way isn't lost");
    }

    #[test]
    fn want_of_room_is_no_failure() {
        let (mut routes, route) = one();
        routes.put_off(T0, route);
        assert_eq!(routes.retry(T0), Some(T0 + PUT_OFF));
        assert!(routes.due(T0).is_empty());
        assert_eq!(routes.due(T0 + PUT_OFF), [route]);
        routes.begin(T0, route, PATH);
        routes.release(route);
        assert_eq!(routes.path(route), None);
        routes.begin(T0, route, PATH);
        routes.on_failed(T0, route, PATH);
        assert_eq!(routes.retry(T0), Some(seconds(5)), "the first one");
    }

    #[test]
    fn nothing_is_begun_at_a_relay_that_leaves() {
        let (mut routes, route) = one();
        routes.on_leaving(route);
        assert!(routes.is_leaving(route) && routes.due(T0).is_empty());
        assert!(routes.begin(T0, route, PATH).is_some_and(|s| s.leaving));
        routes.release(route);
        assert!(routes.on_left(route) && !routes.on_left(RelayRoute(99)));
        routes.forget(route);
        assert!(routes.begin(T0, route, PATH).is_none(), "nor is it asked");
        assert_eq!(routes.on_stays(route), Some(true));
        assert_eq!(routes.on_stays(route), Some(false), "told once");
        assert_eq!(
            (routes.is_leaving(route), routes.due(T0)),
            (false, vec![route])
        );
        routes.on_gone(route);
        assert_eq!((routes.on_stays(route), routes.due(T0)), (None, vec![]));
    }

    #[test]
    fn each_header_has_a_number_and_the_peer_gets_the_other_grant() {
        let (mut routes, route) = one();
        let mut paths = paths(true);
        let index = begin(&mut paths, &mut routes, (route, 1), PathTransport::Coupled);
        let first = *paths[index].relay().expect("through a relay");
        let (seq, back) = routes.grant_back(T0, &paths[index]).expect("it has grants");
        assert_eq!(seq, first.seq);
        assert_ne!(back, first.grant);
        let second = routes.header(T0, route).expect("it has grants");
        assert!(second.seq > first.seq);
        let late = seconds(119);
        assert!(routes.header(late, route).is_none(), "they have ended");
        assert!(routes.grant_back(late, &paths[index]).is_none());
    }

    #[test]
    fn a_relay_is_worth_what_its_best_route_is() {
        let locals = [local(1, "a"), local(2, "b")];
        let (mut routes, all) = granted(&locals, &[relay(1)]);
        let mut paths = paths(true);
        let how = |routes: &Routes, paths: &PathSet, now| routes.standings(now, paths)[0].1;
        assert_eq!(how(&routes, &paths, T0), Liveness::Alive, "they may begin");
        let index = begin(&mut paths, &mut routes, (all[0], 1), PathTransport::Coupled);
        routes.begin(T0, all[1], PathId(2));
        routes.on_failed(T0, all[1], PathId(2));
        assert_eq!(how(&routes, &paths, T0), Liveness::Alive, "one has a path");
        assert_eq!(routes.stats(&paths)[0].state, RelayState::InUse);
        paths.stall(T0, index);
        assert_eq!(
            how(&routes, &paths, T0),
            Liveness::Alive,
            "not for long yet"
        );
        assert_eq!(how(&routes, &paths, seconds(1)), Liveness::Dead);
        routes.on_renewed(all[1]);
        assert_eq!(how(&routes, &paths, seconds(1)), Liveness::Dead, "it rests");
        assert_eq!(how(&routes, &paths, seconds(5)), Liveness::Alive);
        routes.on_gone(all[0]);
        routes.on_gone(all[1]);
        assert_eq!(how(&routes, &paths, T0), Liveness::Unanswered);
        assert_eq!(routes.stats(&paths)[0].state, RelayState::Waiting);
    }

    #[test]
    fn a_chosen_relay_gets_a_path_from_each_interface() {
        let locals = [local(1, "a"), local(2, "a"), local(3, "b")];
        let (mut routes, all) = granted(&locals, &[relay(1), relay(2)]);
        let id = relay(1).relay.id;
        let wanted = routes.to_open(T0, id);
        assert_eq!(wanted, [all[0], all[2]], "one of a's sockets is enough");
        routes.begin(T0, all[0], PATH);
        assert_eq!(routes.to_open(T0, id), [all[2]]);
        routes.on_failed(T0, all[0], PATH);
        let heard = |routes: &mut Routes| routes.on_renewed(all[0]);
        assert_eq!(
            routes.to_open(seconds(5), id),
            [all[1], all[2]],
            "silent so far"
        );
        heard(&mut routes);
        assert_eq!(routes.to_open(seconds(4), id), [all[1], all[2]], "too soon");
        assert_eq!(routes.to_open(seconds(5), id), [all[0], all[2]]);
        assert!(routes.to_open(T0, RelayId([9; 32])).is_empty());
    }

    #[test]
    fn a_trial_makes_a_relay_available_and_not_used() {
        let (mut routes, route) = one();
        let mut paths = paths(true);
        begin(&mut paths, &mut routes, (route, 1), PathTransport::Trial);
        let stats = routes.stats(&paths);
        assert_eq!(
            (stats[0].address, stats[0].state),
            (address(1), RelayState::Available)
        );
    }
}
