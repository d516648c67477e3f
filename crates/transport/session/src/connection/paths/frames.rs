//! What a path writes into packets: acknowledgements, challenges and their answers, probes; and
//! the datagrams that leave beside its own, for its size and for addresses under challenge.

use manyway_control::Carried;
use manyway_units::Time;
use manyway_wire::relay::Grant;
use manyway_wire::{AckInfo, ConnectionId, DATA_HEADER_LEN, Frame, TAG_LEN, encode_ack};

use super::super::packet::Packet;
use super::migration::Candidate;
use super::path::Path;
use super::types::MtuProbe;
use crate::driver::Transmit;
use crate::stats::PathState;

/// Room for challenge, response and PATH_ID: 9, 9 and at most 13 bytes.
const PATH_FRAMES: usize = 32;

impl Path {
    /// Appends an ACK of all that arrived; false if there is no room.
    pub(crate) fn write_ack(&self, now: Time, end: usize, buf: &mut Vec<u8>) -> bool {
        let at = self.received.largest_at();
        let info = AckInfo {
            path: self.id,
            delay_us: now.since(at).as_micros() as u64,
            receive_time_us: at.as_micros(),
            ecn: self.marks.received(),
        };
        let room = end.saturating_sub(buf.len());
        encode_ack(buf, &info, self.received.ranges(), room) > 0
    }

    /// Appends the ACK on another path, which needs no other copy then.
    pub(crate) fn lend_ack(&mut self, now: Time, end: usize, buf: &mut Vec<u8>) {
        if self.write_ack(now, end, buf) {
            self.received.on_ack_sent();
        }
    }

    /// Appends the ACK on the path itself, if there is something to acknowledge.
    pub(crate) fn write_own_ack(&mut self, now: Time, end: usize, buf: &mut Vec<u8>) {
        if self.received.has_unacked() && self.write_ack(now, end, buf) {
            self.received.on_ack_sent();
            self.migration.copy_ack();
        }
    }

    /// Whether an ACK of a carrier's path would have to wait there.
    pub(crate) fn ack_would_wait(&self) -> bool {
        let unwritten = self.sender.carried().map_or(0, Carried::unwritten);
        self.received.is_due() && unwritten > 0
    }

    /// Appends challenge, response and probe. With a challenge go our connection id and the grant
    /// for the way back: the peer can't answer without them, and the packets that brought them may
    /// be lost.
    pub(crate) fn write_path_frames(
        &mut self,
        now: Time,
        end: usize,
        initiator: bool,
        (local_cid, grant): (Option<ConnectionId>, Option<(u64, Grant)>),
        packet: &mut Packet,
        buf: &mut Vec<u8>,
    ) {
        let path = self.id;
        let mut push = |frame| Packet::push(buf, end, &frame);
        if let Some(data) = self.respond.take()
            && push(Frame::PathResponse { data })
        {
            packet.ack_eliciting = true;
            packet.pad = true;
        }
        if let Some(data) = self.validation.due(now)
            && push(Frame::PathChallenge { data })
        {
            packet.first_challenge = self.validation.on_challenge_sent(now) && initiator;
            packet.ack_eliciting = true;
            packet.pad = true;
            if let Some(cid) = local_cid {
                push(Frame::PathId { path, cid });
            }
            if let Some((seq, grant)) = grant {
                push(Frame::Grant { path, seq, grant });
            }
        }
        if let Some(data) = self.migration.take_home_challenge()
            && push(Frame::PathChallenge { data })
        {
            packet.ack_eliciting = true;
        }
        if self.probes > 0 && push(Frame::Ping) {
            self.probes -= 1;
            packet.probe = true;
            packet.ack_eliciting = true;
        }
    }

    /// Whether a probe of the path's size may leave: only in the midst of data, so that an idle
    /// path stays idle; or for data that waits for larger packets.
    pub(super) fn wants_mtu_probe(&self, now: Time) -> bool {
        self.state == PathState::Active
            && self.validation.is_validated()
            && (self.sender.packets_in_flight() >= 2 || self.is_too_small())
            && self.mtu.is_due(now)
    }

    /// A probe of the path's size, if it is time for one.
    pub(crate) fn mtu_probe(&self, now: Time) -> Option<MtuProbe> {
        if !self.wants_mtu_probe(now) {
            return None;
        }
        Some(MtuProbe {
            size: self.mtu.due(now)?,
            number: self.sender.next_packet_number(),
            patience: 3 * self.sender.pto(),
        })
    }

    pub(crate) fn on_mtu_probe_sent(&mut self, now: Time, probe: &MtuProbe) {
        self.mtu
            .on_probe_sent(now, probe.number, probe.size, probe.patience);
    }

    // Addresses under challenge.

    /// How many addresses the path could move to.
    pub(crate) fn candidates(&self) -> usize {
        self.migration.candidates()
    }

    /// How large the datagram to an address under challenge may be, if one is due and allowed.
    pub(crate) fn candidate_room(&mut self, now: Time, at: usize) -> Option<usize> {
        let (base, least) = (self.mtu.base(), self.least_to_candidate());
        let candidate = self.migration.candidate(at)?;
        let ack = std::mem::take(&mut candidate.ack);
        if !ack && candidate.validation.due(now).is_none() && candidate.respond.is_none() {
            return None;
        }
        // Not even an initiator was told of this address by anybody it trusts.
        let room = candidate.validation.allowance(false).min(base);
        (room >= least).then_some(room)
    }

    /// The smallest datagram to an address under challenge.
    pub(super) fn least_to_candidate(&self) -> usize {
        // A path through a relay has no candidates, but one may have become such a path meanwhile.
        self.overhead() + DATA_HEADER_LEN + TAG_LEN + PATH_FRAMES
    }

    /// Appends what is due for an address under challenge, and an ACK.
    pub(crate) fn write_to_candidate(
        &mut self,
        now: Time,
        at: usize,
        end: usize,
        local_cid: Option<ConnectionId>,
        packet: &mut Packet,
        buf: &mut Vec<u8>,
    ) {
        if self.received.largest().is_some() {
            self.write_ack(now, end - PATH_FRAMES, buf);
        }
        let path = self.id;
        let Some(candidate) = self.migration.candidate(at) else {
            return;
        };
        let challenge = candidate.validation.due(now);
        if let Some(data) = candidate.respond.take() {
            Frame::PathResponse { data }.encode(buf);
            packet.pad = true;
        }
        if let Some(data) = challenge {
            Frame::PathChallenge { data }.encode(buf);
            candidate.validation.on_challenge_sent(now);
            packet.pad = true;
            // On a path that is new to the peer it can't answer without it.
            if let Some(cid) = local_cid {
                Frame::PathId { path, cid }.encode(buf);
            }
        }
        if packet.pad {
            buf.resize(end.max(buf.len()), 0);
        }
    }

    /// The path's packet `number`, of `len` bytes, goes to an address under challenge.
    pub(crate) fn on_sent_to_candidate(
        &mut self,
        at: usize,
        number: u64,
        len: usize,
    ) -> Option<Transmit> {
        self.migration.note_elsewhere(number);
        let candidate: &mut Candidate = self.migration.candidate(at)?;
        candidate.validation.on_sent(len);
        Some(Transmit {
            local: self.local.id,
            remote: candidate.remote,
            ecn: false,
            len,
            segment_size: None,
        })
    }
}
