//! Receivers that acknowledge what they didn't get, to be sent more than the network carries.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use manyway_session::{Config, PathId};

use super::peer::Peer;
use super::victim::Victim;

const RTT: Duration = Duration::from_millis(40);

/// A receiver that gets only the last packet of each round trip and acknowledges them all, until it
/// has invented 1,000 acknowledgements. Why the connection ended within two round trips, if it did.
fn optimist(seed: u64) -> Option<String> {
    let mut victim = Victim::listener(Config::default());
    let there = SocketAddr::from(([198, 51, 100, 1], 4433));
    let mut peer = Peer::connect(&mut victim, there, seed);
    let handle = victim.events[0].0;
    let connection = victim.end.connection(handle).expect("connected");
    let stream = connection.open().expect("allowed");
    let mut data = Bytes::from(vec![0; 4 << 20]);
    let (mut invented, mut rounds_left) = (0, 2);
    while rounds_left > 0 && victim.closed().is_empty() {
        rounds_left -= u32::from(invented >= 1000);
        if let Some(connection) = victim.end.connection(handle) {
            let _ = connection.write(stream, &mut data);
        }
        let mut sent = victim.wait(RTT);
        let lost = sent.len().saturating_sub(1);
        let last = sent.split_off(lost);
        invented += lost;
        peer.hear(&mut victim, last);
        if let Some(largest) = peer.largest(PathId(0)) {
            peer.claim(&mut victim, PathId(0), std::iter::once(0..=largest));
        }
    }
    victim.drain();
    victim.closed().pop().map(|(_, reason)| reason)
}

#[test]
fn who_acknowledges_what_never_came_is_cut_off() {
    let ends: Vec<_> = (0..100).filter_map(optimist).collect();
    assert!(ends.len() >= 95, "{}", ends.len());
    assert!(ends.iter().all(|end| end.contains("left out")), "{ends:?}");
}

/// For an honest receiver, what is left out is neither lost nor a sign of congestion.
#[test]
fn an_honest_receiver_is_not() {
    let mut victim = Victim::listener(Config::default());
    let there = SocketAddr::from(([198, 51, 100, 1], 4433));
    let mut peer = Peer::connect(&mut victim, there, 1);
    let handle = victim.events[0].0;
    let stream = {
        let connection = victim.end.connection(handle).expect("connected");
        connection.open().expect("allowed")
    };
    for _ in 0..200 {
        let mut data = Bytes::from(vec![0; 100_000]);
        let connection = victim.end.connection(handle).expect("alive");
        let _ = connection.write(stream, &mut data);
        let sent = victim.wait(RTT);
        peer.hear(&mut victim, sent);
        peer.acknowledge(&mut victim);
    }
    assert_eq!(victim.closed(), []);
    let stats = victim.end.connection(handle).expect("alive").stats();
    let path = &stats.paths[0];
    let largest = peer.largest(PathId(0)).expect("some");
    assert!(largest > path.packets_sent, "none was left out");
    assert!(path.packets_sent > 5000, "{path:#?}");
    assert_eq!((path.packets_lost, path.loss_events), (0, 0), "{path:#?}");
}
