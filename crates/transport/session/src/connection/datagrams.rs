//! Datagrams of the application: each is sent once, and arrives or not (RFC 9221).
//!
//! It owns those that wait to leave and those that wait to be taken, and bounds both in bytes, in
//! number and, before they leave, in age. It doesn't know on which path anything goes.

use std::collections::VecDeque;

use bytes::Bytes;
use manyway_units::Time;
use manyway_wire::{Frame, datagram_frame_len};

use crate::budget::{DATAGRAM_MEMORY, DATAGRAM_WAIT, MAX_DATAGRAM_BYTES, MAX_DATAGRAMS};
use crate::event::{DatagramError, DatagramEvent};
use crate::stats::DatagramStats;

use super::packet::Packet;
use super::violation::Violation;

/// The datagrams of a connection.
#[derive(Debug)]
pub(super) struct Datagrams {
    /// Most bytes of one that the peer may send; `None`: it may send none.
    accepts: Option<usize>,
    /// Most bytes of one that the application may send.
    most: Option<usize>,
    outgoing: Queue,
    incoming: Queue,
    /// The application waits for room, and for something to take.
    awaits_room: bool,
    awaits_any: bool,
    has_room: bool,
    has_any: bool,
    stats: DatagramStats,
}

/// Datagrams with the times at which they came.
#[derive(Debug, Default)]
struct Queue {
    datagrams: VecDeque<(Time, Bytes)>,
    bytes: usize,
}

impl Queue {
    fn has_room(&self, bytes: usize) -> bool {
        self.datagrams.len() < MAX_DATAGRAMS && self.bytes + bytes <= MAX_DATAGRAM_BYTES
    }

    fn push(&mut self, now: Time, datagram: Bytes) {
        self.bytes += datagram.len();
        self.datagrams.push_back((now, datagram));
    }

    fn pop(&mut self) -> Option<Bytes> {
        let (_, datagram) = self.datagrams.pop_front()?;
        self.bytes -= datagram.len();
        Some(datagram)
    }

    fn memory(&self) -> usize {
        self.bytes + self.datagrams.len() * DATAGRAM_MEMORY
    }
}

impl Datagrams {
    /// The application sends and takes datagrams of at most `ours` bytes, the peer takes those of
    /// at most `peer`.
    pub(super) fn new(ours: Option<usize>, peer: usize) -> Self {
        Self {
            accepts: ours,
            most: ours.map(|ours| ours.min(peer)).filter(|_| peer > 0),
            outgoing: Queue::default(),
            incoming: Queue::default(),
            awaits_room: false,
            awaits_any: true,
            has_room: false,
            has_any: false,
            stats: DatagramStats::default(),
        }
    }

    /// Most bytes of a datagram that the application may send, if it may send any.
    pub(super) fn most(&self) -> Option<usize> {
        self.most
    }

    pub(super) fn stats(&self) -> DatagramStats {
        self.stats
    }

