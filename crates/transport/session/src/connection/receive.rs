//! Datagrams in: opened, checked, and each frame given to whom it concerns.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use manyway_control::AckInfo as AckedRanges;
use manyway_units::Time;
use manyway_wire::{
    AckFrame, DATA_HEADER_LEN, DataHeader, DecodeError, Frame, Frames, PathId, expand_pn,
};
use rand::RngExt;

use crate::carrier::Facts;
use crate::crypto::OpenError;
use crate::driver::{Ecn, Local, LocalId};
use crate::event::{CloseReason, PathDownReason, code};
use crate::stats::PathState;

use super::migrate::Origin;
use super::path::{NewPath, Under};
use super::transmit::micros;
use super::{Connection, Phase, requeue};

/// A datagram for this connection, as the endpoint found it by its connection id.
pub(crate) struct Arrival<'a> {
    pub(crate) path: PathId,
    pub(crate) header: DataHeader,
    pub(crate) local: &'a Local,
    pub(crate) remote: SocketAddr,
    /// Of what it came on.
    pub(crate) facts: Facts,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) data: &'a mut [u8],
}

/// A packet that has opened.
pub(crate) struct Opened<'a> {
    pub(crate) number: u64,
    /// Length of the datagram, in bytes.
    pub(crate) len: usize,
    pub(crate) local: LocalId,
    pub(crate) remote: SocketAddr,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) plain: &'a [u8],
}

/// Whether a packet asks for an ACK, and whether for one at once.
#[derive(Default)]
struct Eliciting {
    any: bool,
    pinged: bool,
}

/// The peer broke a rule: what goes into CLOSE.
pub(super) struct Violation(pub(super) String);

impl From<DecodeError> for Violation {
    fn from(error: DecodeError) -> Self {
        Violation(error.to_string())
    }
}

impl From<crate::streams::StreamsError> for Violation {
    fn from(error: crate::streams::StreamsError) -> Self {
        Violation(error.to_string())
    }
}

impl Connection {
    pub(crate) fn handle_packet(&mut self, now: Time, arrival: Arrival<'_>) {
        let Arrival {
            path: id,
            header,
            local,
            remote,
            facts,
            ecn,
            data,
        } = arrival;
        match &mut self.phase {
            Phase::Closed => return,
            Phase::Closing { owed, .. } => {
                // Whoever goes on talking hasn't heard; one CLOSE for each such datagram can't
                // amplify much, and after three probe timeouts it ends.
                if let Some(&index) = self.by_id.get(&id) {
                    let path = &mut self.paths[index];
                    let validation = &mut path.validation;
                    // Unopened, so from anywhere; but only the path's own address is answered.
                    if path.remote == remote {
                        validation.on_received(data.len());
                    }
                    if validation.takes_close(self.initiator) && !owed.contains(&index) {
                        owed.push(index);
                    }
                }
                return;
            }
            Phase::Open => {}
        }
        let known = self.by_id.get(&id).copied();
        let largest = known.and_then(|index| self.paths[index].received.largest());
        let number = expand_pn(header.pn_low, largest);
        if known.is_some_and(|index| !self.paths[index].received.is_fresh(number)) {
            self.rejected += 1;
            return;
        }
        let len = data.len();
        let pto = self.largest_pto();
        let plain =
            match self
                .opener
                .open(now, pto, id.0, number, header.epoch, data, DATA_HEADER_LEN)
            {
                Ok(plain) => plain,
                Err(OpenError::IntegrityLimit { .. }) => {
                    let text = "as many packets failed to open as the cipher allows".to_owned();
                    self.close_with(now, code::CRYPTO, &text, CloseReason::Crypto(text.clone()));
                    return;
                }
                Err(_) => {
                    self.rejected += 1;
                    return;
                }
            };
        let Some(index) = known.or_else(|| self.accept_path(now, id, local, remote, facts)) else {
            return;
        };
        self.handle_opened(
            now,
            index,
            Opened {
                number,
                len,
                local: local.id,
                remote,
                ecn,
                plain,
            },
        );
    }

