//! Hosts, sockets, links and routes under a virtual clock.

mod forwarding;
mod route;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;

use manyway_network::{HeldBack, InvalidLink, Link, LinkConfig, LinkStats};
use manyway_units::Time;
use rand_pcg::Pcg64Mcg;

use crate::events::{Events, mix};
use crate::trace::Tap;
use route::RouteState;
pub use route::{Impairments, Route, RouteStats};

/// Anything that takes and gives datagrams. Sans-IO: it never reads a clock.
pub trait Host {
    /// A datagram arrived; it may be opened in place.
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>);

    /// Fills `buf` (its content is replaced) with one or more datagrams to send now; `None` when
    /// there is nothing to send.
    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Departure>;

    /// When [`Host::handle_timeout`] is to be called, if nothing happens before.
    fn timeout(&self) -> Option<Time>;

    /// The time asked for has come.
    fn handle_timeout(&mut self, now: Time);
}

/// A datagram that arrived at a host.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// The host's socket it came by.
    pub socket: SocketId,
    /// The sender's address (or whose address it claims to be).
    pub remote: SocketAddr,
    /// Whether it is marked ECN-capable.
    pub ecn: bool,
    /// Whether a queue on its way marked it "congestion experienced".
    pub marked: bool,
    /// Its payload.
    pub data: &'a mut [u8],
}

/// One or more datagrams that a host sends.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Departure {
    /// The host's socket they leave by.
    pub socket: SocketId,
    /// Where to.
    pub remote: SocketAddr,
    /// Whether they are marked ECN-capable.
    pub ecn: bool,
    /// The size of each of several datagrams, of which the last may be shorter; `None` for one
    /// datagram.
    pub segment_size: Option<usize>,
}

/// A host of a [`World`].
#[derive(Debug, Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(usize);

/// A link of a [`World`].
#[derive(Debug, Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(usize);

/// A socket, numbered from 0 on within its host, in the order of [`World::add_socket`].
#[derive(Debug, Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u32);

/// What happened to datagrams so far.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Default)]
pub struct WorldStats {
    /// Datagrams that hosts sent.
    pub sent: u64,
    /// Datagrams that were handed to hosts, injected ones included.
    pub arrived: u64,
    /// Datagrams sent to where no route leads.
    pub unroutable: u64,
    /// Datagrams that arrived at an address without a socket, at a NAT that doesn't let them in, or
    /// at a host that is frozen.
    pub unclaimed: u64,
}

/// A datagram that was seen on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// The sender's address.
    pub from: SocketAddr,
    /// The address it goes to.
    pub to: SocketAddr,
    /// Its payload.
    pub data: Vec<u8>,
}

/// A network of hosts, run event by event on an integer clock.
///
/// Whoever runs it alternates between [`World::run_until`] and looking at, or meddling with, hosts
/// and links.
#[derive(Debug)]
pub struct World<H> {
    now: Time,
    seed: u64,
    events: Events<Event>,
    hosts: Vec<HostState<H>>,
    links: Vec<Link>,
    /// By link: packets that wait until its queue decides about them.
    held: Vec<HeldBack<usize>>,
    routes: Vec<RouteState>,
    /// Looked up, never iterated over: its order doesn't matter.
    route_of: HashMap<(SocketAddr, SocketAddr), usize>,
    /// Looked up, never iterated over.
    socket_of: HashMap<SocketAddr, (HostId, SocketId)>,
    /// Addresses behind a NAT, with those that something was sent to from there.
    nats: HashMap<SocketAddr, HashSet<SocketAddr>>,
    packets: Vec<Packet>,
    free_packets: Vec<usize>,
    transmit: Vec<u8>,
    captured: VecDeque<Captured>,
    capture_limit: usize,
    stats: WorldStats,
    trace: u64,
    tap: Option<Box<Tapped>>,
}

/// A tap, and what it has to know of datagrams.
#[derive(Debug)]
struct Tapped {
    tap: Tap,
    /// By route: twice the number of its subflow, plus one on the return path.
    flows: HashMap<usize, u32>,
    /// A datagram's number.
    number: fn(&[u8]) -> Option<u64>,
}

