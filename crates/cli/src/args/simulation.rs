//! `run`, `compare` and `scenario`: experiments from scenario files.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use manyway::control::LawSpec;
use manyway_simulate::batch::Shard;
use manyway_units::{Rate, parse_duration};

/// Run a scenario: a network, its flows and measurements, from a file
///
/// manyway runs every point of the file's sweep as often as the file or `--repeat` says, on all
/// cores. It prints means with their 95 % confidence intervals. The same seed gives the same
/// result, bit for bit, at all levels but live.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// Scenario file; docs/scenarios.md in the source tree describes the format
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    pub(crate) file: Option<PathBuf>,

    /// Model that simulates the scenario
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "packet",
        value_parser = levels(|level| level != Level::Optimum)
    )]
    pub(crate) level: Level,

    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,

    /// Execute only every N-th run, beginning with the K-th, and write the results into a file in
    /// the directory of `--out`, for `manyway merge`
    #[arg(long, value_name = "K/N", value_parser = crate::run::parse_shard)]
    pub(crate) shard: Option<Shard>,

    /// Write the series of every repetition to series.csv, not only of each point's first
    #[arg(long, help_heading = "Output")]
    pub(crate) keep_series: bool,

    #[command(flatten)]
    pub(crate) log: PacketLog,

    /// Print the JSON schema of the object that `--json` prints, and exit
    #[arg(long, help_heading = "Output")]
    pub(crate) schema: bool,
}

/// What `run` writes down of each packet.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PacketLog {
    /// Write what happens to each packet, in each point's first repetition: csv for packets.csv,
    /// pcapng for packets.pcapng, qlog for files of the sessions, or several, separated by commas
    ///
    /// packets.csv has a line for each event at a link, and packets.pcapng is a capture for
    /// Wireshark, with an interface for each link and without payload. A packet takes some 230
    /// bytes for each link in packets.csv, and 80 in packets.pcapng. qlog, for qvis,
    /// needs the stack level. Each end of each path has a file, such as
    /// qlog-0-phone-sender-0-path-1.sqlog.
    #[arg(
        long,
        value_name = "FORMATS",
        value_delimiter = ',',
        requires = "out",
        conflicts_with = "shard",
        help_heading = "Output"
    )]
    pub(crate) packets: Vec<PacketFormat>,

    /// The links for --packets, separated by commas [default: all]
    #[arg(
        long,
        value_name = "LINKS",
        value_delimiter = ',',
        requires = "packets",
        help_heading = "Output"
    )]
    pub(crate) packets_on: Vec<String>,
}

/// How packets are written down.
#[derive(Debug, Copy, Clone, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum PacketFormat {
    /// A table
    Csv,
    /// A capture
    Pcapng,
    /// What sessions see
    Qlog,
}

/// Put the results of a scenario's shards together
///
/// `manyway run --shard K/N --out DIR` executes one of N parts of a scenario's runs. Run each part
/// on a machine of its own, or as a job of a cluster. The merged results are those of one
/// `manyway run`, bit for bit.
#[derive(Debug, Args)]
#[command(after_help = MERGE_EXAMPLES)]
pub(crate) struct MergeArgs {
    /// Directories with the shards' files; run this where the shards ran, with the same scenario
    #[arg(value_name = "DIR", required = true)]
    pub(crate) dirs: Vec<PathBuf>,

    /// Directory for the results: result.json, tables as CSV, and plots
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    /// Print the result as one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Compare the results of several models for one scenario
///
/// manyway runs the scenario at each level, and compares the goodput of each group of flows, in the
/// file's named spans or else in its measurement time. It prints means with their 95 % confidence
/// intervals, and the difference between each level and the one before it.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Scenario file; docs/scenarios.md in the source tree describes the format
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Models, separated by commas, in any order; manyway compares each with the one before it in
    /// this list
    #[arg(
        long,
        value_name = "LEVELS",
        default_value = "fluid,packet,stack",
        value_delimiter = ',',
        value_parser = levels(|level| level != Level::Flow)
    )]
    pub(crate) levels: Vec<Level>,

    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
}

