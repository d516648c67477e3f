//! Overlays, resolved: what the flow level and the packet level take.

use std::time::Duration;

use manyway_control::rate_control::{RateConfig, SelectConfig};
use manyway_network::Limit;

use crate::experiment::Flow;
use crate::file::{Sharing, Start};

/// One point of a scenario that has an `[overlay]`, resolved and checked. Rates are in bits/s.
///
/// It holds no randomness: a run adds the seed, by which demands are drawn and relays chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct OverlayExperiment {
    /// The scenario's name.
    pub name: String,
    /// How many sources there are; at least 1.
    pub sources: usize,
    /// What they have to send: each one of these, drawn by the seed; all above 0.
    pub demands: Vec<f64>,
    /// The relays' bandwidths to the destination.
    pub relays: RelayBandwidths,
    /// The relays of each source.
    pub selection: RelaySelection,
    /// The controllers' constants; δ is 0.
    pub control: RateConfig,
    /// δ, if the file says it; else it is the level's own.
    pub tolerance: Option<f64>,
    /// Rates to begin with.
    pub start: Start,
    /// Who loses on an overloaded link, at the flow level.
    pub sharing: Sharing,
    /// Control intervals of a run, or of each iteration.
    pub intervals: usize,
    /// The last so many count.
    pub judged: usize,
    /// A run has settled when it stays within this share of its mean.
    pub band: f64,
    /// Sources choose again, in so many iterations at most.
    pub iterations: Option<usize>,
    /// The packet level.
    pub packets: Option<OverlayNetwork>,
}

/// The bandwidth of each relay to the destination.
#[derive(Debug, Clone, PartialEq)]
pub enum RelayBandwidths {
    /// These.
    Given(Vec<f64>),
    /// So many, that of rank j in proportion to 1/j^b, and f times the demands in sum.
    Skewed {
        /// How many.
        count: usize,
        /// b.
        skew: f64,
        /// f.
        ratio: f64,
    },
}

/// The relays of each source.
#[derive(Debug, Clone, PartialEq)]
pub enum RelaySelection {
    /// These, by index from 0.
    Given(Vec<Vec<usize>>),
    /// Chosen by the seed, and chosen again in this way if there are iterations.
    Chosen(SelectConfig),
}

/// The overlay at the packet level.
#[derive(Debug, Clone, PartialEq)]
pub struct OverlayNetwork {
    /// A TCP connection, as that of each path is: over one link, path 0.
    pub connection: Flow,
    /// Round-trip time without queues.
    pub rtt: Duration,
    /// Queue of each relay's link, DropTail.
    pub queue: Limit,
    /// Length of a control interval.
    pub interval: Duration,
    /// So many packets may wait in a connection's socket; at least 1.
    pub send_buffer: u32,
    /// The maxmin procedure takes so many intervals; at least 2.
    pub fill_intervals: usize,
}

impl OverlayExperiment {
    /// How many relays there are.
    pub fn relays(&self) -> usize {
        match &self.relays {
            RelayBandwidths::Given(bandwidths) => bandwidths.len(),
            RelayBandwidths::Skewed { count, .. } => *count,
        }
    }

    /// How many entries it holds in memory.
    pub(crate) fn listed(&self) -> usize {
        let relays = match &self.relays {
            RelayBandwidths::Given(bandwidths) => bandwidths.len(),
            RelayBandwidths::Skewed { .. } => 0,
        };
        let selection = match &self.selection {
            RelaySelection::Given(selection) => selection.iter().map(Vec::len).sum(),
            RelaySelection::Chosen(_) => 0,
        };
        relays + selection + self.demands.len()
    }

    /// How many paths all sources have together.
    pub fn paths(&self) -> usize {
        match &self.selection {
            RelaySelection::Given(selection) => selection.iter().map(Vec::len).sum(),
            RelaySelection::Chosen(config) => self.sources.saturating_mul(config.paths),
        }
    }
}
