use std::time::Duration;

use manyway_control::bottleneck::BottleneckConfig;
use manyway_control::rate_control::{InvalidConfig, LiveConfig, LiveSelector, RateConfig};
use manyway_control::{LawSpec, Scheduler, SlowStartKind};
use manyway_units::Rate;

use crate::crypto::Suite;
use crate::handshake::Identity;
use crate::observe::Observers;
use crate::streams::StreamsConfig;

/// Bytes the peer may send before the first window update.
const INITIAL_RECEIVE_WINDOW: u64 = 4 << 20;

/// What a packet has beside a datagram of the application, and to spare, in bytes: headers, tag, a
/// relay's grant.
const DATAGRAM_OVERHEAD: usize = 100;

/// How an endpoint's connections behave. Both sides may differ in everything but [`Config::suite`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Largest UDP payload sent and accepted, in bytes. Each path looks for the largest that it
    /// carries, up to this, what the peer accepts and what the interface takes.
    pub max_datagram: usize,
    /// UDP payload that a path starts with, in bytes; 1200 passes every path worth having. As large
    /// as `max_datagram`, it is what every packet has: nothing is looked for.
    pub initial_datagram: usize,
    /// Congestion-control law; [`LawSpec::background`] for transfers that give way to everybody
    /// else.
    pub cc: LawSpec,
    /// Which path carries the next packet of data that this side sends.
    pub scheduler: Scheduler,
    /// How a subflow's slow start ends.
    pub slow_start: SlowStartKind,
    /// Spread packets over the round trip instead of sending on each ACK at once, unless the law
    /// forbids it ([`Capabilities::paced`](manyway_control::registry::Capabilities::paced)).
    pub pacing: bool,
    /// Mark packets ECN-capable and treat CE marks as congestion.
    pub ecn: bool,
    /// Leave out packet numbers at random, so that who acknowledges what it didn't get is found
    /// out. Experiments without it compare to the packet.
    pub leave_out_numbers: bool,
    /// Most bytes buffered for the application over all streams, in bytes (the window is tuned up
    /// to it).
    pub receive_window: u64,
    /// The part of the receive window that a single stream may take: 1 for all of it, 8 for an
    /// eighth. With 1, a stream that the application doesn't read stops all others: that is for
    /// one large transfer. Programs with several streams want 8. With several shares, streams
    /// together grow to half of the window, and those that nobody reads leave the others room.
    pub window_shares: u64,
    /// Most bytes written by the application and not yet acknowledged, in bytes.
    pub send_buffer: u64,
    /// Connections that peers may have open at a time. One more takes the place of one that has
    /// transferred nothing for some seconds, or is refused.
    pub max_connections: usize,
    /// As `max_connections`, for one host: an IPv4 address, or an IPv6 prefix of 64 bits. All
    /// clients of a relay count as one.
    pub max_connections_per_host: usize,
    /// Resident memory that all connections may take together, in bytes. They are charged for two
    /// thirds of it: the rest is what an allocator adds. When they take more, those that peers
    /// opened and that have transferred nothing are closed first, then those that are idle.
    pub memory: u64,
    /// Most bytes of a datagram ([`Connection::send_datagram`](crate::Connection::send_datagram))
    /// that this side sends and accepts; `None`: it does neither. Only paths whose packets have
    /// room for so many bytes carry any.
    pub datagram: Option<usize>,
    /// Streams of each kind that the peer may have open at a time.
    pub max_streams: u64,
    /// The connection ends when nothing was heard on any path for this long.
    pub idle_timeout: Duration,
    /// A connection attempt ends after this long.
    pub connect_timeout: Duration,
    /// Acknowledge at the latest after so many ack-eliciting packets (mPath's rule: 10).
    pub ack_every: u32,
    /// Acknowledge at the latest after this long (mPath's rule: 10 ms).
    pub ack_delay: Duration,
    /// Paths a connection may have at a time.
    pub max_paths: u32,
    /// Upper bound of the rate at which stream data leaves, over all paths.
    pub limit: Option<Rate>,
    /// Keep a record of each path by which [`Connection::survey`](crate::Connection::survey) tells
    /// what they are worth.
    pub watch: Option<BottleneckConfig>,
    /// Who this endpoint is: to those it connects to, and in its own tickets. `None`: a new key for
    /// each connection and each ticket, by which nobody knows it again.
    pub identity: Option<Identity>,
    /// Cipher; part of the handshake's prologue, so both sides must agree.
    pub suite: Suite,
    /// Packets, over all paths, after which the sending key rolls.
    pub epoch_packets: u64,
    /// Open paths over UDP. Without, there are only those on carriers that the driver sets up.
    pub udp: bool,
    /// How the rates of paths on carriers are controlled; `None` leaves them to the carriers.
    pub rate_control: Option<RateConfig>,
    /// Which of the relays that are offered carry paths at a time, and when others are tried;
    /// `None` leaves it to the law's path manager, or opens a path through each. For the side that
    /// connects.
    pub selection: Option<LiveConfig>,
    /// Beside direct paths that work, relays carry what this side sends only while they add to its
    /// goodput. Without it, or with `selection`, they carry whatever the law lets them.
    pub detours: bool,
    /// Who is told of each connection's packets.
    pub observers: Option<Observers>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_datagram: 8952,
            initial_datagram: manyway_wire::INIT_LEN,
            cc: LawSpec::default(),
            scheduler: Scheduler::default(),
            slow_start: SlowStartKind::HyStart,
            pacing: true,
            ecn: true,
            leave_out_numbers: true,
            receive_window: 64 << 20,
            window_shares: 1,
            send_buffer: 32 << 20,
            max_connections: 1024,
            max_connections_per_host: 64,
            memory: 1 << 30,
            datagram: None,
            max_streams: 128,
            idle_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(15),
            ack_every: 10,
            ack_delay: Duration::from_millis(10),
            max_paths: 256,
            limit: None,
            watch: None,
            identity: None,
            suite: Suite::Aes256Gcm,
            epoch_packets: 1 << 22,
            udp: true,
            rate_control: Some(RateConfig::mimd()),
            selection: None,
            detours: true,
            observers: None,
        }
    }
}

