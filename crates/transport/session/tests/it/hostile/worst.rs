//! Peers that do their worst, all of it, for a minute at 10 Mbit/s, beside an honest transfer.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_session::{
    Config, ConnectionHandle, Endpoint, Event, Incoming, Local, LocalId, StreamId,
};
use manyway_units::Time;
use manyway_wire::Frame;

use super::memory::held;
use super::peer::{Peer, Target};
use super::repertoire::worst;
use super::victim::{Victim, dialled, here};

const MS: Duration = Duration::from_millis(1);
/// Bytes a millisecond.
const ATTACK: u64 = 1250;
/// The honest sender's link: 20 Mbit/s.
const HONEST: u64 = 2500;

/// An honest sender, on a link of its own.
struct Sender {
    end: Endpoint,
    handle: ConnectionHandle,
    stream: Option<StreamId>,
    at_victim: Option<ConnectionHandle>,
    /// What is under way to the victim and back, by its arrival.
    there: VecDeque<(Time, Vec<u8>)>,
    back: VecDeque<(Time, Vec<u8>)>,
    /// Bytes that the link may still take in this millisecond.
    tokens: u64,
    waiting: VecDeque<Vec<u8>>,
    received: u64,
}

fn sender() -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 1], 4433))
}

impl Sender {
    fn new(victim: &Victim) -> Self {
        let mut end = Endpoint::new(Arc::new(Config::default()), [5; 32]).expect("valid");
        let local = Local {
            id: LocalId(1),
            name: "if1".into(),
            addr: sender(),
            mtu: None,
        };
        end.add_local(Time::ZERO, local);
        let handle = end.connect(victim.now, &victim.ticket).expect("a pair");
        Self {
            end,
            handle,
            stream: None,
            at_victim: None,
            there: VecDeque::new(),
            back: VecDeque::new(),
            tokens: 0,
            waiting: VecDeque::new(),
            received: 0,
        }
    }

    /// What happens within a millisecond on the sender's side.
    fn step(&mut self, victim: &mut Victim) {
        let now = victim.now;
        while self.back.front().is_some_and(|(at, _)| *at <= now) {
            let (_, mut data) = self.back.pop_front().expect("just seen");
            let incoming = Incoming {
                local: LocalId(1),
                remote: here(),
                ecn: None,
                data: &mut data,
            };
            self.end.handle_datagram(now, incoming);
        }
        self.end.handle_timeout(now);
        self.write();
        let mut buf = Vec::new();
        while let Some(transmit) = self.end.poll_transmit(now, 8, &mut buf) {
            let datagrams = buf.chunks(transmit.segment_size.unwrap_or(buf.len()));
            // A queue of 64 packets.
            let room = 64usize.saturating_sub(self.waiting.len());
            self.waiting
                .extend(datagrams.take(room).map(<[u8]>::to_vec));
        }
        while self.end.poll_event().is_some() {}
        self.tokens = (self.tokens + HONEST).min(10_000);
        while let Some(next) = self.waiting.front()
            && next.len() as u64 <= self.tokens
        {
            self.tokens -= next.len() as u64;
            let next = self.waiting.pop_front().expect("just seen");
            self.there.push_back((now + 10 * MS, next));
        }
        while self.there.front().is_some_and(|(at, _)| *at <= now) {
            let (_, data) = self.there.pop_front().expect("just seen");
            victim.take(sender(), data);
        }
    }

    fn write(&mut self) {
        let Some(connection) = self.end.connection(self.handle) else {
            return;
        };
        let stream = match self.stream {
            Some(stream) => stream,
            None => match connection.open() {
                Ok(stream) => *self.stream.insert(stream),
                Err(_) => return,
            },
        };
        let mut data = Bytes::from_static(&[9; 64 << 10]);
        while connection.write(stream, &mut data).is_ok() && data.is_empty() {
            data = Bytes::from_static(&[9; 64 << 10]);
        }
    }

    /// Takes what the victim has sent to us, and reads what it has received of ours.
    fn hear(&mut self, victim: &mut Victim, sent: &mut Vec<(SocketAddr, Vec<u8>)>) {
        let now = victim.now;
        for (_, data) in sent.extract_if(.., |(to, _)| *to == sender()) {
            self.back.push_back((now + 10 * MS, data));
        }
        if self.at_victim.is_none() {
            self.at_victim = victim.events.first().map(|(handle, _)| *handle);
        }
        if let Some(connection) = self.at_victim.and_then(|h| victim.end.connection(h)) {
            while let Ok(Some(data)) = connection.read(now, StreamId(0), usize::MAX) {
                self.received += data.len() as u64;
            }
        }
    }
}

