//! What happens to packets, for logs: an observer is told at once, and without one nothing is kept.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_units::Time;
use manyway_wire::PathId;

/// Something that happened to a packet of a path, or by it. Numbers are those on the wire.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PacketEvent {
    /// A packet left.
    Sent {
        /// Its number.
        number: u64,
        /// Bytes of UDP payload, or of a record on a carrier.
        bytes: usize,
        /// Whether the peer acknowledges it.
        ack_eliciting: bool,
    },
    /// A packet arrived and is authentic.
    Received {
        /// Its number.
        number: u64,
        /// Bytes of UDP payload, or of a record on a carrier.
        bytes: usize,
    },
    /// The peer has acknowledged one that was sent.
    Acked {
        /// Its number.
        number: u64,
    },
    /// One that was sent counts as lost.
    Lost {
        /// Its number.
        number: u64,
    },
    /// What congestion control knows after acknowledgements and losses.
    Metrics {
        /// The congestion window, in bytes; 0 on a carrier.
        window: u64,
        /// Bytes in flight.
        in_flight: u64,
        /// Smoothed round-trip time.
        smoothed: Duration,
        /// The newest round-trip time.
        latest: Duration,
        /// The shortest round-trip time.
        min: Duration,
    },
}

/// Is told of a path's packets, within the calls that drive the connection: it must not wait.
/// Dropped with the path.
pub trait Observer: fmt::Debug + Send + Sync {
    /// This happened on the path.
    fn observe(&self, now: Time, event: PacketEvent);
}

/// A path that opens.
#[derive(Copy, Clone, Debug)]
pub struct NewPath<'a> {
    /// Its id; never reused within a connection.
    pub id: PathId,
    /// The local socket's name (an interface or address).
    pub name: &'a str,
    /// The peer's address, or the relay's.
    pub remote: SocketAddr,
}

/// Makes an observer for each path of a connection. Dropped with the connection.
pub trait PathObservers: fmt::Debug + Send + Sync {
    /// A path opens.
    fn of_path(&self, now: Time, path: NewPath<'_>) -> Box<dyn Observer>;
}

/// Makes the observers of each connection.
#[derive(Clone)]
pub struct Observers(Arc<dyn Fn(bool) -> Box<dyn PathObservers> + Send + Sync>);

impl Observers {
    /// `make` is called with whether we are the connection's initiator.
    pub fn new(make: impl Fn(bool) -> Box<dyn PathObservers> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    pub(crate) fn of_connection(&self, initiator: bool) -> Box<dyn PathObservers> {
        (self.0)(initiator)
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observers")
    }
}
