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
    /// Stream bytes sent again because a path lost or stalled them.
    pub bytes_resent: u64,
    /// The most stream bytes, holes included, that were received and not read at a time: what the
    /// receive window had to allow. Losses and paths of different delays raise it.
    pub most_unread: u64,
    /// Datagrams that couldn't be opened or parsed.
    pub packets_rejected: u64,
    /// Datagrams of the application.
    pub datagrams: DatagramStats,
    /// Every relay that the connection knows and hasn't given up (initiator only).
    pub relays: Vec<RelayStats>,
    /// The picked relays; `None` if all relays may be used.
    pub selection: Option<SelectionStats>,
    /// Every path, open or closed, in the order of their ids.
    pub paths: Vec<PathStats>,
}

/// Counts of the application's datagrams.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct DatagramStats {
    /// Those that left.
    pub sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Those that the application took.
    pub received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Those that waited too long to leave, and were dropped.
    pub expired: u64,
    /// Those that arrived, and that the application didn't take in time.
    pub dropped: u64,
}

/// A path's state, as users see it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PathState {
    /// The challenge hasn't been answered yet.
    Validating,
    /// The path carries data.
    Active,
    /// The path works and carries nothing new: the direct paths have as much without it. It is
    /// tried from time to time, and used as soon as no other path works.
    Standby,
    /// Probe timeouts have fired: the path is probed, and used only if there is no other one.
    Stalled,
    /// The path is closed.
    Closed,
}

impl PathState {
    /// Whether packets get through, as far as is known, and data may be sent.
    pub fn works(self) -> bool {
        matches!(self, PathState::Active | PathState::Standby)
    }
}

/// What carries a path's packets.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum CarrierKind {
    /// Datagrams, under our own congestion control.
    #[default]
    Udp,
    /// A TCP connection, under the kernel's.
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

/// How far a relay has come.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RelayState {
    /// It hasn't granted anything yet.
    Waiting,
    /// It would forward, but no path uses it.
    Available,
    /// A path leads through it.
    InUse,
}

/// The selection of relays at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectionStats {
    /// The number of wanted relays.
    pub wanted: usize,
    /// The picked relays.
    pub relays: Vec<SocketAddr>,
    /// The demand over all paths.
    pub demand: Option<Rate>,
    /// How many iterations were judged.
    pub iterations: u64,
    /// How many of them led to other relays.
    pub reselections: u64,
    /// The rate over all paths in the last iteration.
    pub rate: Option<Rate>,
    /// Whether that rate satisfied the demand.
    pub satisfied: Option<bool>,
}

/// A relay at one moment.
#[derive(Clone, Debug)]
pub struct RelayStats {
    /// Its address.
    pub address: SocketAddr,
    /// Its key.
    pub id: RelayId,
    /// How far it has come.
    pub state: RelayState,
    /// The latest RTT to the listener through it.
    pub rtt: Option<Duration>,
    /// Why it refused the last request, in words.
    pub refused: Option<String>,
}

/// What the measurement of a filled path found.
#[derive(Clone, Debug)]
pub struct PathSurvey {
    /// Its counters.
    pub path: PathStats,
    /// How long the measurement took.
    pub span: Duration,
    /// Bytes of UDP payload that arrived in that time.
    pub bytes_acked: u64,
    /// Bytes of UDP payload that were lost.
    pub bytes_lost: u64,
    /// The number of loss events.
    pub loss_events: u64,
    /// What its delays say about its queue; `None` if there were too few.
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
    /// Its carrier.
    pub carrier: CarrierKind,
    /// The rate limit that the source's rate controller has set, if any (on TCP only), in bytes/s.
    pub target: Option<f64>,
    /// The recent delivery rate (on TCP only), in bytes/s.
    pub delivers: Option<f64>,
    /// Whether it carries data.
    pub state: PathState,
    /// The smoothed RTT.
    pub rtt: Duration,
    /// The smallest RTT.
    pub min_rtt: Duration,
    /// The congestion window in packets; 0 on TCP, where the kernel has it.
    pub window: f64,
    /// Bytes of a full datagram (UDP payload), as found by path MTU discovery so far.
    pub packet_size: usize,
    /// The largest datagram of the application that such a packet has room for, in bytes; `None`
    /// if the connection has no datagrams. The path carries none if that is less than the
    /// connection's largest one.
    pub datagram: Option<usize>,
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
    /// Cuts of the window after losses.
    pub loss_events: u64,
    /// Probe timeouts.
    pub timeouts: u64,
    /// Open paths of the connection with the same number share a bottleneck, as far as congestion
    /// control knows: `auto` takes all paths for one group until their delays differ. `None` if
    /// the law forms no groups, and on TCP.
    pub group: Option<usize>,
}
