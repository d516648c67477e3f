//! Sessions through production relays, over a virtual network: every byte once and in order
//! whatever a relay does.

mod draining;
mod first_contact;
mod sharing;

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{MS, mbps};
use manyway_network::{Limit, LinkConfig, Queue};
use manyway_session::{Config, Event, PathDownReason, PathEvent, PathState, PathStats, RelayState};
use manyway_simulate::stack::{Mischief, Node, Relayed, RelayedSpec, Source, TrafficConfig};
use manyway_simulate::{Route, SocketId};
use manyway_units::{Rate, Time};

/// A direct path over a link of its own, and a relay per further pair of links.
fn net(seed: u64, law: &str, bytes: u64, links: &[LinkConfig]) -> Relayed {
    let config = Config {
        cc: law.parse().unwrap(),
        ..Config::default()
    };
    let relays = (1..links.len()).map(|n| [vec![n], vec![]]).collect();
    Relayed::new(RelayedSpec {
        seed,
        client: config.clone(),
        server: config,
        client_traffic: TrafficConfig {
            sources: vec![Source { bytes: Some(bytes) }],
            ..TrafficConfig::default()
        },
        links: links.to_vec(),
        direct: Some(vec![0]),
        relays,
        ..RelayedSpec::default()
    })
    .expect("a valid configuration")
}

/// Connects and offers every relay.
fn started(mut net: Relayed) -> Relayed {
    net.connect().expect("addresses that fit");
    net.world.run_until(Time::from_millis(100));
    let all = 0..net.relays.len();
    net.offer(all);
    net
}

fn run_for(net: &mut Relayed, time: Duration) {
    let until = net.world.now() + time;
    net.world.run_until(until);
}

/// Runs until everything has been read to its end, without a wrong byte; when that was.
fn complete(net: &mut Relayed, limit: Duration) -> Duration {
    let server = net.server;
    let received = |node: &Node| match node {
        Node::Session(host) => host.traffic().received().next().cloned(),
        Node::Relay(_) => None,
    };
    let ended = |node: &Node| received(node).and_then(|r| r.ended);
    let done = net.world.run_while(MS * 10, Time::ZERO + limit, |world| {
        ended(world.host(server)).is_none()
    });
    let log = net.client().traffic().log().to_vec();
    assert!(
        done,
        "not done after {limit:?}: {log:?} {:#?}",
        net.client_stats()
    );
    let received = received(net.world.host(server)).expect("a stream");
    assert_eq!(received.mismatch, None);
    received
        .ended
        .map_or(Duration::ZERO, |at| at.since(Time::ZERO))
}

fn received_bytes(net: &mut Relayed) -> u64 {
    net.server().traffic().goodput().total()
}

fn state_of(net: &mut Relayed, relay: usize) -> Option<PathState> {
    let at = net.access[relay].relay.address;
    let paths = net.client_stats().paths;
    let path = paths.iter().rev().find(|path| path.remote == at)?;
    Some(path.state)
}

/// Goodput over `span`, after `warm_up`, in bytes per second.
fn goodput(net: &mut Relayed, warm_up: Duration, span: Duration) -> f64 {
    run_for(net, warm_up);
    let before = received_bytes(net);
    run_for(net, span);
    (received_bytes(net) - before) as f64 / span.as_secs_f64()
}

/// Two relays in the ticket, and no direct path.
fn hidden(seed: u64, law: &str, bytes: u64) -> Relayed {
    let config = Config {
        cc: law.parse().unwrap(),
        ..Config::default()
    };
    Relayed::new(RelayedSpec {
        seed,
        client: config.clone(),
        server: config,
        client_traffic: TrafficConfig {
            sources: vec![Source { bytes: Some(bytes) }],
            ..TrafficConfig::default()
        },
        links: vec![mbps(10.0, 10), mbps(10.0, 15)],
        direct: None,
        relays: vec![[vec![0], vec![]], [vec![1], vec![]]],
        named: 2,
        ..RelayedSpec::default()
    })
    .expect("a valid configuration")
}

#[test]
fn relays_add_their_capacity() {
    let link = mbps(10.0, 10);
    let mut net = started(net(1, "lia", 12 << 20, &[link.clone(), link.clone(), link]));
    let took = complete(&mut net, 60_000 * MS);
    // 12 MiB at 30 Mbps take 3.4 s without headers; over the direct path alone, more than 10 s.
    assert!(took < 5000 * MS, "{took:?}");
    let stats = net.client_stats();
    assert_eq!(stats.paths.len(), 3, "{stats:#?}");
    for path in &stats.paths {
        assert!(path.stream_bytes_sent > 3 << 20, "{path:?}");
    }
    assert!(
        stats
            .relays
            .iter()
            .all(|relay| relay.state == RelayState::InUse)
    );
    let far = net.server().stats().expect("a connection");
    assert_eq!(far.paths.iter().filter(|path| path.relay).count(), 2);
    // Every acknowledgement of a relayed path came back through its relay.
    assert_eq!(net.world.stats().unroutable, 0);
}

