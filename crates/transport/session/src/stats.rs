use std::net::SocketAddr;
use std::time::Duration;

use manyway_control::bottleneck::Estimate;
use manyway_units::Rate;
use manyway_wire::PathId;
use manyway_wire::relay::RelayId;

/// A connection's counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct ConnectionStats {
    /// Stream bytes that the peer acknowledged, each counted once.
    pub bytes_acked: u64,
    /// Stream bytes sent, copies included.
    pub bytes_sent: u64,
    /// Stream bytes received, copies included.
    pub bytes_received: u64,
    /// Stream bytes that were sent again because a path lost or stalled them.
    pub bytes_resent: u64,
    /// Datagrams that didn't open or didn't parse.
    pub packets_rejected: u64,
    /// Every relay that was offered and hasn't been given up (initiator only).
    pub relays: Vec<RelayStats>,
    /// What has been picked of these; `None` if all of them may be used.
    pub selection: Option<SelectionStats>,
    /// Every path, open ones and those that closed, in the order of their ids.
    pub paths: Vec<PathStats>,
}

/// A path's state as the people who look at it would say it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PathState {
    /// Challenged, not answered yet.
    Validating,
    /// Carries data.
    Active,
    /// Probe timeouts go unanswered: probed, not used.
    Stalled,
    /// Over.
    Closed,
}

/// What carries a path's packets.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum CarrierKind {
    /// Datagrams under our own congestion control.
    #[default]
    Udp,
    /// A TCP connection, with the kernel's.
    Tcp,
}

impl std::fmt::Display for CarrierKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CarrierKind::Udp => "udp",
            CarrierKind::Tcp => "tcp",
        })
    }
}

/// How far it has come with a relay.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RelayState {
    /// It hasn't granted anything yet.
    Waiting,
    /// It would forward, and isn't used.
    Available,
    /// A path leads through it.
    InUse,
}

/// The choice of relays at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectionStats {
    /// So many relays are wanted.
    pub wanted: usize,
    /// Those that are picked.
    pub relays: Vec<SocketAddr>,
    /// What would satisfy, over all paths.
    pub demand: Option<Rate>,
    /// How often it was judged whether it does.
    pub iterations: u64,
    /// How often others were picked because it didn't.
    pub reselections: u64,
    /// What came through in the last of these iterations.
    pub rate: Option<Rate>,
    /// Whether that satisfied.
    pub satisfied: Option<bool>,
}

/// A relay at one moment.
#[derive(Clone, Debug)]
pub struct RelayStats {
    /// Where it is.
    pub address: SocketAddr,
    /// Who it is.
    pub id: RelayId,
    /// How far it has come.
    pub state: RelayState,
    /// The round-trip time to the listener through it, as it was last found.
    pub rtt: Option<Duration>,
    /// Why it granted nothing the last time, in words.
    pub refused: Option<String>,
}

/// What was seen of a path that was filled for a while.
#[derive(Clone, Debug)]
pub struct PathSurvey {
    /// Its counters.
    pub path: PathStats,
    /// How long was looked.
    pub span: Duration,
    /// Bytes of UDP payload that arrived in that time.
    pub bytes_acked: u64,
    /// Bytes of UDP payload that were lost.
    pub bytes_lost: u64,
    /// Times when something was lost.
    pub loss_events: u64,
    /// What its delays say of its queue; `None` if there were too few.
    pub estimate: Option<Estimate>,
    /// Paths with the same number share a bottleneck.
    pub group: usize,
}

/// One path's counters at one moment.
#[derive(Clone, Debug)]
pub struct PathStats {
    /// The path's id; never reused within a connection.
    pub id: PathId,
    /// The local socket's name (an interface or address).
    pub name: String,
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address, or the relay's.
    pub remote: SocketAddr,
    /// Whether the path leads through a relay.
    pub relay: bool,
    /// What carries its packets.
    pub carrier: CarrierKind,
    /// The rate that the path is held to, if the source's rate controller has set one (on TCP
    /// only), in bytes/s.
    pub target: Option<f64>,
    /// The rate at which it has been delivering (on TCP only), in bytes/s.
    pub delivers: Option<f64>,
    /// Whether it carries data.
    pub state: PathState,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Smallest round-trip time seen.
    pub min_rtt: Duration,
    /// Congestion window in packets; 0 on TCP, where it is the kernel's.
    pub window: f64,
    /// Bytes of a full datagram (UDP payload), as far as path MTU discovery has got.
    pub packet_size: usize,
    /// UDP payload bytes sent and neither acknowledged nor lost.
    pub bytes_in_flight: u64,
    /// UDP payload bytes sent.
    pub bytes_sent: u64,
    /// UDP payload bytes received.
    pub bytes_received: u64,
    /// Stream bytes sent on this path, copies included.
    pub stream_bytes_sent: u64,
    /// Stream bytes received on this path, copies included.
    pub stream_bytes_received: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Window cuts after losses.
    pub loss_events: u64,
    /// Probe timeouts.
    pub timeouts: u64,
}
