//! Sessions that use so many of their relays at a time, over a virtual network: the overlay paper's
//! path selection, live.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{MS, mbps};
use manyway_control::rate_control::{Choice, LiveConfig, Reselection, SelectConfig};
use manyway_fluid::optimum::over_relays;
use manyway_session::{
    Config, Event, PathDownReason, PathEvent, PathState, PickReason, RelayAccess, RelayAddress,
    Secrets, SelectionStats,
};
use manyway_simulate::stack::{Node, RelayHost, SessionHost, Source, TrafficConfig};
use manyway_simulate::{HostId, LinkId, Route, World};
use manyway_units::{Rate, Time};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

const SECOND: Duration = Duration::from_secs(1);

/// Sources that send to one receiver through relays, each of which has a link to it: the paper's
/// single-receiver setting, limited by the second hop.
struct Spec<'a> {
    seed: u64,
    /// Of the relays, Mbps.
    relays: &'a [f64],
    /// Of each source's direct path, Mbps; without one it is found at the first two relays.
    direct: Option<f64>,
    /// How each source chooses, and how much it sends at most (Mbps).
    sources: &'a [(LiveConfig, Option<f64>)],
    /// Bytes to send; without end if there are none.
    bytes: Option<u64>,
}

struct Fleet {
    world: World<Node>,
    clients: Vec<HostId>,
    server: HostId,
    relays: Vec<HostId>,
}

fn at(kind: u8, n: usize) -> SocketAddr {
    SocketAddr::from(([10, kind, 0, n as u8 + 1], 4433))
}

/// Iterations of 4 s rather than 10: round trips are short.
fn picking(paths: usize, reselection: Reselection, demand: Option<f64>) -> LiveConfig {
    let select = SelectConfig::new(paths).with_reselection(reselection);
    let mut config = LiveConfig::new(select, demand.map(|mbps| mbps * 1e6 / 8.0));
    (config.settle, config.judge) = (2 * SECOND, 2 * SECOND);
    config
}

fn session(world: &mut World<Node>, host: HostId) -> &mut SessionHost {
    match world.host_mut(host) {
        Node::Session(session) => session,
        Node::Relay(_) => panic!("a relay"),
    }
}

impl Fleet {
    /// A world in which all are connected and every source has been offered every relay.
    fn new(spec: &Spec<'_>) -> Self {
        let mut world: World<Node> = World::new(spec.seed);
        let server = SessionHost::new(Config::default(), spec.seed, TrafficConfig::default());
        let server = world.add_host(Node::Session(server.unwrap()));
        let socket = world.add_socket(server, at(0, 0));
        let now = world.now();
        session(&mut world, server).add_local(now, socket, "eth0", at(0, 0), None);
        let mut hosts: Vec<RelayHost> = (0..spec.relays.len() as u64)
            .map(|n| RelayHost::new(spec.seed ^ 0x100 ^ (n << 16)))
            .collect();
        let access: Vec<Vec<RelayAccess>> = spec
            .sources
            .iter()
            .map(|_| {
                let relays = hosts.iter_mut().enumerate();
                relays.map(|(n, relay)| relay.access(at(2, n))).collect()
            })
            .collect();
        let relays: Vec<HostId> = hosts
            .into_iter()
            .enumerate()
            .map(|(n, relay)| {
                let host = world.add_host(Node::Relay(relay));
                world.add_socket(host, at(2, n));
                let link = mbps(spec.relays[n], 10);
                connect(&mut world, [at(2, n), at(0, 0)], Some(link));
                host
            })
            .collect();
        let mut clients = Vec::new();
        for (n, (selection, limit)) in spec.sources.iter().enumerate() {
            let config = Config {
                selection: Some(*selection),
                limit: limit.map(Rate::from_mbps),
                ..Config::default()
            };
            let traffic = TrafficConfig {
                sources: vec![Source { bytes: spec.bytes }],
                ..TrafficConfig::default()
            };
            let seed = spec.seed ^ (0x1000 * (n as u64 + 1));
            let client = SessionHost::new(config, seed, traffic).unwrap();
            let client = world.add_host(Node::Session(client));
            let socket = world.add_socket(client, at(1, n));
            session(&mut world, client).add_local(now, socket, "eth0", at(1, n), None);
            if let Some(rate) = spec.direct {
                connect(&mut world, [at(1, n), at(0, 0)], Some(mbps(rate, 10)));
            }
            (0..relays.len()).for_each(|relay| connect(&mut world, [at(1, n), at(2, relay)], None));
            clients.push(client);
        }
        let secrets = Secrets::generate(&mut ChaCha20Rng::seed_from_u64(spec.seed));
        let mut ticket = secrets.ticket(vec![at(0, 0)]);
        let listener = session(&mut world, server);
        listener.listen(secrets);
        if spec.direct.is_none() {
            let named: Vec<RelayAddress> = access[0][..2].iter().map(|a| a.relay).collect();
            ticket.relays = named.iter().map(|r| (r.address, r.id)).collect();
            let endpoint = listener.endpoint_mut();
            endpoint.listen_at(Time::ZERO, ticket.id, &named);
            // The names have to be known before somebody asks for them.
            world.run_until(Time::from_millis(1000));
        }
        let now = world.now();
        for (&client, access) in clients.iter().zip(&access) {
            let endpoint = session(&mut world, client).endpoint_mut();
            endpoint.connect_through(now, &ticket, access).unwrap();
        }
        let mut fleet = Self {
            world,
            clients,
            server,
            relays,
        };
        fleet.run_for(SECOND);
        let now = fleet.world.now();
        for (n, access) in access.iter().enumerate() {
            let client = fleet.client(n);
            let handle = client.traffic().connection().expect("connected");
            let connection = client.endpoint_mut().connection(handle).unwrap();
            connection.add_relays(now, access);
        }
        fleet
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.world.now() + time;
        self.world.run_until(until);
    }

