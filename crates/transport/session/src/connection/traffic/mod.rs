//! Paths, and all that has to hear of their ups and downs: relays, carriers, the streams, the
//! packets under way.
//!
//! It owns these components and tells each what the others say: `life` carries one path through its
//! life, and `relays` does what relays and carriers want. It neither opens packets nor reads
//! frames, and doesn't know when the connection ends.

mod life;
mod relays;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use manyway_units::{Rate, Time};
use manyway_wire::{ConnectionId, Frame, PathId};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::budget::Usage;
use crate::config::Config;
use crate::crypto::Opener;
use crate::driver::{Ecn, Local, LocalId, SendErrorKind, Transmit};
use crate::event::{Event, PathDownReason};
use crate::stats::{ConnectionStats, PathState, PathSurvey};
use crate::streams::Streams;

use super::carriers::Carriers;
use super::core::Core;
use super::datagrams::Datagrams;
use super::detours::Detours;
use super::outbox::Change;
use super::paths::{NewPath, Origin, Pairs, Path, PathTransport};
use super::receive::Opened;
use super::relayed::{Consents, RelayedPaths};
use super::start::Start;
use super::transmit::{Sources, Transmitter};
use super::violation::Violation;

/// The components that depend on each other's paths.
#[derive(Debug)]
pub(super) struct Traffic {
    config: Arc<Config>,
    initiator: bool,
    core: Core,
    relayed: RelayedPaths,
    /// The listener's part in relays.
    consents: Consents,
    carriers: Carriers,
    detours: Detours,
    transmitter: Transmitter,
    /// Decides which relays are tried, and how rates vary.
    choices: Pcg64Mcg,
}

impl Traffic {
    /// All that a connection starts with, and its opening keys.
    pub(super) fn new(
        now: Time,
        config: &Arc<Config>,
        idle_timeout: Duration,
        start: Start,
    ) -> (Self, Opener) {
        let (initiator, established) = (start.initiator, start.established);
        // Without UDP there are no pairs, but what the peer names may be dialled.
        let locals = if config.udp { start.locals } else { Vec::new() };
        let in_all = start.named_in_all;
        let pairs = initiator.then(|| Pairs::new(locals, start.remotes, in_all.clone()));
        let core = Core::new(
            now,
            config,
            idle_timeout,
            (initiator, pairs),
            (&established.peer, established.local_cid),
            start.secrets,
            start.memory,
        );
        let mut choices = Pcg64Mcg::from_seed(start.choices);
        let relayed = RelayedPaths::new(config, initiator, &mut choices);
        let mut traffic = Self {
            config: config.clone(),
            initiator,
            core,
            relayed,
            consents: Consents::new(in_all),
            carriers: Carriers::new(config),
            detours: Detours::new(now, config),
            transmitter: Transmitter::new(initiator, established.sealer),
            choices,
        };
        let (local, remote) = (start.local.id, start.remote);
        let first = NewPath {
            id: PathId(0),
            local: start.local,
            remote,
            remote_cid: Some(established.remote_cid),
            transport: PathTransport::of(start.facts),
            relay: start.relay,
            initial_rtt: start.rtt,
        };
        let index = traffic.core.add_path(now, first);
        if start.validated {
            traffic.validated(now, index, start.rtt);
        } else {
            traffic.core.start_from(now, index, &start.places);
        }
        if initiator {
            // The listener learns that the handshake is through from our first sealed packet.
            traffic.core.probe(index);
            if start.relay.is_none() && !start.facts.reliable {
                traffic.core.on_first_pair(local, remote);
            }
            if let Some(client) = start.relays {
                let rng = &mut traffic.choices;
                traffic.relayed.take_over(now, client, start.relay, rng);
                traffic.carry_out(now);
            }
        }
        traffic.core.issue_cids(now);
        traffic.core.refresh(now, index);
        (traffic, established.opener)
    }

    // What is known.

    /// See [`PathSet::distrust`](super::paths::PathSet::distrust).
    pub(super) fn distrust(&mut self) {
        self.core.distrust();
    }

    /// See [`PathSet::remember`](super::paths::PathSet::remember).
    pub(super) fn remember(&self) {
        self.core.paths().remember();
    }

