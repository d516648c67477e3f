//! The queue in front of a link: its kind and its size.

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
        }
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidLink> {
        let (limit, setting) = match self {
            Queue::DropTail(limit) => (limit, "queue"),
            Queue::Red(red) => (&red.limit, "queue.red.limit"),
        };
        if let Limit::Bytes(0) | Limit::Packets(0) = limit {
            let allowed = "a queue has room for at least one packet";
            return Err(InvalidLink::new(setting, 0, allowed));
        }
        match self {
            Queue::DropTail(_) => Ok(()),
            Queue::Red(red) => red.validate(),
        }
    }
}
