//! What every component may act on: the paths, the data, and what is to be said.
//!
//! The steps here are those that touch more than one of them, such as closing a path whose packets
//! have to go out again on another one. It keeps no state of its own beside the random numbers, and
//! knows neither relays nor carriers nor keys.

use std::time::Duration;

use manyway_units::Time;
use manyway_wire::{ConnectionId, Frame, PathId};
use rand_pcg::Pcg64Mcg;

use crate::budget::{LEAST_IN_PACKET, MAX_BARE};
use crate::driver::Local;
use crate::event::{PathDownReason, PathEvent};
use crate::relays::RelayRoute;
use crate::stats::PathState;
use crate::streams::MAX_CONTROL_LEN;

use super::data::Data;
use super::outbox::{Change, Outbox};
use super::packet::{Packet, Payload};
use super::paths::{ConnectionIds, NewPath, Pairs, PathSet, PathTransport};

/// The connection's paths and data.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) paths: PathSet,
    pub(super) ids: ConnectionIds,
    /// The address pairs that the initiator tries by itself.
    pub(super) pairs: Option<Pairs>,
    pub(super) data: Data,
    pub(super) outbox: Outbox,
    pub(super) rng: Pcg64Mcg,
}

impl Core {
    /// Adds a path that nobody has been asked about yet.
    pub(super) fn add_path(&mut self, now: Time, new: NewPath) -> usize {
        let (id, local, transport) = (new.id, new.local.id, new.transport);
        self.ids.use_up(id);
        if let PathTransport::Carrier(_) = transport {
            self.outbox.change(Change::CarrierOpened(local, id));
        }
        self.paths.add(now, new)
    }

    /// Challenges a path's address: it carries data only after the answer.
    pub(super) fn challenge(&mut self, now: Time, index: usize) {
        self.paths.challenge(now, index, &mut self.rng);
    }

    /// Adds a path and challenges its address.
    pub(super) fn open_path(&mut self, now: Time, new: NewPath) -> usize {
        let index = self.add_path(now, new);
        self.challenge(now, index);
        self.issue_cids(now);
        index
    }

    /// Opens paths on the pairs of addresses that have none.
    pub(super) fn open_pairs(&mut self, now: Time) {
        while let Some(pairs) = &mut self.pairs
            && let Some((local, remote)) = pairs.next(now)
        {
            let Some((id, remote_cid)) = self.ids.next_path() else {
                return;
            };
            if !self.paths.has_room() {
                return;
            }
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
            self.paths.refresh(now, index);
        }
    }

    /// The ids of the next path that we open; `None` if there may be no more now.
    pub(super) fn next_path(&self) -> Option<(PathId, ConnectionId)> {
        self.ids.next_path().filter(|_| self.paths.has_room())
    }

