//! The event queue of the packet level: packets and timers in the order of time.

mod heap;
mod soon;
mod timers;

use manyway_units::Time;

use super::ring::Ring;
use super::transit::{Due, Transit};
use crate::events::mix;
use heap::Heap;
use soon::Soon;
pub(super) use timers::Timers;

/// Index of a FIFO in its [`EventQueue`].
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub(super) struct FifoId(pub(super) u32);

/// Packets under way: a merge of FIFOs by time.
///
/// Whatever leaves a FIFO link, or passes a constant delay, comes in order; so a packet costs a
/// push and a pop at a ring buffer, and only the FIFOs' heads compete. Among heads of one moment a
/// seeded hash decides, another one each time, so that no FIFO starves another. A packet that
/// overtakes those in its FIFO takes the first of some others in which it overtakes none.
#[derive(Debug, Clone)]
pub(super) struct EventQueue {
    fifos: Vec<Fifo>,
    /// FIFOs of packets that overtake others.
    lanes: Vec<FifoId>,
    heads: Heap,
    /// What leaves hosts is mostly what happens soon, and has few others to pass.
    soon: Soon,
    seed: u64,
}

/// Items in the order of time, and a salt that breaks ties with other FIFOs.
#[derive(Debug, Clone)]
struct Fifo {
    salt: u64,
    items: Ring,
    /// When the last item that was pushed is due.
    latest: Time,
}

/// A FIFO of one host's own, for packets that overtake those of others.
#[derive(Debug)]
pub(super) struct OwnFifo {
    id: FifoId,
    salt: u64,
    /// When the last item that was pushed is due.
    latest: Time,
}

impl EventQueue {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            fifos: Vec::new(),
            lanes: Vec::new(),
            heads: Heap::EMPTY,
            soon: Soon::EMPTY,
            seed,
        }
    }

    pub(super) fn add(&mut self) -> FifoId {
        let id = self.fifos.len() as u32;
        self.fifos.push(Fifo {
            salt: mix(self.seed ^ u64::from(id)),
            items: Ring::default(),
            latest: Time::ZERO,
        });
        FifoId(id)
    }

    pub(super) fn add_own(&mut self) -> OwnFifo {
        let id = self.add();
        OwnFifo {
            id,
            salt: self.fifos[id.0 as usize].salt,
            latest: Time::ZERO,
        }
    }

    /// Appends to a FIFO, or to a lane if the item overtakes what is in there.
    #[inline(always)]
    pub(super) fn push(&mut self, id: FifoId, at: Time, item: Transit) {
        match self.fifos[id.0 as usize].latest <= at {
            true => self.append(id, at, item),
            false => self.overtake(at, item),
        }
    }

    /// Appends what a host sends to a FIFO that it shares with others, or to its own if the item
    /// overtakes what is in the first.
    #[inline(always)]
    pub(super) fn push_soon(&mut self, shared: FifoId, own: &mut OwnFifo, at: Time, item: Transit) {
        let fifo = &mut self.fifos[shared.0 as usize];
        let (id, salt, latest) = match fifo.latest <= at {
            true => (shared, fifo.salt, &mut fifo.latest),
            false if own.latest <= at => (own.id, own.salt, &mut own.latest),
            false => return self.overtake(at, item),
        };
        // What is due together stays in the order in which it came.
        let alone = *latest < at;
        *latest = at;
        match alone && !self.soon.is_full() {
            true => self.soon.insert(key(at, salt, id.0), item),
            false => self.append(id, at, item),
        }
    }

    #[cold]
    #[inline(never)]
    fn overtake(&mut self, at: Time, item: Transit) {
        let fits = |&&lane: &&FifoId| self.fifos[lane.0 as usize].latest <= at;
        let lane = self.lanes.iter().find(fits).copied();
        let lane = lane.unwrap_or_else(|| {
            let lane = self.add();
            self.lanes.push(lane);
            lane
        });
        self.append(lane, at, item);
    }

    #[inline(always)]
    fn append(&mut self, id: FifoId, at: Time, item: Transit) {
        let fifo = &mut self.fifos[id.0 as usize];
        fifo.latest = at;
        if fifo.items.is_empty() {
            self.heads.push(key(at, fifo.salt, id.0));
        }
        fifo.items.push_back(Due { at, item });
    }

    /// Takes the next item, with its time, if its order is before this.
    #[inline(always)]
    pub(super) fn pop_before(&mut self, limit: u128) -> Option<(Time, Transit)> {
        let (soon, head) = (self.soon.least, self.heads.least());
        if soon <= head {
            return (soon < limit).then(|| (time_of(soon), self.soon.pop()));
        }
        if head >= limit {
            return None;
        }
        let id = head as u32;
        let fifo = &mut self.fifos[id as usize];
        let Due { at, item } = fifo.items.pop_front()?;
        match fifo.items.front() {
            Some(next) => self.heads.replace_least(key(next.at, fifo.salt, id)),
            None => self.heads.remove_least(),
        }
        Some((at, item))
    }
}

