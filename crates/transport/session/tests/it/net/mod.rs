//! Sessions over reliable pipes with a rate, a delay and a sender's buffer, as TCP connections are.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_session::streams::{ReadError, WriteError};
use manyway_session::{
    Carrier, Config, ConnectionHandle, ConnectionStats, Endpoint, Event, Facts, Incoming, Local,
    LocalId, PathStats, Purpose, Secrets, StreamId,
};
use manyway_units::Time;
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

/// What a kernel's send buffer takes, in bytes.
pub(crate) const BUFFER: usize = 64 << 10;
/// Read in one step.
pub(crate) const READ: usize = 1 << 20;

/// One direction of a connection.
#[derive(Default)]
pub(crate) struct Pipe {
    /// Bytes/s.
    pub(crate) rate: f64,
    pub(crate) delay: Duration,
    /// Handed over by the session, not taken by the kernel.
    pub(crate) outbox: VecDeque<Vec<u8>>,
    /// In the kernel: when it has left, and what.
    pub(crate) kernel: VecDeque<(Time, Vec<u8>)>,
    pub(crate) buffered: usize,
    pub(crate) flying: VecDeque<(Time, Vec<u8>)>,
    pub(crate) free: Time,
    /// Nothing moves.
    pub(crate) frozen: bool,
    /// The most that ever waited in the outbox, bytes.
    pub(crate) most: usize,
}

impl Pipe {
    pub(crate) fn next(&self) -> Option<Time> {
        let left = self.kernel.front().map(|(at, _)| *at);
        let arrives = self.flying.front().map(|(at, _)| *at);
        let next = [left, arrives].into_iter().flatten().min();
        next.filter(|_| !self.frozen)
    }

    /// Moves records along; what arrived, and how many bytes the kernel has taken.
    pub(crate) fn advance(&mut self, now: Time) -> (Vec<Vec<u8>>, u64) {
        let waiting = self.outbox.iter().map(Vec::len).sum();
        self.most = self.most.max(waiting);
        if self.frozen {
            return (Vec::new(), 0);
        }
        while self.kernel.front().is_some_and(|(at, _)| *at <= now) {
            let (at, record) = self.kernel.pop_front().expect("just seen");
            self.buffered -= record.len();
            self.flying.push_back((at + self.delay, record));
        }
        let mut taken = 0;
        while let Some(record) = self.outbox.front()
            && self.buffered + record.len() <= BUFFER
        {
            let record = self.outbox.pop_front().expect("just seen");
            taken += record.len() as u64;
            self.buffered += record.len();
            self.free =
                self.free.max(now) + Duration::from_secs_f64((record.len() + 2) as f64 / self.rate);
            self.kernel.push_back((self.free, record));
        }
        let mut arrived = Vec::new();
        while self.flying.front().is_some_and(|(at, _)| *at <= now) {
            arrived.extend(self.flying.pop_front().map(|(_, record)| record));
        }
        (arrived, taken)
    }
}

/// Sender at side 0, listener at side 1.
pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) ends: [Endpoint; 2],
    /// By carrier: what side 0 sends, and what side 1 sends.
    pub(crate) pipes: BTreeMap<LocalId, [Pipe; 2]>,
    pub(crate) client: ConnectionHandle,
    pub(crate) events: [Vec<(ConnectionHandle, Event)>; 2],
    pub(crate) datagrams: usize,
}

pub(crate) fn address(side: usize, id: LocalId) -> SocketAddr {
    SocketAddr::from(([10, 1, id.0 as u8, 1 + side as u8], 7000))
}

pub(crate) fn carrier(side: usize, id: LocalId, purpose: Purpose) -> Carrier {
    Carrier {
        local: Local {
            id,
            name: format!("tcp{}", id.0),
            addr: address(side, id),
            mtu: None,
        },
        remote: address(1 - side, id),
        facts: Facts::stream(),
        purpose,
    }
}

pub(crate) fn only_tcp() -> Config {
    Config {
        udp: false,
        ..Config::default()
    }
}

