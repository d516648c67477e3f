//! A peer that holds the keys, says what only a peer can say, and does to the network what it
//! likes.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use manyway_session::streams::ReadError;
use manyway_session::{
    Carrier, Config, ConnectionHandle, Facts, Local, LocalId, PathId, PathState, Purpose, StreamId,
};
use manyway_wire::{Frame, Frames, StreamKind};

use super::super::hostile::peer::{Peer, ROOM};
use super::super::hostile::victim::{Sent, Victim, dialled, here};
use super::choices::Choices;
use super::frames::Recipe;
use super::ledger::Ledger;

/// Peers at a time.
const MOST_PEERS: usize = 3;
/// What an input may do.
const MOST_STEPS: usize = 300;
/// Kept of each: challenges to be answered, and datagrams to be replayed.
const KEPT: usize = 32;

/// Memory of an endpoint without connections, half-open handshakes among them.
const ENDPOINT: usize = 128 << 10;
/// What `session::budget` charges.
const CONNECTION: usize = 16 << 10;
const PATH: usize = 14 << 10;
/// For each relay that a peer names; so many at a time.
const RELAY: usize = 3 << 9;
const MOST_RELAYS: usize = 256;
const PACKET: usize = 256;
/// For each byte of a frame.
const PER_BYTE: usize = 9;
/// What one may have open, of its own and of ours.
const MOST_STREAMS: u64 = 256;
/// A stream that is open; a frame for one opens those before it.
const STREAM_STATE: usize = 1 << 10;
/// Of a closed path its statistics are left.
const CLOSED_PATH: usize = 512;

/// Stream data that a peer has sent, and from which offset on.
type Said = Vec<(u64, Vec<u8>)>;

struct Run<'a> {
    choices: Choices<'a>,
    victim: Victim,
    peers: Vec<Peer>,
    /// Connections, as far as the victim has told of them.
    handles: Vec<Option<ConnectionHandle>>,
    /// The peer that acts.
    at: usize,
    listens: bool,
    ledger: Ledger,
    /// By peer: on which path, and what.
    challenges: VecDeque<(usize, PathId, [u8; 8])>,
    datagrams: VecDeque<(SocketAddr, Vec<u8>)>,
    said: BTreeMap<(usize, StreamId), Said>,
    /// Where each stream's end is, as far as the peer has said.
    ends: BTreeMap<(usize, StreamId), Vec<u64>>,
    /// How far the application has read.
    read: BTreeMap<(usize, StreamId), u64>,
    streams: Vec<(usize, StreamId)>,
    /// How many streams of each kind each peer has opened, at most.
    opened: BTreeMap<(usize, StreamKind), u64>,
    /// Relays that peers have named.
    relays: usize,
    /// Bytes that the application has written, and read.
    written: usize,
    got: usize,
    /// Datagrams that the victim has sent.
    sent: usize,
    carriers: Vec<LocalId>,
    next: u32,
}

fn config(choices: &mut Choices<'_>) -> Config {
    let flags = choices.byte();
    Config {
        epoch_packets: if flags & 1 > 0 { 20 } else { 1 << 22 },
        ecn: flags & 2 > 0,
        pacing: flags & 4 > 0,
        ack_every: if flags & 8 > 0 { 2 } else { 10 },
        max_paths: if flags & 16 > 0 { 4 } else { 256 },
        max_streams: if flags & 32 > 0 { 4 } else { 128 },
        receive_window: if flags & 64 > 0 { 64 << 10 } else { 64 << 20 },
        datagram: (flags & 128 > 0).then_some(900),
        ..Config::default()
    }
}

/// Where the peer can be: at three addresses, and at two of others in whose name it may send.
fn place(n: usize) -> SocketAddr {
    match n % 5 {
        n @ 0..3 => SocketAddr::from(([198, 51, 100, 1 + (n / 2) as u8], 4433 + (n % 2) as u16)),
        n => SocketAddr::from(([192, 0, 2, 100 + n as u8], 4433)),
    }
}

/// Our listener, and initiators that hold its ticket.
pub(super) fn initiator(mut choices: Choices<'_>) {
    let victim = Victim::listener(config(&mut choices));
    let mut run = Run::new(choices, victim, true);
    let doubted = run.choices.byte() & 1 > 0;
    run.connect(place(0), doubted);
    run.go();
}

