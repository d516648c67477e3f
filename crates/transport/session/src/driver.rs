//! What a driver and the session name to each other: sockets, connections and datagrams.

use std::net::{IpAddr, SocketAddr};

/// A socket of ours, by the number its owner gave it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalId(pub u32);

/// A socket of ours: where a path can start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The driver's number for it; never reused.
    pub id: LocalId,
    /// Its interface or address, as people know it.
    pub name: String,
    /// The address it is bound to.
    pub addr: SocketAddr,
    /// The largest IP packet that its interface takes, in bytes; 1500 is assumed where that isn't
    /// known.
    pub mtu: Option<u32>,
}

/// A connection of an [`Endpoint`](crate::Endpoint). Valid until
/// [`forget`](crate::Endpoint::forget); never reused.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(pub(crate) u64);

/// ECN codepoint of an arriving datagram (RFC 3168).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// ECT(0).
    Ect0,
    /// ECT(1).
    Ect1,
    /// Congestion experienced.
    Ce,
}

/// A datagram that arrived.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// The socket it came by.
    pub local: LocalId,
    /// Whom it came from.
    pub remote: SocketAddr,
    /// Its ECN mark, if any.
    pub ecn: Option<Ecn>,
    /// Its UDP payload; opened in place.
    pub data: &'a mut [u8],
}

/// Datagrams to send, as described by [`poll_transmit`](crate::Endpoint::poll_transmit); their
/// bytes are in its buffer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The socket to send by.
    pub local: LocalId,
    /// Where to.
    pub remote: SocketAddr,
    /// Mark them ECT(0).
    pub ecn: bool,
    /// Bytes in all.
    pub len: usize,
    /// Length of each datagram when there are several, all but the last of this size.
    pub segment_size: Option<usize>,
}

/// Why a datagram could not be sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SendErrorKind {
    /// The host has no route from this socket to that address.
    NoRoute,
    /// The datagram is larger than the interface's MTU allows.
    TooBig,
    /// Something that may pass.
    Other,
}

/// Whether a packet from `local` can reach `remote` at all: same family, and loopback only with
/// loopback.
pub(crate) fn compatible(local: IpAddr, remote: IpAddr) -> bool {
    let wildcard = local.is_unspecified();
    local.is_ipv4() == remote.is_ipv4() && (wildcard || local.is_loopback() == remote.is_loopback())
}
