//! Records what came of each socket's packets to each peer address, to explain why a path fails.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_session::LocalId;
use manyway_units::Time;

use crate::interfaces::Place;
use crate::problem::{PathProblem, ProblemKind, foresee};

/// A pair gets this long to come up before it needs an explanation.
const PATIENCE: Duration = Duration::from_millis(900);
/// A pair that nothing came of for this long is silent.
const SILENCE: Duration = Duration::from_secs(3);
/// A pair that nothing was sent to for this long is of no interest.
const RECENT: Duration = Duration::from_secs(4);
/// Pairs are forgotten after this long.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Pairs kept; a peer names at most 32 addresses, so this is plenty for many connections.
const MAX_PAIRS: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Reachability {
    pairs: BTreeMap<(LocalId, SocketAddr), PairState>,
    /// Problems already reported: one is reported again only after it has changed.
    told: BTreeMap<LocalId, ProblemKind>,
    /// Sockets that a path has worked from: their silence is an outage.
    worked: BTreeSet<LocalId>,
}

#[derive(Debug)]
struct PairState {
    first: Time,
    last: Time,
    /// What the system said when we sent, and since when.
    error: Option<(Time, ProblemKind)>,
}

impl Reachability {
    /// Something is sent.
    pub(super) fn on_send(&mut self, now: Time, local: LocalId, remote: SocketAddr) {
        if let Some(pair) = self.pairs.get_mut(&(local, remote)) {
            pair.last = now;
        } else if self.pairs.len() < MAX_PAIRS {
            self.pairs.insert(
                (local, remote),
                PairState {
                    first: now,
                    last: now,
                    error: None,
                },
            );
        }
    }

    /// It was sent after all: what the system said before doesn't hold any more. What the peer's
    /// host says does.
    pub(super) fn on_sent(&mut self, local: LocalId, remote: SocketAddr) {
        if let Some(pair) = self.pairs.get_mut(&(local, remote))
            && !matches!(pair.error, None | Some((_, ProblemKind::Refused)))
        {
            pair.error = None;
            // Silence counts from now on.
            pair.first = pair.last;
        }
    }

    /// It wasn't sent.
    pub(super) fn on_error(
        &mut self,
        now: Time,
        local: LocalId,
        remote: SocketAddr,
        kind: ProblemKind,
    ) {
        if let Some(pair) = self.pairs.get_mut(&(local, remote)) {
            pair.error = match pair.error.take() {
                Some((since, known)) if known == kind => Some((since, kind)),
                _ => Some((now, kind)),
            };
        }
    }

    /// A host said that nobody listens there.
    pub(super) fn on_refusal(&mut self, now: Time, local: LocalId, host: IpAddr) {
        let pairs = self
            .pairs
            .iter_mut()
            .filter(|((l, remote), _)| *l == local && remote.ip() == host);
        for (_, pair) in pairs {
            pair.error.get_or_insert((now, ProblemKind::Refused));
        }
    }

    /// A socket is gone.
    pub(super) fn forget(&mut self, local: LocalId) {
        self.pairs.retain(|(l, _), _| *l != local);
        self.told.remove(&local);
        self.worked.remove(&local);
    }

