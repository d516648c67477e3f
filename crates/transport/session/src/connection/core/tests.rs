//! Paths and data without a peer, and what becomes of packets whose path fails.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use manyway_control::LawSpec;
use manyway_wire::relay::{ForwardHeader, Grant, RelayType};
use manyway_wire::{AckInfo, Frames, StreamId, encode_ack};
use rand::SeedableRng;

use super::super::copies::Cursor;
use super::super::packet::Packet;
use super::super::paths::{PeerLimits, RelayHeader};
use super::*;
use crate::config::Config;
use crate::driver::LocalId;
use crate::event::{Event, PathEvent};
use crate::streams::{Streams, StreamsConfig};

const T0: Time = Time::ZERO;
/// The largest datagram of the application.
pub(crate) const DATAGRAM: usize = 1000;

/// No paths as yet.
pub(crate) fn paths(initiator: bool) -> PathSet {
    let config = Arc::new(Config {
        datagram: Some(DATAGRAM),
        ..Config::default()
    });
    let limits = PeerLimits {
        max_datagram: 8952,
        ack_delay: Duration::from_millis(10),
        max_paths: 8,
    };
    let law = Box::new(LawSpec::reno().controller(&Default::default()));
    let idle = Duration::from_secs(30);
    PathSet::new(
        T0,
        &config,
        (initiator, limits),
        idle,
        law,
        PathMemory::default(),
    )
}

/// Paths and data without a peer.
pub(crate) fn core(initiator: bool) -> Core {
    let mut streams = Streams::new(StreamsConfig {
        initiator,
        initial_receive_window: 1 << 20,
        max_receive_window: 1 << 20,
        window_shares: 1,
        send_buffer: 1 << 20,
        max_streams: 8,
    });
    streams.set_peer_limits(1 << 20, 1 << 20, 8);
    Core {
        paths: paths(initiator),
        ids: ConnectionIds::new(T0, ConnectionId([7; 8]), Config::default().max_paths),
        pairs: None,
        data: Data::new(
            T0,
            &Config::default(),
            streams,
            Datagrams::new(Some(DATAGRAM), DATAGRAM),
        ),
        outbox: Outbox::default(),
        rng: ChaCha20Rng::seed_from_u64(1),
    }
}

pub(crate) fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 9))
}

/// A path whose far end is the address with this number.
pub(crate) fn new_path(id: u32) -> NewPath {
    NewPath {
        id: PathId(id),
        local: Local {
            id: LocalId(1),
            name: "if".into(),
            addr: address(100),
            mtu: None,
        },
        remote: address(id as u8),
        remote_cid: Some(ConnectionId([1; 8])),
        transport: PathTransport::Coupled,
        relay: None,
        initial_rtt: None,
    }
}

/// A relay's grant of this kind, which says nothing else.
pub(crate) fn grant(kind: RelayType) -> Grant {
    let mut bytes = [0; ForwardHeader::LEN_V4];
    bytes[0] = kind as u8;
    Grant::decode(&bytes).expect("a grant")
}

pub(crate) fn open(core: &mut Core, id: u32) -> usize {
    core.open_path(T0, new_path(id))
}

fn up(core: &mut Core, id: u32) -> usize {
    let index = open(core, id);
    core.paths
        .on_validated(index, Some(Duration::from_millis(40)));
    core.paths.refresh(T0, index);
    index
}

/// The control frames that wait.
pub(crate) fn frames(core: &mut Core) -> Vec<Frame<'static>> {
    let mut packet = Packet::default();
    core.outbox
        .write_frames(1 << 20, &mut packet, &mut Vec::new());
    packet.payload.control
}

/// Sends a packet full of a stream's data, and a control frame, on a path.
fn send(core: &mut Core, index: usize) -> StreamId {
    let stream = core.data.streams.open().expect("allowed");
    let mut data = vec![1; 100].into();
    core.data.streams.write(stream, &mut data).expect("room");
    let (mut packet, mut buf) = (Packet::default(), Vec::new());
    let carried = &mut Cursor::default();
    core.data
        .write(T0, 1200, (carried, true), &mut packet, &mut buf);
    packet.payload.control.push(Frame::Addresses {
        seq: 1,
        addresses: Vec::new(),
    });
    core.paths[index].on_sent(T0, buf.len(), false, packet);
    stream
}

