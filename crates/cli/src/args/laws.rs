//! `laws`.

use clap::Args;
use manyway::control::LawSpec;

/// List the congestion-control laws that `--cc` takes
///
/// With a law's name, manyway lists its parameters: their defaults, the values that it allows, and
/// their meanings. Give them after the name, as in `--cc ewtcp:a=0.25`.
#[derive(Debug, Args)]
pub(crate) struct LawsArgs {
    /// A law whose parameters to list
    #[arg(value_name = "LAW")]
    pub(crate) law: Option<LawSpec>,

    /// Print a JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
