//! What a relay does, on real sockets and without.

mod common;
mod expiry;
mod load;
mod model;
mod security;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod stream_server;
mod streams;
