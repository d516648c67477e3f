//! What `send` and `recv` tell programs.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};

/// What programs are told.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ReportArgs {
    /// Print one JSON object per transfer on standard output
    #[arg(long)]
    pub(crate) json: bool,

    /// Print a JSON object on standard output for each event, one per line
    ///
    /// manyway prints one for the ticket, for each connection, and for each path that comes up or
    /// goes down. It prints four a second for the progress of a transfer. The last object of a
    /// transfer is that of `--json`. docs/guide.md in the source tree lists all fields.
    #[arg(long, value_name = "json", hide_possible_values = true)]
    pub(crate) progress: Option<ProgressFormat>,

    /// Address for Prometheus metrics of transfers (http://ADDR:PORT/metrics) and /health
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<SocketAddr>,

    /// Program to run after each transfer, whether it succeeded or failed
    ///
    /// It gets the JSON object of `--json` on standard input, and variables such as
    /// TRANSFER_STATUS, TRANSFER_DIR and TRANSFER_FILE. manyway uses no shell unless you name one:
    /// quotes group words, and manyway expands nothing. One hook runs at a time. If it fails,
    /// manyway reports that and keeps its own exit status.
    #[arg(long, value_name = "COMMAND", help_heading = "Hook")]
    pub(crate) hook: Option<String>,

    /// Time after which manyway ends the hook and its process group
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5 min",
        value_parser = manyway_units::parse_duration,
        help_heading = "Hook"
    )]
    pub(crate) hook_timeout: Duration,
}

/// `--progress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressFormat {
    Json,
}