/// Events of the client's relayed paths, with their times.
fn downs(net: &mut Relayed) -> Vec<(Time, PathDownReason)> {
    let relays: Vec<_> = net.access.iter().map(|a| a.relay.address).collect();
    let log = net.client().traffic().log();
    let down = |(at, event): &(Time, Event)| match event {
        Event::Path(PathEvent::Down { remote, reason, .. }) if relays.contains(remote) => {
            Some((*at, *reason))
        }
        _ => None,
    };
    log.iter().filter_map(down).collect()
}

#[test]
fn a_relay_that_is_restarted_gets_its_path_back() {
    // With the keys on its disk, and without.
    for (seed, forgetful) in [(2, false), (3, true)] {
        let link = mbps(10.0, 10);
        let mut net = started(net(seed, "lia", 80 << 20, &[link.clone(), link]));
        run_for(&mut net, 3000 * MS);
        assert_eq!(state_of(&mut net, 0), Some(PathState::Active));
        net.relay(0).kill();
        run_for(&mut net, 2000 * MS);
        assert_eq!(state_of(&mut net, 0), Some(PathState::Stalled));
        let before = received_bytes(&mut net);
        run_for(&mut net, 3000 * MS);
        // The direct path goes on at its rate: 10 Mbps less headers are 1.19 MB/s.
        let alone = received_bytes(&mut net) - before;
        assert!((3_300_000..3_700_000).contains(&alone), "{alone}");
        match forgetful {
            false => net.relay(0).restart(),
            true => net.relay(0).restart_forgetful(),
        }
        let (restarted, limit) = (net.world.now(), 20_000 * MS);
        while state_of(&mut net, 0) != Some(PathState::Active) {
            let waited = net.world.now().since(restarted);
            assert!(waited < limit, "{forgetful} {:#?}", net.client_stats());
            run_for(&mut net, 100 * MS);
        }
        run_for(&mut net, 1000 * MS);
        let before = received_bytes(&mut net);
        run_for(&mut net, 3000 * MS);
        let both = received_bytes(&mut net) - before;
        assert!(both > 6_000_000, "{both}");
        complete(&mut net, 120_000 * MS);
    }
}

#[test]
fn a_relay_that_becomes_a_black_hole_delays_its_data_by_a_probe_timeout() {
    for (seed, law) in [(4, "lia"), (5, "mpath"), (6, "balia")] {
        let link = mbps(10.0, 10);
        let mut net = started(net(seed, law, 40 << 20, &[link.clone(), link]));
        run_for(&mut net, 6000 * MS);
        assert_eq!(state_of(&mut net, 0), Some(PathState::Active), "{law}");
        let at = net.access[0].relay.address;
        let paths = net.client_stats().paths;
        let path = paths.iter().rev().find(|p| p.remote == at).expect("a path");
        // Its variance is at most half of the queue's delay, which is at most a round trip's.
        let probe_timeout = path.rtt + 2 * path.rtt + Config::default().ack_delay;
        let allowed = 3 * path.rtt + probe_timeout;
        net.relay(0).set_mischief(Mischief {
            drop: 1.0,
            ..Mischief::default()
        });
        let since = net.world.now();
        let (mut longest, mut last, mut progress) =
            (Duration::ZERO, received_bytes(&mut net), since);
        while net.world.now() < since + 2000 * MS {
            run_for(&mut net, MS);
            let bytes = received_bytes(&mut net);
            if bytes > last {
                longest = longest.max(net.world.now().since(progress));
                (last, progress) = (bytes, net.world.now());
            }
        }
        assert!(
            longest <= allowed,
            "{law}: nothing for {longest:?}, allowed {allowed:?}"
        );
        let downs = downs(&mut net);
        let (down, reason) = *downs.iter().find(|(at, _)| *at >= since).expect("noticed");
        assert!(
            down.since(since) <= allowed,
            "{law}: {:?}",
            down.since(since)
        );
        let expected = match law {
            "mpath" => PathDownReason::Dropped,
            _ => PathDownReason::Stalled,
        };
        assert_eq!(reason, expected);
        complete(&mut net, 120_000 * MS);
    }
}

/// The direct path dies, for good, while mPath uses no relay: because it was found wanting a moment
/// ago, or because all that is left to send is in flight.
#[test]
fn relays_without_a_path_are_used_once_the_direct_one_is_silent() {
    for (seed, bytes, tried) in [(12, 12 << 20, true), (13, 300_000, false)] {
        let mut link = mbps(10.0, 10);
        if !tried {
            // All fits, and no loss opens a path.
            link.queue = Queue::DropTail(Limit::Bytes(bytes));
        }
        let mut net = started(net(seed, "mpath", bytes, &[link.clone(), link.clone()]));
        let drop = |drop| Mischief {
            drop,
            ..Mischief::default()
        };
        if tried {
            run_for(&mut net, 5000 * MS);
            assert_eq!(state_of(&mut net, 0), Some(PathState::Active));
            net.relay(0).set_mischief(drop(1.0));
            run_for(&mut net, 1000 * MS);
            net.relay(0).set_mischief(drop(0.0));
        } else {
            while received_bytes(&mut net) < bytes - 20_000 {
                run_for(&mut net, MS);
            }
        }
        run_for(&mut net, MS);
        let stats = net.client_stats();
        assert_eq!(stats.relays[0].state, RelayState::Available, "{tried}");
        for link in net.links[0] {
            net.world.set_link_up(link, false);
        }
        let dead = net.world.now().since(Time::ZERO);
        // At most 8 MiB are left for 10 Mbps, and some probe timeouts.
        let took = complete(&mut net, dead + 12_000 * MS);
        assert!(took > dead);
    }
}

