//! Brings packets that took several paths back into the order in which they were sent.
//!
//! TCP takes packets that come late by a few others for lost, and sends at half the rate. Paths
//! differ in delay, so what comes early is held back until those before it are there, but never
//! for longer than the paths' delays differ: they may be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

/// Packets that are held back, and their bytes.
const MAX_PACKETS: usize = 4096;
const MAX_BYTES: usize = 4 << 20;
/// What is held back longest, however much the delays differ.
const LONGEST: Duration = Duration::from_millis(200);
/// And at least: queues on the paths vary.
const SHORTEST: Duration = Duration::from_millis(5);

/// Packets that came early.
#[derive(Debug)]
pub(super) struct Resequencer {
    /// The number of the next packet, counted beyond 2^32.
    next: u64,
    patience: Duration,
    held: BTreeMap<u64, Held>,
    /// Those that are held, by when they came.
    order: BTreeSet<(Instant, u64)>,
    bytes: usize,
}

#[derive(Debug)]
struct Held {
    since: Instant,
    packet: Bytes,
}

impl Resequencer {
    /// The first packet has the number 0.
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            patience: SHORTEST,
            held: BTreeMap::new(),
            order: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// The delays of the paths differ by so much.
    pub(super) fn set_spread(&mut self, spread: Duration) {
        self.patience = (spread + SHORTEST).min(LONGEST);
    }

    /// A packet came. Those whose turn it is go to `out`.
    pub(super) fn push(&mut self, now: Instant, number: u32, packet: Bytes, out: &mut Vec<Bytes>) {
        self.release(now, out);
        // The nearest of all numbers that end in these 32 bits (RFC 1982).
        let ahead = number.wrapping_sub(self.next as u32) as i32;
        if ahead < 0 {
            // It was given up: better late than never.
            out.push(packet);
            return;
        }
        let number = self.next + u64::from(ahead.unsigned_abs());
        if self.held.contains_key(&number) {
            return;
        }
        self.bytes += packet.len();
        self.order.insert((now, number));
        self.held.insert(number, Held { since: now, packet });
        self.take_in_order(out);
        while self.held.len() > MAX_PACKETS || self.bytes > MAX_BYTES {
            self.skip(out);
        }
    }

