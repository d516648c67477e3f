//! Sessions over reliable pipes with a rate, a delay and a sender's buffer, as TCP connections are: what the session does with paths that control
//! congestion themselves.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_session::streams::{ReadError, WriteError};
use manyway_session::{
    Carrier, CarrierError, CarrierKind, Config, ConnectionHandle, ConnectionStats, Endpoint, Event,
    Facts, Incoming, Local, LocalId, PathDownReason, PathState, PathStats, Purpose, Secrets,
    StreamId,
};
use manyway_units::{Rate, Time};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

/// What a kernel's send buffer takes, in bytes.
const BUFFER: usize = 64 << 10;
/// Read in one step.
const READ: usize = 1 << 20;

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    /// Bytes/s.
    rate: f64,
    delay: Duration,
    /// Handed over by the session, not taken by the kernel.
    outbox: VecDeque<Vec<u8>>,
    /// In the kernel: when it has left, and what.
    kernel: VecDeque<(Time, Vec<u8>)>,
    buffered: usize,
    flying: VecDeque<(Time, Vec<u8>)>,
    free: Time,
    /// Nothing moves.
    frozen: bool,
    /// The most that ever waited in the outbox, bytes.
    most: usize,
}

impl Pipe {
    fn next(&self) -> Option<Time> {
        let left = self.kernel.front().map(|(at, _)| *at);
        let arrives = self.flying.front().map(|(at, _)| *at);
        let next = [left, arrives].into_iter().flatten().min();
        next.filter(|_| !self.frozen)
    }

