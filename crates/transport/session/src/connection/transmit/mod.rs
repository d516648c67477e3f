//! Building datagrams: what a path owes first, then stream data on the path that delivers soonest.
//!
//! It owns the sealing key and the list of paths whose ACKs leave on other ones. It decides in
//! which order things are said and assembles packets; the frames themselves are written by those
//! who own what they say.

#[cfg(test)]
mod tests;

use manyway_control::Permit;
use manyway_units::Time;
use manyway_wire::{DATA_HEADER_LEN, Frame, PathId, TAG_LEN};

use crate::budget::{LEAST_IN_PACKET, MAX_BARE, MAX_WITH_DATAGRAMS};
use crate::crypto::Sealer;
use crate::driver::Transmit;
use crate::stats::PathState;
use crate::streams::MAX_CONTROL_LEN;

use super::carriers::Carriers;
use super::data::Data;
use super::outbox::Outbox;
use super::packet::{Packet, Payload};
use super::paths::{ConnectionIds, PathSet};
use super::relayed::RelayedPaths;

/// A GSO batch must stay below 64 KiB with its headers.
const MAX_BATCH: usize = 62_000;

/// The sending side's keys, and ACKs that go astray on purpose.
#[derive(Debug)]
pub(super) struct Transmitter {
    initiator: bool,
    sealer: Sealer,
    /// Paths on carriers whose ACK leaves with the next packet of whatever path.
    lent_acks: Vec<PathId>,
    /// Paths whose ACK goes out on a second path too, because the peer's probe timeout ran out on
    /// them.
    echoed_acks: Vec<PathId>,
    /// Why a packet couldn't be sealed: the connection can't go on.
    failure: Option<String>,
}

/// Those whose frames a datagram is made of.
pub(super) struct Parts<'a> {
    pub(super) paths: &'a mut PathSet,
    pub(super) ids: &'a ConnectionIds,
    pub(super) data: &'a mut Data,
    pub(super) outbox: &'a mut Outbox,
}

/// They, and those who say what goes first.
pub(super) struct Sources<'a> {
    pub(super) core: Parts<'a>,
    pub(super) relayed: &'a mut RelayedPaths,
    pub(super) carriers: &'a mut Carriers,
}

impl Transmitter {
    pub(super) fn new(initiator: bool, sealer: Sealer) -> Self {
        Self {
            initiator,
            sealer,
            lent_acks: Vec::new(),
            echoed_acks: Vec::new(),
            failure: None,
        }
    }

    /// Why a packet couldn't be sealed, once.
    pub(super) fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// The peer has a packet.
    pub(super) fn on_acked(&mut self, payload: &Payload) {
        self.sealer.on_acked(payload.epoch);
    }

    /// The peer's probe timeout ran out on a path: its ACK may have been lost with the path, so
    /// another one carries a copy. That one has to send something.
    pub(super) fn echo_ack(&mut self, paths: &PathSet, index: usize) -> Option<usize> {
        let id = paths[index].id();
        let other = paths.another_active(index)?;
        if !self.echoed_acks.contains(&id) {
            self.echoed_acks.push(id);
        }
        Some(other)
    }

    /// Fills `buf` with one or more datagrams for one path.
    pub(super) fn poll(
        &mut self,
        now: Time,
        max_segments: usize,
        mut from: Sources<'_>,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let from = &mut from;
        if let Some(transmit) = from.relayed.poll_request(now, buf) {
            return Some(transmit);
        }
        // Each once: what can't leave yet (an address that hasn't answered) stays in the queue.
        for _ in 0..from.core.paths.owing() {
            let Some(index) = from.core.paths.next_owing() else {
                break;
            };
            let transmit = self.serve(now, index, from, buf);
            if transmit.is_some() {
                return transmit;
            }
        }
        if from.core.has_frames()
            && let Some(index) = from.core.paths.choose_for_control()
        {
            let with_data = may_carry_data(now, index, from);
            let transmit = self.transmit(now, (index, with_data), 1, from, buf);
            if transmit.is_some() {
                return transmit;
            }
        }
        let index = path_for_data(now, from)?;
        self.transmit(now, (index, true), max_segments, from, buf)
    }

