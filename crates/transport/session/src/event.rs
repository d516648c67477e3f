use std::fmt;
use std::net::SocketAddr;

use manyway_wire::PathId;
use manyway_wire::relay::Refusal;

use crate::streams::StreamEvent;

/// An event of a connection. The driver takes it with
/// [`Endpoint::poll_event`](crate::Endpoint::poll_event).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete: both sides may open streams.
    Connected,
    /// A change of a path, or of the relays through which paths may go.
    Path(PathEvent),
    /// A change of a stream.
    Stream(StreamEvent),
    /// Datagrams can be taken, or sent.
    Datagram(DatagramEvent),
    /// The connection is over. Only [`Endpoint::forget`](crate::Endpoint::forget) remains to be
    /// done.
    Closed(CloseReason),
}

/// A change of a connection's paths, or of the relays through which they may go.
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
    /// The peer's address on a path has changed (its NAT has rebound, or it has roamed), and the
    /// new one has answered.
    Moved {
        /// The path.
        path: PathId,
        /// Its local socket's name: an interface or an address.
        name: String,
        /// The peer's new address.
        remote: SocketAddr,
        /// Its former address.
        previous: SocketAddr,
    },
    /// A path has stopped carrying packets. The others carry what was in flight on it; without
    /// others, the connection keeps to this one.
    Down {
        /// The path.
        path: PathId,
        /// Its local socket's name: an interface or an address.
        name: String,
        /// The peer's address on it.
        remote: SocketAddr,
        /// The reason.
        reason: PathDownReason,
    },
    /// The connection has tried every relay that it knows, and another one may help: see
    /// [`Connection::add_relays`](crate::Connection::add_relays). It reports this again after half
    /// a minute without new relays.
    MoreRelays,
    /// [`Config::selection`](crate::Config::selection) has picked other relays, which carry paths
    /// from now on, or as soon as they answer.
    RelaysPicked {
        /// All picked relays.
        relays: Vec<SocketAddr>,
        /// The reason for the change.
        reason: PickReason,
    },
    /// A relay that has granted access refuses it now: the access has ended or was revoked.
    RelayRefused {
        /// The relay.
        relay: SocketAddr,
        /// Its reason, in words.
        reason: String,
    },
    /// For some time, fewer relays have been alive than
    /// [`Config::selection`](crate::Config::selection) wants. The connection uses those that are
    /// alive, and reports this once.
    FewRelays {
        /// The number of relays that are alive.
        alive: usize,
        /// The number of known relays.
        known: usize,
        /// The number of wanted relays.
        wanted: usize,
    },
}

/// What the application may do about datagrams now. It is told once, when it has tried in vain.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DatagramEvent {
    /// [`Connection::recv_datagram`](crate::Connection::recv_datagram) has one.
    Arrived,
    /// [`Connection::send_datagram`](crate::Connection::send_datagram) has room.
    Room,
}

/// Why a datagram can't be sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// [`Config::datagram`](crate::Config::datagram) isn't set on both sides.
    #[error("the two sides don't exchange datagrams")]
    Unsupported,
    /// It is larger than either side wants.
    #[error("a datagram has at most {max} bytes")]
    TooLarge {
        /// Most bytes of one.
        max: usize,
    },
    /// As many wait as may: [`DatagramEvent::Room`] tells when there is room.
    #[error("too many datagrams wait to be sent")]
    Blocked,
    /// The connection is over.
    #[error("the connection is over")]
    Closed,
}

impl From<PathEvent> for Event {
    fn from(event: PathEvent) -> Self {
        Self::Path(event)
    }
}

/// Why a connection picked relays.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PickReason {
    /// It picked relays for the first time.
    First,
    /// It replaced a lost relay, or filled a free place.
    Vacancy,
    /// The former relays didn't meet the demand.
    Unsatisfied {
        /// The rate over all paths, in bits/s.
        rate: u64,
        /// The demand, in bits/s.
        demand: u64,
    },
}

