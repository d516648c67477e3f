//! Path ids that are used up without a path.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_session::{Config, PathId};
use manyway_wire::Frame;

use super::memory::held;
use super::peer::Peer;
use super::victim::{Victim, dialled};

const MS: Duration = Duration::from_millis(1);

/// For 20 s, at 10 Mbit/s: gives up the newest path id, or every one, without ever opening a path.
fn abandon(mut victim: Victim, mut peer: Peer, all: bool, acknowledges: bool) {
    let (before, mut most) = (held(), 0);
    let mut floor = 0;
    for _ in 0..20_000 {
        // 1250 bytes a millisecond.
        let newest = peer.cids.keys().next_back().map_or(0, |path| path.0);
        let first = if all { floor.max(1) } else { newest };
        let frames: Vec<_> = (first..=newest)
            .map(|path| Frame::PathAbandon {
                path: PathId(path),
                code: 0,
            })
            .collect();
        floor = newest + 1;
        if frames.is_empty() {
            peer.say(&mut victim, &[Frame::Ping]);
        }
        for frames in frames.chunks(100) {
            peer.say(&mut victim, frames);
        }
        let sent = victim.wait(MS);
        peer.hear(&mut victim, sent);
        if acknowledges {
            peer.acknowledge(&mut victim);
        }
        most = most.max(held() - before);
    }
    assert_eq!(victim.closed(), []);
    assert!(most < 5 << 20, "{most} bytes for {} sent", peer.sent);
    // 272 at once and 16 a second: each in a datagram of its own at worst.
    assert!(peer.cids.len() < 272 + 2 + 20 * 16, "{}", peer.cids.len());
}

#[test]
fn ids_given_up_are_replaced_at_a_pace() {
    for (all, acknowledges) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut victim = Victim::listener(Config::default());
        let there = SocketAddr::from(([198, 51, 100, 1], 4433));
        let peer = Peer::connect(&mut victim, there, 1);
        abandon(victim, peer, all, acknowledges);
        let (victim, peer) = dialled(Config::default());
        abandon(victim, peer, all, acknowledges);
    }
}
