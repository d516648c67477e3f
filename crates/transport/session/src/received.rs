use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_units::Time;

/// Packets the replay window looks back over: twice what a 32 MiB send buffer can have in flight in
/// 1200-byte packets.
const REPLAY_WINDOW: u64 = 1 << 16;
/// Ranges an ACK reports; the oldest are forgotten, as they have been acknowledged often.
const MAX_RANGES: usize = 32;

/// What arrived on one path: the replay window, the ranges to acknowledge and when to do so.
#[derive(Debug)]
pub(crate) struct Received {
    replay: ReplayWindow,
    /// Newest first, disjoint, not adjacent.
    ranges: VecDeque<RangeInclusive<u64>>,
    largest_at: Time,
    unacked: u32,
    deadline: Option<Time>,
    due: bool,
}

/// How soon packets are acknowledged.
#[derive(Copy, Clone, Debug)]
pub(crate) struct AckPolicy {
    pub(crate) every: u32,
    pub(crate) delay: Duration,
}

impl Received {
    pub(crate) fn new() -> Self {
        Self {
            replay: ReplayWindow::default(),
            ranges: VecDeque::new(),
            largest_at: Time::ZERO,
            unacked: 0,
            deadline: None,
            due: false,
        }
    }

    pub(crate) fn largest(&self) -> Option<u64> {
        self.ranges.front().map(|r| *r.end())
    }

    /// Whether `number` may still be new; asked before the packet is opened.
    pub(crate) fn is_fresh(&self, number: u64) -> bool {
        self.replay.is_fresh(number)
    }

    /// Notes a packet that opened.
    pub(crate) fn record(
        &mut self,
        now: Time,
        number: u64,
        ack_eliciting: bool,
        policy: AckPolicy,
    ) {
        self.replay.insert(number);
        let previous = self.largest();
        let in_order = previous.is_none_or(|p| number == p + 1);
        if previous.is_none_or(|p| number > p) {
            self.largest_at = now;
        }
        self.insert(number);
        if !ack_eliciting {
            return;
        }
        self.unacked += 1;
        // A gap is told at once: the sender's loss detection waits for it.
        if self.unacked >= policy.every || !in_order || policy.delay.is_zero() {
            self.due = true;
        } else if self.deadline.is_none() {
            self.deadline = Some(now + policy.delay);
        }
    }

    /// Something asked for an answer right away.
    pub(crate) fn ack_now(&mut self) {
        self.due |= self.unacked > 0;
    }

    pub(crate) fn on_timer(&mut self, now: Time) {
        if self.deadline.is_some_and(|d| d <= now) {
            self.deadline = None;
            self.due |= self.unacked > 0;
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        if self.due { None } else { self.deadline }
    }

    /// An ACK has to leave even if there's nothing else to send.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// There are packets which the next datagram should acknowledge in passing.
    pub(crate) fn has_unacked(&self) -> bool {
        self.unacked > 0
    }

    /// An ACK of everything below was written into a datagram.
    pub(crate) fn on_ack_sent(&mut self) {
        self.unacked = 0;
        self.deadline = None;
        self.due = false;
    }

    /// Ranges to acknowledge, newest first.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u64>> + Clone + '_ {
        self.ranges.iter().cloned()
    }

    /// When the largest packet arrived.
    pub(crate) fn largest_at(&self) -> Time {
        self.largest_at
    }

    fn insert(&mut self, number: u64) {
        // Nearly always the packet after the newest.
        let mut at = 0;
        while at < self.ranges.len() && *self.ranges[at].start() > number.saturating_add(1) {
            at += 1;
        }
        let Some(range) = self.ranges.get(at).cloned() else {
            // What has just come isn't acknowledged yet: it would be taken for lost.
            self.ranges.truncate(MAX_RANGES - 1);
            self.ranges.push_back(number..=number);
            return;
        };
        if range.contains(&number) {
            return;
        }
        if number == range.end() + 1 {
            self.ranges[at] = *range.start()..=number;
        } else if number + 1 == *range.start() {
            self.ranges[at] = number..=*range.end();
            if let Some(older) = self.ranges.get(at + 1).cloned()
                && older.end() + 1 == number
            {
                self.ranges[at] = *older.start()..=*range.end();
                self.ranges.remove(at + 1);
            }
            return;
        } else {
            self.ranges.insert(at, number..=number);
            self.ranges.truncate(MAX_RANGES);
            return;
        }
        if at > 0 && *self.ranges[at - 1].start() == number + 1 {
            self.ranges[at - 1] = *range.start()..=*self.ranges[at - 1].end();
            self.ranges.remove(at);
        }
    }
}

/// A sliding bitmap: a number is fresh when it is newer than the window or in it and unseen.
#[derive(Debug, Default)]
struct ReplayWindow {
    /// Ring of bits, allocated as the numbers grow so that an idle path costs nothing.
    bits: Vec<u64>,
    /// One more than the largest number seen.
    end: u64,
}

impl ReplayWindow {
    const WORDS: usize = (REPLAY_WINDOW / 64) as usize;

    fn is_fresh(&self, number: u64) -> bool {
        if number >= self.end {
            return true;
        }
        // One word less than the ring: the newest word may be partly in use.
        if self.end - number > REPLAY_WINDOW - 64 {
            return false;
        }
        let (word, bit) = Self::place(number);
        self.bits.get(word).is_none_or(|w| w & bit == 0)
    }