    /// Moves records along; what arrived, and how many bytes the kernel has taken.
    fn advance(&mut self, now: Time) -> (Vec<Vec<u8>>, u64) {
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
struct Net {
    now: Time,
    ends: [Endpoint; 2],
    /// By carrier: what side 0 sends, and what side 1 sends.
    pipes: BTreeMap<LocalId, [Pipe; 2]>,
    client: ConnectionHandle,
    events: [Vec<(ConnectionHandle, Event)>; 2],
    datagrams: usize,
}

fn address(side: usize, id: LocalId) -> SocketAddr {
    SocketAddr::from(([10, 1, id.0 as u8, 1 + side as u8], 7000))
}

fn carrier(side: usize, id: LocalId, purpose: Purpose) -> Carrier {
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

fn only_tcp() -> Config {
    Config {
        udp: false,
        ..Config::default()
    }
}

impl Net {
    /// Carriers of so many Mbps each, with a one-way delay of 10 ms.
    fn new(config: Config, mbps: &[f64]) -> Self {
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

    fn dial(&mut self, number: u32, mbps: f64) {
        let id = LocalId(1000 + number);
        let pipe = || Pipe {
            rate: mbps * 1e6 / 8.0,
            delay: Duration::from_millis(10),
            ..Pipe::default()
        };
        self.pipes.insert(id, [pipe(), pipe()]);
        let accepted = carrier(1, id, Purpose::Accepted);
        self.ends[1].add_carrier(self.now, accepted).expect("taken");
        let dialled = carrier(0, id, Purpose::Dialled(self.client));
        self.ends[0].add_carrier(self.now, dialled).expect("wanted");
    }

    fn flush(&mut self) {
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
    fn kill(&mut self, id: LocalId) {
        if self.pipes.remove(&id).is_some() {
            let now = self.now;
            self.ends.iter_mut().for_each(|e| e.remove_carrier(now, id));
        }
    }

    /// Does what can be done now; then goes on to the next thing that happens, at most to `until`.
    fn step(&mut self, until: Time) {
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

    fn server(&self) -> Option<ConnectionHandle> {
        let connected = |(_, event): &&(ConnectionHandle, Event)| *event == Event::Connected;
        Some(self.events[1].iter().find(connected)?.0)
    }

    fn connected(&mut self) -> ConnectionHandle {
        while self.server().is_none() {
            assert!(self.now < Time::from_millis(5000), "no connection");
            self.step(Time::from_millis(5000));
        }
        self.server().expect("just seen")
    }

    fn stats(&mut self, side: usize) -> ConnectionStats {
        let handle = [Some(self.client), self.server()][side].expect("connected");
        self.ends[side].connection(handle).expect("alive").stats()
    }

    fn path(&mut self, number: u32) -> PathStats {
        let name = format!("tcp{}", 1000 + number);
        let mut paths = self.stats(0).paths;
        paths.retain(|p| p.name == name);
        paths.pop().expect("such a path")
    }
}

/// A stream from side 0 to side 1, whose bytes are known.
struct Flow {
    stream: StreamId,
    written: usize,
    /// Made, and not taken yet.
    piece: Bytes,
    read: usize,
    /// Nothing is written after so many bytes.
    len: usize,
    /// The receiver's application reads.
    reads: bool,
    over: bool,
}

fn byte(at: usize) -> u8 {
    (at * 7 + at / 251) as u8
}

impl Flow {
    fn open(net: &mut Net, len: usize) -> Self {
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

    fn drive(&mut self, net: &mut Net) {
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
    fn run(&mut self, net: &mut Net, until: Time) {
        while net.now < until && !self.over {
            self.drive(net);
            net.step(until);
        }
    }

    fn finish(&mut self, net: &mut Net, until: Time) {
        self.run(net, until);
        assert!(self.over, "{} of {} at {:?}", self.read, self.len, net.now);
        assert_eq!(self.read, self.len);
    }
}

#[test]
fn a_transfer_over_one_carrier_needs_no_datagram() {
    let mut net = Net::new(only_tcp(), &[20.0]);
    let mut flow = Flow::open(&mut net, 5_000_000);
    flow.finish(&mut net, Time::from_millis(2500));
    assert_eq!(net.datagrams, 0);
    let path = net.path(0);
    assert_eq!(
        (path.carrier, path.state, path.window),
        (CarrierKind::Tcp, PathState::Active, 0.0)
    );
    let stats = net.stats(0);
    assert_eq!(
        (stats.paths.len(), stats.bytes_resent, path.packets_lost),
        (1, 0, 0)
    );
    // 16 KiB records: an ACK of each tenth is next to nothing.
    assert!(net.stats(1).paths[0].bytes_sent < 20_000);
}

/// The optimum is the sum of the capacities, less two bytes and a header per record.
#[test]
fn two_carriers_add_up() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, usize::MAX);
    flow.run(&mut net, Time::from_millis(5_000));
    let before = flow.read;
    flow.run(&mut net, Time::from_millis(35_000));
    let mbps = (flow.read - before) as f64 * 8.0 / 30e6;
    assert!(mbps > 0.97 * 30.0, "{mbps}");
    let controlled: Vec<_> = net.stats(0).paths.iter().map(|p| p.target).collect();
    assert!(controlled.iter().all(Option::is_some), "{controlled:?}");
    // 10 MB in flight would be 2.7 s of waiting: what is handed over stays near what the pipes take.
    assert!(
        net.stats(0)
            .paths
            .iter()
            .all(|p| p.bytes_in_flight < 400_000)
    );
}

#[test]
fn a_carrier_that_grows_is_found() {
    let mut net = Net::new(only_tcp(), &[4.0, 10.0]);
    let mut flow = Flow::open(&mut net, usize::MAX);
    flow.run(&mut net, Time::from_millis(10_000));
    for pipe in net.pipes.get_mut(&LocalId(1000)).expect("there") {
        pipe.rate = 20e6 / 8.0;
    }
    // It is probed about every second time, and increased by a tenth and more: some twenty intervals.
    flow.run(&mut net, Time::from_millis(40_000));
    let before = flow.read;
    flow.run(&mut net, Time::from_millis(60_000));
    let mbps = (flow.read - before) as f64 * 8.0 / 20e6;
    assert!(mbps > 0.9 * 30.0, "{mbps}");
}

#[test]
fn a_carrier_that_shrinks_takes_nothing_from_the_other() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, usize::MAX);
    flow.run(&mut net, Time::from_millis(10_000));
    net.pipes.get_mut(&LocalId(1000)).expect("there")[0].rate = 1e6 / 8.0;
    flow.run(&mut net, Time::from_millis(15_000));
    let before = flow.read;
    flow.run(&mut net, Time::from_millis(65_000));
    let mbps = (flow.read - before) as f64 * 8.0 / 50e6;
    assert!(mbps > 0.9 * 11.0, "{mbps}");
}

#[test]
fn a_broken_carriers_data_comes_by_the_other() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, 12_000_000);
    flow.run(&mut net, Time::from_millis(1500));
    assert!(net.path(0).bytes_in_flight > 0);
    net.kill(LocalId(1000));
    flow.finish(&mut net, Time::from_millis(12_000));
    let closed = |(_, event): &(ConnectionHandle, Event)| {
        matches!(
            event,
            Event::PathDown {
                reason: PathDownReason::CarrierClosed,
                ..
            }
        )
    };
    assert!(net.events[0].iter().any(closed), "{:?}", net.events[0]);
    assert!(net.stats(0).bytes_resent > 0);
}

#[test]
fn a_stuck_carriers_data_comes_by_the_other_and_it_may_come_back() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, 20_000_000);
    flow.run(&mut net, Time::from_millis(1500));
    net.pipes.get_mut(&LocalId(1000)).expect("there")[0].frozen = true;
    flow.run(&mut net, Time::from_millis(2400));
    let read = flow.read;
    // A second without progress, and what is missing comes by the other.
    flow.run(&mut net, Time::from_millis(3500));
    assert_eq!(net.path(0).state, PathState::Stalled);
    assert!(flow.read > read + 500_000, "{} {read}", flow.read);
    for pipe in net.pipes.get_mut(&LocalId(1000)).expect("there") {
        pipe.frozen = false;
        pipe.free = net.now;
    }
    flow.run(&mut net, Time::from_millis(4500));
    assert_eq!(net.path(0).state, PathState::Active);
    flow.finish(&mut net, Time::from_millis(12_000));
}

