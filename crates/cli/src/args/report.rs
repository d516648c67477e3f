//! What `send` and `recv` tell programs.

use clap::{Args, ValueEnum};

/// What programs are told.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ReportArgs {
    /// Print a JSON object on standard output for each event, one per line
    ///
    /// There is one for the ticket, each connection, each path that comes up or goes down, and four
    /// a second for the progress of a transfer. The last one of a transfer is that of `--json`.
    /// docs/guide.md in the source tree lists all fields.
    #[arg(long, value_name = "json", hide_possible_values = true)]
    pub(crate) progress: Option<ProgressFormat>,
}

/// `--progress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressFormat {
    Json,
}
