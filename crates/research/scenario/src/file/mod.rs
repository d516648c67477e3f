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
mod relays;
mod sweep;
mod timeout;

pub use choices::{Growth, LossDetection, PathUse, Recovery, Scheduler, SlowStart, What};
pub use law::Law;
pub use link::{
    Change, GilbertElliott, Late, Link, Loss, Outages, Policer, Queue, Red, Varying, Weight,
};
pub use overlay::{
    Demand, Increment, Overlay, OverlayPackets, RateControl, RelayChoice, Reselect, Scheme,
    Sharing, Start,
};
pub use relays::{Relays, Reuse};
pub use sweep::Sweep;
pub use timeout::RetransmissionTimeout;

/// A scenario: a network, who sends over it, and what is measured.
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
    /// How long a run lasts.
    pub duration: Option<TimeSpan>,
    /// Seed of everything random in the first repetition of each point; those of the next ones
    /// count up from it. Default: 1.
    pub seed: Option<u64>,
    /// How many times each point is run, with different seeds; from 1 to 100,000. Default: 1.
    pub repeat: Option<u32>,
    /// One-way links by name.
    pub links: Option<IndexMap<Name, Link>>,
    /// Ways over the links, by name.
    pub paths: Option<IndexMap<Name, Path>>,
    /// What holds for every flow that doesn't say otherwise. Any key of a flow may stand here; a
    /// flow's own key replaces it as a whole.
    pub defaults: Option<Flow>,
    /// Flows, or groups of equal flows, by name.
    pub flows: Option<IndexMap<Name, Flow>>,
    /// What is measured. Default: means over the whole run, no series.
    pub measure: Option<Measure>,
    /// Sources that send through relays which they choose, by rate control above the transport; in
    /// place of `duration`, `links`, `paths`, `flows` and `measure`.
    pub overlay: Option<Overlay>,
    /// Keys with lists of values: the scenario is run for every combination. Default: nothing is
    /// swept.
    pub sweep: Option<Sweep>,
    /// The folder that it is in, for files that it names.
    #[serde(skip)]
    pub(crate) folder: PathBuf,
}

/// A way from a sender to a receiver, and back.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// The links that data passes, in order; none of them twice.
    #[schemars(required, length(min = 1))]
    pub links: Option<Vec<Name>>,
    /// The links that acknowledgements pass, in order. Default: none; they come back after
    /// `return_delay`, whatever their number.
    pub reverse: Option<Vec<Name>>,
    /// How long acknowledgements take, beside the reverse links. Default: the sum of the delays of
    /// `links` without reverse links, 0 with them. The delays of a flow's access link and its
    /// `extra_delay` come on top.
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
    /// `name.1`, `name.2`, … Default: 1.
    pub count: Option<u32>,
    /// When the first flow of the group starts. Default: "0 s".
    pub start: Option<TimeSpan>,
    /// Each further flow of the group starts this much later than the one before. Default: "0 s".
    pub stagger: Option<TimeSpan>,
    /// Each flow really starts at a random time, uniform between its start and this much later.
    /// Default: "0 s".
    pub start_spread: Option<TimeSpan>,
    /// When all flows of the group stop sending. Default: at the end of the run.
    pub stop: Option<TimeSpan>,
    /// Payload that each flow transfers; it ends, and its completion time counts, when all of it is
    /// acknowledged. Default: endless.
    pub size: Option<Bytes>,
    /// The application's rate, in payload; the flow is limited by it or by the window. Default: as
    /// much as the window allows.
    pub rate: Option<Bandwidth>,
    /// A private first link in front of each subflow, shared with nobody. Default: none; its
    /// `delay` defaults to "0 s", its `queue` to "1000 packets".
    pub access: Option<Link>,
    /// More one-way delay behind the last link; acknowledgements take it once more. Default: "0 s".
    pub extra_delay: Option<TimeSpan>,
    /// The group's member k (counted from 0) has k times this much more `extra_delay`. Default: "0
    /// s".
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
    /// Whether an acknowledgement lets the window grow by all the bytes that it acknowledges, or
    /// counts for one packet however many it acknowledges, as old TCP stacks have it. Without
    /// meaning at `ack_every = "1 packet"`. Default: "bytes".
    pub growth: Option<Growth>,
    /// Whether a window that was cut holds still until packets sent since then are acknowledged, as
    /// TCP's does, or grows by every acknowledgement, as the papers print their laws: about 15 %
    /// more throughput at a loss rate of 1 %. Default: "hold".
    pub recovery: Option<Recovery>,
    /// How lost packets are told from overtaken ones. Default: "fixed".
    pub loss_detection: Option<LossDetection>,
    /// What happens when nothing is acknowledged for a while. Default: "probe".
    pub retransmission_timeout: Option<RetransmissionTimeout>,
    /// The window to start from. Default: "10 packets".
    pub initial_window: Option<Packets>,
    /// The smallest window and slow-start threshold; at least "1 packet". Default: the law's own.
    pub window_floor: Option<Packets>,
    /// The smallest slow-start threshold, where it is to be above the smallest window: a window
    /// that was cut to less gets back there by slow start; at least "1 packet". Default:
    /// `window_floor`.
    pub threshold_floor: Option<Packets>,
    /// The receiver acknowledges after so many packets, those out of order at once; from 1 to 1024.
    /// Default: "1 packet".
    pub ack_every: Option<WholePackets>,
    /// … or this long after the first one not acknowledged yet; at most 1 s. Default: "40 ms".
    /// Without meaning at `ack_every = "1 packet"`.
    pub ack_delay: Option<TimeSpan>,
    /// Bytes of an acknowledgement, on reverse links; at most 65535. Default: "52 B".
    pub ack_size: Option<Bytes>,
    /// Whether packets are ECN-capable: queues with `ecn = true` mark them instead of dropping
    /// them. Default: false.
    pub ecn: Option<bool>,
    /// Which path carries the next packet of the flow's data. At the packet level all schedulers
    /// are the same: its subflows send on whenever they may, and no byte has to wait for another.
    /// Default: "earliest-delivery".
    pub scheduler: Option<Scheduler>,
    /// How much the receiver has room for: data in its buffer or on the way, over all paths
    /// together; "64 KiB" to "1 TiB". At the stack level only. Default: "64 MiB".
    pub receive_buffer: Option<Bytes>,
    /// The payload is so many files of about the same size, which the file-transfer protocol sends,
    /// with names, hashes and answers, instead of a stream of bytes; up to 100,000. Needs `size`.
    /// At the stack level only. Default: a stream.
    #[schemars(range(min = 1, max = 100_000))]
    pub files: Option<u32>,
    /// How packets are sealed, at the stack level: encrypted as those of transfers, or in the clear
    /// with a checksum of the same size, for the same results in less time. Default: "aead".
    pub sealing: Option<Sealing>,
    /// With law `mpath` and several paths the first path is the direct one and the others, each
    /// through a relay, are opened and closed by its path manager: what there is to choose about
    /// that.
    pub relays: Option<Relays>,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Means are taken from here on; what is before is warm-up. Default: "0 s".
    pub from: Option<TimeSpan>,
    /// Means are taken up to here. Default: the end of the run.
    pub until: Option<TimeSpan>,
    /// Distance of the samples of a series. Default: "100 ms".
    pub interval: Option<TimeSpan>,
    /// What is recorded over time, from the beginning to the end of the run. Default: nothing.
    pub series: Option<Vec<What>>,
    /// Further parts of the run for which goodputs are given. Default: none.
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
