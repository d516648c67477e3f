//! Endpoints and relays on loopback addresses, through the public API only.

mod carriers;
mod common;
mod ends;
mod lifetimes;
mod links;
mod moving;
mod named;
mod refusals;
mod relay;
mod relayed;
mod tcp_relay;
mod throttle;
mod transfer;
mod turns;
