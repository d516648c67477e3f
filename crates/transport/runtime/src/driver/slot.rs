//! A connection as its handles see it: its state, and the tasks that wait for its streams,
//! datagrams and events.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

use manyway_session::{CloseReason, RelayAccess, StreamId};
use manyway_units::Time;
use tokio::sync::{Notify, broadcast};

use crate::event::{Event, Events};
use crate::problem::PathProblem;
use crate::unanswered::TcpResult;

use super::waiters::Waiters;

/// Events kept for a receiver that comes late or falls behind.
pub(super) const EVENTS: usize = 256;

/// A connection as its handles see it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) state: ConnectionState,
    /// Connections and streams that hold it.
    pub(crate) handles: usize,
    pub(crate) signals: Arc<Signals>,
    pub(crate) sends: BTreeMap<StreamId, SendState>,
    pub(crate) receives: BTreeMap<StreamId, Option<Waker>>,
    /// Tasks that wait to send a datagram, and to take one.
    pub(crate) datagram_senders: Waiters,
    pub(crate) datagram_readers: Waiters,
    /// `None` when there will be no more.
    pub(super) events: Option<broadcast::Sender<Event>>,
    /// Those that have been, oldest first, for receivers that come later.
    pub(super) past: VecDeque<Event>,
    /// Where a connection attempt goes.
    pub(super) addresses: Vec<SocketAddr>,
    /// What came of TCP connections of an attempt, by address and whether a relay is there.
    pub(super) tcp: BTreeMap<(SocketAddr, bool), TcpResult>,
    /// Access to relays, given since the dialler last looked; `None` without a dialler.
    pub(crate) access: Option<BTreeMap<SocketAddr, RelayAccess>>,
    /// Once closed: late packets are answered until then.
    pub(super) drained: Time,
}

#[derive(Clone, Debug)]
pub(crate) enum ConnectionState {
    Connecting,
    Established,
    /// Over; with the known problems, if it was never established.
    Closed(CloseReason, Vec<PathProblem>),
}

/// Signals that tasks wait for. The end of the connection sends all of them.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// The state has changed.
    pub(crate) state: Arc<Notify>,
    /// The peer opened a stream.
    pub(crate) opened: Arc<Notify>,
    /// The peer allows more streams.
    pub(crate) available: Arc<Notify>,
}

#[derive(Debug, Default)]
pub(crate) struct SendState {
    pub(crate) waker: Option<Waker>,
    /// The peer has everything.
    pub(crate) finished: bool,
    /// The peer wants no more.
    pub(crate) stopped: Option<u64>,
}

impl Slot {
    pub(super) fn new(state: ConnectionState, handles: usize, addresses: Vec<SocketAddr>) -> Self {
        Self {
            state,
            handles,
            signals: Arc::default(),
            sends: BTreeMap::new(),
            receives: BTreeMap::new(),
            datagram_senders: Waiters::default(),
            datagram_readers: Waiters::default(),
            events: Some(broadcast::channel(EVENTS).0),
            past: VecDeque::new(),
            addresses,
            tcp: BTreeMap::new(),
            access: None,
            drained: Time::MAX,
        }
    }

    pub(super) fn tell(&mut self, event: Event) {
        let Some(events) = &self.events else { return };
        if self.past.len() == EVENTS {
            self.past.pop_front();
        }
        self.past.push_back(event.clone());
        let _ = events.send(event);
    }

    pub(crate) fn events(&self) -> Events {
        Events::new(self.past.clone(), self.events.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_events_are_kept_than_a_receiver_may_miss() {
        let mut slot = Slot::new(ConnectionState::Established, 1, Vec::new());
        let event = |n: usize| Event::LocalAdded {
            name: n.to_string(),
            addr: SocketAddr::from(([127, 0, 0, 1], 1)),
        };
        (0..1000).for_each(|n| slot.tell(event(n)));
        assert!(slot.past == (1000 - EVENTS..1000).map(event).collect::<Vec<_>>());
    }
}
