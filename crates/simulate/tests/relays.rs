//! Sessions through production relays, over a virtual network: every byte once and in order whatever a relay does.

mod common;

use std::time::Duration;

use common::{MS, mbps};
use manyway_network::LinkConfig;
use manyway_session::{Config, Event, PathDownReason, PathState, RelayState};
use manyway_simulate::stack::{Mischief, Node, Relayed, RelayedSpec, Source, TrafficConfig};
use manyway_units::Time;

/// A direct path over a link of its own, and a relay per further pair of links.
fn net(seed: u64, law: &str, bytes: u64, links: &[LinkConfig]) -> Relayed {
    let config = Config {
        cc: law.into(),
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
