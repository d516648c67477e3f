//! Queues of their own for flows, served in turn: deficit round robin, and FQ-CoDel.

use std::collections::{HashMap, VecDeque};

use super::Limit;
use super::codel::{CoDel, Control};
use super::held::{Fifo, Held};
use crate::InvalidLink;

/// Deficit round robin (M. Shreedhar and G. Varghese, "Efficient Fair Queueing Using Deficit Round
/// Robin", IEEE/ACM ToN 4(3), 1996), with a queue for every flow. When there is no room, it drops
/// from the longest queue, as they do.
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct Drr {
    /// How much all queues hold at most together, the packet in service included.
    pub limit: Limit,
    /// Bytes that a queue may send when it is its turn.
    pub quantum: u32,
}

/// FQ-CoDel (RFC 8290): flows are hashed to queues with CoDel each, which deficit round robin
/// serves. A queue that gets its first packet is served before those that had packets before.
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct FqCoDel {
    /// Each queue's CoDel; its limit is that of all queues together.
    pub codel: CoDel,
    /// How many queues there are.
    pub queues: u32,
    /// Bytes that a queue may send when it is its turn.
    pub quantum: u32,
}

impl Drr {
    /// Queues that may send a packet of 1500 bytes in turn.
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            quantum: 1500,
        }
    }

    pub(super) fn validate(&self) -> Result<(), InvalidLink> {
        check_quantum("drr", self.quantum)
    }
}

impl FqCoDel {
    /// The RFC's parameters: 1024 queues, a quantum of 1514 bytes, CoDel's own parameters, no
    /// marks.
    pub fn new(limit: Limit) -> Self {
        Self {
            codel: CoDel::new(limit),
            queues: 1024,
            quantum: 1514,
        }
    }

    pub(super) fn validate(&self) -> Result<(), InvalidLink> {
        self.codel.validate("fq_codel")?;
        if !(1..=65_536).contains(&self.queues) {
            let allowed = "choose 1 to 65536";
            return Err(InvalidLink::new(
                "queue.fq_codel.queues",
                self.queues,
                allowed,
            ));
        }
        check_quantum("fq_codel", self.quantum)
    }
}

fn check_quantum(queue: &str, quantum: u32) -> Result<(), InvalidLink> {
    match quantum {
        64.. => Ok(()),
        _ => Err(InvalidLink::new(
            format!("queue.{queue}.quantum"),
            format!("{quantum} B"),
            "choose at least 64 B",
        )),
    }
}

/// The most packets that are dropped at once from the longest queue (RFC 8290, section 4.1.2).
const BATCH: usize = 64;

/// What the two have in common, at work.
#[derive(Debug, Clone)]
pub(crate) struct FairQueue {
    quantum: i64,
    /// Of FQ-CoDel.
    hashing: Option<Hashing>,
    queues: Vec<FlowQueue>,
    /// Queues by flow, or by the flow's hash.
    index: HashMap<u32, usize>,
    /// Queues that nobody has.
    free: Vec<usize>,
    /// Queues in turn: those that got their first packet, which are served first …
    new: VecDeque<usize>,
    /// … and the others.
    old: VecDeque<usize>,
}

/// How FQ-CoDel tells flows apart, and what each queue begins with.
#[derive(Debug, Clone)]
struct Hashing {
    queues: u32,
    salt: u64,
    control: Control,
}

/// A flow's queue.
#[derive(Debug, Clone)]
struct FlowQueue {
    key: u32,
    fifo: Fifo,
    control: Option<Control>,
    /// Bytes that it may still send.
    credit: i64,
    /// It is in one of the lists.
    active: bool,
}

impl FairQueue {
    pub(crate) fn drr(drr: &Drr) -> Self {
        Self::new(drr.quantum, None)
    }

    pub(crate) fn fq_codel(fq: &FqCoDel, seed: u64) -> Self {
        let hashing = Hashing {
            queues: fq.queues,
            salt: seed,
            control: Control::new(&fq.codel),
        };
        Self::new(fq.quantum, Some(hashing))
    }