    /// One datagram that a path owes.
    fn serve(
        &mut self,
        now: Time,
        index: usize,
        from: &mut Sources<'_>,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some(other) = self.lend_ack(index, from.core.paths) {
            let transmit = self.transmit(now, (other, false), 1, from, buf);
            from.core.paths.refresh(now, index);
            if transmit.is_some() {
                return transmit;
            }
        }
        for at in 0..from.core.paths[index].candidates() {
            if let Some(transmit) = self.transmit_to_candidate(now, index, at, &mut from.core, buf)
            {
                from.core.paths.refresh(now, index);
                return Some(transmit);
            }
        }
        if let Some(transmit) = self.transmit_mtu_probe(now, index, &mut from.core, buf) {
            return Some(transmit);
        }
        let with_data = may_carry_data(now, index, from);
        self.transmit(now, (index, with_data), 1, from, buf)
    }

    /// The path that another path's ACK leaves on. A carrier's goes by the carrier on which the
    /// least waits: nobody's data should have to be kept for want of an ACK that stands in a queue.
    fn lend_ack(&mut self, index: usize, paths: &PathSet) -> Option<usize> {
        if !paths[index].ack_would_wait() {
            return None;
        }
        let other = paths.least_queued().filter(|&other| other != index)?;
        let id = paths[index].id();
        if !self.lent_acks.contains(&id) {
            self.lent_acks.push(id);
        }
        Some(other)
    }

    fn transmit(
        &mut self,
        now: Time,
        (index, with_data): (usize, bool),
        max_segments: usize,
        from: &mut Sources<'_>,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        buf.clear();
        let mut segment = 0;
        let permitted = match from.core.paths.permit(now, index) {
            Permit::Now { packets } if with_data => (packets as usize).clamp(1, max_segments),
            _ => 1,
        };
        for n in 0..permitted {
            if n > 0 && (buf.len() + segment > MAX_BATCH || !from.core.may_go_on(now, index)) {
                break;
            }
            let start = buf.len();
            let most = if n == 0 { usize::MAX } else { segment };
            let Some(len) = self.write_packet(now, (index, with_data), most, from, buf) else {
                buf.truncate(start);
                break;
            };
            if n == 0 {
                segment = len;
            }
            // Only the last datagram of a batch may be shorter.
            let full = len >= from.core.paths[index].full_size();
            if len < segment || !full && !from.core.goes_on_alike(index, segment) {
                break;
            }
        }
        from.core.paths.refresh(now, index);
        (!buf.is_empty()).then(|| from.core.paths[index].describe(buf.len(), segment))
    }

    /// Appends one sealed datagram of at most `most` bytes to `buf`; `None` when there is nothing
    /// to say on this path.
    fn write_packet(
        &mut self,
        now: Time,
        (index, with_data): (usize, bool),
        most: usize,
        from: &mut Sources<'_>,
        buf: &mut Vec<u8>,
    ) -> Option<usize> {
        let start = buf.len();
        let core = &mut from.core;
        let room = core.paths[index].room(self.initiator)?.min(most);
        let head = core.paths[index].begin(self.sealer.epoch(), buf)?;
        let end = start + room - TAG_LEN;
        let mut packet = Packet::default();

        self.write_acks(now, index, end, core.paths, buf);
        let path = &core.paths[index];
        let needs = (
            core.ids.local(path.id()),
            from.relayed.grant_back(now, path),
        );
        let path = &mut core.paths[index];
        path.write_path_frames(now, end, self.initiator, needs, &mut packet, buf);
        if core.paths.may_carry_control(index) {
            core.write_frames(end, &mut packet, buf);
        }
        // Not on a probe: whoever waits for a datagram has no use for one on a dead path.
        if with_data && core.paths.takes_datagrams(index) && core.may_send_datagrams() {
            core.data.write_datagrams(now, end, &mut packet, buf);
        }
        if with_data || fills(index, &packet, core) {
            core.write_data(now, index, end, &mut packet, buf);
        }
        if buf.len() == head + DATA_HEADER_LEN {
            buf.truncate(start);
            return None;
        }
        let bare = packet.stream_bytes == 0 && !packet.datagrams;
        if bare && !core.may_send_bare() {
            buf.truncate(start);
            core.requeue(packet.payload);
            return None;
        }
        // On a carrier there is no size to prove.
        if packet.pad && !core.paths[index].facts().reliable {
            buf.resize(end.max(buf.len()), 0);
        }
        self.seal(now, index, [start, head], packet, core, buf)
    }

    /// The path's own ACK, and those of paths whose acknowledgements may not get through.
    fn write_acks(
        &mut self,
        now: Time,
        index: usize,
        end: usize,
        paths: &mut PathSet,
        buf: &mut Vec<u8>,
    ) {
        paths[index].write_own_ack(now, end, buf);
        if !paths[index].is_validated() {
            return;
        }
        while let Some(id) = self.lent_acks.pop() {
            if let Some(other) = paths.index_of(id) {
                paths[other].lend_ack(now, end, buf);
            }
        }
        for id in self.echoed_acks.drain(..) {
            // A second copy: the ACK still has to leave on its own path, whichever goes first.
            if let Some(other) = paths.index_of(id).filter(|&other| other != index) {
                paths[other].write_ack(now, end, buf);
            }
        }
    }

    /// One datagram for an address under challenge, if one is due and allowed.
    fn transmit_to_candidate(
        &mut self,
        now: Time,
        index: usize,
        at: usize,
        core: &mut Parts<'_>,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let room = core.paths[index].candidate_room(now, at);
        buf.clear();
        let room = room?;
        let head = core.paths[index].begin(self.sealer.epoch(), buf)?;
        // Not ack-eliciting in our own books: if it is lost, that says nothing about the path.
        let mut packet = Packet::aside();
        let local_cid = core.ids.local(core.paths[index].id());
        let path = &mut core.paths[index];
        let number = path.sender().next_packet_number();
        path.write_to_candidate(now, at, room - TAG_LEN, local_cid, &mut packet, buf);
        let len = self.seal(now, index, [0, head], packet, core, buf)?;
        core.paths[index].on_sent_to_candidate(at, number, len)
    }

    /// A padded datagram to find out whether the path carries it, if it is time for one.
    fn transmit_mtu_probe(
        &mut self,
        now: Time,
        index: usize,
        core: &mut Parts<'_>,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let probe = core.paths[index].mtu_probe(now)?;
        let path = core.paths[index].id();
        let cid = core.ids.local(path)?;
        buf.clear();
        let head = core.paths[index].begin(self.sealer.epoch(), buf)?;
        // Something that asks for an ACK and says nothing new.
        Frame::PathId { path, cid }.encode(buf);
        buf.resize(probe.size - TAG_LEN, 0);
        let len = self.seal(now, index, [0, head], Packet::aside(), core, buf)?;
        core.paths[index].on_mtu_probe_sent(now, &probe);
        core.paths.refresh(now, index);
        Some(core.paths[index].describe(len, len))
    }

    /// CLOSE on a path, if that may be. In front of it, who waits for an acknowledgement hears now
    /// that everything arrived, or never: every copy says it for all paths, since the first to
    /// arrive is the only one that counts.
    pub(super) fn close(
        &mut self,
        now: Time,
        path: PathId,
        (code, reason): (u64, &str),
        mut core: Parts<'_>,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let core = &mut core;
        let index = core.paths.index_of(path)?;
        let mut frame = Frame::Close { code, reason };
        let room = core.paths[index].close_room(self.initiator);
        if frame.encoded_len() > room {
            frame = Frame::Close { code, reason: "" };
        }
        buf.clear();
        if frame.encoded_len() > room {
            return None;
        }
        let head = core.paths[index].begin(self.sealer.epoch(), buf)?;
        let end = buf.len() + room - frame.encoded_len();
        for (_, path) in core.paths.iter() {
            if path.largest_received().is_some() {
                path.write_ack(now, end, buf);
            }
        }
        frame.encode(buf);
        // CLOSE isn't retransmitted by time, so the moment of sending doesn't matter.
        self.seal(Time::ZERO, index, [0, head], Packet::default(), core, buf)?;
        Some(core.paths[index].describe(buf.len(), buf.len()))
    }

    /// Seals the datagram from `start` on, whose packet begins at `head`, and hands what it carries
    /// to the path's sender; the datagram's length.
    fn seal(
        &mut self,
        now: Time,
        index: usize,
        [start, head]: [usize; 2],
        mut packet: Packet,
        core: &mut Parts<'_>,
        buf: &mut Vec<u8>,
    ) -> Option<usize> {
        packet.payload.epoch = self.sealer.epoch();
        let app_limited = !core.data.has_any_for(&core.paths[index].copied());
        let path = &mut core.paths[index];
        let number = path.next_number();
        let sealed = self
            .sealer
            .seal(path.id().0, number, buf, head, DATA_HEADER_LEN);
        if let Err(error) = sealed {
            buf.truncate(start);
            self.failure.get_or_insert_with(|| error.to_string());
            return None;
        }
        let len = buf.len() - start;
        path.on_sent(now, len, app_limited, packet);
        Some(len)
    }
}

