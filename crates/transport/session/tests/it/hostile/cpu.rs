//! What a packet can cost: one that is full of the smallest frames of a type, against one that is
//! full of data. Processor time of the thread, the least of several runs.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_session::{Config, LocalId, PathId, SendErrorKind, StreamId};
use manyway_wire::relay::RelayId;
use manyway_wire::{AckInfo, ConnectionId, Frame, StreamKind, encode_ack};
use nix::time::{ClockId, clock_gettime};

use super::peer::{Peer, ROOM, Target};
use super::victim::{Victim, dialled};

/// Packets of each kind.
const PACKETS: usize = 100;
const RUNS: usize = 5;
/// A packet may cost so many times what one full of data costs.
const BOUND: f64 = 100.0;

/// The processor time of this thread so far.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has it");
    time.into()
}

/// As many frames as fit into a packet; `frame` makes the `n`th of all.
fn filled(n: &mut u64, frame: impl Fn(u64) -> Vec<u8>) -> Vec<u8> {
    let mut plain = Vec::new();
    loop {
        let next = frame(*n);
        if plain.len() + next.len() > ROOM {
            return plain;
        }
        plain.extend(next);
        *n += 1;
    }
}

fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}

fn stream(id: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    encoded(&Frame::Stream {
        stream: StreamId(id),
        offset,
        fin: false,
        data,
    })
}

