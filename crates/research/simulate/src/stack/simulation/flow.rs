//! A flow under way: a client that sends, a server that reads, and what is counted of them.

use std::net::SocketAddr;
use std::ops::Range;

use manyway_control::SenderStats;
use manyway_network::Link;
use manyway_scenario::Flow;
use manyway_session::{ConnectionHandle, PathState, PathStats, Ticket};
use manyway_units::Time;

use super::StackError;
use crate::packet::meter::{Meter, Tally};
use crate::packet::recorder::{FlowView, SubflowView, View};
use crate::stack::host::SessionHost;
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
    stop: Time,
    /// The client's, from the time at which it began to connect.
    handle: Option<ConnectionHandle>,
    /// It is finished or has stopped: what happens from now on doesn't count.
    over: bool,
    finished: Option<Time>,
    /// Bytes that the server has read, each once and in order.
    read: u64,
}

/// One path of a flow, by the client's socket.
#[derive(Debug)]
pub(super) struct Subflow {
    pub(super) flow: usize,
    path: String,
    near: SocketAddr,
    socket: SocketId,
    /// Its socket is gone for good.
    left: bool,
    meter: Meter,
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
        subflows: Range<usize>,
        start: Time,
    ) -> Self {
        Self {
            name: flow.name.clone(),
            client,
            server,
            ticket,
            subflows,
            start,
            stop: flow.stop.unwrap_or(Time::MAX),
            handle: None,
            over: false,
            finished: None,
            read: 0,
        }
    }

    /// The client gets the subflow's socket, and connects if it is its first one.
    pub(super) fn join(
        &mut self,
        world: &mut World<SessionHost>,
        subflow: &mut Subflow,
    ) -> Result<(), StackError> {
        if self.over {
            return Ok(());
        }
        let now = world.now();
        let client = world.host_mut(self.client);
        client.add_local(now, subflow.socket, &subflow.path, subflow.near, None);
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
    pub(super) fn leave(&mut self, world: &mut World<SessionHost>, subflow: &mut Subflow) {
        let now = world.now();
        let client = world.host_mut(self.client);
        client.remove_local(now, subflow.socket);
        subflow.left = true;
        subflow.end(now);
    }

    /// Nothing is sent from now on.
    pub(super) fn stop(&mut self, world: &mut World<SessionHost>, subflows: &mut [Subflow]) {
        let now = world.now();
        if let Some(handle) = self.handle.filter(|_| !self.over) {
            let client = world.host_mut(self.client);
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
        world: &mut World<SessionHost>,
        subflows: &mut [Subflow],
    ) -> Result<(), StackError> {
        if self.over {
            return Ok(());
        }
        let now = world.now();
        let subflows = &mut subflows[self.subflows.clone()];
        let (client, server) = (world.host(self.client), world.host(self.server));
        if let Some((at, reason)) = client.traffic().closed() {
            return Err(StackError::Ended {
                name: self.name.clone(),
                at_s: at.as_secs_f64(),
                reason: reason.clone(),
            });
        }
        let (sent, received) = (client.stats(), server.stats());
        for subflow in &mut *subflows {
            if let Some(stats) = &sent {
                subflow.on_sent(now, &stats.paths);
            }
            if let (Some(sent), Some(received)) = (&sent, &received) {
                subflow.on_received(&sent.paths, &received.paths);
            }
        }
        let mut read = 0;
        for stream in server.traffic().received() {
            if let Some(offset) = stream.mismatch {
                let name = self.name.clone();
                return Err(StackError::Corrupt { name, offset });
            }
            read += stream.bytes;
        }
        share_out(read - self.read, subflows);
        self.read = read;
        let finished = client.traffic().finished().first();
        if let Some(&(at, _)) = finished {
            self.finished = Some(at);
            self.over = true;
            subflows.iter_mut().for_each(|subflow| subflow.end(at));
            if let Some(handle) = self.handle {
                world.host_mut(self.client).close(now, handle, 0, "");
            }
        }
        Ok(())
    }
}

/// Bytes were read: they count for the paths in proportion to what has arrived on each since bytes
/// were read before. What arrived twice counts once in all.
fn share_out(read: u64, subflows: &mut [Subflow]) {
    if read == 0 {
        return;
    }
    let fresh = |subflow: &Subflow| subflow.arrived - subflow.counted;
    let mut arrived: u64 = subflows.iter().map(fresh).sum();
    let mut left = read;
    for subflow in subflows {
        let own = fresh(subflow);
        let share = match arrived {
            0 => left,
            _ => (u128::from(left) * u128::from(own) / u128::from(arrived)) as u64,
        };
        subflow.meter.delivered(share);
        subflow.counted = subflow.arrived;
        arrived -= own;
        left -= share;
    }
}

impl Subflow {
    pub(super) fn new(flow: usize, path: String, near: SocketAddr, socket: SocketId) -> Self {
        Self {
            flow,
            path,
            near,
            socket,
            left: false,
            meter: Meter::new(),
            stats: SenderStats::default(),
            rtt: f64::NAN,
            arrived: 0,
            counted: 0,
        }
    }

    /// Takes in the client's paths. Several may have used the socket, one after the other; a
    /// session forgets the oldest of many.
    fn on_sent(&mut self, now: Time, paths: &[PathStats]) {
        let own = || paths.iter().filter(|path| path.local == self.near);
        let sum = |count: fn(&PathStats) -> u64| own().map(count).sum::<u64>();
        let stats = &mut self.stats;
        stats.packets_sent = stats.packets_sent.max(sum(|path| path.packets_sent));
        stats.packets_lost = stats.packets_lost.max(sum(|path| path.packets_lost));
        stats.loss_events = stats.loss_events.max(sum(|path| path.loss_events));
        stats.timeouts = stats.timeouts.max(sum(|path| path.timeouts));
        let in_use =
            |path: &&PathStats| matches!(path.state, PathState::Active | PathState::Stalled);
        let path = own().rfind(in_use).filter(|_| !self.left);
        let Some(path) = path else {
            return self.end(now);
        };
        if self.meter.is_over() {
            self.meter.join(now, path.window);
        } else {
            self.meter.window(now, path.window);
        }
        self.rtt = path.rtt.as_secs_f64();
        self.meter.rtt(path.rtt.as_nanos() as u64);
    }

    /// Takes in the server's paths. Which are its own, the client knows: both ends have the same
    /// ids, and the server may see another address.
    fn on_received(&mut self, sent: &[PathStats], received: &[PathStats]) {
        let own = |id| {
            sent.iter()
                .any(|path| path.id == id && path.local == self.near)
        };
        let paths = received.iter().filter(|path| own(path.id));
        let arrived = paths.map(|path| path.stream_bytes_received).sum();
        self.arrived = self.arrived.max(arrived);
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
            finished: flow.finished,
            unit: 1,
        }
    }

    fn read(&mut self, subflow: usize, now: Time) -> (Tally, SenderStats) {
        let subflow = &mut self.subflows[subflow];
        (subflow.meter.read(now), subflow.stats)
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
