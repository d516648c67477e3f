use std::net::SocketAddr;

use manyway_wire::PathId;

use crate::streams::StreamEvent;

/// What happened on a connection; taken by the driver with
/// [`Endpoint::poll_event`](crate::Endpoint::poll_event).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete: streams may be opened.
    Connected,
    /// Something happened to a path, or to the relays that paths may go through.
    Path(PathEvent),
    /// Something happened on a stream.
    Stream(StreamEvent),
    /// The connection is over; nothing but [`Endpoint::forget`](crate::Endpoint::forget) is left to
    /// do.
    Closed(CloseReason),
}

/// What happened to a connection's paths, or to the relays that they may go through.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathEvent {
    /// A path was validated, or carries packets again after a stall.
    Up {
        /// The path.
        path: PathId,
        /// Its local socket's name: an interface or an address.
        name: String,
        /// The peer's address on it.
        remote: SocketAddr,
    },
    /// The peer's address on a path changed (its NAT has bound anew, or it has roamed), and the new
    /// one has answered.
    Moved {
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
    Down {
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
    /// [`Connection::add_relays`](crate::Connection::add_relays). Reported again after half a
    /// minute if there are none.
    MoreRelays,
    /// Other relays carry paths from now on, or will as soon as they answer:
    /// [`Config::selection`](crate::Config::selection) has picked them.
    RelaysPicked {
        /// All that are picked now.
        relays: Vec<SocketAddr>,
        /// Why others than before.
        reason: PickReason,
    },
    /// For some time, fewer relays have been alive than
    /// [`Config::selection`](crate::Config::selection) wants. The connection uses those that are
    /// alive, and reports this once.
    FewRelays {
        /// Relays that are alive.
        alive: usize,
        /// Relays that are known.
        known: usize,
        /// Relays that are wanted.
        wanted: usize,
    },
}

impl From<PathEvent> for Event {
    fn from(event: PathEvent) -> Self {
        Self::Path(event)
    }
}

/// Why relays were picked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PickReason {
    /// For the first time.
    First,
    /// In the place of one that is lost, or that was free.
    Vacancy,
    /// The demand wasn't met with those before.
    Unsatisfied {
        /// What came through, over all paths, in bits/s.
        rate: u64,
        /// What is wanted, in bits/s.
        demand: u64,
    },
}

/// Why a path went down.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PathDownReason {
    /// Probe timeouts went unanswered; the path is still probed and may come back.
    Stalled,
    /// Nothing came back for so long that the path was given up.
    TimedOut,
    /// The local socket is gone.
    LocalGone,
    /// The peer gave it up.
    Abandoned,
    /// The local host has no route to the peer's address.
    NoRoute,
    /// It led through a relay that gives no grants any more.
    RelayGone,
    /// It led through a relay and was found to be of no use now.
    Dropped,
    /// The TCP connection that carried it has ended.
    CarrierClosed,
    /// It led through a relay, and others were picked.
    Reselected,
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// We closed it.
    #[error("closed on this side")]
    Local,
    /// The peer closed it.
    #[error(
        "closed by the peer (code {code}){}{reason}",
        if reason.is_empty() { "" } else { ": " }
    )]
    Peer {
        /// The application's (or protocol's) code.
        code: u64,
        /// The peer's words, [`printable`](manyway_units::printable).
        reason: String,
    },
    /// Nothing was heard for the idle timeout.
    #[error(
        "nothing was heard from the peer for {seconds} s on any of {paths} path(s): check that it \
         still runs and is reachable"
    )]
    TimedOut {
        /// The idle timeout, in seconds.
        seconds: u64,
        /// Paths that were open.
        paths: usize,
    },
    /// The handshake went unanswered.
    #[error(
        "no answer from {addresses}: check that the listener still runs and has the same release, \
         that the ticket is its newest one and that UDP gets through"
    )]
    ConnectTimedOut {
        /// The addresses that were tried.
        addresses: String,
    },
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    /// Sealing or opening met a limit that must not be passed.
    #[error("encryption stopped: {0}")]
    Crypto(String),
}

/// Codes of CLOSE that the session itself sends; the application's start at 0x100.
pub(crate) mod code {
    /// A frame or its contents broke a rule.
    pub(crate) const PROTOCOL: u64 = 1;
    /// An AEAD limit was reached.
    pub(crate) const CRYPTO: u64 = 2;
}
