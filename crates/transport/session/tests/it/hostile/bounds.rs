//! What one connection may cost, structure by structure.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_session::{Config, PathId, PathState};
use manyway_wire::{ConnectionId, DataHeader, Frame};

use super::memory::held;
use super::peer::{MAX_IDLE_MS, Peer, Target};
use super::victim::{Victim, dialled};

const MS: Duration = Duration::from_millis(1);

fn there() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], 4433))
}

fn listener(config: Config) -> (Victim, Peer) {
    let mut victim = Victim::listener(config);
    let peer = Peer::connect(&mut victim, there(), 1);
    (victim, peer)
}

#[test]
fn paths_beyond_those_allowed_are_not_opened() {
    let (mut victim, mut peer) = listener(Config {
        max_paths: 4,
        ..Config::default()
    });
    let handle = victim.events[0].0;
    for round in 0..3 {
        for path in (1..=20).map(PathId) {
            peer.say_on(&mut victim, path, &[Frame::Ping]);
        }
        peer.listen(&mut victim);
        let connection = victim.end.connection(handle).expect("alive");
        assert_eq!(connection.stats().paths.len(), 4, "round {round}");
    }
}

/// Who sends the first packet has read the answer to its INIT. Where that went shows where it is,
/// unless it went to several addresses, or the packet comes from none of them.
#[test]
fn the_handshake_validates_its_only_address() {
    let elsewhere = SocketAddr::from(([203, 0, 113, 9], 4433));
    for (copy_from, packet_from, lost, path, measured) in [
        (None, there(), 0, PathState::Active, true),
        // It may have waited for a timeout.
        (None, there(), 1, PathState::Active, false),
        // The first answer or the second may have been the one.
        (Some(there()), there(), 0, PathState::Active, false),
        (Some(elsewhere), there(), 0, PathState::Validating, false),
        (Some(elsewhere), elsewhere, 0, PathState::Validating, false),
        (None, elsewhere, 0, PathState::Validating, false),
    ] {
        let mut victim = Victim::listener(Config::default());
        let mut peer = Peer::begin(&mut victim, there(), 1);
        if let Some(from) = copy_from {
            let copy = Peer::init(&victim, 1);
            victim.take(from, copy);
            victim.drain();
        }
        victim.wait(30 * MS);
        peer.address = packet_from;
        peer.skip(PathId(0), lost);
        peer.say(&mut victim, &[Frame::Ping]);
        let sent = victim.drain();
        let stats = victim
            .end
            .connection(victim.events[0].0)
            .expect("alive")
            .stats();
        let found = &stats.paths[0];
        assert_eq!(found.state, path, "{copy_from:?}, {packet_from}");
        let challenged = sent.iter().any(|(_, datagram)| datagram.len() >= 1200);
        assert_eq!(challenged, path == PathState::Validating);
        assert_eq!(found.rtt == 30 * MS, measured, "{:?}", found.rtt);
    }
}

/// An honest peer announces its id on another path before; nothing obliges it to.
#[test]
fn a_path_may_open_with_the_packet_that_announces_its_id() {
    let (mut victim, mut peer) = listener(Config::default());
    let (path, cid) = (PathId(1), ConnectionId([1; 8]));
    peer.issue(path, cid);
    peer.say_on(&mut victim, path, &[Frame::PathId { path, cid }]);
    let sent = victim.drain();
    let on_path = |data: &[u8]| DataHeader::decode(data).is_ok_and(|header| header.cid == cid);
    assert!(sent.iter().any(|(_, data)| on_path(data)), "a challenge");
    assert_eq!(victim.closed(), []);
}

/// A peer that acknowledges nothing asks for as many answers as it can.
#[test]
fn packets_that_nobody_acknowledges_are_bounded() {
    for (victim, peer) in [listener(Config::default()), dialled(Config::default())] {
        let (mut victim, mut peer) = (victim, peer);
        let handle = victim.events[0].0;
        let (before, mut most) = (held(), 0);
        for n in 0..40_000u64 {
            let challenge = Frame::PathChallenge {
                data: n.to_be_bytes(),
            };
            let frame = if n % 2 == 0 { Frame::Ping } else { challenge };
            peer.say(&mut victim, &[frame]);
            victim.drain();
            most = most.max(held() - before);
        }
        assert!((1 << 20..2 << 20).contains(&most), "{most}");
        // Once it acknowledges, it is answered again.
        peer.say(&mut victim, &[Frame::Ping]);
        assert!(victim.drain().is_empty());
        let sent = victim.wait(2000 * MS);
        peer.hear(&mut victim, sent);
        peer.acknowledge(&mut victim);
        peer.say(&mut victim, &[Frame::Ping]);
        assert!(!victim.drain().is_empty());
        assert!(!victim.end.connection(handle).expect("alive").is_closed());
    }
}

/// Answers that no driver takes are dropped.
#[test]
fn answers_that_wait_are_bounded() {
    let mut victim = Victim::listener(Config::default());
    let init = Peer::init(&victim, 1);
    for port in 1..5000 {
        let from = SocketAddr::from(([198, 51, 100, 2], port));
        victim.take(from, init.clone());
    }
    assert_eq!(victim.drain().len(), 1024);
}

/// A peer that would be gone after 3 ms of silence, with a path that isn't validated for 8 s.
#[test]
fn paths_are_kept_alive_three_times_a_second_at_most() {
    MAX_IDLE_MS.set(3);
    let (mut victim, mut peer) = listener(Config::default());
    let path = PathId(1);
    let cid = ConnectionId([9; 8]);
    peer.issue(path, cid);
    peer.say(&mut victim, &[Frame::PathId { path, cid }]);
    let mut frames = vec![Frame::Ping];
    frames.extend((0..1000).map(|_| Frame::Padding { len: 1 }));
    peer.say_on(&mut victim, path, &frames);
    let (mut challenges, mut sent) = (Vec::new(), 0);
    for _ in 0..4000 {
        for (_, mut datagram) in victim.wait(Duration::from_millis(2)) {
            sent += 1;
            peer.open(victim.now, &mut datagram, &mut challenges);
        }
        peer.acknowledge(&mut victim);
    }
    assert_eq!(victim.closed(), []);
    assert!(sent < 100, "{sent} packets");
    let (path, data) = *challenges.iter().find(|(p, _)| *p == path).expect("asked");
    peer.say_on(&mut victim, path, &[Frame::PathResponse { data }]);
    assert!(victim.drain().len() < 10);
}
