//! A packet at a queue's entrance, and what a queue decides about it there.

/// A packet at the queue's entrance, and what is in the queue already.
#[derive(Debug, Copy, Clone)]
pub(crate) struct Arrival {
    /// In ns.
    pub(crate) now: u64,
    /// The packet is ECN-capable.
    pub(crate) ecn: bool,
    /// The queue's limit lets it in.
    pub(crate) room: bool,
    /// Without the packet in service.
    pub(crate) waiting_packets: u64,
    pub(crate) waiting_bytes: u64,
    /// When the last packet in the queue leaves it, or has left it, in ns.
    pub(crate) free_at: u64,
    /// Nothing waits and nothing is in service.
    pub(crate) idle: bool,
    /// Time that one byte takes, in 2^-31 ns.
    pub(crate) per_byte: u64,
}

/// What becomes of a packet at the queue's entrance.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Admission {
    Accepted { marked: bool },
    Full,
    Early,
    Forced,
}
