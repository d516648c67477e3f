//! Scenarios with an `[overlay]`: what the seed decides of them, and their runs at the flow level
//! and at the packet level.
//!
//! Both levels run the same controllers ([`manyway_control::rate_control`]) over the same relays,
//! demands and selection; they differ in what they say arrives. At the flow level that is exact and
//! at once, by a rule of sharing ([`crate::flow`]). At the packet level each path is a TCP
//! connection, held to its rate by a token bucket, and what arrives is counted from
//! acknowledgements.

mod packets;

use std::sync::atomic::{AtomicBool, Ordering};

use manyway_scenario::{OverlayExperiment, RelayBandwidths, RelaySelection};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use crate::events::mix;
use crate::flow::{Convergence, Found, InvalidFlows, Overlay, Rules, Run, Search};
use crate::packet::SimulationError;

/// What a seed makes of an overlay scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Relays and demands, bits/s.
    pub overlay: Overlay,
    /// The relays of each source, by index from 0.
    pub selection: Vec<Vec<usize>>,
}

/// What one run measured. Equal for equal seeds, to the bit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverlayRun {
    /// The run's seed.
    pub seed: u64,
    /// The normalised aggregate source rate `Σ x_s / Σ m_s`: the mean over the intervals that
    /// count; of a search, with the last selection.
    pub rate: f64,
    /// Its standard deviation over these intervals; 0 of a search.
    pub deviation: f64,
    /// After so many intervals it stays within the band around that; 0 of a search.
    pub settled: usize,
    /// What came of choosing again.
    pub search: Option<SearchResult>,
    /// The normalised rate in each interval; empty of a search.
    #[serde(skip)]
    pub series: Vec<f64>,
}

/// What came of a search for relays that satisfy everybody.
#[derive(Debug, Copy, Clone, PartialEq, Serialize)]
pub struct SearchResult {
    /// Iterations until all sources were satisfied; all that were allowed if they were not.
    pub iterations: usize,
    /// Whether they were.
    pub found: bool,
    /// The normalised rate with the first selection.
    pub first: f64,
}

/// A run that can't be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OverlayError {
    /// Numbers that can't be computed with.
    #[error(transparent)]
    Flows(#[from] InvalidFlows),
    /// The network of packets can't work.
    #[error(transparent)]
    Packets(#[from] SimulationError),
    /// The scenario doesn't say what the packet level has to know.
    #[error("the packet level needs [overlay.packets] with the rtt: add it, or use --level flow")]
    NoPackets,
}

impl Setting {
    /// Draws demands and the first selection by `seed`.
    ///
    /// # Errors
    /// [`InvalidFlows`] if there are fewer relays than paths, or a number is out of range.
    pub fn draw(experiment: &OverlayExperiment, seed: u64) -> Result<Self, InvalidFlows> {
        let overlay = network(experiment, seed);
        let selection = match &experiment.selection {
            RelaySelection::Given(selection) => selection.clone(),
            RelaySelection::Chosen(config) => overlay.select(*config, seed)?,
        };
        Ok(Setting { overlay, selection })
    }
}

/// Relays and demands, these drawn by the seed if there are several to draw from.
fn network(experiment: &OverlayExperiment, seed: u64) -> Overlay {
    let choices = &experiment.demands;
    let mut rng = Pcg64Mcg::seed_from_u64(mix(seed ^ 0x6465_6d61_6e64));
    let mut demand = || match choices[..] {
        [only] => only,
        _ => choices[rng.random_range(0..choices.len())],
    };
    let demands: Vec<f64> = (0..experiment.sources).map(|_| demand()).collect();
    match &experiment.relays {
        RelayBandwidths::Given(relays) => Overlay {
            relays: relays.clone(),
            demands,
        },
        RelayBandwidths::Skewed { count, skew, ratio } => {
            Overlay::with_relays(*count, demands, *skew, *ratio)
        }
    }
}

/// A run at the flow level; `None` if it was stopped. `progress` is told the share that is done.
///
/// # Errors
/// [`OverlayError`] if the experiment can't be run.
pub fn flow(
    experiment: &OverlayExperiment,
    seed: u64,
    stop: &AtomicBool,
    mut progress: impl FnMut(f64),
) -> Result<Option<OverlayRun>, OverlayError> {
    let rules = Rules {
        control: tolerating(experiment, 0.0),
        start: experiment.start,
        sharing: experiment.sharing,
    };
    if let (Some(limit), RelaySelection::Chosen(select)) =
        (experiment.iterations, &experiment.selection)
    {
        let search = Search {
            select: *select,
            rules,
            intervals: experiment.intervals,
            judged: experiment.judged,
            limit,
        };
        let go_on = |iteration: usize| {
            progress(iteration as f64 / limit as f64);
            !stop.load(Ordering::Relaxed)
        };
        let found = search.run_while(&network(experiment, seed), seed, go_on)?;
        return Ok(found.map(|found| searched(&found, limit, seed)));
    }
    let setting = Setting::draw(experiment, seed)?;
    let mut run = Run::new(&setting.overlay, &setting.selection, rules, seed)?;
    let mut series = Vec::with_capacity(experiment.intervals);
    for interval in 0..experiment.intervals {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        run.step();
        series.push(run.normalised());
        progress(interval as f64 / experiment.intervals as f64);
    }
    Ok(Some(measured(experiment, seed, series)))
}

/// A run at the packet level; `None` if it was stopped. `progress` is told the share that is done.
///
/// # Errors
/// [`OverlayError`] if the experiment can't be run, or says nothing of packets.
pub fn packet(
    experiment: &OverlayExperiment,
    seed: u64,
    stop: &AtomicBool,
    progress: impl FnMut(f64),
) -> Result<Option<OverlayRun>, OverlayError> {
    let network = experiment.packets.as_ref().ok_or(OverlayError::NoPackets)?;
    let setting = Setting::draw(experiment, seed)?;
    let mut run = packets::PacketRun::new(experiment, network, &setting, seed)?;
    let series = run.series(stop, progress)?;
    Ok(series.map(|series| measured(experiment, seed, series)))
}

/// The constants, with the file's δ or else that of the level.
fn tolerating(
    experiment: &OverlayExperiment,
    tolerance: f64,
) -> manyway_control::rate_control::RateConfig {
    let tolerance = experiment.tolerance.unwrap_or(tolerance);
    experiment.control.with_tolerance(tolerance)
}

fn measured(experiment: &OverlayExperiment, seed: u64, series: Vec<f64>) -> OverlayRun {
    let settled = Convergence::of(&series, experiment.judged, experiment.band);
    let settled = settled.unwrap_or(Convergence {
        value: f64::NAN,
        time: 0,
    });
    let late = &series[series.len().saturating_sub(experiment.judged)..];
    let squares: f64 = late.iter().map(|rate| (rate - settled.value).powi(2)).sum();
    OverlayRun {
        seed,
        rate: settled.value,
        deviation: (squares / late.len() as f64).sqrt(),
        settled: settled.time,
        search: None,
        series,
    }
}

fn searched(found: &Found, limit: usize, seed: u64) -> OverlayRun {
    OverlayRun {
        seed,
        rate: found.last,
        deviation: 0.0,
        settled: 0,
        search: Some(SearchResult {
            iterations: found.iterations.unwrap_or(limit),
            found: found.iterations.is_some(),
            first: found.first,
        }),
        series: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
