//! Virtual-clock runs over the network model.
//!
//! [`World`] moves datagrams between [`Host`]s over shared [`Link`](manyway_network::Link)s, with
//! every impairment a network can have, on an integer clock: the same seed gives the same run, bit
//! for bit ([`World::trace_hash`]). It knows nothing about what hosts are. With the feature `stack`
//! they are production sessions (the module `stack`).

pub mod batch;
mod events;
pub mod flow;
pub mod measure;
pub mod overlay;
pub mod packet;
#[cfg(feature = "stack")]
pub mod stack;
mod world;

pub use world::{
    Arrival, Captured, Departure, Host, HostId, Impairments, LinkId, Route, RouteStats, SocketId,
    World, WorldStats,
};