/// Our initiator, whose ticket is that of a hostile listener.
pub(super) fn listener(mut choices: Choices<'_>) {
    let (victim, peer) = dialled(config(&mut choices));
    let mut run = Run::new(choices, victim, false);
    run.ledger.exempt(peer.address);
    run.handles
        .push(run.victim.events.first().map(|(handle, _)| *handle));
    run.peers.push(peer);
    run.go();
}

impl<'a> Run<'a> {
    fn new(choices: Choices<'a>, victim: Victim, listens: bool) -> Self {
        Self {
            choices,
            victim,
            peers: Vec::new(),
            handles: Vec::new(),
            at: 0,
            listens,
            ledger: Ledger::default(),
            challenges: VecDeque::new(),
            datagrams: VecDeque::new(),
            said: BTreeMap::new(),
            ends: BTreeMap::new(),
            read: BTreeMap::new(),
            streams: Vec::new(),
            opened: BTreeMap::new(),
            relays: 0,
            written: 0,
            got: 0,
            sent: 0,
            carriers: Vec::new(),
            next: 0,
        }
    }

    fn go(mut self) {
        for _ in 0..MOST_STEPS {
            if self.choices.is_empty() {
                break;
            }
            self.step();
            self.check();
        }
        self.end();
    }

    fn step(&mut self) {
        match self.choices.below(16) {
            0..=6 => self.say(),
            7 => self.wait(),
            8 => self.answer(),
            9 => self.acknowledge(),
            10 => self.replay(),
            11 | 12 => self.application(),
            13 => self.join(),
            14 => self.sockets(),
            _ => self.skip(),
        }
    }

    /// One more peer, or another one acts.
    fn join(&mut self) {
        let seed = self.choices.byte();
        let address = place(usize::from(seed));
        if self.listens && seed < 32 {
            // A handshake that goes no further, perhaps in another's name.
            let init = Peer::init(&self.victim, seed.into());
            self.ledger.handshake(address);
            self.deliver(LocalId(1), address, init);
        } else if self.listens && self.peers.len() < MOST_PEERS && seed < 64 {
            self.connect(address, seed & 16 > 0);
        } else {
            self.at = usize::from(seed) % self.peers.len();
        }
    }

    /// A connection, whose INIT came from a second address if the first is to be doubted.
    fn connect(&mut self, address: SocketAddr, doubted: bool) {
        let before = self.victim.events.len();
        let number = 1000 + self.peers.len() as u64;
        // The handshake itself: 1200 bytes there, fewer back.
        self.ledger.handshake(address);
        self.ledger.came(address, 1200);
        let mut peer = Peer::begin(&mut self.victim, address, number);
        if doubted {
            let other = place(if address == place(3) { 4 } else { 3 });
            self.ledger.handshake(other);
            let copy = Peer::init(&self.victim, number);
            self.deliver(LocalId(1), other, copy);
        } else {
            self.ledger.exempt(address);
        }
        let ping = peer.seal(PathId(0), &[1]).expect("path 0 is there");
        self.at = self.peers.len();
        self.peers.push(peer);
        self.handles.push(None);
        self.deliver(LocalId(1), address, ping);
        self.handles[self.at] = self.victim.events.get(before).map(|(handle, _)| *handle);
    }

    /// Datagrams full of frames.
    fn say(&mut self) {
        let how = self.choices.byte();
        let paths = self.peers[self.at].cids.len();
        let path = match how & 7 {
            0..=3 => PathId(0),
            _ => {
                let n = self.choices.below(paths.max(1));
                let cids = &self.peers[self.at].cids;
                cids.keys().nth(n).copied().unwrap_or(PathId(0))
            }
        };
        let from = match how >> 3 & 3 {
            0..=2 => self.peers[self.at].address,
            _ => place(self.choices.below(5)),
        };
        let local = match (how >> 5 & 3, self.carriers.len()) {
            (3, n) if n > 0 => self.carriers[self.choices.below(n)],
            _ => LocalId(1),
        };
        let many = if how >> 7 > 0 { self.choices.byte() } else { 1 };
        let mut recipe = Recipe::choose(&mut self.choices);
        let mut plain = Vec::new();
        for _ in 0..many.max(1) {
            let start = plain.len();
            recipe.write(&mut plain, &mut self.peers[self.at]);
            if plain.len() > ROOM {
                let frame = plain.split_off(start);
                self.send(path, (local, from), &plain);
                plain = frame;
                plain.truncate(ROOM);
            }
            recipe.advance();
        }
        self.send(path, (local, from), &plain);
    }

