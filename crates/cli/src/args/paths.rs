//! `paths`: what each path is worth, without sending files.

use std::time::Duration;

use clap::Args;
use manyway::ByteSize;

use super::network::{Network, Relays};

/// Measure the paths to a receiver, without sending files
///
/// All paths are filled at once, with packets that say nothing and as fast as congestion control
/// allows. Shown are the round-trip time, the losses and the rate of each, which paths share a
/// bottleneck, and whether several at once would pay. The receiver goes on waiting for its sender.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct PathsArgs {
    /// The receiver's ticket, or @FILE with the ticket in it
    #[arg(long, value_name = "TICKET")]
    pub(crate) to: String,

    /// How long to measure
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10 s",
        value_parser = manyway_units::parse_duration
    )]
    pub(crate) time: Duration,

    /// Send no more than this, all paths together
    #[arg(long, value_name = "SIZE", default_value = "500MB")]
    pub(crate) size: ByteSize,

    #[command(flatten)]
    pub(crate) network: Network,
    #[command(flatten)]
    pub(crate) relays: Relays,
}

const EXAMPLES: &str = "\
Examples:
  manyway paths --to mw1…
  manyway paths --to @ticket --via @relays --time '20 s'
  manyway paths --to @ticket --relays 50 --registry https://… --token-file token --json";
