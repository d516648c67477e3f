//! What a link has to know of a packet, and its verdict.

use manyway_units::Time;

/// What a link wants to know of a packet.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Its size on the link, all headers included; an empty one counts as one byte.
    pub bytes: u32,
    /// Whether it is ECN-capable: a queue may mark it rather than drop it.
    pub ecn: bool,
    /// Whether it is ECN-capable and an L4S packet (ECT(1), RFC 9331): its sender reacts to each
    /// mark a little, and wants a short queue.
    pub l4s: bool,
    /// Whose it is: queues that serve flows in turn tell them apart by this number.
    pub flow: u32,
    /// Its class, from 0, the lowest, to 7, for queues with priorities.
    pub class: u8,
}

impl Packet {
    /// A packet of flow 0 in the lowest class that is not ECN-capable.
    pub const fn new(bytes: u32) -> Self {
        Self {
            bytes,
            ecn: false,
            l4s: false,
            flow: 0,
            class: 0,
        }
    }
}

/// The number of a packet that waits in a queue which decides only when packets leave it: as small
/// as possible, and another packet's once the link has decided about this one.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

/// What becomes of a packet: known as soon as it is offered, but for queues that decide when
/// packets leave them.
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
    /// It waits; [`Link::decide`](crate::Link::decide) tells later what becomes of it.
    Queued(Ticket),
}

/// Why a packet was dropped.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The policer's bucket had too few tokens.
    Policed,
    /// The queue had no room.
    QueueFull,
    /// The queue had room and dropped it all the same, to tell senders to slow down.
    Early,
    /// RED drops everything while the average queue is so long.
    Forced,
    /// Lost on the wire, as [`LinkConfig::loss`](crate::LinkConfig::loss) says.
    RandomLoss,
    /// The link was down, or went down while the packet was queued or on the wire.
    Down,
}