/// Whether the victim listens or has dialled, and what the packets are full of: a function from the
/// number of a frame to its bytes.
type Kind = (&'static str, bool, fn(u64) -> Vec<u8>);

const DATA: &[u8] = &[7; ROOM - 12];

/// Every type that a packet may have, the smallest frame of it that isn't refused.
const KINDS: &[Kind] = &[
    ("nothing but data", true, |n| {
        stream(0, n * DATA.len() as u64, DATA)
    }),
    ("PADDING", true, |_| vec![0]),
    ("PING", true, |_| encoded(&Frame::Ping)),
    ("FILLER", true, |_| encoded(&Frame::Filler)),
    ("DATAGRAM", true, |_| {
        encoded(&Frame::Datagram { data: b"" })
    }),
    ("ACK", true, |_| ack(1)),
    ("ACK with ranges", true, |_| ack(200)),
    ("STREAM in order", true, |n| stream(0, n, b"x")),
    ("STREAM with gaps", true, |n| stream(0, 2 * n, b"x")),
    ("STREAM backwards", true, |n| {
        stream(0, (1 << 20) + (8191 - n % 8192) * 2, b"x")
    }),
    ("STREAM of many", true, |n| {
        stream(n % 128 * 2, n / 128 * 2, b"x")
    }),
    ("STREAM again", true, |_| stream(0, 0, b"x")),
    ("RESET_STREAM", true, |n| {
        let stream = StreamId(n % 128 * 4);
        encoded(&Frame::ResetStream {
            stream,
            code: 0,
            final_size: 0,
        })
    }),
    ("STOP_SENDING", true, |n| {
        let stream = StreamId(n % 128 * 4);
        encoded(&Frame::StopSending { stream, code: 0 })
    }),
    ("MAX_DATA", true, |n| {
        encoded(&Frame::MaxData { max: (1 << 40) + n })
    }),
    ("MAX_STREAM_DATA", true, |n| {
        let (stream, max) = (StreamId(n % 128 * 4), (1 << 40) + n);
        encoded(&Frame::MaxStreamData { stream, max })
    }),
    ("MAX_STREAMS", true, |n| {
        encoded(&Frame::MaxStreams {
            kind: StreamKind::ALL[(n % 2) as usize],
            count: (1 << 20) + n,
        })
    }),
    ("PATH_CHALLENGE", true, |n| {
        encoded(&Frame::PathChallenge {
            data: n.to_be_bytes(),
        })
    }),
    ("PATH_RESPONSE", true, |n| {
        encoded(&Frame::PathResponse {
            data: n.to_be_bytes(),
        })
    }),
    ("PATH_ID", true, |n| {
        let (path, cid) = (PathId(1 + (n % 16) as u32), ConnectionId([n as u8 % 16; 8]));
        encoded(&Frame::PathId { path, cid })
    }),
    ("PATH_ABANDON", true, |n| {
        encoded(&Frame::PathAbandon {
            path: PathId(1 + (n % 16) as u32),
            code: 0,
        })
    }),
    ("ADDRESSES", false, |n| {
        let address = |at| SocketAddr::from(([203, 0, (n % 256) as u8, at], 4433));
        let addresses = (0..32).map(address).collect();
        encoded(&Frame::Addresses {
            seq: n + 1,
            addresses,
        })
    }),
    ("ADDRESSES, short", false, |n| {
        let address = SocketAddr::from(([203, 0, (n >> 8) as u8, n as u8], 4433));
        encoded(&Frame::Addresses {
            seq: n + 1,
            addresses: vec![address],
        })
    }),
    ("RELAY", true, |n| {
        let address = SocketAddr::from(([203, 0, (n >> 8) as u8, n as u8], 4433));
        let relay = Some((address, RelayId([n as u8; 32])));
        encoded(&Frame::Relay {
            slot: (n % 256) as u16,
            seq: n,
            relay,
        })
    }),
    ("RELAY, empty", true, |n| {
        encoded(&Frame::Relay {
            slot: (n % 256) as u16,
            seq: n,
            relay: None,
        })
    }),
];

/// An ACK of packet 0 of path 0, or with it of every second one below 2 × `ranges`.
fn ack(ranges: u64) -> Vec<u8> {
    let info = AckInfo {
        path: PathId(0),
        delay_us: 0,
        receive_time_us: 0,
        ecn: None,
    };
    let mut bytes = Vec::new();
    let numbers = (0..ranges).rev().map(|n| 2 * n..=2 * n);
    encode_ack(&mut bytes, &info, numbers, ROOM);
    bytes
}

/// What one of these packets costs, and what it makes us send.
fn cost((name, listens, frame): &Kind) -> Duration {
    // Whether a number was left out is another question.
    let config = Config {
        leave_out_numbers: false,
        datagram: Some(1000),
        ..Config::default()
    };
    let (mut victim, mut peer) = match listens {
        true => {
            let mut victim = Victim::listener(config);
            let peer = Peer::connect(&mut victim, SocketAddr::from(([198, 51, 100, 1], 4433)), 7);
            (victim, peer)
        }
        false => dialled(config),
    };
    // Packets that there is something to say about.
    for _ in 0..500 {
        peer.say(&mut victim, &[Frame::Ping]);
        peer.listen(&mut victim);
    }
    let mut n = 0;
    let packets: Vec<_> = (0..PACKETS)
        .map(|_| filled(&mut n, frame))
        .map(|plain| peer.seal(PathId(0), &plain).expect("path 0 has one"))
        .collect();
    let begun = spent();
    for datagram in packets {
        victim.take(peer.address, datagram);
        victim.drain();
    }
    let took = spent() - begun;
    assert!(victim.closed().is_empty(), "{name}: {:?}", victim.closed());
    took / PACKETS as u32
}

#[test]
fn no_packet_costs_much_more_than_one_full_of_data() {
    let least = |kind| (0..RUNS).map(|_| cost(kind)).min().expect("some");
    let data = least(&KINDS[0]);
    let (mut table, mut worst) = (String::new(), 0.0f64);
    for kind in KINDS {
        let cost = least(kind);
        let ratio = cost.as_secs_f64() / data.as_secs_f64();
        worst = worst.max(ratio);
        writeln!(table, "{:20} {cost:10.1?} {ratio:6.1}", kind.0).expect("a string");
    }
    assert!(worst < BOUND, "\n{table}");
}

/// A peer without a route back, or one that has just gone, makes each datagram to it fail.
#[test]
fn a_send_error_costs_little_however_many_connections_there_are() {
    const ERRORS: u32 = 100;
    let mut victim = Victim::listener(Config::default());
    for n in 0..300 {
        // As many handshakes as a second may have.
        victim.wait(Duration::from_millis(40));
        let address = SocketAddr::from(([198, 51, 100, (n / 60) as u8], 1 + n));
        let peer = Peer::connect(&mut victim, address, n.into());
        assert!(peer.closed.is_none());
    }
    let gone = SocketAddr::from(([203, 0, 113, 9], 9));
    let mut run = || {
        let before = spent();
        for _ in 0..ERRORS {
            let kind = SendErrorKind::NoRoute;
            victim.on(|end, now| end.on_send_error(now, LocalId(1), gone, kind));
            assert_eq!(victim.drain(), []);
        }
        (spent() - before) / ERRORS
    };
    let least = (0..RUNS).map(|_| run()).min().expect("some");
    // It is 3 µs. When all connections were asked what they had to send, it was 127.
    assert!(least < Duration::from_micros(40), "{least:?}");
}
