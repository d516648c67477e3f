//! `top`: the connections of this user's processes.

use clap::Args;

/// Show all connections of your manyway processes, path by path
///
/// Each path has a lane with its rate over the last minute, the rates both ways, the round-trip
/// time and how much of it is queueing, and the losses. The sender's congestion control treats
/// paths with the same letter as sharing a bottleneck.
///
/// You see the transfers, forwards, servers and tunnels of your own user: `sudo manyway top` shows
/// root's.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// Print one JSON object with all connections on standard output, and end
    #[arg(long)]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  manyway top
  manyway top --json

Keys: the arrows and PgUp, PgDn scroll; q ends it.";
