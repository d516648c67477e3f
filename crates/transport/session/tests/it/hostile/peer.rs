//! A peer with a valid ticket that says whatever it likes, against an endpoint of ours.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use manyway_session::crypto::{KeyLimits, Opener, Sealer, Suite};
use manyway_session::handshake::{
    Established, Initiator, InitiatorConfig, Outcome, Responder, ResponderConfig,
};
use manyway_session::{
    Config, ConnectionHandle, Endpoint, Event, Incoming, Local, LocalId, PathId, Secrets, Ticket,
};
use manyway_units::Time;
use manyway_wire::{
    AckInfo, ConnectionId, DATA_HEADER_LEN, DataHeader, DatagramType, Frame, Frames,
    TransportParameters, encode_ack,
};
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};

/// Room for frames in a datagram of 1200 bytes.
pub(crate) const ROOM: usize = 1200 - DATA_HEADER_LEN - manyway_wire::TAG_LEN;

/// The endpoint under attack.
pub(crate) struct Victim {
    pub(crate) now: Time,
    pub(crate) end: Endpoint,
    pub(crate) ticket: Ticket,
    pub(crate) events: Vec<(ConnectionHandle, Event)>,
}

pub(crate) fn here() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 4433))
}

fn local() -> Local {
    Local {
        id: LocalId(1),
        name: "if1".into(),
        addr: here(),
        mtu: None,
    }
}

/// What the endpoint sends.
pub(crate) type Sent = Vec<(SocketAddr, Vec<u8>)>;

impl Victim {
    /// A listener.
    pub(crate) fn listener(config: Config) -> Self {
        let secrets = Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32]));
        let ticket = secrets.ticket(vec![here()]);
        let mut end = Endpoint::new(Arc::new(config), [1; 32]).expect("a valid configuration");
        end.add_local(Time::ZERO, local());
        end.listen(secrets);
        Self {
            now: Time::ZERO,
            end,
            ticket,
            events: Vec::new(),
        }
    }

    pub(crate) fn take(&mut self, from: SocketAddr, mut data: Vec<u8>) {
        let incoming = Incoming {
            local: LocalId(1),
            remote: from,
            ecn: None,
            data: &mut data,
        };
        self.end.handle_datagram(self.now, incoming);
    }

    /// All that the endpoint sends and tells by now.
    pub(crate) fn drain(&mut self) -> Sent {
        let (mut sent, mut buf) = (Vec::new(), Vec::new());
        while let Some(transmit) = self.end.poll_transmit(self.now, 8, &mut buf) {
            for datagram in buf.chunks(transmit.segment_size.unwrap_or(buf.len())) {
                sent.push((transmit.remote, datagram.to_vec()));
            }
        }
        while let Some(event) = self.end.poll_event() {
            self.events.push(event);
        }
        sent
    }

    /// Time passes, with all that is due meanwhile; what is sent.
    pub(crate) fn wait(&mut self, time: Duration) -> Sent {
        let (until, mut sent) = (self.now + time, self.drain());
        while let Some(at) = self.end.timeout()
            && at <= until
        {
            self.now = self.now.max(at);
            self.end.handle_timeout(self.now);
            sent.extend(self.drain());
        }
        self.now = until;
        sent
    }

    /// Why connections have ended.
    pub(crate) fn closed(&self) -> Vec<(ConnectionHandle, String)> {
        let closed = |(handle, event): &(ConnectionHandle, Event)| match event {
            Event::Closed(reason) => Some((*handle, reason.to_string())),
            _ => None,
        };
        self.events.iter().filter_map(closed).collect()
    }
}

/// The other side of one connection.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    sealer: Sealer,
    opener: Opener,
    /// The victim's connection ids, by path.
    pub(crate) cids: BTreeMap<PathId, ConnectionId>,
    next: BTreeMap<PathId, u64>,
    /// Packets that came, by path: ranges, ascending.
    heard: BTreeMap<PathId, Vec<RangeInclusive<u64>>>,
    /// The path of each of our own connection ids.
    ours: BTreeMap<ConnectionId, PathId>,
    /// Bytes sent, and received.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// The code and the words of a CLOSE that came.
    pub(crate) closed: Option<(u64, String)>,
}

