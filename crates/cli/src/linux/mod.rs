//! The commands that only Linux can carry out: tunnels, testbeds and live networks. On other
//! systems they fail with a sentence that says so.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(all(feature = "research", target_os = "linux"))]
mod live;
#[cfg(all(feature = "research", target_os = "linux"))]
mod testbed;
#[cfg(target_os = "linux")]
mod tun;

#[cfg(not(target_os = "linux"))]
pub(crate) use self::elsewhere::*;
#[cfg(all(feature = "research", target_os = "linux"))]
pub(crate) use self::live::{Live, isolated};
#[cfg(all(feature = "research", target_os = "linux"))]
pub(crate) use self::testbed::run as testbed;
#[cfg(target_os = "linux")]
pub(crate) use self::tun::run as tun;
