//! The paths, the data, and what is to be said.
//!
//! The steps here are those that touch more than one of them, such as closing a path whose packets
//! have to go out again on another one. It keeps no state of its own beside the random numbers, and
//! knows neither relays nor carriers nor keys.

mod discard;
mod relocate;
#[cfg(test)]
pub(super) mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use manyway_control::TimerEvent;
use manyway_units::{Rate, Time};
use manyway_wire::relay::Grant;
use manyway_wire::{AckFrame, ConnectionId, Frame, PathId, StreamId, TransportParameters};
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};

use crate::budget::{CONNECTION_MEMORY, PACKET_MEMORY, PATH_MEMORY};
use crate::config::Config;
use crate::driver::{Local, LocalId};
use crate::event::{Event, PathDownReason};
use crate::handshake::Places;
use crate::received::AckPolicy;
use crate::relays::RelayRoute;
use crate::stats::{PathState, PathSurvey};
use crate::streams::{Streams, StreamsError};

use super::data::Data;
use super::datagrams::Datagrams;
use super::outbox::{Change, Outbox};
use super::packet::Payload;
use super::paths::{
    Acked, ConnectionIds, Fate, NewPath, Next, Origin, Pairs, PathMemory, PathSet, PathTransport,
    PeerLimits, RelayHeader, Response,
};
use super::receive::Opened;
use super::transmit::Parts;
use super::violation::Violation;

/// The connection's paths and data.
#[derive(Debug)]
pub(super) struct Core {
    paths: PathSet,
    ids: ConnectionIds,
    /// The address pairs that the initiator tries by itself.
    pairs: Option<Pairs>,
    data: Data,
    outbox: Outbox,
    /// Connection ids are in the clear: who sees them must not foresee challenges and numbers left
    /// out.
    rng: ChaCha20Rng,
}

impl Core {
    /// No paths as yet. The peer has declared `peer`, and has our connection id of path 0.
    pub(super) fn new(
        now: Time,
        config: &Arc<Config>,
        idle_timeout: Duration,
        (initiator, pairs): (bool, Option<Pairs>),
        (peer, local_cid): (&TransportParameters, ConnectionId),
        seed: [u8; 32],
        memory: PathMemory,
    ) -> Self {
        let mut streams = Streams::new(config.streams(initiator));
        streams.set_peer_limits(
            peer.initial_max_data,
            peer.initial_max_stream_data,
            peer.initial_max_streams,
        );
        let options = manyway_control::Options::default().with_slow_start(config.slow_start);
        let controller = Box::new(config.cc.controller(&options));
        let limits = PeerLimits {
            max_datagram: usize::try_from(peer.max_datagram).unwrap_or(usize::MAX),
            ack_delay: Duration::from_millis(peer.ack_delay_ms),
            max_paths: usize::try_from(peer.max_paths).unwrap_or(usize::MAX),
        };
        let side = (initiator, limits);
        let takes = usize::try_from(peer.max_datagram_data).unwrap_or(usize::MAX);
        let datagrams = Datagrams::new(config.datagram, takes);
        let mut core = Self {
            paths: PathSet::new(now, config, side, idle_timeout, controller, memory),
            ids: ConnectionIds::new(now, local_cid, config.max_paths),
            pairs,
            data: Data::new(now, config, streams, datagrams),
            outbox: Outbox::default(),
            rng: ChaCha20Rng::from_seed(seed),
        };
        core.tell(Event::Connected);
        core.change(Change::CidIssued(local_cid, PathId(0)));
        core
    }

    pub(super) fn paths(&self) -> &PathSet {
        &self.paths
    }

    pub(super) fn distrust(&mut self) {
        self.paths.distrust();
    }

    pub(super) fn data(&self) -> &Data {
        &self.data
    }

    pub(super) fn ids(&self) -> &ConnectionIds {
        &self.ids
    }

