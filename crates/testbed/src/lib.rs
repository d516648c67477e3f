//! Emulated links on one machine: the network model of `manyway-network` under the wall clock.
//!
//! This crate owns the sockets, devices and threads. What a link does to a packet (rate, delay,
//! queue, losses, timetable) is the model's business and never decided here.
//!
//! For the demo and for tests, links lie between UDP sockets and need no rights ([`UdpNetwork`],
//! [`UdpLink`]). With the feature `live`, the module `live` has links between network namespaces on
//! Linux, for every protocol; they need root.
//!
//! Clients send to a proxy; it forwards their datagrams over its links to the target, and the
//! target's answers over the same links back. Each client has an upstream socket of its own, as
//! behind a NAT. ECN marks are not carried over. A [`UdpNetwork`] has any number of links and
//! proxies, a [`UdpLink`] one of each.

mod config;
mod forwarder;
mod link;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod live;
mod network;
mod proxy;
mod traffic;

#[cfg(test)]
mod tests;

pub use config::{Hop, UdpNetworkConfig, UdpProxy};
pub use link::{UdpLink, UdpLinkConfig, UdpLinkStats};
pub use network::UdpNetwork;
