//! The endpoint under attack, on either side of a connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_session::handshake::{Outcome, Responder, ResponderConfig};
use manyway_session::{
    Config, ConnectionHandle, Endpoint, Event, Incoming, Local, LocalId, PathId, Secrets, Ticket,
};
use manyway_units::Time;
use manyway_wire::{ConnectionId, DataHeader, DatagramType, Frame, Frames};
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};

use super::memory::held;
use super::peer::{Peer, Target, initiator, params};

/// Timers that may be due one after the other without time going on.
const MOST_AT_ONCE: usize = 1000;

/// The endpoint under attack.
pub(crate) struct Victim {
    pub(crate) now: Time,
    pub(crate) end: Endpoint,
    pub(crate) ticket: Ticket,
    pub(crate) events: Vec<(ConnectionHandle, Event)>,
    /// Bytes that the endpoint has allocated and not freed.
    pub(crate) held: isize,
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
    fn new(config: Config, ticket: Ticket) -> Self {
        let before = held();
        let mut end = Endpoint::new(Arc::new(config), [1; 32]).expect("a valid configuration");
        end.add_local(Time::ZERO, local());
        Self {
            now: Time::ZERO,
            end,
            ticket,
            events: Vec::new(),
            held: held() - before,
        }
    }

    /// A listener.
    pub(crate) fn listener(config: Config) -> Self {
        let secrets = Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32]));
        let mut victim = Self::new(config, secrets.ticket(vec![here()]));
        victim.on(|end, _| end.listen(secrets));
        victim
    }

    /// Does something to the endpoint; what it allocates meanwhile is counted. What it gives out
    /// has to be dropped within.
    pub(crate) fn on<R>(&mut self, act: impl FnOnce(&mut Endpoint, Time) -> R) -> R {
        let before = held();
        let result = act(&mut self.end, self.now);
        self.held += held() - before;
        result
    }

    /// Takes a datagram on one of its sockets or carriers.
    pub(crate) fn take_on(&mut self, local: LocalId, from: SocketAddr, mut data: Vec<u8>) {
        let incoming = Incoming {
            local,
            remote: from,
            ecn: None,
            data: &mut data,
        };
        self.on(|end, now| end.handle_datagram(now, incoming));
    }

    /// All that the endpoint sends and tells by now.
    pub(crate) fn drain(&mut self) -> Sent {
        let (mut sent, mut buf) = (Vec::new(), Vec::with_capacity(8 * 9000));
        while let Some(transmit) = self.on(|end, now| end.poll_transmit(now, 8, &mut buf)) {
            for datagram in buf.chunks(transmit.segment_size.unwrap_or(buf.len())) {
                sent.push((transmit.remote, datagram.to_vec()));
            }
        }
        while let Some(event) = self.on(|end, _| end.poll_event()) {
            self.events.push(event.clone());
            self.on(|_, _| drop(event));
        }
        sent
    }

    /// Time passes, with all that is due meanwhile; what is sent.
    pub(crate) fn wait(&mut self, time: Duration) -> Sent {
        let (until, mut sent, mut at_once) = (self.now + time, self.drain(), 0);
        while let Some(at) = self.end.timeout()
            && at <= until
        {
            at_once = if at > self.now { 0 } else { at_once + 1 };
            assert!(at_once < MOST_AT_ONCE, "a timer is due for ever");
            self.now = self.now.max(at);
            self.on(|end, now| end.handle_timeout(now));
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

impl Target for Victim {
    fn take(&mut self, from: SocketAddr, data: Vec<u8>) {
        self.take_on(LocalId(1), from, data);
    }
}

impl Peer {
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
        let mut initiator = initiator(&victim.ticket, seed);
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
        initiator(&victim.ticket, seed).datagram().to_vec()
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
}

/// An endpoint of ours that has dialled a hostile listener.
pub(crate) fn dialled(config: Config) -> (Victim, Peer) {
    let there = SocketAddr::from(([198, 51, 100, 1], 4433));
    let secrets = Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32]));
    let ticket = secrets.ticket(vec![there]);
    let mut victim = Victim::new(config, ticket.clone());
    victim.on(|end, now| end.connect(now, &ticket).map(drop).expect("a pair exists"));
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
