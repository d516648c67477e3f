//! Production sessions as hosts of a [`World`](crate::World): the real handshake, sealing, streams,
//! scheduler and congestion control over virtual links.
//!
//! [`Simulation`] runs a scenario's flows in this way: the stack level.

mod clock;
mod faults;
mod files;
mod host;
mod node;
mod pair;
mod pattern;
mod relay;
mod relayed;
mod simulation;
mod traffic;

pub use clock::Clock;
pub use faults::{End, Fault, FaultPlan, PathPlan, What};
pub use files::Files;
pub use host::SessionHost;
pub use node::Node;
pub use pair::{PairPath, PairSpec, SessionPair};
pub use relay::{Mischief, RelayHost};
pub use relayed::{Relayed, RelayedSpec, Uplink};
pub use simulation::{Simulation, StackError};
pub use traffic::{Content, FileTraffic, Pace, Received, Source, Traffic, TrafficConfig};