    fn client(&mut self, n: usize) -> &mut SessionHost {
        session(&mut self.world, self.clients[n])
    }

    fn selection(&mut self, n: usize) -> SelectionStats {
        let stats = self.client(n).stats().expect("a connection");
        stats.selection.expect("a selection")
    }

    /// The relays that a source has picked.
    fn picked(&mut self, n: usize) -> BTreeSet<usize> {
        let picked = self.selection(n).relays;
        let index = |address: &SocketAddr| (0..self.relays.len()).find(|&n| at(2, n) == *address);
        picked.iter().filter_map(index).collect()
    }

    /// Paths through relays that aren't closed, by relay.
    fn open(&mut self, n: usize) -> Vec<SocketAddr> {
        let paths = self.client(n).stats().expect("a connection").paths;
        let open = paths
            .iter()
            .filter(|p| p.relay && p.state != PathState::Closed);
        open.map(|p| p.remote).collect()
    }

    /// Lets time go by in steps of 100 ms while `go_on` says so; each time looks whether somebody
    /// uses more relays than he wants, or one twice.
    fn watch(&mut self, limit: Duration, mut go_on: impl FnMut(&mut Self) -> bool) {
        let until = self.world.now() + limit;
        while self.world.now() < until && go_on(self) {
            self.run_for(100 * MS);
            for n in 0..self.clients.len() {
                let (open, wanted) = (self.open(n), self.selection(n).wanted);
                let different: BTreeSet<SocketAddr> = open.iter().copied().collect();
                assert_eq!(different.len(), open.len(), "one twice: {open:?}");
                assert!(open.len() <= wanted, "{open:?} of {wanted}");
            }
        }
    }

    fn all_satisfied(&mut self) -> bool {
        (0..self.clients.len()).all(|n| self.selection(n).satisfied == Some(true))
    }

    fn kill(&mut self, relay: usize) {
        match self.world.host_mut(self.relays[relay]) {
            Node::Relay(relay) => relay.kill(),
            Node::Session(_) => panic!("an end"),
        }
    }

    fn received(&mut self) -> u64 {
        let streams = session(&mut self.world, self.server).traffic().received();
        let bytes = streams.map(|stream| {
            assert_eq!(stream.mismatch, None);
            stream.bytes
        });
        bytes.sum()
    }

    fn events(&mut self, n: usize) -> Vec<Event> {
        let log = self.client(n).traffic().log();
        log.iter().map(|(_, event)| event.clone()).collect()
    }
}

/// A way both ways, over a link in each direction if there is one.
fn connect(
    world: &mut World<Node>,
    [from, to]: [SocketAddr; 2],
    link: Option<manyway_network::LinkConfig>,
) {
    for (from, to) in [(from, to), (to, from)] {
        let link: Option<LinkId> = link.clone().map(|link| world.add_link(link).unwrap());
        let route = Route {
            links: link.into_iter().collect(),
            ..Route::default()
        };
        world.add_route(from, to, route);
    }
}

