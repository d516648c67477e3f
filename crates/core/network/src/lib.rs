//! A clock-agnostic network model: links with a rate, a delay, a queue, losses and a timetable, and
//! paths over them.
//!
//! This crate owns the vocabulary of links and queues ([`LinkConfig`], [`Queue`], [`Loss`],
//! [`Timetable`]) and the model behind it. [`Link`] answers one question: a packet of so many bytes
//! enters now, when does it come out, if at all? (Queues that decide when packets leave them answer
//! later.) The crate does no I/O, reads no clock and moves no
//! packets: the simulator does that under a virtual clock, `manyway-testbed` under the wall clock.

mod config;
mod held_back;
mod invalid;
mod link;
mod loss;
mod packet;
mod policer;
mod queue;
mod random;
mod stats;
mod timetable;
mod topology;
mod trace;
mod varying;

pub use config::{Late, LinkConfig, LinkState};
pub use held_back::HeldBack;
pub use invalid::InvalidLink;
pub use link::{FluidStats, Link};
pub use loss::Loss;
pub use packet::{DropReason, Packet, Ticket, Verdict};
pub use policer::Policer;
pub use queue::{CLASSES, CoDel, Drr, DualPi2, FqCoDel, Limit, Pie, Priority, Queue, Red};
pub use stats::LinkStats;
pub use timetable::{Change, Timetable};
pub use topology::{InvalidTopology, NamedLink, Part, PathSpec, Topology};
pub use trace::{InvalidTrace, Trace};
pub use varying::{Outages, Varying};
