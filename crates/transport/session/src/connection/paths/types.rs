//! The types that describe a path to those who open it or ask for it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_control::Remembered;
use manyway_wire::relay::Grant;
use manyway_wire::{ConnectionId, PathId};

use super::mtu::Mtu;
use super::numbers::Numbers;
use crate::carrier::Facts;
use crate::driver::Local;
use crate::relays::RelayRoute;

/// What carries a path, and so who gives it its window.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathTransport {
    /// Datagrams under the connection's congestion control.
    Coupled,
    /// Datagrams that only ask whether a relay works: nobody gives a window.
    Trial,
    /// A carrier, which controls congestion itself.
    Carrier(Facts),
}

/// What makes a path one through a relay: its `remote` is the relay's address.
#[derive(Copy, Clone, Debug)]
pub(crate) struct RelayHeader {
    /// The initiator's socket and relay.
    pub(crate) route: Option<RelayRoute>,
    /// In front of each datagram: the relay takes it off.
    pub(crate) grant: Grant,
    /// Of the GRANT frame that brought or carries the peer's grant.
    pub(crate) seq: u64,
}

/// What a new path starts from.
pub(crate) struct NewPath {
    pub(crate) id: PathId,
    pub(crate) local: Local,
    pub(crate) remote: SocketAddr,
    pub(crate) remote_cid: Option<ConnectionId>,
    pub(crate) transport: PathTransport,
    pub(crate) relay: Option<RelayHeader>,
    /// The best guess of its round-trip time: another path's.
    pub(crate) initial_rtt: Option<Duration>,
}

/// Our address and the peer's, if the path leads from one to the other and has a window.
pub(super) fn hosts(
    transport: PathTransport,
    relay: &Option<RelayHeader>,
    local: &Local,
    remote: SocketAddr,
) -> Option<(IpAddr, IpAddr)> {
    let direct = transport == PathTransport::Coupled && relay.is_none();
    direct.then(|| (local.addr.ip(), remote.ip()))
}

/// What a new path has besides, of the connection.
pub(super) struct Beginning {
    pub(super) numbers: Numbers,
    pub(super) mtu: Mtu,
    /// How long the peer holds ACKs back.
    pub(super) peer_ack_delay: Duration,
    /// What an earlier path between the same hosts carried.
    pub(super) remembered: Option<Remembered>,
}

/// What a response to a challenge has shown.
pub(crate) enum Response {
    /// The path's own address has answered; with the round-trip time if it can be told.
    Validated(Option<Duration>),
    /// An address that the path may move to has answered.
    Candidate,
    Nothing,
}

/// What a probe for the path's size needs.
pub(crate) struct MtuProbe {
    pub(crate) size: usize,
    pub(super) number: u64,
    pub(super) patience: Duration,
}

impl PathTransport {
    /// What declares these facts.
    pub(crate) fn of(facts: Facts) -> Self {
        match facts.own_control {
            true => PathTransport::Carrier(facts),
            false => PathTransport::Coupled,
        }
    }
}

impl RelayHeader {
    /// The listener's side of a path: what goes in front of its datagrams.
    pub(crate) fn back(grant: Grant, seq: u64) -> Self {
        Self {
            route: None,
            grant,
            seq,
        }
    }
}