    /// An open path's index; another path may have it later.
    pub(super) fn index_of(&self, path: PathId) -> Option<usize> {
        self.core.paths().index_of(path)
    }

    pub(super) fn path(&self, path: PathId) -> Option<&Path> {
        let paths = self.core.paths();
        paths.get(paths.index_of(path)?)
    }

    /// How many paths are open.
    pub(super) fn path_count(&self) -> usize {
        self.core.paths().len()
    }

    /// Whether the sockets of all paths are gone.
    pub(super) fn is_offline(&self) -> bool {
        self.core.paths().are_unbound()
    }

    /// The longest probe timeout of the paths in use.
    pub(super) fn largest_pto(&self) -> Duration {
        self.core.paths().largest_pto()
    }

    /// Paths that a CLOSE may go out on.
    pub(super) fn closable(&self) -> impl Iterator<Item = PathId> {
        let paths = self.core.paths().iter().map(|(_, path)| path);
        let closable = paths.filter(|path| path.takes_close(self.initiator));
        closable.map(Path::id)
    }

    /// The connection ids by which the endpoint knows the connection.
    pub(super) fn issued_cids(&self) -> impl Iterator<Item = ConnectionId> {
        self.core.ids().issued()
    }

    /// Stream bytes written and not acknowledged yet.
    pub(super) fn unacked_bytes(&self) -> u64 {
        self.core.data().streams.unacked_bytes()
    }

    /// Lets go of all that the end can be said without.
    pub(super) fn discard(&mut self, now: Time) {
        self.core.discard();
        self.let_go(now);
    }

    /// The same, but for what the application may still read.
    pub(super) fn let_go(&mut self, now: Time) {
        self.core.leave_paths(now, self.initiator);
        let dropped = self.consents.discard().into_iter();
        dropped.for_each(|change| self.core.change(change));
    }

    /// What the connection takes and has moved. Of datagrams, those count that were taken here.
    pub(super) fn usage(&self) -> Usage {
        let data = self.core.data();
        let taken = data.datagrams.stats().bytes_received;
        Usage {
            memory: self.core.memory() + self.consents.memory(),
            moved: data.acked() + data.streams.bytes_read() + taken,
            streams: data.streams.open_streams(),
            closed: false,
        }
    }

    #[cfg(test)]
    pub(super) fn outbox(&mut self) -> &mut super::outbox::Outbox {
        self.core.parts().outbox
    }

    /// Whether the streams have a control frame to send.
    pub(super) fn has_control(&self) -> bool {
        self.core.data().streams.has_control()
    }

    /// Filler that hasn't left yet, in bytes.
    pub(super) fn unsent_filler(&self) -> u64 {
        self.core.data().filler()
    }

    pub(super) fn best_rtt(&self) -> Option<Duration> {
        self.core.paths().best_rtt()
    }

    /// Counters, but for `packets_rejected`, which it has from its caller.
    pub(super) fn stats(&self, packets_rejected: u64) -> ConnectionStats {
        let paths = self.core.paths().stats();
        ConnectionStats {
            bytes_acked: self.core.data().acked(),
            bytes_sent: paths.iter().map(|p| p.stream_bytes_sent).sum(),
            bytes_received: paths.iter().map(|p| p.stream_bytes_received).sum(),
            bytes_resent: self.core.data().resent(),
            most_unread: self.core.data().streams.most_unread(),
            packets_rejected,
            datagrams: self.core.data().datagrams.stats(),
            relays: self.relayed.stats(self.core.paths()),
            selection: self.relayed.selection_stats(),
            paths,
        }
    }

    // What the application and the endpoint ask.

    /// The streams, for what the application and the peer do to them.
    pub(super) fn streams(&mut self) -> &mut Streams {
        self.core.streams()
    }

    /// The application's datagrams.
    pub(super) fn datagrams(&mut self) -> &mut Datagrams {
        self.core.datagrams()
    }

    /// Tells the application.
    pub(super) fn tell(&mut self, event: Event) {
        self.core.tell(event);
    }

    /// The next event. When the connection is over, nothing follows its end.
    pub(super) fn poll_event(&mut self, open: bool) -> Option<Event> {
        self.core.poll_event(open)
    }