    /// Notes what a packet says. Bytes that were meant to be no frame may be one.
    fn note(&mut self, from: SocketAddr, plain: &[u8]) {
        for frame in Frames::new(plain).map_while(Result::ok) {
            match frame {
                Frame::Stream {
                    stream,
                    offset,
                    fin,
                    data,
                } => {
                    self.note_stream(stream);
                    let stream = (self.at, stream);
                    let said = self.said.entry(stream).or_default();
                    said.push((offset, data.to_vec()));
                    if fin {
                        let end = offset + data.len() as u64;
                        self.ends.entry(stream).or_default().push(end);
                    }
                }
                Frame::ResetStream { stream, .. }
                | Frame::StopSending { stream, .. }
                | Frame::MaxStreamData { stream, .. } => self.note_stream(stream),
                Frame::PathResponse { data } => self.ledger.answered(from, data),
                Frame::Addresses { addresses, .. } => {
                    addresses.iter().for_each(|a| self.ledger.named(*a));
                }
                Frame::Relay { .. } => self.relays += 1,
                _ => {}
            }
        }
    }

    fn note_stream(&mut self, stream: StreamId) {
        let opened = self.opened.entry((self.at, stream.kind())).or_default();
        *opened = (stream.index() + 1).min(MOST_STREAMS).max(*opened);
    }

    fn send(&mut self, path: PathId, (local, from): (LocalId, SocketAddr), plain: &[u8]) {
        let Some(datagram) = self.peers[self.at].seal(path, plain) else {
            return;
        };
        self.note(from, plain);
        self.datagrams.push_back((from, datagram.clone()));
        if self.datagrams.len() > KEPT {
            self.datagrams.pop_front();
        }
        self.deliver(local, from, datagram);
    }

    fn deliver(&mut self, local: LocalId, from: SocketAddr, datagram: Vec<u8>) {
        // What comes over TCP comes from its other end.
        let from = match local {
            LocalId(1) => from,
            LocalId(n) => carrier_end(n),
        };
        self.ledger.came(from, datagram.len());
        self.victim.take_on(local, from, datagram);
        let sent = self.victim.drain();
        self.collect(sent);
    }

    /// What the victim has sent reaches the peers, which learn what is in it.
    fn collect(&mut self, sent: Sent) {
        self.sent += sent.len();
        for (to, mut datagram) in sent {
            self.ledger.went(to, &datagram);
            let Some(at) = self.peers.iter().position(|peer| peer.owns(&datagram)) else {
                continue;
            };
            let mut challenges = Vec::new();
            self.peers[at].open(self.victim.now, &mut datagram, &mut challenges);
            for (path, challenge) in challenges {
                self.ledger.asked(to, challenge);
                self.challenges.push_back((at, path, challenge));
            }
        }
        while self.challenges.len() > KEPT {
            self.challenges.pop_front();
        }
    }

    fn wait(&mut self) {
        let time = match self.choices.below(8) {
            0 => Duration::from_micros(100),
            1 => Duration::from_millis(1),
            2 => Duration::from_millis(11),
            3 => Duration::from_millis(100),
            4 => Duration::from_millis(400),
            5 => Duration::from_secs(2),
            6 => Duration::from_secs(10),
            _ => Duration::from_secs(40),
        };
        let sent = self.victim.wait(time);
        self.collect(sent);
    }

    /// Answers a challenge, from anywhere, on any path.
    fn answer(&mut self) {
        let how = self.choices.byte();
        let n = usize::from(how >> 3) % self.challenges.len().max(1);
        // Mostly the newest.
        let n = if how & 4 > 0 {
            n
        } else {
            self.challenges.len().saturating_sub(1)
        };
        let Some((at, path, challenge)) = self.challenges.get(n).copied() else {
            return;
        };
        let from = match how & 3 {
            3 => place(self.choices.below(5)),
            _ => self.peers[at].address,
        };
        self.at = at;
        let mut plain = vec![];
        Frame::PathResponse { data: challenge }.encode(&mut plain);
        self.send(path, (LocalId(1), from), &plain);
    }