/// An ACK of these packets of a path, written to `buf`.
fn ack_of(buf: &mut Vec<u8>, path: PathId, packets: RangeInclusive<u64>) -> AckFrame<'_> {
    let info = AckInfo {
        path,
        delay_us: 0,
        receive_time_us: 0,
        ecn: None,
    };
    encode_ack(buf, &info, [packets].into_iter(), 100);
    let Some(Ok(Frame::Ack(ack))) = Frames::new(buf).next() else {
        panic!("no ACK");
    };
    ack
}

/// Sends packets of 1200 bytes on a path, of which the peer acknowledges the last `arrived` at
/// `now`.
pub(crate) fn exchange(now: Time, paths: &mut PathSet, index: usize, packets: u64, arrived: u64) {
    for _ in 0..packets {
        let packet = Packet {
            ack_eliciting: true,
            ..Packet::default()
        };
        paths[index].on_sent(T0, 1200, false, packet);
    }
    let next = paths[index].sender().next_packet_number();
    let mut buf = Vec::new();
    let id = paths[index].id();
    let ack = ack_of(&mut buf, id, next - arrived..=next - 1);
    paths.on_ack(now, index, (&ack, false)).expect("true");
    paths.settle(now, index, |_| {});
}

#[test]
fn what_a_closed_path_carried_goes_out_again() {
    let mut core = core(true);
    let index = up(&mut core, 1);
    up(&mut core, 2);
    frames(&mut core);
    core.outbox.take_changes();
    send(&mut core, index);
    assert!(!core.data.has_any());
    let closed = core.close_path(T0, index, PathDownReason::TimedOut, true);
    assert_eq!(closed, (PathId(1), None));
    assert!(core.data.has_any());
    let again = Frame::Addresses {
        seq: 1,
        addresses: Vec::new(),
    };
    let abandon = Frame::PathAbandon {
        path: PathId(1),
        code: 0,
    };
    assert_eq!(frames(&mut core), [again, abandon]);
    assert!(matches!(
        core.outbox.next_event(),
        Some(Event::Path(PathEvent::Down {
            reason: PathDownReason::TimedOut,
            ..
        }))
    ));
    assert!(matches!(
        core.outbox.take_changes()[..],
        [Change::CidRetired(_)]
    ));
    assert_eq!(core.ids.local(PathId(1)), None);
}

#[test]
fn a_stalled_path_keeps_its_packets_and_others_carry_copies() {
    let mut core = core(true);
    let index = up(&mut core, 1);
    send(&mut core, index);
    core.stall(T0, index);
    assert!(core.data.has_any() && core.data.resent() == 100);
    core.stall(T0, index);
    assert_eq!(core.data.resent(), 100, "each packet once");
    assert!(core.paths[index].sender().bytes_in_flight() > 0);
}

/// What several packets repeat would be forgotten by none of them before all are acknowledged.
#[test]
fn a_control_frame_is_kept_and_charged_once_however_often_it_leaves() {
    let mut core = core(true);
    let (first, second) = (up(&mut core, 1), up(&mut core, 2));
    frames(&mut core);
    let before = core.memory() - core.data.streams.memory();
    let charged = |core: &Core| core.memory() - core.data.streams.memory() - before;
    for (n, index) in [first, second].into_iter().cycle().take(6).enumerate() {
        let repeated = frames(&mut core).len();
        assert_eq!(repeated, usize::from(n > 0), "of the packet before");
        send(&mut core, index);
        core.paths.refresh(T0, index);
        assert_eq!(
            charged(&core),
            (n + 2) * PACKET_MEMORY,
            "packets and a frame"
        );
        core.stall(T0, index);
        core.paths.refresh(T0, index);
        assert_eq!(charged(&core), (n + 2) * PACKET_MEMORY, "it waits");
    }
    for index in [first, second] {
        core.paths.abandon_flight(T0, index);
        core.paths.refresh(T0, index);
    }
    assert_eq!(charged(&core), PACKET_MEMORY, "it waits still");

    assert_eq!(frames(&mut core).len(), 1);
    send(&mut core, first);
    core.paths.abandon_flight(T0, first);
    core.paths.refresh(T0, first);
    assert_eq!(charged(&core), 0, "given up");
    let number = core.paths[first].next_number();
    send(&mut core, first);
    core.paths.refresh(T0, first);
    assert_eq!(charged(&core), 2 * PACKET_MEMORY);
    let mut buf = Vec::new();
    let ack = ack_of(&mut buf, PathId(1), number..=number);
    core.on_ack(T0, first, (&ack, false)).expect("it was sent");
    core.settle(T0, first, |_| {});
    core.paths.refresh(T0, first);
    assert_eq!(charged(&core), 0, "acknowledged");
}

