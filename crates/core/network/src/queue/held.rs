//! Packets that wait in a queue which decides when they leave it.

use std::collections::VecDeque;

/// A packet that waits.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// Its number among the packets that wait.
    pub(crate) ticket: u32,
    /// When it came, in ns.
    pub(crate) at: u64,
    pub(crate) bytes: u32,
    /// It is ECN-capable.
    pub(crate) ecn: bool,
    /// It is an L4S packet.
    pub(crate) l4s: bool,
    pub(crate) flow: u32,
    pub(crate) class: u8,
}

/// Packets in the order in which they came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fifo {
    packets: VecDeque<Held>,
    bytes: u64,
}

impl Fifo {
    pub(crate) fn push(&mut self, held: Held) {
        self.bytes += u64::from(held.bytes);
        self.packets.push_back(held);
    }

    pub(crate) fn pop(&mut self) -> Option<Held> {
        let held = self.packets.pop_front()?;
        self.bytes -= u64::from(held.bytes);
        Some(held)
    }

    pub(crate) fn front(&self) -> Option<&Held> {
        self.packets.front()
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
