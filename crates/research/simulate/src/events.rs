//! A queue of events on a virtual clock.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use manyway_units::Time;

/// What is going to happen, in the order of time.
///
/// Among events of one moment a seeded rule decides, so that no origin (a route, a host) is always
/// served before another; events of the same origin and moment stay in the order in which they were
/// scheduled.
#[derive(Debug)]
pub(crate) struct Events<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    seed: u64,
    scheduled: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    tie: u64,
    sequence: u64,
    event: E,
}

impl<E> Events<E> {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            heap: BinaryHeap::new(),
            seed,
            scheduled: 0,
        }
    }

    pub(crate) fn schedule(&mut self, at: Time, origin: u64, event: E) {
        self.scheduled += 1;
        self.heap.push(Reverse(Entry {
            at,
            tie: mix(mix(self.seed ^ origin) ^ at.as_nanos()),
            sequence: self.scheduled,
            event,
        }));
    }

    pub(crate) fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, E)> {
        self.heap
            .pop()
            .map(|Reverse(entry)| (entry.at, entry.event))
    }
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, u64, u64) {
        (self.at, self.tie, self.sequence)
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every bit of `x` bears on
/// every bit of the result.
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(mut events: Events<(u64, u32)>) -> Vec<(Time, (u64, u32))> {
        std::iter::from_fn(|| events.pop()).collect()
    }

    fn two_origins(seed: u64) -> Vec<(Time, (u64, u32))> {
        let mut events = Events::new(seed);
        for ms in 0..50 {
            for n in 0..3 {
                for origin in 0..2 {
                    events.schedule(Time::from_millis(49 - ms), origin, (origin, n));
                }
            }
        }
        drain(events)
    }

    #[test]
    fn in_order_of_time_and_within_a_lane_of_scheduling() {
        let order = two_origins(1);
        assert!(order.is_sorted_by_key(|(at, _)| *at));
        for moment in order.chunks(6) {
            for origin in 0..2 {
                let own = moment.iter().filter(|(_, (l, _))| *l == origin);
                assert!(own.map(|(_, (_, n))| *n).eq(0..3));
            }
        }
    }

    #[test]
    fn ties_are_seeded_and_fair() {
        assert_eq!(two_origins(1), two_origins(1));
        assert_ne!(two_origins(1), two_origins(2));
        let order = two_origins(3);
        let first = order.chunks(6).filter(|moment| moment[0].1.0 == 0).count();
        assert!(
            (10..40).contains(&first),
            "origin 0 was first {first} of 50 times"
        );
    }
}
