//! The results of the packet level and of the stack level as programs read them: the object that
//! `manyway run --json` prints, and its schema. A change of a field's name or type raises the
//! version; a new field doesn't. This module holds numbers only: [`tally`](super::tally) computes
//! them, and whoever prints them chooses the words.

use indexmap::IndexMap;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::measure::Estimate;

/// Version of the objects that `manyway run --json` prints, at every level.
const VERSION: u32 = 2;

/// The results of a scenario.
///
/// Every number that a run measures is an estimate over the finished repetitions: the mean of those
/// that have a value, half the width of its 95 % confidence interval, and their number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Results of manyway run")]
pub struct Object<R> {
    /// Version of this object: 2. In version 1, which has no such field, a measured number was its
    /// mean alone, and a second field with `ci95` in its name had the interval.
    pub version: u32,
    /// What a level reports.
    #[serde(flatten)]
    pub report: R,
}

impl<R> Object<R> {
    /// A report as an object of the current version.
    pub fn new(report: R) -> Self {
        Self {
            version: VERSION,
            report,
        }
    }
}

/// What the packet level or the stack level makes of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// What carried the runs out.
    pub level: Level,
    /// Seed of the first repetition; the next ones count up from it.
    pub seed: u64,
    /// Repetitions that were asked for.
    pub repeat: u32,
    /// Runs that are missing because they were stopped or never started; 0 unless somebody
    /// interrupted them.
    pub unfinished: u64,
    /// What was measured: of the only point, or of each point of the sweep.
    #[serde(flatten)]
    pub results: Results,
}

/// What carries runs out.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Every packet over links with queues, with the transport's own senders and controllers.
    Packet,
    /// The same links, and complete sessions in the place of the senders: every byte that counts
    /// was handed over, in order and once.
    Stack,
    /// The same links in real time, and processes and connections of the kernel's.
    Live,
}

impl Level {
    /// Its name, as in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Stack => "stack",
            Self::Live => "live",
        }
    }
}

/// One point or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Results {
    /// A scenario with a sweep.
    Sweep {
        /// Each point with a finished run, in the order of the sweep.
        points: Vec<PointReport>,
    },
    /// A scenario without a sweep.
    Point(Measured),
}

/// One point of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointReport {
    /// Its number in the order of the sweep, from 1.
    pub point: u64,
    /// What the sweep sets here, by key.
    pub set: IndexMap<String, String>,
    /// What was measured.
    #[serde(flatten)]
    pub measured: Measured,
}

/// What was measured at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Finished repetitions: the means are over these.
    pub runs: u32,
    /// Means are taken from here, seconds from the start of a run …
    pub measured_from_s: f64,
    /// … to here.
    pub measured_until_s: f64,
    /// Every flow, in the scenario's order.
    pub flows: Vec<FlowReport>,
    /// The flows as the scenario groups them.
    pub groups: Vec<GroupReport>,
    /// Every named link.
    pub links: Vec<LinkReport>,
    /// Jain's index of fairness of the flows' goodput: 1 when all have the same; null when there is
    /// no goodput.
    pub jain: Option<Estimate>,
}

/// One flow over the measured time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowReport {
    /// Its name: its group's, with `.1`, `.2`, … where that has several members.
    pub name: String,
    /// Its group's name.
    pub group: String,
    /// How many flows it stands for: 1, or, of a fluid, all of the group's. Then goodputs, shares,
    /// packets and cuts are those of all of them, windows and round-trip times those of each.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// Goodput while it was active: payload acknowledged, or, at the stack and live levels, read
    /// by the receiving application, bits/s.
    pub goodput_bps: Estimate,
    /// Its payload over that of all flows in the measured time; null when nobody had any.
    pub share: Option<Estimate>,
    /// Of a finite transfer: the repetitions in which one was complete before the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<u32>,
    /// Of a finite transfer: from its start to the acknowledgement of its last byte, over the
    /// repetitions in which it was complete, seconds. Of a flow that pauses, the mean of its
    /// transfers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_s: Option<Estimate>,
    /// Goodput in each span of time that the scenario names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanReport>,
    /// Each subflow.
    pub subflows: Vec<SubflowReport>,
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