    /// Whether the peer makes us say more than it lets us.
    pub(super) fn overflows(&self) -> bool {
        self.core.overflows()
    }

    /// What the endpoint has to do outside of the connection.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        self.core.take_changes()
    }

    /// Sends `bytes` bytes of filler beside all other data.
    pub(super) fn fill(&mut self, now: Time, bytes: u64) {
        self.core.fill(now, bytes);
        self.drive(now);
    }

    /// Sends at most so much from now on.
    pub(super) fn set_limit(&mut self, now: Time, limit: Option<Rate>) {
        self.core.set_limit(now, limit);
        self.carriers.set_limit(limit);
        self.drive(now);
    }

    /// What was seen of every path over UDP in use since [`fill`](Self::fill).
    pub(super) fn survey(&mut self, now: Time) -> Vec<PathSurvey> {
        self.core.survey(now)
    }

    /// Whether this address of the peer's may be dialled by TCP now.
    pub(super) fn may_dial(&mut self, now: Time, local: IpAddr, remote: SocketAddr) -> bool {
        self.core.may_dial(now, local, remote)
    }

    /// A socket was added: the initiator pairs it up.
    pub(super) fn add_local(&mut self, now: Time, local: &Local) {
        if self.config.udp && self.core.add_local(local) {
            self.core.rebind(now, local);
            self.open_paths(now);
            self.relayed.add_local(now, local);
            self.carry_out(now);
        }
    }

    /// The listener has one more socket: paths that have lost theirs go on from there.
    pub(super) fn rebind(&mut self, now: Time, local: &Local) {
        self.core.rebind(now, local);
    }

    /// The peer hears of the listener's addresses by this frame.
    pub(super) fn announce(&mut self, addresses: Frame<'static>) {
        self.core.say_instead(addresses);
    }

    /// A socket is gone: its paths' data goes over the others.
    pub(super) fn remove_local(
        &mut self,
        now: Time,
        id: LocalId,
        locals: &BTreeMap<LocalId, Local>,
    ) {
        let mut gone = self.core.paths().indices(|path| path.local().id == id);
        let mut kept = Vec::new();
        if !self.core.paths().is_active_without(&gone) {
            // Without any path, nobody could tell the peer where we are now: a listener can't open
            // one, and an initiator only if it has ids for it and the peer is still where it was.
            // One that hasn't answered yet may lead to where the peer was. An initiator opens all
            // but one anew.
            kept = match self.initiator {
                true => Vec::from_iter(self.core.paths().to_go_on_from(&gone)),
                false => gone.clone(),
            };
            gone.retain(|index| !kept.contains(index));
        }
        for index in gone {
            self.close_path(now, index, PathDownReason::LocalGone, true);
        }
        self.core.remove_local(id);
        kept.into_iter()
            .for_each(|index| self.core.unbind(now, index));
        locals
            .values()
            .for_each(|local| self.core.rebind(now, local));
        self.relayed.remove_local(id);
        self.carry_out(now);
    }

    /// The listener is, or may be, at these addresses too.
    pub(super) fn add_remotes(&mut self, now: Time, addresses: &[SocketAddr]) {
        if self.core.add_remotes(addresses) {
            self.open_paths(now);
        }
    }

    /// A datagram could not be sent. Without a route the path between these two addresses is given
    /// up, unless it is the last one, or the last one that works. Whether there is such a path.
    pub(super) fn on_send_error(
        &mut self,
        now: Time,
        local: LocalId,
        remote: SocketAddr,
        kind: SendErrorKind,
    ) -> bool {
        let Some(index) = self.core.paths().between(local, remote) else {
            return false;
        };
        match kind {
            SendErrorKind::TooBig => self.core.on_too_big(now, index),
            SendErrorKind::NoRoute => {
                let paths = self.core.paths();
                let spare = match paths[index].state() {
                    PathState::Validating => paths.len() > 1,
                    _ => paths.is_active_without(&[index]),
                };
                if spare {
                    self.close_path(now, index, PathDownReason::NoRoute, true);
                }
            }
            // Loss detection deals with it.
            SendErrorKind::Other => {}
        }
        true
    }

    // What leaves.

    /// Fills `buf` with one or more datagrams for one path.
    pub(super) fn poll(
        &mut self,
        now: Time,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.core.refresh_stale(now);
        let from = Sources {
            core: self.core.parts(),
            relayed: &mut self.relayed,
            carriers: &mut self.carriers,
        };
        self.transmitter.poll(now, max_segments, from, buf)
    }

    /// CLOSE on a path, if that may be.
    pub(super) fn transmit_close(
        &mut self,
        now: Time,
        path: PathId,
        close: (u64, &str),
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let core = self.core.parts();
        self.transmitter.close(now, path, close, core, buf)
    }

    /// Why a packet couldn't be sealed, once.
    pub(super) fn take_failure(&mut self) -> Option<String> {
        self.transmitter.take_failure()
    }

    // Time.

    pub(super) fn timeout(&self, now: Time) -> Option<Time> {
        let others = [self.relayed.timeout(now), self.carriers.timeout()];
        let core = self.core.timeout(now);
        core.into_iter().chain(others.into_iter().flatten()).min()
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        self.core.on_data_timeout(now);
        self.core.issue_cids(now);
        // Taken once: a timer that waits for a datagram to leave may still be due afterwards.
        for index in self.core.paths().due(now) {
            if self.core.paths().get(index).is_some() {
                self.on_path_timer(now, index);
            }
        }
        self.open_paths(now);
        self.relayed.on_timeout(now);
        self.carry_out(now);
        self.select(now);
        self.control_rates(now);
    }

    // What arrives.

    /// A datagram came for a path while the connection is closing: from anywhere, as it wasn't
    /// opened. Whether it is answered.
    pub(super) fn on_unopened(&mut self, path: PathId, remote: SocketAddr, bytes: usize) -> bool {
        let came = (remote, bytes);
        self.core.on_unopened(path, came, self.initiator)
    }

    /// A packet of a path that there is has opened, at this socket.
    pub(super) fn follow_relay(
        &mut self,
        now: Time,
        index: usize,
        from: (&Local, SocketAddr),
        number: u64,
    ) {
        let answers = |address| self.consents.has_answered(address);
        self.core.follow_relay(now, index, from, number, answers);
    }

    /// A packet has opened. Where it came from.
    pub(super) fn on_packet(&mut self, now: Time, index: usize, opened: &Opened<'_>) -> Origin {
        self.consents.on_received(opened.len);
        self.core.on_packet(now, index, opened)
    }

    /// A packet's frames were handled. It is acknowledged at once if it has a mark or a PING.
    pub(super) fn record(
        &mut self,
        now: Time,
        index: usize,
        opened: &Opened<'_>,
        (ack_eliciting, pinged): (bool, bool),
    ) {
        let path = &self.core.paths()[index];
        let policy = path.ack_policy(self.config.ack_every, self.config.ack_delay);
        let at_once = opened.ecn == Some(Ecn::Ce) || pinged;
        let packet = (opened.number, ack_eliciting);
        self.core.record(now, index, packet, policy, at_once);
        if pinged && let Some(other) = self.transmitter.echo_ack(self.core.paths(), index) {
            self.core.attend(other);
        }
        self.core.refresh_later(index);
    }

    /// Stream data came on a path.
    pub(super) fn on_stream(
        &mut self,
        now: Time,
        index: usize,
        frame: (manyway_wire::StreamId, u64, bool),
        data: &[u8],
    ) -> Result<(), Violation> {
        Ok(self.core.on_stream(now, index, frame, data)?)
    }

    /// A datagram of the peer's application came on a path.
    pub(super) fn on_datagram(
        &mut self,
        now: Time,
        index: usize,
        data: &[u8],
    ) -> Result<(), Violation> {
        self.core.on_datagram(now, index, data)
    }

    /// The peer's challenge is answered where it came from.
    pub(super) fn on_challenge(&mut self, index: usize, origin: Origin, data: [u8; 8]) {
        self.core.on_challenge(index, origin, data);
    }

    /// The peer announces its connection id for a path.
    pub(super) fn on_cid_announced(
        &mut self,
        now: Time,
        path: PathId,
        cid: ConnectionId,
    ) -> Result<(), Violation> {
        let announced = self.core.on_cid_announced(now, path, cid);
        announced.map_err(Violation)
    }
}
