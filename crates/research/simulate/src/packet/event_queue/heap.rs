//! Which FIFO or timer is next.

/// A heap of four children per node: half the depth of a binary one, and the children share a cache
/// line. While it has few keys, they are sorted, which is a heap, too, and less work.
#[derive(Debug, Clone)]
pub(super) struct Heap {
    keys: Vec<u128>,
    /// The first of `keys`, or `u128::MAX`.
    least: u128,
}

const CHILDREN: usize = 4;
/// So many keys are few.
pub(super) const FEW: usize = 8;

impl Heap {
    pub(super) const EMPTY: Self = Self {
        keys: Vec::new(),
        least: u128::MAX,
    };

    #[inline(always)]
    pub(super) fn least(&self) -> u128 {
        self.least
    }

    #[inline]
    pub(super) fn push(&mut self, key: u128) {
        let mut at = self.keys.len();
        let few = at < FEW;
        self.keys.push(key);
        while at > 0 {
            let before = match few {
                true => at - 1,
                false => (at - 1) / CHILDREN,
            };
            if self.keys[before] <= key {
                break;
            }
            self.keys[at] = self.keys[before];
            at = before;
        }
        self.keys[at] = key;
        self.least = self.least.min(key);
    }

    #[inline]
    pub(super) fn remove_least(&mut self) {
        if self.keys.len() <= FEW {
            self.keys.drain(..self.keys.len().min(1));
            self.least = self.keys.first().copied().unwrap_or(u128::MAX);
        } else if let Some(last) = self.keys.pop() {
            self.replace_least_of_many(last);
            if self.keys.len() == FEW {
                self.keys.sort_unstable();
            }
        }
    }

    /// Puts `key` in the place of the least one and moves it to where it belongs.
    #[inline]
    pub(super) fn replace_least(&mut self, key: u128) {
        if self.keys.len() > FEW {
            return self.replace_least_of_many(key);
        }
        let keys = self.keys.as_mut_slice();
        let mut at = 0;
        while let Some(&next) = keys.get(at + 1)
            && next < key
        {
            keys[at] = next;
            at += 1;
        }
        if let Some(slot) = keys.get_mut(at) {
            *slot = key;
        }
        self.least = keys.first().copied().unwrap_or(u128::MAX);
    }

    fn replace_least_of_many(&mut self, key: u128) {
        let heap = self.keys.as_mut_slice();
        let mut at = 0;
        self.least = key;
        loop {
            let first = at * CHILDREN + 1;
            let Some(children) = heap.get(first..(first + CHILDREN).min(heap.len())) else {
                break;
            };
            let mut least = first;
            let mut least_key = u128::MAX;
            for (offset, &child) in children.iter().enumerate() {
                if child < least_key {
                    least = first + offset;
                    least_key = child;
                }
            }
            if key <= least_key {
                break;
            }
            self.least = self.least.min(least_key);
            heap[at] = least_key;
            at = least;
        }
        if let Some(slot) = heap.get_mut(at) {
            *slot = key;
        }
    }
}
