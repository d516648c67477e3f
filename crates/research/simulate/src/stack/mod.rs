//! Production sessions as hosts of a [`World`](crate::World): the real handshake, sealing, streams,
//! scheduler and congestion control over virtual links.

mod clock;
mod faults;
mod host;
mod pair;
mod pattern;
mod relay;
mod relayed;
mod traffic;

pub use clock::Clock;
pub use faults::{End, Fault, FaultPlan, PathPlan, What};
pub use host::SessionHost;
pub use pair::{PairPath, PairSpec, SessionPair};
pub use pattern::{fill, first_mismatch};
pub use relay::{Mischief, RelayHost};
pub use relayed::{Node, Relayed, RelayedSpec};
pub use traffic::{Content, Received, Source, Traffic, TrafficConfig};