    /// The streams, for what the application and the peer do to them.
    pub(super) fn streams(&mut self) -> &mut Streams {
        &mut self.data.streams
    }

    /// Those whose frames a datagram is made of.
    pub(super) fn parts(&mut self) -> Parts<'_> {
        Parts {
            paths: &mut self.paths,
            ids: &self.ids,
            data: &mut self.data,
            outbox: &mut self.outbox,
        }
    }

    /// When something is due; relays, carriers and the connection's end aside.
    pub(super) fn timeout(&self, now: Time) -> Option<Time> {
        let pairs = self.pairs.as_ref().and_then(|pairs| pairs.timer(now));
        let data = self.data.timeout();
        let due = [self.paths.timeout(), pairs, self.ids.timeout(), data];
        due.into_iter().flatten().min()
    }

    // What is said.

    /// Tells the application.
    pub(super) fn tell(&mut self, event: impl Into<Event>) {
        self.outbox.tell(event);
    }

    /// Tells the endpoint.
    pub(super) fn change(&mut self, change: Change) {
        self.outbox.change(change);
    }

    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        self.outbox.take_changes()
    }

    /// Tells the peer what makes an older frame void that waits still.
    pub(super) fn say_instead(&mut self, frame: Frame<'static>) {
        self.outbox.say_instead(frame);
    }

    /// Memory that the connection takes, in bytes, as far as a peer can make it grow.
    pub(super) fn memory(&self) -> usize {
        let packets = self.paths.unsettled() + self.outbox.frames();
        CONNECTION_MEMORY
            + self.paths.len() * PATH_MEMORY
            + packets * PACKET_MEMORY
            + self.data.streams.memory()
            + self.data.datagrams.memory()
            + self.data.copies_memory()
    }

    /// Whether the peer makes us say more than it lets us.
    pub(super) fn overflows(&self) -> bool {
        self.outbox.overflows()
    }

    /// The next event. When the connection is over, nothing follows its end.
    pub(super) fn poll_event(&mut self, open: bool) -> Option<Event> {
        // What became of the streams comes before the end: the packet that closes may bring the
        // last ACK.
        if self.outbox.ends()
            && let Some(event) = self.data.streams.poll_event()
        {
            return Some(Event::Stream(event));
        }
        if let Some(event) = self.outbox.next_event() {
            return Some(event);
        }
        let data = open.then_some(&mut self.data)?;
        let stream = data.streams.poll_event().map(Event::Stream);
        stream.or_else(|| data.datagrams.poll_event().map(Event::Datagram))
    }

    // Data.

    /// Sends filler beside all other data, and keeps new records of the paths.
    pub(super) fn fill(&mut self, now: Time, bytes: u64) {
        self.data.fill(bytes);
        self.paths.restart_survey(now);
    }

    pub(super) fn set_limit(&mut self, now: Time, limit: Option<Rate>) {
        self.data.set_limit(now, limit);
    }

    pub(super) fn on_data_timeout(&mut self, now: Time) {
        self.data.on_timeout(now);
    }

    /// Stream data came on a path.
    ///
    /// # Errors
    /// The peer broke a rule of the streams.
    pub(super) fn on_stream(
        &mut self,
        now: Time,
        index: usize,
        (stream, offset, fin): (StreamId, u64, bool),
        data: &[u8],
    ) -> Result<(), StreamsError> {
        self.paths[index].on_stream_data(now, data.len());
        let rtt = self.paths.slowest_rtt();
        let streams = &mut self.data.streams;
        streams.on_stream(now, rtt, stream, offset, data, fin)
    }

    /// A datagram of the peer's application came on a path.
    ///
    /// # Errors
    /// The peer may not send it.
    pub(super) fn on_datagram(
        &mut self,
        now: Time,
        index: usize,
        data: &[u8],
    ) -> Result<(), Violation> {
        self.paths[index].on_data(now);
        self.data.datagrams.on_datagram(now, data)
    }

    /// The application's datagrams.
    pub(super) fn datagrams(&mut self) -> &mut Datagrams {
        &mut self.data.datagrams
    }

    // Address pairs and ids (the initiator opens paths).

    pub(super) fn locals(&self) -> Vec<Local> {
        let pairs = self.pairs.as_ref();
        pairs.map_or(Vec::new(), |pairs| pairs.locals().to_vec())
    }

    /// A socket was added. Whether it is tried with the peer's addresses.
    pub(super) fn add_local(&mut self, local: &Local) -> bool {
        let pairs = self.pairs.as_mut();
        pairs.map(|pairs| pairs.add_local(local.clone())).is_some()
    }

    pub(super) fn remove_local(&mut self, id: LocalId) {
        if let Some(pairs) = &mut self.pairs {
            pairs.remove_local(id);
        }
    }

    /// The peer is at these addresses, too. Whether they are tried.
    pub(super) fn add_remotes(&mut self, addresses: &[SocketAddr]) -> bool {
        let pairs = self.pairs.as_mut();
        pairs.map(|pairs| pairs.add_remotes(addresses)).is_some()
    }

    /// Path 0 is between two addresses of the pairs.
    pub(super) fn on_first_pair(&mut self, local: LocalId, remote: SocketAddr) {
        if let Some(pairs) = &mut self.pairs {
            pairs.on_opened(local, remote, PathId(0));
        }
    }

    /// Adds a path that nobody has been asked about yet.
    pub(super) fn add_path(&mut self, now: Time, new: NewPath) -> usize {
        let (id, local, transport) = (new.id, new.local.id, new.transport);
        self.ids.use_up(id);
        if let PathTransport::Carrier(_) = transport {
            self.outbox.change(Change::CarrierOpened(local, id));
        }
        let seed = self.paths.leaves_out_numbers().then(|| self.rng.random());
        self.paths.add(now, new, seed)
    }

    /// Challenges a path's address: it carries data only after the answer.
    pub(super) fn challenge(&mut self, now: Time, index: usize) {
        self.paths.challenge(now, index, &mut self.rng);
    }

    /// Path 0 begins at one of the places where the handshake was answered (listener only).
    pub(super) fn start_from(&mut self, now: Time, index: usize, places: &Places) {
        self.paths.start_from(now, index, places, &mut self.rng);
    }

    /// Adds a path and challenges its address.
    pub(super) fn open_path(&mut self, now: Time, new: NewPath) -> usize {
        let index = self.add_path(now, new);
        self.challenge(now, index);
        self.issue_cids(now);
        index
    }

    /// The first packet on a path id that the peer was told an id for.
    pub(super) fn accept_path(&mut self, now: Time, new: NewPath) -> usize {
        let remote_cid = self.ids.remote(new.id);
        self.open_path(now, NewPath { remote_cid, ..new })
    }

    /// Opens paths on the pairs of addresses that have none.
    pub(super) fn open_pairs(&mut self, now: Time) {
        // Nothing is charged for that can't be opened.
        while self.pairs.is_some()
            && let Some((id, remote_cid)) = self.next_path()
            && let Some(pairs) = &mut self.pairs
            && let Some(next) = pairs.next(now)
        {
            let Next {
                local,
                remote,
                quota,
            } = next;
            pairs.on_opened(local.id, remote, id);
            let new = NewPath {
                id,
                local,
                remote,
                remote_cid: Some(remote_cid),
                transport: PathTransport::Coupled,
                relay: None,
                initial_rtt: self.paths.best_rtt(),
            };
            let index = self.open_path(now, new);
            if let Some(bytes) = quota {
                self.paths[index].limit(bytes);
            }
            self.paths.refresh(now, index);
        }
    }

    /// Whether this address of the peer's may be dialled by TCP now.
    pub(super) fn may_dial(&mut self, now: Time, local: IpAddr, remote: SocketAddr) -> bool {
        let pairs = self.pairs.as_mut();
        pairs.is_some_and(|pairs| pairs.may_dial(now, local, remote))
    }

    /// The ids of the next path that we open; `None` if there may be no more now.
    pub(super) fn next_path(&self) -> Option<(PathId, ConnectionId)> {
        self.ids.next_path().filter(|_| self.paths.has_room())
    }

    /// The peer announces its connection id for a path.
    ///
    /// # Errors
    /// It can't have that one: in words for CLOSE.
    pub(super) fn on_cid_announced(
        &mut self,
        now: Time,
        id: PathId,
        cid: ConnectionId,
    ) -> Result<(), String> {
        let index = self.paths.index_of(id);
        let news = self.ids.on_announced(id, cid, index.is_some())?;
        if let Some(index) = index.filter(|_| news) {
            self.paths.set_remote_cid(now, index, cid);
        }
        Ok(())
    }

    /// Tells the peer connection ids for path ids ahead of those in use.
    pub(super) fn issue_cids(&mut self, now: Time) {
        while let Some((path, cid)) = self.ids.issue(now, &mut self.rng) {
            self.outbox.change(Change::CidIssued(cid, path));
            self.outbox.say(Frame::PathId { path, cid });
        }
    }

    /// The peer has abandoned a path, which isn't open any more: its ids are used up, whether or
    /// not it ever led to a packet.
    pub(super) fn on_abandoned(&mut self, now: Time, id: PathId) {
        self.retire_cid(id);
        self.ids.use_up(id);
        self.issue_cids(now);
    }

    /// No path has this id any more.
    fn retire_cid(&mut self, id: PathId) {
        if let Some(cid) = self.ids.retire(id) {
            self.outbox.change(Change::CidRetired(cid));
            self.outbox
                .withdraw(|frame| matches!(frame, Frame::PathId { path, .. } if *path == id));
        }
    }

    // What becomes of a path.

    /// A packet has opened. Where it came from.
    pub(super) fn on_packet(&mut self, now: Time, index: usize, opened: &Opened<'_>) -> Origin {
        let source = (opened.local, opened.remote);
        let seen = (opened.len, opened.ecn);
        if let Some(pairs) = &mut self.pairs {
            pairs.on_received(opened.len);
        }
        let (number, initiator) = (opened.number, self.paths.is_initiator());
        self.paths[index].on_packet(now, number, source, seen, initiator, &mut self.rng)
    }

    /// A packet's frames were handled: it is acknowledged by the policy, or at once.
    pub(super) fn record(
        &mut self,
        now: Time,
        index: usize,
        (number, ack_eliciting): (u64, bool),
        policy: AckPolicy,
        at_once: bool,
    ) {
        self.paths[index].record(now, number, ack_eliciting, policy, at_once);
    }

    /// A datagram came for a path while the connection is closing: from anywhere, as it wasn't
    /// opened. Only the path's own address is answered; whether it is.
    pub(super) fn on_unopened(
        &mut self,
        id: PathId,
        (remote, bytes): (SocketAddr, usize),
        initiator: bool,
    ) -> bool {
        let Some(index) = self.paths.index_of(id) else {
            return false;
        };
        let path = &mut self.paths[index];
        path.on_unopened(remote, bytes);
        remote == path.remote() && path.takes_close(initiator)
    }

    /// The peer's challenge is answered where it came from.
    pub(super) fn on_challenge(&mut self, index: usize, origin: Origin, data: [u8; 8]) {
        self.paths[index].on_challenge(origin, data);
    }

    pub(super) fn on_response(
        &mut self,
        now: Time,
        index: usize,
        (origin, data): (Origin, [u8; 8]),
        initiator: bool,
    ) -> Response {
        self.paths[index].on_response(now, origin, data, initiator)
    }

    /// The address has answered. Whether the path carries data from now on.
    pub(super) fn on_validated(&mut self, now: Time, index: usize, rtt: Option<Duration>) -> bool {
        let up = self.paths.on_validated(index, rtt);
        if up {
            let path = &self.paths[index];
            if let Some(pairs) = &mut self.pairs {
                pairs.on_validated(path.local().id, path.remote());
            }
            self.outbox.tell(self.paths.up_event(index));
            self.paths.refresh(now, index);
        }
        up
    }

    /// Something came back on a path. Whether it was stalled: it is in use again then.
    pub(super) fn revive(&mut self, index: usize) -> bool {
        let (stalled, news) = self.paths.revive(index);
        if news {
            self.outbox.tell(self.paths.up_event(index));
        }
        stalled
    }

    /// One packet to be sent for want of an answer, at least.
    pub(super) fn probe(&mut self, index: usize) {
        self.paths[index].probe();
    }

    /// The path sends something as if it owed it, if it is in use.
    pub(super) fn attend(&mut self, index: usize) {
        self.paths.attend(index);
    }

    /// Brings a path's place in the ordered sets up to date.
    pub(super) fn refresh(&mut self, now: Time, index: usize) {
        self.paths.refresh(now, index);
    }

    /// Something has arrived on a path: its place is brought up to date before anything leaves.
    pub(super) fn refresh_later(&mut self, index: usize) {
        self.paths.refresh_later(index);
    }

    /// Brings the places of paths on which something has arrived up to date.
    pub(super) fn refresh_stale(&mut self, now: Time) {
        self.paths.refresh_stale(now);
    }

    /// An ACK of the path, which came on this path or elsewhere. What it says of its packets is
    /// [settled](Self::settle) next.
    ///
    /// # Errors
    /// The ACK can't be true: in words for CLOSE.
    pub(super) fn on_ack(
        &mut self,
        now: Time,
        index: usize,
        ack: (&AckFrame<'_>, bool),
    ) -> Result<Option<Acked>, String> {
        self.paths.on_ack(now, index, ack)
    }

    /// The ACK has shown that the path carries another size.
    pub(super) fn on_resized(&mut self, index: usize) {
        self.paths.on_resized(index);
    }

    /// Passes on what a path's sender said of its packets; `on_acked` hears of those that arrived.
    pub(super) fn settle(&mut self, now: Time, index: usize, mut on_acked: impl FnMut(&Payload)) {
        let (data, outbox, ids) = (&mut self.data, &mut self.outbox, &self.ids);
        self.paths.settle(now, index, |fate| match fate {
            Fate::Acked(packets) => {
                let payloads = packets.iter().map(|(_, payload)| payload);
                payloads.clone().for_each(&mut on_acked);
                data.on_acked(payloads);
            }
            Fate::Lost(payload) => {
                let again = data.on_lost(payload);
                again.for_each(|frame| outbox.say_again(frame, ids));
            }
        });
    }

    /// Runs the timers of what arrived and of the path's size. Whether validation has failed.
    pub(super) fn on_path_timer(&mut self, now: Time, index: usize) -> bool {
        self.paths.on_timer(now, index)
    }

    /// Keeps the path alive, and runs its sender's timer if that is due: whether packets are lost
    /// by it.
    pub(super) fn on_sender_timer(
        &mut self,
        now: Time,
        index: usize,
    ) -> Option<(TimerEvent, bool)> {
        self.paths.on_sender_timer(now, index)
    }

    /// A probe timeout ran out: perhaps the peer has moved.
    pub(super) fn doubt_home(&mut self, index: usize) {
        self.paths.doubt_home(index);
    }

    /// A probe timeout ran out: the path is probed.
    pub(super) fn probe_silent(&mut self, index: usize) {
        self.paths.probe_silent(index);
    }

    /// Whether a path carries data only for want of a better one.
    pub(super) fn set_backup(&mut self, now: Time, index: usize, backup: bool) {
        self.paths.set_backup(now, index, backup);
    }

    /// A path carries data only while no better one works, or not only then any more.
    pub(super) fn set_standby(&mut self, now: Time, index: usize, standby: bool) {
        self.paths.set_standby(now, index, standby);
    }

    /// A path's window is another, in packets.
    pub(super) fn set_window(&mut self, now: Time, index: usize, window: f64) {
        self.paths.set_window(now, index, window);
    }

    /// Another header goes in front of a path's datagrams. With a grant for the way `back` the peer
    /// hears of it, and a path that was silent is asked whether it is now.
    pub(super) fn renew_relay(
        &mut self,
        now: Time,
        index: usize,
        header: RelayHeader,
        back: Option<Grant>,
    ) {
        let path = &mut self.paths[index];
        path.set_relay(header);
        let Some(grant) = back else {
            return;
        };
        let (path_id, seq) = (path.id(), header.seq);
        if path.sender().pto_count() >= 2 || path.state() == PathState::Stalled {
            path.probe();
        }
        self.outbox.say_instead(Frame::Grant {
            path: path_id,
            seq,
            grant,
        });
        self.paths.refresh(now, index);
    }

    /// The kernel refused a datagram as too large for its interface.
    pub(super) fn on_too_big(&mut self, now: Time, index: usize) {
        self.paths.on_too_big(now, index);
    }

    /// Holds a path on a carrier to a rate (bytes/s), or leaves it to the carrier.
    pub(super) fn set_rate(&mut self, now: Time, index: usize, rate: Option<f64>) {
        self.paths.set_rate(now, index, rate);
    }

    /// The driver wrote `bytes` more bytes of packets to a carrier.
    pub(super) fn on_written(&mut self, now: Time, index: usize, bytes: u64) {
        self.paths.on_written(now, index, bytes);
    }

    /// What was seen of every path over UDP in use.
    pub(super) fn survey(&mut self, now: Time) -> Vec<PathSurvey> {
        self.paths.survey(now)
    }

    /// Takes a path out for good; what was in flight on it is sent over the others. Its id, and the
    /// route of one through a relay.
    pub(super) fn close_path(
        &mut self,
        now: Time,
        index: usize,
        reason: PathDownReason,
        tell: bool,
    ) -> (PathId, Option<RelayRoute>) {
        let closed = self.paths.close(now, index);
        let path = &closed.path;
        let id = path.id();
        if closed.was_up {
            self.outbox.tell(path.down_event(reason));
        }
        for payload in closed.in_flight {
            self.parts().requeue(payload);
        }
        self.retire_cid(id);
        if let PathTransport::Carrier(_) = path.transport() {
            self.outbox.change(Change::CarrierOver(path.local().id));
        }
        if tell {
            self.outbox.say(Frame::PathAbandon { path: id, code: 0 });
        }
        if path.route().is_none()
            && !path.facts().reliable
            && let Some(pairs) = &mut self.pairs
        {
            pairs.on_closed(now, path.local().id, path.remote());
        }
        (id, path.route())
    }

    /// Takes a path out of use until something comes back on it: the others carry what is in flight
    /// on it.
    pub(super) fn stall(&mut self, now: Time, index: usize) {
        if self.paths.stall(now, index) {
            let event = self.paths[index].down_event(PathDownReason::Stalled);
            self.outbox.tell(event);
        }
        self.send_again(index, usize::MAX);
    }

    /// A probe timeout of a path has fired. The last one stays in use.
    pub(super) fn note_silence(&mut self, index: usize) {
        if self.paths.note_silence(index) {
            let event = self.paths[index].down_event(PathDownReason::Stalled);
            self.outbox.tell(event);
        }
    }

    /// Queues what the oldest `max` packets in flight on a path carry once more.
    pub(super) fn send_again(&mut self, index: usize, max: usize) {
        for payload in self.paths[index].take_outstanding(max) {
            for frame in self.data.send_again(payload) {
                self.outbox.say_again(frame, &self.ids);
            }
        }
    }
}
