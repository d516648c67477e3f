//! Paths, and all that has to hear of their ups and downs: relays, carriers, the streams, the
//! packets under way.
//!
//! It owns these components and carries one path through its life: opened, validated, moved,
//! stalled, revived, closed. It neither opens packets nor reads frames, and doesn't know when the
//! connection ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_control::TimerEvent;
use manyway_units::Time;
use manyway_wire::{AckFrame, PathId};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::config::Config;
use crate::crypto::Opener;
use crate::driver::{Local, Transmit};
use crate::event::{Event, PathDownReason};
use crate::stats::PathState;
use crate::streams::{Streams, StreamsConfig};

use super::carriers::Carriers;
use super::core::Core;
use super::data::Data;
use super::outbox::{Change, Outbox};
use super::paths::{
    ConnectionIds, Fate, NewPath, Origin, Pairs, PathSet, PathTransport, PeerLimits, Response,
};
use super::relayed::RelayedPaths;
use super::start::Start;
use super::transmit::{Sources, Transmitter};
use super::violation::Violation;

/// A carrier is given up after this many timeouts without progress, even if there is no other path:
/// whoever dialled it may dial again.
const GIVE_UP_ALONE: u32 = 5;

/// The components that depend on each other's paths.
#[derive(Debug)]
pub(super) struct Traffic {
    initiator: bool,
    pub(super) core: Core,
    pub(super) relayed: RelayedPaths,
    pub(super) carriers: Carriers,
    pub(super) transmitter: Transmitter,
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
        let peer = &established.peer;
        let mut streams = Streams::new(StreamsConfig {
            initiator,
            initial_receive_window: config.initial_receive_window(),
            max_receive_window: config.receive_window,
            send_buffer: config.send_buffer,
            max_streams: config.max_streams,
        });
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
        let local_cid = established.local_cid;
        let pairs = initiator && config.udp;
        let mut core = Core {
            paths: PathSet::new(now, config, side, idle_timeout, controller),
            ids: ConnectionIds::new(now, local_cid, config.max_paths),
            pairs: pairs.then(|| Pairs::new(start.locals, start.remotes)),
            data: Data::new(now, config, streams),
            outbox: Outbox::default(),
            rng: Pcg64Mcg::from_seed(start.seed),
        };
        core.outbox.tell(Event::Connected);
        core.outbox.change(Change::CidIssued(local_cid, PathId(0)));
        let relayed = RelayedPaths::new(config, initiator, &mut core.rng);
        let mut traffic = Self {
            initiator,
            core,
            relayed,
            carriers: Carriers::new(config),
            transmitter: Transmitter::new(initiator, established.sealer),
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
        if initiator {
            // The answer to the handshake came from there: that is the validation.
            traffic.validated(now, index, start.rtt);
            let core = &mut traffic.core;
            // The listener learns that the handshake is through from our first sealed packet.
            core.paths[index].probe();
            if start.relay.is_none()
                && !start.facts.reliable
                && let Some(pairs) = &mut core.pairs
            {
                pairs.on_opened(local, remote, PathId(0));
            }
            if let Some(client) = start.relays {
                traffic.relayed.take_over(now, client, start.relay, core);
            }
        } else {
            let Core { paths, rng, .. } = &mut traffic.core;
            paths.start_from(now, index, &start.places, rng);
        }
        traffic.core.issue_cids(now);
        traffic.core.paths.refresh(now, index);
        (traffic, established.opener)
    }

    /// Fills `buf` with one or more datagrams for one path.
    pub(super) fn poll(
        &mut self,
        now: Time,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let from = Sources {
            core: &mut self.core,
            relayed: &mut self.relayed,
            carriers: &mut self.carriers,
        };
        self.transmitter.poll(now, max_segments, from, buf)
    }

    pub(super) fn on_abandon(&mut self, now: Time, path: PathId) -> Result<(), Violation> {
        let core = &mut self.core;
        if !core.ids.was_issued(path) {
            let text = format!("PATH_ABANDON: path {} doesn't exist", path.0);
            return Err(Violation(text));
        }
        if let Some(index) = core.paths.index_of(path) {
            self.relayed
                .close_path(now, index, PathDownReason::Abandoned, false, core);
        } else {
            self.relayed.take_early_grant(path);
            core.retire_cid(path);
        }
        // Path ids that never led to a packet here are used up all the same.
        core.ids.use_up(path);
        core.issue_cids(now);
        Ok(())
    }

    /// Opens paths on carriers and address pairs that have none (initiator only).
    pub(super) fn open_paths(&mut self, now: Time) {
        self.carriers.open_paths(now, &mut self.core);
        self.core.open_pairs(now);
    }

    /// The first packet on a path id that we issued an id for: the initiator opened that path.
    pub(super) fn accept_path(
        &mut self,
        now: Time,
        id: PathId,
        local: &Local,
        remote: SocketAddr,
        transport: PathTransport,
    ) -> Option<usize> {
        if !self.core.paths.admits() {
            return None;
        }
        let grant = self.relayed.take_early_grant(id);
        // What runs on a carrier goes through no relay for datagrams.
        let relay = grant.filter(|_| transport == PathTransport::Coupled);
        let new = NewPath {
            id,
            local: local.clone(),
            remote,
            remote_cid: self.core.ids.remote(id),
            transport,
            relay,
            initial_rtt: None,
        };
        Some(self.core.open_path(now, new))
    }

