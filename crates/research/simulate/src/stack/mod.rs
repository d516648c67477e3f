//! Production sessions as hosts of a [`World`](crate::World): the real handshake, sealing, streams,
//! scheduler and congestion control over virtual links.

mod host;
mod pair;
mod pattern;
mod relay;
mod relayed;
mod traffic;

pub use host::SessionHost;
pub use pair::{PairPath, PairSpec, SessionPair};
pub use pattern::{fill, first_mismatch};
pub use relay::{Mischief, RelayHost};
pub use relayed::{Node, Relayed, RelayedSpec};
pub use traffic::{Content, Received, Source, Traffic, TrafficConfig};