    /// A packet that has opened: the listener's first one comes here by way of the handshake.
    pub(crate) fn handle_first(&mut self, now: Time, opened: Opened<'_>) {
        if let Some(&index) = self.by_id.get(&PathId(0)) {
            self.handle_opened(now, index, opened);
        }
    }

    fn handle_opened(&mut self, now: Time, index: usize, opened: Opened<'_>) {
        let Opened {
            number,
            len,
            local,
            remote,
            ecn,
            plain,
        } = opened;
        self.last_heard = now;
        let origin = self.origin(now, index, number, local, remote);
        self.count_received(index, origin, len);
        let path = &mut self.paths[index];
        let id = path.id;
        path.counters.bytes_received += len as u64;
        path.note_heard(now);
        match ecn {
            Some(Ecn::Ect0) => path.marks.ect0 += 1,
            Some(Ecn::Ect1) => path.marks.ect1 += 1,
            Some(Ecn::Ce) => path.marks.ce += 1,
            None => {}
        }
        match self.handle_frames(now, index, origin, plain) {
            Ok(ack_eliciting) => {
                // The packet itself may have ended its path.
                if self.by_id.get(&id) == Some(&index) {
                    let policy = self.ack_policy(index);
                    let path = &mut self.paths[index];
                    path.received.record(now, number, ack_eliciting.any, policy);
                    if ecn == Some(Ecn::Ce) || ack_eliciting.pinged {
                        path.received.ack_now();
                    }
                    if ack_eliciting.pinged {
                        self.echo_ack(index);
                    }
                    self.refresh(now, index);
                }
                self.open_paths(now);
                self.drive_detours(now);
                self.drive_selection(now);
            }
            Err(Violation(text)) => {
                self.close_with(
                    now,
                    code::PROTOCOL,
                    &text,
                    CloseReason::Protocol(text.clone()),
                );
            }
        }
    }

    /// The first packet on a path id that we issued an id for: the initiator opened that path.
    fn accept_path(
        &mut self,
        now: Time,
        id: PathId,
        local: &Local,
        remote: SocketAddr,
        facts: Facts,
    ) -> Option<usize> {
        if self.initiator || self.paths.len() >= self.config.max_paths as usize {
            return None;
        }
        let remote_cid = self.remote_cids.get(&id).copied();
        let index = self.create_path(
            now,
            NewPath {
                id,
                local: local.clone(),
                remote,
                remote_cid,
                under: Under::of(facts),
                through: None,
                initial_rtt: None,
            },
        );
        let through = self.early_grants.remove(&id);
        // What runs on a carrier goes through no relay for datagrams.
        self.paths[index].through = through.filter(|_| !facts.reliable);
        let challenge = self.rng.random();
        self.paths[index].validation.start(now, challenge);
        self.issue_cids();
        Some(index)
    }

    fn handle_frames(
        &mut self,
        now: Time,
        index: usize,
        origin: Origin,
        plain: &[u8],
    ) -> Result<Eliciting, Violation> {
        let id = self.paths[index].id;
        let mut eliciting = Eliciting::default();
        for frame in Frames::new(plain) {
            let frame = frame?;
            eliciting.any |= frame.is_ack_eliciting();
            eliciting.pinged |= matches!(frame, Frame::Ping);
            self.handle_frame(now, index, origin, frame)?;
            if self.is_closed() || self.by_id.get(&id) != Some(&index) {
                break;
            }
        }
        Ok(eliciting)
    }

