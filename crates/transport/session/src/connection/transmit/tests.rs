//! In which order things are said, and on which path, without a peer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_wire::{DataHeader, Frames};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use super::super::core::Core;
use super::super::core::tests::{DATAGRAM, core, frames, new_path, open};
use super::super::paths::{NewPath, PathTransport};
use super::*;
use crate::carrier::Facts;
use crate::config::Config;
use crate::crypto::{KeyLimits, Opener, SplitInput, Suite, split};
use crate::received::AckPolicy;

const T0: Time = Time::ZERO;
const AT_ONCE: AckPolicy = AckPolicy {
    every: 1,
    delay: Duration::ZERO,
};

/// A transmitter, its sources, and the peer's keys.
struct Side {
    core: Core,
    relayed: RelayedPaths,
    carriers: Carriers,
    transmitter: Transmitter,
    opener: Opener,
}

fn side(initiator: bool, limits: KeyLimits) -> Side {
    let keys = |is_initiator| {
        split(SplitInput {
            initiator_key: &[1; 32],
            responder_key: &[2; 32],
            handshake_hash: &[3; 32],
            is_initiator,
            suite: Suite::Aes256Gcm,
            limits,
        })
    };
    let config = Arc::new(Config::default());
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    Side {
        core: core(initiator),
        relayed: RelayedPaths::new(&config, initiator, &mut rng),
        carriers: Carriers::new(&config),
        transmitter: Transmitter::new(initiator, keys(initiator).0),
        opener: keys(!initiator).1,
    }
}

fn initiator() -> Side {
    side(true, KeyLimits::default())
}

impl Side {
    /// A path that carries data, and has said all that it had to.
    fn up(&mut self, id: u32, rtt: u64) -> usize {
        let index = open(&mut self.core, id);
        self.core
            .on_validated(T0, index, Some(Duration::from_millis(rtt)));
        self.core.refresh(T0, index);
        frames(&mut self.core);
        while self.poll(1).is_some() {}
        index
    }

    fn write(&mut self, bytes: usize) {
        let stream = self.core.streams().open().expect("allowed");
        let mut data = Bytes::from(vec![7; bytes]);
        let taken = self.core.streams().write(stream, &mut data);
        assert_eq!(taken, Ok(bytes));
    }

    /// The datagrams that leave next: their path, and the frames in each.
    fn poll(&mut self, segments: usize) -> Option<(u8, Vec<Vec<String>>)> {
        let mut buf = Vec::new();
        let from = Sources {
            core: self.core.parts(),
            relayed: &mut self.relayed,
            carriers: &mut self.carriers,
        };
        let transmit = self.transmitter.poll(T0, segments, from, &mut buf)?;
        Some(self.opened(&transmit, &mut buf))
    }

    fn close(&mut self, path: u32, reason: &str) -> Option<(u8, Vec<Vec<String>>)> {
        let mut buf = Vec::new();
        let (path, close) = (PathId(path), (7, reason));
        let core = self.core.parts();
        let transmit = self.transmitter.close(T0, path, close, core, &mut buf)?;
        Some(self.opened(&transmit, &mut buf))
    }

    fn opened(&mut self, transmit: &Transmit, buf: &mut [u8]) -> (u8, Vec<Vec<String>>) {
        assert_eq!(transmit.len, buf.len());
        let std::net::IpAddr::V4(ip) = transmit.remote.ip() else {
            panic!("no such address");
        };
        let path = ip.octets()[3];
        let segment = transmit.segment_size.unwrap_or(buf.len());
        let datagrams = buf.chunks_mut(segment);
        let datagrams = datagrams.map(|datagram| self.opened_one(path.into(), datagram));
        (path, datagrams.collect())
    }

    /// The names of a datagram's frames; ACKs with their path.
    fn opened_one(&mut self, path: u32, datagram: &mut [u8]) -> Vec<String> {
        let header = DataHeader::decode(datagram).expect("a header");
        let number = header.pn_low.into();
        let (pto, epoch) = (Duration::from_secs(1), header.epoch);
        let plain = self
            .opener
            .open(T0, pto, path, number, epoch, datagram, DATA_HEADER_LEN)
            .expect("sealed by the transmitter");
        let name = |frame: Frame<'_>| match frame {
            Frame::Ack(ack) => format!("Ack {}", ack.path().0),
            Frame::Close { reason, .. } => format!("Close {reason}"),
            frame => {
                let text = format!("{frame:?}");
                let end = text.find(|c: char| !c.is_alphanumeric());
                text[..end.unwrap_or(text.len())].to_owned()
            }
        };
        Frames::new(plain).map(|f| name(f.expect("true"))).collect()
    }
}

