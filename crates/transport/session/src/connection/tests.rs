//! What no peer brings about, but a connection has to survive.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use manyway_control::Remembered;
use manyway_units::Time;
use manyway_wire::Frame;
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use crate::budget::MAX_CONTROL;
use crate::{
    CloseReason, Config, ConnectionHandle, Endpoint, Event, Incoming, Local, LocalId, NewPath,
    Observer, Observers, PacketEvent, PathId, PathObservers, Secrets, Ticket,
};

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + side as u8], 4433))
}

/// Hands over what both ends send, until nothing is left; what the listener tells.
fn talk(ends: &mut [Endpoint; 2]) -> Vec<(ConnectionHandle, Event)> {
    let (mut buf, mut told, mut quiet) = (Vec::new(), Vec::new(), 0);
    while quiet < 2 {
        quiet += 1;
        for side in 0..2 {
            while ends[side].poll_transmit(Time::ZERO, 1, &mut buf).is_some() {
                quiet = 0;
                let incoming = Incoming {
                    local: LocalId(1),
                    remote: address(side),
                    ecn: None,
                    data: &mut buf,
                };
                ends[1 - side].handle_datagram(Time::ZERO, incoming);
            }
        }
        told.extend(std::iter::from_fn(|| ends[1].poll_event()));
    }
    told
}

/// Two ends with a socket each, one of which listens with the ticket.
fn pair(config: impl Fn(usize) -> Config) -> ([Endpoint; 2], Ticket) {
    let secrets = Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32]));
    let ticket = secrets.ticket(vec![address(1)]);
    let mut ends = [0, 1].map(|side| {
        let config = Arc::new(config(side));
        let mut end = Endpoint::new(config, [1 + side as u8; 32]).expect("a valid one");
        let local = Local {
            id: LocalId(1),
            name: "if1".into(),
            addr: address(side),
            mtu: None,
        };
        end.add_local(Time::ZERO, local);
        end
    });
    ends[1].listen(secrets);
    (ends, ticket)
}

/// Keeps what it is told of an endpoint's only path.
#[derive(Clone, Debug, Default)]
struct Notes(Arc<Mutex<Vec<PacketEvent>>>);

impl PathObservers for Notes {
    fn of_path(&self, _: Time, path: NewPath<'_>) -> Box<dyn Observer> {
        assert_eq!((path.id, path.name), (PathId(0), "if1"));
        Box::new(self.clone())
    }
}

impl Observer for Notes {
    fn observe(&self, _: Time, event: PacketEvent) {
        self.0.lock().expect("one thread").push(event);
    }
}

#[test]
fn an_observer_is_told_of_every_packet_and_its_fate() {
    let notes = [0, 1].map(|_| Notes::default());
    let (mut ends, ticket) = pair(|side| {
        let notes = notes[side].clone();
        let observers = Observers::new(move |initiator| {
            assert_eq!(initiator, side == 0);
            Box::new(notes.clone())
        });
        Config {
            observers: Some(observers),
            ..Config::default()
        }
    });
    let client = ends[0].connect(Time::ZERO, &ticket).expect("a pair");
    ends[0].handle_timeout(Time::ZERO);
    talk(&mut ends);
    let connection = ends[0].connection(client).expect("alive");
    let stream = connection.open().expect("allowed");
    let mut data = Bytes::from(vec![7; 2_000_000]);
    connection.write(stream, &mut data).expect("room");
    // The first full packet of them is lost.
    let (mut now, mut lost_bytes) = (Time::ZERO, 0);
    for _ in 0..100 {
        let mut buf = Vec::new();
        for side in 0..2 {
            while ends[side].poll_transmit(now, 1, &mut buf).is_some() {
                if side == 0 && lost_bytes == 0 && buf.len() >= 1200 {
                    lost_bytes = buf.len();
                    continue;
                }
                let incoming = Incoming {
                    local: LocalId(1),
                    remote: address(side),
                    ecn: None,
                    data: &mut buf,
                };
                ends[1 - side].handle_datagram(now, incoming);
            }
        }
        now += Duration::from_millis(1);
        ends.iter_mut().for_each(|end| end.handle_timeout(now));
    }
    let stats = ends[0].connection(client).expect("alive").stats();
    let notes = notes.map(|notes| std::mem::take(&mut *notes.0.lock().expect("one thread")));
    let numbers = |side: usize, pick: fn(&PacketEvent) -> Option<u64>| -> BTreeSet<u64> {
        notes[side].iter().filter_map(pick).collect()
    };
    let sent = numbers(0, |event| match event {
        PacketEvent::Sent { number, .. } => Some(*number),
        _ => None,
    });
    let fates = numbers(0, |event| match event {
        PacketEvent::Acked { number } | PacketEvent::Lost { number } => Some(*number),
        _ => None,
    });
    let lost = numbers(0, |event| match event {
        PacketEvent::Lost { number } => Some(*number),
        _ => None,
    });
    assert_eq!(sent.len() as u64, stats.paths[0].packets_sent);
    assert_eq!(lost.len() as u64, stats.paths[0].packets_lost);
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(
        fates.len() > 5 && fates.is_subset(&sent),
        "{fates:?} {sent:?}"
    );
    // Both ends name a packet alike, although some numbers are left out.
    let received = numbers(1, |event| match event {
        PacketEvent::Received { number, .. } => Some(*number),
        _ => None,
    });
    assert_eq!(received, &sent - &lost);
    let newest = *sent.last().expect("some");
    assert!(newest >= sent.len() as u64, "{newest}");
    let bytes = |side: usize, pick: fn(&PacketEvent) -> Option<usize>| -> usize {
        notes[side].iter().filter_map(pick).sum()
    };
    let left = bytes(0, |event| match event {
        PacketEvent::Sent { bytes, .. } => Some(*bytes),
        _ => None,
    });
    let arrived = bytes(1, |event| match event {
        PacketEvent::Received { bytes, .. } => Some(*bytes),
        _ => None,
    });
    assert_eq!(left as u64, stats.paths[0].bytes_sent);
    assert_eq!(left, arrived + lost_bytes);
    let windows = notes[0].iter().filter(|event| {
        matches!(event, PacketEvent::Metrics { window, min, .. }
            if *window > 0 && *min <= Duration::from_secs(1))
    });
    assert!(windows.count() > 1);
}

