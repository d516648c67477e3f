//! Datagrams of the application, as a tunnel sends them, over links with rates, delays and queues.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_network::{Link, LinkConfig, Packet, Verdict};
use manyway_session::streams::WriteError;
use manyway_session::{
    Config, ConnectionHandle, ConnectionStats, DatagramError, DatagramEvent, Endpoint, Event,
    Incoming, Local, LocalId, Secrets, StreamId,
};
use manyway_units::{Rate, Time};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

/// IPv4 and UDP.
const HEADERS: usize = 28;
/// A packet of 1280 bytes and its number.
const DATAGRAM: usize = 1284;

/// What arrives: on this side, over this path.
type Arrival = (Time, u64, usize, usize, Vec<u8>);

/// A client at side 0 and a server at side 1.
struct Net {
    now: Time,
    ends: [Endpoint; 2],
    links: Vec<[Link; 2]>,
    /// The largest UDP payload that each path carries.
    carries: Vec<usize>,
    dark: Vec<bool>,
    due: BinaryHeap<Reverse<Arrival>>,
    count: u64,
    handles: [Option<ConnectionHandle>; 2],
    /// Whether the client has datagrams whenever there is room, and bulk data on a stream.
    fills: bool,
    stream: Option<StreamId>,
    /// Datagrams that the server got: when they were sent, and when they came.
    came: Vec<(Time, Time)>,
    read: u64,
}

fn address(side: usize, path: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, path as u8, 1 + side as u8], 4433))
}

fn config() -> Config {
    Config {
        datagram: Some(DATAGRAM),
        ..Config::default()
    }
}

