//! Emulated links between UDP sockets on one machine, without root: the network model of
//! `manyway-network` under the wall clock, for the demo and for tests.
//!
//! This crate owns the sockets and threads. What a link does to a packet (rate, delay, queue,
//! losses, timetable) is the model's business and never decided here.
//!
//! Clients send to a proxy; it forwards their datagrams over its links to the target, and the
//! target's answers over the same links back. Each client has an upstream socket of its own, as
//! behind a NAT. ECN marks are not carried over. A [`UdpNetwork`] has any number of links and
//! proxies, a [`UdpLink`] one of each.

mod config;
mod forwarder;
mod link;
mod network;
mod proxy;

#[cfg(test)]
mod tests;

pub use config::{Hop, UdpNetworkConfig, UdpProxy};
pub use link::{UdpLink, UdpLinkConfig, UdpLinkStats};
pub use network::UdpNetwork;
