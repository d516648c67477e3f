//! What there is to send: datagrams, stream data, and filler that stands for it.
//!
//! It owns the datagrams and the streams, the application's rate limit and the counters of what was
//! acknowledged and sent again. It says what fits into a packet and hears what became of it; it
//! doesn't know on which path anything goes.

use bytes::BufMut;
use manyway_control::scheduler::Backlog;
use manyway_units::{Rate, Time};
use manyway_wire::Frame;

use crate::config::Config;
use crate::limit::Limiter;
use crate::streams::{Chunk, StreamRange, Streams};

use super::copies::{Copies, Cursor};
use super::datagrams::Datagrams;
use super::packet::{Packet, Payload, SMALLEST_CHUNK};

/// Unsent bytes from which on a connection counts as moving bulk data.
const BULK: u64 = 256 << 10;

/// The streams and their like.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) streams: Streams,
    pub(super) datagrams: Datagrams,
    limiter: Option<Limiter>,
    /// The size of the datagrams that the limiter is asked about.
    datagram: usize,
    limited_until: Option<Time>,
    /// What every path is to carry, if each carries all.
    copies: Option<Copies>,
    /// Bytes that say nothing and are still to be sent.
    filler: u64,
    resent: u64,
    acked: u64,
}

impl Data {
    pub(super) fn new(now: Time, config: &Config, streams: Streams, datagrams: Datagrams) -> Self {
        let datagram = config.initial_datagram;
        let limiter = config.limit.map(|rate| Limiter::new(rate, datagram, now));
        Self {
            streams,
            datagrams,
            limiter,
            datagram,
            limited_until: None,
            copies: config.scheduler.duplicates().then(Copies::default),
            filler: 0,
            resent: 0,
            acked: 0,
        }
    }

    /// Whether there is something to send that may fill the paths.
    pub(super) fn has_any(&self) -> bool {
        self.has_divisible() || !self.datagrams.is_empty()
    }

    /// Whether some of it fits into whatever packet there is.
    pub(super) fn has_divisible(&self) -> bool {
        self.filler > 0 || self.streams.has_data()
    }

    /// Whether only filler is left.
    pub(super) fn is_filler(&self) -> bool {
        self.filler > 0 && !self.streams.has_data()
    }

    /// Whether a connection moves data that nobody waits for piece by piece.
    pub(super) fn is_bulk(&self) -> bool {
        self.streams.unsent_bytes() > BULK
    }

    /// What is to be sent, filler included.
    pub(super) fn backlog(&self) -> Backlog {
        Backlog {
            unsent: self.streams.unsent_bytes() + self.streams.lost_bytes() + self.filler,
            unacked: self.streams.unacked_bytes(),
            credit: self.streams.send_credit(),
        }
    }

    /// Filler to be sent from now on, instead of what is left of it.
    pub(super) fn fill(&mut self, bytes: u64) {
        self.filler = bytes;
    }

    /// Filler that hasn't left yet, in bytes.
    pub(super) fn filler(&self) -> u64 {
        self.filler
    }

    /// Stream bytes that the peer has acknowledged, each counted once.
    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// Stream bytes that were sent again.
    pub(super) fn resent(&self) -> u64 {
        self.resent
    }

    // The limit.

    pub(super) fn set_limit(&mut self, now: Time, rate: Option<Rate>) {
        self.limiter = rate.map(|rate| Limiter::new(rate, self.datagram, now));
        self.limited_until = None;
    }

    pub(super) fn has_limit(&self) -> bool {
        self.limiter.is_some()
    }

    /// When [`on_timeout`](Self::on_timeout) has something to do.
    pub(super) fn timeout(&self) -> Option<Time> {
        let due = [self.limited_until, self.datagrams.timeout()];
        due.into_iter().flatten().min()
    }

    /// When data may leave again that the limit holds back.
    pub(super) fn limited_until(&self) -> Option<Time> {
        self.limited_until
    }

    /// Whether the limit lets a datagram leave; if not, data is held back until it does.
    pub(super) fn may_leave(&mut self, now: Time) -> bool {
        let permit = self.limiter.as_ref().map(|l| l.permit(now, self.datagram));
        self.limited_until = permit.and_then(Result::err);
        self.limited_until.is_none()
    }

