//! Options that all commands share that connect or listen: sockets, congestion control, relays.

use clap::Args;
use manyway::control::{LawSpec, Scheduler};
use manyway::{ByteSize, Carriers, Congestion, PathSelector};
use manyway_registry::RegistryUrl;
use std::path::PathBuf;

use crate::metered::{Limit, Quota};

/// Sockets and congestion control.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetworkArgs {
    /// Local interface or address to use; repeatable
    ///
    /// By default, manyway uses every interface that is up, including those that appear later.
    #[arg(long = "path", value_name = "IFACE|ADDR", value_delimiter = ',')]
    pub(crate) interfaces: Vec<PathSelector>,

    /// Local port for UDP and TCP; 0 lets the system choose
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,

    /// File of this host's identity [default: ~/.config/manyway/identity]
    ///
    /// `manyway id` makes one. Without one, manyway connects anonymously, with a new key each time.
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,

    /// Transport for packets: UDP, TCP, or UDP with TCP where UDP fails
    ///
    /// Except with `udp`, the listener (the side that prints a ticket) also accepts TCP
    /// connections, on the TCP port with its UDP port's number. The kernel controls congestion
    /// on TCP paths, so `--cc` has no effect there.
    #[arg(long, value_name = "tcp|udp|auto", default_value = "auto")]
    pub(crate) carrier: Carriers,

    /// Kernel congestion control for TCP connections, e.g. `cubic`, `bbr` or `reno`
    #[arg(long, value_name = "NAME")]
    pub(crate) tcp_cc: Option<Congestion>,

    /// Congestion-control law for data that this side sends; `manyway laws` lists all
    #[arg(long, value_name = "NAME", default_value_t = LawSpec::default())]
    pub(crate) cc: LawSpec,

    /// Let data that this side sends give way to all other flows
    ///
    /// The same as `--cc background`. If you give both `--cc` and this option, the last one counts.
    /// It has no effect on TCP paths.
    #[arg(long, overrides_with = "cc")]
    pub(crate) background: bool,

    /// Scheduler that chooses the path for data from this side; a wrong name lists all
    ///
    /// `redundant` sends everything on every path.
    #[arg(long, value_name = "NAME", default_value_t = Scheduler::default())]
    pub(crate) scheduler: Scheduler,

    /// Highest sending rate over all paths together, e.g. 20Mbps or 2MB/s
    ///
    /// The rate may depend on the time of day: 08:00=2Mbps,18:00=off sets 2 Mbps from 08:00, and no
    /// limit from 18:00 to 08:00, local time.
    #[arg(long, value_name = "RATE|TIMETABLE")]
    pub(crate) limit: Option<Limit>,

    /// Maximum memory for received data that isn't on disk yet
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub(crate) receive_window: ByteSize,

    /// Directory for a qlog file of each path, for qvis: packets, windows, round-trip times
    ///
    /// manyway creates the directory if it is missing. A file has at most 256 MiB. If the disk is
    /// too slow, manyway drops events.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) qlog: Option<PathBuf>,
}

impl NetworkArgs {
    /// The law for data that this side sends.
    pub(crate) fn law(&self) -> LawSpec {
        match self.background {
            true => LawSpec::background(),
            false => self.cc.clone(),
        }
    }
}

/// What a transfer may cost.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct QuotaArgs {
    /// Stop using an interface or address when it has carried SIZE, e.g. wwan0=2GB; repeatable
    ///
    /// manyway counts the bytes that this command sends and receives there, including headers. It
    /// checks ten times a second.
    #[arg(long, value_name = "IFACE|ADDR=SIZE", value_delimiter = ',')]
    pub(crate) quota: Vec<Quota>,
}

/// Where the relays of a transfer come from.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Relays")]
pub(crate) struct RelaySourceArgs {
    /// Relay to use: a RELAY (mr1…), or @FILE with one per line; repeatable
    ///
    /// A sender with `--cc mpath` tries the relays and keeps those that add capacity. With any
    /// other law, it opens a path through each. The listener (the side that prints a ticket) names
    /// up to 8 relays in the ticket; others can reach it through these. Other
    /// users of this host can see a RELAY on the command line, but not one from @FILE or the
    /// environment.
    #[arg(long, value_name = "RELAY", value_delimiter = ',')]
    pub(crate) via: Vec<String>,

    /// Registry that provides relays (https://HOST:PORT#KEY, as it prints it); repeatable for
    /// registries of one fleet
    ///
    /// The registry chooses relays at random, and manyway uses them like those of `--via`. With
    /// `--cc mpath`, it fetches further relays once it has tried all of them; with `--pick`, when
    /// too few of them work. Initiators can reach the listener (the side that prints a ticket)
    /// through some of them. One-time codes use the first registry that you name.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub(crate) registry: Vec<RegistryUrl>,

    /// Number of relays to take from the registry
    #[arg(
        long,
        value_name = "N",
        default_value_t = 50,
        value_parser = clap::value_parser!(u16).range(1..=200),
        requires = "registry"
    )]
    pub(crate) relays: u16,

    /// File with the client token from the registry's operator, readable by you alone; whoever
    /// enters a code needs none
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}
