//! A link's counters.

use std::time::Duration;

use crate::DropReason;

/// What happened on a link so far. `offered` = `delivered` + [`LinkStats::dropped`]. A fluid
/// ([`Link::with_fluid`](crate::Link::with_fluid)) counts as so many packets of its size.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Default)]
pub struct LinkStats {
    /// Packets offered.
    pub offered: u64,
    /// Packets that came out, or will; those that wait in a queue which decides when they leave it
    /// count until it drops them.
    pub delivered: u64,
    /// Packets that the policer dropped.
    pub dropped_policed: u64,
    /// Packets that found no room in the queue.
    pub dropped_queue: u64,
    /// Packets that a queue with room dropped to tell senders to slow down: RED, PIE, CoDel.
    pub dropped_early: u64,
    /// Packets that RED dropped because the average queue was too long.
    pub dropped_forced: u64,
    /// Packets lost on the wire.
    pub dropped_random: u64,
    /// Packets offered while the link was down, or queued or on the wire when it went down.
    pub dropped_down: u64,
    /// Packets that the queue marked, lost ones included.
    pub marked: u64,
    /// Bytes of the delivered packets.
    pub bytes_delivered: u64,
    /// Time spent serialising packets, up to when the backlog will be gone.
    pub busy: Duration,
    /// Sum of the times that packets are in the queue, from the offer to the departure of the last
    /// bit. Over the time that passed this is the mean number of packets in it, the one in service
    /// included (Little's law).
    pub sojourn: Duration,
}

impl LinkStats {
    /// Packets dropped for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.dropped_policed
            + self.dropped_queue
            + self.dropped_early
            + self.dropped_forced
            + self.dropped_random
            + self.dropped_down
    }

    /// The count of what was dropped for that reason.
    pub(crate) fn dropped_for(&mut self, reason: DropReason) -> &mut u64 {
        match reason {
            DropReason::Policed => &mut self.dropped_policed,
            DropReason::QueueFull => &mut self.dropped_queue,
            DropReason::Early => &mut self.dropped_early,
            DropReason::Forced => &mut self.dropped_forced,
            DropReason::RandomLoss => &mut self.dropped_random,
            DropReason::Down => &mut self.dropped_down,
        }
    }
}