    fn insert(&mut self, number: u64) {
        if number >= self.end {
            self.advance(number);
        }
        let (word, bit) = Self::place(number);
        self.bits[word] |= bit;
    }

    /// Clears the words that `number` brings into the window.
    fn advance(&mut self, number: u64) {
        let (last, new) = (self.end.div_ceil(64), number / 64 + 1);
        let words = (new as usize).min(Self::WORDS);
        if self.bits.len() < words {
            self.bits.resize(words, 0);
        }
        let first = last.max(new.saturating_sub(Self::WORDS as u64));
        for word in first..new {
            self.bits[word as usize % Self::WORDS] = 0;
        }
        self.end = number + 1;
    }

    fn place(number: u64) -> (usize, u64) {
        ((number / 64) as usize % Self::WORDS, 1 << (number % 64))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const POLICY: AckPolicy = AckPolicy {
        every: 10,
        delay: Duration::from_millis(10),
    };

    #[test]
    fn ten_packets_or_ten_milliseconds() {
        let mut received = Received::new();
        for n in 0..9 {
            received.record(Time::ZERO, n, true, POLICY);
            assert!(!received.is_due());
        }
        assert_eq!(received.deadline(), Some(Time::from_millis(10)));
        received.record(Time::ZERO, 9, true, POLICY);
        assert!(received.is_due());
        received.on_ack_sent();
        assert!(!received.is_due() && received.deadline().is_none());
    }

    #[test]
    fn a_gap_is_told_at_once() {
        let mut received = Received::new();
        received.record(Time::ZERO, 0, true, POLICY);
        received.record(Time::ZERO, 2, true, POLICY);
        assert!(received.is_due());
        assert_eq!(received.ranges().collect::<Vec<_>>(), [2..=2, 0..=0]);
    }

    #[test]
    fn packets_that_ask_for_nothing_get_nothing() {
        let mut received = Received::new();
        for n in 0..100 {
            received.record(Time::ZERO, 2 * n, false, POLICY);
        }
        assert!(!received.is_due() && received.deadline().is_none());
    }

    #[test]
    fn ranges_are_bounded() {
        let mut received = Received::new();
        for n in 0..1000 {
            received.record(Time::ZERO, 2 * n, true, POLICY);
            received.record(Time::ZERO, 1_000_000 - 2 * n, true, POLICY);
            assert!(received.ranges.len() <= MAX_RANGES);
        }
        assert_eq!(received.largest(), Some(1_000_000), "the newest are kept");
    }

    /// However many gaps there are: otherwise, the sender takes it for lost.
    #[test]
    fn what_comes_late_is_acknowledged() {
        let mut received = Received::new();
        for number in (0..400).step_by(2) {
            received.record(Time::ZERO, number, true, POLICY);
        }
        for number in [1, 11, 333, 3, 5] {
            received.record(Time::ZERO, number, true, POLICY);
            assert!(received.is_due());
            let ranges: Vec<_> = received.ranges().collect();
            assert!(ranges.iter().any(|range| range.contains(&number)));
            assert!(ranges.len() <= MAX_RANGES && ranges.is_sorted_by(|a, b| a.start() > b.end()));
            received.on_ack_sent();
        }
    }

    proptest! {
        #[test]
        fn ranges_and_replay_window_agree_with_a_set(
            numbers in prop::collection::vec(0u64..60, 1..200),
        ) {
            let (mut received, mut seen) = (Received::new(), BTreeSet::new());
            for n in numbers {
                prop_assert_eq!(received.is_fresh(n), !seen.contains(&n));
                if seen.insert(n) {
                    received.record(Time::ZERO, n, true, POLICY);
                }
                let listed: BTreeSet<u64> = received.ranges().flatten().collect();
                prop_assert_eq!(&listed, &seen);
                let ranges: Vec<_> = received.ranges().collect();
                for pair in ranges.windows(2) {
                    prop_assert!(*pair[0].start() > pair[1].end() + 1);
                }
            }
        }

        #[test]
        fn nothing_is_accepted_twice(
            steps in prop::collection::vec((0u64..3_000, any::<bool>()), 1..400),
        ) {
            let (mut window, mut seen) = (ReplayWindow::default(), BTreeSet::new());
            let mut newest = 0u64;
            for (step, forward) in steps {
                let n = if forward { newest + step } else { newest.saturating_sub(step * 30) };
                if window.is_fresh(n) {
                    prop_assert!(seen.insert(n), "{} was accepted twice", n);
                    window.insert(n);
                } else {
                    prop_assert!(seen.contains(&n) || newest - n >= REPLAY_WINDOW - 128);
                }
                newest = newest.max(n);
            }
        }

        #[test]
        fn jumps_do_not_confuse_the_window(
            numbers in prop::collection::vec(
                prop_oneof![0u64..1000, 60_000u64..70_000, 0u64..u64::MAX / 2],
                1..100,
            ),
        ) {
            let (mut window, mut seen) = (ReplayWindow::default(), BTreeSet::new());
            for n in numbers {
                if window.is_fresh(n) {
                    prop_assert!(seen.insert(n));
                    window.insert(n);
                }
                prop_assert!(!window.is_fresh(n));
            }
        }
    }
}
