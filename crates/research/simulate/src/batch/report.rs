//! What came of all runs, as programs read it: the object of `manyway run --json`. Fields are added
//! in later versions, never changed.

use indexmap::IndexMap;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

/// The results of a scenario.
///
/// Every number that a run measures is the mean over the finished repetitions. Its companion with
/// `ci95` in the name is half the width of the mean's 95 % confidence interval by Student's t; it
/// is left out when there is but one repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Results of manyway run")]
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
    pub jain: Option<f64>,
    /// 95 % confidence interval of `jain`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jain_ci95: Option<f64>,
}

/// One flow over the measured time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowReport {
    /// Its name: its group's, with `.1`, `.2`, … where that has several members.
    pub name: String,
    /// Its group's name.
    pub group: String,
    /// Goodput while it was active: payload acknowledged, bits/s.
    pub goodput_bps: f64,
    /// 95 % confidence interval of `goodput_bps`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_ci95_bps: Option<f64>,
    /// Its goodput over that of all flows; null when nobody had any.
    pub share: Option<f64>,
    /// 95 % confidence interval of `share`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_ci95: Option<f64>,
    /// Of a finite transfer: the repetitions in which it was complete before the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<u32>,
    /// Of a finite transfer: from its start to the acknowledgement of its last byte, over the
    /// repetitions in which it was complete, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_s: Option<f64>,
    /// 95 % confidence interval of `completion_s`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_ci95_s: Option<f64>,
    /// Goodput in each span of time that the scenario names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanReport>,
    /// Each subflow.
    pub subflows: Vec<SubflowReport>,
}

/// One subflow over the measured time; in a group: the mean subflow over a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubflowReport {
    /// Its path's name.
    pub path: String,
    /// Goodput, bits/s.
    pub goodput_bps: f64,
    /// 95 % confidence interval of `goodput_bps`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_ci95_bps: Option<f64>,
    /// Its goodput over that of its flow; null when that had none.
    pub share: Option<f64>,
    /// 95 % confidence interval of `share`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_ci95: Option<f64>,
    /// Time average of the congestion window, packets; null if it never was there.
    pub window_mean_packets: Option<f64>,
    /// 95 % confidence interval of `window_mean_packets`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ci95_packets: Option<f64>,
    /// Mean of the round-trip time samples, seconds; null if there was none.
    pub rtt_mean_s: Option<f64>,
    /// 95 % confidence interval of `rtt_mean_s`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ci95_s: Option<f64>,
    /// Window cuts by loss or marks.
    pub loss_events: f64,
    /// 95 % confidence interval of `loss_events`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_events_ci95: Option<f64>,
    /// Packets sent.
    pub packets_sent: f64,
    /// 95 % confidence interval of `packets_sent`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_sent_ci95: Option<f64>,
    /// Packets declared lost.
    pub packets_lost: f64,
    /// 95 % confidence interval of `packets_lost`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_lost_ci95: Option<f64>,
    /// Probe timeouts.
    pub timeouts: f64,
    /// 95 % confidence interval of `timeouts`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts_ci95: Option<f64>,
    /// Goodput in each span of time that the scenario names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanReport>,
}

/// Goodput in a named span of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpanReport {
    /// The span's name.
    pub name: String,
    /// Goodput, bits/s.
    pub goodput_bps: f64,
    /// 95 % confidence interval of `goodput_bps`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_ci95_bps: Option<f64>,
}

/// The flows of a group over the measured time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupReport {
    /// Its name.
    pub name: String,
    /// Number of its flows.
    pub count: u64,
    /// Their congestion-control law with its parameters; null for a group without flows.
    pub law: Option<String>,
    /// Goodput of its mean flow, bits/s.
    pub goodput_bps: f64,
    /// 95 % confidence interval of `goodput_bps`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_ci95_bps: Option<f64>,
    /// Goodput of the flow with the least, bits/s.
    pub goodput_min_bps: f64,
    /// Goodput of the flow in the middle, bits/s.
    pub goodput_median_bps: f64,
    /// Goodput of the flow with the most, bits/s.
    pub goodput_max_bps: f64,
    /// Goodput of all together, bits/s.
    pub total_bps: f64,
    /// 95 % confidence interval of `total_bps`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_ci95_bps: Option<f64>,
    /// `total_bps` over the goodput of all flows of all groups; null when nobody had any.
    pub share: Option<f64>,
    /// 95 % confidence interval of `share`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_ci95: Option<f64>,
    /// Jain's index of fairness of its flows' goodput; null when there is none.
    pub jain: Option<f64>,
    /// 95 % confidence interval of `jain`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jain_ci95: Option<f64>,
    /// Of finite transfers: how many were complete before the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<f64>,
    /// Of finite transfers that were complete: the mean time it took, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_s: Option<f64>,
    /// 95 % confidence interval of `completion_s`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_ci95_s: Option<f64>,
    /// Of finite transfers that were complete: the longest time it took, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_max_s: Option<f64>,
    /// Goodput of its mean flow in each span of time that the scenario names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanReport>,
    /// The mean subflow over each path that its flows use.
    pub subflows: Vec<SubflowReport>,
}

/// One link over the measured time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkReport {
    /// Its name.
    pub name: String,
    /// Carried load over rate.
    pub utilisation: f64,
    /// 95 % confidence interval of `utilisation`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation_ci95: Option<f64>,
    /// Carried load, bits/s.
    pub load_bps: f64,
    /// 95 % confidence interval of `load_bps`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_ci95_bps: Option<f64>,
    /// Time average of the backlog, the packet in service included, packets.
    pub queue_mean_packets: f64,
    /// 95 % confidence interval of `queue_mean_packets`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_ci95_packets: Option<f64>,
    /// Packets offered.
    pub packets: f64,
    /// Packets dropped, for whatever reason.
    pub drops: f64,
    /// 95 % confidence interval of `drops`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops_ci95: Option<f64>,
    /// `drops` over `packets`, 0 to 1; null when nothing was offered.
    pub drop_rate: Option<f64>,
    /// 95 % confidence interval of `drop_rate`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_rate_ci95: Option<f64>,
    /// Packets marked.
    pub marks: f64,
    /// 95 % confidence interval of `marks`, ±.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks_ci95: Option<f64>,
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

/// The JSON schema of a [`Report`] (draft 2020-12).
pub fn schema() -> Schema {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<Report>()
}
