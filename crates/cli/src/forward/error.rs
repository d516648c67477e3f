//! Why a pipe or a connection ends that is no end of its own.

use std::{error, fmt, io};

use manyway::{ConnectionLost, ReadError, WriteError};
use manyway_wire::forward::Code;

/// The other side doesn't do what it was asked.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(super) reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason.as_str() {
            "" => f.write_str("the peer refused without a reason"),
            reason => f.write_str(reason),
        }
    }
}

impl error::Error for Refusal {}

/// The other side can't listen where it did for a connection that is lost: until it has noticed
/// that, the lost connection holds the port.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PortHeld(#[source] pub(super) Refusal);

/// Standard output goes to a disk that is full or fails.
#[derive(Debug, thiserror::Error)]
#[error("can't write to standard output")]
pub(crate) struct DiskFailed(#[source] pub(super) io::Error);

/// Why a spliced connection was reset.
#[derive(Debug)]
pub(crate) enum Cut {
    /// On this side's TCP connection.
    Tcp(io::Error),
    /// The other side's TCP connection was reset.
    Peer,
    /// The connection between both sides is over.
    Lost(ConnectionLost),
}

impl Cut {
    pub(super) fn of(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(ConnectionLost(reason)) => Self::Lost(ConnectionLost(reason.clone())),
            None => Self::Peer,
        }
    }

    pub(super) fn stopped(stopped: Result<Option<u64>, ConnectionLost>) -> Self {
        stopped.map_or_else(Self::Lost, |_| Self::Peer)
    }

    pub(super) fn read(error: ReadError) -> Self {
        match error {
            ReadError::Lost(lost) => Self::Lost(lost),
            ReadError::Reset(_) | ReadError::Closed => Self::Peer,
        }
    }

    pub(super) fn write(error: WriteError) -> Self {
        match error {
            WriteError::Lost(lost) => Self::Lost(lost),
            WriteError::Stopped(_) | WriteError::Closed => Self::Peer,
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(error) => write!(f, "a TCP connection ended here: {error}"),
            Self::Peer => f.write_str("the TCP connection was reset on the other side"),
            Self::Lost(lost) => lost.fmt(f),
        }
    }
}

impl error::Error for Cut {}