/// One subflow over the measured time; in a group: the mean subflow over a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubflowReport {
    /// Its path's name.
    pub path: String,
    /// Goodput, bits/s.
    pub goodput_bps: Estimate,
    /// Its goodput over that of its flow; null when that had none.
    pub share: Option<Estimate>,
    /// Time average of the congestion window, packets; null if it never was there.
    pub window_mean_packets: Option<Estimate>,
    /// Mean of the round-trip time samples, seconds; null if there was none. At the live level, the
    /// mean time that packets take there plus the mean time that those of the return path take.
    pub rtt_mean_s: Option<Estimate>,
    /// Percentiles of a run's round-trip time samples, seconds, within 0.8 %, if the scenario
    /// measures them; in a group: the means of its subflows' ones. At the stack level, of the
    /// smoothed round-trip time every 10 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_percentiles_s: Option<Percentiles>,
    /// Window cuts by loss or marks; of no repetition (`n` is 0) at the live level.
    pub loss_events: Estimate,
    /// Packets sent.
    pub packets_sent: Estimate,
    /// Packets declared lost; at the live level, those that the network dropped.
    pub packets_lost: Estimate,
    /// Probe timeouts; of no repetition (`n` is 0) at the live level.
    pub timeouts: Estimate,
    /// Goodput in each span of time that the scenario names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanReport>,
}

/// Goodput in a named span of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpanReport {
    /// The span's name.
    pub name: String,
    /// Goodput while the flow was there, bits/s; of no repetition (`n` is 0) if it never was.
    pub goodput_bps: Estimate,
}

/// The flows of a group over the measured time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupReport {
    /// Its name.
    pub name: String,
    /// Number of its flows; the most that may come, where starts are random.
    pub count: u64,
    /// Where starts are random: how many flows came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Estimate>,
    /// Their congestion-control law with its parameters; null for a group without flows.
    pub law: Option<String>,
    /// Goodput of its mean flow, bits/s.
    pub goodput_bps: Estimate,
    /// Goodput of the flow with the least, bits/s.
    pub goodput_min_bps: Estimate,
    /// Goodput of the flow in the middle, bits/s.
    pub goodput_median_bps: Estimate,
    /// Goodput of the flow with the most, bits/s.
    pub goodput_max_bps: Estimate,
    /// Payload of all together over the whole measured time, bits/s.
    pub total_bps: Estimate,
    /// `total_bps` over that of all groups; null when nobody had any.
    pub share: Option<Estimate>,
    /// Jain's index of fairness of its flows' goodput; null when there is none.
    pub jain: Option<Estimate>,
    /// Of finite transfers: how many were complete before the end, several of a flow that pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Estimate>,
    /// Of finite transfers that were complete: the mean time it took, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_s: Option<Estimate>,
    /// Of finite transfers that were complete: the longest time it took, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_max_s: Option<Estimate>,
    /// Percentiles of the times of a run's complete transfers, seconds. Between two times, a
    /// percentile is in proportion to its rank (Hyndman and Fan 1996, definition 7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_percentiles_s: Option<Percentiles>,
    /// Of finite transfers that were complete: the mean of the slowdown, which is the time that a
    /// transfer took over the least that it takes alone, with windows open from the start, and
    /// links as fast as they ever are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Estimate>,
    /// Percentiles of the slowdowns of a run's complete transfers, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown_percentiles: Option<Percentiles>,
    /// Goodput of its mean flow in each span of time that the scenario names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanReport>,
    /// The mean subflow over each path that its flows use.
    pub subflows: Vec<SubflowReport>,
}

/// Percentiles of the values of each run.
#[derive(Debug, Copy, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// The median.
    pub p50: Estimate,
    /// Five of a hundred values are larger.
    pub p95: Estimate,
    /// One of a hundred values is larger.
    pub p99: Estimate,
}

/// One link over the measured time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkReport {
    /// Its name.
    pub name: String,
    /// Part of the time in which it sends, 0 to 1.
    pub utilisation: Estimate,
    /// What leaves it and isn't lost on the wire, bits/s.
    pub load_bps: Estimate,
    /// Time average of the backlog, the packet in service included, packets.
    pub queue_mean_packets: Estimate,
    /// Percentiles of the times that packets were in the queue, from when they came in the measured
    /// time to when their last bit left, seconds, within 0.8 %, if the scenario measures them.
    /// Dropped packets don't count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_delay_percentiles_s: Option<Percentiles>,
    /// Packets offered.
    pub packets: Estimate,
    /// Packets dropped, for whatever reason.
    pub drops: Estimate,
    /// `drops` over `packets`, 0 to 1; null when nothing was offered.
    pub drop_rate: Option<Estimate>,
    /// Packets marked.
    pub marks: Estimate,
}

impl Report {
    /// The measured points, each with what its sweep sets: one without any for a scenario without a
    /// sweep.
    pub fn points(&self) -> impl Iterator<Item = (Option<&PointReport>, &Measured)> {
        let (swept, only) = match &self.results {
            Results::Sweep { points } => (points.as_slice(), None),
            Results::Point(measured) => (&[][..], Some((None, measured))),
        };
        let swept = swept.iter().map(|point| (Some(point), &point.measured));
        swept.chain(only)
    }
}

/// The JSON schema of a [`Report`]'s [`Object`] (draft 2020-12).
pub fn schema() -> Schema {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<Object<Report>>()
}
