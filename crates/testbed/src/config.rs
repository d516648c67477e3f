//! The configuration of a [`UdpNetwork`](crate::UdpNetwork).

use std::io;
use std::net::SocketAddr;

use manyway_network::LinkConfig;

/// How a [`UdpNetwork`](crate::UdpNetwork) is set up. The links' timetables begin when it starts.
#[derive(Debug, Clone, Default)]
pub struct UdpNetworkConfig {
    /// The links, each as its forward and its reverse direction; hops name them by their index
    /// here.
    pub links: Vec<[LinkConfig; 2]>,
    /// Where datagrams enter, and how they go on.
    pub proxies: Vec<UdpProxy>,
    /// Bytes that count on the links beside each datagram's payload; 28 are an IPv4 and a UDP
    /// header.
    pub header_bytes: u32,
}

/// An address that clients send to, and what lies between it and the target.
#[derive(Debug, Clone)]
pub struct UdpProxy {
    /// Where clients send to; port 0 lets the system choose
    /// ([`UdpNetwork::proxy_addr`](crate::UdpNetwork::proxy_addr) tells).
    pub listen: SocketAddr,
    /// Where their datagrams go.
    pub target: SocketAddr,
    /// The route of a client's datagrams; the target's answers take the same route back.
    pub route: Vec<Hop>,
    /// Routes of single clients that differ from `route`: a relay has its senders on one side and
    /// its receivers on the other.
    pub others: Vec<(SocketAddr, Vec<Hop>)>,
}

/// A link in one of its directions.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The link's index in [`UdpNetworkConfig::links`].
    pub link: usize,
    /// Whether clients' datagrams cross it in its reverse direction.
    pub reverse: bool,
}

impl Hop {
    /// Clients' datagrams cross the link in its forward direction.
    pub fn forward(link: usize) -> Self {
        Self {
            link,
            reverse: false,
        }
    }

    /// Clients' datagrams cross the link in its reverse direction.
    pub fn reverse(link: usize) -> Self {
        Self {
            link,
            reverse: true,
        }
    }

    /// Its index among all directions of all links.
    pub(crate) fn direction(self) -> usize {
        2 * self.link + usize::from(self.reverse)
    }

    /// The same link in the other direction.
    pub(crate) fn back(self) -> Self {
        Self {
            reverse: !self.reverse,
            ..self
        }
    }
}

impl UdpNetworkConfig {
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if a route names a link that isn't there.
    pub(crate) fn check_routes(&self) -> io::Result<()> {
        let links = self.links.len();
        for proxy in &self.proxies {
            let others = proxy.others.iter().map(|(_, route)| route);
            let mut hops = others.chain([&proxy.route]).flatten();
            if let Some(hop) = hops.find(|hop| hop.link >= links) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!(
                        "the proxy to {} names link {} of {links}, counted from 0",
                        proxy.target, hop.link
                    ),
                ));
            }
        }
        Ok(())
    }
}

impl UdpProxy {
    /// The route of this client's datagrams.
    pub(crate) fn route_of(&self, client: SocketAddr) -> &[Hop] {
        let own = self.others.iter().find(|(who, _)| *who == client);
        own.map_or(&self.route, |(_, route)| route)
    }
}
