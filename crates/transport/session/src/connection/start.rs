use std::net::SocketAddr;
use std::time::Duration;

use crate::carrier::Facts;
use crate::driver::Local;
use crate::handshake::{Established, Places};
use crate::relays::RelayClient;

use super::paths::{NamedInAll, PathMemory, RelayHeader};

/// What a connection starts from, once the handshake is through.
pub(crate) struct Start {
    pub(crate) initiator: bool,
    pub(crate) established: Established,
    /// Path 0's addresses: those of the handshake.
    pub(crate) local: Local,
    pub(crate) remote: SocketAddr,
    /// The handshake has shown that the peer is there.
    pub(crate) validated: bool,
    /// All pairs of addresses that the handshake was answered between (listener only).
    pub(crate) places: Places,
    /// Of what path 0 runs on.
    pub(crate) facts: Facts,
    pub(crate) rtt: Option<Duration>,
    /// Path 0 leads through a relay.
    pub(crate) relay: Option<RelayHeader>,
    /// Sockets and the peer's addresses: the pairs the initiator tries.
    pub(crate) locals: Vec<Local>,
    pub(crate) remotes: Vec<SocketAddr>,
    /// Of what the peer must not foresee.
    pub(crate) secrets: [u8; 32],
    /// Of choices that nobody gains by foreseeing.
    pub(crate) choices: [u8; 16],
    /// What all connections may send to addresses that their peers name.
    pub(crate) named_in_all: NamedInAll,
    /// What earlier paths carried.
    pub(crate) memory: PathMemory,
    /// What the initiator knows of relays by now.
    pub(crate) relays: Option<RelayClient>,
}
