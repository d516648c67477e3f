//! Two endpoints joined by pipes of constant delay: the protocol's own behaviour, without a network
//! model.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_session::streams::{ReadError, StreamEvent, WriteError};
use manyway_session::{
    CloseReason, Config, ConnectionHandle, Endpoint, Event, Identity, Incoming, Local, LocalId,
    PathEvent, PathState, PeerId, Secrets, StreamId, Ticket,
};
use manyway_units::Time;
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

/// Sender at side 0, listener at side 1; path k joins 10.0.k.1 and 10.0.k.2.
struct Pair {
    now: Time,
    ends: [Endpoint; 2],
    wires: Vec<Wire>,
    in_flight: BinaryHeap<Reverse<Flying>>,
    sent: u64,
    events: [Vec<(ConnectionHandle, Event)>; 2],
    client: ConnectionHandle,
    ticket: Ticket,
}

/// Arrival, order of sending, wire, receiving side, datagram.
type Flying = (Time, u64, usize, usize, Vec<u8>);

#[derive(Clone)]
struct Wire {
    delay: Duration,
    dark: bool,
}

fn address(wire: usize, side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, wire as u8, 1 + side as u8], 4433))
}

fn local(wire: usize, side: usize) -> Local {
    Local {
        id: LocalId(wire as u32),
        name: format!("if{wire}"),
        addr: address(wire, side),
        mtu: None,
    }
}

