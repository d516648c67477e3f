//! Two endpoints over loopback addresses, through the public API only.

mod carriers;
mod common;
mod ends;
mod links;
mod moving;
mod refusals;
mod relay;
mod relayed;
mod throttle;
mod transfer;