    /// Whether one more datagram of a batch may leave on a path that has carried so much.
    pub(super) fn may_go_on(&self, now: Time, carried: &Cursor) -> bool {
        let limited = |l: &Limiter| l.permit(now, self.datagram).is_err();
        !self.limiter.as_ref().is_some_and(limited) && self.has_any_for(carried)
    }

    /// The time that the limit asked for may have come, or that of datagrams may be over.
    pub(super) fn on_timeout(&mut self, now: Time) {
        self.datagrams.expire(now);
        self.limited_until = self.limited_until.filter(|at| *at > now);
    }

    // Copies, where every path carries all data.

    /// Whether there is something to send on a path that has carried so much.
    pub(super) fn has_any_for(&self, carried: &Cursor) -> bool {
        self.has_any() || self.is_behind(carried)
    }

    /// Whether a path that has carried so much leaves out something that another one has carried.
    pub(super) fn is_behind(&self, carried: &Cursor) -> bool {
        let copies = self.copies.as_ref();
        copies.is_some_and(|copies| carried.number() < copies.end().number())
    }

    /// What has arrived by now isn't carried by others any more: how far a path has come by that.
    pub(super) fn pass_acked(&self, mut carried: Cursor) -> Cursor {
        if let Some(copies) = &self.copies {
            while let Some(range) = copies.at(&mut carried)
                && !self.streams.is_missing(&range)
            {
                copies.pass(&mut carried, &range, range.end());
            }
        }
        carried
    }

    /// Memory that the record of what was sent takes, in bytes.
    pub(super) fn copies_memory(&self) -> usize {
        self.copies.as_ref().map_or(0, Copies::memory)
    }

    // Packets.

    /// Fills a packet up with what others have carried, on a path that has to carry it too.
    fn write_copies(
        &mut self,
        now: Time,
        end: usize,
        carried: &mut Cursor,
        packet: &mut Packet,
        buf: &mut Vec<u8>,
    ) {
        while end.saturating_sub(buf.len()) >= SMALLEST_CHUNK
            && let Some(copies) = &self.copies
            && let Some(range) = copies.at(carried)
        {
            let chunk = self.streams.chunk(&range, end - buf.len());
            let until = chunk
                .as_ref()
                .map_or(range.end(), |chunk| chunk.range.end());
            copies.pass(carried, &range, until);
            if let Some(chunk) = chunk {
                self.put(now, chunk, packet, buf);
            }
        }
    }

    /// Writes the datagrams that a packet has room for.
    pub(super) fn write_datagrams(
        &mut self,
        now: Time,
        end: usize,
        packet: &mut Packet,
        buf: &mut Vec<u8>,
    ) {
        let bytes = self.datagrams.write(now, end, packet, buf);
        self.spend(now, bytes);
    }

    /// Fills a packet up with stream data, then with filler. The path that it leaves on has
    /// `carried` so much of the data, where every path carries all, and may be the one that
    /// delivers soonest.
    pub(super) fn write(
        &mut self,
        now: Time,
        end: usize,
        (carried, soonest): (&mut Cursor, bool),
        packet: &mut Packet,
        buf: &mut Vec<u8>,
    ) {
        self.write_copies(now, end, carried, packet, buf);
        while end.saturating_sub(buf.len()) >= SMALLEST_CHUNK {
            let Some(chunk) = self.streams.next_chunk(end - buf.len(), soonest) else {
                break;
            };
            if chunk.retransmission {
                self.resent += u64::from(chunk.range.len);
            } else if let Some(copies) = &mut self.copies {
                copies.push(chunk.range);
                *carried = copies.end();
            }
            self.put(now, chunk, packet, buf);
        }
        let room = end.saturating_sub(buf.len());
        if self.filler > 0 && room >= SMALLEST_CHUNK {
            Frame::Filler.encode(buf);
            buf.put_bytes(0, room - 1);
            packet.ack_eliciting = true;
            self.filler = self.filler.saturating_sub(room as u64);
            self.spend(now, room);
        }
    }

