//! What of the given paths is sent.

use std::path::PathBuf;

use clap::Args;
use manyway::ByteSize;

/// Which files and directories travel.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What is sent")]
pub(crate) struct ContentArgs {
    /// Leave out names that match PATTERN, e.g. '*.tmp', cache/ or /photos/raw; repeatable
    ///
    /// As in rsync, `*` and `?` don't match `/`, `**` does. A pattern that begins with `/` matches
    /// from the top of the sent files; any other pattern matches the end of a name. A pattern with
    /// `/` at its end matches only directories. Leaving out a directory leaves out everything in
    /// it. `--delete` doesn't remove names that match.
    #[arg(long, value_name = "PATTERN", value_delimiter = '\n')]
    pub(crate) exclude: Vec<String>,

    /// Send names that match PATTERN, even if `--exclude` or `--filter-from` leaves them out;
    /// repeatable
    #[arg(long, value_name = "PATTERN", value_delimiter = '\n')]
    pub(crate) include: Vec<String>,

    /// Read rules from FILE, one on each line: `+ PATTERN` to send, `- PATTERN` to leave out;
    /// repeatable
    ///
    /// The first rule that matches decides. manyway applies `--include` and `--exclude` first.
    #[arg(long, value_name = "FILE", value_delimiter = '\n')]
    pub(crate) filter_from: Vec<PathBuf>,

    /// Leave out files larger than SIZE
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_size: Option<ByteSize>,

    /// Only list what manyway would send, make and delete; this needs a running receiver
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}