    /// The peer announces its connection id for a path.
    ///
    /// # Errors
    /// It can't have that one: in words for CLOSE.
    pub(super) fn on_cid_announced(&mut self, id: PathId, cid: ConnectionId) -> Result<(), String> {
        let index = self.paths.index_of(id);
        let news = self.ids.on_announced(id, cid, index.is_some())?;
        if let Some(index) = index.filter(|_| news) {
            self.paths.set_remote_cid(index, cid);
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

    /// No path has this id any more.
    pub(super) fn retire_cid(&mut self, id: PathId) {
        if let Some(cid) = self.ids.retire(id) {
            self.outbox.change(Change::CidRetired(cid));
            self.outbox
                .withdraw(|frame| matches!(frame, Frame::PathId { path, .. } if *path == id));
        }
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
            self.requeue(payload);
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
        self.paths.stall(now, index);
        let event = self.paths[index].down_event(PathDownReason::Stalled);
        self.outbox.tell(event);
        self.send_again(index, usize::MAX);
    }

    /// The path's socket is gone, and no other path is left to tell the peer where we are now.
    pub(super) fn unbind(&mut self, now: Time, index: usize) {
        if self.paths.unbind(now, index) {
            let event = self.paths[index].down_event(PathDownReason::LocalGone);
            self.outbox.tell(event);
        }
        self.paths.refresh(now, index);
    }

    /// Gives paths that have lost their socket this one.
    pub(super) fn rebind(&mut self, now: Time, local: &Local) {
        for index in self.paths.unbound(local) {
            let in_flight = self.paths.rebind(now, index, local);
            self.send_all_again(in_flight);
            self.paths.refresh(now, index);
        }
    }

    /// Moves a path if the peer's address has changed for good; the round-trip time to the new one,
    /// if it can be told.
    pub(super) fn migrate(&mut self, now: Time, index: usize) -> Option<Option<Duration>> {
        let moved = self.paths.migrate(now, index)?;
        self.send_all_again(moved.in_flight);
        let path = &self.paths[index];
        if let Some(pairs) = &mut self.pairs {
            let (local, to) = (path.local().id, path.remote());
            pairs.on_moved(now, local, moved.previous, to, path.id());
        }
        if path.state() != PathState::Validating {
            self.outbox.tell(PathEvent::Moved {
                path: path.id(),
                name: path.local().name.clone(),
                remote: path.remote(),
                previous: moved.previous,
            });
        }
        Some(moved.rtt)
    }

    /// Queues what the oldest `max` packets in flight on a path carry once more.
    pub(super) fn send_again(&mut self, index: usize, max: usize) {
        for payload in self.paths[index].take_outstanding(max) {
            for frame in self.data.send_again(payload) {
                self.outbox.say_again(frame, &self.ids);
            }
        }
    }

    fn send_all_again(&mut self, in_flight: Vec<(u64, Payload)>) {
        for (_, payload) in in_flight {
            for frame in self.data.send_again(payload) {
                self.outbox.say_again(frame, &self.ids);
            }
        }
    }

    /// Sends what a packet carried again, as far as it is still needed.
    pub(super) fn requeue(&mut self, payload: Payload) {
        for frame in self.data.on_lost(payload) {
            self.outbox.say_again(frame, &self.ids);
        }
    }

    /// Puts the oldest packet of a much slower path back into the queue, for a path that is idle.
    /// Whether there is something to send by that.
    pub(super) fn overtake(&mut self) -> bool {
        while self.data.streams.unacked_bytes() > 0 {
            let Some(payload) = self.paths.take_overtaken() else {
                return false;
            };
            if self.data.overtake(&payload) {
                return true;
            }
        }
        false
    }

    /// Whether a packet without stream data may leave. Each is remembered until it is acknowledged,
    /// and not all of them are bound by a window: a peer that acknowledges nothing could have us
    /// remember answers for ever.
    pub(super) fn may_send_bare(&self) -> bool {
        let with_data = self.data.streams.unacked_bytes() / u64::from(LEAST_IN_PACKET);
        self.paths.unsettled() < MAX_BARE + usize::try_from(with_data).unwrap_or(usize::MAX)
    }

    /// Whether control frames wait for a datagram.
    pub(super) fn has_frames(&self) -> bool {
        self.outbox.has_frames() || self.data.streams.has_control()
    }

    /// Writes the control frames that end before `end` into a packet: those that wait, then the
    /// streams', which say how things stand at this moment and so wait in no queue.
    pub(super) fn write_frames(&mut self, end: usize, packet: &mut Packet, buf: &mut Vec<u8>) {
        self.outbox.write_frames(end, packet, buf);
        while buf.len() + MAX_CONTROL_LEN <= end
            && let Some(frame) = self.data.streams.poll_control()
        {
            frame.encode(buf);
            packet.ack_eliciting = true;
            packet.payload.control.push(frame);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use manyway_control::LawSpec;
    use manyway_wire::StreamId;
    use rand::SeedableRng;

    use super::super::paths::PeerLimits;
    use super::*;
    use crate::config::Config;
    use crate::driver::LocalId;
    use crate::event::Event;
    use crate::streams::{Streams, StreamsConfig};

    const T0: Time = Time::ZERO;

    /// No paths as yet.
    pub(crate) fn paths(initiator: bool) -> PathSet {
        let config = Arc::new(Config::default());
        let limits = PeerLimits {
            max_datagram: 8952,
            ack_delay: Duration::from_millis(10),
            max_paths: 8,
        };
        let law = Box::new(LawSpec::reno().controller(&Default::default()));
        let idle = Duration::from_secs(30);
        PathSet::new(T0, &config, (initiator, limits), idle, law)
    }

    /// Paths and data without a peer.
    pub(crate) fn core(initiator: bool) -> Core {
        let mut streams = Streams::new(StreamsConfig {
            initiator,
            initial_receive_window: 1 << 20,
            max_receive_window: 1 << 20,
            send_buffer: 1 << 20,
            max_streams: 8,
        });
        streams.set_peer_limits(1 << 20, 1 << 20, 8);
        Core {
            paths: paths(initiator),
            ids: ConnectionIds::new(T0, ConnectionId([7; 8]), Config::default().max_paths),
            pairs: None,
            data: Data::new(T0, &Config::default(), streams),
            outbox: Outbox::default(),
            rng: Pcg64Mcg::seed_from_u64(1),
        }
    }

    pub(crate) fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 9))
    }

    /// A path whose far end is the address with this number.
    pub(crate) fn new_path(id: u32) -> NewPath {
        NewPath {
            id: PathId(id),
            local: Local {
                id: LocalId(1),
                name: "if".into(),
                addr: address(100),
                mtu: None,
            },
            remote: address(id as u8),
            remote_cid: Some(ConnectionId([1; 8])),
            transport: PathTransport::Coupled,
            relay: None,
            initial_rtt: None,
        }
    }

    pub(crate) fn open(core: &mut Core, id: u32) -> usize {
        core.open_path(T0, new_path(id))
    }

    fn up(core: &mut Core, id: u32) -> usize {
        let index = open(core, id);
        core.paths
            .on_validated(index, Some(Duration::from_millis(40)));
        core.paths.refresh(T0, index);
        index
    }

    /// The control frames that wait.
    pub(crate) fn frames(core: &mut Core) -> Vec<Frame<'static>> {
        let mut packet = Packet::default();
        core.outbox
            .write_frames(1 << 20, &mut packet, &mut Vec::new());
        packet.payload.control
    }

