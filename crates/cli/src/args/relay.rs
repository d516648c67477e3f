//! `relay`: forwards packets for others.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use manyway::{ByteSize, Rate};
use manyway_registry::RegistryUrl;
use manyway_wire::relay::RelayId;

/// Run a relay, which forwards packets for people to whom you give access
///
/// A relay forwards only packets that carry a grant. It issues grants to peers with access
/// (`--invite`, or a voucher of a key that it trusts), and only towards peers that have consented.
/// Over UDP, it keeps no state per flow. It can't read the packets, which are encrypted end to end.
/// docs/relays.md in the source tree describes the protocol and the threats.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RelayArgs {
    /// Address to listen on, at most one of each family; repeatable
    ///
    /// On a host with several addresses, name the one that peers know. Otherwise the system chooses
    /// the source address of forwarded packets, and listeners behind NAT don't get packets from an
    /// address that they don't know.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        default_values = ["0.0.0.0:45170", "[::]:45170"],
        value_delimiter = ','
    )]
    pub(crate) listen: Vec<SocketAddr>,

    /// Address at which peers reach this relay, if this host doesn't have it, e.g. a cloud's public
    /// address; repeatable
    #[arg(long, value_name = "ADDR:PORT", value_delimiter = ',')]
    pub(crate) advertise: Vec<SocketAddr>,

    /// File with the relay's keys, created if missing, readable by you alone
    ///
    /// The default is relay.key in $STATE_DIRECTORY, which systemd sets, otherwise in
    /// $XDG_STATE_HOME/manyway or ~/.local/state/manyway. Two relays must not share a file.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Interval between new keys for grants, at least 2 min; the previous keys stay valid for one
    /// more interval
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1 d",
        value_parser = manyway_units::parse_duration
    )]
    pub(crate) rotate: Duration,

    /// Longest time to continue after SIGTERM or Ctrl-C while there is traffic to forward
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30 s",
        value_parser = manyway_units::parse_duration
    )]
    pub(crate) drain: Duration,

    /// Address for Prometheus metrics (http://ADDR:PORT/metrics) and /health
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) tcp: TcpArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) enrolment: EnrolmentArgs,
}

/// Registries that list the relay.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Registry")]
pub(crate) struct EnrolmentArgs {
    /// Registry that lists this relay (https://HOST:PORT#KEY, as it prints it) and whose vouchers
    /// it accepts; repeatable for registries of one fleet
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub(crate) registry: Vec<RegistryUrl>,

    /// File with the relay token from the registry's operator, readable by you alone
    #[arg(long, value_name = "FILE", requires = "registry")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Streams over TCP.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TCP")]
pub(crate) struct TcpArgs {
    /// Forward streams over TCP as well, for peers that UDP doesn't reach
    ///
    /// The relay opens no connections: listeners keep a connection open and answer calls with a new
    /// one. The relay reads no faster than it can forward.
    #[arg(long)]
    pub(crate) tcp: bool,

    /// Address for TCP connections [default: the addresses of `--listen`]; repeatable
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_delimiter = ',',
        requires = "tcp"
    )]
    pub(crate) tcp_listen: Vec<SocketAddr>,

    /// Maximum number of TCP connections at a time; a stream takes two
    #[arg(
        long,
        value_name = "N",
        default_value = "4096",
        value_parser = clap::value_parser!(u32).range(2..)
    )]
    pub(crate) tcp_connections: u32,

    /// Size of the kernel's buffer for each direction of each connection, e.g. 256KiB [default: the
    /// kernel's choice]
    #[arg(long, value_name = "SIZE")]
    pub(crate) tcp_buffer: Option<ByteSize>,
}

/// How much the relay forwards, and where to.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Highest total forwarding rate, e.g. 200Mbps; at least 100kbps
    #[arg(long, value_name = "RATE")]
    pub(crate) limit: Option<Rate>,

    /// Highest rate of one account, even if its voucher allows more; rounded down to 1, 2, 4, …
    /// Mbps
    #[arg(long, value_name = "RATE")]
    pub(crate) account_limit: Option<Rate>,

    /// Also forward to and from private addresses and this host, for relays inside one network
    #[arg(long)]
    pub(crate) allow_private: bool,
}

/// Who may use the relay.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct AccessArgs {
    /// Key whose vouchers the relay accepts, e.g. a registry's; repeatable
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    pub(crate) trust: Vec<RelayId>,

    /// Print a new RELAY (mr1…), a secret that gives one person access by `--via`, and exit
    #[arg(long, group = "inviting")]
    pub(crate) invite: bool,

    /// Name of the invitation, for `--invites`, `--revoke` and the metrics
    #[arg(long, value_name = "NAME", requires = "invite")]
    pub(crate) invite_name: Option<String>,

    /// Highest rate of the invited account, rounded down to 1, 2, 4, … Mbps [default: the highest
    /// class]
    #[arg(long, value_name = "RATE")]
    pub(crate) invite_rate: Option<Rate>,

    /// How long the invitation is valid
    #[arg(
        long,
        value_name = "TIME",
        default_value = "365 d",
        value_parser = manyway_units::parse_duration
    )]
    pub(crate) invite_time: Duration,

    /// List the invitations that haven't ended, and exit
    #[arg(long, group = "inviting")]
    pub(crate) invites: bool,

    /// Revoke an invitation, and exit: by its name or its account in the list, or by its RELAY
    /// (mr1…, or @FILE with it)
    ///
    /// A running relay, too, refuses it from then on. Grants that it issued before end
    /// within two minutes, and streams over TCP end at once.
    #[arg(long, value_name = "NAME|ACCOUNT|RELAY", group = "inviting")]
    pub(crate) revoke: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  manyway relay                                  on a VM with a public address
  manyway relay --tcp                            also for peers that UDP doesn't reach
  manyway relay --invite > friend.relay          for manyway send --via @friend.relay
  manyway relay --invite --invite-name ann       until manyway relay --revoke ann
  manyway relay --limit 200Mbps --metrics 127.0.0.1:9170
  manyway relay --listen 10.0.0.5:45170 --advertise 203.0.113.7:45170
  manyway relay --registry https://registry.example:45180#KEY --token-file token
  manyway relay --allow-private --listen 192.168.1.5:45170";