impl Config {
    /// Largest `max_datagram`: what fits a UDP datagram over IPv6 with its headers, in bytes.
    pub const LARGEST_DATAGRAM: usize = 65_000;
    /// Lowest `limit`, in bits per second.
    pub const LOWEST_LIMIT: f64 = 8_000.0;

    /// The receive window to start with; it grows as the application proves to be fast.
    pub(crate) fn initial_receive_window(&self) -> u64 {
        INITIAL_RECEIVE_WINDOW.min(self.receive_window)
    }

    /// The settings of a connection's streams.
    pub(crate) fn streams(&self, initiator: bool) -> StreamsConfig {
        StreamsConfig {
            initiator,
            initial_receive_window: self.initial_receive_window(),
            max_receive_window: self.receive_window,
            window_shares: self.window_shares,
            send_buffer: self.send_buffer,
            max_streams: self.max_streams,
        }
    }

    /// Whether packets are spread over the round trip.
    pub(crate) fn paces(&self) -> bool {
        self.pacing && self.cc.capabilities().paced
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first field that is out of range, with the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !Suite::ALL.contains(&self.suite) {
            return Err(ConfigError::OutOfRange {
                field: "suite",
                range: "a cipher",
            });
        }
        if !(manyway_wire::INIT_LEN..=Self::LARGEST_DATAGRAM).contains(&self.max_datagram) {
            return Err(ConfigError::OutOfRange {
                field: "max_datagram",
                range: "1200 to 65000 bytes",
            });
        }
        if !(manyway_wire::INIT_LEN..=self.max_datagram).contains(&self.initial_datagram) {
            return Err(ConfigError::OutOfRange {
                field: "initial_datagram",
                range: "1200 bytes to max_datagram",
            });
        }
        if !(64 << 10..=1 << 40).contains(&self.receive_window) {
            return Err(ConfigError::OutOfRange {
                field: "receive_window",
                range: "64 KiB to 1 TiB",
            });
        }
        if !(1..=64).contains(&self.window_shares) {
            return Err(ConfigError::OutOfRange {
                field: "window_shares",
                range: "1 to 64",
            });
        }
        if !(64 << 10..=1 << 40).contains(&self.send_buffer) {
            return Err(ConfigError::OutOfRange {
                field: "send_buffer",
                range: "64 KiB to 1 TiB",
            });
        }
        if !(1..=1 << 20).contains(&self.max_connections) {
            return Err(ConfigError::OutOfRange {
                field: "max_connections",
                range: "1 to 1048576",
            });
        }
        if !(1..=1 << 20).contains(&self.max_connections_per_host) {
            return Err(ConfigError::OutOfRange {
                field: "max_connections_per_host",
                range: "1 to 1048576",
            });
        }
        if !(1 << 20..=1 << 50).contains(&self.memory) {
            return Err(ConfigError::OutOfRange {
                field: "memory",
                range: "1 MiB to 1 PiB",
            });
        }
        let largest = self.max_datagram - DATAGRAM_OVERHEAD;
        if !self
            .datagram
            .is_none_or(|most| (1..=largest).contains(&most))
        {
            return Err(ConfigError::OutOfRange {
                field: "datagram",
                range: "1 byte to 100 less than max_datagram",
            });
        }
        if !(1..=1 << 20).contains(&self.max_streams) {
            return Err(ConfigError::OutOfRange {
                field: "max_streams",
                range: "1 to 1048576",
            });
        }
        if !(1..=1024).contains(&self.max_paths) {
            return Err(ConfigError::OutOfRange {
                field: "max_paths",
                range: "1 to 1024",
            });
        }
        if !(1..=1024).contains(&self.ack_every) {
            return Err(ConfigError::OutOfRange {
                field: "ack_every",
                range: "1 to 1024 packets",
            });
        }
        if self.ack_delay > Duration::from_secs(1) {
            return Err(ConfigError::OutOfRange {
                field: "ack_delay",
                range: "0 to 1 s",
            });
        }
        if !(1..=1 << 22).contains(&self.epoch_packets) {
            return Err(ConfigError::OutOfRange {
                field: "epoch_packets",
                range: "1 to 4194304 packets",
            });
        }
        if self.limit.is_some_and(|l| {
            !(l.bits_per_sec() >= Self::LOWEST_LIMIT && l.bits_per_sec().is_finite())
        }) {
            return Err(ConfigError::OutOfRange {
                field: "limit",
                range: "8 kbps or more",
            });
        }
        if self.idle_timeout < Duration::from_secs(1) {
            return Err(ConfigError::OutOfRange {
                field: "idle_timeout",
                range: "1 s or more",
            });
        }
        if let Some(selection) = self.selection {
            LiveSelector::new(selection, 0)?;
        }
        Ok(())
    }
}

/// A [`Config`] that can't work.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A number is out of its range.
    #[error("`{field}` is out of range: choose {range}")]
    OutOfRange {
        /// The field of [`Config`].
        field: &'static str,
        /// What it may be.
        range: &'static str,
    },
    /// The selection of relays can't work.
    #[error(transparent)]
    Selection(#[from] InvalidConfig),
}
