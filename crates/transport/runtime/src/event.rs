use std::collections::VecDeque;
use std::net::SocketAddr;

use manyway_session::{CloseReason, PathEvent};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::problem::PathProblem;

/// An event of an endpoint or a connection.
///
/// [`Endpoint::events`](crate::Endpoint::events) has those of the local sockets;
/// [`Connection::events`](crate::Connection::events) has these and the connection's own. Who falls
/// behind loses the oldest events; nothing depends on them being read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Something happened to a path, or to the relays that paths may go through.
    Path(PathEvent),
    /// No path from a local socket works, and this is why. Reported once until one works.
    PathProblem(PathProblem),
    /// A local address got a socket: an interface came up, or a path was added.
    LocalAdded {
        /// The interface's name, or the address.
        name: String,
        /// The address it is bound to.
        addr: SocketAddr,
    },
    /// A local address lost its socket: its interface went away, or its path was removed.
    LocalRemoved {
        /// The interface's name, or the address.
        name: String,
        /// The address it was bound to.
        addr: SocketAddr,
    },
    /// The connection is over.
    Closed(CloseReason),
}

/// The events of a connection or of an endpoint, one after the other.
#[derive(Debug, Default)]
pub struct Events {
    past: VecDeque<Event>,
    live: Option<broadcast::Receiver<Event>>,
}

impl Events {
    /// Those that have been, oldest first, and those to come.
    pub(crate) fn new(past: VecDeque<Event>, live: Option<&broadcast::Sender<Event>>) -> Self {
        Self {
            past,
            live: live.map(broadcast::Sender::subscribe),
        }
    }

    /// The next event, or `None` if there will be no more: after [`Event::Closed`] of a connection,
    /// and when an endpoint is closed. Nothing is lost if the future is dropped.
    pub async fn recv(&mut self) -> Option<Event> {
        if let Some(event) = self.past.pop_front() {
            return Some(event);
        }
        let live = self.live.as_mut()?;
        loop {
            match live.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
