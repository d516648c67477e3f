use std::time::Duration;

use manyway_units::Rate;

use crate::InvalidLink;

mod red;

pub use red::Red;
pub(crate) use red::{Admission, Arrival, Gate};

/// The queue in front of a link: first in, first out.
#[derive(Debug, Copy, Clone, PartialEq)]
pub enum Queue {
    /// A packet that finds no room is dropped, all others are taken in.
    DropTail(Limit),
    /// Random early detection: packets are dropped, or marked, before the queue is full.
    Red(Red),
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
    /// DropTail of one bandwidth-delay product, in bytes: what is under way in one round trip of
    /// twice the one-way `delay`; at least two packets of 1500 bytes, for very short links.
    pub fn bandwidth_delay(rate: Rate, delay: Duration) -> Self {
        let product = rate.times_delay(delay.saturating_mul(2)).bytes();
        Queue::DropTail(Limit::Bytes(product.max(3000)))
    }

    /// How much it holds.
    pub fn limit(&self) -> Limit {
        match self {
            Queue::DropTail(limit) => *limit,
            Queue::Red(red) => red.limit,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidLink> {
        if let Limit::Bytes(0) | Limit::Packets(0) = self.limit() {
            let allowed = "a queue has room for at least one packet";
            return Err(InvalidLink::new("queue.limit", 0, allowed));
        }
        match self {
            Queue::DropTail(_) => Ok(()),
            Queue::Red(red) => red.validate(),
        }
    }
}