fn has(datagram: &[String], frame: &str) -> bool {
    datagram.iter().any(|name| name == frame)
}

#[test]
fn a_path_that_has_nothing_to_say_sends_nothing() {
    let mut side = initiator();
    let index = side.up(1, 40);
    let next = side.core.paths()[index].sender().next_packet_number();
    assert_eq!(side.poll(1), None);
    let path = &side.core.paths()[index];
    assert_eq!(path.sender().next_packet_number(), next);
}

#[test]
fn what_a_path_owes_leaves_there_and_before_data() {
    let mut side = initiator();
    side.up(1, 40);
    let slow = side.up(2, 100);
    side.write(600);
    side.core.probe(slow);
    side.core.refresh(T0, slow);
    let (path, datagrams) = side.poll(1).expect("a probe");
    assert_eq!(path, 2);
    assert_eq!(
        datagrams,
        [["Ping", "Stream"]],
        "a probe carries what is missing"
    );
    side.write(600);
    let (path, datagrams) = side.poll(1).expect("data");
    assert_eq!((path, datagrams), (1, vec![vec!["Stream".to_owned()]]));
}

#[test]
fn control_frames_go_with_data_on_the_soonest_path() {
    let mut side = initiator();
    side.up(2, 100);
    side.up(1, 40);
    side.write(600);
    side.core.say_instead(Frame::Addresses {
        seq: 1,
        addresses: Vec::new(),
    });
    let (path, datagrams) = side.poll(9).expect("a frame waits");
    assert_eq!(path, 1);
    assert_eq!(datagrams, [["Addresses", "Stream"]]);
    assert_eq!(side.poll(9), None);
}

/// Datagrams of so many bytes.
fn send(side: &mut Side, lens: &[usize]) {
    for &len in lens {
        let sent = side.core.datagrams().send(T0, vec![7; len].into());
        assert_eq!(sent, Ok(()));
    }
}

#[test]
fn datagrams_go_before_stream_data_on_the_soonest_path() {
    let mut side = initiator();
    side.up(2, 100);
    side.up(1, 40);
    side.write(300);
    send(&mut side, &[400]);
    let (path, datagrams) = side.poll(9).expect("data");
    assert_eq!(path, 1);
    assert_eq!(datagrams, [["Datagram", "Stream"]]);
    assert_eq!(side.poll(9), None);
}

/// The pacer permits two packets at a time.
#[test]
fn datagrams_of_a_size_leave_in_a_batch() {
    for (lens, batches) in [
        ([900, 900], &[2][..]),
        ([900, 700], &[2]),
        ([700, 900], &[1, 1]),
    ] {
        let mut side = initiator();
        side.up(1, 40);
        send(&mut side, &lens);
        for &batch in batches {
            let (_, datagrams) = side.poll(9).expect("datagrams");
            assert_eq!(datagrams, vec![["Datagram"]; batch], "{lens:?}");
        }
    }
}

#[test]
fn what_a_datagram_leaves_of_a_packet_is_a_streams() {
    let mut side = initiator();
    side.up(1, 40);
    send(&mut side, &[1000, 900]);
    side.write(4000);
    let (_, datagrams) = side.poll(9).expect("data");
    assert_eq!(datagrams, [["Datagram", "Stream"]; 2]);
}

/// Acknowledgements and probes still have room in what is remembered.
#[test]
fn datagrams_leave_room_for_what_must_be_said() {
    let mut side = initiator();
    let index = side.up(1, 40);
    for n in 0.. {
        send(&mut side, &[DATAGRAM]);
        let permitted = side.core.paths().unsettled() < MAX_WITH_DATAGRAMS;
        side.core.probe(index);
        side.core.refresh(T0, index);
        let (_, datagrams) = side.poll(1).expect("a probe");
        assert!(permitted || !has(&datagrams[0], "Datagram"), "{n}");
        if !permitted {
            break;
        }
        while side.poll(1).is_some() {}
        side.core.datagrams().expire(Time::MAX);
    }
    assert_eq!(side.core.datagrams().next_len(), Some(DATAGRAM));
}

