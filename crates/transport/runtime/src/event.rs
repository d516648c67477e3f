use std::net::SocketAddr;

use manyway_session::{CloseReason, PathEvent};

use crate::problem::PathProblem;

/// An event of an endpoint or a connection.
///
/// [`Endpoint::events`](crate::Endpoint::events) has those of the local sockets;
/// [`Connection::events`](crate::Connection::events) has these and the connection's own. A receiver
/// that falls behind loses the oldest events; nothing depends on them being read.
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
