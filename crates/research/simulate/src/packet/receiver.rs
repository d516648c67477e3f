//! The receiver of one subflow where acknowledgements are held back or may be lost.

use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_scenario::AckPolicy;
use manyway_units::Time;

/// Ranges in an acknowledgement; older ones are forgotten, as with a short SACK option. What has
/// just arrived is always in one.
pub(super) const MAX_RANGES: usize = 4;

/// What an acknowledgement says.
#[derive(Debug, Clone, Default)]
pub(super) struct AckRecord {
    /// Descending.
    pub(super) ranges: Vec<RangeInclusive<u64>>,
    /// How long the largest was held back.
    pub(super) delay: Duration,
    /// When the largest arrived, if it says so.
    pub(super) received: Option<Time>,
    pub(super) marks: u64,
}

impl AckRecord {
    /// The largest number that it acknowledges.
    pub(super) fn largest(&self) -> Option<u64> {
        self.ranges.first().map(|range| *range.end())
    }
}

/// What a receiver does with a packet.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Acknowledge now.
    Acknowledge,
    /// Wait for more, at most until then.
    Hold(Time),
    /// Wait as already agreed.
    Wait,
}

/// Counts packets and decides when to acknowledge.
#[derive(Debug, Clone)]
pub(super) struct Receiver {
    policy: AckPolicy,
    /// Descending; the first one ends with the largest number received.
    ranges: Vec<RangeInclusive<u64>>,
    /// When the largest arrived.
    largest_at: Time,
    marks: u64,
    /// Packets not acknowledged yet, and when they must be.
    held: u32,
    deadline: Option<Time>,
}

impl Receiver {
    pub(super) fn new(policy: AckPolicy) -> Self {
        Self {
            policy,
            ranges: Vec::with_capacity(MAX_RANGES + 1),
            largest_at: Time::ZERO,
            marks: 0,
            held: 0,
            deadline: None,
        }
    }

    pub(super) fn on_packet(&mut self, now: Time, number: u64, marked: bool) -> Reaction {
        let in_order = self.insert(number);
        if in_order {
            self.largest_at = now;
        }
        self.marks += u64::from(marked);
        self.held += 1;
        if !in_order
            || marked
            || self.ranges.len() > 1 && self.is_fresh_gap(number)
            || self.held >= self.policy.every
        {
            return Reaction::Acknowledge;
        }
        match self.deadline {
            Some(_) => Reaction::Wait,
            None => {
                let at = now + self.policy.max_delay;
                self.deadline = Some(at);
                Reaction::Hold(at)
            }
        }
    }

