//! Many connections of peers that hold a ticket.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_session::{Config, PathId, StreamId};
use manyway_wire::Frame;

use super::memory::held;
use super::peer::Peer;
use super::victim::Victim;

/// The code of CLOSE for a connection that there is no room for.
const OVERLOADED: u64 = 3;

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, host], port))
}

fn stream(offset: u64, data: &[u8]) -> Frame<'_> {
    Frame::Stream {
        stream: StreamId(0),
        offset,
        fin: false,
        data,
    }
}

/// The application reads all that is there, on every connection.
fn read_all(victim: &mut Victim) -> u64 {
    let now = victim.now;
    let handles: Vec<_> = victim.events.iter().map(|(handle, _)| *handle).collect();
    let mut bytes = 0;
    for handle in handles {
        if let Some(connection) = victim.end.connection(handle) {
            while let Ok(Some(data)) = connection.read(now, StreamId(0), usize::MAX) {
                bytes += data.len() as u64;
            }
        }
    }
    bytes
}

fn refusal(peer: &Peer) -> Option<u64> {
    peer.closed.as_ref().map(|(code, _)| *code)
}

/// Fills the seats with connections of `host`, transfers something on the first, and tries one more
/// from `newcomer`: at once, and when the others have done nothing for a while.
fn crowd(config: Config, seats: u16, newcomer: u8, hosts: impl Fn(u16) -> u8) {
    let mut victim = Victim::listener(config);
    let mut peers: Vec<_> = (1..=seats)
        .map(|n| Peer::connect(&mut victim, address(hosts(n), n), u64::from(n)))
        .collect();
    peers[0].say(&mut victim, &[stream(0, b"something")]);
    assert_eq!(read_all(&mut victim), 9);

    let mut early = Peer::connect(&mut victim, address(newcomer, 1000), 1000);
    early.listen(&mut victim);
    assert_eq!(refusal(&early), Some(OVERLOADED), "{:?}", early.closed);
    assert_eq!(victim.closed(), [], "nobody makes room at once");

    victim.wait(Duration::from_millis(3000));
    let late = Peer::connect(&mut victim, address(newcomer, 1001), 1001);
    assert_eq!(refusal(&late), None);
    let closed = victim.closed();
    assert_eq!(closed.len(), 1, "{closed:?}");
    peers[1].say(&mut victim, &[Frame::Ping]);
    peers[1].listen(&mut victim);
    assert_eq!(refusal(&peers[1]), Some(OVERLOADED), "the oldest idle one");
    // The one that transfers is safe, however many come.
    for n in 0..2 * seats {
        peers[0].say(&mut victim, &[stream(9 + u64::from(n), b"x")]);
        assert_eq!(read_all(&mut victim), 1);
        victim.wait(Duration::from_millis(3000));
        Peer::connect(
            &mut victim,
            address(newcomer, 2000 + n),
            2000 + u64::from(n),
        );
    }
    peers[0].listen(&mut victim);
    assert_eq!(refusal(&peers[0]), None);
}

#[test]
fn a_host_has_so_many_connections_and_who_transfers_keeps_its_own() {
    let config = Config {
        max_connections_per_host: 4,
        ..Config::default()
    };
    crowd(config, 4, 1, |_| 1);
}

#[test]
fn an_endpoint_has_so_many_connections_and_who_transfers_keeps_its_own() {
    let config = Config {
        max_connections: 4,
        ..Config::default()
    };
    crowd(config, 4, 99, |n| n as u8);
}

/// Fifty peers fill their windows with what nobody reads, beside one that transfers.
#[test]
fn memory_is_taken_from_those_that_nobody_reads() {
    // 32 MiB are charged.
    let memory = 48 << 20;
    let mut victim = Victim::listener(Config {
        memory,
        ..Config::default()
    });
    let mut honest = Peer::connect(&mut victim, address(200, 1), 1);
    let handle = victim.events[0].0;
    let mut peers: Vec<_> = (1..=50)
        .map(|n| Peer::connect(&mut victim, address(n, 1), 1000 + u64::from(n)))
        .collect();
    let (before, mut most) = (held(), 0);
    let data = [7; 1000];
    for n in 0..4000 {
        honest.say(&mut victim, &[stream(n * 1000, &data)]);
        let now = victim.now;
        let connection = victim.end.connection(handle).expect("it is safe");
        let mut read = 0;
        while let Ok(Some(data)) = connection.read(now, StreamId(0), usize::MAX) {
            read += data.len();
        }
        assert_eq!(read, 1000);
        for peer in &mut peers {
            peer.say(&mut victim, &[stream(n * 1000, &data)]);
        }
        victim.drain();
        most = most.max(held() - before);
        if n % 10 == 0 {
            victim.wait(Duration::from_millis(1));
        }
    }
    let closed = victim.closed();
    assert!(closed.iter().all(|(closed, _)| *closed != handle));
    assert!(closed.len() > 40, "{}", closed.len());
    assert!((16 << 20..36 << 20).contains(&most), "{most}");
}

/// Peers with many paths go one by one, until there is room: not all of them, and not the one that
/// transfers.
#[test]
fn so_many_go_as_make_room() {
    let (paths, peers) = (200, 4);
    let config = |memory| Config {
        memory,
        ..Config::default()
    };
    // What one of them is charged: its paths, 14.5 KiB each, with what they carry and itself.
    let each = 200 * (29 << 9);
    let mut victim = Victim::listener(config(peers * each / 2 * 3));
    let mut honest = Peer::connect(&mut victim, address(200, 1), 1);
    honest.say(&mut victim, &[stream(0, b"something")]);
    assert_eq!(read_all(&mut victim), 9);
    for n in 1..=peers {
        let mut peer = Peer::connect(&mut victim, address(n as u8, 1), 1000 + n);
        for path in (1..=paths).map(PathId) {
            peer.say_on(&mut victim, path, &[Frame::Ping]);
            let sent = victim.wait(Duration::from_millis(5));
            peer.hear(&mut victim, sent);
        }
    }
    let closed = victim.closed();
    assert_eq!(closed.len(), 1, "{closed:?}");
    assert_ne!(closed[0].0, victim.events[0].0, "the one that transfers");
}
