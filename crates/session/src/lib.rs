//! The manyway session protocol, sans-IO.

pub mod crypto;
pub mod handshake;
pub mod streams;
