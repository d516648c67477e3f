//! Peers that hold a ticket and do their worst: what they make an endpoint keep stays within the
//! bounds of `docs/protocol.md`.

mod acks;
mod bounds;
mod charges;
mod connections;
mod cpu;
mod datagrams;
mod eviction;
mod frames;
mod ids;
pub(crate) mod memory;
mod named;
pub(crate) mod peer;
mod repertoire;
mod table;
pub(crate) mod victim;
mod worst;
