//! `optimum`: the optimal rates in a scenario's network.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use manyway_fluid::optimum::Utility;

use super::simulation::Assignments;

/// Compute the optimal rates of a scenario's flows and paths, and the prices of its links
///
/// The optimum doesn't depend on laws, queues and losses. If flows come and go or links change,
/// manyway computes an optimum for each epoch. Rates include headers, as link rates do.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OptimumArgs {
    /// Scenario file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Utility to maximise: `log` (proportional fairness), `alpha=NUMBER`, `max-min` or
    /// `throughput`
    #[arg(long, value_name = "UTILITY", default_value = "log")]
    pub(crate) utility: Utility,

    /// Compute the optimum at this time only, e.g. "150 s" [default: all epochs]
    #[arg(long, value_name = "TIME", value_parser = manyway_units::parse_duration)]
    pub(crate) at: Option<Duration>,

    #[command(flatten)]
    pub(crate) assignments: Assignments,

    /// Print the result as one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  manyway optimum scenarios/wvegas/fig2a.toml
  manyway optimum scenarios/wvegas/fig8.toml --utility max-min --at '420 s'
  manyway optimum network.toml --utility alpha=2 --json > optimum.json";
