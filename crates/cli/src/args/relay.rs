//! `relay`: a detour for others.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use manyway::{ByteSize, Rate};
use manyway_registry::RegistryUrl;
use manyway_wire::relay::RelayId;

/// Be a relay: forward packets between those whom you let
///
/// A relay forwards only what carries a grant, which it gives to those with access (--invite, or a
/// voucher of a key that it trusts) towards those who have asked for it. It keeps nothing per flow
/// and reads nothing: what passes is sealed end to end. docs/relays.md has the protocol and the
/// threats.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RelayArgs {
    /// Where to listen, at most one address of each family
    ///
    /// A host with several addresses should name the one that it is known by: what is forwarded
    /// leaves from the one that the system chooses otherwise, and receivers behind NAT won't get
    /// it.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        default_values = ["0.0.0.0:45170", "[::]:45170"],
        value_delimiter = ','
    )]
    pub(crate) listen: Vec<SocketAddr>,

    /// Where others reach this relay, if that isn't an address of this host: a cloud's public
    /// address, say; repeatable
    #[arg(long, value_name = "ADDR:PORT", value_delimiter = ',')]
    pub(crate) advertise: Vec<SocketAddr>,

    /// The relay's keys: made if missing, readable by you alone
    ///
    /// By default relay.key in $STATE_DIRECTORY, which systemd sets, else in
    /// $XDG_STATE_HOME/manyway or ~/.local/state/manyway. Two relays must not share one.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// How often to make new keys for grants; the previous ones go on for as long
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1 d",
        value_parser = manyway_units::parse_duration
    )]
    pub(crate) rotate: Duration,

    /// How long to go on, on SIGTERM or Ctrl-C, while there is something to forward
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30 s",
        value_parser = manyway_units::parse_duration
    )]
    pub(crate) drain: Duration,

    /// Serve Prometheus metrics on http://ADDR:PORT/metrics, and /health
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

/// Where it is listed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Registry")]
pub(crate) struct EnrolmentArgs {
    /// Be found through this registry (https://HOST:PORT#KEY, as it prints it) and accept its
    /// vouchers; several serve one fleet
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        requires = "token_file"
    )]
    pub(crate) registry: Vec<RegistryUrl>,

    /// The token to enrol there with, in a file that is readable by you alone
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Streams over TCP.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TCP")]
pub(crate) struct TcpArgs {
    /// Forward streams over TCP too, for those whom UDP doesn't reach
    ///
    /// The relay connects to nobody: receivers keep a connection open and call back. It reads no
    /// faster than it can send on.
    #[arg(long)]
    pub(crate) tcp: bool,

    /// Where to accept them: where it listens over UDP, unless given
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_delimiter = ',',
        requires = "tcp"
    )]
    pub(crate) tcp_listen: Vec<SocketAddr>,

    /// How many connections to serve at a time: a stream is two
    #[arg(
        long,
        value_name = "N",
        default_value = "4096",
        value_parser = clap::value_parser!(u32).range(2..)
    )]
    pub(crate) tcp_connections: u32,

    /// How much each connection may hold in each direction, e.g. 256KiB; what the system thinks
    /// right unless given
    #[arg(long, value_name = "SIZE")]
    pub(crate) tcp_buffer: Option<ByteSize>,
}

/// How much, and where to.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Forward no more than this altogether, e.g. 200Mbps
    #[arg(long, value_name = "RATE")]
    pub(crate) limit: Option<Rate>,

    /// Forward no more than about this for one account, whatever its voucher says; classes are
    /// powers of two of 1Mbps
    #[arg(long, value_name = "RATE")]
    pub(crate) account_limit: Option<Rate>,

    /// Forward to and from private addresses and this host too: for relays inside one network
    #[arg(long)]
    pub(crate) allow_private: bool,
}

/// Who may use it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct AccessArgs {
    /// Accept vouchers signed with this key too, a registry's; repeatable
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    pub(crate) trust: Vec<RelayId>,

    /// Print a new RELAY (mr1…) with access in it on standard output, for somebody's --via, and
    /// end; it is a secret
    #[arg(long)]
    pub(crate) invite: bool,

    /// How much whoever gets that RELAY may send, rounded down to a power of two of 1Mbps; all that
    /// there is unless given
    #[arg(long, value_name = "RATE")]
    pub(crate) invite_rate: Option<Rate>,

    /// How long it is good for
    #[arg(
        long,
        value_name = "TIME",
        default_value = "365 d",
        value_parser = manyway_units::parse_duration
    )]
    pub(crate) invite_time: Duration,
}

const EXAMPLES: &str = "\
Examples:
  manyway relay                                  on a VM with a public address
  manyway relay --tcp                            for those whom UDP doesn't reach, too
  manyway relay --invite > friend.relay          for manyway send --via @friend.relay
  manyway relay --limit 200Mbps --metrics 127.0.0.1:9170
  manyway relay --listen 10.0.0.5:45170 --advertise 203.0.113.7:45170
  manyway relay --registry https://registry.example:45180#KEY --token-file token
  manyway relay --allow-private --listen 192.168.1.5:45170";
