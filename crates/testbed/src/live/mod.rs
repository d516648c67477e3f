//! A link in real time between two network namespaces, behind a TUN device in each. Linux and root.

mod delays;
mod direction;
mod link;
mod os;

pub use delays::Delays;
pub use link::{End, Report, TunLink};
