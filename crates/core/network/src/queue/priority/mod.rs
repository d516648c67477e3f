//! Strict priority: a packet leaves only when none of a higher class waits.

use super::Limit;
use super::held::{Fifo, Held};

/// A queue for each class, served in the order of classes, and first in, first out within a class.
/// A packet in service is finished, whatever comes. When there is no room, a packet takes the place
/// of the oldest one in the lowest class, if that is below its own.
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct Priority {
    /// How much all classes hold at most together, the packet in service included.
    pub limit: Limit,
}

/// Classes that there are, from 0, the lowest.
pub const CLASSES: u8 = 8;

/// Strict priority at work.
#[derive(Debug, Clone, Default)]
pub(crate) struct PriorityQueue {
    /// The highest first.
    classes: [Fifo; CLASSES as usize],
}

impl PriorityQueue {
    pub(crate) fn push(&mut self, held: Held) {
        self.classes[place(held.class)].push(held);
    }

    pub(crate) fn take(&mut self) -> Option<Held> {
        self.classes.iter_mut().find_map(Fifo::pop)
    }

    /// Makes room for a packet of `class` by dropping one of a lower class.
    pub(crate) fn evict(&mut self, class: u8, dropped: &mut Vec<Held>) -> bool {
        let lower = self.classes.iter_mut().skip(place(class) + 1);
        let victim = lower.rev().find_map(Fifo::pop);
        dropped.extend(victim);
        victim.is_some()
    }
}

/// Classes above the highest count as that.
fn place(class: u8) -> usize {
    usize::from(CLASSES - 1 - class.min(CLASSES - 1))
}

#[cfg(test)]
mod tests;
