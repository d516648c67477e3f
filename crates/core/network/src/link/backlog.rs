//! The packets in a link's queue, as far as the link has to know them.

/// Accepted packets and when they leave the queue, in order: a ring that is cleared out lazily.
///
/// A queue only has to know how many packets have left when it seems full, so a packet costs a
/// write here and nothing else most of the time.
#[derive(Debug, Clone)]
#[repr(C)]
pub(crate) struct Backlog {
    /// Bytes of all packets ever pushed …
    bytes_pushed: u64,
    /// … and of those that have been cleared out.
    bytes_popped: u64,
    /// A power of two of them, or none yet.
    slots: Box<[Slot]>,
    /// Packets ever pushed …
    pushed: u64,
    /// … and how many of those have been cleared out.
    popped: u64,
}

#[derive(Debug, Copy, Clone, Default)]
struct Slot {
    /// When the packet leaves, in ns.
    departs: u64,
    /// Bytes pushed up to and including this one, so that many can be cleared out at once.
    bytes_through: u64,
}

const FIRST_CAPACITY: usize = 16;

impl Backlog {
    pub(crate) fn new() -> Self {
        Self {
            slots: Box::default(),
            pushed: 0,
            popped: 0,
            bytes_pushed: 0,
            bytes_popped: 0,
        }
    }

    /// At least the number of packets that have not left; exactly that after [`Backlog::drain`].
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.pushed - self.popped
    }

    /// At least the bytes that have not left; exactly those after [`Backlog::drain`].
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_pushed - self.bytes_popped
    }

    /// Bytes of all packets ever pushed.
    pub(crate) fn bytes_pushed(&self) -> u64 {
        self.bytes_pushed
    }

    /// Bytes of the packet that leaves next; 0 without one.
    pub(crate) fn head_bytes(&self) -> u64 {
        match self.len() {
            0 => 0,
            _ => self.slot(self.popped).bytes_through - self.bytes_popped,
        }
    }

    /// Whether a push would have to make room first: whoever pushes drains then.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.len() >= self.slots.len() as u64
    }

    /// Departures never decrease.
    #[inline]
    pub(crate) fn push(&mut self, departs: u64, bytes: u32) {
        if self.is_crowded() {
            self.grow();
        }
        self.bytes_pushed += u64::from(bytes);
        let mask = self.slots.len() - 1;
        self.slots[self.pushed as usize & mask] = Slot {
            departs,
            bytes_through: self.bytes_pushed,
        };
        self.pushed += 1;
    }

    /// Counts a packet that nobody has to remember.
    #[inline]
    pub(crate) fn pass(&mut self, bytes: u32) {
        self.bytes_pushed += u64::from(bytes);
    }

    /// Remembers the last packets that have been counted only: when they leave, and the bytes of
    /// each.
    pub(crate) fn restore(&mut self, departures: impl Iterator<Item = u64>, bytes: u32) {
        let pushed = std::mem::take(&mut self.bytes_pushed);
        let (popped, departures) = (self.pushed, departures.collect::<Vec<_>>());
        self.popped = popped;
        self.bytes_pushed = pushed - departures.len() as u64 * u64::from(bytes);
        self.bytes_popped = self.bytes_pushed;
        for departs in departures {
            self.push(departs, bytes);
        }
    }

    /// Clears out everything that has left by `now`.
    pub(crate) fn drain(&mut self, now: u64) {
        let first = self.first_after(now);
        if first > self.popped {
            self.bytes_popped = self.slot(first - 1).bytes_through;
            self.popped = first;
        }
    }

    /// Packets and bytes that have not left by `now`.
    pub(crate) fn after(&self, now: u64) -> (u64, u64) {
        let first = self.first_after(now);
        let bytes = match first > self.popped {
            true => self.bytes_pushed - self.slot(first - 1).bytes_through,
            false => self.bytes(),
        };
        (self.pushed - first, bytes)
    }

    /// How long the packets that have not left by `now` still stay, summed, in ns. Costs
    /// O(packets).
    pub(crate) fn stay_after(&self, now: u64) -> u128 {
        (self.first_after(now)..self.pushed)
            .map(|number| u128::from(self.slot(number).departs - now))
            .sum()
    }

    /// Forgets all packets that have not left.
    pub(crate) fn clear(&mut self) {
        self.popped = self.pushed;
        self.bytes_popped = self.bytes_pushed;
    }

    /// The number of the first packet that leaves after `now`.
    fn first_after(&self, now: u64) -> u64 {
        // From the head while it is near, as it is when somebody drains with every packet; else by
        // halving.
        let near = (self.popped + 4).min(self.pushed);
        for number in self.popped..near {
            if self.slot(number).departs > now {
                return number;
            }
        }
        let (mut low, mut high) = (near, self.pushed);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.slot(middle).departs <= now {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    #[inline]
    fn slot(&self, number: u64) -> Slot {
        self.slots[number as usize & (self.slots.len() - 1)]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let capacity = (self.slots.len() * 2).max(FIRST_CAPACITY);
        let mut slots = vec![Slot::default(); capacity];
        let mask = slots.len() - 1;
        for number in self.popped..self.pushed {
            slots[number as usize & mask] = self.slot(number);
        }
        self.slots = slots.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn grows_only_by_what_has_not_left() {
        let mut backlog = Backlog::new();
        for number in 0..1_000_000u64 {
            if backlog.is_crowded() {
                backlog.drain(number);
            }
            // Each stays for ten pushes.
            backlog.push(number + 10, 1);
        }
        assert!(backlog.slots.len() <= 32, "{}", backlog.slots.len());
    }

    proptest! {
        #[test]
        fn is_a_queue(
            steps in prop::collection::vec((0u64..50, 1u32..100, 0u64..60, any::<bool>()), 1..300),
        ) {
            let mut backlog = Backlog::new();
            let mut model = VecDeque::<(u64, u32)>::new();
            let (mut now, mut departs) = (0, 0);
            for (gap, bytes, stay, drain) in steps {
                now += gap;
                departs = (now + stay).max(departs);
                backlog.push(departs, bytes);
                model.push_back((departs, bytes));
                let left = model.iter().filter(|(at, _)| *at > now);
                let bytes: u64 = left.clone().map(|(_, bytes)| u64::from(*bytes)).sum();
                let expected = (left.clone().count() as u64, bytes);
                let stay: u64 = left.map(|(at, _)| at - now).sum();
                prop_assert_eq!(backlog.after(now), expected);
                prop_assert_eq!(backlog.stay_after(now), u128::from(stay));
                prop_assert!(backlog.len() >= expected.0 && backlog.bytes() >= expected.1);
                if drain {
                    backlog.drain(now);
                    model.retain(|(at, _)| *at > now);
                    prop_assert_eq!((backlog.len(), backlog.bytes()), expected);
                    let head = model.front().map_or(0, |(_, bytes)| u64::from(*bytes));
                    prop_assert_eq!(backlog.head_bytes(), head);
                    prop_assert_eq!(backlog.after(now), expected);
                }
            }
        }
    }
}