    /// The problems of sockets, one for each, unless it was told before. `working` has the names of
    /// interfaces that a path works from.
    pub(super) fn news(
        &mut self,
        now: Time,
        places: &BTreeMap<LocalId, &Place>,
        working: &BTreeSet<String>,
    ) -> Vec<PathProblem> {
        self.pairs
            .retain(|_, pair| now.since(pair.last) < FORGOTTEN);
        let mut news = Vec::new();
        for (&local, &place) in places {
            // With IPv4 at work, an interface needs no IPv6.
            if working.contains(&place.name()) {
                self.worked.insert(local);
                self.told.remove(&local);
                continue;
            }
            // A device that has just gone loses its routes a moment before it loses its socket.
            let passing = |pair: &PairState| match pair.error {
                Some((since, ProblemKind::NoRoute | ProblemKind::Rejected)) => {
                    now.since(since) < PATIENCE
                }
                _ => now.since(pair.first) < PATIENCE,
            };
            let recent = |pair: &PairState| now.since(pair.last) < RECENT && !passing(pair);
            let mut pairs = self.pairs.range(of(local)).filter(|(_, pair)| recent(pair));
            let explained = pairs
                .clone()
                .find_map(|(&(_, remote), pair)| explain(place, remote, pair));
            // Silence says something about an interface if another one has an answer.
            let silent = |pair: &PairState| {
                now.since(pair.first) >= SILENCE
                    && !working.is_empty()
                    && !self.worked.contains(&local)
            };
            let problem = explained.or_else(|| {
                let (&(_, remote), _) = pairs.find(|(_, pair)| silent(pair))?;
                Some(PathProblem::new(place, remote, ProblemKind::Silent))
            });
            let Some(problem) = problem else {
                continue;
            };
            if self.told.insert(local, problem.kind.clone()).as_ref() != Some(&problem.kind) {
                news.push(problem);
            }
        }
        news
    }

    /// Every known problem on the way to these addresses.
    pub(super) fn problems(
        &self,
        places: &BTreeMap<LocalId, &Place>,
        addresses: &[SocketAddr],
    ) -> Vec<PathProblem> {
        let pairs = self
            .pairs
            .iter()
            .filter(|((_, remote), _)| addresses.contains(remote));
        let explained =
            pairs.filter_map(|(&(local, remote), pair)| explain(places.get(&local)?, remote, pair));
        explained.collect()
    }
}

fn of(local: LocalId) -> std::ops::RangeInclusive<(LocalId, SocketAddr)> {
    let least: SocketAddr = ([0, 0, 0, 0], 0).into();
    let most: SocketAddr = ([0xffff; 8], u16::MAX).into();
    (local, least)..=(local, most)
}

