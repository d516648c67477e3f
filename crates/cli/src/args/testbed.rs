//! `testbed`: a scenario's network in real time.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::simulation::Assignments;

/// Emulate a scenario's network on this host, for any program (Linux, root)
///
/// manyway makes two network namespaces, sender and receiver, with an address in each for each path
/// of the file. The file's links connect them in real time. The file's flows don't run:
/// `manyway run --level live` runs them.
#[derive(Debug, Args)]
pub(crate) struct TestbedArgs {
    #[command(subcommand)]
    pub(crate) command: TestbedCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TestbedCommand {
    /// Set up a network, run a command at its sender, and remove the network when the command ends
    ///
    /// The command finds the paths' names and addresses in TESTBED_PATHS, TESTBED_SENDER and
    /// TESTBED_RECEIVER, separated by commas, and reaches the other end with `ip netns exec
    /// receiver`.
    Run(TestbedRunArgs),
    /// Set up a network that stays until `manyway testbed down`
    Up(UpArgs),
    /// Remove a network that `manyway testbed up` set up
    Down(DownArgs),
    /// Run one link of a scenario between two network namespaces, until a signal ends it
    ///
    /// Makes a TUN device at each end and prints `up`. It also ends when a device is deleted. At
    /// the end, it prints a JSON object for each direction: what happened to its packets, and how
    /// late they left, in microseconds.
    Link(LinkArgs),
    /// Print a scenario's links, paths and flows as JSON
    Show(NetworkOfArgs),
}

/// Which network.
#[derive(Debug, Args)]
pub(crate) struct NetworkOfArgs {
    /// Scenario file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) assignments: Assignments,

    /// A value that the sweep of the file sets, to choose one of its points
    #[arg(long, value_name = "VALUE")]
    pub(crate) case: Option<String>,

    /// Seed of all that is random [default: the file's]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct TestbedRunArgs {
    #[command(flatten)]
    pub(crate) network: NetworkOfArgs,

    /// The command with its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) network: NetworkOfArgs,

    /// Name of the network [default: the file's name without its ending]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    /// Name of the network; needed only if there are several
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    #[command(flatten)]
    pub(crate) network: NetworkOfArgs,

    /// The link's name in the file
    #[arg(value_name = "LINK")]
    pub(crate) link: String,

    /// Where packets enter the link: a namespace of `ip netns`, and a name for the device
    #[arg(long, value_name = "NAMESPACE:DEVICE")]
    pub(crate) here: String,

    /// Where packets leave the link, and where those of the reverse direction enter
    #[arg(long, value_name = "NAMESPACE:DEVICE")]
    pub(crate) there: String,

    /// The link of the reverse direction [default: only this link's delay; dark when this link is
    /// dark]
    #[arg(long, value_name = "LINK")]
    pub(crate) back: Option<String>,

    /// CSV of the queue: a line for each 10 ms in which packets enter
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) log: Option<PathBuf>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  manyway testbed run scenarios/examples/two-isps.toml -- bash
  manyway testbed run two.toml --set 'links.a.rate=10 Mbps' -- sh -c \\
      'ip netns exec receiver iperf3 -s -1 -D && sleep 1 && mptcpize run iperf3 -c 10.0.1.2'";
