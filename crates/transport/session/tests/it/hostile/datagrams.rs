//! Datagrams that nobody asked for, that are too large, or too many.

use std::net::SocketAddr;

use manyway_session::Config;
use manyway_wire::Frame;

use super::peer::Peer;
use super::victim::Victim;

fn listener(datagram: Option<usize>) -> (Victim, Peer) {
    let mut victim = Victim::listener(Config {
        datagram,
        ..Config::default()
    });
    let there = SocketAddr::from(([198, 51, 100, 1], 1));
    let peer = Peer::connect(&mut victim, there, 1);
    (victim, peer)
}

#[test]
fn what_was_not_asked_for_ends_the_connection() {
    for (datagram, data, says) in [
        (None, &b"x"[..], "none are accepted"),
        (None, &b""[..], "none are accepted"),
        (Some(3), &b"four"[..], "DATAGRAM of 4 bytes"),
    ] {
        let (mut victim, mut peer) = listener(datagram);
        peer.say(&mut victim, &[Frame::Datagram { data }]);
        victim.drain();
        let closed = victim.closed();
        assert!(
            closed.len() == 1 && closed[0].1.contains(says),
            "{closed:?}"
        );
    }
}

#[test]
fn a_flood_that_nobody_takes_is_bounded() {
    for size in [0, 1, 1000] {
        let (mut victim, mut peer) = listener(Some(1000));
        let data = vec![7; size];
        let frames = vec![Frame::Datagram { data: &data }; (1100 / (size + 3)).min(300)];
        let before = victim.held;
        let mut most = 0;
        for _ in 0..3000 {
            peer.say(&mut victim, &frames);
            victim.drain();
            most = most.max(victim.held - before);
        }
        assert!(most < 1 << 20, "{size}: {most}");
        assert_eq!(victim.closed(), []);
        let handle = victim.events[0].0;
        let connection = victim.end.connection(handle).expect("alive");
        assert!(connection.recv_datagram().is_some());
        assert!(connection.stats().datagrams.dropped > 0);
    }
}
