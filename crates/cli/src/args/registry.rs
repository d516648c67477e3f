//! `registry`: lists relays.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Run a registry, which lists relays and gives clients access to them
///
/// Relays enrol with a token and send heartbeats. Clients enrol with a token and get relays, chosen
/// at random, with vouchers that the relays accept. Peers behind NAT find each other through the
/// registry, and one-time codes lead to tickets there. Transfers don't pass through it, so it can't
/// read or redirect them. docs/registry.md in the source tree describes the interface and the
/// threats.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RegistryArgs {
    /// Address to listen on: HTTPS over TCP, and UDP for hosts that ask for their public address;
    /// repeatable, with one port
    #[arg(
        long,
        value_name = "ADDR:PORT",
        default_values = ["0.0.0.0:45180", "[::]:45180"],
        value_delimiter = ','
    )]
    pub(crate) listen: Vec<SocketAddr>,

    /// Host name or address for the URL that the registry prints
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,

    /// File with the registry's key, created if missing, readable by you alone; all registries of a
    /// fleet share one key
    ///
    /// The default is registry.key in $STATE_DIRECTORY, which systemd sets, otherwise in
    /// $XDG_STATE_HOME/manyway or ~/.local/state/manyway.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// File that lists who may enrol: `relay NAME TOKEN` or `client NAME TOKEN [CLASS]` on each
    /// line
    ///
    /// If the file is missing, the registry creates it with one token of each kind. NAME is the
    /// account that a client's traffic counts for. The registry notices when the file changes: it
    /// refuses clients and relays whose NAME is gone. Rate class n, from 0 to 15, allows 2^n Mbit/s
    /// at each relay; the default is 15. The default file is registry.tokens in the directory of
    /// the default key.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Storage for leases: `memory`, or etcd://HOST:PORT[,HOST:PORT…] for several registries of one
    /// fleet
    #[arg(long, value_name = "STORE", default_value = "memory")]
    pub(crate) store: String,

    /// Address for Prometheus metrics (http://ADDR:PORT/metrics) and /health
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<SocketAddr>,

    /// Certificate chain (PEM) to use instead of the registry's own key; clients then need no key
    /// in the URL
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Accept relays with private addresses, for a registry inside one network
    #[arg(long, help_heading = "Limits")]
    pub(crate) allow_private: bool,

    /// Maximum number of relays that may enrol with one token
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000,
        help_heading = "Limits"
    )]
    pub(crate) relays_per_token: usize,

    /// Maximum requests per second from one address (IPv6: /64); many relays behind one address
    /// need more
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000),
        help_heading = "Limits"
    )]
    pub(crate) request_rate: u64,

    /// How long a one-time code waits for whoever uses it
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1 h",
        value_parser = code_life,
        help_heading = "Limits"
    )]
    pub(crate) code_life: Duration,
}

/// The access that comes with a code lasts for a day.
fn code_life(text: &str) -> Result<Duration, String> {
    let life = manyway_units::parse_duration(text).map_err(|error| error.to_string())?;
    let bounds = Duration::from_secs(1)..=Duration::from_secs(86_400);
    match bounds.contains(&life) {
        true => Ok(life),
        false => Err("choose 1 s to 1 d".to_owned()),
    }
}

const EXAMPLES: &str = "\
Examples:
  manyway registry --host registry.example
  manyway registry --store etcd://10.0.0.7:2379        on every host of a fleet, with the same key \
  and tokens
  manyway registry --tls-cert fullchain.pem --tls-key privkey.pem --host registry.example";
