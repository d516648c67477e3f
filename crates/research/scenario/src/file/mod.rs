//! A scenario file as it is written.
//!
//! What is optional in the file is an `Option` here, defaults included: what is left out may come
//! from `[defaults]`, from a sweep or from an assignment. The docstrings of these types are the
//! descriptions in the [JSON schema](crate::schema).

use std::path::PathBuf;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::experiment::Sealing;
use crate::quantity::{Bandwidth, Bytes, Name, Packets, TimeSpan, WholePackets};

mod choices;
mod law;
mod link;
mod overlay;
mod queue;
mod random;
mod relays;
mod sweep;
mod timeout;

pub use choices::{
    Growth, LossDetection, PathUse, Percentiles, Recovery, Scheduler, SlowStart, What,
};
pub use law::Law;
pub use link::{Change, GilbertElliott, Late, Link, Loss, Outages, Policer, Varying};
pub use overlay::{
    Demand, Increment, Overlay, OverlayPackets, RateControl, RelayChoice, Reselect, Scheme,
    Sharing, Start,
};
pub use queue::{CoDel, Drr, DualPi2, FqCoDel, Pie, Priority, Queue, Red, Weight};
pub use random::{Pareto, Published, Quantity, Random};
pub use relays::{Relays, Reuse};
pub use sweep::Sweep;
pub use timeout::RetransmissionTimeout;

/// A scenario: a network, the flows over it, and the measurements.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    title = "manyway scenario",
    extend("anyOf" = [
        { "required": ["overlay"] },
        { "required": ["duration", "links", "paths", "flows"] },
    ])
)]
pub struct File {
    /// The scenario's name, for tables and plots.
    #[schemars(required)]
    pub name: Option<String>,
    /// A line or two about what it shows. Default: empty.
    pub about: Option<String>,
    /// The length of a run.
    pub duration: Option<TimeSpan>,
    /// Seed of everything random in the first repetition of each point; those of the next ones
    /// count up from it. Default: 1.
    pub seed: Option<u64>,
    /// The number of repetitions of each point, with different seeds; from 1 to 100,000. Default:
    /// 1.
    pub repeat: Option<u32>,
    /// One-way links by name.
    pub links: Option<IndexMap<Name, Link>>,
    /// Routes over the links, by name.
    pub paths: Option<IndexMap<Name, Path>>,
    /// Defaults for all flows. Any key of a flow is allowed; a flow's own key replaces the whole
    /// default.
    pub defaults: Option<Flow>,
    /// Flows, or groups of equal flows, by name.
    pub flows: Option<IndexMap<Name, Flow>>,
    /// What is measured. Default: means over the whole run, no series.
    pub measure: Option<Measure>,
    /// Sources that send through relays that they choose, with rate control above the transport;
    /// replaces `duration`, `links`, `paths`, `flows` and `measure`.
    pub overlay: Option<Overlay>,
    /// Keys with lists of values: the scenario is run for every combination. Default: nothing is
    /// swept.
    pub sweep: Option<Sweep>,
    /// The folder that it is in, for files that it names.
    #[serde(skip)]
    pub(crate) folder: PathBuf,
}

/// A route from a sender to a receiver, and back.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// The links of the data direction, in order, each at most once.
    #[schemars(required, length(min = 1))]
    pub links: Option<Vec<Name>>,
    /// The links of the ACK direction, in order. Default: none; ACKs return after `return_delay`,
    /// whatever their number.
    pub reverse: Option<Vec<Name>>,
    /// The delay of ACKs in addition to the reverse links. Default: the sum of the delays of
    /// `links` without reverse links, 0 with them. The delays of a flow's access link and its
    /// `extra_delay` are added.
    pub return_delay: Option<TimeSpan>,
}

