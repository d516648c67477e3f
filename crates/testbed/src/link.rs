//! One link between clients and a target.

use std::io;
use std::net::SocketAddr;

use manyway_network::{LinkConfig, LinkStats};

use crate::config::{Hop, UdpNetworkConfig, UdpProxy};
use crate::network::UdpNetwork;

/// How a [`UdpLink`] is set up. The links' timetables begin when it starts.
#[derive(Debug, Clone)]
pub struct UdpLinkConfig {
    /// Where clients send to; port 0 lets the system choose ([`UdpLink::local_addr`] tells).
    pub listen: SocketAddr,
    /// Where their datagrams go.
    pub target: SocketAddr,
    /// From the clients to the target.
    pub forward: LinkConfig,
    /// From the target to the clients.
    pub reverse: LinkConfig,
    /// Bytes that count on the links beside each datagram's payload; 28 are an IPv4 and a UDP
    /// header.
    pub header_bytes: u32,
}

impl UdpLinkConfig {
    /// Bytes of an IPv4 and a UDP header.
    pub const HEADER_BYTES: u32 = 28;
}

/// What happened on a [`UdpLink`] so far.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Default)]
pub struct UdpLinkStats {
    /// From the clients to the target.
    pub forward: LinkStats,
    /// From the target to the clients.
    pub reverse: LinkStats,
    /// Datagrams from new clients, refused because there were [`UdpLink::MAX_CLIENTS`] already.
    pub clients_refused: u64,
    /// Datagrams that the operating system would not send on.
    pub send_errors: u64,
}

/// A running emulated link; dropping it stops its threads and closes its sockets.
#[derive(Debug)]
pub struct UdpLink {
    local_addr: SocketAddr,
    network: UdpNetwork,
}

impl UdpLink {
    /// Clients served at a time.
    pub const MAX_CLIENTS: usize = UdpNetwork::MAX_CLIENTS;

    /// Binds `listen` and starts the threads.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] when a link's configuration can't work, else what the
    /// operating system says about binding `listen` or starting threads; the message names the
    /// address.
    pub fn start(config: UdpLinkConfig) -> io::Result<Self> {
        let network = UdpNetwork::start(UdpNetworkConfig {
            links: vec![[config.forward, config.reverse]],
            proxies: vec![UdpProxy {
                listen: config.listen,
                target: config.target,
                route: vec![Hop::forward(0)],
                others: Vec::new(),
            }],
            header_bytes: config.header_bytes,
        })?;
        let local_addr = network.proxy_addr(0).unwrap_or(config.listen);
        Ok(Self {
            local_addr,
            network,
        })
    }

    /// The address that clients send to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Takes both directions down, which loses all that is under way, or brings them up again.
    pub fn set_up(&self, up: bool) {
        self.network.set_up(0, up);
    }

    /// What happened so far.
    pub fn stats(&self) -> UdpLinkStats {
        UdpLinkStats {
            forward: self.network.link_stats(Hop::forward(0)),
            reverse: self.network.link_stats(Hop::reverse(0)),
            clients_refused: self.network.clients_refused(),
            send_errors: self.network.send_errors(),
        }
    }
}
