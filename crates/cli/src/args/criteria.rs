//! `criteria`: which design criteria a law meets as a fluid.

use clap::Args;
use manyway_fluid::criteria::Rtts;
use manyway_results::criteria::{Paths, rtts};

/// Evaluate which design criteria a law meets, and print counterexamples for the others
///
/// The criteria C0 to C5 of Peng et al. concern whether a law has a utility, one equilibrium, a
/// stable equilibrium, and a predictable friendliness. manyway evaluates them at random states of
/// one source and searches for worse states nearby. Without LAW, it prints Table I of the paper,
/// with `balia`, `lia` and `reno` added, and marks results that differ from the printed ones.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CriteriaArgs {
    /// Window law with its parameters, e.g. balia or generalized:beta=0.5,n=4; or max, the paper's
    /// fluid of lia
    #[arg(value_name = "LAW")]
    pub(crate) law: Option<String>,

    /// Number of paths of the source, or a range, e.g. 2..8 [default: 2..8]
    #[arg(long, value_name = "N")]
    pub(crate) paths: Option<Paths>,

    /// Round-trip times: one for all paths, a range to draw from, e.g. '10 ms..300 ms', or one for
    /// each path, separated by commas
    #[arg(long, value_name = "TIMES", default_value = "100 ms", value_parser = rtts)]
    pub(crate) rtts: Rtts,

    /// Number of random points
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub(crate) samples: u32,

    /// Seed of the random points
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Print the result as one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  manyway criteria
  manyway criteria balia
  manyway criteria semicoupled --paths 2 --rtts '20 ms,100 ms'
  manyway criteria generalized:beta=1 --paths 10 --json > criteria.json";
