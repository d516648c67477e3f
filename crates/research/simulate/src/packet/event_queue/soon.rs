//! A few packets that are next, out of their FIFOs.

use super::super::transit::{Due, Transit};

/// A few packets that are not in their FIFOs, sorted by hand: a ring, the next one first.
#[derive(Debug, Clone)]
pub(super) struct Soon {
    items: [(u128, Transit); SOON],
    taken: usize,
    put: usize,
    /// The order of the next one; `u128::MAX` if there is none.
    pub(super) least: u128,
}

const SOON: usize = 32;

impl Soon {
    pub(super) const EMPTY: Self = Self {
        items: [(u128::MAX, Due::NOTHING.item); SOON],
        taken: 0,
        put: 0,
        least: u128::MAX,
    };

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.put.wrapping_sub(self.taken) == SOON
    }

    /// There must be room. No two orders are equal.
    #[inline(always)]
    pub(super) fn insert(&mut self, key: u128, item: Transit) {
        let mut place = self.put;
        while place != self.taken {
            let before = self.items[place.wrapping_sub(1) % SOON];
            if before.0 <= key {
                break;
            }
            self.items[place % SOON] = before;
            place = place.wrapping_sub(1);
        }
        self.items[place % SOON] = (key, item);
        self.put = self.put.wrapping_add(1);
        self.least = self.least.min(key);
    }

    /// Takes the next one; there must be one.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Transit {
        let (_, item) = self.items[self.taken % SOON];
        self.taken = self.taken.wrapping_add(1);
        self.least = match self.taken == self.put {
            true => u128::MAX,
            false => self.items[self.taken % SOON].0,
        };
        item
    }
}
