//! The manyway registry: which relays there are, who may use them, and where peers behind NAT meet.
//!
//! [`Core`] decides, without sockets, clock and disk; [`store`] keeps leases in memory or in etcd;
//! [`server`] puts both behind HTTPS, and [`client`] is for relays and for those who look for
//! relays. `docs/registry.md` has the interface and the threats.

pub mod api;
pub mod client;
mod codes;
mod core;
mod fleet;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod key;
mod meetings;
mod problem;
pub mod server;
pub mod store;
pub mod tls;
mod tokens;
mod url;

pub use core::{Candidate, Core, Lease, Limits};
pub use fleet::{Fleet, Record};
pub use http::HttpError;
pub use key::{KeyError, RegistryKey};
pub use problem::Problem;
pub use tokens::{Role, Token, TokenFileError, Tokens};
pub use url::{PORT, RegistryUrl, UrlError};
