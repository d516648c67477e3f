//! Facts and timers from the operating system: interface addresses, routes, a precise timer, the
//! umask.
//!
//! Everything here degrades: where a system lacks a facility, the answer is "unknown", and the
//! endpoint works on.

pub(crate) mod addresses;
pub(crate) mod route;
pub(crate) mod timer;
pub(crate) mod umask;