/// Time, then a hash of time and salt, then the number: a total order.
#[inline]
fn key(at: Time, salt: u64, id: u32) -> u128 {
    let at = at.as_nanos();
    let tie = (at ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    u128::from(at) << 64 | u128::from(tie) << 32 | u128::from(id)
}

/// Whatever is due at `at` or earlier has an order before this.
#[inline]
pub(super) fn key_after(at: Time) -> u128 {
    u128::from(at.as_nanos() + 1) << 64
}

#[inline]
pub(super) fn time_of(key: u128) -> Time {
    Time::from_nanos((key >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::transit::Stage;
    use super::heap::FEW;
    use super::*;

    fn item(subflow: u32) -> Transit {
        Transit::new(subflow, 0, Stage::Forward)
    }

    fn push(queue: &mut EventQueue, id: FifoId, at: u64, subflow: u32) {
        queue.push(id, Time::from_nanos(at), item(subflow));
    }

    /// The next item's time, ns, and subflow.
    fn take(queue: &mut EventQueue) -> Option<(u64, u32)> {
        let (at, item) = queue.pop_before(u128::MAX)?;
        Some((at.as_nanos(), item.subflow()))
    }

    #[test]
    fn ties_are_seeded_and_fair() {
        let first = |seed| {
            let mut queue = EventQueue::new(seed);
            let ids = [queue.add(), queue.add()];
            let winners: Vec<u32> = (0..1000)
                .map(|at| {
                    push(&mut queue, ids[0], at, 0);
                    push(&mut queue, ids[1], at, 1);
                    let (_, winner) = take(&mut queue).unwrap();
                    take(&mut queue);
                    winner
                })
                .collect();
            winners
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
        let ones: u32 = first(3).iter().sum();
        assert!(
            (400..600).contains(&ones),
            "FIFO 1 was first {ones} of 1000 times"
        );
    }

    #[test]
    fn what_is_due_at_the_end_comes_too() {
        let mut queue = EventQueue::new(1);
        let id = queue.add();
        push(&mut queue, id, 5, 0);
        push(&mut queue, id, 6, 1);
        let end = key_after(Time::from_nanos(5));
        assert!(queue.pop_before(end).is_some());
        assert_eq!(queue.pop_before(end), None);
    }

    const HOSTS: u32 = 4;
    /// Sometimes more than few have something, sometimes not.
    const FIFOS: u32 = HOSTS + 2 * FEW as u32;

    proptest! {
        /// Whatever is pushed while popping, the items come in the order of their keys, and those
        /// of one FIFO and moment as they were pushed. The first four are hosts, which share the
        /// FIFO behind theirs.
        #[test]
        fn merged_in_order(
            steps in prop::collection::vec((0u32..FIFOS, 0u64..50, 0u8..3), 0..400),
        ) {
            let mut queue = EventQueue::new(7);
            let mut own: Vec<OwnFifo> = (0..HOSTS).map(|_| queue.add_own()).collect();
            let ids: Vec<FifoId> = (HOSTS..FIFOS).map(|_| queue.add()).collect();
            let mut model = BTreeSet::new();
            let mut last = [0u64; FIFOS as usize];
            let mut now = 0;
            for (number, (origin, delay, pops)) in (0u64..).zip(steps) {
                let fits = |fifo: u32| last[fifo as usize] <= now + delay;
                let fifo = if origin < HOSTS && fits(HOSTS) { HOSTS } else { origin };
                let at = (now + delay).max(last[fifo as usize]);
                last[fifo as usize] = at;
                let at = Time::from_nanos(at);
                let item = Transit::new(fifo, number, Stage::Forward);
                match own.get_mut(origin as usize) {
                    Some(own) => queue.push_soon(ids[0], own, at, item),
                    None => queue.push(ids[(fifo - HOSTS) as usize], at, item),
                }
                model.insert((key(at, queue.fifos[fifo as usize].salt, fifo), number));
                for _ in 0..pops {
                    let Some((key, number)) = model.pop_first() else {
                        break;
                    };
                    prop_assert_eq!(queue.pop_before(key), None);
                    let popped = queue.pop_before(key + 1).map(|(at, item)| (at, item.number));
                    prop_assert_eq!(popped, Some((time_of(key), number)));
                    now = time_of(key).as_nanos();
                }
            }
            for (key, number) in model {
                let popped = queue.pop_before(key + 1).map(|(at, item)| (at, item.number));
                prop_assert_eq!(popped, Some((time_of(key), number)));
            }
            prop_assert_eq!(queue.pop_before(u128::MAX), None);
        }

        /// Items that overtake those in their FIFO come out in the order of time, too.
        #[test]
        fn overtaking_items_come_in_order(delays in prop::collection::vec(0u64..50, 0..400)) {
            let mut queue = EventQueue::new(7);
            let id = queue.add();
            let mut at: Vec<u64> = (0u64..).zip(&delays).map(|(n, delay)| n + delay).collect();
            for &at in &at {
                push(&mut queue, id, at, 0);
            }
            at.sort_unstable();
            let popped = std::iter::from_fn(|| take(&mut queue)).map(|(at, _)| at);
            prop_assert_eq!(popped.collect::<Vec<_>>(), at);
            // No more lanes than packets can be late by.
            prop_assert!(queue.lanes.len() <= 50);
        }
    }
}