    /// When [`release`](Self::release) has something to do.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let &(since, _) = self.order.first()?;
        Some(since + self.patience)
    }

    /// Gives up waiting for what is missing before packets that were held for long enough.
    pub(super) fn release(&mut self, now: Instant, out: &mut Vec<Bytes>) {
        while self.timeout().is_some_and(|at| at <= now) {
            self.skip(out);
        }
    }

    /// Gives up what is missing before the first packet.
    fn skip(&mut self, out: &mut Vec<Bytes>) {
        if let Some((&first, _)) = self.held.first_key_value() {
            self.next = first;
        }
        self.take_in_order(out);
    }

    fn take_in_order(&mut self, out: &mut Vec<Bytes>) {
        while let Some(Held { since, packet }) = self.held.remove(&self.next) {
            self.order.remove(&(since, self.next));
            self.bytes -= packet.len();
            self.next += 1;
            out.push(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NONE: [u32; 0] = [];

    fn of(number: u32) -> Bytes {
        number.to_be_bytes().to_vec().into()
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Numbers of what comes out.
    struct Bench {
        start: Instant,
        resequencer: Resequencer,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                start: Instant::now(),
                resequencer: Resequencer::new(),
            }
        }

        fn push(&mut self, at: u64, number: u32) -> Vec<u32> {
            let mut out = Vec::new();
            let now = self.start + ms(at);
            self.resequencer.push(now, number, of(number), &mut out);
            numbers(&out)
        }

        fn release(&mut self, at: u64) -> Vec<u32> {
            let mut out = Vec::new();
            self.resequencer.release(self.start + ms(at), &mut out);
            numbers(&out)
        }

        fn timeout(&self) -> Option<Duration> {
            let at = self.resequencer.timeout()?;
            Some(at - self.start)
        }
    }

    fn numbers(packets: &[Bytes]) -> Vec<u32> {
        let number = |packet: &Bytes| u32::from_be_bytes(packet[..4].try_into().unwrap());
        packets.iter().map(number).collect()
    }

    #[test]
    fn what_comes_in_order_passes() {
        let mut bench = Bench::new();
        for number in 0..5 {
            assert_eq!(bench.push(0, number), [number]);
        }
        assert_eq!(bench.timeout(), None);
    }

    #[test]
    fn what_comes_early_waits_for_those_before_it() {
        let mut bench = Bench::new();
        bench.resequencer.set_spread(ms(40));
        assert_eq!(bench.push(0, 2), NONE);
        assert_eq!(bench.push(10, 1), NONE);
        assert_eq!(bench.timeout(), Some(ms(45)));
        assert_eq!(bench.push(20, 0), [0, 1, 2]);
        assert_eq!(bench.timeout(), None);
    }

    #[test]
    fn what_is_lost_is_waited_for_as_long_as_delays_differ() {
        let mut bench = Bench::new();
        bench.resequencer.set_spread(ms(40));
        assert_eq!(bench.push(0, 0), [0]);
        assert_eq!(bench.push(1, 2), NONE);
        assert_eq!(bench.push(9, 3), NONE);
        assert_eq!(bench.push(10, 5), NONE);
        assert_eq!(bench.release(45), NONE);
        assert_eq!(bench.release(46), [2, 3], "they came within it");
        assert_eq!(bench.timeout(), Some(ms(55)));
        assert_eq!(bench.push(47, 1), [1], "late");
        assert_eq!(bench.push(48, 4), [4, 5]);
    }

    #[test]
    fn it_waits_for_a_while_at_least_and_not_for_ever() {
        let mut bench = Bench::new();
        assert_eq!(bench.push(0, 1), NONE);
        assert_eq!(bench.timeout(), Some(SHORTEST));
        bench.resequencer.set_spread(Duration::from_secs(9));
        assert_eq!(bench.timeout(), Some(LONGEST));
    }

    /// A timer may come late where packets come all the time.
    #[test]
    fn what_has_waited_leaves_before_what_comes() {
        let mut bench = Bench::new();
        assert_eq!(bench.push(0, 1), NONE);
        assert_eq!(bench.push(50, 3), [1]);
        assert_eq!(bench.timeout(), Some(ms(50) + SHORTEST));
    }

    #[test]
    fn the_number_after_the_largest_is_zero() {
        let mut bench = Bench::new();
        bench.resequencer.next = u64::from(u32::MAX);
        assert_eq!(bench.push(0, 1), NONE);
        assert_eq!(bench.push(0, 0), NONE);
        assert_eq!(bench.push(0, u32::MAX), [u32::MAX, 0, 1]);
        assert_eq!(bench.push(0, u32::MAX), [u32::MAX], "late");
        assert_eq!(bench.push(0, 2), [2]);
    }

    #[test]
    fn what_a_hostile_peer_can_have_held_is_bounded() {
        let mut bench = Bench::new();
        let now = bench.start;
        let mut out = Vec::new();
        for number in 0..20_000u32 {
            let packet = Bytes::from(vec![0; 8000]);
            bench
                .resequencer
                .push(now, 2 * number + 1, packet, &mut out);
            let Resequencer {
                held, order, bytes, ..
            } = &bench.resequencer;
            assert!(held.len() <= MAX_PACKETS && *bytes <= MAX_BYTES, "{number}");
            assert_eq!(held.len(), order.len());
        }
        assert_eq!(out.len() + bench.resequencer.held.len(), 20_000);
        // Numbers all over the place.
        for number in 0..20_000u32 {
            let number = number.wrapping_mul(0x9e37_79b9);
            bench.resequencer.push(now, number, Bytes::new(), &mut out);
            assert!(bench.resequencer.held.len() <= MAX_PACKETS);
        }
        bench.resequencer.release(now + LONGEST, &mut out);
        assert!(bench.resequencer.held.is_empty() && bench.resequencer.bytes == 0);
    }

    proptest! {
        /// Each comes out once, none is held for longer than it may be, and what isn't late by more
        /// comes out in order.
        #[test]
        fn everything_comes_out_once_and_in_time(
            packets in prop::collection::vec((0u64..60, any::<bool>()), 1..200),
            spread in 0u64..80,
        ) {
            let mut bench = Bench::new();
            bench.resequencer.set_spread(ms(spread));
            let patience = bench.resequencer.patience;
            // Sent a millisecond apart, with these delays; some get lost.
            let sent = packets.iter().enumerate();
            let sent = sent.filter(|(_, (_, lost))| !lost);
            let mut arrivals: Vec<(u64, u32)> =
                sent.map(|(at, (delay, _))| (at as u64 + delay, at as u32)).collect();
            arrivals.sort_unstable();
            let (mut out, mut came) = (Vec::new(), BTreeMap::new());
            let end = arrivals.last().map_or(0, |(at, _)| *at) + 300;
            let mut arrivals = arrivals.into_iter().peekable();
            for now in 0..end {
                let mut new = bench.release(now);
                while let Some((at, number)) = arrivals.next_if(|(at, _)| *at <= now) {
                    came.insert(number, at);
                    new.extend(bench.push(now, number));
                }
                for number in &new {
                    prop_assert!(ms(now - came[number]) <= patience);
                }
                out.extend(new);
            }
            let mut sorted = out.clone();
            sorted.sort_unstable();
            prop_assert_eq!(&sorted, &came.keys().copied().collect::<Vec<_>>());
            let most = packets.iter().map(|(delay, _)| *delay).max().unwrap_or(0);
            if ms(most) < patience {
                prop_assert!(out.is_sorted(), "{:?}", out);
            }
        }
    }
}
