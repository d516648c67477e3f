use std::net::SocketAddr;

use manyway_session::{CloseReason, PathDownReason, PathId, PickReason};

use crate::problem::PathProblem;

/// An event of an endpoint or a connection.
///
/// [`Endpoint::events`](crate::Endpoint::events) has those of the local sockets;
/// [`Connection::events`](crate::Connection::events) has these and the connection's own. A receiver
/// that falls behind loses the oldest events; nothing depends on them being read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A path was validated, or carries packets again after a stall.
    PathUp {
        /// The path.
        path: PathId,
        /// Its local socket's name: an interface or an address.
        name: String,
        /// The peer's address on it.
        remote: SocketAddr,
    },
    /// The peer's address on a path changed (its NAT has bound anew, or it has roamed), and the new
    /// one has answered.
    PathMoved {
        /// The path.
        path: PathId,
        /// Its local socket's name: an interface or an address.
        name: String,
        /// The peer's address from now on.
        remote: SocketAddr,
        /// The one it had.
        previous: SocketAddr,
    },
    /// A path stopped carrying packets; what was in flight on it goes over the others.
    PathDown {
        /// The path.
        path: PathId,
        /// Its local socket's name: an interface or an address.
        name: String,
        /// The peer's address on it.
        remote: SocketAddr,
        /// Why.
        reason: PathDownReason,
    },
    /// The connection has tried every relay it knows, and another one may help: see
    /// [`Connection::add_relays`](crate::Connection::add_relays). Repeated every half a minute until
    /// there are more.
    MoreRelays,
    /// Other relays carry paths from now on, or will as soon as they answer:
    /// [`Config::selection`](crate::Config::selection) has picked them.
    RelaysPicked {
        /// All that are picked now.
        relays: Vec<SocketAddr>,
        /// Why others than before.
        reason: PickReason,
    },
    /// For long there have been fewer relays alive than
    /// [`Config::selection`](crate::Config::selection) wants; told once. Those that there are are
    /// used.
    FewRelays {
        /// Relays that are alive.
        alive: usize,
        /// Relays that are known.
        known: usize,
        /// Relays that are wanted.
        wanted: usize,
    },
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