    pub(super) fn on_ack(&mut self, now: Time, ack: &AckFrame<'_>) -> Result<(), Violation> {
        // An ACK for a path that is over by now is normal.
        let Some(index) = self.core.paths.index_of(ack.path()) else {
            return Ok(());
        };
        let before = self.relayed.window_before(index, &self.core);
        let acked = self.core.paths.on_ack(now, index, ack);
        let Some(acked) = acked.map_err(Violation)? else {
            return Ok(());
        };
        if acked.any {
            self.on_path_alive(now, index);
        }
        self.settle(now, index);
        if acked.resized {
            self.core.paths.on_resized(index);
        }
        self.core.paths.refresh(now, index);
        self.relayed
            .observe(now, index, before, acked.lost, &mut self.core);
        Ok(())
    }

    /// Passes on what a path's sender said of its packets.
    fn settle(&mut self, now: Time, index: usize) {
        let Core {
            paths,
            data,
            outbox,
            ids,
            ..
        } = &mut self.core;
        paths.settle(now, index, |fate| match fate {
            Fate::Acked(payload) => {
                self.transmitter.on_acked(&payload);
                data.on_acked(&payload);
            }
            Fate::Lost(payload) => {
                let again = data.on_lost(payload);
                again.for_each(|frame| outbox.say_again(frame, ids));
            }
        });
    }

    pub(super) fn on_response(&mut self, now: Time, index: usize, origin: Origin, data: [u8; 8]) {
        let path = &mut self.core.paths[index];
        match path.on_response(now, origin, data, self.initiator) {
            Response::Validated(rtt) => self.validated(now, index, rtt),
            Response::Candidate => self.migrate(now, index),
            Response::Nothing => {}
        }
    }

    /// The address has answered: the path carries data from now on.
    fn validated(&mut self, now: Time, index: usize, rtt: Option<Duration>) {
        let paths = &mut self.core.paths;
        let is_new = paths[index].state() == PathState::Validating;
        let up = paths.on_validated(index, rtt);
        if is_new {
            self.relayed.on_answered(&paths[index]);
        }
        if up {
            let (local, remote) = (paths[index].local().id, paths[index].remote());
            if let Some(pairs) = &mut self.core.pairs {
                pairs.on_validated(local, remote);
            }
            self.relayed.on_working(&paths[index]);
            self.core.outbox.tell(paths.up_event(index));
            paths.refresh(now, index);
            self.carriers.on_path_up(now, paths);
        }
    }

    /// Moves the path if the peer's address has changed for good.
    fn migrate(&mut self, now: Time, index: usize) {
        let Some(rtt) = self.core.migrate(now, index) else {
            return;
        };
        if self.core.paths[index].state() == PathState::Validating {
            self.validated(now, index, rtt);
        } else {
            self.on_path_alive(now, index);
        }
        self.core.paths.refresh(now, index);
    }

    /// Something came back on a path: if it was stalled, it isn't any more, and paths that were
    /// used only for want of a better one are stalled instead.
    fn on_path_alive(&mut self, now: Time, index: usize) {
        let Core { paths, outbox, .. } = &mut self.core;
        if !paths.revive(index) {
            return;
        }
        self.relayed.on_working(&paths[index]);
        outbox.tell(paths.up_event(index));
        for other in paths.silent_beside(index) {
            self.stall(now, other);
            self.core.paths.refresh(now, other);
        }
    }

    fn stall(&mut self, now: Time, index: usize) {
        self.core.stall(now, index);
        self.relayed.on_stalled(now, &self.core.paths[index]);
    }

    pub(super) fn on_path_timer(&mut self, now: Time, index: usize) {
        let before = self.relayed.window_before(index, &self.core);
        self.migrate(now, index);
        let core = &mut self.core;
        let id = core.paths[index].id();
        if core.paths.on_timer(now, index) {
            if core.paths.len() > 1 {
                let tell = core.paths[index].state() == PathState::Validating;
                self.relayed
                    .close_path(now, index, PathDownReason::TimedOut, tell, core);
                return;
            }
            // Without its only path a listener could never be reached again: only silence may end
            // that.
            core.challenge(now, index);
        }
        if let Some((event, lost)) = core.paths.on_sender_timer(now, index) {
            self.settle(now, index);
            self.relayed
                .observe(now, index, before, lost, &mut self.core);
            if let TimerEvent::Probe { .. } = event
                && self.core.paths.index_of(id) == Some(index)
            {
                self.on_probe_timeout(now, index);
            }
        }
        let core = &mut self.core;
        if core.paths.is_lost(now, index) {
            self.relayed
                .close_path(now, index, PathDownReason::TimedOut, true, core);
        } else if core.paths.get(index).is_some() {
            core.paths.refresh(now, index);
        }
    }

    /// Nothing came back for a probe timeout: probe, and don't let the data wait for the answer.
    fn on_probe_timeout(&mut self, now: Time, index: usize) {
        self.core.paths.doubt_home(index);
        if self.relayed.on_silence(now, index, &mut self.core) {
            return;
        }
        let core = &mut self.core;
        let path = &core.paths[index];
        let active = path.state() == PathState::Active;
        if path.facts().reliable {
            // Another packet on a stuck carrier would only wait behind the others.
            if active && core.paths.active_len() > 1 {
                self.stall(now, index);
            } else if self.initiator
                && core.paths.active_len() <= 1
                && path.sender().pto_count() >= GIVE_UP_ALONE
            {
                // TCP may take a quarter of an hour to notice; a new connection may get through at
                // once.
                self.relayed
                    .close_path(now, index, PathDownReason::TimedOut, true, core);
            }
            return;
        }
        core.paths.probe_silent(index);
        if active && core.paths.has_other(index) {
            self.stall(now, index);
        } else {
            core.send_again(index, 2);
        }
        // The relay, or the listener's address there, may be another by now; asked again as rarely
        // as the path is probed.
        let path = &self.core.paths[index];
        if path.sender().pto_count() >= 2 {
            self.relayed.suspect(now, path);
        }
    }
}
