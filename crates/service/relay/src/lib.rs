//! The manyway relay: forwards packets that carry a grant, and keeps no state per flow.
//!
//! [`Relay`] decides about each datagram and [`Gate`] about each TCP connection, without sockets or
//! a clock; the feature `server` adds both. The crate owns a relay's keys, rate limits and
//! counters. It never opens a sealed packet and never stores what it forwards. `docs/relays.md`
//! specifies the protocol and discusses the threats; [`manyway_wire::relay`] has the codecs.

mod account;
pub mod address;
pub mod bucket;
mod counters;
pub mod exposition;
pub mod gate;
pub mod invites;
pub mod keys;
mod listeners;
mod rates;
mod relay;
mod reply;
#[cfg(feature = "server")]
pub mod server;
mod stream_counters;
mod stream_limits;
mod usage;

pub use account::{AccountTag, NoAccount, Revoked};
pub use counters::{Counters, Reason};
pub use gate::Gate;
pub use invites::Invites;
pub use keys::{Keys, KeysError};
pub use rates::{Account, Rates};
pub use relay::{Action, Config, Relay};
pub use reply::Reply;
pub use stream_counters::{Ending, StreamCounters};
pub use stream_limits::StreamLimits;
