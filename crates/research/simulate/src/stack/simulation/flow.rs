//! A flow under way: a client that sends, a server that reads, and what is counted of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;

use manyway_control::SenderStats;
use manyway_network::Link;
use manyway_scenario::Flow;
use manyway_session::{ConnectionHandle, PathState, PathStats, Ticket};
use manyway_units::Time;

use super::StackError;
use super::registry::Registry;
use crate::draw::Drawn;
use crate::histogram::Durations;
use crate::packet::meter::{Meter, Tally};
use crate::packet::recorder::{FlowView, SubflowView, Transfer, View};
use crate::stack::node::Node;
use crate::{HostId, SocketId, World};

/// A flow's connection.
#[derive(Debug)]
pub(super) struct Running {
    name: String,
    client: HostId,
    server: HostId,
    ticket: Ticket,
    /// Its subflows' numbers.
    subflows: Range<usize>,
    start: Time,
    /// Bytes that it transfers, if it ends.
    size: u64,
    stop: Time,
    /// The client's, from the time at which it began to connect.
    handle: Option<ConnectionHandle>,
    /// It is finished or has stopped: what happens from now on doesn't count.
    over: bool,
    /// Another transfer follows each.
    repeats: bool,
    /// Its transfers that are complete.
    transfers: Vec<Transfer>,
    /// Bytes that the server has read, each once and in order.
    read: u64,
    relays: Registry,
    /// Its subflows, counted from 0, by [`Way::address`].
    ways: BTreeMap<SocketAddr, usize>,
}

/// How a subflow's packets get to the server.
#[derive(Debug, Copy, Clone)]
pub(super) enum Way {
    /// From an address of the client's, with the socket there.
    Direct(SocketAddr, SocketId),
    /// Through the relay at this address.
    Relay(SocketAddr),
}

impl Way {
    /// By which address a path of the client's is known to be this one.
    fn address(self) -> SocketAddr {
        match self {
            Self::Direct(near, _) => near,
            Self::Relay(at) => at,
        }
    }
}

/// What there is to see of one subflow. Several of the client's paths may have gone its way, one
/// after the other.
#[derive(Debug, Default)]
struct Seen<'a> {
    sent: SenderStats,
    /// The path that is in use now.
    path: Option<&'a PathStats>,
    /// Stream bytes that arrived at the server, copies included.
    arrived: u64,
}

/// One path of a flow.
#[derive(Debug)]
pub(super) struct Subflow {
    pub(super) flow: usize,
    path: String,
    way: Way,
    /// Its socket is gone for good.
    left: bool,
    meter: Meter,
    /// Its round-trip times, if their percentiles are measured.
    rtts: Option<Box<Durations>>,
    stats: SenderStats,
    /// Smoothed, seconds; NaN while it isn't there.
    rtt: f64,
    /// Stream bytes that arrived on it at the server, copies included.
    arrived: u64,
    /// As many of those as there were when something was read last.
    counted: u64,
}

impl Running {
    pub(super) fn new(
        flow: &Flow,
        (client, server): (HostId, HostId),
        ticket: Ticket,
        drawn: &Drawn,
        relays: Registry,
    ) -> Self {
        Self {
            name: flow.name.clone(),
            client,
            server,
            ticket,
            subflows: 0..0,
            start: drawn.start,
            size: drawn.size.unwrap_or(0),
            repeats: drawn.next.is_some(),
            stop: flow.stop.unwrap_or(Time::MAX),
            handle: None,
            over: false,
            transfers: Vec::new(),
            read: 0,
            relays,
            ways: BTreeMap::new(),
        }
    }

    /// The same, with those of all subflows that are its own.
    pub(super) fn with_subflows(mut self, all: &[Subflow], own: Range<usize>) -> Self {
        let ways = all[own.clone()].iter().map(|subflow| subflow.way.address());
        self.ways = ways.zip(0..).collect();
        self.subflows = own;
        self
    }

    /// The client gets the subflow's socket, and connects if it is its first one.
    pub(super) fn join(
        &mut self,
        world: &mut World<Node>,
        subflow: &mut Subflow,
    ) -> Result<(), StackError> {
        let Way::Direct(near, socket) = subflow.way else {
            return Ok(());
        };
        if self.over {
            return Ok(());
        }
        let now = world.now();
        let client = world.host_mut(self.client).session_mut();
        client.add_local(now, socket, &subflow.path, near, None);
        if self.handle.is_none() {
            let handle = client.connect(now, &self.ticket);
            self.handle = Some(handle.map_err(|error| StackError::Session {
                name: self.name.clone(),
                problem: error.to_string(),
            })?);
        }
        Ok(())
    }