impl Parts<'_> {
    /// Whether a packet without stream data may leave. Each is remembered until it is acknowledged,
    /// and not all of them are bound by a window: a peer that acknowledges nothing could have us
    /// remember answers for ever.
    fn may_send_bare(&self) -> bool {
        let with_data = self.data.streams.unacked_bytes() / u64::from(LEAST_IN_PACKET);
        self.paths.unsettled() < MAX_BARE + usize::try_from(with_data).unwrap_or(usize::MAX)
    }

    /// Whether datagrams of the application may leave, however many packets wait for an
    /// acknowledgement.
    fn may_send_datagrams(&self) -> bool {
        self.paths.unsettled() < MAX_WITH_DATAGRAMS
    }

    /// Whether control frames wait for a datagram.
    fn has_frames(&self) -> bool {
        self.outbox.has_frames() || self.data.streams.has_control()
    }

    /// Writes the control frames that end before `end` into a packet: those that wait, then the
    /// streams', which say how things stand at this moment and so wait in no queue.
    fn write_frames(&mut self, end: usize, packet: &mut Packet, buf: &mut Vec<u8>) {
        self.outbox.write_frames(end, packet, buf);
        while buf.len() + MAX_CONTROL_LEN <= end
            && let Some(frame) = self.data.streams.poll_control()
        {
            frame.encode(buf);
            packet.ack_eliciting = true;
            packet.payload.control.push(frame);
        }
    }

    /// Whether one more datagram of a batch may leave on a path.
    fn may_go_on(&self, now: Time, index: usize) -> bool {
        self.data.may_go_on(now, &self.paths[index].copied())
    }

    /// Whether a datagram of the application waits that leaves in a packet of this size, too.
    fn goes_on_alike(&self, index: usize, size: usize) -> bool {
        let fits = |next| self.paths[index].packet_len(next) <= size;
        self.data.datagrams.next_len().is_some_and(fits)
    }

    fn write_data(
        &mut self,
        now: Time,
        index: usize,
        end: usize,
        packet: &mut Packet,
        buf: &mut Vec<u8>,
    ) {
        let mut carried = self.paths[index].copied();
        let soonest = self.paths.is_soonest(index);
        let path = (&mut carried, soonest);
        self.data.write(now, end, path, packet, buf);
        self.paths[index].set_copied(carried);
    }

    /// The path that is furthest behind what another one has carried, where every path carries all
    /// data.
    fn path_for_copies(&mut self, now: Time) -> Option<usize> {
        while let Some((index, carried)) = self.paths.furthest_behind()
            && self.data.is_behind(&carried)
        {
            let carried = self.data.pass_acked(carried);
            self.paths.set_copied(now, index, carried);
            if self.data.is_behind(&carried) {
                return Some(index);
            }
        }
        None
    }

    /// Sends what a packet carried again, as far as it is still needed.
    pub(super) fn requeue(&mut self, payload: Payload) {
        for frame in self.data.on_lost(payload) {
            self.outbox.say_again(frame, self.ids);
        }
    }

    /// Puts the oldest packet of a much slower path back into the queue, for a path that is idle.
    /// Whether there is something to send by that.
    fn overtake(&mut self, now: Time) -> bool {
        while self.data.streams.unacked_bytes() > 0 {
            let Some(payload) = self.paths.take_overtaken(now) else {
                return false;
            };
            if self.data.overtake(&payload) {
                return true;
            }
        }
        false
    }
}

