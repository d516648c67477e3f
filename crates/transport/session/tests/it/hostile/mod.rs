//! Peers that hold a ticket and do their worst: what they make an endpoint keep stays within the
//! bounds of `docs/protocol.md`.

mod acks;
mod bounds;
mod charges;
mod connections;
mod ids;
mod memory;
mod named;
mod peer;
mod repertoire;
mod table;
mod victim;
mod worst;
