//! What manyway asks of the system beyond std and POSIX: options of sockets, routes, interfaces,
//! precise timers, holes, extended attributes and names of files, TUN devices; and what an
//! endpoint, a relay and a registry share: a Unix clock that never jumps, how many files may be
//! open, whether a lost terminal ends a process, files with secrets. No protocol lives here.
//!
//! What only Linux has is here, with what other systems do instead beside it in the same file.
//! Where they lack something, the answer is "unknown" or "unsupported", and the caller works on.
//! `netlink` and `tun` exist on Linux alone.
//!
//! It is a crate of its own because relay and registry must build without the runtime.

mod clock;
pub mod congestion;
pub mod file;
mod hangup;
pub mod interface;
#[cfg(target_os = "linux")]
pub mod netlink;
mod open_files;
mod pipe;
pub mod route;
pub mod secret;
mod tcp;
mod timer;
#[cfg(target_os = "linux")]
pub mod tun;
pub mod udp;
mod umask;

pub use clock::{ClockCheck, UnixClock};
pub use hangup::ignores_hangup;
pub use open_files::open_files;
pub use pipe::SocketPipe;
pub use tcp::{limit_unsent, tcp_listener};
pub use timer::PreciseTimer;
pub use umask::umask;