/// Six relays, of which two have the bandwidth, and a demand that only these two satisfy together.
/// An iteration of k-reselection finds them with a probability of 1/15: that 150 in a row don't has
/// one of 3e-5. By 1-reselection a good one stays, and the other is found with 1/4 each time.
#[test]
fn both_reselections_find_the_relays_that_satisfy_and_keep_them() {
    for (reselection, most) in [(Reselection::All, 150), (Reselection::Slowest, 60)] {
        for seed in 1..=4 {
            let mut fleet = Fleet::new(&Spec {
                seed,
                relays: &[0.4, 0.4, 4.0, 0.4, 4.0, 0.4],
                direct: Some(0.4),
                sources: &[(picking(2, reselection, Some(6.0)), Some(6.0))],
                bytes: None,
            });
            fleet.watch(most * 5 * SECOND, |fleet| !fleet.all_satisfied());
            let found = fleet.selection(0);
            assert_eq!(
                fleet.picked(0),
                BTreeSet::from([2, 4]),
                "{reselection:?} {seed} {found:?}"
            );
            assert!(found.reselections <= most.into(), "{found:?}");
            // Picked once, and again for want of rate alone.
            let events = fleet.events(0);
            let reasons = events.iter().filter_map(|event| match event {
                Event::Path(PathEvent::RelaysPicked { reason, .. }) => Some(*reason),
                _ => None,
            });
            let reasons: Vec<PickReason> = reasons.collect();
            assert_eq!(reasons[0], PickReason::First);
            for reason in &reasons[1..] {
                let PickReason::Unsatisfied { rate, demand } = *reason else {
                    panic!("{reason:?}");
                };
                assert_eq!(demand, 6_000_000);
                assert!(rate < 5_700_000, "{rate}");
            }
            let downs = events.iter().filter_map(|event| match event {
                Event::Path(PathEvent::Down { reason, remote, .. }) if *remote != at(0, 0) => {
                    Some(*reason)
                }
                _ => None,
            });
            // A slow one may stall for a moment when it is filled.
            let expected = [PathDownReason::Reselected, PathDownReason::Stalled];
            assert!(downs.into_iter().all(|reason| expected.contains(&reason)));
            // Satisfied, it stays with them.
            fleet.watch(100 * SECOND, |_| true);
            let later = fleet.selection(0);
            assert_eq!(later.reselections, found.reselections);
            assert!(later.iterations >= found.iterations + 20, "{later:?}");
            fleet.received();
        }
    }
}

#[test]
fn in_proportion_to_what_they_carried_they_are_found_too() {
    for seed in 1..=4 {
        let mut config = picking(2, Reselection::Slowest, Some(6.0));
        let proportional = Choice::Proportional { error: 0.0 };
        config.select = config.select.with_choice(proportional);
        let mut fleet = Fleet::new(&Spec {
            seed,
            relays: &[0.4, 0.4, 4.0, 0.4, 4.0, 0.4],
            direct: Some(0.4),
            sources: &[(config, Some(6.0))],
            bytes: None,
        });
        fleet.watch(300 * SECOND, |fleet| !fleet.all_satisfied());
        assert_eq!(fleet.picked(0), BTreeSet::from([2, 4]), "{seed}");
    }
}

#[test]
fn a_relay_that_dies_is_replaced_and_nothing_is_lost() {
    for seed in 1..=4 {
        let bytes = 12 << 20;
        let mut fleet = Fleet::new(&Spec {
            seed,
            relays: &[4.0; 4],
            direct: Some(1.0),
            sources: &[(picking(2, Reselection::All, None), None)],
            bytes: Some(bytes),
        });
        fleet.run_for(4 * SECOND);
        let first = fleet.picked(0);
        assert_eq!((first.len(), fleet.open(0).len()), (2, 2), "{seed}");
        let dead = *first.first().unwrap();
        fleet.kill(dead);
        // A probe timeout, of a path that has its queue full of its own packets, and a second of
        // patience.
        fleet.watch(4 * SECOND, |fleet| fleet.picked(0).contains(&dead));
        let second = fleet.picked(0);
        assert!(
            !second.contains(&dead) && second.len() == 2,
            "{seed} {second:?}"
        );
        assert_eq!(
            second.intersection(&first).count(),
            1,
            "the other one stays"
        );
        fleet.watch(60 * SECOND, |fleet| fleet.received() < bytes);
        assert_eq!(fleet.received(), bytes);
        // Without a demand nothing else is a reason.
        assert_eq!(fleet.selection(0).iterations, 0);
        assert_eq!(fleet.picked(0), second);
    }
}

