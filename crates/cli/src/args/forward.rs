//! `forward`, `serve` and `connect`: TCP connections over all paths.

use clap::Args;

use super::network::{NetworkArgs, RelaySourceArgs};
use super::transfer::{CodeArgs, LastingArgs, TicketArgs};
use crate::forward::rules::{ListenRule, Rule};
use crate::forward::spec::{Bind, Forward};

/// Let the holders of a ticket connect to TCP services that this host reaches
///
/// manyway prints a ticket, and passes on the connections of `manyway forward` and `manyway
/// connect`. It lets through only what `--allow` and `--allow-listen` name. The ticket is a secret:
/// whoever has it can use all of that.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Target that peers may connect to, by name or address; repeatable
    ///
    /// `*` stands for any host or any port. manyway compares names as text: `localhost` doesn't
    /// allow 127.0.0.1. `connect` without HOST:PORT connects to the first target.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) allow: Vec<Rule>,

    /// Address of this host that peers may listen on (`manyway forward -R`); repeatable
    ///
    /// Without BIND, it is 127.0.0.1. 0.0.0.0 and [::] are all addresses of this host.
    #[arg(long, value_name = "[BIND:]PORT", value_delimiter = ',')]
    pub(crate) allow_listen: Vec<ListenRule>,

    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) relays: RelaySourceArgs,
    #[command(flatten)]
    pub(crate) ticket: TicketArgs,
    #[command(flatten)]
    pub(crate) code: CodeArgs,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  manyway serve --allow localhost:22
  manyway serve --allow localhost:5432 --allow 10.0.0.7:443 --ticket-file ticket
  manyway serve --allow localhost:22 --code --registry https://… --token-file token
  manyway serve --allow '*:*'             any target that this host reaches
  manyway serve --allow-listen 8080       for forward -R 8080:localhost:80";

/// Forward TCP connections to and from another host
///
/// The other host runs `manyway serve`, which prints the TICKET. All connections share one
/// encrypted connection over all paths.
#[derive(Debug, Args)]
#[command(after_help = FORWARD_EXAMPLES)]
pub(crate) struct ForwardArgs {
    /// Ticket or code of `manyway serve` (mw1…, 7-guitar-saddle-orbit), @FILE with it, or the name
    /// of a peer
    #[arg(value_name = "TICKET")]
    pub(crate) ticket: Option<String>,

    /// Ticket or code of `manyway serve`, @FILE, or the name of a peer, as an option
    #[arg(long, value_name = "TICKET")]
    pub(crate) to: Option<String>,

    /// Listen here on PORT and connect to HOST:PORT from the other host; repeatable
    ///
    /// Without BIND, manyway listens on 127.0.0.1 only. Port 0 lets the system choose.
    #[arg(
        short = 'L',
        long = "local-forward",
        value_name = "[BIND:]PORT:HOST:PORT",
        value_delimiter = ','
    )]
    pub(crate) local: Vec<Forward>,

    /// Listen on PORT of the other host and connect to HOST:PORT from here; repeatable
    ///
    /// The other host must allow it with `--allow-listen`.
    #[arg(
        short = 'R',
        long = "remote-forward",
        value_name = "[BIND:]PORT:HOST:PORT",
        value_delimiter = ','
    )]
    pub(crate) remote: Vec<Forward>,

    /// Listen here on PORT as a SOCKS5 proxy, which connects from the other host; repeatable
    #[arg(
        short = 'D',
        long = "dynamic-forward",
        value_name = "[BIND:]PORT",
        value_delimiter = ','
    )]
    pub(crate) dynamic: Vec<Bind>,

    #[command(flatten)]
    pub(crate) lasting: LastingArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) relays: RelaySourceArgs,
}

const FORWARD_EXAMPLES: &str = "\
Examples:
  manyway forward -L 8080:localhost:80 mw1…
  manyway forward -L 5432:db.internal:5432 -L 8080:localhost:80 @ticket
  manyway forward -D 1080 @ticket         then: curl --proxy socks5h://localhost:1080 …
  manyway forward -R 8080:localhost:80 @ticket";

/// Connect standard input and output to a TCP service through another host
///
/// The other host runs `manyway serve`, which prints the TICKET. Without HOST:PORT, manyway
/// connects to the first target that `serve` allows. This is what ssh's ProxyCommand needs.
#[derive(Debug, Args)]
#[command(after_help = CONNECT_EXAMPLES, override_usage = CONNECT_USAGE)]
pub(crate) struct ConnectArgs {
    /// Ticket of `manyway serve` (mw1…, @FILE with it, or a code) and the target
    #[arg(value_names = ["TICKET", "HOST:PORT"], num_args = 0..=2)]
    pub(crate) what: Vec<String>,

    /// Ticket or code of `manyway serve`, @FILE, or a peer's name, as an option
    #[arg(long, value_name = "TICKET")]
    pub(crate) to: Option<String>,

    /// Use standard input and output; required, because there is no other way yet
    #[arg(long, required = true)]
    pub(crate) stdio: bool,

    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) relays: RelaySourceArgs,
}

const CONNECT_USAGE: &str = "manyway connect --stdio [OPTIONS] TICKET [HOST:PORT]";

const CONNECT_EXAMPLES: &str = "\
Examples:
  manyway connect --stdio @ticket localhost:25
  ssh -o ProxyCommand='manyway connect --stdio @/home/ann/ticket' ann@server
  rsync -a -e \"ssh -o ProxyCommand='manyway connect --stdio @/home/ann/ticket'\" photos/ \\
    ann@server:photos";
