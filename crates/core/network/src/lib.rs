//! A clock-agnostic network model: links with a rate, a delay, a queue, losses and a timetable, and
//! paths over them.
//!
//! [`Link`] answers one question: a packet of so many bytes enters now, when does it come out, if
//! at all? It does no I/O and reads no clock. Under a virtual clock it is the simulator's network;
//! `manyway-testbed` runs it under the wall clock between UDP sockets.

mod config;
mod link;
mod loss;
mod packet;
mod queue;
mod random;
mod stats;
mod timetable;
mod topology;

pub use config::{InvalidLink, LinkConfig, LinkState};
pub use link::Link;
pub use loss::Loss;
pub use packet::{DropReason, Packet, Verdict};
pub use queue::{Limit, Queue, Red};
pub use stats::LinkStats;
pub use timetable::{Change, Timetable};
pub use topology::{InvalidTopology, NamedLink, Part, PathSpec, Topology};
