//! The manyway registry: which relays there are, who may use them, where peers behind NAT meet, and
//! how a one-time code leads to a ticket.
//!
//! It owns the list of enrolled relays, their leases, vouchers, meetings and mailboxes. It never
//! forwards a packet and never learns a session's secrets. [`Core`] decides without sockets, clock
//! or disk; [`store`] keeps leases in memory or in etcd; [`server`] serves both over HTTPS;
//! [`client`] is for relays, for those who look for relays and for both ends of a code; without the
//! feature `server` the crate is only that. `docs/registry.md` specifies the interface and
//! discusses the threats.

#[cfg(feature = "server")]
mod accounts;
pub mod api;
pub mod client;
mod code;
#[cfg(feature = "server")]
mod codes;
#[cfg(feature = "server")]
mod core;
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod fuzzing;
mod hkdf;
mod http;
#[cfg(feature = "server")]
mod key;
#[cfg(feature = "server")]
mod mailboxes;
#[cfg(feature = "server")]
mod meetings;
mod pairing;
#[cfg(feature = "server")]
mod problem;
#[cfg(feature = "server")]
mod relay_table;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod store;
pub mod tls;
mod tokens;
mod url;

pub use code::{Code, CodeError, Words};
#[cfg(feature = "server")]
pub use core::{Candidate, Core, Lease, Limits};
pub use http::HttpError;
#[cfg(feature = "server")]
pub use key::{KeyError, RegistryKey};
#[cfg(feature = "server")]
pub use problem::Problem;
#[cfg(feature = "server")]
pub use relay_table::{Record, RelayTable};
pub use tokens::{Role, Token, TokenFileError, Tokens};
pub use url::{PORT, RegistryUrl, UrlError};