#[derive(Debug)]
struct HostState<H> {
    host: H,
    sockets: Vec<SocketAddr>,
    /// The earliest timer event under way for it.
    timer: Option<Time>,
    frozen: bool,
    /// When its timer fired last, and how often at that moment.
    fired: (Time, u32),
    /// Touched from outside: to be asked for datagrams before time goes on.
    touched: bool,
}

#[derive(Debug, Default)]
struct Packet {
    route: usize,
    /// The link it is on, as an index into its route's links.
    hop: usize,
    offered: Time,
    ecn: bool,
    marked: bool,
    data: Vec<u8>,
}

/// A datagram's two ECN bits.
#[derive(Debug, Copy, Clone, Default)]
struct Marks {
    capable: bool,
    congested: bool,
}

#[derive(Debug)]
enum Event {
    /// A packet gets to its route's link number `hop`.
    Enter {
        packet: usize,
    },
    /// A packet comes out of that link.
    Leave {
        packet: usize,
    },
    /// A packet gets to its destination.
    Arrive {
        packet: usize,
    },
    /// A link decides about packets that wait.
    Decide {
        link: usize,
    },
    Timer {
        host: HostId,
    },
}

impl<H: Host> World<H> {
    /// Bytes of IPv4 and UDP headers that count on links beside each datagram's payload.
    pub const HEADER_BYTES: u32 = 28;