#[test]
fn with_too_few_that_live_it_goes_on_and_says_so_once() {
    let mut fleet = Fleet::new(&Spec {
        seed: 1,
        relays: &[2.0; 4],
        direct: Some(1.0),
        sources: &[(picking(3, Reselection::All, Some(100.0)), None)],
        bytes: None,
    });
    fleet.run_for(4 * SECOND);
    assert_eq!(fleet.picked(0).len(), 3);
    fleet.kill(0);
    fleet.kill(1);
    fleet.watch(90 * SECOND, |_| true);
    let few = |event: &Event| {
        matches!(
            event,
            Event::Path(PathEvent::FewRelays {
                alive: 2,
                known: 4,
                wanted: 3
            })
        )
    };
    let told = fleet.events(0);
    assert_eq!(
        told.iter().filter(|event| few(event)).count(),
        1,
        "{told:?}"
    );
    assert!(
        told.contains(&Event::Path(PathEvent::MoreRelays)),
        "others would be welcome"
    );
    assert!(fleet.picked(0).is_superset(&BTreeSet::from([2, 3])));
    let before = fleet.received();
    fleet.run_for(10 * SECOND);
    // 5 Mbps for 10 s are 6.25 MB, headers included; one of those that live always carries.
    assert!(fleet.received() - before > 3_000_000);
}

/// Nobody can reach the receiver but through relays, and what there is never satisfies: whatever is
/// picked anew, data flows on.
#[test]
fn without_a_direct_path_what_is_picked_anew_takes_over_before_what_was_is_closed() {
    for seed in 1..=4 {
        for reselection in [Reselection::All, Reselection::Slowest] {
            let mut fleet = Fleet::new(&Spec {
                seed,
                relays: &[2.0; 5],
                direct: None,
                sources: &[(picking(2, reselection, Some(100.0)), None)],
                bytes: None,
            });
            fleet.run_for(5 * SECOND);
            for _ in 0..60 {
                let before = fleet.received();
                fleet.run_for(SECOND);
                assert!(fleet.received() > before, "{seed} {reselection:?}");
                assert!(fleet.picked(0).len() == 2);
            }
            assert!(fleet.selection(0).reselections > 8);
            let closed = fleet
                .events(0)
                .iter()
                .any(|e| matches!(e, Event::Closed(_)));
            assert!(!closed);
        }
    }
}

/// Six sources with different demands share six relays: they choose until all are satisfied, and
/// that is a selection for which the linear programme says that it is possible.
#[test]
fn sources_with_different_demands_end_satisfied_where_that_is_possible() {
    let relays = [6.0, 4.0, 3.0, 2.0, 1.0, 1.0];
    let demands = [4.0, 2.0, 1.5, 1.0, 1.0, 0.5];
    for (seed, reselection) in [
        (1, Reselection::All),
        (2, Reselection::All),
        (3, Reselection::Slowest),
        (4, Reselection::Slowest),
    ] {
        let source = |&demand: &f64| (picking(2, reselection, Some(demand)), Some(demand));
        let sources: Vec<_> = demands.iter().map(source).collect();
        let mut fleet = Fleet::new(&Spec {
            seed,
            relays: &relays,
            direct: Some(0.05),
            sources: &sources,
            bytes: None,
        });
        // All at the same time, and in the iteration after that as well.
        let mut since = None;
        fleet.watch(1500 * SECOND, |fleet| {
            let now = fleet.world.now();
            match fleet.all_satisfied() {
                true => now.since(*since.get_or_insert(now)) < 6 * SECOND,
                false => {
                    since = None;
                    true
                }
            }
        });
        assert!(fleet.all_satisfied(), "{seed} {reselection:?}");
        let selection: Vec<Vec<usize>> = (0..demands.len())
            .map(|n| fleet.picked(n).into_iter().collect())
            .collect();
        let best = over_relays(&relays, &demands, &selection).unwrap();
        let (best, wanted): (f64, f64) = (best.rates.iter().sum(), demands.iter().sum());
        assert!(
            best > 0.95 * wanted,
            "{seed}: {best} of {wanted}: {selection:?}"
        );
    }
}
