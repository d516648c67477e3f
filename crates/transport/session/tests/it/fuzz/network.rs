//! Two honest ends, and a network that drops, copies, changes, delays and misdirects what it
//! likes.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_session::streams::ReadError;
use manyway_session::{
    Config, ConnectionHandle, Endpoint, Event, Incoming, Local, LocalId, Secrets, StreamId,
};
use manyway_units::Time;
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use super::choices::Choices;

const MOST_STEPS: usize = 300;
/// Datagrams under way: of more, the oldest are lost.
const MOST_FLYING: usize = 512;
/// Sockets of each end.
const LOCALS: u32 = 2;
/// What a stream carries at most.
const MOST_WRITTEN: u64 = 300_000;
const DELAY: Duration = Duration::from_millis(10);
/// In this time all is delivered, once the network is honest, or the connection is over: 30 s until
/// it gives up, and time for probes before that.
const PATIENCE: Duration = Duration::from_secs(150);
/// Timers that may be due one after the other without time going on.
const MOST_AT_ONCE: usize = 1000;

/// A datagram under way: from whom, to whom, by their addresses as the network sees them.
#[derive(Clone)]
struct Flying {
    at: Time,
    from: SocketAddr,
    to: SocketAddr,
    data: Vec<u8>,
}

/// One direction of a stream.
#[derive(Default)]
struct Flow {
    written: u64,
    finished: bool,
    /// It was reset, or stopped: not all of it has to arrive.
    given_up: bool,
    read: u64,
    over: bool,
}

struct Net<'a> {
    choices: Choices<'a>,
    now: Time,
    ends: [Endpoint; 2],
    handles: [Option<ConnectionHandle>; 2],
    /// How often the NAT in front of a socket has bound anew, by side.
    bound: [[u8; LOCALS as usize]; 2],
    flying: VecDeque<Flying>,
    /// By the stream and the side that writes.
    flows: BTreeMap<(StreamId, usize), Flow>,
    closed: bool,
    /// Larger datagrams are lost.
    mtu: usize,
}

fn inner(side: usize, local: u32) -> SocketAddr {
    SocketAddr::from(([192, 0, 2 + local as u8, 1 + side as u8], 4433))
}

fn content(stream: StreamId, side: usize, at: u64) -> u8 {
    (at.wrapping_mul(7) + at / 251 + stream.0 * 3 + side as u64) as u8
}

pub(super) fn network(mut choices: Choices<'_>) {
    let flags = choices.byte();
    let config = Config {
        epoch_packets: if flags & 1 > 0 { 10 } else { 1 << 22 },
        ecn: flags & 2 > 0,
        pacing: flags & 4 > 0,
        ack_every: if flags & 8 > 0 { 1 } else { 10 },
        max_paths: if flags & 16 > 0 { 3 } else { 256 },
        max_streams: if flags & 32 > 0 { 2 } else { 128 },
        receive_window: if flags & 64 > 0 { 64 << 10 } else { 64 << 20 },
        ..Config::default()
    };
    let mut net = Net::new(config, choices);
    for _ in 0..MOST_STEPS {
        if net.choices.is_empty() {
            break;
        }
        net.step();
    }
    net.end();
}

