//! Simulation over the network model, on an integer clock: the same seed gives the same run, bit
//! for bit.
//!
//! This crate owns the packet level ([`packet`]), the flow level ([`flow`]), batches of runs
//! ([`batch`]), and a [`World`] that moves datagrams between [`Host`]s over shared
//! [`Link`](manyway_network::Link)s. A world knows nothing about what hosts are; with the feature
//! `stack` they are production sessions (the module `stack`). Links, queues and laws are those of
//! `manyway-network` and `manyway-control`: this crate has none of its own, and no real sockets.

mod alone;
pub mod batch;
mod draw;
mod events;
pub mod flow;
mod histogram;
pub mod measure;
pub mod overlay;
pub mod packet;
#[cfg(feature = "stack")]
pub mod stack;
pub mod trace;
mod world;

pub use alone::Alone;
pub use world::{
    Arrival, Captured, Departure, Host, HostId, Impairments, LinkId, Route, RouteStats, SocketId,
    World, WorldStats,
};