struct Outcome {
    /// Bytes that the endpoint took at most.
    most: isize,
    /// Bytes that came through on the honest connection.
    received: u64,
    /// Connections that are over.
    closed: Vec<String>,
}

/// So many hostile connections for so long, sharing 10 Mbit/s.
fn run(config: Config, hostile: u64, time: Duration) -> Outcome {
    let before = held();
    let mut victim = Victim::listener(config);
    let mut honest = Sender::new(&victim);
    while honest.received == 0 {
        honest.step(&mut victim);
        let mut sent = victim.wait(MS);
        honest.hear(&mut victim, &mut sent);
    }
    let mut peers: Vec<_> = (0..hostile)
        .map(|n| {
            let address = SocketAddr::from(([198, 51, 100, (n / 60) as u8], 1 + n as u16));
            victim.wait(10 * MS);
            Peer::connect(&mut victim, address, n)
        })
        .collect();
    let start = honest.received;
    let (mut most, mut n, mut budget, mut closed) = (0, 0, 0, Vec::new());
    for _ in 0..time.as_millis() {
        budget += ATTACK;
        while budget > 0 && hostile > 0 {
            let peer = &mut peers[(n % hostile) as usize];
            // Alone it does everything, in company each does one thing.
            let kind = if hostile == 1 {
                n / 7 % 7
            } else {
                n % hostile % 7
            };
            let (sent, round) = (peer.sent, n / hostile.max(7));
            worst(
                kind,
                if hostile == 1 { n / 7 } else { round },
                peer,
                &mut victim,
            );
            budget = budget.saturating_sub((peer.sent - sent).max(40) + 28);
            n += 1;
        }
        honest.step(&mut victim);
        let mut sent = victim.wait(MS);
        honest.hear(&mut victim, &mut sent);
        for (to, data) in sent {
            // Only news of path ids is heard: that is what some need.
            if let Some(peer) = peers.iter_mut().find(|peer| peer.address == to) {
                peer.overhear(victim.now, data);
            }
        }
        closed.extend(victim.closed().into_iter().map(|(_, why)| why));
        victim.events.truncate(1);
        most = most.max(held() - before);
    }
    let received = honest.received - start;
    drop(victim);
    // What is left is the test's own.
    let own = held() - before;
    Outcome {
        most: most - own,
        received,
        closed,
    }
}

fn honest_keeps_its_share(outcome: &Outcome, time: Duration) {
    let alone = run(Config::default(), 0, time);
    // Of 20 Mbit/s.
    assert!(
        alone.received > time.as_secs() * 2_000_000,
        "{}",
        alone.received
    );
    let share = outcome.received as f64 / alone.received as f64;
    assert!(
        share >= 0.8,
        "{share}: {} of {}",
        outcome.received,
        alone.received
    );
}

#[test]
fn one_peer_at_its_worst() {
    let time = Duration::from_secs(60);
    let outcome = run(Config::default(), 1, time);
    assert_eq!(outcome.closed, [""; 0], "it breaks no rule");
    assert!(outcome.most < 16 << 20, "{}", outcome.most);
    honest_keeps_its_share(&outcome, time);
}

#[test]
fn a_thousand_connections_at_their_worst() {
    let time = Duration::from_secs(60);
    let memory = 256 << 20;
    let config = Config {
        memory,
        ..Config::default()
    };
    let outcome = run(config, 1000, time);
    assert!(outcome.most < memory as isize, "{}", outcome.most);
    honest_keeps_its_share(&outcome, time);
}

/// The same against the side that has dialled.
#[test]
fn a_listener_at_its_worst() {
    let (mut victim, mut peer) = dialled(Config::default());
    let (before, mut most, mut n) = (held(), 0, 0);
    for _ in 0..60_000 {
        let start = peer.sent;
        while peer.sent < start + ATTACK {
            // It opens no paths, names no relays and owns other streams.
            let kind = [2, 3, 6][n as usize % 3];
            worst(kind, n, &mut peer, &mut victim);
            n += 1;
            if n % 32 == 0 {
                let frames: Vec<_> = (0..100)
                    .map(|k| Frame::Stream {
                        stream: StreamId(1 + 4 * (n / 32 % 128)),
                        offset: (n * 100 + k) * 97 % (32 << 10),
                        fin: false,
                        data: b"x",
                    })
                    .collect();
                peer.say(&mut victim, &frames);
            }
        }
        for (_, data) in victim.wait(MS) {
            peer.overhear(victim.now, data);
        }
        victim
            .events
            .retain(|(_, event)| matches!(event, Event::Closed(_)));
        most = most.max(held() - before);
    }
    assert_eq!(victim.closed(), [], "it breaks no rule");
    assert!((1 << 20..16 << 20).contains(&most), "{most}");
}
