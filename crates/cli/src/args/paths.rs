//! `paths`: measures each path without sending files.

use std::time::Duration;

use clap::Args;
use manyway::ByteSize;

use super::network::{NetworkArgs, RelaySourceArgs};

/// Measure the paths to a receiver without sending files
///
/// manyway sends padding over all paths at once, as fast as congestion control allows. It prints
/// the round-trip time, the losses and the rate of each path, which paths share a bottleneck, and
/// whether using several paths pays off. The receiver then keeps waiting for its sender.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PathsArgs {
    /// The receiver's ticket or code, @FILE with it, or a peer's name
    #[arg(long, value_name = "TICKET")]
    pub(crate) to: String,

    /// Duration of the measurement, from 2 s to 2 min
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10 s",
        value_parser = manyway_units::parse_duration
    )]
    pub(crate) time: Duration,

    /// Maximum amount of data to send over all paths together
    #[arg(long, value_name = "SIZE", default_value = "500MB")]
    pub(crate) size: ByteSize,

    /// Print one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) relays: RelaySourceArgs,
}

const EXAMPLES: &str = "\
Examples:
  manyway paths --to mw1…
  manyway paths --to @ticket --via @relays --time '20 s'
  manyway paths --to @ticket --relays 50 --registry https://… --token-file token --json";
