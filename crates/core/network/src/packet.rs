//! What a link has to know of a packet, and its verdict.

use manyway_units::Time;

/// What a link wants to know of a packet.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Its size on the link, all headers included; an empty one counts as one byte.
    pub bytes: u32,
    /// Whether it is ECN-capable: a queue may mark it rather than drop it.
    pub ecn: bool,
}

impl Packet {
    /// A packet that is not ECN-capable.
    pub const fn new(bytes: u32) -> Self {
        Self { bytes, ecn: false }
    }
}

/// What becomes of a packet, known as soon as it is offered.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It comes out at the far end, unless somebody takes the link down before it is there
    /// ([`Link::set_up`](crate::Link::set_up)).
    Delivered {
        /// When its last bit leaves the queue.
        departs: Time,
        /// When it is at the far end: never before a packet offered earlier.
        arrives: Time,
        /// Whether the queue marked it ("congestion experienced").
        marked: bool,
    },
    /// It never comes out.
    Dropped(DropReason),
}

/// Why a packet was dropped.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The policer's bucket had too few tokens.
    Policed,
    /// The queue had no room.
    QueueFull,
    /// RED dropped it at random.
    RedEarly,
    /// RED drops everything while the average queue is so long.
    RedForced,
    /// Lost on the wire, as [`LinkConfig::loss`](crate::LinkConfig::loss) says.
    RandomLoss,
    /// The link was down, or went down while the packet was queued or on the wire.
    Down,
}
