//! What a session, a relay and a registry ask of the system alike.

mod clock;
pub mod secret;
pub mod udp;

pub use clock::UnixClock;