#[test]
fn a_batch_is_of_full_datagrams_and_within_the_window() {
    let mut side = initiator();
    side.up(1, 40);
    side.write(100_000);
    let (_, datagrams) = side.poll(1).expect("data");
    assert_eq!(datagrams, [["Stream"]], "no more than may leave at a time");
    let mut side = initiator();
    let index = side.up(1, 40);
    side.write(100_000);
    let (_, datagrams) = side.poll(4).expect("data");
    assert!((2..=4).contains(&datagrams.len()), "a batch");
    assert!(datagrams.iter().all(|datagram| has(datagram, "Stream")));
    let window = side.core.paths().window(index);
    let mut sent = datagrams.len();
    while let Some((_, datagrams)) = side.poll(4) {
        sent += datagrams.iter().filter(|d| has(d, "Stream")).count();
    }
    assert!((sent as f64) <= window + 1.0, "{sent} of {window}");
    assert!(side.core.data().has_any());
}

#[test]
fn a_path_without_an_answer_carries_data_with_its_first_challenge_in_bulk_alone() {
    let carrier = PathTransport::Carrier(Facts::stream());
    for (bytes, transport, carries) in [
        (1000, PathTransport::Coupled, false),
        (300_000, PathTransport::Coupled, true),
        (300_000, carrier, false),
    ] {
        let mut side = initiator();
        side.write(bytes);
        let new = NewPath {
            transport,
            ..new_path(1)
        };
        side.core.open_path(T0, new);
        frames(&mut side.core);
        let index = side.core.paths().index_of(PathId(1)).expect("it is open");
        side.core.refresh(T0, index);
        let (_, datagrams) = side.poll(1).expect("a challenge");
        assert!(has(&datagrams[0], "PathChallenge"));
        assert_eq!(has(&datagrams[0], "Stream"), carries);
        assert_eq!(side.poll(1), None, "the rest waits for the answer");
    }
}

#[test]
fn keys_that_are_used_up_are_told_of_once() {
    let mut side = side(
        true,
        KeyLimits {
            confidentiality: 2,
            ..KeyLimits::default()
        },
    );
    let index = side.up(1, 40);
    for _ in 0..3 {
        side.core.probe(index);
        side.core.refresh(T0, index);
        while side.poll(1).is_some() {}
    }
    assert_eq!(side.poll(1), None);
    assert!(side.transmitter.take_failure().is_some());
    assert_eq!(side.transmitter.take_failure(), None);
}

#[test]
fn an_ack_whose_path_may_be_lost_goes_out_on_another_too() {
    let mut side = initiator();
    let first = side.up(1, 40);
    assert_eq!(side.transmitter.echo_ack(side.core.paths(), first), None);
    let second = side.up(2, 100);
    side.core.record(T0, first, (0, true), AT_ONCE, true);
    let other = side.transmitter.echo_ack(side.core.paths(), first);
    assert_eq!(other, Some(second));
    side.core.attend(second);
    side.core.refresh(T0, first);
    assert_eq!(side.poll(1), Some((2, vec![vec!["Ack 1".to_owned()]])));
    assert_eq!(side.poll(1), Some((1, vec![vec!["Ack 1".to_owned()]])));
    assert_eq!(side.poll(1), None);
}

#[test]
fn close_says_what_arrived_on_all_paths() {
    let mut side = initiator();
    for id in [1, 2] {
        let index = side.up(id, 40);
        side.core.record(T0, index, (0, true), AT_ONCE, true);
    }
    let (path, datagrams) = side.close(2, "why").expect("there is room");
    assert_eq!(
        (path, &*datagrams),
        (
            2,
            &[["Ack 1", "Ack 2", "Close why"].map(String::from).to_vec()][..]
        )
    );
    assert_eq!(side.close(9, "why"), None, "no such path");
}

#[test]
fn close_has_no_reason_for_an_address_that_has_not_answered() {
    let mut side = side(false, KeyLimits::default());
    open(&mut side.core, 1);
    let long = "x".repeat(400);
    assert_eq!(side.close(1, &long), None, "nothing came from there");
    let remote = side.core.paths().oldest().expect("it is open").remote();
    side.core.on_unopened(PathId(1), (remote, 100), false);
    let (_, datagrams) = side.close(1, &long).expect("three times that much");
    assert!(has(&datagrams[0], "Close "));
}
