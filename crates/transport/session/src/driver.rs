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

/// Whether a peer may send us from `local` to `remote`: to a private network only from an address
/// of one, to our own host only from it, and never to more than one host.
pub(crate) fn may_be_named(local: IpAddr, remote: SocketAddr) -> bool {
    let (local, ip) = (local.to_canonical(), remote.ip().to_canonical());
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    if remote.port() == 0 || ip.is_unspecified() || ip.is_multicast() || broadcast {
        return false;
    }
    if ip.is_loopback() {
        return local.is_loopback();
    }
    !is_private(ip) || is_private(local)
}

/// Addresses that mean another host in another network.
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            // The last are those of a provider's own network (RFC 6598).
            v4.is_private() || v4.is_link_local() || (first == 100 && second & 0xc0 == 64)
        }
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_names_hosts_of_our_own_networks_at_most() {
        let may = |local: &str, remote: &str| {
            may_be_named(
                local.parse().expect("an address"),
                remote.parse().expect("an address"),
            )
        };
        let public = [
            "203.0.113.5:9",
            "[2001:db8::5]:9",
            "100.128.0.1:9",
            "8.64.0.1:9",
        ];
        let private = [
            "10.1.2.3:9",
            "192.168.0.1:9",
            "169.254.1.1:9",
            "100.64.0.1:9",
        ];
        let private6 = ["[fd00::1]:9", "[fe80::1]:9", "[::ffff:10.1.2.3]:9"];
        for local in ["192.0.2.1", "10.0.0.1", "0.0.0.0", "2001:db8::1", "fd00::2"] {
            let inside = local.starts_with("10.") || local.starts_with("fd");
            assert!(public.iter().all(|remote| may(local, remote)));
            for remote in private.iter().chain(&private6) {
                assert_eq!(may(local, remote), inside, "{local} {remote}");
            }
            for remote in [
                "127.0.0.1:9",
                "[::1]:9",
                "0.0.0.0:9",
                "[::]:9",
                "224.0.0.1:9",
                "[ff02::1]:9",
                "255.255.255.255:9",
                "203.0.113.5:0",
                "[::ffff:127.0.0.1]:9",
            ] {
                assert!(!may(local, remote), "{local} {remote}");
            }
        }
        assert!(may("127.0.0.1", "127.0.0.1:9") && may("::1", "[::1]:9"));
    }
}
