//! TCP carriers: connections that carry a session's packets as records where UDP is blocked or not
//! wanted.
//!
//! The initiator dials; the listener accepts on the port of its UDP sockets. Each connection runs
//! in a task of its own ([`carrier`]), which reads without pause, so that only the session's flow
//! control holds a sender back, and writes what the driver hands over.

pub(crate) mod carrier;
pub(crate) mod dial;
pub(crate) mod listen;
pub(crate) mod options;
pub(crate) mod outbox;
pub(crate) mod relay_accept;

use std::fmt;
use std::str::FromStr;

pub use options::{Congestion, CongestionError};

/// Which carriers an endpoint uses.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Carriers {
    /// UDP alone.
    #[default]
    Udp,
    /// TCP alone.
    Tcp,
    /// UDP, and TCP where UDP doesn't get through.
    Auto,
}

/// An unknown name of carriers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a carrier: choose tcp, udp or auto")]
pub struct CarriersError(String);

impl FromStr for Carriers {
    type Err = CarriersError;

    fn from_str(text: &str) -> Result<Self, CarriersError> {
        match text {
            "udp" => Ok(Self::Udp),
            "tcp" => Ok(Self::Tcp),
            "auto" => Ok(Self::Auto),
            other => Err(CarriersError(other.into())),
        }
    }
}

impl fmt::Display for Carriers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Auto => "auto",
        })
    }
}

/// What an endpoint does about TCP.
#[derive(Clone, Debug, Default)]
pub struct TcpOptions {
    /// Whether it is used at all.
    pub carriers: Carriers,
    /// The kernel's congestion control for its connections; the system's default if there is none.
    pub congestion: Option<Congestion>,
}