    fn handle_frame(
        &mut self,
        now: Time,
        index: usize,
        origin: Origin,
        frame: Frame<'_>,
    ) -> Result<(), Violation> {
        match frame {
            Frame::Padding { .. } | Frame::Ping | Frame::Filler => {}
            Frame::Ack(ack) => self.on_ack(now, &ack)?,
            Frame::Stream {
                stream,
                offset,
                fin,
                data,
            } => {
                let path = &mut self.paths[index];
                path.counters.stream_bytes_received += data.len() as u64;
                if !path.facts.reliable {
                    path.moving.note_data(now, 3 * path.sender.pto());
                }
                let rtt = self.slowest_rtt();
                self.streams
                    .on_stream(now, rtt, stream, offset, data, fin)?;
            }
            Frame::ResetStream {
                stream,
                code,
                final_size,
            } => self.streams.on_reset(stream, code, final_size)?,
            Frame::StopSending { stream, code } => self.streams.on_stop(stream, code)?,
            Frame::MaxData { max } => self.streams.on_max_data(max),
            Frame::MaxStreamData { stream, max } => self.streams.on_max_stream_data(stream, max)?,
            Frame::MaxStreams { count } => self.streams.on_max_streams(count),
            Frame::PathChallenge { data } => self.on_challenge(index, origin, data),
            Frame::PathResponse { data } => self.on_response(now, index, origin, data),
            Frame::PathId { path, cid } => self.on_path_id(path, cid)?,
            Frame::PathAbandon { path, .. } => self.on_abandon(now, path)?,
            Frame::Addresses { seq, addresses } => self.on_addresses(now, seq, &addresses),
            Frame::Relay { slot, seq, relay } => self.on_relay(now, slot, seq, relay)?,
            Frame::Consent { slot, seq, consent } => self.on_consent(now, slot, seq, consent)?,
            Frame::Grant { path, seq, grant } => self.on_grant(path, seq, grant)?,
            Frame::Close { code, reason } => {
                self.end(CloseReason::Peer {
                    code,
                    reason: reason.to_owned(),
                });
            }
        }
        Ok(())
    }

    fn slowest_rtt(&self) -> std::time::Duration {
        let slowest = self
            .active
            .last()
            .map(|&(key, _)| std::time::Duration::from_nanos(key));
        slowest.unwrap_or(std::time::Duration::from_millis(100))
    }

    fn on_ack(&mut self, now: Time, ack: &AckFrame<'_>) -> Result<(), Violation> {
        // An ACK for a path that is over by now is normal.
        let Some(&index) = self.by_id.get(&ack.path()) else {
            return Ok(());
        };
        let mut ranges = std::mem::take(&mut self.ranges);
        ranges.clear();
        ranges.extend(ack.ranges());
        let before = self.window_before(index);
        let path = &mut self.paths[index];
        let mut largest = ack.largest();
        if path.moving.went_elsewhere() && largest < path.sender.next_packet_number() {
            path.moving.without_elsewhere(&mut ranges);
            match ranges.first() {
                Some(first) => largest = *first.end(),
                None => {
                    self.ranges = ranges;
                    return Ok(());
                }
            }
        }
        let info = AckedRanges {
            largest,
            ranges: &ranges,
            delay: micros(ack.info.delay_us),
            ce_count: ack.info.ecn.map(|e| e.ce),
            receive_time: Some(Time::from_micros(ack.info.receive_time_us)),
        };
        let result = path.sender.on_ack(
            now,
            info,
            self.controllers.of_mut(path.under),
            &mut self.outcome,
        );
        self.ranges = ranges;
        result.map_err(|error| Violation(error.to_string()))?;
        let numbers = self.outcome.acked.iter().map(|(number, _)| *number);
        let resized = path.mtu.on_acked(now, numbers, largest);
        let counts = ack.info.ecn.map(|e| e.ect0 + e.ect1 + e.ce);
        path.marks.on_ack(counts, self.outcome.acked.len());
        if !self.outcome.acked.is_empty() {
            self.on_path_alive(now, index);
        }
        let lost = !self.outcome.lost.is_empty();
        self.take_outcome(now, index);
        if resized {
            self.apply_mtu(index);
        }
        self.refresh(now, index);
        self.observe(now, index, before, lost);
        Ok(())
    }

