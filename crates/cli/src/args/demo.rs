//! `demo`: transfers over emulated links.

use std::path::PathBuf;

use clap::Args;
use manyway::ByteSize;
use manyway::control::LawSpec;

use crate::link::LinkSpec;

/// Run a demonstration on this host
///
/// A sender and a receiver in one process use real sockets, and emulated links with a rate and a
/// delay between them. manyway sends a file of random bytes over the best link alone, then over all
/// links, and verifies both copies. The demo needs no root and no configuration, and takes less
/// than a minute.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Link as RATE/DELAY, with the delay one way; repeatable
    #[arg(
        long = "link",
        value_name = "RATE/DELAY",
        default_values = ["40Mbps/10ms", "20Mbps/40ms"],
        value_delimiter = ','
    )]
    pub(crate) links: Vec<LinkSpec>,

    /// Size of the file [default: what the best link carries in 15 s; 150MB with `--relays`]
    #[arg(long)]
    pub(crate) size: Option<ByteSize>,

    /// Use three relays, one of which shares the direct path's bottleneck (mPath's Fig. 7); takes
    /// about three minutes
    #[arg(long, conflicts_with = "links")]
    pub(crate) relays: bool,

    /// Congestion-control law [default: auto; mpath with `--relays`]
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<LawSpec>,

    /// File for the plot of each path's rate
    #[arg(long, value_name = "FILE", default_value = "manyway-demo.svg")]
    pub(crate) svg: PathBuf,

    /// Print the result as one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
