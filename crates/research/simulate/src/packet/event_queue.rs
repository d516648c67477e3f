//! The event queue of the packet level: packets and timers in the order of time.

use manyway_units::Time;

use super::ring::Ring;
use super::transit::{Due, Transit};
use crate::events::mix;

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

/// A few packets that are not in their FIFOs, sorted by hand: a ring, the next one first.
#[derive(Debug, Clone)]
struct Soon {
    items: [(u128, Transit); SOON],
    taken: usize,
    put: usize,
    /// The order of the next one; `u128::MAX` if there is none.
    least: u128,
}

const SOON: usize = 32;

impl Soon {
    const EMPTY: Self = Self {
        items: [(u128::MAX, Due::NOTHING.item); SOON],
        taken: 0,
        put: 0,
        least: u128::MAX,
    };

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.put.wrapping_sub(self.taken) == SOON
    }

    /// There must be room. No two orders are equal.
    #[inline(always)]
    fn insert(&mut self, key: u128, item: Transit) {
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
    fn pop(&mut self) -> Transit {
        let (_, item) = self.items[self.taken % SOON];
        self.taken = self.taken.wrapping_add(1);
        self.least = match self.taken == self.put {
            true => u128::MAX,
            false => self.items[self.taken % SOON].0,
        };
        item
    }
}

/// Timers of whatever is numbered: at most one event per number and moment is of use, and too early
/// a one does no harm.
///
/// Only what is due before a horizon is sorted. The rest waits in slots of time, as on a wheel that
/// goes round and round (Varghese and Lauck, SOSP 1987, scheme 6).
#[derive(Debug, Clone)]
pub(super) struct Timers {
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
    pub(super) fn new(seed: u64) -> Self {
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

    pub(super) fn schedule(&mut self, at: Time, id: u32) {
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
    pub(super) fn next(&self) -> u128 {
        self.next
    }

    /// From now on, timers whose order isn't before this don't matter.
    pub(super) fn end_at(&mut self, end: u128) {
        self.end = end;
        self.look();
    }

    /// Takes the next timer, if there is one.
    pub(super) fn pop(&mut self) -> u32 {
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

/// A heap of four children per node: half the depth of a binary one, and the children share a cache
/// line. While it has few keys, they are sorted, which is a heap, too, and less work.
#[derive(Debug, Clone)]
struct Heap {
    keys: Vec<u128>,
    /// The first of `keys`, or `u128::MAX`.
    least: u128,
}

const CHILDREN: usize = 4;
/// So many keys are few.
const FEW: usize = 8;

impl Heap {
    const EMPTY: Self = Self {
        keys: Vec::new(),
        least: u128::MAX,
    };

    #[inline(always)]
    fn least(&self) -> u128 {
        self.least
    }

    #[inline]
    fn push(&mut self, key: u128) {
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
    fn remove_least(&mut self) {
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
    fn replace_least(&mut self, key: u128) {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::transit::Stage;
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
