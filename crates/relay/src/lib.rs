//! The manyway relay: forwards packets that carry a grant, and keeps nothing per flow.
//!
//! [`Relay`] decides, datagram by datagram, without sockets or a clock. `server` puts it on sockets. The protocol
//! and the threats are in `docs/relays.md`, the codecs in [`manyway_wire::relay`].

pub mod address;
pub mod bucket;
mod counters;
pub mod keys;
mod listeners;
mod relay;
mod reply;
#[cfg(feature = "server")]
pub mod server;

pub use counters::{Counters, Reason};
pub use keys::{Keys, KeysError};
pub use relay::{Action, Config, Relay};
pub use reply::Reply;
