//! What `send`, `recv` and `paths` have in common: sockets, congestion control and relays.

use clap::Args;
use manyway::{ByteSize, Carriers, Congestion, PathSelector, Rate};
use manyway_registry::RegistryUrl;
use std::path::PathBuf;

/// What sending and receiving have in common.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct Network {
    /// Use this interface or local address only; repeat it for several
    ///
    /// Without it, every interface that is up is used and those that come and go are followed.
    #[arg(long = "path", value_name = "IFACE|ADDR", value_delimiter = ',')]
    pub(crate) interfaces: Vec<PathSelector>,

    /// Port of our sockets, for UDP and TCP; 0 lets the system choose
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,

    /// What carries the packets: UDP, TCP, or UDP with TCP where UDP doesn't get through
    ///
    /// A side that prints a ticket accepts TCP connections too, on the number of its UDP port,
    /// unless this is udp. With tcp, and for the paths over TCP, the kernel controls congestion;
    /// --cc has no say there.
    #[arg(long, value_name = "tcp|udp|auto", default_value = "auto")]
    pub(crate) carrier: Carriers,

    /// The kernel's congestion control for TCP connections, e.g. cubic, bbr or reno
    #[arg(long, value_name = "NAME")]
    pub(crate) tcp_cc: Option<Congestion>,

    /// Congestion-control law for what this side sends; a wrong name lists them all
    #[arg(long, value_name = "NAME", default_value = "lia")]
    pub(crate) cc: String,

    /// Send no faster than this over all paths together, e.g. 20Mbps or 2MB/s
    #[arg(long, value_name = "RATE")]
    pub(crate) limit: Option<Rate>,

    /// Most memory for data that arrived and isn't on disk yet
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub(crate) receive_window: ByteSize,

    /// Print one JSON object per transfer on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Detours.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Relays")]
pub(crate) struct Relays {
    /// Go through this relay too: its text (mr1…), or @FILE with one on each line; repeatable
    ///
    /// For whoever sends with --cc mpath the relays are candidates, used as they prove useful; with
    /// any other law there is a path through each. Whoever prints a ticket puts them into it, up to
    /// 8, and can be found there. Programs of other users of this host can see a text on a command
    /// line; @FILE and the environment hide it.
    #[arg(long, value_name = "RELAY", value_delimiter = ',')]
    pub(crate) via: Vec<String>,

    /// Use relays that this registry knows (https://HOST:PORT#KEY, as it prints it); several serve
    /// one fleet
    ///
    /// They are chosen at random and used as those of --via; when all have been tried, others are
    /// fetched. Whoever prints a ticket is found at some of them.
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        requires = "token_file"
    )]
    pub(crate) registry: Vec<RegistryUrl>,

    /// How many relays to take from the registry
    #[arg(
        long,
        value_name = "N",
        default_value_t = 50,
        value_parser = clap::value_parser!(u16).range(1..=200),
        requires = "registry"
    )]
    pub(crate) relays: u16,

    /// The token for clients that the registry's operator gave you, in a file that is readable by
    /// you alone
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}
