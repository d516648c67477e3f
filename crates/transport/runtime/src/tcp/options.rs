//! Socket options of TCP connections: congestion control, Nagle, unsent bytes.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use manyway_os::congestion;
use manyway_os::udp::bind_to_device;
use manyway_session::MAX_RECORD;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::TcpStream;

/// The kernel's queue of connections nobody has accepted yet.
const BACKLOG: i32 = 256;
/// Unsent bytes in the kernel: so much time at the path's rate, within these bounds.
const NOT_SENT_SECONDS: f64 = 0.05;
const NOT_SENT: [f64; 2] = [2.0 * MAX_RECORD as f64, 4.0 * 1024.0 * 1024.0];

/// The name of one of the kernel's congestion controls for TCP: `cubic`, `bbr`, `reno`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Congestion(String);

/// A congestion control that the kernel doesn't have, or that isn't one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CongestionError {
    /// Not a possible name.
    #[error(
        "`{0}` isn't the name of a kernel congestion control: write, for example, cubic, bbr or \
         reno"
    )]
    Name(String),
    /// The kernel says no.
    #[error(
        "the kernel doesn't give TCP connections the congestion control `{name}` ({error}); it \
         has: {available}. More may come with modules: modprobe tcp_{name}"
    )]
    Refused {
        /// What was asked for.
        name: String,
        /// The system's words.
        error: String,
        /// What the kernel offers.
        available: String,
    },
    /// It said yes and did something else.
    #[error(
        "the kernel was asked for the congestion control `{name}` and took `{found}`; it has: \
         {available}"
    )]
    Other {
        /// What was asked for.
        name: String,
        /// What it took.
        found: String,
        /// What the kernel offers.
        available: String,
    },
}

impl FromStr for Congestion {
    type Err = CongestionError;

    /// Any name that the kernel could know (TCP_CA_NAME_MAX is 16, with its end).
    fn from_str(text: &str) -> Result<Self, CongestionError> {
        let possible = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if text.is_empty() || text.len() > 15 || !text.chars().all(possible) {
            return Err(CongestionError::Name(text.into()));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Congestion {
    /// Whether the kernel has it, found out by asking for it.
    ///
    /// # Errors
    /// It hasn't, or there are no TCP sockets at all.
    pub fn check(&self) -> Result<(), CongestionError> {
        match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)) {
            Ok(socket) => self.apply(&SockRef::from(&socket)),
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// Sets it, and reads it back: a setsockopt that succeeds proves nothing (on an MPTCP socket
    /// any name does).
    fn apply(&self, socket: &SockRef<'_>) -> Result<(), CongestionError> {
        let found = congestion::set(socket, &self.0).map_err(|error| self.refused(&error))?;
        if found == self.0 {
            return Ok(());
        }
        Err(CongestionError::Other {
            name: self.0.clone(),
            found,
            available: available(),
        })
    }

    fn refused(&self, error: &io::Error) -> CongestionError {
        CongestionError::Refused {
            name: self.0.clone(),
            error: error.to_string(),
            available: available(),
        }
    }
}

fn available() -> String {
    congestion::available().map_or_else(|| "unknown".into(), |names| names.join(", "))
}

/// A socket that can be connected, from this address and by this device.
pub(crate) fn connecting(
    local: SocketAddr,
    device: Option<&str>,
    congestion: Option<&Congestion>,
) -> io::Result<Socket> {
    let socket = stream_socket(local, device)?;
    if let Some(congestion) = congestion {
        congestion
            .apply(&SockRef::from(&socket))
            .map_err(io::Error::other)?;
    }
    socket.bind(&local.into())?;
    Ok(socket)
}

/// A socket that listens at this address.
pub(crate) fn listening(local: SocketAddr, device: Option<&str>) -> io::Result<Socket> {
    let socket = stream_socket(local, device)?;
    // A listener that is started again finds its port in use by connections that have ended.
    socket.set_reuse_address(true)?;
    socket.bind(&local.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

fn stream_socket(local: SocketAddr, device: Option<&str>) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(local),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if local.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if let Some(device) = device {
        bind_to_device(&socket, device)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// What a connection is set to before it carries anything.
///
/// # Errors
/// The congestion control isn't what was asked for.
pub(crate) fn prepare(
    stream: &TcpStream,
    congestion: Option<&Congestion>,
) -> Result<(), CongestionError> {
    let socket = SockRef::from(stream);
    if let Some(congestion) = congestion {
        congestion.apply(&socket)?;
    }
    // Records leave when they are written: an ACK that waits for more holds the other side up.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY can't be set");
    }
    limit_unsent(stream, None);
    Ok(())
}

/// How much the kernel takes beyond what it can send: what it holds unsent can't go another way any
/// more. `rate` is in bytes/s.
pub(crate) fn limit_unsent(stream: impl std::os::fd::AsFd, rate: Option<f64>) {
    let bytes = (rate.unwrap_or(0.0) * NOT_SENT_SECONDS).clamp(NOT_SENT[0], NOT_SENT[1]);
    manyway_os::limit_unsent(&SockRef::from(&stream), bytes as u32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_it_is_an_error_that_lists_what_there_is() {
        let error = "nosuchcc"
            .parse::<Congestion>()
            .unwrap()
            .check()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("nosuchcc") && error.contains("it has: "),
            "{error}"
        );
        for wrong in ["", "a b", "sixteen-letters-", "../reno"] {
            assert!(wrong.parse::<Congestion>().is_err(), "{wrong}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_was_set_is_read_back() {
        // Reno is built into every kernel.
        let reno: Congestion = "reno".parse().unwrap();
        reno.check().unwrap();
        let socket = connecting(([127, 0, 0, 1], 0).into(), None, Some(&reno)).unwrap();
        assert!(socket.tcp_congestion().unwrap().starts_with(b"reno"));
    }
}
