//! Brings what links know in advance into the order of time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use manyway_units::Time;

use super::Event;

/// Events to come. A link says when a packet will leave as soon as it is offered, so there are no
/// more of them than packets in queues and on wires.
#[derive(Debug, Default)]
pub(super) struct Order {
    events: BinaryHeap<Due>,
    count: u64,
}

/// The next one is the greatest: the earliest, of one moment the first that was known.
#[derive(Debug)]
struct Due {
    number: u64,
    event: Event,
}

impl Due {
    fn key(&self) -> (Time, u64) {
        (self.event.at, self.number)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl Order {
    pub(super) fn push(&mut self, event: Event) {
        self.count += 1;
        let number = self.count;
        self.events.push(Due { number, event });
    }

    /// The next event, if it is due by `now`.
    pub(super) fn pop(&mut self, now: Time) -> Option<Event> {
        let next = self.events.peek()?;
        (next.event.at <= now)
            .then(|| self.events.pop())?
            .map(|due| due.event)
    }
}
