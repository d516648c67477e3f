//! Peers with a ticket that do their worst to a real endpoint, for `.ci/hostile`.
//!
//! `hostile TICKET-FILE FIRST-ADDRESS CONNECTIONS SECONDS MBPS [KIND]` connects from
//! FIRST-ADDRESS and those that follow it, 60 connections from each, and replaces connections that
//! the endpoint closes. Alone, a peer does everything that costs; in company, each does one thing,
//! or all do KIND, a number of [`repertoire::worst`].
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use manyway_session::Ticket;
use manyway_session::handshake::Initiator;
use manyway_units::Time;
use manyway_wire::{ConnectionId, DataHeader, DatagramType, Frame};

use peer::{Peer, Target, initiator};
use repertoire::worst;

#[allow(dead_code, reason = "tests do more with a peer")]
#[path = "../tests/it/hostile/peer.rs"]
mod peer;
#[path = "../tests/it/hostile/repertoire.rs"]
mod repertoire;

/// Connections from one address: the endpoint refuses the 65th.
const EACH: usize = 60;
/// IPv4 and UDP headers, bytes.
const HEADERS: u64 = 28;
/// An answer to a handshake comes within this time, or never.
const PATIENCE: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("an argument is missing");
    let ticket: Ticket = std::fs::read_to_string(next()?)?.trim().parse()?;
    let first: Ipv4Addr = next()?.parse()?;
    let connections: usize = next()?.parse()?;
    let seconds: u64 = next()?.parse()?;
    let mbps: u64 = next()?.parse()?;
    let kind = next().ok().map(|kind| kind.parse()).transpose()?;
    let mut hosts = Vec::new();
    for n in 0..connections.div_ceil(EACH) {
        let address = Ipv4Addr::from_bits(first.to_bits() + u32::try_from(n)?);
        let seats = EACH.min(connections - n * EACH);
        hosts.push(Host::new(&ticket, address.into(), seats, n * EACH)?);
    }

    let (start, mut paid) = (Instant::now(), 0);
    let mut turn = 0;
    while start.elapsed() < Duration::from_secs(seconds) {
        let due = start.elapsed().as_micros() as u64 * mbps / 8;
        // After a pause of the machine, the link has no more room than before.
        paid = paid.max(due.saturating_sub(20_000 * mbps / 8));
        for host in &mut hosts {
            let before = host.wire.sent;
            host.hear(start.elapsed());
            host.dial(&ticket, start.elapsed());
            paid += host.wire.sent - before;
        }
        let mut idle = 0;
        while paid < due && idle < connections {
            let host = &mut hosts[turn / EACH];
            let before = host.wire.sent;
            host.attack(turn % EACH, kind.filter(|_| connections > 1), connections);
            paid += host.wire.sent - before;
            idle = if host.wire.sent > before { 0 } else { idle + 1 };
            turn = (turn + 1) % connections;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let sent: u64 = hosts.iter().map(|host| host.wire.sent).sum();
    let opened: u64 = hosts.iter().map(|host| host.opened).sum();
    let open: usize = hosts.iter().map(|host| host.open()).sum();
    let rate = sent as f64 * 8e-6 / start.elapsed().as_secs_f64();
    println!("{rate:.1} Mbit/s, {opened} connections opened, {open} open at the end");
    Ok(())
}

/// All connections from one address.
struct Host {
    wire: Wire,
    address: SocketAddr,
    seats: Vec<Option<Hostile>>,
    /// The handshake under way, with its beginning.
    dialling: Option<(Initiator, Duration)>,
    /// Number of the first seat, over all hosts.
    number: usize,
    opened: u64,
}

struct Hostile {
    cid: ConnectionId,
    peer: Peer,
    /// What it has done so often.
    done: u64,
}

struct Wire {
    socket: UdpSocket,
    /// Bytes, with headers.
    sent: u64,
}

impl Target for Wire {
    fn take(&mut self, _from: SocketAddr, data: Vec<u8>) {
        // What the system has no room for is lost, as on any link.
        self.socket.send(&data).ok();
        self.sent += data.len() as u64 + HEADERS;
    }
}

impl Host {
    fn new(ticket: &Ticket, from: IpAddr, seats: usize, number: usize) -> std::io::Result<Self> {
        let socket = UdpSocket::bind((from, 0))?;
        socket.set_nonblocking(true)?;
        // There may be no route to some of them.
        socket.connect(&ticket.addresses[..])?;
        Ok(Self {
            address: socket.local_addr()?,
            wire: Wire { socket, sent: 0 },
            seats: (0..seats).map(|_| None).collect(),
            dialling: None,
            number,
            opened: 0,
        })
    }

    fn open(&self) -> usize {
        self.seats.iter().flatten().count()
    }

    /// Begins a handshake for the first seat that is free.
    fn dial(&mut self, ticket: &Ticket, now: Duration) {
        let waits = self.dialling.as_ref();
        if self.open() == self.seats.len() || waits.is_some_and(|(_, at)| now < *at + PATIENCE) {
            return;
        }
        let seed = (self.number as u64) << 32 | self.wire.sent;
        let initiator = initiator(ticket, seed);
        self.wire.take(self.address, initiator.datagram().to_vec());
        self.dialling = Some((initiator, now));
    }

    /// Takes what has come: answers to handshakes and to challenges, path ids, refusals.
    fn hear(&mut self, now: Duration) {
        let mut buf = [0; 9000];
        while let Ok(len) = self.wire.socket.recv(&mut buf) {
            let datagram = &mut buf[..len];
            match DatagramType::of(datagram) {
                Some(DatagramType::Data) => self.on_data(Time::ZERO + now, datagram),
                Some(DatagramType::Cookie) => {
                    if let Some((initiator, _)) = &self.dialling
                        && let Ok(cookie) = initiator.on_cookie(datagram)
                    {
                        let init = initiator.datagram_with(&cookie);
                        self.wire.take(self.address, init);
                    }
                }
                Some(DatagramType::Reply) => self.on_reply(datagram),
                _ => {}
            }
        }
    }

    fn on_reply(&mut self, datagram: &[u8]) {
        let Some((initiator, _)) = &mut self.dialling else {
            return;
        };
        let Ok(established) = initiator.on_reply(datagram) else {
            return;
        };
        self.dialling = None;
        let cid = established.local_cid;
        let mut peer = Peer::new(self.address, established);
        peer.say(&mut self.wire, &[Frame::Ping]);
        if let Some(seat) = self.seats.iter_mut().find(|seat| seat.is_none()) {
            *seat = Some(Hostile { cid, peer, done: 0 });
            self.opened += 1;
        }
    }

    fn on_data(&mut self, now: Time, datagram: &mut [u8]) {
        let Ok(header) = DataHeader::decode(datagram) else {
            return;
        };
        let ours = |seat: &Option<Hostile>| seat.as_ref().is_some_and(|it| it.cid == header.cid);
        let Some(seat) = self.seats.iter().position(ours) else {
            return;
        };
        let mut answers = Vec::new();
        if let Some(Hostile { peer, .. }) = &mut self.seats[seat] {
            peer.open(now, datagram, &mut answers);
            for (path, data) in answers {
                peer.say_on(&mut self.wire, path, &[Frame::PathResponse { data }]);
            }
            if peer.closed.is_some() {
                self.seats[seat] = None;
            }
        }
    }

    /// One datagram of the worst kind from this seat.
    fn attack(&mut self, seat: usize, kind: Option<u64>, connections: usize) {
        let Some(Some(Hostile { peer, done, .. })) = self.seats.get_mut(seat) else {
            return;
        };
        let (own, n) = match connections {
            1 => (*done / 7 % 7, *done / 7),
            _ => ((self.number + seat) as u64 % 7, *done),
        };
        worst(kind.unwrap_or(own), n, peer, &mut self.wire);
        *done += 1;
    }
}
