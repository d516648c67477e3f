//! A clock-agnostic network model: links with a rate, a delay, a queue and losses.
//!
//! [`Link`] answers one question: a packet of so many bytes enters now, when does it come out, if at all? Under a virtual clock
//! that is the simulator's network; under the wall clock, behind UDP sockets (the module `udp`, feature `udp`), it is an emulator.

mod link;
mod topology;
#[cfg(feature = "udp")]
pub mod udp;

pub use topology::{NamedLink, PathSpec, Topology};
pub use link::{DropReason, InvalidLink, Limit, Link, LinkConfig, LinkStats, Queue, Verdict};