impl Peer {
    fn new(address: SocketAddr, established: Established) -> Self {
        let Established {
            sealer,
            opener,
            local_cid,
            remote_cid,
            ..
        } = established;
        Self {
            address,
            sealer,
            opener,
            cids: BTreeMap::from([(PathId(0), remote_cid)]),
            next: BTreeMap::new(),
            heard: BTreeMap::new(),
            ours: BTreeMap::from([(local_cid, PathId(0))]),
            sent: 0,
            received: 0,
            closed: None,
        }
    }

    /// Connects from this address and answers the challenge.
    pub(crate) fn connect(victim: &mut Victim, address: SocketAddr, seed: u64) -> Self {
        let mut peer = Self::begin(victim, address, seed);
        peer.say(victim, &[Frame::Ping]);
        peer.listen(victim);
        peer.listen(victim);
        peer
    }

    /// As [`Peer::connect`], before the first sealed packet.
    pub(crate) fn begin(victim: &mut Victim, address: SocketAddr, seed: u64) -> Self {
        let mut initiator = initiator(victim, seed);
        victim.take(address, initiator.datagram().to_vec());
        let sent = victim.drain();
        let answer = |sent: Sent| sent.into_iter().next_back().expect("an answer").1;
        let mut reply = answer(sent);
        if DatagramType::of(&reply) == Some(DatagramType::Cookie) {
            let cookie = initiator.on_cookie(&reply).expect("a cookie");
            victim.take(address, initiator.datagram_with(&cookie));
            reply = answer(victim.drain());
        }
        let established = initiator.on_reply(&reply).expect("a reply");
        Self::new(address, established)
    }

    /// An INIT for the victim.
    pub(crate) fn init(victim: &Victim, seed: u64) -> Vec<u8> {
        initiator(victim, seed).datagram().to_vec()
    }

    /// One datagram with these frames, on path 0.
    pub(crate) fn say(&mut self, victim: &mut Victim, frames: &[Frame<'_>]) {
        self.say_on(victim, PathId(0), frames);
    }

    /// One datagram with these frames on a path.
    pub(crate) fn say_on(&mut self, victim: &mut Victim, path: PathId, frames: &[Frame<'_>]) {
        let mut plain = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut plain));
        self.send(victim, path, &plain);
    }

    /// One datagram with this plaintext on a path.
    pub(crate) fn send(&mut self, victim: &mut Victim, path: PathId, plain: &[u8]) {
        let Some(&cid) = self.cids.get(&path) else {
            return;
        };
        let number = self.next.entry(path).or_default();
        let header = DataHeader {
            cid,
            epoch: self.sealer.epoch(),
            pn_low: *number as u32,
        };
        let mut datagram = header.to_bytes().to_vec();
        datagram.extend_from_slice(plain);
        self.sealer
            .seal(path.0, *number, &mut datagram, 0, DATA_HEADER_LEN)
            .expect("within the limits");
        *number += 1;
        self.sent += datagram.len() as u64;
        victim.take(self.address, datagram);
    }

    /// The next packet on a path has a number so far above the last.
    pub(crate) fn skip(&mut self, path: PathId, numbers: u64) {
        *self.next.entry(path).or_default() += numbers;
    }

    /// Hears a datagram and answers nothing.
    pub(crate) fn overhear(&mut self, now: Time, mut datagram: Vec<u8>) {
        self.open(now, &mut datagram, &mut Vec::new());
    }

    /// Hears all that the victim sends us now, and answers its challenges.
    pub(crate) fn listen(&mut self, victim: &mut Victim) {
        let sent = victim.drain();
        self.hear(victim, sent);
    }

    /// Hears what was sent, and answers challenges.
    pub(crate) fn hear(&mut self, victim: &mut Victim, sent: Sent) {
        let mut answers = Vec::new();
        for (to, mut datagram) in sent {
            if to == self.address {
                self.received += datagram.len() as u64;
                self.open(victim.now, &mut datagram, &mut answers);
            }
        }
        for (path, data) in answers {
            self.say_on(victim, path, &[Frame::PathResponse { data }]);
        }
    }

    /// Says that everything has arrived that did.
    pub(crate) fn acknowledge(&mut self, victim: &mut Victim) {
        for (path, ranges) in self.heard.clone() {
            self.claim(victim, path, ranges.into_iter().rev());
        }
    }

    /// Says that these packets have arrived, newest first.
    pub(crate) fn claim(
        &mut self,
        victim: &mut Victim,
        path: PathId,
        ranges: impl Iterator<Item = RangeInclusive<u64>> + Clone,
    ) {
        let mut plain = Vec::new();
        let info = AckInfo {
            path,
            delay_us: 0,
            receive_time_us: 0,
            ecn: None,
        };
        encode_ack(&mut plain, &info, ranges, ROOM);
        self.send(victim, PathId(0), &plain);
    }

