//! The queue in front of a link: its kind and its size.

use std::time::Duration;

use manyway_units::Rate;

use crate::InvalidLink;

mod arrival;
mod codel;
mod dualpi2;
mod fair;
mod held;
mod pie;
mod priority;
mod red;

pub(crate) use arrival::{Admission, Arrival};
pub use codel::CoDel;
pub use dualpi2::DualPi2;
pub use fair::{Drr, FqCoDel};
pub(crate) use held::Held;
pub use pie::Pie;
pub use priority::{CLASSES, Priority};
pub use red::Red;

/// The queue in front of a link.
#[derive(Debug, Copy, Clone, PartialEq)]
pub enum Queue {
    /// First in, first out: a packet that finds no room is dropped, all others are taken in.
    DropTail(Limit),
    /// Random early detection: packets are dropped, or marked, before the queue is full.
    Red(Red),
    /// Packets are dropped, or marked, at the entrance, by the delay of the queue.
    Pie(Pie),
    /// Packets that have waited for too long are dropped, or marked, at the exit.
    CoDel(CoDel),
    /// A queue for each flow, served in turn.
    Drr(Drr),
    /// Queues for flows, served in turn, with CoDel each.
    FqCoDel(FqCoDel),
    /// Higher classes first.
    Priority(Priority),
    /// A short queue for L4S packets beside one for all others.
    DualPi2(DualPi2),
}

/// How much a queue holds.
///
/// What counts against it is everything that has not left yet, the packet in service included: with
/// room for one packet, a packet that arrives while another is being serialised is dropped. A
/// packet larger than a limit in bytes never passes.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum Limit {
    /// In bytes.
    Bytes(u64),
    /// In packets of any size.
    Packets(u32),
}

impl Queue {
    /// The smallest [`Queue::bandwidth_delay`]: an initial window of ten packets of 1500 bytes
    /// (RFC 6928).
    pub const MIN_BYTES: u64 = 15_000;

    /// The queue of a link for which nobody chooses one: DropTail of one bandwidth-delay product,
    /// in bytes, of a round trip of twice the one-way `delay`; at least [`Queue::MIN_BYTES`].
    pub fn bandwidth_delay(rate: Rate, delay: Duration) -> Self {
        let product = rate.times_delay(delay.saturating_mul(2)).bytes();
        Queue::DropTail(Limit::Bytes(product.max(Self::MIN_BYTES)))
    }

    /// How much it holds.
    pub fn limit(&self) -> Limit {
        match self {
            Queue::DropTail(limit) => *limit,
            Queue::Red(red) => red.limit,
            Queue::Pie(pie) => pie.limit,
            Queue::CoDel(codel) => codel.limit,
            Queue::Drr(drr) => drr.limit,
            Queue::FqCoDel(fq) => fq.codel.limit,
            Queue::Priority(priority) => priority.limit,
            Queue::DualPi2(dual) => dual.limit,
        }
    }

    /// Whether it decides about a packet only when that leaves it.
    pub fn decides_late(&self) -> bool {
        match self {
            Queue::DropTail(_) | Queue::Red(_) | Queue::Pie(_) => false,
            Queue::CoDel(_)
            | Queue::Drr(_)
            | Queue::FqCoDel(_)
            | Queue::Priority(_)
            | Queue::DualPi2(_) => true,
        }
    }

