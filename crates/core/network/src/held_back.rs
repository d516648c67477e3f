//! What a caller has of the packets that wait in a link's queue.

use manyway_units::Time;

use crate::{Link, Ticket};

/// What a caller keeps for each packet that waits in one link's queue, and when it has to ask the
/// link for decisions next.
#[derive(Debug, Clone)]
pub struct HeldBack<C> {
    /// By ticket.
    cargo: Vec<Option<C>>,
    /// [`Time::MAX`] if it needn't.
    due: Time,
}

impl<C> Default for HeldBack<C> {
    fn default() -> Self {
        Self {
            cargo: Vec::new(),
            due: Time::MAX,
        }
    }
}

impl<C> HeldBack<C> {
    /// The packet with this ticket waits. Returns when to ask the link for decisions, if nobody has
    /// been told so before.
    pub fn put(&mut self, ticket: Ticket, cargo: C, link: &Link) -> Option<Time> {
        let index = ticket.0 as usize;
        if self.cargo.len() <= index {
            self.cargo.resize_with(index + 1, || None);
        }
        self.cargo[index] = Some(cargo);
        self.expect(link)
    }

    /// The link has decided about the packet with this ticket.
    pub fn take(&mut self, ticket: Ticket) -> Option<C> {
        self.cargo.get_mut(ticket.0 as usize)?.take()
    }

    /// The time told has come.
    pub fn is_asked(&mut self, now: Time) {
        if self.due <= now {
            self.due = Time::MAX;
        }
    }

    /// When to ask the link for decisions, if nobody has been told so before.
    pub fn expect(&mut self, link: &Link) -> Option<Time> {
        let at = link.next_decision().filter(|at| *at < self.due)?;
        self.due = at;
        Some(at)
    }

    /// What is kept.
    pub fn iter(&self) -> impl Iterator<Item = &C> {
        self.cargo.iter().flatten()
    }
}