/// Why a path went down.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PathDownReason {
    /// Probe timeouts have fired without an answer. The connection still probes the path, which may
    /// come back.
    Stalled,
    /// The path was silent for so long that this side gave it up.
    TimedOut,
    /// The local socket is gone.
    LocalGone,
    /// The peer has given it up.
    Abandoned,
    /// The local host has no route to the peer's address.
    NoRoute,
    /// The relay that it led through gives no more grants.
    RelayGone,
    /// It led through a relay that isn't useful now.
    Dropped,
    /// The TCP connection that carried it has ended.
    CarrierClosed,
    /// It led through a relay, and the connection picked others.
    Reselected,
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// This side closed it.
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
    /// Nothing arrived for the idle timeout.
    #[error("{}", silence(*seconds, *paths, *offline))]
    TimedOut {
        /// The idle timeout, in seconds.
        seconds: u64,
        /// Paths that were open.
        paths: usize,
        /// Their interfaces are gone, all of them.
        offline: bool,
    },
    /// The handshake got no answer.
    #[error(
        "no answer from {addresses}: check that the listener still runs and has the same release, \
         that the ticket is its newest one and that UDP gets through"
    )]
    ConnectTimedOut {
        /// The addresses tried.
        addresses: String,
        /// What the ticket's relays said, as far as this side has access to them.
        relays: Vec<RelayContact>,
    },
    /// The listener speaks another version of the session protocol.
    #[error(
        "the other side speaks version {theirs} of the protocol, and this side version {ours}: \
         update manyway on {} host",
        if theirs > ours { "this" } else { "the other" }
    )]
    OtherVersion {
        /// This side's version.
        ours: u8,
        /// The listener's version.
        theirs: u8,
    },
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    /// It would have taken more than this side can spare.
    #[error("this side has no room for it: {0}")]
    Overloaded(String),
    /// Sealing or opening has reached a limit.
    #[error("encryption stopped: {0}")]
    Crypto(String),
}

/// What a relay that the ticket names said to an attempt to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayContact {
    /// Its address.
    pub address: SocketAddr,
    /// What it said.
    pub heard: RelayHeard,
}

impl fmt::Display for RelayContact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, heard } = self;
        match heard {
            RelayHeard::Nothing => write!(f, "the relay at {address}: no answer"),
            RelayHeard::Refused(reason) => write!(f, "the relay at {address}: {reason}"),
            RelayHeard::Granted => write!(f, "the relay at {address} forwards to the listener"),
        }
    }
}

/// A relay's answer to an attempt to connect.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RelayHeard {
    /// None.
    Nothing,
    /// It doesn't forward.
    Refused(Refusal),
    /// It forwards to the listener.
    Granted,
}

impl CloseReason {
    /// The code of a CLOSE from a peer that has no room for the connection: it may have some later.
    pub const OVERLOADED: u64 = code::OVERLOADED;
    /// The code of a CLOSE from a listener that takes no connection any more, or not this one.
    pub const REFUSED: u64 = 4;
}

/// Codes of CLOSE that the session itself sends; the application's start at 0x100.
pub(crate) mod code {
    /// A frame or its contents broke a rule.
    pub(crate) const PROTOCOL: u64 = 1;
    /// An AEAD limit was reached.
    pub(crate) const CRYPTO: u64 = 2;
    /// The endpoint has too many connections, or too little memory for them.
    pub(crate) const OVERLOADED: u64 = 3;
}

/// Why nothing arrived for so long.
fn silence(seconds: u64, paths: usize, offline: bool) -> String {
    if offline {
        return format!(
            "this host has lost its network, and nothing came for {seconds} s: connect it again"
        );
    }
    let on = match paths {
        0 | 1 => String::new(),
        _ => format!(" on any of {paths} paths"),
    };
    format!("the peer sent nothing for {seconds} s{on}: check that it still runs and is reachable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_told_of_as_many_paths_as_there_were() {
        let said = |paths, offline| {
            let reason = CloseReason::TimedOut {
                seconds: 30,
                paths,
                offline,
            };
            reason.to_string()
        };
        let peers = said(4, false);
        assert!(peers.starts_with("the peer sent nothing for 30 s on any of 4 paths: check"));
        assert!(said(1, false).starts_with("the peer sent nothing for 30 s: check"));
        // It isn't the peer's fault.
        assert_eq!(
            said(1, true),
            "this host has lost its network, and nothing came for 30 s: connect it again"
        );
    }
}
