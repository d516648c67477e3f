//! Production sessions as hosts of a [`World`](crate::World): the real handshake, sealing, streams,
//! scheduler and congestion control over virtual links.
//!
//! [`Simulation`] runs a scenario's flows in this way: the stack level.

mod clock;
mod faults;
mod host;
mod pair;
mod pattern;
mod relay;
mod relayed;
mod simulation;
mod traffic;

pub use clock::Clock;
pub use faults::{End, Fault, FaultPlan, PathPlan, What};
pub use host::SessionHost;
pub use pair::{PairPath, PairSpec, SessionPair};
pub use relay::{Mischief, RelayHost};
pub use relayed::{Node, Relayed, RelayedSpec};
pub use simulation::{Simulation, StackError};
pub use traffic::{Content, Pace, Received, Source, Traffic, TrafficConfig};