    fn new(quantum: u32, hashing: Option<Hashing>) -> Self {
        Self {
            quantum: i64::from(quantum),
            hashing,
            queues: Vec::new(),
            index: HashMap::new(),
            free: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
        }
    }

    pub(crate) fn push(&mut self, held: Held) {
        let at = self.queue_of(held.flow);
        let queue = &mut self.queues[at];
        queue.fifo.push(held);
        if !queue.active {
            queue.active = true;
            queue.credit = self.quantum;
            match self.hashing {
                Some(_) => self.new.push_back(at),
                None => self.old.push_back(at),
            }
        }
    }

    /// The next packet to be sent at `now`, and whether it is marked (RFC 8290, section 4.2).
    pub(crate) fn take(&mut self, now: u64, dropped: &mut Vec<Held>) -> Option<(Held, bool)> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new {
                &mut self.new
            } else {
                &mut self.old
            };
            let at = *list.front()?;
            let queue = &mut self.queues[at];
            if queue.credit <= 0 {
                queue.credit += self.quantum;
                list.pop_front();
                self.old.push_back(at);
                continue;
            }
            let taken = match &mut queue.control {
                Some(control) => control.take(&mut queue.fifo, now, dropped),
                None => queue.fifo.pop().map(|held| (held, false)),
            };
            if let Some((held, marked)) = taken {
                queue.credit -= i64::from(held.bytes);
                return Some((held, marked));
            }
            list.pop_front();
            // An emptied new queue takes its turn among the others once, so that nobody gains by
            // sending a packet whenever its queue is empty.
            match from_new && !self.old.is_empty() {
                true => self.old.push_back(at),
                false => self.retire(at),
            }
        }
    }

    /// Makes room by dropping the oldest packets of the queue with the most bytes: half of its
    /// packets, but no more than a batch; DRR drops one.
    pub(crate) fn evict(&mut self, dropped: &mut Vec<Held>) -> bool {
        let bytes = |&(_, queue): &(usize, &FlowQueue)| queue.fifo.bytes();
        let all = self.queues.iter().enumerate();
        // Of equal ones the first.
        let longest = all.rev().max_by_key(bytes).map(|(at, _)| at);
        let Some(queue) = longest.map(|at| &mut self.queues[at]) else {
            return false;
        };
        let count = match self.hashing {
            Some(_) => (queue.fifo.len() / 2).clamp(1, BATCH),
            None => 1,
        };
        let before = dropped.len();
        dropped.extend((0..count).map_while(|_| queue.fifo.pop()));
        dropped.len() > before
    }

    /// Any packet.
    pub(crate) fn pop(&mut self) -> Option<Held> {
        self.queues.iter_mut().find_map(|queue| queue.fifo.pop())
    }

    fn queue_of(&mut self, flow: u32) -> usize {
        let key = match &self.hashing {
            Some(hashing) => hashing.key(flow),
            None => flow,
        };
        if let Some(&at) = self.index.get(&key) {
            return at;
        }
        let queue = FlowQueue {
            key,
            fifo: Fifo::default(),
            control: self.hashing.as_ref().map(|hashing| hashing.control.clone()),
            credit: 0,
            active: false,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.queues[at] = queue;
                at
            }
            None => {
                self.queues.push(queue);
                self.queues.len() - 1
            }
        };
        self.index.insert(key, at);
        at
    }

    /// A queue has nothing to send. DRR forgets it, so that there are never more queues than
    /// packets; FQ-CoDel has only so many, and CoDel remembers how it dropped.
    fn retire(&mut self, at: usize) {
        let queue = &mut self.queues[at];
        queue.active = false;
        if self.hashing.is_none() {
            self.index.remove(&queue.key);
            self.free.push(at);
        }
    }
}

impl Hashing {
    /// SplitMix64's finaliser, as good as any hash for numbers that nobody chooses with intent.
    fn key(&self, flow: u32) -> u32 {
        let mut hash = u64::from(flow).wrapping_add(self.salt);
        hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((hash ^ hash >> 31) % u64::from(self.queues)) as u32
    }
}

#[cfg(test)]
mod tests;
