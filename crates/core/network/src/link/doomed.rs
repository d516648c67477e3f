//! Packets that wait in the queue, and that the wire or an outage will lose.

use std::collections::VecDeque;

use crate::{DropReason, LinkStats};

/// The link counts a packet as dropped when it draws the packet's fate. Whoever asks what has
/// happened by some moment takes those off that haven't left by then.
#[derive(Debug, Clone, Default)]
pub(super) struct Doomed {
    /// In the order of their departures.
    packets: VecDeque<Packet>,
}

#[derive(Debug, Copy, Clone)]
struct Packet {
    /// When it leaves the queue, in ns.
    departs: u64,
    bytes: u32,
    reason: DropReason,
}

impl Doomed {
    /// Adds one that was offered at `now`, and forgets what had left by then.
    pub(super) fn push(&mut self, now: u64, (departs, bytes): (u64, u32), reason: DropReason) {
        while self.packets.front().is_some_and(|it| it.departs <= now) {
            self.packets.pop_front();
        }
        self.packets.push_back(Packet {
            departs,
            bytes,
            reason,
        });
    }

    pub(super) fn clear(&mut self) {
        self.packets.clear();
    }

    /// Bytes of those that have not left by `now`, and `stats` without them among the drops.
    pub(super) fn after(&self, now: u64, mut stats: LinkStats) -> (u64, LinkStats) {
        let mut bytes = 0;
        for packet in self.packets.iter().filter(|it| it.departs > now) {
            bytes += u64::from(packet.bytes);
            *stats.dropped_for(packet.reason) -= 1;
        }
        (bytes, stats)
    }
}
