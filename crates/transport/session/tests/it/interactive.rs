//! Keystrokes beside bulk data of the same connection, over two links with queues, beside a ping.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_network::{Link, LinkConfig, Packet, Verdict};
use manyway_session::{
    Config, ConnectionHandle, Endpoint, Event, Incoming, Local, LocalId, Secrets, StreamId, Ticket,
};
use manyway_units::{Rate, Time};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

/// IPv4 and UDP.
const HEADERS: u32 = 28;
/// A ping with its headers, as by default.
const PING: u32 = 84;
/// What a terminal's key takes by ssh, roughly.
const KEYSTROKE: usize = 36;
/// From one keystroke to the next; not a multiple of anything else.
const EVERY: Duration = Duration::from_millis(37);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A datagram arrives at this side, over this path.
    Datagram(usize, usize, Vec<u8>),
    /// A ping that began then arrives at this side of a path.
    Ping(usize, usize, Time),
    /// Somebody presses a key, and pings.
    Key,
}

/// A client at side 0 with a stream of bulk data and one of keystrokes, and a server at side 1 that
/// sends keystrokes back. Path `p` leads from the sides' `p`-th addresses over links of its own.
pub(crate) struct Net {
    pub(crate) now: Time,
    ticket: Ticket,
    ends: [Endpoint; 2],
    links: Vec<[Link; 2]>,
    due: BinaryHeap<Reverse<(Time, u64, What)>>,
    count: u64,
    handles: [Option<ConnectionHandle>; 2],
    streams: Option<[StreamId; 2]>,
    pressed: Vec<Time>,
    /// Bytes of keystrokes that have come back, and how long each took.
    echoed: usize,
    echoes: Vec<Duration>,
    pings: Vec<Vec<Duration>>,
    /// Bytes of bulk data that the server has read.
    pub(crate) read: u64,
}

fn address(side: usize, path: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, path as u8, 1 + side as u8], 4433))
}