#[test]
fn a_peer_that_causes_too_many_control_frames_is_closed() {
    let (mut ends, ticket) = pair(|_| Config::default());
    let client = ends[0].connect(Time::ZERO, &ticket).expect("a pair");
    ends[0].handle_timeout(Time::ZERO);
    let handle = talk(&mut ends)[0].0;
    for (frames, closes) in [(MAX_CONTROL, false), (MAX_CONTROL + 1, true)] {
        let server = ends[1].connection(handle).expect("alive");
        let outbox = server.traffic.outbox();
        (0..frames).for_each(|_| outbox.say(Frame::Ping));
        // Any packet of the peer's.
        let peer = ends[0].connection(client).expect("alive");
        peer.traffic.outbox().say(Frame::Ping);
        let mut buf = Vec::new();
        ends[0]
            .poll_transmit(Time::ZERO, 1, &mut buf)
            .expect("the packet");
        let incoming = Incoming {
            local: LocalId(1),
            remote: address(0),
            ecn: None,
            data: &mut buf,
        };
        ends[1].handle_datagram(Time::ZERO, incoming);
        let why = |(_, event)| match event {
            Event::Closed(CloseReason::Protocol(why)) => Some(why),
            _ => None,
        };
        let closed = talk(&mut ends).into_iter().find_map(why);
        assert_eq!(closed.is_some(), closes, "{closed:?}");
        assert!(closed.is_none_or(|why| why.contains("2048 control frames")));
    }
}

/// What a path carried is for the next connection, but not if the peer has broken the protocol: it
/// may have acknowledged what never came.
#[test]
fn who_breaks_the_protocol_is_not_remembered() {
    let remembered = Remembered {
        bytes: 1 << 20,
        min_rtt: Duration::from_millis(20),
    };
    let hosts = (address(1).ip(), address(0).ip());
    for breaks in [false, true] {
        let (mut ends, ticket) = pair(|_| Config::default());
        let memory = ends[1].memory.clone();
        memory.note(hosts, Time::ZERO, remembered);
        let client = ends[0].connect(Time::ZERO, &ticket).expect("a pair");
        ends[0].handle_timeout(Time::ZERO);
        let handle = talk(&mut ends)[0].0;
        assert_eq!(memory.take(Time::ZERO, hosts), None, "it is in use");
        if breaks {
            let peer = ends[0].connection(client).expect("alive");
            let path = PathId(77);
            peer.traffic
                .outbox()
                .say(Frame::PathAbandon { path, code: 0 });
            talk(&mut ends);
        }
        ends[1].forget(handle);
        let left = memory.take(Time::ZERO, hosts);
        assert_eq!(left, (!breaks).then_some(remembered));
    }
}

/// Those who come after a listener has moved have its ticket alone.
#[test]
fn each_connection_hears_of_the_addresses_that_its_listener_has_gained() {
    let other = Local {
        id: LocalId(2),
        name: "if2".into(),
        addr: SocketAddr::from(([10, 0, 1, 2], 4433)),
        mtu: None,
    };
    for (goes, again) in [(false, false), (true, false), (false, true)] {
        let (mut ends, ticket) = pair(|_| Config::default());
        let mut connect = |listens_again| {
            if listens_again {
                ends[1].listen_again(Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32])));
            } else {
                ends[1].add_local(Time::ZERO, other.clone());
            }
            if goes {
                ends[1].remove_local(Time::ZERO, other.id);
            }
            let client = ends[0].connect(Time::ZERO, &ticket).expect("a pair");
            ends[0].handle_timeout(Time::ZERO);
            talk(&mut ends);
            let connection = ends[0].connection(client).expect("alive");
            connection.peer_addresses().to_vec()
        };
        let told = match (goes, again) {
            (true, _) => vec![],
            (_, true) => vec![address(1)],
            _ => vec![other.addr],
        };
        assert_eq!(connect(again), told);
        if !goes && !again {
            assert_eq!(connect(true), [address(1), other.addr]);
        }
    }
}
