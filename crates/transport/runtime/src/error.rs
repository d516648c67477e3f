use std::io;
use std::net::{IpAddr, SocketAddr};

use manyway_session::{CloseReason, ConfigError};

use crate::tcp::CongestionError;
use crate::unanswered::Unanswered;

/// Why an endpoint could not be bound, or a path not be added to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// No interface of that name.
    #[error("there is no interface `{name}`: choose one of {available}")]
    NoInterface {
        /// The name that was asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// The interface has no address that a peer could answer.
    #[error(
        "interface `{name}` is down or has no usable address (link-local ones don't count): bring \
         it up, or choose one of {available}"
    )]
    Unusable {
        /// The interface.
        name: String,
        /// What there is.
        available: String,
    },
    /// The directory for logs can't be made.
    #[error("can't make the directory {dir} for qlog files: {error}", dir = dir.display())]
    Log {
        /// The directory.
        dir: std::path::PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// No interface that is up has that address.
    #[error("no interface that is up has the address {ip}: choose one of {available}")]
    NoAddress {
        /// The address that was asked for.
        ip: IpAddr,
        /// What there is.
        available: String,
    },
    /// An address can't be bound.
    #[error(
        "can't bind {addr}{}: {error}{}",
        device.as_ref().map(|d| format!(" on {d}")).unwrap_or_default(),
        remedy(error)
    )]
    Socket {
        /// The address.
        addr: SocketAddr,
        /// The device, where one was named.
        device: Option<String>,
        /// The system's words.
        #[source]
        error: io::Error,
    },
    /// The system's interfaces can't be listed.
    #[error("can't list the network interfaces: {0}")]
    Interfaces(#[source] io::Error),
    /// The thread that serves the sockets can't be started.
    #[error("can't start a thread for the sockets: {0}")]
    Thread(#[source] io::Error),
    /// The system's source of randomness failed.
    #[error("the system gave no random numbers for keys")]
    Random,
    /// The configuration can't work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The kernel hasn't got the congestion control that TCP connections are to have.
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    /// The endpoint was closed.
    #[error("the endpoint is closed")]
    Closed,
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program uses the port: choose another, or 0 for any",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need privileges: choose a higher one"
        }
        _ => "",
    }
}

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No address answered.
    #[error(transparent)]
    TimedOut(Box<Unanswered>),
    /// The ticket can't be used from here.
    #[error(transparent)]
    Ticket(#[from] manyway_session::ConnectError),
    /// The connection ended before it was established.
    #[error("not connected: {0}")]
    Ended(#[source] CloseReason),
    /// The endpoint was closed.
    #[error("not connected: the endpoint is closed")]
    Closed,
}

/// The connection is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is over: {0}")]
pub struct ConnectionLost(#[source] pub CloseReason);

impl From<ConnectionLost> for io::Error {
    fn from(lost: ConnectionLost) -> Self {
        let kind = match &lost.0 {
            CloseReason::Local => io::ErrorKind::ConnectionAborted,
            CloseReason::Peer { .. } => io::ErrorKind::ConnectionReset,
            CloseReason::TimedOut { .. } | CloseReason::ConnectTimedOut { .. } => {
                io::ErrorKind::TimedOut
            }
            CloseReason::Protocol(_) | CloseReason::Crypto(_) => io::ErrorKind::InvalidData,
            CloseReason::OtherVersion { .. } => io::ErrorKind::Unsupported,
            CloseReason::Overloaded(_) => io::ErrorKind::OutOfMemory,
        };
        io::Error::new(kind, lost)
    }
}

/// Why a datagram can't be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatagramError {
    /// One of the sides hasn't set [`Config::datagram`](crate::Config::datagram).
    #[error("the two sides don't exchange datagrams")]
    Unsupported,
    /// It is larger than either side wants.
    #[error("a datagram has at most {max} bytes")]
    TooLarge {
        /// Most bytes of one.
        max: usize,
    },
    /// The connection is over.
    #[error(transparent)]
    Lost(#[from] ConnectionLost),
}

impl From<manyway_session::DatagramError> for DatagramError {
    fn from(error: manyway_session::DatagramError) -> Self {
        use manyway_session::DatagramError::{Blocked, Closed, TooLarge, Unsupported};
        match error {
            Unsupported => Self::Unsupported,
            TooLarge { max } => Self::TooLarge { max },
            Blocked | Closed => Self::Lost(ConnectionLost(CloseReason::Local)),
        }
    }
}

/// Why nothing can be written to a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The peer doesn't want the stream's bytes.
    #[error("the peer stopped reading the stream (code {0})")]
    Stopped(u64),
    /// It was finished or reset before.
    #[error("the stream is already finished or reset")]
    Closed,
    /// The connection is over.
    #[error(transparent)]
    Lost(#[from] ConnectionLost),
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Lost(lost) => lost.into(),
            WriteError::Stopped(_) => io::Error::new(io::ErrorKind::BrokenPipe, error),
            WriteError::Closed => io::Error::new(io::ErrorKind::NotConnected, error),
        }
    }
}