#[test]
fn a_hostile_relay_achieves_nothing_but_delay() {
    let evil = Mischief {
        drop: 0.2,
        duplicate: 0.2,
        delay: 0.3,
        delay_by: 300 * MS,
        corrupt: 0.2,
        replay: 0.2,
        false_leaving: 0.2,
    };
    let calm = Mischief::default();
    let each = [
        Mischief { drop: 0.6, ..calm },
        Mischief {
            duplicate: 1.0,
            ..calm
        },
        Mischief {
            delay: 1.0,
            delay_by: 800 * MS,
            ..calm
        },
        Mischief {
            corrupt: 0.9,
            ..calm
        },
        Mischief {
            replay: 1.0,
            ..calm
        },
        Mischief {
            false_leaving: 1.0,
            ..calm
        },
    ];
    let all = (10..16).map(|seed| (seed, evil));
    for (seed, mischief) in all.chain((20..).zip(each)) {
        for law in ["lia", "mpath"] {
            let link = mbps(10.0, 10);
            let mut net = started(net(seed, law, 3 << 20, &[link.clone(), link.clone(), link]));
            net.relay(0).set_mischief(mischief);
            net.relay(1).set_mischief(mischief);
            // 3 MiB over the direct path alone take 2.7 s. What is sent into the relays and lost
            // has to be sent again.
            let took = complete(&mut net, 20_000 * MS);
            assert!(took < 5000 * MS, "{seed} {law}: {took:?}");
            assert!(net.client().traffic().closed().is_none());
            assert!(net.server().traffic().closed().is_none());
        }
    }
}

#[test]
fn grants_are_renewed_before_they_end() {
    let link = mbps(1.0, 20);
    let mut net = started(net(7, "lia", 60 << 20, &[link.clone(), link]));
    run_for(&mut net, 2000 * MS);
    for _ in 0..20 {
        run_for(&mut net, 15_000 * MS);
        assert_eq!(state_of(&mut net, 0), Some(PathState::Active));
    }
    assert_eq!(downs(&mut net), []);
    let counters = net.relay(0).counters();
    assert_eq!((counters.stale, counters.refused), (0, 0));
    // Every 60 s, and a HELLO or LISTEN every 15 s.
    assert!((4..=8).contains(&counters.minted), "{}", counters.minted);
    assert!(counters.consents <= 32, "{}", counters.consents);
}

#[test]
fn hundreds_of_relays_are_all_probed_and_the_good_ones_used() {
    for (seed, law, relays) in [(8, "mpath", 130), (9, "lia", 200)] {
        let mut links = vec![mbps(2.0, 10)];
        // Not twice as slow as the direct path, or the manager would find them too slow.
        links.extend((0..relays).map(|n| mbps(1.0, n % 8)));
        let mut net = started(net(seed, law, 1 << 30, &links));
        // Every fifth is a black hole.
        let hole = |n: usize| n.is_multiple_of(5);
        for n in (0..relays as usize).filter(|n| hole(*n)) {
            net.relay(n).set_mischief(Mischief {
                drop: 1.0,
                ..Mischief::default()
            });
        }
        // The manager sends a probe every 250 ms, two to each black hole.
        let enough = if law == "mpath" { 45 } else { 15 };
        run_for(&mut net, 1000 * MS * enough);
        for n in 0..relays as usize {
            assert!(
                net.relay(n).forwarded() > 0,
                "{law}: relay {n} was never tried"
            );
        }
        let paths = net.client_stats().paths;
        let used = |path: &&PathStats| path.relay && path.state == PathState::Active;
        let place = |path: &PathStats| {
            net.access
                .iter()
                .position(|a| a.relay.address == path.remote)
        };
        let (bad, good): (Vec<usize>, Vec<usize>) = paths
            .iter()
            .filter(used)
            .filter_map(place)
            .partition(|n| hole(*n));
        assert_eq!(bad, [0; 0], "{law}");
        match law {
            // It opens a quarter of the direct path's window at each loss, when those before have
            // met loss too.
            "mpath" => assert!(good.len() >= 10, "{good:?}"),
            _ => assert_eq!(good.len(), relays as usize * 4 / 5),
        }
        let rate = goodput(&mut net, Duration::ZERO, 5000 * MS);
        // At least two thirds of what the paths in use have.
        let least = (good.len() as f64 + 2.0) * 125_000.0 * 2.0 / 3.0;
        assert!(rate > least, "{law}: {} paths, {rate} bytes/s", good.len());
        assert!(net.client().traffic().closed().is_none());
    }
}
