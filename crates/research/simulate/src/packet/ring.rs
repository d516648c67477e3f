//! Packets in the order in which they came.

use super::transit::Due;

/// A queue of packets, first in, first out: a ring of a power of two of places.
#[derive(Debug, Clone, Default)]
pub(super) struct Ring {
    slots: Box<[Due]>,
    /// Packets ever taken …
    taken: u32,
    /// … and ever put, both modulo 2^32.
    put: u32,
}

const FIRST_CAPACITY: usize = 4;

impl Ring {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.taken == self.put
    }

    #[inline(always)]
    pub(super) fn front(&self) -> Option<&Due> {
        match self.is_empty() {
            true => None,
            false => self.slots.get(self.place(self.taken)),
        }
    }

    #[inline(always)]
    pub(super) fn pop_front(&mut self) -> Option<Due> {
        let item = *self.front()?;
        self.taken = self.taken.wrapping_add(1);
        Some(item)
    }

    #[inline(always)]
    pub(super) fn push_back(&mut self, item: Due) {
        if self.is_full() {
            self.grow();
        }
        let place = self.place(self.put);
        self.slots[place] = item;
        self.put = self.put.wrapping_add(1);
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.put.wrapping_sub(self.taken) as usize == self.slots.len()
    }

    #[inline(always)]
    fn place(&self, number: u32) -> usize {
        number as usize & self.slots.len().wrapping_sub(1)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let capacity = (2 * self.slots.len()).max(FIRST_CAPACITY);
        let mut slots = Vec::with_capacity(capacity);
        slots.extend(std::iter::from_fn(|| self.pop_front()));
        (self.taken, self.put) = (0, slots.len() as u32);
        slots.resize(capacity, Due::NOTHING);
        self.slots = slots.into();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use manyway_units::Time;
    use proptest::prelude::*;

    use super::super::transit::{Stage, Transit};
    use super::*;

    proptest! {
        #[test]
        fn is_a_queue(steps in prop::collection::vec(0u8..4, 0..400)) {
            let (mut ring, mut model) = (Ring::default(), VecDeque::new());
            for (number, step) in (0u64..).zip(steps) {
                let item = Due {
                    at: Time::ZERO,
                    item: Transit::new(0, number, Stage::Forward),
                };
                match step {
                    0..=1 => prop_assert_eq!(ring.pop_front(), model.pop_front()),
                    _ => {
                        ring.push_back(item);
                        model.push_back(item);
                    }
                }
                prop_assert_eq!(ring.front(), model.front());
                prop_assert_eq!(ring.is_empty(), model.is_empty());
            }
        }
    }
}