    fn put(&mut self, now: Time, chunk: Chunk, packet: &mut Packet, buf: &mut Vec<u8>) {
        let range = chunk.range;
        Frame::Stream {
            stream: range.stream,
            offset: range.offset,
            fin: range.fin,
            data: &chunk.data,
        }
        .encode(buf);
        packet.ack_eliciting = true;
        packet.stream_bytes += u64::from(range.len);
        packet.payload.push(range);
        self.spend(now, range.len as usize);
    }

    fn spend(&mut self, now: Time, bytes: usize) {
        if let Some(limiter) = &mut self.limiter {
            limiter.spend(now, bytes);
        }
    }

    /// Packets arrived. What they carried is mostly of one piece, and settled as such.
    pub(super) fn on_acked<'a>(&mut self, payloads: impl Iterator<Item = &'a Payload>) {
        let before = self.streams.unacked_bytes();
        let mut run: Option<StreamRange> = None;
        for payload in payloads {
            for range in payload.ranges() {
                if !run.as_mut().is_some_and(|run| run.extend(range))
                    && let Some(run) = run.replace(*range)
                {
                    self.streams.on_acked(&run);
                }
            }
            for control in &payload.control {
                self.streams.on_control_acked(control);
            }
        }
        if let Some(run) = run {
            self.streams.on_acked(&run);
        }
        self.acked += before.saturating_sub(self.streams.unacked_bytes());
    }

    /// A packet is lost, or is to be sent on another path as well: what it carried is queued again,
    /// as far as it is still needed. The control frames that aren't the streams' come back.
    pub(super) fn on_lost(&mut self, payload: Payload) -> impl Iterator<Item = Frame<'static>> {
        for range in payload.ranges() {
            self.streams.on_lost(range);
        }
        let (streams, others): (Vec<_>, Vec<_>) =
            payload.control.into_iter().partition(Streams::is_control);
        for frame in &streams {
            self.streams.on_control_lost(frame);
        }
        others.into_iter()
    }

    /// The same for packets that may yet arrive: what is sent again counts as such at once.
    pub(super) fn send_again(&mut self, payload: Payload) -> impl Iterator<Item = Frame<'static>> {
        self.resent += payload.stream_bytes();
        self.on_lost(payload)
    }

    /// What a packet on a slow path carries goes out on another one too; whether there is something
    /// to send by that.
    pub(super) fn overtake(&mut self, payload: &Payload) -> bool {
        for range in payload.ranges() {
            self.streams.on_lost(range);
        }
        self.streams.has_data()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use manyway_units::Rate;
    use manyway_wire::StreamId;

    use super::*;
    use crate::streams::{StreamEvent, StreamsConfig};

    const T0: Time = Time::ZERO;

    fn data(limit: Option<Rate>) -> Data {
        let mut streams = Streams::new(StreamsConfig {
            initiator: true,
            initial_receive_window: 1 << 20,
            max_receive_window: 1 << 20,
            window_shares: 1,
            send_buffer: 1 << 20,
            max_streams: 8,
        });
        streams.set_peer_limits(1 << 20, 1 << 20, 8);
        let config = Config {
            limit,
            ..Config::default()
        };
        Data::new(T0, &config, streams, Datagrams::new(Some(1300), 1300))
    }

    fn write(data: &mut Data, bytes: usize) -> Packet {
        let mut packet = Packet::default();
        let carried = &mut Cursor::default();
        data.write(T0, bytes, (carried, true), &mut packet, &mut Vec::new());
        packet
    }

    fn with_stream(data: &mut Data, bytes: usize) {
        let stream = data.streams.open().expect("allowed");
        let mut bytes = vec![7; bytes].into();
        data.streams.write(stream, &mut bytes).expect("room");
    }

    #[test]
    fn stream_data_goes_before_filler() {
        let mut data = data(None);
        with_stream(&mut data, 500);
        data.fill(10_000);
        assert!(data.has_any() && !data.is_filler());
        assert_eq!(data.backlog().unsent, 10_500);
        let packet = write(&mut data, 1200);
        assert_eq!(packet.stream_bytes, 500);
        assert!(data.is_filler() && data.filler() < 10_000);
        let packet = write(&mut data, 1200);
        assert!(packet.ack_eliciting && packet.stream_bytes == 0);
        data.fill(0);
        assert!(!data.has_any());
        assert!(!write(&mut data, 1200).ack_eliciting);
    }

    #[test]
    fn what_is_lost_is_to_be_sent_like_what_never_was() {
        let mut data = data(None);
        with_stream(&mut data, 2000);
        let first = write(&mut data, 1200);
        let left = 2000 - first.stream_bytes;
        assert_eq!(data.backlog().unsent, left);
        assert_eq!(data.on_lost(first.payload).count(), 0);
        assert_eq!(data.backlog().unsent, 2000);
        write(&mut data, 1200);
        assert_eq!(data.backlog().unsent, left, "sent again");
    }

    #[test]
    fn every_byte_is_acknowledged_once_and_sent_again_when_lost() {
        let mut data = data(None);
        with_stream(&mut data, 2000);
        let first = write(&mut data, 1200).payload;
        let second = write(&mut data, 1200).payload;
        let bytes = first.stream_bytes();
        data.on_acked([&first].into_iter());
        data.on_acked([&first].into_iter());
        assert_eq!(data.acked(), bytes);
        assert_eq!(data.on_lost(second.clone()).count(), 0);
        assert!(data.has_any() && data.resent() == 0);
        write(&mut data, 1200);
        assert_eq!(data.resent(), 2000 - bytes, "counted when it leaves");
        data.on_acked([&second].into_iter());
        assert_eq!(data.acked(), 2000);
    }

    #[test]
    fn what_arrives_together_is_acknowledged_whether_or_not_it_is_of_one_piece() {
        let mut data = data(None);
        for bytes in [1500, 700, 10] {
            with_stream(&mut data, bytes);
        }
        let ids: Vec<_> = (0..3).map(|n| StreamId(4 * n)).collect();
        for id in &ids {
            data.streams.finish(*id).expect("open");
        }
        let mut payloads = Vec::new();
        while data.has_any() {
            payloads.push(write(&mut data, 400).payload);
        }
        // One of them comes late, one twice.
        let late = payloads.remove(1);
        payloads.push(payloads[0].clone());
        data.on_acked(payloads.iter());
        assert_eq!(data.acked(), 2210 - late.stream_bytes());
        assert_eq!(data.streams.unacked_bytes(), late.stream_bytes());
        data.on_acked([&late].into_iter());
        assert_eq!(data.acked(), 2210);
        let finished = |data: &mut Data| data.streams.poll_event();
        let events: Vec<_> = std::iter::from_fn(|| finished(&mut data)).collect();
        for id in ids {
            assert!(events.contains(&StreamEvent::Finished(id)), "{events:?}");
        }
    }

    #[test]
    fn frames_that_are_not_the_streams_come_back() {
        let mut data = data(None);
        let payload = Payload {
            control: vec![Frame::MaxData { max: 1 }, Frame::Ping],
            ..Payload::default()
        };
        assert_eq!(data.on_lost(payload).collect::<Vec<_>>(), [Frame::Ping]);
    }

    #[test]
    fn the_limit_counts_datagrams() {
        let mut data = data(Some(Rate::from_bits_per_sec(8e5)));
        let mut sent = 0;
        while data.may_leave(T0) {
            data.datagrams.send(T0, vec![7; 1100].into()).expect("room");
            data.write_datagrams(T0, 1200, &mut Packet::default(), &mut Vec::new());
            sent += 1;
        }
        assert!((1..5).contains(&sent), "{sent}");
        assert_eq!(data.timeout(), data.limited_until());
    }

    #[test]
    fn the_limit_holds_data_back_and_says_until_when() {
        let mut data = data(Some(Rate::from_bits_per_sec(8e5)));
        data.fill(1 << 20);
        let mut sent = 0;
        while data.may_leave(T0) {
            write(&mut data, 1200);
            sent += 1;
        }
        assert!((1..5).contains(&sent), "{sent}");
        assert!(!data.may_go_on(T0, &Cursor::default()));
        let until = data.limited_until().expect("it is held back");
        let before = Time::from_nanos(until.as_nanos() - 1);
        data.on_timeout(before);
        assert_eq!(data.limited_until(), Some(until));
        data.on_timeout(until);
        assert_eq!(data.limited_until(), None);
        assert!(data.may_leave(until) && until.since(T0) < Duration::from_millis(50));
    }
}
