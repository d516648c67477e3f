//! A peer that names addresses of others: what is sent there.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_session::{Config, PathId};
use manyway_wire::relay::{RelayId, RelayType};
use manyway_wire::{ConnectionId, DataHeader, Frame, MAX_ADDRESSES, MAX_RELAYS};

use super::peer::Peer;
use super::victim::{Victim, dialled};

const STEP: Duration = Duration::from_millis(20);

/// For so many steps, names 32 addresses that are new, gives up every path there is, announces ids
/// for the next ones, and adds so many bytes. What went to others by the end of each second.
fn reflect(steps: u32, padding: usize, network: [u8; 2]) -> Vec<(u64, u64)> {
    let (mut victim, mut peer) = dialled(Config::default());
    let (mut went, mut seconds, mut next) = (0, Vec::new(), 1);
    for step in 0..steps {
        let [first, second] = network;
        let address = |n: u32| {
            let [.., third, fourth] = (step * MAX_ADDRESSES as u32 + n).to_be_bytes();
            SocketAddr::from(([first, second, third, fourth], 53))
        };
        let named = (0..MAX_ADDRESSES as u32).map(address).collect();
        let mut frames = vec![Frame::Addresses {
            seq: u64::from(step) + 1,
            addresses: named,
        }];
        for path in next..next + 16 {
            let cid = ConnectionId(u64::from(path).to_be_bytes());
            frames.push(Frame::PathId {
                path: PathId(path),
                cid,
            });
        }
        frames.push(Frame::Padding { len: padding });
        peer.say(&mut victim, &frames);
        let sent = victim.wait(STEP);
        let mut used = next;
        for (_, datagram) in sent.iter().filter(|(to, _)| *to != peer.address) {
            went += datagram.len() as u64;
            let header = DataHeader::decode(datagram).expect("of a path");
            used = used.max(u64::from_be_bytes(header.cid.0) as u32 + 1);
        }
        peer.hear(&mut victim, sent);
        // Whatever was opened is given up again.
        for path in next..used {
            let path = PathId(path);
            peer.say(&mut victim, &[Frame::PathAbandon { path, code: 0 }]);
        }
        next = used;
        if (step + 1) % 50 == 0 {
            seconds.push((went, peer.sent));
        }
    }
    assert_eq!(victim.closed(), []);
    seconds
}

#[test]
fn others_get_no_more_than_the_peer_sent_and_ten_kilobytes_a_second() {
    for padding in [0, 800] {
        let seconds = reflect(60 * 50, padding, [203, 0]);
        for (second, (went, came)) in (1..).zip(&seconds) {
            assert!(*went <= came + 30_000, "{second} s: {went} for {came}");
            assert!(*went <= 30_000 + 10_000 * second, "{second} s: {went}");
        }
        let (went, _) = seconds.last().expect("some");
        assert!(*went > 60_000, "they are tried: {went}");
    }
}

#[test]
fn nobody_in_a_private_network_gets_anything_from_outside_of_one() {
    for network in [[10, 0], [127, 0], [192, 168], [224, 0]] {
        let seconds = reflect(50, 0, network);
        assert_eq!(seconds[0].0, 0, "{network:?}");
    }
}

/// An initiator names relays of a network that don't exist, in every slot once and then one each
/// second, and adds so many bytes. What these were sent by the end of each second, and what it
/// sent.
fn greet(seconds: u32, padding: usize, network: [u8; 2]) -> Vec<(u64, u64)> {
    let mut victim = Victim::listener(Config::default());
    let address = SocketAddr::from(([198, 51, 100, 1], 4433));
    let mut peer = Peer::connect(&mut victim, address, 1);
    let (mut went, mut each, mut named) = (0, Vec::new(), 0);
    for second in 0..seconds {
        while named < MAX_RELAYS as u32 + second {
            // As many as a datagram takes.
            let frames: Vec<_> = (named..named + 16)
                .map(|n| Frame::Relay {
                    slot: (n % MAX_RELAYS as u32) as u16,
                    seq: n.into(),
                    relay: Some((
                        SocketAddr::from(([network[0], network[1], 113, n as u8], 1 + n as u16)),
                        RelayId([n as u8; RelayId::LEN]),
                    )),
                })
                .collect();
            named += 16;
            peer.say(&mut victim, &frames);
        }
        if padding > 0 {
            peer.say(&mut victim, &[Frame::Padding { len: padding }]);
        }
        let sent = victim.wait(Duration::from_secs(1));
        let hellos = sent
            .iter()
            .filter(|(_, datagram)| RelayType::of(datagram) == Some(RelayType::Hello));
        went += hellos
            .map(|(_, datagram)| datagram.len() as u64)
            .sum::<u64>();
        peer.hear(&mut victim, sent);
        each.push((went, peer.sent));
    }
    assert_eq!(victim.closed(), []);
    each
}

/// 256 relays, of which none answers, would get 12 HELLOs each.
#[test]
fn named_relays_get_no_more_than_the_peer_sent_and_ten_kilobytes_a_second() {
    for padding in [0, 1000] {
        let seconds = greet(60, padding, [203, 0]);
        for (second, (went, came)) in (1..).zip(&seconds) {
            assert!(*went <= came + 30_000, "{second} s: {went} for {came}");
            assert!(*went <= 30_000 + 10_000 * second, "{second} s: {went}");
        }
        let (went, _) = seconds.last().expect("some");
        assert!(*went > 40_000, "they are greeted: {went}");
    }
}

#[test]
fn relays_in_private_networks_are_not_greeted_from_outside_of_one() {
    for network in [[10, 0], [127, 0], [192, 168]] {
        let seconds = greet(3, 0, network);
        assert_eq!(
            seconds.last().map(|(went, _)| *went),
            Some(0),
            "{network:?}"
        );
    }
}
