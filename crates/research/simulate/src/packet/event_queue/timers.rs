//! Timers, as on a wheel.

use manyway_units::Time;

use super::heap::Heap;
use super::{key, mix, time_of};

/// Timers of whatever is numbered: at most one event per number and moment is of use, and too early
/// a one does no harm.
///
/// Only what is due before a horizon is sorted. The rest waits in slots of time, as on a wheel that
/// goes round and round (Varghese and Lauck, SOSP 1987, scheme 6).
#[derive(Debug, Clone)]
pub(in super::super) struct Timers {
    /// Those before the horizon. It is empty only if there are no others.
    heap: Heap,
    slots: Box<[Vec<u128>]>,
    /// How many are in slots.
    later: usize,
    /// The first slot of time that is not in the heap, counted from time zero.
    horizon: u64,
    /// No timer is asked for whose order isn't before this.
    end: u128,
    /// The order of the next timer, or the end.
    next: u128,
    seed: u64,
}

const SLOTS: u64 = 256;
/// The duration of a slot is 2 to this power, ns: 0.26 ms.
const SLOT: u32 = 18;

impl Timers {
    pub(in super::super) fn new(seed: u64) -> Self {
        Self {
            heap: Heap::EMPTY,
            slots: vec![Vec::new(); SLOTS as usize].into(),
            later: 0,
            horizon: 0,
            end: u128::MAX,
            next: u128::MAX,
            seed: mix(!seed),
        }
    }

    pub(in super::super) fn schedule(&mut self, at: Time, id: u32) {
        let key = key(at, mix(self.seed ^ u64::from(id)), id);
        if slot_of(key) < self.horizon {
            self.heap.push(key);
        } else {
            self.slots[(slot_of(key) % SLOTS) as usize].push(key);
            self.later += 1;
        }
        self.look();
    }

    /// The order of the next timer, or the end if that is earlier.
    #[inline]
    pub(in super::super) fn next(&self) -> u128 {
        self.next
    }

    /// From now on, timers whose order isn't before this don't matter.
    pub(in super::super) fn end_at(&mut self, end: u128) {
        self.end = end;
        self.look();
    }

    /// Takes the next timer, if there is one.
    pub(in super::super) fn pop(&mut self) -> u32 {
        let key = self.heap.least();
        self.heap.remove_least();
        self.look();
        key as u32
    }

    /// Sees which timer is next.
    #[inline]
    fn look(&mut self) {
        if self.heap.least() == u128::MAX && self.later > 0 {
            self.advance();
        }
        self.next = self.heap.least().min(self.end);
    }

    /// The heap is empty: fills it from the next slot of time that has timers. There must be some.
    #[inline(never)]
    fn advance(&mut self) {
        let round = self.horizon + SLOTS;
        while self.heap.least() == u128::MAX {
            if self.horizon == round {
                // None within a whole round.
                let least = self.slots.iter().flatten().min();
                self.horizon = least.map_or(0, |&key| slot_of(key));
            }
            let horizon = self.horizon;
            self.horizon += 1;
            let slot = &mut self.slots[(horizon % SLOTS) as usize];
            if slot.is_empty() {
                continue;
            }
            for key in slot.extract_if(.., |key| slot_of(*key) == horizon) {
                self.later -= 1;
                self.heap.push(key);
            }
        }
    }
}

/// In which slot of time a key is, counted from time zero.
#[inline(always)]
fn slot_of(key: u128) -> u64 {
    time_of(key).as_nanos() >> SLOT
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::key_after;
    use super::*;

    #[test]
    fn timers_come_in_order() {
        let mut timers = Timers::new(0);
        for (at, id) in [(5, 1), (3, 2), (9, 3), (3, 4)] {
            timers.schedule(Time::from_nanos(at), id);
        }
        let popped = std::iter::from_fn(|| {
            let at = time_of(timers.next());
            (at < Time::MAX).then(|| (at.as_nanos(), timers.pop()))
        });
        let mut popped: Vec<_> = popped.collect();
        popped[..2].sort_unstable();
        assert_eq!(popped, [(3, 2), (3, 4), (5, 1), (9, 3)]);
        assert_eq!(timers.next(), u128::MAX);
    }

    #[test]
    fn timers_know_the_end() {
        let mut timers = Timers::new(3);
        timers.schedule(Time::from_nanos(5), 1);
        for end in [4, 5, 3] {
            let end = key_after(Time::from_nanos(end));
            timers.end_at(end);
            assert_eq!(timers.next() < end, end == key_after(Time::from_nanos(5)));
            assert!(timers.next() <= end);
        }
    }

    proptest! {
        /// Timers of the next slot, of this round of the wheel, and of later ones.
        #[test]
        fn timers_come_in_the_order_of_their_keys(
            steps in prop::collection::vec((0u32..3, 0u64..1 << 19, 0u8..3), 0..400),
        ) {
            let mut timers = Timers::new(3);
            let mut model = BTreeSet::new();
            let mut now = 0;
            for (id, (scale, delay, pops)) in (0u32..).zip(steps) {
                let at = Time::from_nanos(now + (delay << (7 * scale)));
                timers.schedule(at, id);
                model.insert(key(at, mix(timers.seed ^ u64::from(id)), id));
                for _ in 0..pops {
                    let Some(key) = model.pop_first() else {
                        break;
                    };
                    prop_assert_eq!((timers.next(), timers.pop()), (key, key as u32));
                    now = time_of(key).as_nanos();
                }
            }
            for key in model {
                prop_assert_eq!((timers.next(), timers.pop()), (key, key as u32));
            }
            prop_assert_eq!(timers.next(), u128::MAX);
        }
    }
}
