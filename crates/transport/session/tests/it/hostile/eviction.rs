//! Peers with many paths, beside one that transfers, when there is no memory for all.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use manyway_session::{Config, ConnectionHandle, PathId, StreamId};
use manyway_wire::Frame;

use super::peer::Peer;
use super::victim::Victim;

/// A type that no frame has.
const UNKNOWN: &[u8] = &[0x20];

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, host], port))
}

/// An endpoint that charges its connections for 32 MiB at most, and a peer that gets 8 MiB from it.
fn busy() -> (Victim, Peer, ConnectionHandle) {
    let mut victim = Victim::listener(Config {
        memory: 48 << 20,
        ..Config::default()
    });
    let mut honest = Peer::connect(&mut victim, address(200, 1), 1);
    let handle = victim.events[0].0;
    move_a_byte(&mut victim, &mut honest, handle);
    let connection = victim.end.connection(handle).expect("it is open");
    let mut data = Bytes::from(vec![7; 8 << 20]);
    connection.write(StreamId(0), &mut data).expect("room");
    honest.listen(&mut victim);
    (victim, honest, handle)
}

fn move_a_byte(victim: &mut Victim, peer: &mut Peer, handle: ConnectionHandle) {
    let frame = Frame::Stream {
        stream: StreamId(0),
        offset: 0,
        fin: false,
        data: b"x",
    };
    peer.say(victim, &[frame]);
    let now = victim.now;
    let connection = victim.end.connection(handle).expect("it is open");
    assert!(connection.read(now, StreamId(0), 9).is_ok());
}

/// Opens so many paths; the honest peer hears what is for it.
fn open(victim: &mut Victim, peer: &mut Peer, honest: &mut Peer, paths: u32) {
    for path in (1..=paths).map(PathId) {
        peer.say_on(victim, path, &[Frame::Ping]);
        for (to, datagram) in victim.drain() {
            let hearer = match to == peer.address {
                true => &mut *peer,
                false => &mut *honest,
            };
            hearer.overhear(victim.now, datagram);
        }
    }
}

/// They keep what they took for some round trips after their end.
#[test]
fn who_has_broken_the_rules_makes_room_before_a_transfer() {
    let (mut victim, mut honest, handle) = busy();
    for n in 1..=60 {
        honest.listen(&mut victim);
        let mut peer = Peer::connect(&mut victim, address(n, 1), 1000 + u64::from(n));
        open(
            &mut victim,
            &mut peer,
            &mut honest,
            if n <= 8 { 255 } else { 12 },
        );
        peer.send(&mut victim, PathId(0), UNKNOWN);
        honest.acknowledge(&mut victim);
    }
    assert!(victim.closed().len() > 8);
    assert!(victim.closed().iter().all(|(closed, _)| *closed != handle));
}

#[test]
fn a_host_with_many_connections_makes_room_before_a_transfer() {
    let (mut victim, mut honest, handle) = busy();
    for n in 1..=8 {
        honest.listen(&mut victim);
        let mut peer = Peer::connect(&mut victim, address(1, n), 1000 + u64::from(n));
        let (other, _) = *victim.events.last().expect("it is open");
        move_a_byte(&mut victim, &mut peer, other);
        open(&mut victim, &mut peer, &mut honest, 255);
        honest.acknowledge(&mut victim);
    }
    victim.wait(Duration::from_millis(1));
    assert!(!victim.closed().is_empty());
    assert!(victim.closed().iter().all(|(closed, _)| *closed != handle));
}

/// An application may read slowly what has come before CLOSE, while others press for room.
#[test]
fn what_came_before_the_end_can_be_read_although_others_need_room() {
    let (mut victim, mut honest, handle) = busy();
    let mut ended = Vec::new();
    for n in 1..=20 {
        honest.listen(&mut victim);
        let mut peer = Peer::connect(&mut victim, address(n, 1), 1000 + u64::from(n));
        ended.push(victim.events.last().expect("it is open").0);
        open(&mut victim, &mut peer, &mut honest, 255);
        let data = Frame::Stream {
            stream: StreamId(0),
            offset: 0,
            fin: true,
            data: &[7; 1000],
        };
        let close = Frame::Close {
            code: 0,
            reason: "",
        };
        peer.say(&mut victim, &[data, close]);
        honest.acknowledge(&mut victim);
        victim.wait(Duration::from_millis(40));
    }
    // Each has ended by itself.
    let closed: Vec<_> = victim
        .closed()
        .into_iter()
        .map(|(closed, _)| closed)
        .collect();
    assert_eq!(closed, ended);
    let now = victim.now;
    for ended in ended {
        let connection = victim.end.connection(ended).expect("not forgotten");
        let read = connection.read(now, StreamId(0), usize::MAX);
        assert_eq!(read.map(|data| data.map(|data| data.len())), Ok(Some(1000)));
    }
    let connection = victim.end.connection(handle).expect("it is open");
    assert!(!connection.is_closed());
}