/// How `run` and `compare` run scenarios.
#[derive(Debug, Args)]
pub(crate) struct ExperimentArgs {
    /// Give the fluid level the senders' floors, which the papers' models lack: windows of 1 or 2
    /// packets, and wVegas' minimum backlog
    #[arg(long)]
    pub(crate) floors: bool,

    /// Seed of each point's first repetition, instead of the file's; later repetitions count up
    /// from it
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Repetitions of each point, instead of the file's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) repeat: Option<u32>,

    #[command(flatten)]
    pub(crate) assignments: Assignments,

    /// Number of parallel runs; no effect at the live level [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,

    /// Directory for the results: result.json, tables as CSV, and plots
    ///
    /// manyway creates the directory if it is missing, and replaces older results in it.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    /// Print the result as one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  manyway run scenarios/examples/wifi-5g.toml
  manyway run wifi.toml --set law=balia --set 'links.wifi.rate=10 Mbps' --repeat 20
  manyway run sweep.toml --out results --json > result.json
  manyway run scenarios/examples/wifi-5g.toml --level stack
  sudo manyway run scenarios/examples/wifi-5g.toml --level live --repeat 1
  manyway run scenarios/balia/table3.toml --level fluid
  manyway run scenarios/overlay/fig3.toml --level flow
  manyway compare scenarios/examples/wifi-5g.toml";

const MERGE_EXAMPLES: &str = "\
Examples:
  seq 8 | xargs -P 8 -I K manyway run sweep.toml --shard K/8 --out shards
  manyway merge shards --out results";

const COMPARE_EXAMPLES: &str = "\
Examples:
  manyway compare scenarios/examples/wifi-5g.toml
  manyway compare scenarios/levels/balia-fig2.toml --levels packet,stack --out results
  manyway compare scenarios/wvegas/table2.toml --levels optimum,fluid,packet --set law=wvegas";

/// The models that simulate a scenario, in the order of their columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Level {
    /// The optimum by proportional fairness, as `manyway optimum` computes it
    Optimum,
    /// The laws as differential equations, and their equilibria
    Fluid,
    /// Each packet over links with queues, with the senders and controllers of real transfers
    Packet,
    /// Complete sessions over the same links: handshake, encryption, streams and scheduler
    Stack,
    /// The same links in real time, with `manyway` processes and the kernel's TCP and MPTCP (Linux,
    /// root)
    Live,
    /// Rates over shared links, control interval by control interval, for a scenario with an
    /// [overlay]
    Flow,
}

/// Reads one of the levels for which `serves` holds.
fn levels(serves: fn(Level) -> bool) -> impl TypedValueParser<Value = Level> {
    let served = Level::value_variants()
        .iter()
        .filter(move |level| serves(**level));
    let names = served.filter_map(Level::to_possible_value);
    PossibleValuesParser::new(names.collect::<Vec<_>>())
        .try_map(|name| Level::from_str(&name, false))
}

/// Changes to a scenario.
#[derive(Debug, Clone, Args)]
pub(crate) struct Assignments {
    /// Set a key of the file to another value, e.g. law=balia or 'links.wifi.rate=10 Mbps';
    /// repeatable
    ///
    /// If the file sweeps the key, every point gets this value. The environment variable takes
    /// several assignments, separated by semicolons.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ';')]
    pub(crate) set: Vec<String>,
}

/// Check scenario files, or print their schema
#[derive(Debug, Args)]
pub(crate) struct ScenarioArgs {
    #[command(subcommand)]
    pub(crate) command: ScenarioCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScenarioCommand {
    /// Check scenario files without running them, and report their errors
    Check(CheckArgs),
    /// Print the JSON schema of scenario files, for editors
    Schema,
    /// Print a scenario with a topology of textbooks and papers
    #[command(after_help = GENERATE_EXAMPLES)]
    Generate(GenerateArgs),
}

const GENERATE_EXAMPLES: &str = "\
Examples:
  manyway scenario generate fat-tree --ports 8 --subflows 8 > fat-tree.toml
  manyway scenario generate waxman --nodes 100 --flows 50 --seed 7 > waxman.toml";

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    pub(crate) shape: ShapeArgs,

