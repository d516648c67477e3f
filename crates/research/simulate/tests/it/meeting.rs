//! Two ends behind NAT that let in only what was sent for: each learns its address from somebody
//! else, both send at once.

use std::net::SocketAddr;

use crate::common::{MS, mbps};
use manyway_session::{Event, PathState};
use manyway_simulate::HostId;
use manyway_simulate::stack::{Node, Relayed, RelayedSpec};
use manyway_units::Time;

const NOWHERE: &str = "192.168.7.7:4433";

/// A direct route on which both NATs are, and a relay that both may ask for their addresses.
fn net(seed: u64) -> Relayed {
    let mut net = Relayed::new(RelayedSpec {
        seed,
        links: vec![mbps(10.0, 20), mbps(10.0, 15)],
        direct: Some(vec![0]),
        relays: vec![[vec![1], vec![1]]],
        ..RelayedSpec::default()
    })
    .expect("a valid configuration");
    // What a listener behind NAT knows of itself leads nowhere from outside.
    net.ticket.addresses = vec![NOWHERE.parse().unwrap()];
    let (observer, now) = (net.access[0].relay, net.world.now());
    for host in [net.client, net.server] {
        let outside = address(&net, host);
        net.world.add_nat(outside);
        end(&mut net, host).observe_at(now, &[observer]);
    }
    run(&mut net, 500);
    net
}

fn end(net: &mut Relayed, host: HostId) -> &mut manyway_session::Endpoint {
    match net.world.host_mut(host) {
        Node::Session(host) => host.endpoint_mut(),
        Node::Relay(_) => unreachable!("an end"),
    }
}

fn address(net: &Relayed, host: HostId) -> SocketAddr {
    let number = if host == net.client { 1 } else { 2 };
    SocketAddr::from(([10, 0, 0, number], 4433))
}

fn run(net: &mut Relayed, ms: u64) {
    let until = net.world.now() + MS * ms as u32;
    net.world.run_until(until);
}

/// The client calls; the listener hears of it `late` ms later, and opens if it `opens`.
fn call(net: &mut Relayed, opens: bool, late: u64) {
    let hosts = [net.client, net.server];
    let seen = hosts.map(|host| end(net, host).observed());
    for (host, seen) in hosts.into_iter().zip(&seen) {
        assert_eq!(seen, &[address(net, host)], "as the observer sees it");
    }
    let ticket = net.ticket.clone();
    let now = net.world.now();
    let client = end(net, hosts[0]);
    let handle = client.connect(now, &ticket).expect("a ticket");
    client.add_remotes(now, handle, &seen[1]);
    run(net, late);
    if opens {
        let now = net.world.now();
        end(net, hosts[1]).open_towards(now, &seen[0]);
    }
    run(net, 3000);
}

fn connected(net: &mut Relayed) -> Option<Time> {
    let log = net.client().traffic().log();
    let mut events = log.iter();
    let (at, _) = events.find(|(_, event)| matches!(event, Event::Connected))?;
    Some(*at)
}

#[test]
fn both_ends_send_at_once_and_meet() {
    for (seed, late) in [(1, 0), (2, 70), (3, 400)] {
        let mut net = net(seed);
        let called = net.world.now();
        call(&mut net, true, late);
        let at = connected(&mut net).expect("they meet");
        // Half a round trip for the opening, then the next copy of INIT, which comes after 250 or
        // 750 ms, and its answer.
        let took = at.since(called);
        assert!(took < MS * (late as u32 + 900), "{took:?}");
        let stats = net.client_stats();
        let direct = stats.paths.iter().find(|path| !path.relay).expect("a path");
        assert_eq!(direct.state, PathState::Active);
        // It goes on: the mappings are kept by what is sent.
        run(&mut net, 120_000);
        assert!(net.client().stats().is_some());
        assert_eq!(net.client_stats().paths[0].state, PathState::Active);
    }
}

#[test]
fn nobody_gets_in_to_whom_nothing_was_sent() {
    let mut net = net(4);
    call(&mut net, false, 0);
    assert_eq!(connected(&mut net), None);
    assert!(net.world.stats().unclaimed > 0);
}

/// Openings are few and small, whoever names whatever addresses.
#[test]
fn openings_are_bounded() {
    let mut net = net(5);
    net.world.capture(100_000);
    let server = net.server;
    let now = net.world.now();
    let mut named: Vec<SocketAddr> = (0..200u8)
        .map(|n| SocketAddr::from(([203, 0, 113, n], 99)))
        .collect();
    named.insert(0, "224.0.0.1:99".parse().unwrap());
    named.insert(0, "255.255.255.255:99".parse().unwrap());
    for _ in 0..1000 {
        end(&mut net, server).open_towards(now, &named);
    }
    run(&mut net, 10_000);
    let host = |to: &SocketAddr| to.port() == 99;
    let sent: Vec<_> = net.world.captured().filter(|c| host(&c.to)).collect();
    let bytes: usize = sent.iter().map(|c| c.data.len()).sum();
    assert!(!sent.is_empty() && bytes <= 2 * 520, "{bytes}");
    assert!(sent.iter().all(|c| !c.to.ip().is_multicast()));
    let mut to: Vec<_> = sent.iter().map(|c| c.to).collect();
    to.dedup();
    to.sort_unstable();
    to.dedup();
    assert_eq!(to.len(), 8);
}