    /// An empty world at the clock's origin. All its randomness comes from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            now: Time::ZERO,
            seed,
            events: Events::new(mix(seed)),
            hosts: Vec::new(),
            links: Vec::new(),
            held: Vec::new(),
            routes: Vec::new(),
            route_of: HashMap::new(),
            socket_of: HashMap::new(),
            nats: HashMap::new(),
            packets: Vec::new(),
            free_packets: Vec::new(),
            transmit: Vec::new(),
            captured: VecDeque::new(),
            capture_limit: 0,
            stats: WorldStats::default(),
            trace: mix(seed),
            tap: None,
        }
    }

    /// Adds a host without sockets.
    pub fn add_host(&mut self, host: H) -> HostId {
        self.hosts.push(HostState {
            host,
            sockets: Vec::new(),
            timer: None,
            fired: (Time::ZERO, 0),
            frozen: false,
            touched: true,
        });
        HostId(self.hosts.len() - 1)
    }

    /// Gives a host a socket. An address that was in use before belongs to the new socket from now
    /// on.
    pub fn add_socket(&mut self, host: HostId, addr: SocketAddr) -> SocketId {
        let sockets = &mut self.hosts[host.0].sockets;
        let id = SocketId(sockets.len() as u32);
        sockets.push(addr);
        self.socket_of.insert(addr, (host, id));
        id
    }

    /// Changes the address of a socket, as a NAT does that binds anew: from now on its datagrams
    /// come from `addr` and what is sent there arrives. What is sent to the old address arrives
    /// only if `keep`. Routes belong to addresses: the new one needs its own.
    pub fn rebind(&mut self, host: HostId, socket: SocketId, addr: SocketAddr, keep: bool) {
        let old = std::mem::replace(&mut self.hosts[host.0].sockets[socket.0 as usize], addr);
        if !keep {
            self.socket_of.remove(&old);
        }
        self.socket_of.insert(addr, (host, socket));
    }

    /// Puts a NAT in front of the host at this address: it lets in only what comes from where
    /// something was sent to before (endpoint-independent mapping, address- and port-dependent
    /// filtering: RFC 4787, Sections 4 and 5).
    pub fn add_nat(&mut self, addr: SocketAddr) {
        self.nats.entry(addr).or_default();
    }

    /// Adds a one-way link, which any number of routes may share. Its losses are drawn from its own
    /// seed and the world's.
    ///
    /// # Errors
    /// The configuration can't work.
    pub fn add_link(&mut self, config: LinkConfig) -> Result<LinkId, InvalidLink> {
        let seed = mix(mix(self.seed ^ 0x6c69_6e6b).wrapping_add(config.seed))
            .wrapping_add(self.links.len() as u64);
        self.links.push(Link::new(LinkConfig { seed, ..config })?);
        self.held.push(HeldBack::default());
        Ok(LinkId(self.links.len() - 1))
    }

    /// Says how datagrams get from one socket address to another; replaces what was said before.
    pub fn add_route(&mut self, from: SocketAddr, to: SocketAddr, route: Route) {
        let seed = mix(self.seed ^ mix(self.routes.len() as u64 + 1));
        self.route_of.insert((from, to), self.routes.len());
        self.routes.push(RouteState::new(from, to, route, seed));
    }

    /// Has a tap hear of the datagrams on these routes, as packets of so many flows; `number` reads
    /// a datagram's number.
    pub(crate) fn set_tap(
        &mut self,
        tap: Tap,
        routes: &[((SocketAddr, SocketAddr), u32)],
        number: fn(&[u8]) -> Option<u64>,
    ) {
        let flows = routes.iter().filter_map(|(ends, flow)| {
            let route = self.route_of.get(ends)?;
            Some((*route, *flow))
        });
        let flows = flows.collect();
        self.tap = Some(Box::new(Tapped { tap, flows, number }));
    }

    /// The tap.
    pub(crate) fn tap(&self) -> Option<&Tap> {
        self.tap.as_ref().map(|tapped| &tapped.tap)
    }

    /// The tap, which hears of nothing more.
    pub(crate) fn take_tap(&mut self) -> Option<Tap> {
        self.tap.take().map(|tapped| tapped.tap)
    }

    /// Changes how large packets may be on a route, in bytes with IPv4 and UDP headers.
    pub fn set_mtu(&mut self, from: SocketAddr, to: SocketAddr, mtu: Option<u32>) {
        if let Some(&route) = self.route_of.get(&(from, to)) {
            self.routes[route].mtu = mtu;
        }
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Looks at a host.
    pub fn host(&self, host: HostId) -> &H {
        &self.hosts[host.0].host
    }

    /// A host to do something with; what that causes to be sent leaves when the world runs on.
    pub fn host_mut(&mut self, host: HostId) -> &mut H {
        let state = &mut self.hosts[host.0];
        state.touched = true;
        &mut state.host
    }

    /// Freezes a host, as if its machine stood still: it gets nothing and sends nothing until it is
    /// thawed.
    pub fn set_frozen(&mut self, host: HostId, frozen: bool) {
        let state = &mut self.hosts[host.0];
        state.frozen = frozen;
        state.touched = true;
    }

    /// Takes a link down, which loses everything queued and under way on it, or brings it up again.
    pub fn set_link_up(&mut self, link: LinkId, up: bool) {
        self.links[link.0].set_up(self.now, up);
    }

    /// All links, in the order of [`World::add_link`].
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// A link's counters.
    pub fn link_stats(&self, link: LinkId) -> LinkStats {
        self.links[link.0].stats()
    }

    /// A route's counters; `None` without such a route.
    pub fn route_stats(&self, from: SocketAddr, to: SocketAddr) -> Option<RouteStats> {
        self.route_of
            .get(&(from, to))
            .map(|&index| self.routes[index].stats)
    }

    /// The world's counters.
    pub fn stats(&self) -> WorldStats {
        self.stats
    }

    /// A hash over every datagram sent and received and its time: equal for equal runs.
    pub fn trace_hash(&self) -> u64 {
        self.trace
    }

    /// Keeps the last `limit` datagrams that hosts sent, for [`World::captured`].
    pub fn capture(&mut self, limit: usize) {
        self.capture_limit = limit;
        let surplus = self.captured.len().saturating_sub(limit);
        self.captured.drain(..surplus);
    }

    /// The last datagrams that hosts sent, oldest first.
    pub fn captured(&self) -> impl ExactSizeIterator<Item = &Captured> {
        self.captured.iter()
    }

    /// Hands a datagram to whoever has the address `to`, at once, as if it came from `from`: an
    /// attacker's, or an old one's copy.
    pub fn inject(&mut self, from: SocketAddr, to: SocketAddr, mut data: Vec<u8>) {
        self.deliver(from, to, Marks::default(), &mut data);
    }

    /// Runs until the clock shows `until`, that moment's events included.
    pub fn run_until(&mut self, until: Time) {
        self.attend_to_touched();
        while let Some(at) = self.events.next_at().filter(|at| *at <= until) {
            let Some((_, event)) = self.events.pop() else {
                break;
            };
            self.now = at;
            self.handle(event);
        }
        self.now = self.now.max(until);
    }

    /// Runs in steps of `step` while `more` says so, at most until `deadline`; true if it was
    /// `more` that ended it.
    pub fn run_while(
        &mut self,
        step: std::time::Duration,
        deadline: Time,
        mut more: impl FnMut(&mut Self) -> bool,
    ) -> bool {
        while more(self) {
            if self.now >= deadline {
                return false;
            }
            self.run_until((self.now + step).min(deadline));
        }
        true
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Enter { packet } => self.enter_link(packet),
            Event::Leave { packet } => self.leave_link(packet),
            Event::Arrive { packet } => self.arrive(packet),
            Event::Decide { link } => self.decide(link),
            Event::Timer { host } => self.fire_timer(host),
        }
    }

    fn attend_to_touched(&mut self) {
        for index in 0..self.hosts.len() {
            if std::mem::take(&mut self.hosts[index].touched) {
                self.pump(HostId(index));
            }
        }
    }

    /// Takes everything a host wants to send, and its next timeout.
    fn pump(&mut self, id: HostId) {
        if self.hosts[id.0].frozen {
            return;
        }
        let mut buf = std::mem::take(&mut self.transmit);
        loop {
            let host = &mut self.hosts[id.0];
            let Some(departure) = host.host.poll_transmit(self.now, &mut buf) else {
                break;
            };
            let from = host.sockets[departure.socket.0 as usize];
            let size = departure.segment_size.unwrap_or(buf.len()).max(1);
            for datagram in buf.chunks(size) {
                self.send(from, departure, datagram);
            }
        }
        self.transmit = buf;
        self.schedule_timer(id);
    }

    fn schedule_timer(&mut self, id: HostId) {
        let host = &mut self.hosts[id.0];
        let Some(at) = host.host.timeout() else {
            return;
        };
        let at = at.max(self.now);
        // A later wish is found out about when the earlier event fires.
        if at < Time::MAX && host.timer.is_none_or(|earlier| at < earlier) {
            host.timer = Some(at);
            self.events
                .schedule(at, !(id.0 as u64), Event::Timer { host: id });
        }
    }

    fn fire_timer(&mut self, id: HostId) {
        let now = self.now;
        let host = &mut self.hosts[id.0];
        if host.timer.is_some_and(|at| at <= now) {
            host.timer = None;
        }
        if host.frozen {
            return;
        }
        if host.host.timeout().is_some_and(|at| at <= now) {
            host.host.handle_timeout(now);
            self.pump(id);
            self.hosts[id.0].note_firing(id, now);
        } else {
            self.schedule_timer(id);
        }
    }
}

/// Timeouts of one host at one moment after which it is taken for one that never rests.
const MAX_FIRINGS: u32 = 10_000;

impl<H> HostState<H> {
    /// Time would stand still if a host asked for a timeout at this moment again and again.
    fn note_firing(&mut self, id: HostId, now: Time) {
        let (at, times) = self.fired;
        self.fired = (now, if at == now { times + 1 } else { 1 });
        assert!(
            self.fired.1 < MAX_FIRINGS,
            "host {} still asks for a timeout at or before {now:?} after {MAX_FIRINGS} of them \
             were handled",
            id.0
        );
    }
}

/// The seeded generator that every part of a world draws from.
type Rng = Pcg64Mcg;