    /// The newest packet that came on a path.
    pub(crate) fn largest(&self, path: PathId) -> Option<u64> {
        self.heard.get(&path)?.last().map(|range| *range.end())
    }

    fn note(&mut self, path: PathId, number: u64) {
        let ranges = self.heard.entry(path).or_default();
        match ranges.last_mut() {
            Some(last) if last.end() + 1 == number => *last = *last.start()..=number,
            _ => ranges.push(number..=number),
        }
        // As many as an honest receiver reports.
        let surplus = ranges.len().saturating_sub(32);
        ranges.drain(..surplus);
    }

    fn open(&mut self, now: Time, datagram: &mut [u8], answers: &mut Vec<(PathId, [u8; 8])>) {
        let Ok(header) = DataHeader::decode(datagram) else {
            return;
        };
        let path = self.ours.get(&header.cid).copied().unwrap_or(PathId(0));
        let largest = self.largest(path);
        let number = manyway_wire::expand_pn(header.pn_low, largest);
        let second = Duration::from_secs(1);
        let opened = self.opener.open(
            now,
            second,
            path.0,
            number,
            header.epoch,
            datagram,
            DATA_HEADER_LEN,
        );
        let Ok(plain) = opened else {
            return;
        };
        self.note(path, number);
        for frame in Frames::new(plain).map_while(Result::ok) {
            match frame {
                Frame::PathId { path, cid } => {
                    self.cids.insert(path, cid);
                }
                Frame::PathChallenge { data } => answers.push((path, data)),
                Frame::Close { code, reason } => self.closed = Some((code, reason.to_owned())),
                _ => {}
            }
        }
    }
}

fn initiator(victim: &Victim, seed: u64) -> Initiator {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let cid = ConnectionId(rng.random());
    let config = InitiatorConfig {
        ticket: &victim.ticket,
        params: params(cid),
        suite: Suite::default(),
        limits: KeyLimits::default(),
    };
    Initiator::new(config, &mut rng).expect("a sound ticket")
}

fn params(cid: ConnectionId) -> TransportParameters {
    TransportParameters {
        initial_max_data: 1 << 40,
        initial_max_stream_data: 1 << 40,
        initial_max_streams: 1 << 20,
        max_paths: 1 << 20,
        max_datagram: 8952,
        ..TransportParameters::new(cid)
    }
}

/// An endpoint of ours that has dialled a hostile listener.
pub(crate) fn dialled(config: Config) -> (Victim, Peer) {
    let there = SocketAddr::from(([198, 51, 100, 1], 4433));
    let secrets = Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32]));
    let ticket = secrets.ticket(vec![there]);
    let mut end = Endpoint::new(Arc::new(config), [1; 32]).expect("a valid configuration");
    end.add_local(Time::ZERO, local());
    end.connect(Time::ZERO, &ticket).expect("a pair exists");
    let mut victim = Victim {
        now: Time::ZERO,
        end,
        ticket,
        events: Vec::new(),
    };
    let mut responder = Responder::new(ResponderConfig::new(secrets, [2; 32]));
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let (_, init) = victim.wait(Duration::ZERO).remove(0);
    let ours = params(ConnectionId(rng.random()));
    let outcome = responder.on_init(victim.now, here(), &init, || ours);
    let Outcome::Reply { datagram, .. } = outcome else {
        panic!("no reply: {outcome:?}");
    };
    victim.take(there, datagram.to_vec());
    let (_, mut first) = victim.drain().remove(0);
    let header = DataHeader::decode(&first).expect("sealed");
    let opened = responder.try_open(victim.now, &header, &mut first);
    let opened = opened.expect("it is for us");
    let mut peer = Peer::new(there, opened.established);
    let mut answers = Vec::new();
    for frame in Frames::new(opened.payload).map_while(Result::ok) {
        match frame {
            Frame::PathId { path, cid } => {
                peer.cids.insert(path, cid);
            }
            Frame::PathChallenge { data } => answers.push(data),
            _ => {}
        }
    }
    peer.note(PathId(0), opened.packet_number);
    for data in answers {
        peer.say(&mut victim, &[Frame::PathResponse { data }]);
    }
    peer.listen(&mut victim);
    (victim, peer)
}
