//! What a connection and a path are charged is what they take.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use manyway_session::{Config, PathId, RelayId};
use manyway_wire::Frame;

use super::memory::held;
use super::peer::Peer;
use super::victim::Victim;

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], port))
}

/// Bytes that the endpoint takes, and nobody else: it is dropped to know.
fn taken(victim: Victim) -> isize {
    let all = held();
    drop(victim);
    all - held()
}

fn config() -> Config {
    Config {
        max_connections_per_host: 1000,
        ..Config::default()
    }
}

fn connections(count: u16) -> isize {
    let mut victim = Victim::listener(config());
    for n in 0..count {
        let mut peer = Peer::connect(&mut victim, address(1 + n), u64::from(n));
        // The replay window grows with the numbers.
        for _ in 0..2 {
            peer.skip(PathId(0), 40_000);
            peer.say(&mut victim, &[Frame::Ping]);
        }
        victim.wait(Duration::from_millis(20));
    }
    victim.events = Vec::new();
    taken(victim)
}

#[test]
fn a_connection_takes_what_it_is_charged() {
    let each = (connections(200) - connections(100)) / 100;
    // With its first path.
    assert!((20 << 10..64 << 9).contains(&each), "{each}");
}

#[test]
fn the_ids_of_forgotten_connections_take_no_memory() {
    let mut victim = Victim::listener(config());
    let mut connect_and_forget = |which: Range<u16>| {
        for n in which {
            Peer::connect(&mut victim, address(1 + n), n.into());
        }
        for (handle, _) in std::mem::take(&mut victim.events) {
            victim.on(|end, _| end.forget(handle));
        }
        victim.wait(Duration::from_secs(60));
        victim.held
    };
    let before = connect_and_forget(0..1);
    // Of each connection, the key of its handshake is remembered for a while. They had 3,400 ids,
    // which take 100 kB in a table.
    let after = connect_and_forget(1..200);
    assert!(after - before < 200 * 128, "{}", after - before);
}

fn paths(count: u32) -> isize {
    let mut victim = Victim::listener(config());
    let mut peer = Peer::connect(&mut victim, address(1), 1);
    for path in (1..=count).map(PathId) {
        // The replay window grows with the numbers.
        for _ in 0..2 {
            peer.skip(path, 40_000);
            peer.say_on(&mut victim, path, &[Frame::Ping]);
        }
        let sent = victim.wait(Duration::from_millis(20));
        peer.hear(&mut victim, sent);
    }
    victim.events = Vec::new();
    taken(victim)
}

#[test]
fn a_path_takes_what_it_is_charged() {
    let each = (paths(200) - paths(100)) / 100;
    assert!((10 << 10..29 << 9).contains(&each), "{each}");
}

/// Probe timeouts repeat what a silent peer doesn't acknowledge: on its first path, and on others
/// that stall one after the other.
#[test]
fn what_is_sent_again_is_kept_once() {
    let mut victim = Victim::listener(config());
    let mut peer = Peer::connect(&mut victim, address(1), 1);
    for path in (1..=8).map(PathId) {
        peer.say_on(&mut victim, path, &[Frame::Ping]);
        let sent = victim.wait(Duration::from_millis(20));
        peer.hear(&mut victim, sent);
    }
    let before = victim.held;
    let sent = victim.wait(Duration::from_secs(20)).len();
    assert!(sent > 20, "{sent} probes");
    // The endpoint has told of 25 ids.
    let each = (victim.held - before) / sent as isize;
    assert!(each < 256, "{each} bytes for each of {sent} packets");
}

fn relays(count: u16) -> isize {
    let mut victim = Victim::listener(config());
    let mut peer = Peer::connect(&mut victim, address(1), 1);
    for slot in 0..count {
        let relay = Frame::Relay {
            slot,
            seq: 0,
            relay: Some((
                SocketAddr::from(([203, 0, 113, 1], 1 + slot)),
                RelayId([7; RelayId::LEN]),
            )),
        };
        peer.say(&mut victim, &[relay]);
        let sent = victim.wait(Duration::from_millis(20));
        peer.hear(&mut victim, sent);
    }
    victim.events = Vec::new();
    taken(victim)
}

#[test]
fn a_named_relay_takes_what_it_is_charged() {
    let each = (relays(200) - relays(100)) / 100;
    assert!((1 << 10..3 << 9).contains(&each), "{each}");
}