    /// Whether the time to acknowledge has come, whatever else arrives.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.deadline.is_some_and(|at| at <= now)
    }

    /// Until when packets are held back, if some are.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Fills `record` with the acknowledgement of everything received.
    pub(super) fn acknowledge(&mut self, now: Time, record: &mut AckRecord) {
        record.ranges.clear();
        record.ranges.extend_from_slice(&self.ranges);
        record.delay = now.since(self.largest_at);
        record.received = self.policy.times.then_some(self.largest_at);
        record.marks = self.marks;
        self.held = 0;
        self.deadline = None;
    }

    /// The packet begins a new range: one before it is missing, and the sender should hear of it at
    /// once (RFC 5681 §4.2).
    fn is_fresh_gap(&self, number: u64) -> bool {
        self.ranges
            .first()
            .is_some_and(|range| *range.start() == number)
    }

    /// True if `number` is the largest so far.
    fn insert(&mut self, number: u64) -> bool {
        let Some(first) = self.ranges.first_mut() else {
            self.ranges.push(number..=number);
            return true;
        };
        if number == *first.end() + 1 {
            *first = *first.start()..=number;
            return true;
        }
        if number > *first.end() {
            self.ranges.insert(0, number..=number);
            self.ranges.truncate(MAX_RANGES);
            return true;
        }
        self.insert_overtaken(number);
        false
    }

    /// Others have overtaken this packet: it joins the ranges next to it, or is one of its own.
    #[cold]
    fn insert_overtaken(&mut self, number: u64) {
        let ranges = &mut self.ranges;
        let at = ranges.partition_point(|range| *range.start() > number);
        if ranges.get(at).is_some_and(|range| range.contains(&number)) {
            return;
        }
        let above = at > 0 && *ranges[at - 1].start() == number + 1;
        let below = ranges
            .get(at)
            .is_some_and(|range| range.end() + 1 == number);
        match (above, below) {
            (true, true) => {
                ranges[at - 1] = *ranges[at].start()..=*ranges[at - 1].end();
                ranges.remove(at);
            }
            (true, false) => ranges[at - 1] = number..=*ranges[at - 1].end(),
            (false, true) => ranges[at] = *ranges[at].start()..=number,
            // The sender has heard of the oldest one, but not of this packet (RFC 2018 §4).
            (false, false) => {
                ranges.truncate(MAX_RANGES - 1);
                ranges.insert(at.min(ranges.len()), number..=number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn receiver(every: u32) -> Receiver {
        Receiver::new(AckPolicy {
            every,
            max_delay: 100 * MS,
            bytes: 40,
            times: true,
        })
    }

    #[test]
    fn every_second_packet_or_after_a_while() {
        let mut receiver = receiver(2);
        let at = Time::from_millis;
        let mut record = AckRecord::default();
        assert_eq!(
            receiver.on_packet(at(10), 0, false),
            Reaction::Hold(at(110))
        );
        assert!(!receiver.is_due(at(109)));
        assert_eq!(receiver.on_packet(at(20), 1, false), Reaction::Acknowledge);
        receiver.acknowledge(at(20), &mut record);
        assert_eq!(
            (record.ranges.as_slice(), record.delay),
            ([0..=1].as_slice(), Duration::ZERO)
        );
        assert!(!receiver.is_due(at(1000)));

        assert_eq!(
            receiver.on_packet(at(30), 2, false),
            Reaction::Hold(at(130))
        );
        assert!(receiver.is_due(at(130)));
        receiver.acknowledge(at(130), &mut record);
        assert_eq!(
            (record.ranges.as_slice(), record.delay, record.received),
            ([0..=2].as_slice(), 100 * MS, Some(at(30)))
        );
    }

    #[test]
    fn a_gap_and_a_mark_are_reported_at_once() {
        let mut receiver = receiver(10);
        let at = Time::from_millis;
        let mut record = AckRecord::default();
        receiver.on_packet(at(0), 0, false);
        assert_eq!(receiver.on_packet(at(1), 2, false), Reaction::Acknowledge);
        receiver.acknowledge(at(1), &mut record);
        assert_eq!(record.ranges, [2..=2, 0..=0]);
        assert_eq!(receiver.on_packet(at(2), 3, false), Reaction::Hold(at(102)));
        assert_eq!(receiver.on_packet(at(3), 4, true), Reaction::Acknowledge);
        receiver.acknowledge(at(3), &mut record);
        assert_eq!(
            (record.ranges.as_slice(), record.marks),
            ([2..=4, 0..=0].as_slice(), 1)
        );
    }

    #[test]
    fn overtaken_packets_fill_gaps_and_are_acknowledged_at_once() {
        let mut receiver = receiver(10);
        let mut record = AckRecord::default();
        for number in [0, 2, 4, 8] {
            receiver.on_packet(Time::ZERO, number, false);
        }
        for (number, ranges) in [
            (5, vec![8..=8, 4..=5, 2..=2, 0..=0]),
            (3, vec![8..=8, 2..=5, 0..=0]),
            (7, vec![7..=8, 2..=5, 0..=0]),
            (7, vec![7..=8, 2..=5, 0..=0]),
            (1, vec![7..=8, 0..=5]),
            (6, vec![0..=8]),
        ] {
            let reaction = receiver.on_packet(Time::ZERO, number, false);
            assert_eq!(reaction, Reaction::Acknowledge);
            receiver.acknowledge(Time::ZERO, &mut record);
            assert_eq!(record.ranges, ranges);
        }
    }

    #[test]
    fn old_ranges_are_forgotten() {
        let mut receiver = receiver(1);
        for number in (0..20).step_by(2) {
            receiver.on_packet(Time::ZERO, number, false);
        }
        let mut record = AckRecord::default();
        receiver.acknowledge(Time::ZERO, &mut record);
        assert_eq!(record.ranges, [18..=18, 16..=16, 14..=14, 12..=12]);
    }

    /// However many gaps there are: otherwise, the sender takes it for lost.
    #[test]
    fn what_comes_late_is_acknowledged() {
        let mut receiver = receiver(2);
        for number in (0..40).step_by(2) {
            receiver.on_packet(Time::ZERO, number, false);
        }
        let mut record = AckRecord::default();
        for number in [1, 11, 33, 3, 5] {
            let reaction = receiver.on_packet(Time::ZERO, number, false);
            assert_eq!(reaction, Reaction::Acknowledge);
            receiver.acknowledge(Time::ZERO, &mut record);
            let ranges = &record.ranges;
            assert!(
                ranges.iter().any(|range| range.contains(&number)),
                "{ranges:?}"
            );
            assert!(ranges.len() <= MAX_RANGES && ranges.is_sorted_by(|a, b| a.start() > b.end()));
        }
    }
}
