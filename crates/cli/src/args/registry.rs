//! `registry`: which relays there are.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Be a registry: know which relays there are, and who may use them
///
/// Relays enrol with a token and send heartbeats; clients enrol with a token and get some of the
/// relays, chosen at random, with vouchers that the relays accept. Peers behind NAT find each other
/// here. It sees no traffic, and can't read or redirect any: docs/registry.md has the interface and
/// the threats.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RegistryArgs {
    /// Where to listen: HTTPS on TCP, and on UDP for those who want to know their own address
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:45180")]
    pub(crate) listen: SocketAddr,

    /// The host's name or address for the URL that is printed
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,

    /// The registry's key: made if missing, readable by you alone; the same for all registries of a
    /// fleet
    ///
    /// By default registry.key in $STATE_DIRECTORY, which systemd sets, else in
    /// $XDG_STATE_HOME/manyway or ~/.local/state/manyway.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Who may enrol, a line each: relay NAME TOKEN, or client NAME TOKEN [CLASS]; made with one of
    /// each if missing
    ///
    /// A client's traffic counts for its NAME; its rate class n from 0 to 15 is 2^n Mbit/s at each
    /// relay, 15 unless given. By default registry.tokens beside the key.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Where leases are kept: memory, or etcd://HOST:PORT[,HOST:PORT…] for several registries of
    /// one fleet
    #[arg(long, value_name = "STORE", default_value = "memory")]
    pub(crate) store: String,

    /// A certificate (PEM, with its chain) instead of one for the registry's own key: clients then
    /// need no key in the URL
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Accept relays with private addresses too: for a registry inside one network
    #[arg(long, help_heading = "Limits")]
    pub(crate) allow_private: bool,

    /// Most relays that may be enrolled with one token
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000,
        help_heading = "Limits"
    )]
    pub(crate) relays_per_token: usize,

    /// Requests per second from one address (IPv6: /64); many relays behind one address need more
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000),
        help_heading = "Limits"
    )]
    pub(crate) request_rate: u64,
}

const EXAMPLES: &str = "\
Examples:
  manyway registry --host registry.example
  manyway registry --store etcd://10.0.0.7:2379        the same on another host, with the same key \
  and tokens
  manyway registry --tls-cert fullchain.pem --tls-key privkey.pem --host registry.example";
