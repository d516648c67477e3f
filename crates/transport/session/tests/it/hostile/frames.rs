//! Packets that come twice, and frames behind the last that counts.

use std::net::SocketAddr;

use manyway_session::{Config, ConnectionHandle, PathId, StreamId};
use manyway_wire::Frame;

use super::peer::{Peer, Target};
use super::victim::Victim;

fn there() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], 4433))
}

fn listener() -> (Victim, Peer, ConnectionHandle) {
    let mut victim = Victim::listener(Config::default());
    let peer = Peer::connect(&mut victim, there(), 1);
    let handle = victim.events[0].0;
    (victim, peer, handle)
}

fn stream(data: &[u8]) -> Frame<'_> {
    Frame::Stream {
        stream: StreamId(0),
        offset: 0,
        fin: false,
        data,
    }
}

/// What is known of the connection, and datagrams that were rejected.
fn stats(victim: &Victim, handle: ConnectionHandle) -> (String, u64) {
    let mut stats = victim.end.stats(handle).expect("alive");
    let rejected = std::mem::take(&mut stats.packets_rejected);
    (format!("{stats:?}"), rejected)
}

/// An answer to it would say when the packet came, and its frames would count again.
#[test]
fn a_packet_that_comes_twice_changes_nothing() {
    let (mut victim, mut peer, handle) = listener();
    let mut plain = Vec::new();
    let data = *b"question";
    for frame in [Frame::Ping, Frame::PathChallenge { data }, stream(b"x")] {
        frame.encode(&mut plain);
    }
    let packet = peer.seal(PathId(0), &plain).expect("the id is known");
    victim.take(there(), packet.clone());
    assert!(!victim.drain().is_empty(), "ACK and PATH_RESPONSE");
    // One behind it, so that it isn't the newest.
    peer.say(&mut victim, &[Frame::Padding { len: 1 }]);
    victim.drain();
    let (before, rejected) = stats(&victim, handle);
    let elsewhere = SocketAddr::from(([203, 0, 113, 9], 1));
    for (n, from) in [there(), elsewhere, there()].into_iter().enumerate() {
        victim.take(from, packet.clone());
        assert_eq!(victim.drain(), [], "from {from}");
        assert_eq!(
            stats(&victim, handle),
            (before.clone(), rejected + n as u64 + 1)
        );
    }
}

/// Another path may have its place by then.
#[test]
fn frames_behind_the_end_of_their_path_are_left_alone() {
    let (mut victim, mut peer, handle) = listener();
    let path = PathId(1);
    peer.say_on(&mut victim, path, &[Frame::Ping]);
    peer.listen(&mut victim);
    let data = *b"question";
    let abandon = Frame::PathAbandon { path, code: 0 };
    let frames = [abandon, Frame::PathChallenge { data }, stream(b"x")];
    peer.say_on(&mut victim, path, &frames);
    peer.listen(&mut victim);
    assert_eq!(victim.closed(), []);
    let connection = victim.end.connection(handle).expect("alive");
    assert_eq!(connection.accept(), None);
    peer.say(&mut victim, &[stream(b"x")]);
    let connection = victim.end.connection(handle).expect("alive");
    assert_eq!(connection.accept(), Some(StreamId(0)));
}

#[test]
fn frames_behind_close_are_left_alone() {
    let (mut victim, mut peer, handle) = listener();
    let close = Frame::Close {
        code: 0x100,
        reason: "bye",
    };
    peer.say(&mut victim, &[close, stream(b"x")]);
    victim.drain();
    assert_eq!(victim.closed().len(), 1, "{:?}", victim.closed());
    let connection = victim.end.connection(handle).expect("not forgotten");
    assert_eq!(connection.accept(), None);
}