/// Whether a path that sends anyway may carry data as well, by its window.
fn may_carry_data(now: Time, index: usize, from: &mut Sources<'_>) -> bool {
    from.core.data.has_any() && path_for_data(now, from) == Some(index)
}

/// The path that data leaves on now, if any may.
fn path_for_data(now: Time, from: &mut Sources<'_>) -> Option<usize> {
    let core = &mut from.core;
    if core.data.limited_until().is_some() {
        return None;
    }
    if !core.data.datagrams.is_empty()
        && core.may_send_datagrams()
        && let Some(index) = core.paths.choose_for_datagrams()
    {
        from.relayed.note_starved(now, false);
        return core.data.may_leave(now).then_some(index);
    }
    if let Some(index) = core.path_for_copies(now) {
        return core.data.may_leave(now).then_some(index);
    }
    if core.data.streams.flow_blocked() {
        core.paths.on_blocked();
    }
    if !core.data.has_divisible() && !core.overtake(now) {
        if !core.data.datagrams.is_empty() {
            return None;
        }
        from.carriers.on_starved();
        from.relayed.note_starved(now, true);
        return None;
    }
    from.relayed.note_starved(now, false);
    if !core.data.may_leave(now) {
        return None;
    }
    if core.data.is_filler() {
        // Whichever delivers soonest: filler is to tell of all of them.
        return core.paths.choose_in_turn();
    }
    from.carriers
        .next_in_turn(core.paths, core.data.has_limit())
        .or_else(|| core.paths.choose(now, || core.data.backlog()))
}

/// Whether a packet that leaves anyway should be filled with stream data, window or not.
fn fills(index: usize, packet: &Packet, core: &Parts<'_>) -> bool {
    if core.paths[index].state() == PathState::Validating {
        // The first probe of a new path carries data too (mPath): if the path works, it was not
        // idle. Only in the midst of bulk: what somebody waits for doesn't go where nobody may be.
        // On a carrier a lost packet never counts as lost, so the data would wait for the path's
        // end.
        let reliable = core.paths[index].facts().reliable;
        return packet.first_challenge && core.data.is_bulk() && !reliable;
    }
    // A probe may as well carry what is missing; but not on a path that others have taken over
    // from.
    packet.probe && core.paths.is_relied_on(index)
}
