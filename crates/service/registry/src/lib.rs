//! The manyway registry: which relays there are, who may use them, and where peers behind NAT meet.
//!
//! It owns the list of enrolled relays, their leases, vouchers and meetings. It never forwards a
//! packet and never learns a session's secrets. [`Core`] decides without sockets, clock or disk;
//! [`store`] keeps leases in memory or in etcd; [`server`] serves both over HTTPS; [`client`] is
//! for relays and for those who look for relays. `docs/registry.md` specifies the interface and
//! discusses the threats.

pub mod api;
pub mod client;
mod codes;
mod core;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod key;
mod meetings;
mod problem;
mod relay_table;
pub mod server;
pub mod store;
pub mod tls;
mod tokens;
mod url;

pub use core::{Candidate, Core, Lease, Limits};
pub use http::HttpError;
pub use key::{KeyError, RegistryKey};
pub use problem::Problem;
pub use relay_table::{Record, RelayTable};
pub use tokens::{Role, Token, TokenFileError, Tokens};
pub use url::{PORT, RegistryUrl, UrlError};