    /// Congestion-control law of all flows
    #[arg(long, value_name = "LAW", default_value = "lia", global = true)]
    pub(crate) law: LawSpec,

    /// Rate of the bottleneck, or of every link
    #[arg(long, value_name = "RATE", default_value = "100 Mbps", global = true)]
    pub(crate) rate: Rate,

    /// One-way delay of each link; of a waxman graph's diagonal
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1 ms",
        value_parser = parse_duration,
        global = true
    )]
    pub(crate) delay: Duration,

    /// Length of a run
    #[arg(
        long,
        value_name = "TIME",
        default_value = "20 s",
        value_parser = parse_duration,
        global = true
    )]
    pub(crate) duration: Duration,
}

/// What networks have whose flows have a choice of paths.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ChoiceArgs {
    /// Paths of each flow, where there are so many
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) subflows: u32,

    /// Seed of everything that is random about the network
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// What random graphs have.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct GraphArgs {
    /// Flows, each between two random nodes
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) flows: u32,

    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
}

impl ShapeArgs {
    /// How its flows choose their paths: those that have no choice have one path.
    pub(crate) fn choice(self) -> ChoiceArgs {
        match self {
            Self::FatTree { choice, .. } => choice,
            Self::Waxman { graph, .. } | Self::BarabasiAlbert { graph, .. } => graph.choice,
            Self::Dumbbell { .. } | Self::ParkingLot { .. } => ChoiceArgs {
                subflows: 1,
                seed: 1,
            },
        }
    }

    /// Flows between random nodes; 1 where the shape has its own.
    pub(crate) fn flows(self) -> u32 {
        match self {
            Self::Waxman { graph, .. } | Self::BarabasiAlbert { graph, .. } => graph.flows,
            _ => 1,
        }
    }
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum ShapeArgs {
    /// Pairs of hosts on either side of one bottleneck
    Dumbbell {
        /// Number of pairs
        #[arg(long, value_name = "N", default_value_t = 10)]
        pairs: u32,
    },
    /// Links in a row: a flow over all of them, and a flow over each
    ParkingLot {
        /// Number of links
        #[arg(long, value_name = "N", default_value_t = 3)]
        hops: u32,
    },
    /// Three layers of switches (Al-Fares et al., 2008); each host sends to another one
    FatTree {
        /// Ports of each switch, an even number: 8 ports make 128 hosts
        #[arg(long, value_name = "N", default_value_t = 4)]
        ports: u32,
        #[command(flatten)]
        choice: ChoiceArgs,
    },
    /// Random nodes in a square, connected with probability alpha exp(-distance / (beta diagonal))
    /// (Waxman, 1988)
    Waxman {
        /// Number of nodes
        #[arg(long, value_name = "N", default_value_t = 50)]
        nodes: u32,
        /// More links of any length, up to 1
        #[arg(long, value_name = "X", default_value_t = 0.4)]
        alpha: f64,
        /// More long links, up to 1
        #[arg(long, value_name = "X", default_value_t = 0.2)]
        beta: f64,
        #[command(flatten)]
        graph: GraphArgs,
    },
    /// A graph that grows by nodes, which prefer neighbours with many links (Barabási and Albert,
    /// 1999)
    BarabasiAlbert {
        /// Number of nodes
        #[arg(long, value_name = "N", default_value_t = 50)]
        nodes: u32,
        /// Links of each new node
        #[arg(long, value_name = "N", default_value_t = 2)]
        links: u32,
        #[command(flatten)]
        graph: GraphArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Scenario files
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) assignments: Assignments,
}
