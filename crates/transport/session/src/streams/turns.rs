//! Round robin among streams.

use std::collections::BTreeMap;

use super::StreamId;

/// A queue of streams that are ready for something. Membership is exact, so emptiness answers "is
/// anyone ready?".
#[derive(Default, Debug)]
pub(super) struct Turns {
    next: u64,
    queue: BTreeMap<u64, StreamId>,
}

/// A stream's place in a [`Turns`], kept by the stream.
#[derive(Default, Debug)]
pub(super) struct Place(Option<u64>);

impl Place {
    pub(super) fn is_taken(&self) -> bool {
        self.0.is_some()
    }
}

impl Turns {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whose turn it is.
    pub(super) fn front(&self) -> Option<StreamId> {
        self.queue.first_key_value().map(|(_, &id)| id)
    }

    /// Queues the stream at the back, or removes it; nothing when it is where it should be.
    #[inline]
    pub(super) fn set(&mut self, id: StreamId, place: &mut Place, ready: bool) {
        if place.0.is_some() != ready {
            self.change(id, place);
        }
    }

    fn change(&mut self, id: StreamId, place: &mut Place) {
        match place.0.take() {
            Some(turn) => drop(self.queue.remove(&turn)),
            None => self.push(id, place),
        }
    }

    /// Moves a stream that had its turn to the back.
    pub(super) fn rotate(&mut self, id: StreamId, place: &mut Place) {
        if let Some(turn) = place.0
            && self.queue.len() > 1
        {
            self.queue.remove(&turn);
            self.push(id, place);
        }
    }

    fn push(&mut self, id: StreamId, place: &mut Place) {
        self.queue.insert(self.next, id);
        place.0 = Some(self.next);
        self.next += 1;
    }
}