    /// Its key in scenario files; none for DropTail, which is text there.
    fn name(&self) -> Option<&'static str> {
        match self {
            Queue::DropTail(_) => None,
            Queue::Red(_) => Some("red"),
            Queue::Pie(_) => Some("pie"),
            Queue::CoDel(_) => Some("codel"),
            Queue::Drr(_) => Some("drr"),
            Queue::FqCoDel(_) => Some("fq_codel"),
            Queue::Priority(_) => Some("priority"),
            Queue::DualPi2(_) => Some("dualpi2"),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidLink> {
        if let Limit::Bytes(0) | Limit::Packets(0) = self.limit() {
            let setting = self.name().map(|name| format!("queue.{name}.limit"));
            let setting = setting.unwrap_or_else(|| "queue".to_owned());
            let allowed = "a queue has room for at least one packet";
            return Err(InvalidLink::new(setting, 0, allowed));
        }
        match self {
            Queue::DropTail(_) | Queue::Priority(_) => Ok(()),
            Queue::Red(red) => red.validate(),
            Queue::Pie(pie) => pie.validate(),
            Queue::CoDel(codel) => codel.validate("codel"),
            Queue::Drr(drr) => drr.validate(),
            Queue::FqCoDel(fq) => fq.validate(),
            Queue::DualPi2(dual) => dual.validate(),
        }
    }
}

/// A queue at work that decides, first in, first out, when packets enter it.
#[derive(Debug, Clone)]
pub(crate) enum Gate {
    Red(red::Gate),
    Pie(pie::Gate),
}

impl Gate {
    /// `None` if room is all that a packet needs. The configuration is valid.
    pub(crate) fn new(queue: &Queue, seed: u64) -> Option<Self> {
        match queue {
            Queue::Red(red) => Some(Gate::Red(red::Gate::new(*red, seed))),
            Queue::Pie(pie) => Some(Gate::Pie(pie::Gate::new(*pie, seed))),
            _ => None,
        }
    }

    /// A packet arrives.
    pub(crate) fn admit(&mut self, arrival: Arrival) -> Admission {
        match self {
            Gate::Red(gate) => gate.admit(arrival),
            Gate::Pie(gate) => gate.admit(arrival),
        }
    }
}

/// A queue at work that decides when packets leave it.
#[derive(Debug, Clone)]
pub(crate) enum Discipline {
    CoDel(codel::CoDelQueue),
    Fair(fair::FairQueue),
    Priority(priority::PriorityQueue),
    DualPi2(dualpi2::DualPi2Queue),
}

impl Discipline {
    /// `None` if the queue decides earlier. The configuration is valid.
    pub(crate) fn new(queue: &Queue, seed: u64) -> Option<Self> {
        match queue {
            Queue::DropTail(_) | Queue::Red(_) | Queue::Pie(_) => None,
            Queue::CoDel(codel) => Some(Discipline::CoDel(codel::CoDelQueue::new(codel))),
            Queue::Drr(drr) => Some(Discipline::Fair(fair::FairQueue::drr(drr))),
            Queue::FqCoDel(fq) => Some(Discipline::Fair(fair::FairQueue::fq_codel(fq, seed))),
            Queue::Priority(_) => Some(Discipline::Priority(priority::PriorityQueue::default())),
            Queue::DualPi2(dual) => Some(Discipline::DualPi2(dualpi2::DualPi2Queue::new(dual))),
        }
    }

    /// A packet enters, for which there is room.
    pub(crate) fn push(&mut self, held: Held) {
        match self {
            Discipline::CoDel(queue) => queue.push(held),
            Discipline::Fair(queue) => queue.push(held),
            Discipline::Priority(queue) => queue.push(held),
            Discipline::DualPi2(queue) => queue.push(held),
        }
    }

    /// The packet that is served from `now` on, in ns, and whether it is marked. Packets that are
    /// dropped before it are added to `dropped`.
    pub(crate) fn take(&mut self, now: u64, dropped: &mut Vec<Held>) -> Option<(Held, bool)> {
        match self {
            Discipline::CoDel(queue) => queue.take(now, dropped),
            Discipline::Fair(queue) => queue.take(now, dropped),
            Discipline::Priority(queue) => queue.take().map(|held| (held, false)),
            Discipline::DualPi2(queue) => queue.take(now, dropped),
        }
    }

    /// Drops others to make room for a packet of this class; false if there are none to drop.
    pub(crate) fn evict(&mut self, class: u8, dropped: &mut Vec<Held>) -> bool {
        match self {
            Discipline::CoDel(_) | Discipline::DualPi2(_) => false,
            Discipline::Fair(queue) => queue.evict(dropped),
            Discipline::Priority(queue) => queue.evict(class, dropped),
        }
    }

    /// Any packet, to be lost.
    pub(crate) fn pop(&mut self) -> Option<Held> {
        match self {
            Discipline::CoDel(queue) => queue.pop(),
            Discipline::Fair(queue) => queue.pop(),
            Discipline::Priority(queue) => queue.take(),
            Discipline::DualPi2(queue) => queue.pop(),
        }
    }
}