    fn acknowledge(&mut self) {
        let before = self.peers[self.at].sent;
        let from = self.peers[self.at].address;
        self.peers[self.at].acknowledge(&mut self.victim);
        let bytes = self.peers[self.at].sent - before;
        self.ledger.came(from, bytes as usize);
        let sent = self.victim.drain();
        self.collect(sent);
    }

    /// A datagram once more, from elsewhere, or with something in it changed.
    fn replay(&mut self) {
        let how = self.choices.byte();
        let n = usize::from(how >> 3) % self.datagrams.len().max(1);
        let Some((mut from, mut datagram)) = self.datagrams.get(n).cloned() else {
            return;
        };
        if how & 1 > 0 {
            from = place(self.choices.below(5));
        }
        if how & 2 > 0 {
            let at = usize::from(self.choices.byte()) * 7 % datagram.len();
            datagram[at] ^= self.choices.byte();
        }
        if how & 4 > 0 {
            datagram.truncate(self.choices.number() as usize);
        }
        self.deliver(LocalId(1), from, datagram);
    }

    fn skip(&mut self) {
        let path = PathId(self.choices.byte().into());
        let numbers = self.choices.number() & 0xff_ffff;
        self.peers[self.at].skip(path, numbers);
    }

    /// Interfaces and TCP connections that come and go.
    fn sockets(&mut self) {
        let now = self.victim.now;
        let how = self.choices.byte();
        match how % 6 {
            0 if self.next < 16 => {
                self.next += 1;
                let id = LocalId(100 + self.next);
                let purpose = match (self.listens, self.handles.first()) {
                    (false, Some(Some(handle))) => Purpose::Dialled(*handle),
                    _ => Purpose::Accepted,
                };
                let carrier = Carrier {
                    local: local(id),
                    remote: carrier_end(id.0),
                    facts: Facts::stream(),
                    purpose,
                };
                self.ledger.exempt(carrier.remote);
                let added = self
                    .victim
                    .on(|end, _| end.add_carrier(now, carrier).is_ok());
                self.carriers.extend(added.then_some(id));
            }
            1 if !self.carriers.is_empty() => {
                let id = self
                    .carriers
                    .swap_remove(usize::from(how / 6) % self.carriers.len());
                self.victim.on(|end, _| end.remove_carrier(now, id));
            }
            2 if !self.carriers.is_empty() => {
                let id = self.carriers[usize::from(how / 6) % self.carriers.len()];
                let bytes = self.choices.number() & 0xffff;
                self.victim
                    .on(|end, _| end.on_carrier_written(now, id, bytes));
            }
            3 => self.victim.on(|end, _| end.remove_local(now, LocalId(1))),
            4 => self
                .victim
                .on(|end, _| end.add_local(now, local(LocalId(1)))),
            5 if self.next < 16 => {
                self.next += 1;
                let id = LocalId(self.next + 1);
                self.victim.on(|end, _| end.add_local(now, local(id)));
            }
            _ => {}
        }
        let sent = self.victim.drain();
        self.collect(sent);
        while let Some(id) = self.victim.on(|end, _| end.poll_carrier_over()) {
            self.carriers.retain(|other| *other != id);
            self.victim.on(|end, _| end.remove_carrier(now, id));
        }
    }

    /// What the application above the victim does.
    fn application(&mut self) {
        let how = self.choices.byte();
        let at = usize::from(how >> 4) % self.handles.len().max(1);
        let Some(handle) = self.handles.get(at).copied().flatten() else {
            return;
        };
        let which = self.choices.below(self.streams.len());
        let stream = self.streams.get(which).copied();
        let len = self.choices.number() as usize;
        let uni = !len.is_multiple_of(2);
        let mut streams = Vec::new();
        let (mut written, mut read) = (0, None);
        self.victim.on(|end, now| {
            let Some(connection) = end.connection(handle) else {
                return;
            };
            let stream = stream
                .filter(|(owner, _)| *owner == at)
                .map(|(_, stream)| stream);
            match (how & 15, stream) {
                (0, _) if uni => streams.extend(connection.open_uni()),
                (0, _) => streams.extend(connection.open()),
                (1..=3, _) if uni => streams.extend(connection.accept_uni()),
                (1..=3, _) => streams.extend(connection.accept()),
                (4..=6, Some(stream)) => {
                    let mut data = Bytes::from(vec![5; len.min(200_000)]);
                    written = connection.write(stream, &mut data).unwrap_or(0);
                }
                (7..=10, Some(stream)) => {
                    read = Some((stream, connection.read(now, stream, len.max(1))));
                }
                (11, Some(stream)) => drop(connection.finish(stream)),
                (12, Some(stream)) => drop(connection.reset(stream, len as u64)),
                (13, Some(stream)) => drop(connection.stop(stream, len as u64)),
                (14, _) => connection.fill(now, len as u64 & 0xf_ffff),
                (15, _) if len == 200 => connection.close(now, 0x100, "enough"),
                _ => {}
            }
        });
        self.written += written;
        self.streams
            .extend(streams.into_iter().map(|stream| (at, stream)));
        if let Some((stream, result)) = read {
            self.on_read((at, stream), &result);
            self.victim.on(|_, _| drop(result));
        }
        let sent = self.victim.drain();
        self.collect(sent);
    }