impl Pair {
    fn new(config: Config, delays_ms: &[u64]) -> Self {
        let config = Arc::new(config);
        let secrets = Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32]));
        let addresses = (0..delays_ms.len()).map(|wire| address(wire, 1)).collect();
        let ticket: Ticket = secrets.ticket(addresses);
        let mut ends = [1, 2]
            .map(|seed| Endpoint::new(config.clone(), [seed; 32]).expect("a valid configuration"));
        for (side, end) in ends.iter_mut().enumerate() {
            for wire in 0..delays_ms.len() {
                end.add_local(Time::ZERO, local(wire, side));
            }
        }
        ends[1].listen(secrets);
        let client = ends[0].connect(Time::ZERO, &ticket).expect("pairs exist");
        let wires = delays_ms
            .iter()
            .map(|ms| Wire {
                delay: Duration::from_millis(*ms),
                dark: false,
            })
            .collect();
        Self {
            now: Time::ZERO,
            ends,
            wires,
            in_flight: BinaryHeap::new(),
            sent: 0,
            events: [vec![], vec![]],
            client,
            ticket,
        }
    }

    fn flush(&mut self) {
        let mut buf = Vec::new();
        for side in 0..2 {
            while let Some(transmit) = self.ends[side].poll_transmit(self.now, 8, &mut buf) {
                let wire = transmit.local.0 as usize;
                // Each subnet is a wire of its own; other pairs lead nowhere.
                if transmit.remote != address(wire, 1 - side) || self.wires[wire].dark {
                    continue;
                }
                for datagram in buf.chunks(transmit.segment_size.unwrap_or(buf.len())) {
                    self.sent += 1;
                    let at = self.now + self.wires[wire].delay;
                    self.in_flight.push(Reverse((
                        at,
                        self.sent,
                        wire,
                        1 - side,
                        datagram.to_vec(),
                    )));
                }
            }
            while let Some(event) = self.ends[side].poll_event() {
                self.events[side].push(event);
            }
        }
    }

    /// Advances to the next thing that happens.
    fn step(&mut self) {
        self.flush();
        let arrival = self.in_flight.peek().map(|Reverse((at, ..))| *at);
        let timers = self.ends.iter().filter_map(Endpoint::timeout).min();
        let Some(next) = [arrival, timers].into_iter().flatten().min() else {
            panic!("nothing will ever happen")
        };
        assert!(
            next >= self.now,
            "time runs backwards: {next:?} after {:?}",
            self.now
        );
        self.now = next;
        while let Some(Reverse((at, ..))) = self.in_flight.peek()
            && *at <= self.now
        {
            let Some(Reverse((_, _, wire, side, mut data))) = self.in_flight.pop() else {
                break;
            };
            let incoming = Incoming {
                local: LocalId(wire as u32),
                remote: address(wire, 1 - side),
                ecn: None,
                data: &mut data,
            };
            self.ends[side].handle_datagram(self.now, incoming);
        }
        for end in &mut self.ends {
            end.handle_timeout(self.now);
        }
        self.flush();
    }

    fn run_until(&mut self, until: Time, mut done: impl FnMut(&mut Self) -> bool) {
        let mut steps = 0;
        while !done(self) {
            assert!(
                self.now < until,
                "not done at {:?}; {:?}",
                self.now,
                self.events
            );
            self.step();
            steps += 1;
            assert!(steps < 2_000_000, "busy loop at {:?}", self.now);
        }
    }

    fn server(&self) -> Option<ConnectionHandle> {
        self.events[1]
            .iter()
            .find(|(_, e)| *e == Event::Connected)
            .map(|(handle, _)| *handle)
    }

    fn connected(&mut self) -> ConnectionHandle {
        self.run_until(Time::from_millis(5000), |pair| pair.server().is_some());
        self.server().expect("just checked")
    }

    /// How long a transfer takes once there is a connection.
    fn timed_transfer(&mut self, len: usize) -> Duration {
        self.connected();
        let from = self.now;
        self.transfer(len, from + Duration::from_secs(60), |_, _| {});
        self.now.since(from)
    }

    /// Sends `len` bytes from side 0 to side 1 on one stream, checking each; returns when the end
    /// was read.
    fn transfer(&mut self, len: usize, until: Time, mut each_step: impl FnMut(&mut Self, usize)) {
        let server = self.connected();
        let client = self.client;
        let stream = self.ends[0]
            .connection(client)
            .expect("connected")
            .open()
            .expect("streams left");
        let data: Bytes = (0..len)
            .map(|i| (i * 7 + i / 251) as u8)
            .collect::<Vec<_>>()
            .into();
        let mut left = data.clone();
        let (mut read, mut finished) = (0, false);
        self.run_until(until, |pair| {
            let now = pair.now;
            let connection = pair.ends[0].connection(client).expect("alive");
            while !left.is_empty() {
                match connection.write(stream, &mut left) {
                    Ok(_) => {}
                    Err(WriteError::Blocked) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            if left.is_empty() && !finished {
                connection.finish(stream).expect("open");
                finished = true;
            }
            let connection = pair.ends[1].connection(server).expect("alive");
            let done = loop {
                match connection.read(now, stream, 100_000) {
                    Ok(Some(bytes)) => {
                        assert_eq!(bytes, data[read..read + bytes.len()], "at {read}");
                        read += bytes.len();
                    }
                    Ok(None) => break true,
                    Err(ReadError::Blocked) => break false,
                    // Not opened yet: the first bytes are still under way.
                    Err(ReadError::Closed) if read == 0 => break false,
                    Err(error) => panic!("{error}"),
                }
            };
            each_step(pair, read);
            done
        });
        assert_eq!(read, len);
    }
}

#[test]
fn each_side_learns_who_the_other_is() {
    let known = Identity::generate(&mut ChaCha20Rng::from_seed([8; 32]));
    for identity in [None, Some(known)] {
        let expected = identity.as_ref().map(Identity::id);
        let config = Config {
            identity,
            ..Config::default()
        };
        let mut pair = Pair::new(config, &[10]);
        let (server, client) = (pair.connected(), pair.client);
        let listener = PeerId(pair.ticket.public_key);
        let handles = [client, server];
        let seen = [0, 1].map(|side| {
            let connection = pair.ends[side].connection(handles[side]);
            connection.expect("connected").peer()
        });
        assert_eq!(seen, [Some(listener), expected]);
    }
}

#[test]
fn a_stream_crosses_one_path() {
    let mut pair = Pair::new(Config::default(), &[10]);
    pair.transfer(3_000_000, Time::from_millis(20_000), |_, _| {});
}

#[test]
fn a_stream_crosses_three_paths_and_uses_them_all() {
    // None is more than twice as slow as another: beyond that, wires without a rate are worth
    // waiting for.
    let mut pair = Pair::new(Config::default(), &[10, 14, 18]);
    pair.transfer(20_000_000, Time::from_millis(20_000), |_, _| {});
    let client = pair.client;
    let stats = pair.ends[0].connection(client).expect("alive").stats();
    for path in stats.paths.iter().filter(|p| p.state == PathState::Active) {
        assert!(path.stream_bytes_sent > 100_000, "{path:#?}");
        // `auto` forms groups.
        assert!(path.group.is_some(), "{path:#?}");
    }
    assert_eq!(
        stats
            .paths
            .iter()
            .filter(|p| p.state == PathState::Active)
            .count(),
        3
    );
}

#[test]
fn a_path_that_goes_dark_loses_nothing_and_comes_back() {
    let mut pair = Pair::new(Config::default(), &[10, 10]);
    pair.transfer(200_000_000, Time::from_millis(60_000), |pair, read| {
        pair.wires[0].dark = (40_000_000..120_000_000).contains(&read);
    });
    let client = pair.client;
    let downs = pair.events[0]
        .iter()
        .filter(|(_, e)| matches!(e, Event::Path(PathEvent::Down { .. })))
        .count();
    assert!(downs >= 1, "{:?}", pair.events[0]);
    let stats = pair.ends[0].connection(client).expect("alive").stats();
    assert!(stats.bytes_resent > 0);
}

/// What the last path between two hosts carried is known to the next one: it starts from half.
#[test]
fn the_next_connection_starts_from_what_the_last_one_carried() {
    let mut pair = Pair::new(Config::default(), &[50]);
    let first = pair.timed_transfer(10_000_000);
    let (now, client) = (pair.now, pair.client);
    let connection = pair.ends[0].connection(client).expect("alive");
    connection.close(now, 0, "done");
    pair.step();
    pair.ends[0].forget(client);
    pair.events = Default::default();
    let connecting = pair.ends[0].connect(pair.now, &pair.ticket);
    pair.client = connecting.expect("pairs exist");
    let second = pair.timed_transfer(10_000_000);
    assert!(second < first * 3 / 4, "{first:?}, {second:?}");
}

#[test]
fn an_interface_that_comes_back_starts_from_what_it_carried() {
    let mut pair = Pair::new(Config::default(), &[80, 50]);
    let window = |pair: &mut Pair, path: usize| {
        let client = pair.client;
        let stats = pair.ends[0].connection(client).expect("alive").stats();
        let mut there = stats.paths.iter();
        let there = there.find(|p| p.name == "if1" && p.state == PathState::Active);
        there.filter(|p| p.id.0 as usize >= path).map(|p| p.window)
    };
    let (mut before, mut gone, mut back, mut after) = (0.0, None, None, 0.0);
    pair.transfer(100_000_000, Time::from_millis(60_000), |pair, read| {
        let now = pair.now;
        match gone {
            None if read > 20_000_000 => {
                before = window(pair, 0).expect("in use");
                pair.ends[0].remove_local(now, LocalId(1));
                gone = Some(now);
            }
            Some(at) if back.is_none() && now > at + Duration::from_millis(300) => {
                pair.ends[0].add_local(now, local(1, 0));
                back = Some(now);
            }
            _ => {}
        }
        // The challenge takes a round trip, the first window another one.
        if back.is_some_and(|at| now < at + Duration::from_millis(310)) {
            after = window(pair, 2).unwrap_or(after);
        }
    });
    // What it starts from without: ten packets, doubled twice at most.
    assert!(before > 500.0 && after > 400.0, "{before}, {after}");
}

#[test]
fn keys_roll_during_a_transfer() {
    let config = Config {
        epoch_packets: 100,
        ..Config::default()
    };
    let mut pair = Pair::new(config, &[5, 8]);
    // About 4200 packets each way: more than 40 epochs of data.
    pair.transfer(5_000_000, Time::from_millis(20_000), |_, _| {});
}

#[test]
fn the_peer_learns_why_the_connection_ended() {
    let mut pair = Pair::new(Config::default(), &[10]);
    pair.connected();
    let (now, client) = (pair.now, pair.client);
    pair.ends[0].connection(client).expect("alive").close(
        now,
        0x142,
        "the disk\nis \u{1b}[1mfull\u{202e}",
    );
    pair.run_until(Time::from_millis(10_000), |pair| {
        pair.events[1]
            .iter()
            .any(|(_, e)| matches!(e, Event::Closed(_)))
    });
    let reason = CloseReason::Peer {
        code: 0x142,
        // Fit for a terminal.
        reason: r"the disk\nis \u{1b}[1mfull\u{202e}".into(),
    };
    assert!(
        pair.events[1]
            .iter()
            .any(|(_, e)| *e == Event::Closed(reason.clone())),
        "{:?}",
        pair.events[1]
    );
}

#[test]
fn silence_ends_the_connection_with_a_reason() {
    let mut pair = Pair::new(Config::default(), &[10]);
    pair.connected();
    pair.wires[0].dark = true;
    pair.run_until(Time::from_millis(60_000), |pair| {
        pair.events[0]
            .iter()
            .any(|(_, e)| matches!(e, Event::Closed(CloseReason::TimedOut { seconds: 30, .. })))
    });
}

#[test]
fn an_idle_connection_stays_alive() {
    let mut pair = Pair::new(Config::default(), &[10, 20]);
    pair.connected();
    pair.run_until(Time::from_millis(200_000), |pair| {
        pair.now > Time::from_millis(120_000)
    });
    assert!(
        !pair.events[0]
            .iter()
            .any(|(_, e)| matches!(e, Event::Closed(_))),
        "{:?}",
        pair.events[0]
    );
    assert!(
        pair.sent < 400,
        "{} datagrams in two idle minutes",
        pair.sent
    );
}

#[test]
fn nobody_there_is_told_with_the_addresses() {
    let mut pair = Pair::new(Config::default(), &[10, 10]);
    pair.wires[0].dark = true;
    pair.wires[1].dark = true;
    pair.run_until(Time::from_millis(30_000), |pair| !pair.events[0].is_empty());
    let [(_, Event::Closed(reason))] = &pair.events[0][..] else {
        panic!("{:?}", pair.events[0])
    };
    assert!(reason.to_string().contains("10.0.0.2:4433"), "{reason}");
}

#[test]
fn finished_is_told_when_the_peer_has_it_all() {
    let mut pair = Pair::new(Config::default(), &[10]);
    pair.transfer(100_000, Time::from_millis(5_000), |_, _| {});
    pair.run_until(Time::from_millis(6_000), |pair| {
        pair.events[0]
            .iter()
            .any(|(_, e)| *e == Event::Stream(StreamEvent::Finished(StreamId(0))))
    });
}

#[test]
fn a_rate_limit_holds() {
    let limit = "16 Mbps".parse().expect("a rate");
    let mut pair = Pair::new(
        Config {
            limit: Some(limit),
            ..Config::default()
        },
        &[5, 5],
    );
    pair.transfer(4_000_000, Time::from_millis(10_000), |_, _| {});
    // 4 MB at 2 MB/s; the bucket and the last round trip are the slack.
    let seconds = pair.now.as_secs_f64();
    assert!((1.95..2.6).contains(&seconds), "{seconds}");
}