#[test]
fn ids_are_announced_ahead_of_the_paths() {
    let mut core = core(false);
    open(&mut core, 4);
    let announced = frames(&mut core).len();
    assert_eq!(announced, 20, "sixteen beyond path 4");
    assert_eq!(core.outbox.take_changes().len(), announced);
}

#[test]
fn a_path_needs_the_peers_id_and_room() {
    let mut core = core(true);
    for id in 0..9 {
        core.on_cid_announced(T0, PathId(id), ConnectionId([id as u8; 8]))
            .expect("in range");
    }
    for id in 1..9 {
        let next = core.next_path();
        assert_eq!(next, Some((PathId(id), ConnectionId([id as u8; 8]))));
        open(&mut core, id);
    }
    assert_eq!(core.next_path(), None, "the peer wants eight at most");
}

/// A listener that asks a relay from another socket is led there, and answers from there: the
/// grants that it gets are for that socket's address.
#[test]
fn a_listeners_path_follows_its_relay_to_another_socket() {
    let other = Local {
        id: LocalId(2),
        ..new_path(1).local
    };
    let from = |core: &Core, index: usize| core.paths[index].local().id;
    for relayed in [true, false] {
        let mut core = core(false);
        let index = up(&mut core, 1);
        let policy = core.paths[index].ack_policy(10, Duration::from_millis(10));
        if relayed {
            core.paths[index].set_relay(RelayHeader::back(grant(RelayType::Forward4), 1));
        }
        send(&mut core, index);
        core.record(T0, index, (7, true), policy, false);
        let follow = |core: &mut Core, remote, number, answers| {
            core.follow_relay(T0, index, (&other, address(remote)), number, |_| answers);
        };
        follow(&mut core, 1, 7, true);
        assert_eq!(from(&core, index), LocalId(1), "not the newest packet");
        follow(&mut core, 9, 8, false);
        assert_eq!(from(&core, index), LocalId(1), "not from the relay");
        follow(&mut core, 1, 8, false);
        let expected = if relayed { LocalId(2) } else { LocalId(1) };
        assert_eq!(from(&core, index), expected);
        assert_eq!(core.data.has_any(), relayed, "what was in flight");
    }
}

/// A relay that was asked from a socket of the other family sends from its other address. A
/// listener's path goes on there and, as that may be any relay's address, back as well.
#[test]
fn a_listeners_path_follows_its_relay_to_its_other_address() {
    for relayed in [true, false] {
        let mut core = core(false);
        let index = up(&mut core, 1);
        let home = core.paths[index].local().clone();
        let other = Local {
            id: LocalId(2),
            ..home.clone()
        };
        if relayed {
            core.paths[index].set_relay(RelayHeader::back(grant(RelayType::Forward4), 1));
        }
        let place = |core: &Core| (core.paths[index].local().id, core.paths[index].remote());
        let (here, there) = ((home.id, address(1)), (other.id, address(9)));
        core.follow_relay(T0, index, (&other, address(9)), 8, |at| at == address(8));
        assert_eq!(place(&core), here, "nobody answers there");
        core.follow_relay(T0, index, (&other, address(9)), 8, |at| at == address(9));
        assert_eq!(place(&core), if relayed { there } else { here });
        core.follow_relay(T0, index, (&home, address(7)), 9, |_| false);
        assert_eq!(place(&core), if relayed { there } else { here });
        core.follow_relay(T0, index, (&home, address(1)), 9, |_| false);
        assert_eq!(place(&core), here, "back");
    }
}
