//! `demo`: transfers over emulated links.

use std::path::PathBuf;

use clap::Args;
use manyway::ByteSize;

use crate::link::LinkSpec;

/// See it work on this host alone
///
/// A sender and a receiver in one process, real sockets, and links between them with a rate and a
/// delay. A file of random bytes goes over the best link alone, then over all of them; both copies
/// are verified. Needs no root and no configuration, takes less than a minute.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// A link as RATE/DELAY, one way; repeat it for several
    #[arg(
        long = "link",
        value_name = "RATE/DELAY",
        default_values = ["40Mbps/10ms", "20Mbps/40ms"],
        value_delimiter = ','
    )]
    pub(crate) links: Vec<LinkSpec>,

    /// Size of the file; by default what the best link carries in 15 seconds
    #[arg(long)]
    pub(crate) size: Option<ByteSize>,

    /// Through three relays, one of which shares the direct path's bottleneck (mPath's Fig. 7);
    /// takes about three minutes
    #[arg(long, conflicts_with = "links")]
    pub(crate) relays: bool,

    /// Congestion-control law [default: lia, and mpath with --relays]
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<String>,

    /// Where the plot of each path's rate goes
    #[arg(long, value_name = "FILE", default_value = "manyway-demo.svg")]
    pub(crate) svg: PathBuf,

    /// Print the result as one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
