//! The manyway relay: forwards packets that carry a grant, and keeps nothing per flow.
//!
//! [`Relay`] decides, datagram by datagram, and [`Gate`] about TCP connections, without sockets or
//! a clock. `server` puts them on sockets. The protocol and the threats are in `docs/relays.md`,
//! the codecs in [`manyway_wire::relay`].

pub mod address;
pub mod bucket;
mod counters;
pub mod gate;
pub mod keys;
mod listeners;
mod rates;
mod relay;
mod reply;
#[cfg(feature = "server")]
pub mod server;
mod stream_counters;
mod stream_limits;

pub use counters::{Counters, Reason};
pub use gate::Gate;
pub use keys::{Keys, KeysError};
pub use rates::Rates;
pub use relay::{Action, Config, Relay};
pub use reply::Reply;
pub use stream_counters::{Ending, StreamCounters};
pub use stream_limits::StreamLimits;