impl Net {
    /// Carriers of so many Mbps each, with a one-way delay of 10 ms.
    pub(crate) fn new(config: Config, mbps: &[f64]) -> Self {
        let secrets = Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32]));
        let ticket = secrets.ticket(vec![address(1, LocalId(0))]);
        let config = Arc::new(config);
        let mut ends =
            [1, 2].map(|seed| Endpoint::new(config.clone(), [seed; 32]).expect("a valid one"));
        ends[1].listen(secrets);
        let client = ends[0].connect(Time::ZERO, &ticket).expect("a ticket");
        let mut net = Self {
            now: Time::ZERO,
            ends,
            pipes: BTreeMap::new(),
            client,
            events: Default::default(),
            datagrams: 0,
        };
        for (number, mbps) in mbps.iter().enumerate() {
            net.dial(number as u32, *mbps);
        }
        net
    }

    pub(crate) fn dial(&mut self, number: u32, mbps: f64) {
        self.dial_by(number, mbps, false);
    }

    /// A carrier, which a relay may pass on.
    pub(crate) fn dial_by(&mut self, number: u32, mbps: f64, relay: bool) {
        let id = LocalId(1000 + number);
        let pipe = || Pipe {
            rate: mbps * 1e6 / 8.0,
            delay: Duration::from_millis(10),
            ..Pipe::default()
        };
        self.pipes.insert(id, [pipe(), pipe()]);
        let accepted = carrier(1, id, Purpose::Accepted);
        self.ends[1].add_carrier(self.now, accepted).expect("taken");
        let mut dialled = carrier(0, id, Purpose::Dialled(self.client));
        dialled.facts.relay = relay;
        self.ends[0].add_carrier(self.now, dialled).expect("wanted");
    }

    pub(crate) fn flush(&mut self) {
        let mut buf = Vec::new();
        for side in 0..2 {
            while let Some(transmit) = self.ends[side].poll_transmit(self.now, 8, &mut buf) {
                let Some(pipes) = self.pipes.get_mut(&transmit.local) else {
                    self.datagrams += 1;
                    continue;
                };
                for packet in buf.chunks(transmit.segment_size.unwrap_or(buf.len())) {
                    assert!(packet.len() <= manyway_session::MAX_RECORD);
                    pipes[side].outbox.push_back(packet.to_vec());
                }
            }
            while let Some(event) = self.ends[side].poll_event() {
                self.events[side].push(event);
            }
            while let Some(id) = self.ends[side].poll_carrier_over() {
                self.kill(id);
            }
        }
    }

    /// The connection breaks: both ends notice.
    pub(crate) fn kill(&mut self, id: LocalId) {
        if self.pipes.remove(&id).is_some() {
            let now = self.now;
            self.ends.iter_mut().for_each(|e| e.remove_carrier(now, id));
        }
    }

    /// Does what can be done now; then goes on to the next thing that happens, at most to `until`.
    pub(crate) fn step(&mut self, until: Time) {
        loop {
            self.flush();
            let mut moved = false;
            for (&id, pipes) in &mut self.pipes {
                for (side, pipe) in pipes.iter_mut().enumerate() {
                    let (arrived, taken) = pipe.advance(self.now);
                    moved |= taken > 0 || !arrived.is_empty();
                    self.ends[side].on_carrier_written(self.now, id, taken);
                    for mut data in arrived {
                        let incoming = Incoming {
                            local: id,
                            remote: address(side, id),
                            ecn: None,
                            data: &mut data,
                        };
                        self.ends[1 - side].handle_datagram(self.now, incoming);
                    }
                }
            }
            if !moved {
                break;
            }
        }
        let pipes = self.pipes.values().flatten().filter_map(Pipe::next);
        let timers = self.ends.iter().filter_map(Endpoint::timeout);
        let next = pipes.chain(timers).chain([until]).min().unwrap_or(until);
        assert!(next >= self.now, "time runs backwards");
        self.now = next;
        let now = self.now;
        self.ends.iter_mut().for_each(|e| e.handle_timeout(now));
        self.flush();
    }

    pub(crate) fn server(&self) -> Option<ConnectionHandle> {
        let connected = |(_, event): &&(ConnectionHandle, Event)| *event == Event::Connected;
        Some(self.events[1].iter().find(connected)?.0)
    }

    pub(crate) fn connected(&mut self) -> ConnectionHandle {
        while self.server().is_none() {
            assert!(self.now < Time::from_millis(5000), "no connection");
            self.step(Time::from_millis(5000));
        }
        self.server().expect("just seen")
    }

    pub(crate) fn stats(&mut self, side: usize) -> ConnectionStats {
        let handle = [Some(self.client), self.server()][side].expect("connected");
        self.ends[side].connection(handle).expect("alive").stats()
    }

    pub(crate) fn path(&mut self, number: u32) -> PathStats {
        let name = format!("tcp{}", 1000 + number);
        let mut paths = self.stats(0).paths;
        paths.retain(|p| p.name == name);
        paths.pop().expect("such a path")
    }
}

/// A stream from side 0 to side 1, whose bytes are known.
pub(crate) struct Flow {
    pub(crate) stream: StreamId,
    pub(crate) written: usize,
    /// Made, and not taken yet.
    pub(crate) piece: Bytes,
    pub(crate) read: usize,
    /// Nothing is written after so many bytes.
    pub(crate) len: usize,
    /// The receiver's application reads.
    pub(crate) reads: bool,
    pub(crate) over: bool,
}

pub(crate) fn byte(at: usize) -> u8 {
    (at * 7 + at / 251) as u8
}

impl Flow {
    pub(crate) fn open(net: &mut Net, len: usize) -> Self {
        net.connected();
        let client = net.client;
        let connection = net.ends[0].connection(client).expect("connected");
        Self {
            stream: connection.open().expect("streams left"),
            written: 0,
            piece: Bytes::new(),
            read: 0,
            len,
            reads: true,
            over: false,
        }
    }

    pub(crate) fn drive(&mut self, net: &mut Net) {
        let server = net.server().expect("connected");
        let (now, client) = (net.now, net.client);
        let connection = net.ends[0].connection(client).expect("alive");
        while self.written < self.len {
            if self.piece.is_empty() {
                let end = (self.written + (1 << 18)).min(self.len);
                self.piece = (self.written..end).map(byte).collect::<Vec<_>>().into();
            }
            match connection.write(self.stream, &mut self.piece) {
                Ok(len) => self.written += len,
                Err(WriteError::Blocked) => break,
                Err(error) => panic!("{error}"),
            }
            if self.written == self.len {
                connection.finish(self.stream).expect("open");
            }
        }
        let connection = net.ends[1].connection(server).expect("alive");
        while self.reads {
            match connection.read(now, self.stream, READ) {
                Ok(Some(bytes)) => {
                    let right = bytes.iter().zip(self.read..).all(|(b, at)| *b == byte(at));
                    assert!(right, "wrong bytes behind {}", self.read);
                    self.read += bytes.len();
                }
                Ok(None) => {
                    self.over = true;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Closed) if self.read == 0 => break,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Until the time, or the end.
    pub(crate) fn run(&mut self, net: &mut Net, until: Time) {
        while net.now < until && !self.over {
            self.drive(net);
            net.step(until);
        }
    }

    pub(crate) fn finish(&mut self, net: &mut Net, until: Time) {
        self.run(net, until);
        assert!(self.over, "{} of {} at {:?}", self.read, self.len, net.now);
        assert_eq!(self.read, self.len);
    }
}