#[test]
fn all_carriers_gone_and_a_new_one_goes_on() {
    let mut net = Net::new(only_tcp(), &[20.0]);
    let mut flow = Flow::open(&mut net, 5_000_000);
    flow.run(&mut net, Time::from_millis(700));
    net.kill(LocalId(1000));
    flow.run(&mut net, Time::from_millis(3000));
    let read = flow.read;
    assert!(read < 5_000_000);
    net.dial(1, 20.0);
    flow.finish(&mut net, Time::from_millis(6000));
}

#[test]
fn the_only_carrier_is_given_up_when_it_is_stuck_for_long() {
    let mut net = Net::new(only_tcp(), &[20.0]);
    let mut flow = Flow::open(&mut net, 5_000_000);
    flow.run(&mut net, Time::from_millis(700));
    for pipe in net.pipes.get_mut(&LocalId(1000)).expect("there") {
        pipe.frozen = true;
    }
    flow.run(&mut net, Time::from_millis(4_000));
    assert_eq!(net.pipes.len(), 1, "it may yet go on");
    flow.run(&mut net, Time::from_millis(8_000));
    assert!(net.pipes.is_empty());
    net.dial(1, 20.0);
    flow.finish(&mut net, Time::from_millis(12_000));
}

#[test]
fn an_application_that_reads_nothing_stops_the_sender_and_no_carrier() {
    let config = Config {
        receive_window: 1 << 20,
        ..only_tcp()
    };
    let mut net = Net::new(config, &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, 8_000_000);
    flow.reads = false;
    flow.run(&mut net, Time::from_millis(20_000));
    let received = net.stats(1).bytes_received;
    // Copies of the last packets may come on top.
    assert!((900_000..1_600_000).contains(&received), "{received}");
    for pipe in net.pipes.values().flatten() {
        assert!(pipe.outbox.is_empty() && pipe.kernel.is_empty() && pipe.flying.is_empty());
    }
    flow.reads = true;
    flow.finish(&mut net, Time::from_millis(26_000));
}