    /// Sends a packet full of a stream's data, and a control frame, on a path.
    fn send(core: &mut Core, index: usize) -> StreamId {
        let stream = core.data.streams.open().expect("allowed");
        let mut data = vec![1; 100].into();
        core.data.streams.write(stream, &mut data).expect("room");
        let (mut packet, mut buf) = (Packet::default(), Vec::new());
        core.data.write(T0, 1200, &mut packet, &mut buf);
        packet.payload.control.push(Frame::Addresses {
            seq: 1,
            addresses: Vec::new(),
        });
        core.paths[index].on_sent(T0, buf.len(), false, packet);
        stream
    }

    #[test]
    fn what_a_closed_path_carried_goes_out_again() {
        let mut core = core(true);
        let index = up(&mut core, 1);
        up(&mut core, 2);
        frames(&mut core);
        core.outbox.take_changes();
        send(&mut core, index);
        assert!(!core.data.has_any());
        let closed = core.close_path(T0, index, PathDownReason::TimedOut, true);
        assert_eq!(closed, (PathId(1), None));
        assert!(core.data.has_any());
        let again = Frame::Addresses {
            seq: 1,
            addresses: Vec::new(),
        };
        let abandon = Frame::PathAbandon {
            path: PathId(1),
            code: 0,
        };
        assert_eq!(frames(&mut core), [again, abandon]);
        assert!(matches!(
            core.outbox.next_event(),
            Some(Event::Path(PathEvent::Down {
                reason: PathDownReason::TimedOut,
                ..
            }))
        ));
        assert!(matches!(
            core.outbox.take_changes()[..],
            [Change::CidRetired(_)]
        ));
        assert_eq!(core.ids.local(PathId(1)), None);
    }

    #[test]
    fn a_stalled_path_keeps_its_packets_and_others_carry_copies() {
        let mut core = core(true);
        let index = up(&mut core, 1);
        send(&mut core, index);
        core.stall(T0, index);
        assert!(core.data.has_any() && core.data.resent() == 100);
        core.stall(T0, index);
        assert_eq!(core.data.resent(), 100, "each packet once");
        assert!(core.paths[index].sender().bytes_in_flight() > 0);
    }

    #[test]
    fn ids_are_announced_ahead_of_the_paths() {
        let mut core = core(false);
        open(&mut core, 4);
        let announced = frames(&mut core).len();
        assert_eq!(announced, 20, "sixteen beyond path 4");
        assert_eq!(core.outbox.take_changes().len(), announced);
    }

    #[test]
    fn a_path_needs_the_peers_id_and_room() {
        let mut core = core(true);
        for id in 0..9 {
            core.on_cid_announced(PathId(id), ConnectionId([id as u8; 8]))
                .expect("in range");
        }
        for id in 1..9 {
            let next = core.next_path();
            assert_eq!(next, Some((PathId(id), ConnectionId([id as u8; 8]))));
            open(&mut core, id);
        }
        assert_eq!(core.next_path(), None, "the peer wants eight at most");
    }
}