    /// The subflow's socket goes.
    pub(super) fn leave(&mut self, world: &mut World<Node>, subflow: &mut Subflow) {
        let now = world.now();
        if let Way::Direct(_, socket) = subflow.way {
            let client = world.host_mut(self.client).session_mut();
            client.remove_local(now, socket);
        }
        subflow.left = true;
        subflow.end(now);
    }

    /// Nothing is sent from now on.
    pub(super) fn stop(&mut self, world: &mut World<Node>, subflows: &mut [Subflow]) {
        let now = world.now();
        if let Some(handle) = self.handle.filter(|_| !self.over) {
            let client = world.host_mut(self.client).session_mut();
            client.close(now, handle, 0, "");
            if client.stats().is_none() {
                client.endpoint_mut().forget(handle);
            }
        }
        self.over = true;
        for subflow in &mut subflows[self.subflows.clone()] {
            subflow.end(now);
        }
    }

    /// Counts what has happened up to now.
    pub(super) fn observe(
        &mut self,
        world: &mut World<Node>,
        subflows: &mut [Subflow],
    ) -> Result<(), StackError> {
        if self.over {
            return Ok(());
        }
        let now = world.now();
        let subflows = &mut subflows[self.subflows.clone()];
        self.offer_relays(world);
        let [client, server] = [self.client, self.server].map(|end| world.host(end).session());
        if let Some((at, reason)) = client.traffic().closed() {
            return Err(StackError::Ended {
                name: self.name.clone(),
                at_s: at.as_secs_f64(),
                reason: reason.clone(),
            });
        }
        let (sent, received) = (client.stats(), server.stats());
        if let Some(sent) = &sent {
            let received = received.map_or(Vec::new(), |received| received.paths);
            let seen = self.seen(&sent.paths, &received);
            for (subflow, seen) in subflows.iter_mut().zip(&seen) {
                subflow.look(now, seen);
            }
        }
        if let Some(stream) = server.traffic().faulty() {
            let name = self.name.clone();
            return Err(match (&stream.failure, stream.mismatch) {
                (Some(problem), _) => StackError::Transfer {
                    name,
                    problem: problem.clone(),
                },
                (None, offset) => StackError::Corrupt {
                    name,
                    offset: offset.unwrap_or(stream.bytes),
                },
            });
        }
        let read = server.traffic().goodput().total();
        share_out(read - self.read, subflows);
        self.read = read;
        let (finished, resumed) = (client.traffic().finished(), client.traffic().resumed());
        for (n, &(ended, _)) in finished.iter().enumerate().skip(self.transfers.len()) {
            let before = n.checked_sub(1).and_then(|before| resumed.get(before));
            let (began, bytes) = before.copied().unwrap_or((self.start, self.size));
            self.transfers.push(Transfer {
                bytes,
                began,
                ended,
            });
        }
        if let Some(&(at, _)) = finished.first().filter(|_| !self.repeats) {
            self.over = true;
            subflows.iter_mut().for_each(|subflow| subflow.end(at));
            if let Some(handle) = self.handle {
                let client = world.host_mut(self.client).session_mut();
                client.close(now, handle, 0, "");
            }
        }
        Ok(())
    }

    /// The most bytes that its receiver has had in its buffer, holes included.
    pub(super) fn most_unread(&self, world: &World<Node>) -> u64 {
        let server = world.host(self.server).session();
        server.stats().map_or(0, |stats| stats.most_unread)
    }

    /// Its only transfer, once that is complete.
    fn finished(&self) -> Option<&Transfer> {
        self.transfers.first().filter(|_| !self.repeats)
    }

    /// What the client's and the server's paths say of each subflow. Which of the server's are
    /// whose, the client knows: both ends have the same ids, and the server may see another
    /// address.
    fn seen<'a>(&self, sent: &'a [PathStats], received: &[PathStats]) -> Vec<Seen<'a>> {
        let mut seen: Vec<Seen<'a>> = self.subflows.clone().map(|_| Seen::default()).collect();
        let mut owners = BTreeMap::new();
        for path in sent {
            let address = if path.relay { path.remote } else { path.local };
            let Some(&n) = self.ways.get(&address) else {
                continue;
            };
            owners.insert(path.id, n);
            let stats = &mut seen[n].sent;
            stats.packets_sent += path.packets_sent;
            stats.packets_lost += path.packets_lost;
            stats.loss_events += path.loss_events;
            stats.timeouts += path.timeouts;
            if path.state.works() || path.state == PathState::Stalled {
                seen[n].path = Some(path);
            }
        }
        for path in received {
            if let Some(&n) = owners.get(&path.id) {
                seen[n].arrived += path.stream_bytes_received;
            }
        }
        seen
    }

    /// Tells the client of relays, if it is time.
    fn offer_relays(&mut self, world: &mut World<Node>) {
        let now = world.now();
        let relays = &mut self.relays;
        let traffic = world.host(self.client).session().traffic();
        let connection = traffic.connection();
        if let Some(handle) = connection.filter(|_| relays.is_asked(now, traffic.log())) {
            let client = world.host_mut(self.client).session_mut();
            if let Some(connection) = client.endpoint_mut().connection(handle) {
                relays.give(now, connection);
            }
        }
    }
}