    /// Nothing comes out that the peer hasn't put in, at just this place.
    fn on_read(&mut self, stream: (usize, StreamId), result: &Result<Option<Bytes>, ReadError>) {
        let at = self.read.entry(stream).or_default();
        match result {
            Ok(Some(bytes)) => {
                let said = self.said.get(&stream).map_or(&[][..], Vec::as_slice);
                for (offset, byte) in (*at..).zip(bytes) {
                    let is_it = |(start, data): &(u64, Vec<u8>)| {
                        let at = offset.checked_sub(*start);
                        at.is_some_and(|at| data.get(at as usize) == Some(byte))
                    };
                    assert!(said.iter().any(is_it), "{stream:?}: nobody sent {offset}");
                }
                *at += bytes.len() as u64;
                self.got += bytes.len();
            }
            Ok(None) => {
                let end = self.ends.get(&stream).is_some_and(|ends| ends.contains(at));
                assert!(end, "{stream:?} doesn't end at {at}");
            }
            Err(_) => {}
        }
    }

    fn check(&mut self) {
        self.ledger.check(self.victim.now, self.peers.len());
        self.victim.events.clear();
        let held = self.victim.held as usize;
        let received = self.ledger.received() as usize;
        let most = ENDPOINT
            + CONNECTION * self.peers.len()
            + STREAM_STATE * self.opened.values().sum::<u64>() as usize
            + RELAY * self.relays.min(MOST_RELAYS * self.peers.len())
            + PER_BYTE * received
            + PACKET * self.sent.min(32 << 10)
            + self.written
            + (self.got / 4).min(256 << 10);
        if held > most {
            let (open, closed) = self.paths();
            let most = most + PATH * open + CLOSED_PATH * closed;
            assert!(
                held <= most,
                "{held} bytes, of {most}: {received} received, {} sent, {open} paths",
                self.sent
            );
        }
    }

    /// Paths that are open, and those that are over.
    fn paths(&mut self) -> (usize, usize) {
        let mut paths = (0, 0);
        for handle in self.handles.clone().into_iter().flatten() {
            let Some(connection) = self.victim.end.connection(handle) else {
                continue;
            };
            for path in connection.stats().paths {
                match path.state {
                    PathState::Closed => paths.1 += 1,
                    _ => paths.0 += 1,
                }
            }
        }
        paths
    }

    /// Once all connections are over and forgotten, nothing of them is left.
    fn end(mut self) {
        for handle in self.handles.clone().into_iter().flatten() {
            self.victim.on(|end, now| {
                if let Some(connection) = end.connection(handle) {
                    connection.close(now, 0x100, "over");
                }
            });
        }
        let sent = self.victim.wait(Duration::from_secs(20));
        self.collect(sent);
        self.check();
        for handle in self.handles.clone().into_iter().flatten() {
            self.victim.on(|end, _| end.forget(handle));
        }
        self.victim.wait(Duration::from_secs(60));
        let held = self.victim.held;
        assert!(held <= ENDPOINT as isize, "{held} bytes are left");
    }
}

fn local(id: LocalId) -> Local {
    let [.., low] = id.0.to_be_bytes();
    let addr = match id {
        LocalId(1) => here(),
        _ => SocketAddr::from(([192, 0, 2, low], 4433)),
    };
    Local {
        id,
        name: "if".into(),
        addr,
        mtu: None,
    }
}

/// The far end of a TCP connection.
fn carrier_end(id: u32) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 77], id as u16))
}