#[test]
fn a_socket_that_takes_nothing_holds_a_bounded_amount() {
    // The way back is stuck too: the listener's ACKs pile up nowhere.
    let mut net = Net::new(only_tcp(), &[50.0]);
    let mut flow = Flow::open(&mut net, usize::MAX);
    flow.run(&mut net, Time::from_millis(1000));
    net.pipes.get_mut(&LocalId(1000)).expect("there")[1].frozen = true;
    flow.run(&mut net, Time::from_millis(2000));
    net.pipes.get_mut(&LocalId(1000)).expect("there")[0].frozen = true;
    flow.run(&mut net, Time::from_millis(20_000));
    for pipe in net.pipes.values().flatten() {
        assert!(
            pipe.most <= 16 * manyway_session::MAX_RECORD,
            "{}",
            pipe.most
        );
    }
    assert!(net.path(0).bytes_in_flight <= 16 << 20);
    for pipe in net.pipes.values_mut().flatten() {
        pipe.frozen = false;
    }
    flow.run(&mut net, Time::from_millis(22_000));
    assert!(flow.read > 5_000_000);
}

#[test]
fn a_limit_is_the_demand_and_carriers_share_it() {
    let config = Config {
        limit: Some(Rate::from_mbps(6.0)),
        ..only_tcp()
    };
    let mut net = Net::new(config, &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, usize::MAX);
    flow.run(&mut net, Time::from_millis(5_000));
    let before = flow.read;
    flow.run(&mut net, Time::from_millis(25_000));
    let mbps = (flow.read - before) as f64 * 8.0 / 20e6;
    assert!((5.7..=6.05).contains(&mbps), "{mbps}");
    let targets: f64 = net.stats(0).paths.iter().filter_map(|p| p.target).sum();
    assert!(targets * 8.0 <= 6e6 * 1.0001, "{targets}");
}

#[test]
fn carriers_that_promise_too_little_or_too_much_are_refused() {
    let mut net = Net::new(only_tcp(), &[20.0]);
    net.connected();
    let id = LocalId(7);
    let good = carrier(0, id, Purpose::Dialled(net.client));
    for facts in [
        Facts::datagrams(1200),
        Facts {
            reliable: false,
            ..Facts::stream()
        },
        Facts {
            max_packet: 1 << 20,
            ..Facts::stream()
        },
    ] {
        let wrong = Carrier {
            facts,
            ..good.clone()
        };
        let refused = net.ends[0].add_carrier(net.now, wrong);
        assert_eq!(refused, Err(CarrierError::Facts));
    }
    let taken = carrier(0, LocalId(1000), Purpose::Accepted);
    assert_eq!(
        net.ends[0].add_carrier(net.now, taken),
        Err(CarrierError::Taken)
    );
    // The listener opens no paths.
    let server = net.server().expect("connected");
    let listener = carrier(1, id, Purpose::Dialled(server));
    assert_eq!(
        net.ends[1].add_carrier(net.now, listener),
        Err(CarrierError::Unwanted)
    );
}

#[test]
fn packets_copied_onto_another_connection_change_nothing() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, 3_000_000);
    flow.run(&mut net, Time::from_millis(500));
    let before = net.stats(1);
    let foreign = LocalId(5000);
    net.ends[1]
        .add_carrier(net.now, carrier(1, foreign, Purpose::Accepted))
        .expect("taken");
    let copies: Vec<Vec<u8>> = net
        .pipes
        .values()
        .flat_map(|pipes| pipes[0].kernel.iter().map(|(_, record)| record.clone()))
        .collect();
    assert!(!copies.is_empty());
    for mut data in copies {
        let incoming = Incoming {
            local: foreign,
            remote: address(0, foreign),
            ecn: None,
            data: &mut data,
        };
        net.ends[1].handle_datagram(net.now, incoming);
    }
    assert!(!net.ends[1].carrier_in_use(foreign));
    let after = net.stats(1);
    assert_eq!(after.paths.len(), before.paths.len());
    flow.finish(&mut net, Time::from_millis(4000));
}

#[test]
fn a_close_is_heard_and_the_carriers_end() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let server = net.connected();
    let (now, client) = (net.now, net.client);
    let connection = net.ends[0].connection(client).expect("alive");
    connection.close(now, 0x123, "enough");
    let heard = |(_, event): &(ConnectionHandle, Event)| matches!(event, Event::Closed(reason) if reason.to_string().contains("enough"));
    while !net.events[1].iter().any(heard) {
        assert!(net.now < Time::from_millis(9000), "nothing heard");
        net.step(Time::from_millis(9000));
    }
    net.ends[0].forget(client);
    net.ends[1].forget(server);
    net.flush();
    assert!(net.pipes.is_empty());
}
