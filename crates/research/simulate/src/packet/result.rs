//! The results of one run.

use serde::{Deserialize, Serialize};

/// What one run of the packet level measured. Equal for equal seeds, to the bit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The run's seed.
    pub seed: u64,
    /// Every flow, in the experiment's order.
    pub flows: Vec<FlowResult>,
    /// Every named link, in the experiment's order; private access links are left out.
    pub links: Vec<LinkResult>,
    /// What was recorded over time.
    pub series: Vec<Series>,
    /// False if the run was stopped before its end.
    pub complete: bool,
}

/// One flow over the measured time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Its name.
    pub name: String,
    /// Goodput over the part of the measured time in which the flow was there, bits/s; 0 if that is
    /// none.
    pub goodput_bps: f64,
    /// Seconds of the measured time in which it was there.
    pub active_s: f64,
    /// The same payload over the whole measured time, bits/s: only such rates of several flows have
    /// a sum.
    pub carried_bps: f64,
    /// Seconds from the beginning of the run to its start; `None` of a flow that would have started
    /// too late.
    pub start_s: Option<f64>,
    /// Transfers that were complete before the end, in the order of time: one at most, but of a
    /// flow that pauses.
    pub transfers: Vec<TransferResult>,
    /// Each subflow.
    pub subflows: Vec<SubflowResult>,
}

impl FlowResult {
    /// Seconds that its first transfer took, if that was complete.
    pub fn completion_s(&self) -> Option<f64> {
        self.transfers.first().map(|transfer| transfer.took_s)
    }
}

/// A transfer that was complete.
#[derive(Debug, Copy, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransferResult {
    /// Bytes of payload.
    pub bytes: u64,
    /// When it began, seconds from the beginning of the run.
    pub start_s: f64,
    /// Seconds from then to the acknowledgement of the last byte.
    pub took_s: f64,
    /// `took_s` over the time that it takes alone ([`Alone`](crate::Alone)).
    pub slowdown: f64,
}

/// One subflow over the measured time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubflowResult {
    /// Its path's name.
    pub path: String,
    /// Goodput, bits/s.
    pub goodput_bps: f64,
    /// Goodput in each named span while its flow was there, bits/s; NaN where it wasn't.
    pub spans_bps: Vec<f64>,
    /// Time average of the congestion window while the subflow was there, packets; NaN if it
    /// wasn't.
    pub window_mean_packets: f64,
    /// Mean of the round-trip time samples, seconds; NaN if there was none.
    pub rtt_mean_s: f64,
    /// The median, the 95th and the 99th percentile of the round-trip time samples, seconds, if
    /// they were measured; NaN if there was none.
    pub rtt_percentiles_s: Option<[f64; 3]>,
    /// Window cuts by loss or marks.
    pub loss_events: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Probe timeouts, and, where mPath's path manager has probed a relay, its probes without an
    /// answer in time.
    pub timeouts: u64,
    /// How often it joined: once, or, with a law that opens and closes paths, any number of times.
    pub openings: u64,
    /// Seconds during which it was there.
    pub open_s: f64,
}

impl SubflowResult {
    /// Whether its sender is a stranger's, as at the live level: nobody sees its window, its cuts
    /// and its timeouts, which are 0 here.
    pub fn is_opaque(&self) -> bool {
        self.window_mean_packets.is_nan() && self.packets_sent > 0
    }
}

/// One link over the measured time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// Its name.
    pub name: String,
    /// Part of the time in which it sends, 0 to 1.
    pub utilisation: f64,
    /// What leaves it and isn't lost on the wire, bits/s.
    pub load_bps: f64,
    /// Time average of the backlog, the packet in service included, packets.
    pub queue_mean_packets: f64,
    /// The median, the 95th and the 99th percentile of the times that packets were in the queue,
    /// from when they came to when their last bit left, seconds, if they were measured; NaN if
    /// there was no packet. Dropped packets don't count.
    pub queue_delay_percentiles_s: Option<[f64; 3]>,
    /// Packets offered.
    pub packets_offered: u64,
    /// Packets dropped, for whatever reason.
    pub packets_dropped: u64,
    /// Packets marked.
    pub packets_marked: u64,
}

/// A quantity over time, with one value at the end of each interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// `rate`, `window`, `rtt`, `queue`, `load` or `drops`.
    pub kind: String,
    /// The flow's name and the path's, or the link's.
    pub of: Vec<String>,
    /// Distance of the values, seconds.
    pub interval_s: f64,
    /// The values; units as of [`manyway_scenario::SeriesKind`]. NaN (null) where there is nothing
    /// to say, e.g. before the start.
    pub values: Vec<f64>,
}