impl Net {
    /// Links of so many Mbps and so much delay each way, with queues of one bandwidth-delay
    /// product.
    pub(crate) fn new(law: &str, links: &[(f64, u64)]) -> Self {
        let config = Arc::new(Config {
            cc: law.parse().expect("a law"),
            ..Config::default()
        });
        let secrets = Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32]));
        let paths = 0..links.len();
        let ticket = secrets.ticket(paths.clone().map(|path| address(1, path)).collect());
        let mut ends =
            [1, 2].map(|seed| Endpoint::new(config.clone(), [seed; 32]).expect("a valid one"));
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
        let link = |(mbps, ms): (f64, u64)| {
            let rate = Rate::from_bits_per_sec(mbps * 1e6);
            let config = LinkConfig::new(rate, Duration::from_millis(ms));
            [0, 1].map(|_| Link::new(config.clone()).expect("a valid link"))
        };
        let mut net = Self {
            now: Time::ZERO,
            ticket,
            ends,
            links: links.iter().copied().map(link).collect(),
            due: BinaryHeap::new(),
            count: 0,
            handles: [None; 2],
            streams: None,
            pressed: Vec::new(),
            echoed: 0,
            echoes: Vec::new(),
            pings: vec![Vec::new(); links.len()],
            read: 0,
        };
        net.later(Time::from_millis(2000), What::Key);
        net
    }

    /// The client closes the connection and, once that is forgotten, makes another one.
    pub(crate) fn reconnect(&mut self) {
        let now = self.now;
        let handle = self.handles[0].take().expect("connected");
        let connection = self.ends[0].connection(handle).expect("alive");
        connection.close(now, 0, "over");
        self.handles = [None; 2];
        self.streams = None;
        self.run(now + Duration::from_secs(10));
        let (now, ticket) = (self.now, self.ticket.clone());
        self.ends[0].connect(now, &ticket).expect("pairs exist");
    }

    fn later(&mut self, at: Time, what: What) {
        self.count += 1;
        self.due.push(Reverse((at, self.count, what)));
    }

    /// A packet that this side sends over a path.
    fn offer(&mut self, side: usize, path: usize, bytes: u32, what: What) {
        let verdict = self.links[path][side].offer(self.now, Packet::new(bytes));
        if let Verdict::Delivered { arrives, .. } = verdict {
            self.later(arrives, what);
        }
    }

    pub(crate) fn run(&mut self, until: Time) {
        while self.now < until {
            self.flush();
            let arrives = self.due.peek().map(|Reverse((at, ..))| *at);
            let timers = self.ends.iter().filter_map(Endpoint::timeout);
            let next = timers.chain(arrives).chain([until]).min();
            self.now = next.expect("there is an end").max(self.now);
            while let Some(Reverse((at, ..))) = self.due.peek()
                && *at <= self.now
            {
                let Reverse((_, _, what)) = self.due.pop().expect("just seen");
                self.happen(what);
            }
            let now = self.now;
            self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
        }
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Datagram(side, path, mut data) => {
                let incoming = Incoming {
                    local: LocalId(path as u32),
                    remote: address(1 - side, path),
                    ecn: None,
                    data: &mut data,
                };
                self.ends[side].handle_datagram(self.now, incoming);
            }
            What::Ping(1, path, began) => self.offer(1, path, PING, What::Ping(0, path, began)),
            What::Ping(_, path, began) => self.pings[path].push(self.now.since(began)),
            What::Key => {
                for path in 0..self.links.len() {
                    self.offer(0, path, PING, What::Ping(1, path, self.now));
                }
                if let (Some(handle), Some([_, typed])) = (self.handles[0], self.streams) {
                    let connection = self.ends[0].connection(handle).expect("alive");
                    let mut key = Bytes::from_static(&[b'k'; KEYSTROKE]);
                    connection.write(typed, &mut key).expect("room");
                    self.pressed.push(self.now);
                }
                self.later(self.now + EVERY, What::Key);
            }
        }
    }

    /// Applications do what they can, and endpoints send what they may.
    fn flush(&mut self) {
        loop {
            let mut quiet = true;
            for side in 0..2 {
                while let Some((handle, event)) = self.ends[side].poll_event() {
                    match event {
                        Event::Connected => self.handles[side] = Some(handle),
                        Event::Closed(_) => self.ends[side].forget(handle),
                        _ => {}
                    }
                }
            }
            self.client();
            self.server();
            let mut buf = Vec::new();
            for side in 0..2 {
                while let Some(transmit) = self.ends[side].poll_transmit(self.now, 8, &mut buf) {
                    quiet = false;
                    let path = transmit.local.0 as usize;
                    // No route leads from one path's address to the other's.
                    if transmit.remote != address(1 - side, path) {
                        continue;
                    }
                    for data in buf.chunks(transmit.segment_size.unwrap_or(buf.len())) {
                        let bytes = data.len() as u32 + HEADERS;
                        let what = What::Datagram(1 - side, path, data.to_vec());
                        self.offer(side, path, bytes, what);
                    }
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn client(&mut self) {
        let Some(handle) = self.handles[0] else {
            return;
        };
        let now = self.now;
        let connection = self.ends[0].connection(handle).expect("alive");
        let [bulk, typed] = *self
            .streams
            .get_or_insert_with(|| [0, 1].map(|_| connection.open().expect("allowed")));
        let mut piece = Bytes::from_static(&[b'b'; 1 << 16]);
        while connection.write(bulk, &mut piece).is_ok() {
            piece = Bytes::from_static(&[b'b'; 1 << 16]);
        }
        while let Ok(Some(echo)) = connection.read(now, typed, 1 << 20) {
            self.echoed += echo.len();
        }
        while self.echoed >= (self.echoes.len() + 1) * KEYSTROKE {
            let pressed = self.pressed[self.echoes.len()];
            self.echoes.push(now.since(pressed));
        }
    }

    fn server(&mut self) {
        let (Some(handle), Some([bulk, typed])) = (self.handles[1], self.streams) else {
            return;
        };
        let now = self.now;
        let connection = self.ends[1].connection(handle).expect("alive");
        while connection.accept().is_some() {}
        while let Ok(Some(bytes)) = connection.read(now, bulk, 1 << 20) {
            self.read += bytes.len() as u64;
        }
        while let Ok(Some(mut keys)) = connection.read(now, typed, 1 << 20) {
            connection.write(typed, &mut keys).expect("room");
        }
    }
}

/// The value below which this share of all is.
fn quantile(mut all: Vec<Duration>, share: f64) -> Duration {
    all.sort_unstable();
    all[((all.len() - 1) as f64 * share).round() as usize]
}

/// Of all keys that are pressed in the midst of bulk data, 19 of 20 come back within 1.2 times the
/// 95th percentile of a ping on the better path, which shares that path's queue.
#[test]
fn a_keystroke_takes_little_longer_than_a_ping() {
    for (law, links) in [
        ("auto", &[(40.0, 10), (20.0, 40)][..]),
        ("auto", &[(20.0, 40), (40.0, 10)]),
        ("auto", &[(50.0, 20), (50.0, 20)]),
        ("auto", &[(10.0, 15), (100.0, 60)]),
        ("lia", &[(40.0, 10), (20.0, 40)]),
    ] {
        let mut net = Net::new(law, links);
        let end = Time::from_millis(22_000);
        net.run(end);
        let late = |pings: &Vec<Duration>| quantile(pings.clone(), 0.95);
        let best = net.pings.iter().map(late).min().expect("paths");
        let echo = quantile(net.echoes.clone(), 0.95);
        let mbps = net.read as f64 * 8e-6 / end.as_secs_f64();
        let most: f64 = links.iter().map(|(mbps, _)| mbps).sum();
        assert!(net.echoes.len() > 500, "{}", net.echoes.len());
        assert!(
            echo.as_secs_f64() <= 1.2 * best.as_secs_f64(),
            "{law} {links:?}: echo {echo:?}, ping {best:?}"
        );
        // Keys cost the bulk data nothing.
        assert!(law != "auto" || mbps > 0.75 * most, "{mbps} of {most}");
    }
}
