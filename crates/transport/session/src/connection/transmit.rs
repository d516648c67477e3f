//! Building datagrams: what a path owes first, then stream data on the path that delivers soonest.

use std::time::Duration;

use manyway_control::{Permit, Sent};
use manyway_units::Time;
use manyway_wire::{
    AckInfo, DATA_HEADER_LEN, DataHeader, EcnCounts, Frame, PathId, TAG_LEN, encode_ack,
};

use crate::driver::Transmit;
use crate::event::{CloseReason, code};
use crate::stats::PathState;

use super::path::Payload;
use super::{Connection, Phase};

/// Room in a datagram below which no stream data is added: the frame's own header would be most of
/// it.
pub(super) const SMALLEST_CHUNK: usize = 32;
/// Unsent bytes from which on a connection counts as moving bulk data.
const BULK: u64 = 256 << 10;
/// A GSO batch must stay below 64 KiB with its headers.
const MAX_BATCH: usize = 62_000;

/// A datagram under construction.
pub(super) struct Packet {
    payload: Payload,
    pub(super) ack_eliciting: bool,
    stream_bytes: u64,
    /// Fill the datagram up: the path has to carry this size.
    pub(super) pad: bool,
    /// It answers a probe timeout or keeps the path alive.
    probe: bool,
    /// It is the first to this address.
    first_challenge: bool,
    /// It goes to an address under challenge, or asks whether the path carries its size: in the
    /// path's own books nobody waits for it, and its loss says nothing.
    pub(super) aside: bool,
}

impl Packet {
    pub(super) fn new() -> Self {
        Self {
            payload: Payload::default(),
            ack_eliciting: false,
            stream_bytes: 0,
            pad: false,
            probe: false,
            first_challenge: false,
            aside: false,
        }
    }
}