/// Bytes were read: they count for the paths in proportion to what has arrived on each since bytes
/// were read before. What arrived twice counts once in all.
fn share_out(read: u64, subflows: &mut [Subflow]) {
    if read == 0 {
        return;
    }
    let fresh = |subflow: &Subflow| subflow.arrived.saturating_sub(subflow.counted);
    let mut arrived: u64 = subflows.iter().map(fresh).sum();
    let mut left = read;
    for subflow in subflows {
        let own = fresh(subflow);
        let share = match arrived {
            0 => left,
            _ => (u128::from(left) * u128::from(own) / u128::from(arrived)) as u64,
        };
        subflow.meter.delivered(share);
        subflow.counted += share;
        arrived -= own;
        left -= share;
    }
}

impl Subflow {
    pub(super) fn new(flow: usize, path: String, way: Way, rtts: Option<Box<Durations>>) -> Self {
        Self {
            flow,
            path,
            way,
            left: false,
            meter: Meter::new(),
            rtts,
            stats: SenderStats::default(),
            rtt: f64::NAN,
            arrived: 0,
            counted: 0,
        }
    }

    /// Takes in what there is to see; a session forgets the oldest of many paths.
    fn look(&mut self, now: Time, seen: &Seen<'_>) {
        let stats = &mut self.stats;
        stats.packets_sent = stats.packets_sent.max(seen.sent.packets_sent);
        stats.packets_lost = stats.packets_lost.max(seen.sent.packets_lost);
        stats.loss_events = stats.loss_events.max(seen.sent.loss_events);
        stats.timeouts = stats.timeouts.max(seen.sent.timeouts);
        self.arrived = self.arrived.max(seen.arrived);
        let Some(path) = seen.path.filter(|_| !self.left) else {
            return self.end(now);
        };
        if self.meter.is_over() {
            self.meter.join(now, path.window);
        } else {
            self.meter.window(now, path.window);
        }
        self.rtt = path.rtt.as_secs_f64();
        let rtt = path.rtt.as_nanos() as u64;
        self.meter.rtt(rtt);
        if let Some(rtts) = &mut self.rtts {
            rtts.add(now, rtt);
        }
    }

    fn end(&mut self, at: Time) {
        if !self.meter.is_over() {
            self.meter.end(at);
        }
        self.rtt = f64::NAN;
    }
}

/// The parts of a run that are measured.
pub(super) struct Parts<'a> {
    pub(super) flows: &'a [Running],
    pub(super) subflows: &'a mut [Subflow],
    pub(super) links: &'a [Link],
}

impl View for Parts<'_> {
    fn links(&self) -> &[Link] {
        self.links
    }

    fn flow(&self, index: usize) -> FlowView {
        let flow = &self.flows[index];
        FlowView {
            start: flow.start,
            stop: flow.stop,
            finished: flow.finished().map(|transfer| transfer.ended),
            unit: 1,
        }
    }

    fn transfers(&self, index: usize) -> &[Transfer] {
        &self.flows[index].transfers
    }

    fn read(&mut self, subflow: usize, now: Time) -> (Tally, SenderStats) {
        let subflow = &mut self.subflows[subflow];
        (subflow.meter.read(now), subflow.stats)
    }

    fn rtts(&self, subflow: usize) -> Option<[f64; 3]> {
        let rtts = self.subflows[subflow].rtts.as_ref();
        rtts.map(|rtts| rtts.percentiles())
    }

    fn sample(&mut self, subflow: usize, at: Time) -> SubflowView {
        let subflow = &mut self.subflows[subflow];
        let tally = subflow.meter.read(at);
        SubflowView {
            window: subflow.meter.current(),
            rtt: subflow.rtt,
            delivered: (tally.openings > 0).then_some((tally.delivered, 1)),
        }
    }
}