impl<'a> Net<'a> {
    fn new(config: Config, choices: Choices<'a>) -> Self {
        let config = Arc::new(config);
        let secrets = Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32]));
        let ticket = secrets.ticket((0..LOCALS).map(|local| inner(1, local)).collect());
        let mut ends =
            [1, 2].map(|seed| Endpoint::new(config.clone(), [seed; 32]).expect("a valid one"));
        for (side, end) in ends.iter_mut().enumerate() {
            for local in 0..LOCALS {
                end.add_local(Time::ZERO, socket(side, local));
            }
        }
        ends[1].listen(secrets);
        let handle = ends[0].connect(Time::ZERO, &ticket).expect("a pair exists");
        let mut net = Self {
            choices,
            now: Time::ZERO,
            ends,
            handles: [Some(handle), None],
            bound: [[0; LOCALS as usize]; 2],
            flying: VecDeque::new(),
            flows: BTreeMap::new(),
            closed: false,
            mtu: usize::MAX,
        };
        // The handshake is the hostile peers' and other tests' concern.
        net.run(Duration::from_millis(500));
        assert!(net.handles[1].is_some(), "connected");
        net
    }

    /// What the network sees of a socket's address.
    fn outer(&self, side: usize, local: u32) -> SocketAddr {
        let mut address = inner(side, local);
        let bound = self.bound[side][local as usize];
        if bound > 0 {
            address.set_port(10_000 + u16::from(bound));
        }
        address
    }

    fn step(&mut self) {
        match self.choices.below(16) {
            0 | 1 => {
                let time = [1, 5, 20, 100, 400, 2000, 9000, 31_000][self.choices.below(8)];
                self.run(Duration::from_millis(time));
            }
            2 => {
                let time = Duration::from_micros(self.choices.number() & 0xff_ffff);
                self.pass(time);
            }
            3..=6 => self.meddle(),
            7 => {
                let choice = self.choices.byte();
                let (side, local) = (usize::from(choice & 1), usize::from(choice >> 1 & 1));
                self.bound[side][local] = choice >> 2;
            }
            8 => {
                let choice = self.choices.byte();
                let (side, local) = (usize::from(choice & 1), u32::from(choice >> 1 & 1));
                let now = self.now;
                match choice & 4 > 0 {
                    true => self.ends[side].add_local(now, socket(side, local)),
                    false => self.ends[side].remove_local(now, LocalId(local)),
                }
            }
            9 => self.mtu = [usize::MAX, 1500, 1200, 1199, 60][self.choices.below(5)],
            _ => self.application(),
        }
        self.flush();
    }

    /// Time passes in a network that does what it should.
    fn run(&mut self, time: Duration) {
        let (until, mut at_once) = (self.now + time, 0);
        loop {
            self.flush();
            let arrival = self.flying.iter().map(|f| f.at).min();
            let timers = self.ends.iter().filter_map(Endpoint::timeout).min();
            let next = [arrival, timers].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= until) else {
                break;
            };
            at_once = if next > self.now { 0 } else { at_once + 1 };
            assert!(at_once < MOST_AT_ONCE, "a timer is due for ever");
            self.now = self.now.max(next);
            let now = self.now;
            while let Some(at) = self.flying.iter().position(|f| f.at <= now) {
                let flying = self.flying.remove(at).expect("just seen");
                self.deliver(flying);
            }
            self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
        }
        self.now = until;
        self.flush();
    }

    /// Time passes, and nothing is delivered.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
    }

    fn flush(&mut self) {
        let mut buf = Vec::new();
        for side in 0..2 {
            while let Some(transmit) = self.ends[side].poll_transmit(self.now, 8, &mut buf) {
                let from = self.outer(side, transmit.local.0);
                for data in buf.chunks(transmit.segment_size.unwrap_or(buf.len())) {
                    if data.len() > self.mtu {
                        continue;
                    }
                    self.flying.push_back(Flying {
                        at: self.now + DELAY,
                        from,
                        to: transmit.remote,
                        data: data.to_vec(),
                    });
                }
            }
            while let Some((handle, event)) = self.ends[side].poll_event() {
                match event {
                    Event::Connected => self.handles[side] = Some(handle),
                    Event::Closed(_) => self.closed = true,
                    _ => {}
                }
            }
        }
        while self.flying.len() > MOST_FLYING {
            self.flying.pop_front();
        }
    }

    /// A datagram arrives at whoever has its address, if anybody.
    fn deliver(&mut self, mut flying: Flying) {
        for side in 0..2 {
            for local in 0..LOCALS {
                if self.outer(side, local) == flying.to {
                    let incoming = Incoming {
                        local: LocalId(local),
                        remote: flying.from,
                        ecn: None,
                        data: &mut flying.data,
                    };
                    self.ends[side].handle_datagram(self.now, incoming);
                    return;
                }
            }
        }
    }

    /// Something happens to a datagram under way.
    fn meddle(&mut self) {
        let what = self.choices.byte();
        let many = match what & 8 > 0 {
            true => 1 + self.choices.below(20),
            false => 1,
        };
        for _ in 0..many {
            if self.flying.is_empty() {
                return;
            }
            let at = usize::from(what >> 4) * self.flying.len() / 16;
            let mut flying = self.flying[at].clone();
            match what & 7 {
                0 | 1 => drop(self.flying.remove(at)),
                2 => {
                    self.flying.remove(at);
                    self.deliver(flying);
                }
                3 => self.deliver(flying),
                4 => {
                    let place = usize::from(self.choices.byte()) * 7 % flying.data.len();
                    flying.data[place] ^= 1 << (self.choices.byte() & 7);
                    self.deliver(flying);
                }
                5 => {
                    // A copy from elsewhere, which may overtake the original.
                    flying.from = match self.choices.byte() {
                        stranger @ 0..200 => SocketAddr::from(([203, 0, 113, stranger], 4433)),
                        own => self.outer(usize::from(own & 1), u32::from(own >> 1 & 1)),
                    };
                    self.deliver(flying);
                }
                6 => {
                    // Reflected, or to another socket.
                    let to = self.choices.byte();
                    flying.to = self.outer(usize::from(to & 1), u32::from(to >> 1 & 1));
                    self.deliver(flying);
                }
                _ => {
                    let later = Duration::from_millis(u64::from(self.choices.byte()) * 8);
                    self.flying[at].at = self.now + later;
                }
            }
        }
    }

    fn application(&mut self) {
        let how = self.choices.byte();
        let side = usize::from(how & 1);
        let len = self.choices.number().min(100_000);
        let which = self.choices.below(4);
        let now = self.now;
        let handle = self.handles[side].expect("connected");
        let Some(connection) = self.ends[side].connection(handle) else {
            return;
        };
        let ids: Vec<StreamId> = self.flows.keys().map(|(stream, _)| *stream).collect();
        let stream = ids.get(which * 2 % ids.len().max(1)).copied();
        let what = how >> 1 & 15;
        match (what, stream) {
            (0, _) => {
                if let Ok(stream) = connection.open() {
                    self.flows.entry((stream, 0)).or_default();
                    self.flows.entry((stream, 1)).or_default();
                }
            }
            (1..=7, Some(stream)) => {
                let flow = self.flows.get_mut(&(stream, side)).expect("both are there");
                let end = (flow.written + len).min(MOST_WRITTEN);
                let data = (flow.written..end).map(|at| content(stream, side, at));
                let mut data = Bytes::from(data.collect::<Vec<_>>());
                flow.written += connection.write(stream, &mut data).unwrap_or(0) as u64;
            }
            (8..=11, Some(stream)) => self.read(side, stream, 1 + len as usize),
            (12, Some(stream)) => {
                let finished = connection.finish(stream).is_ok();
                let flow = self.flows.get_mut(&(stream, side)).expect("both are there");
                flow.finished |= finished;
            }
            (13, Some(stream)) => {
                if connection.reset(stream, 7).is_ok() {
                    let flow = self.flows.get_mut(&(stream, side)).expect("both are there");
                    flow.given_up = true;
                }
            }
            (14, Some(stream)) => {
                if connection.stop(stream, 8).is_ok() {
                    let flow = self
                        .flows
                        .get_mut(&(stream, 1 - side))
                        .expect("both are there");
                    flow.given_up = true;
                    flow.over = true;
                }
            }
            (15, _) if len == 77 => connection.close(now, 0x100, "enough"),
            _ => while connection.accept().is_some() {},
        }
    }

    /// What comes out is what went in, byte by byte.
    fn read(&mut self, side: usize, stream: StreamId, max: usize) {
        let handle = self.handles[side].expect("connected");
        let now = self.now;
        let Some(connection) = self.ends[side].connection(handle) else {
            return;
        };
        let flow = self
            .flows
            .get_mut(&(stream, 1 - side))
            .expect("both are there");
        match connection.read(now, stream, max) {
            Ok(Some(bytes)) => {
                for (at, byte) in (flow.read..).zip(&bytes) {
                    assert!(at < flow.written, "{stream:?}: nobody has written {at}");
                    assert_eq!(*byte, content(stream, 1 - side, at), "{stream:?} at {at}");
                }
                flow.read += bytes.len() as u64;
            }
            Ok(None) => {
                let whole = flow.finished && flow.read == flow.written;
                assert!(
                    whole,
                    "{stream:?} ends at {} of {}",
                    flow.read, flow.written
                );
                flow.over = true;
            }
            Err(ReadError::Reset(_)) => {
                assert!(flow.given_up, "{stream:?}: nobody has reset it");
                flow.over = true;
            }
            Err(ReadError::Blocked | ReadError::Closed) => {}
        }
    }

    /// Once the network does what it should, everything arrives, or the connection is over and both
    /// ends will know.
    fn end(mut self) {
        self.mtu = usize::MAX;
        let now = self.now;
        for side in 0..2 {
            for local in 0..LOCALS {
                self.ends[side].remove_local(now, LocalId(local));
                self.ends[side].add_local(now, socket(side, local));
            }
        }
        let mut left = PATIENCE;
        while !self.closed && !self.all_arrived() {
            assert!(left > Duration::ZERO, "{} left", self.missing());
            left = left.saturating_sub(Duration::from_millis(200));
            self.run(Duration::from_millis(200));
            let flows: Vec<_> = self.flows.keys().copied().collect();
            for (stream, side) in flows {
                for _ in 0..4 {
                    self.read(1 - side, stream, 1 << 20);
                }
            }
        }
    }

    fn missing(&self) -> String {
        let missing = |(_, flow): &(&(StreamId, usize), &Flow)| !flow.given_up && !flow.over;
        let flows = self.flows.iter().filter(missing);
        let texts = flows.map(|((stream, side), flow)| {
            format!("{} of {} ({stream:?} of {side})", flow.read, flow.written)
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    fn all_arrived(&self) -> bool {
        let arrived = |flow: &Flow| {
            flow.given_up || flow.over || (flow.read == flow.written && !flow.finished)
        };
        self.flows.values().all(arrived)
    }
}

fn socket(side: usize, local: u32) -> Local {
    Local {
        id: LocalId(local),
        name: format!("if{local}"),
        addr: inner(side, local),
        mtu: None,
    }
}
