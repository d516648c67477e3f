//! System calls that an endpoint, a relay and a registry share: UDP socket options, a Unix clock
//! that never jumps, files with secrets. No protocol lives here.
//!
//! It is a crate of its own because relay and registry must build without the runtime.

mod clock;
pub mod secret;
pub mod udp;

pub use clock::UnixClock;