/// What the system said, else what its tables say.
fn explain(place: &Place, remote: SocketAddr, pair: &PairState) -> Option<PathProblem> {
    let said = pair.error.as_ref().map(|(_, kind)| kind.clone());
    let kind = match said {
        // Who tells of a missing route, this host's table or somebody on the way?
        Some(ProblemKind::NoRoute | ProblemKind::Rejected) => {
            foresee(place, remote.ip()).unwrap_or(ProblemKind::Rejected)
        }
        Some(kind) => kind,
        None => foresee(place, remote.ip())?,
    };
    Some(PathProblem::new(place, remote, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_once_until_a_path_works() {
        let place = Place {
            ip: "127.0.0.1".parse().unwrap(),
            device: None,
        };
        let local = LocalId(3);
        let places = BTreeMap::from([(local, &place)]);
        let remote: SocketAddr = "127.0.0.9:7".parse().unwrap();
        let (none, all) = (BTreeSet::new(), BTreeSet::from([place.name()]));
        let mut reachability = Reachability::default();
        let mut now = Time::from_millis(10);
        reachability.on_send(now, local, remote);
        reachability.on_error(now, local, remote, ProblemKind::Forbidden);
        assert!(
            reachability.news(now, &places, &none).is_empty(),
            "it may yet come up"
        );
        now += Duration::from_secs(1);
        let told = reachability.news(now, &places, &none);
        assert_eq!(
            (told.len(), &told[0].kind, told[0].remote),
            (1, &ProblemKind::Forbidden, remote)
        );
        assert!(
            reachability.news(now, &places, &none).is_empty(),
            "told before"
        );
        assert!(reachability.news(now, &places, &all).is_empty(), "it works");
        assert_eq!(
            reachability.news(now, &places, &none).len(),
            1,
            "it broke again"
        );
        assert_eq!(reachability.problems(&places, &[remote]).len(), 1);
        reachability.on_sent(local, remote);
        assert!(
            reachability.problems(&places, &[remote]).is_empty(),
            "it was sent"
        );
        // A route that is missing for a moment is no news.
        reachability.on_send(now, local, remote);
        reachability.on_error(now, local, remote, ProblemKind::NoRoute);
        assert!(reachability.news(now, &places, &none).is_empty());
        now += Duration::from_millis(500);
        reachability.on_error(now, local, remote, ProblemKind::NoRoute);
        now += Duration::from_millis(500);
        assert_eq!(
            reachability.news(now, &places, &none)[0].kind,
            // This host's table has one.
            ProblemKind::Rejected
        );
        assert!(
            reachability
                .problems(&places, &["127.0.0.9:8".parse().unwrap()])
                .is_empty()
        );
        now += FORGOTTEN;
        assert!(reachability.news(now, &places, &none).is_empty());
        assert!(reachability.pairs.is_empty());
    }

    #[test]
    fn silence_counts_where_another_interface_has_an_answer() {
        let place = Place {
            ip: "127.0.0.1".parse().unwrap(),
            device: None,
        };
        let places = BTreeMap::from([(LocalId(1), &place)]);
        let (none, other) = (BTreeSet::new(), BTreeSet::from(["eth0".to_owned()]));
        let mut reachability = Reachability::default();
        let remote: SocketAddr = "127.0.0.2:5".parse().unwrap();
        let mut now = Time::ZERO;
        reachability.on_send(now, LocalId(1), remote);
        now += SILENCE;
        reachability.on_send(now, LocalId(1), remote);
        assert!(reachability.news(now, &places, &none).is_empty());
        let told = reachability.news(now, &places, &other);
        assert_eq!(told[0].kind, ProblemKind::Silent);
        assert!(reachability.problems(&places, &[remote]).is_empty());
        // One that has worked before has an outage.
        let own = BTreeSet::from([place.name()]);
        assert!(reachability.news(now, &places, &own).is_empty());
        assert!(reachability.news(now, &places, &other).is_empty());
    }

    /// What couldn't be sent had no answer, which says nothing.
    #[test]
    fn silence_begins_when_something_leaves() {
        let place = Place {
            ip: "127.0.0.1".parse().unwrap(),
            device: None,
        };
        let places = BTreeMap::from([(LocalId(1), &place)]);
        let other = BTreeSet::from(["eth0".to_owned()]);
        let mut reachability = Reachability::default();
        let remote: SocketAddr = "127.0.0.2:5".parse().unwrap();
        let mut now = Time::ZERO;
        reachability.on_send(now, LocalId(1), remote);
        reachability.on_error(now, LocalId(1), remote, ProblemKind::Forbidden);
        now += 2 * SILENCE;
        reachability.on_send(now, LocalId(1), remote);
        reachability.on_sent(LocalId(1), remote);
        assert!(reachability.news(now, &places, &other).is_empty());
        now += SILENCE;
        reachability.on_send(now, LocalId(1), remote);
        let told = reachability.news(now, &places, &other);
        assert_eq!(told[0].kind, ProblemKind::Silent);
    }

    #[test]
    fn a_refusal_explains_the_hosts_pairs_and_is_no_flood() {
        let place = Place {
            ip: "127.0.0.1".parse().unwrap(),
            device: None,
        };
        let places = BTreeMap::from([(LocalId(1), &place)]);
        let mut reachability = Reachability::default();
        for port in 0..10_000 {
            reachability.on_send(Time::ZERO, LocalId(1), ([127, 0, 0, 2], port).into());
        }
        assert_eq!(reachability.pairs.len(), MAX_PAIRS);
        let refused: SocketAddr = ([127, 0, 0, 2], 5).into();
        reachability.on_refusal(Time::ZERO, LocalId(1), "127.0.0.3".parse().unwrap());
        assert!(reachability.problems(&places, &[refused]).is_empty());
        reachability.on_refusal(Time::ZERO, LocalId(1), refused.ip());
        assert_eq!(
            reachability.problems(&places, &[refused])[0].kind,
            ProblemKind::Refused
        );
        reachability.forget(LocalId(1));
        assert!(reachability.pairs.is_empty());
    }
}
