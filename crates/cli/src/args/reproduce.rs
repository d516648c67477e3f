//! `reproduce`: the papers' claims beside our results.

use std::path::PathBuf;

use clap::Args;

/// Reproduce five papers on multipath transfer: every table and figure, in one report
///
/// manyway runs the experiments of the papers and writes report.json and the self-contained
/// report.html. For each claim, both give the paper's result and ours, and say whether it holds.
/// manyway keeps finished studies in the directory: after an interruption, run the same command to
/// continue. `--full` also writes manyway-results.tar, an archive of the report and all of its
/// data.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReproduceArgs {
    /// Only a paper, e.g. balia, or one of its tables and figures, e.g. balia/table-3 [default:
    /// all]
    #[arg(value_name = "PAPER[/ITEM]")]
    pub(crate) what: Option<String>,

    /// Run the short form of each study, a few minutes in all [default]
    #[arg(long)]
    pub(crate) quick: bool,

    /// Run all points and repetitions of each study, which takes hours
    #[arg(long, conflicts_with = "quick")]
    pub(crate) full: bool,

    /// Directory for the report and for what is kept
    #[arg(
        long,
        value_name = "DIR",
        default_value = "manyway-report",
        help_heading = "Output"
    )]
    pub(crate) out: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  manyway reproduce --quick
  manyway reproduce wvegas --quick --out wvegas-report
  manyway reproduce balia/table-3 --full";