    /// Memory that they take, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.outgoing.memory() + self.incoming.memory()
    }

    /// Lets go of all.
    pub(super) fn discard(&mut self) {
        (self.outgoing, self.incoming) = Default::default();
    }

    // Outgoing.

    /// Queues a datagram.
    ///
    /// # Errors
    /// It can't be sent; [`DatagramError::Blocked`] says that it can be, later.
    pub(super) fn send(&mut self, now: Time, datagram: Bytes) -> Result<(), DatagramError> {
        let max = self.most.ok_or(DatagramError::Unsupported)?;
        if datagram.len() > max {
            return Err(DatagramError::TooLarge { max });
        }
        self.expire(now);
        if !self.outgoing.has_room(datagram.len()) {
            self.awaits_room = true;
            return Err(DatagramError::Blocked);
        }
        self.outgoing.push(now, datagram);
        Ok(())
    }

    /// The length of the one that leaves next.
    pub(super) fn next_len(&self) -> Option<usize> {
        self.outgoing
            .datagrams
            .front()
            .map(|(_, front)| front.len())
    }

    /// Whether none waits to leave.
    pub(super) fn is_empty(&self) -> bool {
        self.outgoing.datagrams.is_empty()
    }

    /// Writes those that end before `end` into a packet; how many bytes that are.
    pub(super) fn write(
        &mut self,
        now: Time,
        end: usize,
        packet: &mut Packet,
        buf: &mut Vec<u8>,
    ) -> usize {
        self.expire(now);
        let before = buf.len();
        while let Some((_, front)) = self.outgoing.datagrams.front()
            && buf.len() + datagram_frame_len(front.len()) <= end
            && let Some(data) = self.outgoing.pop()
        {
            Frame::Datagram { data: &data }.encode(buf);
            packet.ack_eliciting = true;
            packet.datagrams = true;
            self.stats.sent += 1;
            self.stats.bytes_sent += data.len() as u64;
        }
        self.note_room();
        buf.len() - before
    }

    /// Drops those that have waited for too long.
    pub(super) fn expire(&mut self, now: Time) {
        while self.timeout().is_some_and(|at| at <= now) {
            self.outgoing.pop();
            self.stats.expired += 1;
        }
        self.note_room();
    }

    /// When the oldest that waits will have waited for too long.
    pub(super) fn timeout(&self) -> Option<Time> {
        let &(since, _) = self.outgoing.datagrams.front()?;
        Some(since + DATAGRAM_WAIT)
    }

    /// Who waits for room is told when there is room for whatever it has.
    fn note_room(&mut self) {
        if self.awaits_room && self.outgoing.has_room(self.most.unwrap_or_default()) {
            (self.awaits_room, self.has_room) = (false, true);
        }
    }

    // Incoming.

    /// A datagram came.
    ///
    /// # Errors
    /// The peer wasn't told that it may send it.
    pub(super) fn on_datagram(&mut self, now: Time, data: &[u8]) -> Result<(), Violation> {
        let Some(accepts) = self.accepts else {
            let text = "it sent a DATAGRAM and was told that none are accepted";
            return Err(Violation(text.to_owned()));
        };
        if data.len() > accepts {
            let len = data.len();
            return Err(Violation(format!(
                "it sent a DATAGRAM of {len} bytes and was told that {accepts} are accepted"
            )));
        }
        while !self.incoming.has_room(data.len()) {
            self.incoming.pop();
            self.stats.dropped += 1;
        }
        self.incoming.push(now, Bytes::copy_from_slice(data));
        if std::mem::take(&mut self.awaits_any) {
            self.has_any = true;
        }
        Ok(())
    }

    /// The oldest that came and wasn't taken.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        let Some(datagram) = self.incoming.pop() else {
            self.awaits_any = true;
            return None;
        };
        self.stats.received += 1;
        self.stats.bytes_received += datagram.len() as u64;
        Some(datagram)
    }

    /// What the application waits for.
    pub(super) fn poll_event(&mut self) -> Option<DatagramEvent> {
        if std::mem::take(&mut self.has_any) {
            return Some(DatagramEvent::Arrived);
        }
        std::mem::take(&mut self.has_room).then_some(DatagramEvent::Room)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use manyway_wire::Frames;
    use proptest::prelude::*;

    use super::*;

    const T0: Time = Time::ZERO;

    fn datagrams() -> Datagrams {
        Datagrams::new(Some(1300), 1300)
    }

    fn of(len: usize) -> Bytes {
        vec![7; len].into()
    }

    fn write(datagrams: &mut Datagrams, now: Time, room: usize) -> usize {
        let mut buf = Vec::new();
        datagrams.write(now, room, &mut Packet::default(), &mut buf);
        assert!(buf.len() <= room);
        Frames::new(&buf).count()
    }

    #[test]
    fn both_sides_must_want_them() {
        assert_eq!(Datagrams::new(Some(1300), 1200).most(), Some(1200));
        assert_eq!(Datagrams::new(Some(1300), 1400).most(), Some(1300));
        let mut deaf = Datagrams::new(Some(1300), 0);
        assert_eq!(deaf.most(), None);
        assert_eq!(deaf.send(T0, of(1)), Err(DatagramError::Unsupported));
        deaf.on_datagram(T0, &[1]).expect("it takes some itself");
        let mut dumb = Datagrams::new(None, 1300);
        assert_eq!(dumb.send(T0, of(1)), Err(DatagramError::Unsupported));
        let Violation(text) = dumb
            .on_datagram(T0, &[])
            .expect_err("not even an empty one");
        assert!(text.contains("none are accepted"), "{text}");
    }

    #[test]
    fn one_that_is_too_large_is_refused_on_either_side() {
        let mut datagrams = datagrams();
        let refused = datagrams.send(T0, of(1301));
        assert_eq!(refused, Err(DatagramError::TooLarge { max: 1300 }));
        assert_eq!(datagrams.send(T0, of(1300)), Ok(()));
        datagrams.on_datagram(T0, &[0; 1300]).expect("allowed");
        let Violation(text) = datagrams
            .on_datagram(T0, &[0; 1301])
            .expect_err("too large");
        assert!(
            text.contains("1301 bytes") && text.contains("1300"),
            "{text}"
        );
    }

    #[test]
    fn a_packet_takes_those_that_fit_in_their_order() {
        let mut datagrams = datagrams();
        for len in [600, 500, 700] {
            datagrams.send(T0, of(len)).expect("room");
        }
        assert_eq!(write(&mut datagrams, T0, 590), 0);
        assert_eq!(write(&mut datagrams, T0, 1200), 2);
        assert_eq!(write(&mut datagrams, T0, 1200), 1);
        assert!(datagrams.is_empty());
        let stats = datagrams.stats();
        assert_eq!((stats.sent, stats.bytes_sent), (3, 1800));
    }

    #[test]
    fn who_waits_for_room_hears_of_it_once() {
        let mut datagrams = datagrams();
        while datagrams.send(T0, of(1300)).is_ok() {}
        assert_eq!(datagrams.poll_event(), None, "there is none");
        assert_eq!(write(&mut datagrams, T0, 1400), 1);
        assert_eq!(datagrams.poll_event(), Some(DatagramEvent::Room));
        assert_eq!(write(&mut datagrams, T0, 1400), 1);
        assert_eq!(datagrams.poll_event(), None);
    }

    #[test]
    fn what_has_waited_for_too_long_is_not_sent() {
        let mut datagrams = datagrams();
        while datagrams.send(T0, of(1300)).is_ok() {}
        let waiting = datagrams.outgoing.datagrams.len() as u64;
        let late = T0 + DATAGRAM_WAIT;
        assert_eq!(datagrams.timeout(), Some(late));
        datagrams.expire(Time::from_nanos(late.as_nanos() - 1));
        assert_eq!(datagrams.stats().expired, 0);
        datagrams.expire(late);
        assert_eq!(datagrams.stats().expired, waiting);
        assert_eq!(datagrams.poll_event(), Some(DatagramEvent::Room));
        assert_eq!((datagrams.timeout(), datagrams.memory()), (None, 0));
        datagrams.send(late, of(5)).expect("room");
        assert_eq!(
            write(&mut datagrams, late + Duration::from_millis(1), 99),
            1
        );
    }

    #[test]
    fn what_nobody_takes_is_bounded_and_the_newest_stays() {
        for len in [0usize, 1, 1300] {
            let mut datagrams = datagrams();
            for n in 0..5000u64 {
                let mut data = vec![0; len];
                data.iter_mut().for_each(|byte| *byte = n as u8);
                datagrams.on_datagram(T0, &data).expect("allowed");
                let most = MAX_DATAGRAM_BYTES + MAX_DATAGRAMS * DATAGRAM_MEMORY;
                assert!(datagrams.memory() <= most, "{n} of {len}");
            }
            assert_eq!(datagrams.poll_event(), Some(DatagramEvent::Arrived));
            assert_eq!(datagrams.poll_event(), None, "it hasn't looked yet");
            let taken: Vec<_> = std::iter::from_fn(|| datagrams.take()).collect();
            let stats = datagrams.stats();
            assert_eq!(stats.received, taken.len() as u64);
            assert_eq!(stats.received + stats.dropped, 5000);
            let newest = taken.last().expect("some");
            assert!(newest.iter().all(|byte| *byte == 4999u64 as u8));
            datagrams.on_datagram(T0, &[1]).expect("allowed");
            assert_eq!(datagrams.poll_event(), Some(DatagramEvent::Arrived));
        }
    }

    proptest! {
        /// Each that was queued is sent once, in order, or dropped for its age; never too late.
        #[test]
        fn each_leaves_once_or_is_dropped(
            steps in prop::collection::vec((0u64..20, 0usize..1301, 0usize..1500), 1..300),
        ) {
            let mut datagrams = datagrams();
            let (mut now, mut queued, mut seen) = (T0, Vec::new(), Vec::new());
            for (n, (ms, len, room)) in steps.into_iter().enumerate() {
                now += Duration::from_millis(ms);
                let mut data = (n as u64).to_be_bytes().to_vec();
                data.resize(data.len().max(len), 0);
                if datagrams.send(now, data.into()).is_ok() {
                    queued.push((n as u64, now));
                }
                let mut buf = Vec::new();
                datagrams.write(now, room, &mut Packet::default(), &mut buf);
                prop_assert!(buf.len() <= room);
                for frame in Frames::new(&buf) {
                    let Ok(Frame::Datagram { data }) = frame else { panic!("{frame:?}") };
                    let id = u64::from_be_bytes(data[..8].try_into().unwrap());
                    let (_, since) = queued.iter().find(|(known, _)| *known == id).unwrap();
                    prop_assert!(now.since(*since) < DATAGRAM_WAIT);
                    prop_assert!(seen.last().is_none_or(|last| *last < id));
                    seen.push(id);
                }
                let left = datagrams.outgoing.datagrams.len() as u64;
                let stats = datagrams.stats();
                prop_assert_eq!(stats.sent, seen.len() as u64);
                prop_assert_eq!(stats.sent + stats.expired + left, queued.len() as u64);
                let bytes: usize = datagrams.outgoing.datagrams.iter().map(|(_, d)| d.len()).sum();
                prop_assert_eq!(datagrams.outgoing.bytes, bytes);
            }
        }
    }
}