/// Why nothing can be read from a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The peer gave the stream up.
    #[error("the peer reset the stream (code {0})")]
    Reset(u64),
    /// It was stopped before.
    #[error("reading was already stopped")]
    Closed,
    /// The connection is over.
    #[error(transparent)]
    Lost(#[from] ConnectionLost),
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Lost(lost) => lost.into(),
            ReadError::Reset(_) => io::Error::new(io::ErrorKind::ConnectionReset, error),
            ReadError::Closed => io::Error::new(io::ErrorKind::NotConnected, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unanswered::{TcpOutcome, TcpResult};

    #[test]
    fn errors_name_the_thing_and_the_remedy() {
        let addr = "192.0.2.1:80".parse().unwrap();
        let error = BindError::Socket {
            addr,
            device: Some("eth0".into()),
            error: io::ErrorKind::AddrInUse.into(),
        };
        assert!(
            error
                .to_string()
                .starts_with("can't bind 192.0.2.1:80 on eth0: "),
            "{error}"
        );
        assert!(
            error.to_string().ends_with("choose another, or 0 for any"),
            "{error}"
        );
        let source = std::error::Error::source(&error);
        let source: Option<&io::Error> = source.and_then(|source| source.downcast_ref());
        assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::AddrInUse));
        let error = ConnectError::TimedOut(Box::new(Unanswered {
            addresses: vec![addr, "[::1]:9".parse().unwrap()],
            tcp: vec![TcpOutcome {
                remote: addr,
                relay: false,
                result: TcpResult::Refused,
            }],
            ..Unanswered::default()
        }));
        assert_eq!(
            error.to_string(),
            "no answer from 192.0.2.1:80, [::1]:9\n  TCP to 192.0.2.1:80: connection refused"
        );
    }

    #[test]
    fn stream_errors_keep_their_meaning_as_io_errors() {
        let lost = |reason| io::Error::from(WriteError::Lost(ConnectionLost(reason)));
        assert_eq!(
            lost(CloseReason::Local).kind(),
            io::ErrorKind::ConnectionAborted
        );
        let source = ConnectionLost(CloseReason::Local);
        let source = std::error::Error::source(&source).map(ToString::to_string);
        assert_eq!(source, Some(CloseReason::Local.to_string()));
        let timed_out = lost(CloseReason::TimedOut {
            seconds: 30,
            paths: 2,
            offline: false,
        });
        assert_eq!(timed_out.kind(), io::ErrorKind::TimedOut);
        assert!(timed_out.to_string().contains("30 s"), "{timed_out}");
        assert_eq!(
            io::Error::from(WriteError::Stopped(7)).kind(),
            io::ErrorKind::BrokenPipe
        );
        let reset: io::Error = ReadError::Reset(9).into();
        assert_eq!(
            reset.get_ref().and_then(|e| e.downcast_ref()),
            Some(&ReadError::Reset(9))
        );
    }
}