/// A flow, or a group of equal flows: one source each, with a subflow on every path.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The congestion-control law, which couples the subflows of one flow. Required, here or in
    /// `[defaults]`.
    pub law: Option<Law>,
    /// The paths, one subflow on each: names, or tables to let a subflow join late or leave early.
    /// Required, here or in `[defaults]`.
    #[schemars(length(min = 1))]
    pub paths: Option<Vec<PathUse>>,
    /// How many such flows there are; 0 leaves them out. Flows of a group of several are called
    /// `name.1`, `name.2`, … Default: 1; with a random `stagger`, as many as come until `stop` or
    /// the end of the run.
    pub count: Option<u32>,
    /// Whether the packet level takes the group for one fluid, whose cost doesn't depend on
    /// `count`: the law's increase and decrease move a mean window, and the links carry its load
    /// beside the other flows' packets. For endless flows over DropTail links. Default: false.
    pub fluid: Option<bool>,
    /// When the first flow of the group starts. Default: "0 s".
    pub start: Option<TimeSpan>,
    /// The delay from one flow's start to the next in the group; `{ exponential = "20 ms" }` makes
    /// the starts a Poisson process. Default: "0 s".
    pub stagger: Option<Random<TimeSpan>>,
    /// The largest random delay added to each flow's start, uniformly distributed. Default: "0 s".
    pub start_spread: Option<TimeSpan>,
    /// When all flows of the group stop sending. Default: at the end of the run.
    pub stop: Option<TimeSpan>,
    /// Payload that each flow transfers; it ends, and its completion time counts, when all of it is
    /// acknowledged. Default: endless.
    pub size: Option<Random<Bytes>>,
    /// After each transfer, the flow pauses for this long (a user's think time, the off time of a
    /// source), then transfers another `size` over the same connection, until it stops. An
    /// unresponsive flow pauses when it has sent all. Only at the packet and the stack level.
    /// Default: one transfer.
    pub pause: Option<Random<TimeSpan>>,
    /// The application's rate, in payload; the flow is limited by it or by the window. Default: as
    /// much as the window allows.
    pub rate: Option<Bandwidth>,
    /// The flow sends at its `rate` whatever happens, and lost data not again, like voice over UDP.
    /// Its law has no effect. It has one path and no `size` but with `pause`, and exists at the
    /// packet level only. Default: false.
    pub unresponsive: Option<bool>,
    /// A private first link in front of each subflow, shared with nobody. Default: none; its
    /// `delay` defaults to "0 s", its `queue` to "1000 packets".
    pub access: Option<Box<Link>>,
    /// Additional one-way delay after the last link, and the same in the return direction. Default:
    /// "0 s".
    pub extra_delay: Option<TimeSpan>,
    /// The group's member k (counted from 0) has k times this delay in addition to `extra_delay`.
    /// Default: "0 s".
    pub delay_step: Option<TimeSpan>,
    /// Bytes of a full packet, headers included; at most 65535. Default: "1500 B".
    pub packet_size: Option<Bytes>,
    /// Bytes of the headers within a packet, which goodput leaves out. Default: "52 B" (IPv4, TCP,
    /// timestamps).
    pub headers: Option<Bytes>,
    /// Each packet leaves the sender after a random time, uniform between 0 and this; packets never
    /// overtake each other. Default: "0 s". Without it, flows of equal round-trip times can lock
    /// each other out at DropTail queues: "1 ms" is a good choice.
    pub jitter: Option<TimeSpan>,
    /// Whether packets are spread over the round trip instead of leaving as soon as the window
    /// opens. Default: true.
    pub pacing: Option<bool>,
    /// How a window grows until the first loss. Default: "hystart".
    pub slow_start: Option<SlowStart>,
    /// Whether the window grows by all bytes that an ACK acknowledges, or by one packet for each
    /// ACK, as in old TCP stacks. Has no effect with `ack_every = "1 packet"`. Default: "bytes".
    pub growth: Option<Growth>,
    /// Whether a window stays constant after a cut until packets sent since then are acknowledged,
    /// as in TCP, or grows with every ACK, as the papers print their laws: about 15 % more
    /// throughput at a loss rate of 1 %. Default: "hold".
    pub recovery: Option<Recovery>,
    /// How the sender distinguishes lost from reordered packets. Default: "fixed".
    pub loss_detection: Option<LossDetection>,
    /// What the sender does when nothing is acknowledged for a while. Default: "probe".
    pub retransmission_timeout: Option<RetransmissionTimeout>,
    /// The window to start from. Default: "10 packets".
    pub initial_window: Option<Packets>,
    /// The smallest window and slow-start threshold; at least "1 packet". Default: the law's own.
    pub window_floor: Option<Packets>,
    /// The smallest slow-start threshold, if it should be above the smallest window: a window that
    /// was cut to less returns there by slow start; at least "1 packet". Default: `window_floor`.
    pub threshold_floor: Option<Packets>,
    /// The slow-start threshold at the start; `bbr` has none. Default: none, slow start goes on
    /// until its own end.
    pub initial_threshold: Option<Packets>,
    /// The number of packets after which the receiver sends an ACK, from 1 to 1024; it acknowledges
    /// packets out of order at once. Default: "1 packet".
    pub ack_every: Option<WholePackets>,
    /// … or this long after the first packet that it hasn't acknowledged; at most 1 s. Default: "40
    /// ms". Has no effect with `ack_every = "1 packet"`.
    pub ack_delay: Option<TimeSpan>,
    /// Bytes of an acknowledgement, on reverse links; at most 65535. Default: "52 B".
    pub ack_size: Option<Bytes>,
    /// Whether ACKs say when packets arrived, as in sessions. Without that, as with TCP, the sender
    /// knows round-trip times but no one-way delays. Default: true.
    pub receive_times: Option<bool>,
    /// Whether packets are ECN-capable: queues with `ecn = true` mark them instead of dropping
    /// them. Default: false.
    pub ecn: Option<bool>,
    /// Whether packets are ECN-capable L4S packets (RFC 9331), which a `dualpi2` queue serves first
    /// and marks early; for laws like `dctcp` that react to each mark a little. Only at the packet
    /// level. Default: false.
    pub l4s: Option<bool>,
    /// The class of the packets and ACKs, for queues with priorities: 0, the lowest, to 7. Default:
    /// 0.
    #[schemars(range(max = 7))]
    pub class: Option<u32>,
    /// Which path carries the next packet of the flow's data. At the packet level, all schedulers
    /// are the same: subflows send whenever their windows allow, and no byte waits for another.
    /// Default: "earliest-delivery".
    pub scheduler: Option<Scheduler>,
    /// The largest amount of data in the receiver's buffer and in flight, over all paths together;
    /// "64 KiB" to "1 TiB". Only at the stack level. Default: "64 MiB".
    pub receive_buffer: Option<Bytes>,
    /// The number of files of about the same size into which the payload is divided, up to 100,000.
    /// The file-transfer protocol sends them, with names, hashes and answers, instead of a stream
    /// of bytes. Needs `size`. Only at the stack level. Default: a stream.
    #[schemars(range(min = 1, max = 100_000))]
    pub files: Option<u32>,
    /// How packets are sealed, at the stack level: encrypted as those of transfers, or in the clear
    /// with a checksum of the same size, for the same results in less time. Default: "aead".
    pub sealing: Option<Sealing>,
    /// The options of the path manager of law `mpath`. With several paths, the first path is the
    /// direct one, and the path manager opens and closes the others, each through a relay.
    pub relays: Option<Relays>,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The start of the measurement; the time before is warm-up. Default: "0 s".
    pub from: Option<TimeSpan>,
    /// The end of the measurement. Default: the end of the run.
    pub until: Option<TimeSpan>,
    /// The time between samples of a series. Default: "100 ms".
    pub interval: Option<TimeSpan>,
    /// What is recorded over time, from the beginning to the end of the run. Default: nothing.
    pub series: Option<Vec<What>>,
    /// What has its median, its 95th and its 99th percentile measured: each subflow's round-trip
    /// times, the time that packets are in each link's queue. Only at the packet and the stack
    /// level. Default: nothing.
    pub percentiles: Option<Vec<Percentiles>>,
    /// Parts of the run with separate goodputs. Default: none.
    pub spans: Option<Vec<Span>>,
}

/// A part of the run.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Its name.
    #[schemars(required)]
    pub name: Option<Name>,
    /// Its beginning.
    #[schemars(required)]
    pub from: Option<TimeSpan>,
    /// Its end.
    #[schemars(required)]
    pub until: Option<TimeSpan>,
}