impl Net {
    /// Links of so many Mbps with 10 ms each way, and what each carries.
    fn new(configs: [Config; 2], links: &[(f64, usize)]) -> Self {
        let secrets = Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32]));
        let paths = 0..links.len();
        let ticket = secrets.ticket(paths.clone().map(|path| address(1, path)).collect());
        let mut seed = 0;
        let mut ends = configs.map(|config| {
            seed += 1;
            Endpoint::new(Arc::new(config), [seed; 32]).expect("a valid one")
        });
        for (side, end) in ends.iter_mut().enumerate() {
            for path in paths.clone() {
                let local = Local {
                    id: LocalId(path as u32),
                    name: format!("if{path}"),
                    addr: address(side, path),
                    mtu: None,
                };
                end.add_local(Time::ZERO, local);
            }
        }
        ends[1].listen(secrets);
        ends[0].connect(Time::ZERO, &ticket).expect("pairs exist");
        let link = |mbps: f64| {
            let config = LinkConfig::new(Rate::from_mbps(mbps), Duration::from_millis(10));
            [0, 1].map(|_| Link::new(config.clone()).expect("a valid link"))
        };
        let mut net = Self {
            now: Time::ZERO,
            ends,
            links: links.iter().map(|(mbps, _)| link(*mbps)).collect(),
            carries: links.iter().map(|(_, carries)| *carries).collect(),
            dark: vec![false; links.len()],
            due: BinaryHeap::new(),
            count: 0,
            handles: [None; 2],
            fills: false,
            stream: None,
            came: Vec::new(),
            read: 0,
        };
        net.run(1000);
        assert!(net.handles.iter().all(Option::is_some), "no connection");
        net
    }

    /// For so many milliseconds.
    fn run(&mut self, ms: u64) {
        let until = self.now + Duration::from_millis(ms);
        while self.now < until {
            self.flush();
            let arrives = self.due.peek().map(|Reverse((at, ..))| *at);
            let timers = self.ends.iter().filter_map(Endpoint::timeout);
            let next = timers.chain(arrives).chain([until]).min();
            self.now = next.expect("there is an end").max(self.now);
            while let Some(Reverse((at, ..))) = self.due.peek()
                && *at <= self.now
                && let Some(Reverse((_, _, side, path, mut data))) = self.due.pop()
            {
                let incoming = Incoming {
                    local: LocalId(path as u32),
                    remote: address(1 - side, path),
                    ecn: None,
                    data: &mut data,
                };
                self.ends[side].handle_datagram(self.now, incoming);
            }
            let now = self.now;
            self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
        }
    }

    /// Applications do what they can, and endpoints send what they may.
    fn flush(&mut self) {
        let mut buf = Vec::new();
        loop {
            let mut quiet = true;
            for side in 0..2 {
                while let Some((handle, event)) = self.ends[side].poll_event() {
                    if event == Event::Connected {
                        self.handles[side] = Some(handle);
                    }
                }
            }
            self.client();
            self.server();
            for side in 0..2 {
                while let Some(transmit) = self.ends[side].poll_transmit(self.now, 8, &mut buf) {
                    quiet = false;
                    let path = transmit.local.0 as usize;
                    // No route leads from one path's address to the other's.
                    if transmit.remote != address(1 - side, path) {
                        continue;
                    }
                    for data in buf.chunks(transmit.segment_size.unwrap_or(buf.len())) {
                        self.offer(side, path, data);
                    }
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn offer(&mut self, side: usize, path: usize, data: &[u8]) {
        if self.dark[path] || data.len() > self.carries[path] {
            return;
        }
        let packet = Packet::new((data.len() + HEADERS) as u32);
        if let Verdict::Delivered { arrives, .. } = self.links[path][side].offer(self.now, packet) {
            self.count += 1;
            let arrival = (arrives, self.count, 1 - side, path, data.to_vec());
            self.due.push(Reverse(arrival));
        }
    }

    /// A datagram that says when it was sent.
    fn send(&mut self) -> Result<(), DatagramError> {
        let now = self.now;
        let mut data = now.as_nanos().to_be_bytes().to_vec();
        data.resize(DATAGRAM, 0);
        let client = self.handles[0].expect("connected");
        let connection = self.ends[0].connection(client).expect("alive");
        connection.send_datagram(now, data.into())
    }

    fn client(&mut self) {
        while self.fills && self.send().is_ok() {}
        if let (Some(stream), Some(client)) = (self.stream, self.handles[0]) {
            let connection = self.ends[0].connection(client).expect("alive");
            let mut data = Bytes::from(vec![1; 1 << 16]);
            while !matches!(
                connection.write(stream, &mut data),
                Err(WriteError::Blocked)
            ) {
                data = Bytes::from(vec![1; 1 << 16]);
            }
        }
    }

    fn server(&mut self) {
        let now = self.now;
        let Some(server) = self.handles[1] else {
            return;
        };
        let connection = self.ends[1].connection(server).expect("alive");
        while let Some(data) = connection.recv_datagram() {
            let sent = data[..8]
                .try_into()
                .map(u64::from_be_bytes)
                .expect("a time");
            self.came.push((Time::from_nanos(sent), now));
        }
        while let Ok(Some(data)) = connection.read(now, StreamId(0), usize::MAX) {
            self.read += data.len() as u64;
        }
    }

    fn fill_stream(&mut self) {
        let client = self.handles[0].expect("connected");
        let connection = self.ends[0].connection(client).expect("alive");
        self.stream = Some(connection.open().expect("streams left"));
    }

    /// Mbps of datagrams in the next milliseconds.
    fn rate(&mut self, ms: u64) -> f64 {
        let before = self.came.len();
        self.run(ms);
        ((self.came.len() - before) * DATAGRAM * 8) as f64 / (ms as f64 * 1e3)
    }

    fn stats(&mut self, side: usize) -> ConnectionStats {
        let handle = self.handles[side].expect("connected");
        self.ends[side].connection(handle).expect("alive").stats()
    }
}

#[test]
fn datagrams_fill_both_links_and_go_on_over_one() {
    let mut net = Net::new([config(), config()], &[(20.0, 1472), (20.0, 1472)]);
    net.fills = true;
    net.run(2000);
    let both = net.rate(5000);
    assert!((34.0..40.0).contains(&both), "{both}");
    let late = |(sent, came): &(Time, Time)| came.since(*sent) > Duration::from_millis(150);
    assert!(!net.came.iter().any(late), "none waits for long");
    net.dark[1] = true;
    net.run(2000);
    let one = net.rate(3000);
    assert!((16.0..20.0).contains(&one), "{one}");
    let (sent, got) = (net.stats(0), net.stats(1));
    assert_eq!(sent.bytes_resent, 0, "nothing of a stream");
    assert_eq!(got.datagrams.received, net.came.len() as u64);
    assert!(
        got.datagrams.received <= sent.datagrams.sent,
        "each comes once"
    );
    assert!(sent.datagrams.expired > 0, "more was sent than fits");
}

#[test]
fn datagrams_go_only_on_paths_that_hold_them() {
    let mut net = Net::new([config(), config()], &[(20.0, 1472), (20.0, 1250)]);
    net.fills = true;
    net.fill_stream();
    net.run(2000);
    let read = net.read;
    let rate = net.rate(3000);
    assert!((16.0..20.0).contains(&rate), "{rate}");
    // The other path is the stream's, and what datagrams leave of their packets.
    let rest = (net.read - read) as f64 * 8.0 / 3e6;
    assert!((14.0..22.0).contains(&rest), "{rest}");
}

#[test]
fn what_no_path_holds_holds_up_nothing() {
    let mut net = Net::new([config(), config()], &[(20.0, 1250)]);
    net.fills = true;
    net.fill_stream();
    net.run(1000);
    let read = net.read;
    let rate = net.rate(2000);
    assert_eq!(rate, 0.0);
    assert!(net.stats(0).datagrams.expired > 0);
    let rest = (net.read - read) as f64 * 8.0 / 2e6;
    assert!(rest > 16.0, "{rest}");
}

#[test]
fn a_datagram_does_not_wait_behind_a_stream() {
    let mut net = Net::new([config(), config()], &[(20.0, 1472)]);
    net.fill_stream();
    net.run(2000);
    for _ in 0..100 {
        net.send().expect("room");
        net.run(17);
    }
    net.run(200);
    let delays = net.came.iter().map(|(sent, came)| came.since(*sent));
    let mean = delays.sum::<Duration>() / net.came.len() as u32;
    assert!(net.came.len() > 80, "{}", net.came.len());
    // The link's delay and queue, and not the 32 MiB that wait.
    assert!(mean < Duration::from_millis(70), "{mean:?}");
}

#[test]
fn both_sides_have_to_want_them() {
    let other = Config {
        datagram: None,
        ..config()
    };
    for configs in [[config(), other.clone()], [other, config()]] {
        let mut net = Net::new(configs, &[(20.0, 1472)]);
        for side in 0..2 {
            let handle = net.handles[side].expect("connected");
            let connection = net.ends[side].connection(handle).expect("alive");
            assert_eq!(connection.max_datagram(), None);
            let sent = connection.send_datagram(net.now, Bytes::from_static(b"x"));
            assert_eq!(sent, Err(DatagramError::Unsupported));
        }
    }
    let smaller = Config {
        datagram: Some(1000),
        ..config()
    };
    let mut net = Net::new([config(), smaller], &[(20.0, 1472)]);
    assert_eq!(net.send(), Err(DatagramError::TooLarge { max: 1000 }));
}

#[test]
fn who_waits_hears_of_what_comes_and_of_room() {
    let mut net = Net::new([config(), config()], &[(20.0, 1472)]);
    while net.send().is_ok() {}
    let mut told = Vec::new();
    let mut buf = Vec::new();
    for side in 0..2 {
        while let Some(transmit) = net.ends[side].poll_transmit(net.now, 1, &mut buf) {
            let data = buf.clone();
            net.offer(side, transmit.local.0 as usize, &data);
        }
    }
    // Nobody takes any as yet.
    while let Some(Reverse((at, _, side, path, mut data))) = net.due.pop() {
        let incoming = Incoming {
            local: LocalId(path as u32),
            remote: address(1 - side, path),
            ecn: None,
            data: &mut data,
        };
        net.now = at;
        net.ends[side].handle_datagram(at, incoming);
    }
    for end in &mut net.ends {
        while let Some((_, event)) = end.poll_event() {
            told.push(event);
        }
    }
    assert_eq!(
        told,
        [
            Event::Datagram(DatagramEvent::Room),
            Event::Datagram(DatagramEvent::Arrived)
        ]
    );
}