    /// Something came back on a path: it's no longer stalled.
    pub(super) fn on_path_alive(&mut self, now: Time, index: usize) {
        if self.paths[index].state != PathState::Stalled {
            return;
        }
        self.paths[index].state = PathState::Active;
        self.note_working(index);
        self.path_up(index);
        // The last active path is never stalled, however silent. Now it isn't the last one any
        // more; it must not hold data until its own, backed-off, probe timeout. Revivals are rare
        // enough to look at every path.
        let silent: Vec<usize> = self
            .active
            .iter()
            .map(|&(_, other)| other)
            .filter(|&other| other != index && self.paths[other].sender.pto_count() > 0)
            .collect();
        for other in silent {
            self.stall(now, other);
            self.refresh(now, other);
        }
    }

    /// Passes on what a sender handed out as acked or lost.
    pub(super) fn take_outcome(&mut self, now: Time, index: usize) {
        let unacked = self.streams.unacked_bytes();
        let mtu = &mut self.paths[index].mtu;
        for (number, payload) in self.outcome.acked.drain(..) {
            if payload.large {
                mtu.on_large_acked(number);
            }
            self.sealer.on_acked(payload.epoch);
            for range in payload.ranges() {
                self.streams.on_acked(range);
            }
            for control in &payload.control {
                self.streams.on_control_acked(control);
            }
        }
        self.acked += unacked.saturating_sub(self.streams.unacked_bytes());
        let mut black_hole = false;
        for (number, payload) in self.outcome.lost.drain(..) {
            black_hole |= payload.large && mtu.on_large_lost(now, number);
            requeue(&mut self.streams, &mut self.control, payload);
        }
        if black_hole {
            self.apply_mtu(index);
        }
    }

    fn on_path_id(
        &mut self,
        path: PathId,
        cid: manyway_wire::ConnectionId,
    ) -> Result<(), Violation> {
        match self.remote_cids.get(&path) {
            Some(known) if *known != cid => {
                return Err(Violation(format!(
                    "PATH_ID: path {} already has another connection id",
                    path.0
                )));
            }
            Some(_) => return Ok(()),
            None => {}
        }
        if path.0 < self.next_path && !self.by_id.contains_key(&path) {
            // A late copy for a path that is over.
            return Ok(());
        }
        if path.0 >= self.next_path.saturating_add(4 * super::SPARE_PATHS) {
            return Err(Violation(format!(
                "PATH_ID: path {} is too far ahead",
                path.0
            )));
        }
        self.remote_cids.insert(path, cid);
        if let Some(&index) = self.by_id.get(&path) {
            self.paths[index].remote_cid = Some(cid);
        }
        Ok(())
    }

    fn on_abandon(&mut self, now: Time, path: PathId) -> Result<(), Violation> {
        if path.0 >= self.next_local_cid {
            return Err(Violation(format!(
                "PATH_ABANDON: path {} doesn't exist",
                path.0
            )));
        }
        if let Some(&index) = self.by_id.get(&path) {
            self.close_path(now, index, PathDownReason::Abandoned, false);
        } else {
            self.retire_cids(path);
        }
        // Path ids that never led to a packet here are used up all the same.
        self.next_path = self.next_path.max(path.0 + 1);
        self.issue_cids();
        Ok(())
    }

    fn on_addresses(&mut self, now: Time, seq: u64, addresses: &[SocketAddr]) {
        if self.peer_addresses_seq.is_some_and(|known| seq <= known) {
            return;
        }
        self.peer_addresses_seq = Some(seq);
        if self.initiator {
            self.peer_addresses = addresses.to_vec();
        }
        self.add_remotes(now, addresses);
    }

    /// The listener is, or may be, at these addresses too.
    pub(crate) fn add_remotes(&mut self, now: Time, addresses: &[SocketAddr]) {
        if let Some(pairs) = &mut self.pairs {
            pairs.add_remotes(addresses);
            self.open_paths(now);
        }
    }
}

/// Reused for the ranges of one ACK after the other.
pub(super) type Ranges = Vec<RangeInclusive<u64>>;