impl Connection {
    /// Fills `buf` with one or more datagrams for one path.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Time,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        match self.phase {
            Phase::Closed => return None,
            Phase::Closing { .. } => return self.transmit_close(now, buf),
            Phase::Open => {}
        }
        if let Some(transmit) = self.transmit_to_relay(now, buf) {
            return Some(transmit);
        }
        // Each once: what can't leave yet (an address that hasn't answered) stays in the queue.
        for _ in 0..self.attention.len() {
            let Some(index) = self.attention.pop_front() else {
                break;
            };
            self.paths[index].indexed.attention = false;
            let by = self.path_for_ack(index);
            if by != index {
                let transmit = self.transmit(now, by, 1, false, buf);
                self.refresh(now, index);
                if transmit.is_some() {
                    return transmit;
                }
            }
            if let Some(transmit) = self.transmit_candidate(now, index, buf) {
                return Some(transmit);
            }
            if let Some(transmit) = self.transmit_mtu_probe(now, index, buf) {
                return Some(transmit);
            }
            let with_data = self.data_permitted(now, index);
            let transmit = self.transmit(now, index, 1, with_data, buf);
            if transmit.is_some() {
                return transmit;
            }
        }
        self.take_stream_control();
        if !self.control.is_empty()
            && let Some(index) = self.path_for_control()
        {
            let with_data = self.data_permitted(now, index);
            let transmit = self.transmit(now, index, 1, with_data, buf);
            if transmit.is_some() {
                return transmit;
            }
        }
        let index = self.path_for_data(now)?;
        self.transmit(now, index, max_segments, true, buf)
    }

    fn transmit_close(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            let Phase::Closing {
                code, reason, owed, ..
            } = &mut self.phase
            else {
                return None;
            };
            let index = owed.pop()?;
            let (code, reason) = (*code, reason.clone());
            buf.clear();
            let mut frame = Frame::Close {
                code,
                reason: &reason,
            };
            let room = self.paths[index]
                .validation
                .allowance(self.initiator)
                .min(self.paths[index].mtu.base())
                .saturating_sub(self.paths[index].overhead() + DATA_HEADER_LEN + TAG_LEN);
            if frame.encoded_len() > room {
                frame = Frame::Close { code, reason: "" };
            }
            if frame.encoded_len() > room {
                continue;
            }
            let Some(head) = self.begin(index, buf) else {
                continue;
            };
            self.write_last_acks(now, room - frame.encoded_len(), buf);
            frame.encode(buf);
            let packet = Packet::new();
            // CLOSE isn't retransmitted by time, so the moment of sending doesn't matter.
            self.seal_and_record(Time::ZERO, index, [0, head], packet, buf)?;
            return Some(self.describe(index, buf.len(), buf.len()));
        }
    }

    fn data_permitted(&mut self, now: Time, index: usize) -> bool {
        self.has_data() && self.path_for_data(now) == Some(index)
    }

    /// The path that stream data leaves on now, if any may.
    fn path_for_data(&mut self, now: Time) -> Option<usize> {
        if self.limited_until.is_some() {
            return None;
        }
        if !self.has_data() && !self.requeue_overtaken() {
            self.carriers.overlay.on_starved();
            self.note_starved(now, true);
            return None;
        }
        self.note_starved(now, false);
        if let Some(limiter) = &self.limiter
            && let Err(at) = limiter.permit(now, self.config.initial_datagram)
        {
            self.limited_until = Some(at);
            return None;
        }
        if self.streams.has_data() || self.filler == 0 {
            return self.choose();
        }
        self.choose_in_turn()
    }

    /// Puts the oldest packet of a much slower path back into the queue, for a path that is idle.
    fn requeue_overtaken(&mut self) -> bool {
        while self.streams.unacked_bytes() > 0 {
            let Some((_, slow)) = self.overtake() else {
                return false;
            };
            let Some(payload) = self.outstanding(slow, 1).pop() else {
                return false;
            };
            for range in payload.ranges() {
                self.streams.on_lost(range);
            }
            if self.streams.has_data() {
                return true;
            }
        }
        false
    }

    /// What the oldest `max` packets in flight on a path carry, each packet at most once.
    pub(super) fn outstanding(&mut self, index: usize, max: usize) -> Vec<Payload> {
        let path = &mut self.paths[index];
        let mut next = path.reinjected;
        let mut payloads = Vec::new();
        path.sender
            .outstanding(path.reinjected, max, |number, sent| {
                next = number + 1;
                payloads.push(Payload {
                    epoch: sent.payload.epoch,
                    large: sent.payload.large,
                    stream: sent.payload.stream,
                    more: sent.payload.more.clone(),
                    control: sent.payload.control.clone(),
                });
            });
        path.reinjected = next;
        payloads
    }

    fn path_for_control(&self) -> Option<usize> {
        let &(_, index) = self.ready.first().or(self.active.first())?;
        match self.paths[index].facts.own_control {
            true => self.least_queued(),
            false => Some(index),
        }
    }

    fn take_stream_control(&mut self) {
        while let Some(control) = self.streams.poll_control() {
            self.control.push_back(control);
        }
    }

    fn transmit(
        &mut self,
        now: Time,
        index: usize,
        max_segments: usize,
        with_data: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        buf.clear();
        let mut segment = 0;
        let permitted = match self.paths[index]
            .sender
            .permit(now, self.controllers.of(&self.paths[index]))
        {
            Permit::Now { packets } if with_data => (packets as usize).clamp(1, max_segments),
            _ => 1,
        };
        for n in 0..permitted {
            if n > 0 && (buf.len() + segment > MAX_BATCH || !self.more_data_permitted(now)) {
                break;
            }
            let start = buf.len();
            let Some(len) = self.write_packet(now, index, with_data, buf) else {
                buf.truncate(start);
                break;
            };
            if n == 0 {
                segment = len;
            }
            // Only the last datagram of a batch may be shorter.
            if len < segment || len < self.paths[index].mtu.size() {
                break;
            }
        }
        self.refresh(now, index);
        (!buf.is_empty()).then(|| self.describe(index, buf.len(), segment))
    }

    fn more_data_permitted(&mut self, now: Time) -> bool {
        let limited = self
            .limiter
            .as_ref()
            .is_some_and(|l| l.permit(now, self.config.initial_datagram).is_err());
        !limited && self.has_data()
    }

    /// Appends one sealed datagram to `buf`; `None` when there is nothing to say on this path.
    fn write_packet(
        &mut self,
        now: Time,
        index: usize,
        with_data: bool,
        buf: &mut Vec<u8>,
    ) -> Option<usize> {
        let start = buf.len();
        let allowance = self.paths[index]
            .validation
            .allowance(self.initiator)
            .min(self.packet_room(index));
        let least = self.paths[index].overhead() + DATA_HEADER_LEN + TAG_LEN + SMALLEST_CHUNK;
        if allowance < least || !self.paths[index].sender.takes_small() {
            return None;
        }
        let head = self.begin(index, buf)?;
        let end = start + allowance - TAG_LEN;
        let mut packet = Packet::new();

        self.write_acks(now, index, end, buf);
        self.write_path_frames(now, index, end, &mut packet, buf);
        if self.may_carry_control(index) {
            self.write_control(end, &mut packet, buf);
        }
        if with_data || self.may_carry_data(index, &packet) {
            self.write_data(now, end, &mut packet, buf);
        }
        if buf.len() == head + DATA_HEADER_LEN {
            buf.truncate(start);
            return None;
        }
        // On a carrier there is no size to prove.
        if packet.pad && !self.paths[index].facts.reliable {
            buf.resize(end.max(buf.len()), 0);
        }
        self.seal_and_record(now, index, [start, head], packet, buf)
    }

    /// How large the path's next datagram may be. After two probe timeouts its size is in doubt.
    fn packet_room(&self, index: usize) -> usize {
        let path = &self.paths[index];
        if path.sender.pto_count() >= 2 {
            path.mtu.base()
        } else {
            path.mtu.size()
        }
    }

    /// Whether control frames may leave on a path. Not on one that others have taken over from: a
    /// window update on a probe that nobody hears would be repeated on the next such probe, seconds
    /// later, and so on.
    fn may_carry_control(&self, index: usize) -> bool {
        let path = &self.paths[index];
        path.validation.is_validated()
            && (path.state == PathState::Active || self.active.is_empty())
    }

    /// Whether a packet that leaves anyway should be filled with stream data, window or not.
    fn may_carry_data(&self, index: usize, packet: &Packet) -> bool {
        let path = &self.paths[index];
        if path.state == PathState::Validating {
            // The first probe of a new path carries data too (mPath): if the path works, it was not
            // idle. Only in the midst of bulk: what somebody waits for doesn't go where nobody may
            // be.
            return packet.first_challenge && self.streams.unsent_bytes() > BULK;
        }
        // A probe may as well carry what is missing; but not on a path that others have taken over
        // from.
        packet.probe && (path.state == PathState::Active || self.active.is_empty())
    }

    /// Writes the relay's header, if the path leads through one, and that of the path's next
    /// packet. Where the latter begins; `None` if the peer hasn't told the path's connection id, or
    /// its socket is gone.
    pub(super) fn begin(&mut self, index: usize, buf: &mut Vec<u8>) -> Option<usize> {
        let epoch = self.sealer.epoch();
        let path = &mut self.paths[index];
        if path.homeless {
            return None;
        }
        if path.remote_cid.is_none() {
            path.remote_cid = self.remote_cids.get(&path.id).copied();
        }
        let cid = path.remote_cid?;
        let number = path.sender.next_packet_number();
        if let Some(through) = &path.through {
            buf.extend_from_slice(through.header.as_bytes());
        }
        let head = buf.len();
        DataHeader {
            cid,
            epoch,
            pn_low: number as u32,
        }
        .encode(buf);
        Some(head)
    }

    /// The path's own ACK, and those of paths whose acknowledgements may not get through.
    fn write_acks(&mut self, now: Time, index: usize, end: usize, buf: &mut Vec<u8>) {
        if self.paths[index].received.has_unacked() && self.write_ack(now, index, end, buf) {
            self.paths[index].received.on_ack_sent();
            self.paths[index].moving.copy_ack();
        }
        if !self.paths[index].validation.is_validated() {
            return;
        }
        while let Some(id) = self.carriers.lent.pop() {
            if let Some(&other) = self.by_id.get(&id)
                && self.write_ack(now, other, end, buf)
            {
                self.paths[other].received.on_ack_sent();
            }
        }
        while let Some(id) = self.echo_acks.pop_front() {
            match self.by_id.get(&id) {
                // A second copy: the ACK still has to leave on its own path, whichever goes first.
                Some(&other) if other != index => {
                    self.write_ack(now, other, end, buf);
                }
                _ => {}
            }
        }
    }

    /// In front of CLOSE: who waits for an acknowledgement hears now that everything arrived, or
    /// never. Every copy of CLOSE says it for all paths, since the first to arrive is the only one
    /// that counts.
    fn write_last_acks(&mut self, now: Time, room: usize, buf: &mut Vec<u8>) {
        let end = buf.len() + room;
        let paths: Vec<usize> = self.by_id.values().copied().collect();
        for index in paths {
            if self.paths[index].received.largest().is_some() {
                self.write_ack(now, index, end, buf);
            }
        }
    }

    /// Appends the ACK of the path at `index`; false if there is no room.
    pub(super) fn write_ack(
        &mut self,
        now: Time,
        index: usize,
        end: usize,
        buf: &mut Vec<u8>,
    ) -> bool {
        let path = &mut self.paths[index];
        let at = path.received.largest_at();
        let marks = &path.marks;
        let info = AckInfo {
            path: path.id,
            delay_us: now.since(at).as_micros() as u64,
            receive_time_us: at.as_micros(),
            ecn: marks.any_received().then_some(EcnCounts {
                ect0: marks.ect0,
                ect1: marks.ect1,
                ce: marks.ce,
            }),
        };
        encode_ack(
            buf,
            &info,
            path.received.ranges(),
            end.saturating_sub(buf.len()),
        ) > 0
    }

    /// Challenge, response and probe.
    fn write_path_frames(
        &mut self,
        now: Time,
        index: usize,
        end: usize,
        packet: &mut Packet,
        buf: &mut Vec<u8>,
    ) {
        let local_cid = self.local_cids.get(&self.paths[index].id).copied();
        let grant = self.way_back(now, index);
        let path = &mut self.paths[index];
        let mut push = |frame: Frame<'_>| {
            let fits = buf.len() + frame.encoded_len() <= end;
            if fits {
                frame.encode(buf);
            }
            fits
        };
        if let Some(data) = path.respond.take()
            && push(Frame::PathResponse { data })
        {
            packet.ack_eliciting = true;
            packet.pad = true;
        }
        if let Some(data) = path.validation.due(now)
            && push(Frame::PathChallenge { data })
        {
            packet.first_challenge = path.validation.on_challenge_sent(now) && self.initiator;
            packet.ack_eliciting = true;
            packet.pad = true;
            // The peer can't answer without it, and the packet that brought it may be lost.
            if let Some(cid) = local_cid {
                push(Frame::PathId { path: path.id, cid });
            }
            // Neither can it without the way back through the relay.
            if let Some((seq, grant)) = grant {
                push(Frame::Grant {
                    path: path.id,
                    seq,
                    grant,
                });
            }
        }
        if let Some(data) = path.moving.take_home_challenge()
            && push(Frame::PathChallenge { data })
        {
            packet.ack_eliciting = true;
        }
        if path.probes > 0 && push(Frame::Ping) {
            path.probes -= 1;
            packet.probe = true;
            packet.ack_eliciting = true;
        }
    }

    fn write_control(&mut self, end: usize, packet: &mut Packet, buf: &mut Vec<u8>) {
        self.take_stream_control();
        while let Some(control) = self.control.pop_front() {
            if control.encoded_len() > end.saturating_sub(buf.len()) {
                self.control.push_front(control);
                break;
            }
            control.encode(buf);
            packet.ack_eliciting = true;
            packet.payload.control.push(control);
        }
    }

    fn write_data(&mut self, now: Time, end: usize, packet: &mut Packet, buf: &mut Vec<u8>) {
        while end.saturating_sub(buf.len()) >= SMALLEST_CHUNK {
            let Some(chunk) = self.streams.next_chunk(end - buf.len()) else {
                break;
            };
            let range = chunk.range;
            Frame::Stream {
                stream: range.stream,
                offset: range.offset,
                fin: range.fin,
                data: &chunk.data,
            }
            .encode(buf);
            let len = u64::from(range.len);
            packet.ack_eliciting = true;
            packet.stream_bytes += len;
            packet.payload.push(range);
            if chunk.retransmission {
                self.resent += len;
            }
            if let Some(limiter) = &mut self.limiter {
                limiter.spend(now, range.len as usize);
            }
        }
        self.write_filler(now, end, packet, buf);
    }

    /// Seals the datagram from `start` on, whose packet begins at `head`, and hands what it carries
    /// to the path's sender.
    pub(super) fn seal_and_record(
        &mut self,
        now: Time,
        index: usize,
        [start, head]: [usize; 2],
        mut packet: Packet,
        buf: &mut Vec<u8>,
    ) -> Option<usize> {
        let app_limited = !self.has_data();
        packet.payload.epoch = self.sealer.epoch();
        let path = &mut self.paths[index];
        let number = path.sender.next_packet_number();
        if let Err(error) = self
            .sealer
            .seal(path.id.0, number, buf, head, DATA_HEADER_LEN)
        {
            buf.truncate(start);
            if matches!(self.phase, Phase::Open) {
                let text = error.to_string();
                self.close_with(now, code::CRYPTO, &text, CloseReason::Crypto(text.clone()));
            }
            return None;
        }
        let len = buf.len() - start;
        packet.payload.large = path.mtu.is_large(len);
        path.sender.on_sent(
            now,
            Sent {
                bytes: len as u32,
                ack_eliciting: packet.ack_eliciting && !packet.aside,
                app_limited,
                payload: packet.payload,
            },
        );
        if !packet.aside {
            path.validation.on_sent(len);
        }
        path.counters.bytes_sent += len as u64;
        path.counters.stream_bytes_sent += packet.stream_bytes;
        path.last_sent = path.last_sent.max(now);
        Some(len)
    }

    pub(super) fn describe(&self, index: usize, len: usize, segment: usize) -> Transmit {
        let path = &self.paths[index];
        Transmit {
            local: path.local.id,
            remote: path.remote,
            ecn: path.marks.enabled,
            len,
            segment_size: (len > segment).then_some(segment),
        }
    }

    /// The peer's probe timeout ran out on `path`: its ACK may have been lost with the path.
    pub(super) fn echo_ack(&mut self, index: usize) {
        let id: PathId = self.paths[index].id;
        let other = self.active.iter().map(|&(_, i)| i).find(|&i| i != index);
        let Some(other) = other else { return };
        if !self.echo_acks.contains(&id) {
            self.echo_acks.push_back(id);
        }
        let path = &mut self.paths[other];
        if !path.indexed.attention && path.state == PathState::Active {
            path.indexed.attention = true;
            self.attention.push_back(other);
        }
    }
}

/// Micros as a duration, for values that came off the wire.
pub(super) fn micros(value: u64) -> Duration {
    Duration::from_micros(value)
}
