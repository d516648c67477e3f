//! `run` and `scenario`: experiments instead of transfers.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Run a scenario: a network, its flows and what to measure, from a file
///
/// Every point of the file's sweep is run as often as the file or --repeat says, on all cores. The
/// means and their 95 % confidence intervals are shown at the end. The same seed gives the same
/// result, to the bit.
#[derive(Debug, Args)]
#[command(after_long_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// The scenario; docs/scenarios.md in the source tree tells how to write one
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    pub(crate) file: Option<PathBuf>,

    /// What carries the runs out; several with commas between them are shown side by side, epoch by
    /// epoch
    #[arg(
        long,
        value_enum,
        value_name = "LEVEL",
        default_value = "packet",
        value_delimiter = ','
    )]
    pub(crate) level: Vec<Level>,

    /// Fluids have the senders' floors: windows of 1 or 2 packets, wVegas' least backlog; the
    /// papers' models have none
    #[arg(long)]
    pub(crate) floors: bool,

    /// Seed of each point's first repetition, in place of the file's; the next ones count up from
    /// it
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Repetitions of each point, in place of the file's
    #[arg(long, value_name = "N")]
    pub(crate) repeat: Option<u32>,

    #[command(flatten)]
    pub(crate) assignments: Assignments,

    /// So many runs at the same time; as many as there are cores without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,

    /// Write the results into this folder: result.json, flows.csv, subflows.csv, links.csv,
    /// series.csv and plots
    ///
    /// It is created if it is missing. Older results in it are replaced.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    /// Let series.csv have the series of every repetition, not of each point's first one only
    #[arg(long, help_heading = "Output")]
    pub(crate) keep_series: bool,

    /// Print the result as one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Print the JSON schema of that object and run nothing
    #[arg(long, help_heading = "Output")]
    pub(crate) schema: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  manyway run scenarios/examples/wifi-5g.toml
  manyway run wifi.toml --set law=balia --set 'links.wifi.rate=10 Mbps' --repeat 20
  manyway run sweep.toml --out results --json > result.json
  manyway run scenarios/balia/table3.toml --level fluid
  manyway run scenarios/overlay/fig3.toml --level flow
  manyway run scenarios/wvegas/table2.toml --level optimum,fluid,packet --set law=wvegas";

/// What carries a scenario out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Every packet over links with queues, with the senders and controllers of real transfers
    Packet,
    /// The laws as differential equations, and where they come to rest
    Fluid,
    /// The best sharing by proportional fairness, as of `manyway optimum`
    Optimum,
    /// Of a scenario with an [overlay]: rates over shared links, control interval by control
    /// interval
    Flow,
}

/// Changes to a scenario.
#[derive(Debug, Clone, Args)]
pub(crate) struct Assignments {
    /// Give a key of the file another value, e.g. law=balia or 'links.wifi.rate=10 Mbps';
    /// repeatable
    ///
    /// A key that is swept has this value in every point. Several in the environment variable are
    /// separated by semicolons.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ';')]
    pub(crate) set: Vec<String>,
}

/// Work with scenario files
#[derive(Debug, Args)]
pub(crate) struct ScenarioArgs {
    #[command(subcommand)]
    pub(crate) command: ScenarioCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScenarioCommand {
    /// Say whether scenario files can be run, and what is wrong with those that can't
    Check(CheckArgs),
    /// Print the JSON schema of scenario files, for editors
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The scenarios
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) assignments: Assignments,
}
