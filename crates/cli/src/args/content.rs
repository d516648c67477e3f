//! What of the given paths is sent.

use std::path::PathBuf;

use clap::Args;
use manyway::ByteSize;

/// Which files and directories travel.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What is sent")]
pub(crate) struct ContentArgs {
    /// Leave out what matches PATTERN, e.g. '*.tmp', cache/ or /photos/raw; repeatable
    ///
    /// As in rsync: `*` and `?` don't match `/`, `**` does. A pattern that begins with `/` matches
    /// from the top of what is sent, any other one the end of a name; with `/` at its end it
    /// matches directories only. What is in a directory that is left out is left out, too.
    /// `--delete` doesn't touch what matches.
    #[arg(long, value_name = "PATTERN", value_delimiter = '\n')]
    pub(crate) exclude: Vec<String>,

    /// Send what matches PATTERN, even if `--exclude` or `--filter-from` leaves it out; repeatable
    #[arg(long, value_name = "PATTERN", value_delimiter = '\n')]
    pub(crate) include: Vec<String>,

    /// Take rules from FILE, one on each line: `+ PATTERN` to send, `- PATTERN` to leave out
    ///
    /// The first rule that matches decides; those of `--include` and `--exclude` come before.
    /// Repeatable.
    #[arg(long, value_name = "FILE", value_delimiter = '\n')]
    pub(crate) filter_from: Vec<PathBuf>,

    /// Leave out files of more than SIZE
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_size: Option<ByteSize>,

    /// Only list what would be sent and deleted; the receiver has to run all the same
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}
