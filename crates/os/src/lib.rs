//! System calls that an endpoint, a relay and a registry share: socket options, a Unix clock
//! that never jumps, how many files may be open, whether a lost terminal ends a process, files with
//! secrets; and TUN devices, for tunnels and testbeds. No protocol lives here.
//!
//! It is a crate of its own because relay and registry must build without the runtime.

mod clock;
mod files;
mod hangup;
#[cfg(target_os = "linux")]
pub mod netlink;
mod pipe;
pub mod secret;
mod tcp;
#[cfg(target_os = "linux")]
pub mod tun;
pub mod udp;

pub use clock::UnixClock;
pub use files::open_files;
pub use hangup::ignores_hangup;
pub use pipe::SocketPipe;
pub use tcp::{limit_unsent, tcp_listener};
