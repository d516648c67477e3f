//! What was observed while nobody answered an attempt to connect.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use manyway_session::RelayContact;

use crate::problem::PathProblem;

/// What was observed while nobody answered. It draws no conclusion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unanswered {
    /// The ticket's addresses.
    pub addresses: Vec<SocketAddr>,
    /// The local addresses with a socket.
    pub locals: Vec<IpAddr>,
    /// Whether this side uses UDP.
    pub udp: bool,
    /// What is known to stand in the way of UDP, for pairs of a local address with one of the
    /// ticket's or of a relay.
    pub problems: Vec<PathProblem>,
    /// What came of TCP connections, if any were tried.
    pub tcp: Vec<TcpOutcome>,
    /// What the ticket's relays said, as far as this side has access to them.
    pub relays: Vec<RelayContact>,
    /// The ticket's relays that this side has no access to.
    pub closed_relays: Vec<SocketAddr>,
}

/// What came of TCP connections to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpOutcome {
    /// The address.
    pub remote: SocketAddr,
    /// A relay is there, which was to connect us with the listener.
    pub relay: bool,
    /// The best of it.
    pub result: TcpResult,
}

/// What came of a TCP connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TcpResult {
    /// It was set up, and then nothing came.
    Connected,
    /// Nobody listens at the port.
    Refused,
    /// Something on the way says that it can't be reached.
    Unreachable,
    /// Nothing came back.
    Silent,
    /// This host's own tables have no way there from the interface.
    NoRoute,
    /// Something else, in words.
    Other(String),
}

impl TcpResult {
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::Unreachable,
            io::ErrorKind::TimedOut => Self::Silent,
            _ => Self::Other(error.to_string()),
        }
    }
}

impl fmt::Display for TcpResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connected => "connected, but no answer came",
            Self::Refused => "connection refused",
            Self::Unreachable => "unreachable",
            Self::NoRoute => "no route",
            Self::Silent => "no answer",
            Self::Other(words) => words,
        })
    }
}

impl std::error::Error for Unanswered {}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        match addresses.is_empty() {
            true => f.write_str("no answer: the ticket has no address")?,
            false => write!(f, "no answer from {}", addresses.join(", "))?,
        }
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        for TcpOutcome {
            remote,
            relay,
            result,
        } in &self.tcp
        {
            let relay = if *relay { "the relay at " } else { "" };
            write!(f, "\n  TCP to {relay}{remote}: {result}")?;
        }
        for contact in &self.relays {
            write!(f, "\n  {contact}")?;
        }
        for relay in &self.closed_relays {
            write!(f, "\n  the relay at {relay}: this side has no access to it")?;
        }
        Ok(())
    }
}
