use std::net::SocketAddr;

pub use manyway_wire::MAX_RECORD;

use crate::driver::{ConnectionHandle, Local};

/// What a path declares of what carries its packets. The session cares about nothing else.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What is handed over arrives, or the carrier breaks.
    pub reliable: bool,
    /// It arrives in the order in which it was handed over.
    pub ordered: bool,
    /// It controls congestion itself: no window, pacing or loss detection of ours.
    pub own_control: bool,
    /// The largest packet that it takes, in bytes.
    pub max_packet: usize,
    /// A relay passes it on: for those who look at the paths.
    pub relay: bool,
}

impl Facts {
    /// Datagrams over a network: UDP.
    pub fn datagrams(max_packet: usize) -> Self {
        Self {
            reliable: false,
            ordered: false,
            own_control: false,
            max_packet,
            relay: false,
        }
    }

    /// A byte stream that carries packets of up to 16 KiB as records: TCP.
    pub fn stream() -> Self {
        Self {
            reliable: true,
            ordered: true,
            own_control: true,
            max_packet: MAX_RECORD,
            relay: false,
        }
    }

    /// Whether the session has a sender for this.
    pub(crate) fn is_carrier(&self) -> bool {
        self.reliable && self.ordered && self.own_control && self.max_packet <= MAX_RECORD
    }
}

/// What carries the packets of one path, and was set up by the driver: a TCP connection.
///
/// It has a [`Local`] of its own, with an id that no socket has: datagrams that come in and go out
/// name it by that.
#[derive(Clone, Debug)]
pub struct Carrier {
    /// Its number and name; its own end's address.
    pub local: Local,
    /// The other end's address.
    pub remote: SocketAddr,
    /// What it promises.
    pub facts: Facts,
    /// What it is for.
    pub purpose: Purpose,
}

/// What a carrier is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A peer set it up; its first packets will tell.
    Accepted,
    /// A path of this connection, or of this attempt to connect.
    Dialled(ConnectionHandle),
}

/// Why a carrier can't be used.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CarrierError {
    /// It isn't what the session has a sender for.
    #[error(
        "a carrier has to be reliable and ordered, control congestion itself, and take packets of \
         at most 16 KiB"
    )]
    Facts,
    /// Its number is that of a socket or another carrier.
    #[error("its number is taken")]
    Taken,
    /// The connection is over, or was opened by the peer, who alone opens paths.
    #[error("no connection of ours needs it")]
    Unwanted,
}
