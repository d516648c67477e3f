//! The linear programme, to compare with.

use manyway_fluid::optimum::over_relays;

use super::Overlay;

/// Rates of all paths whose sum is largest: problem P of the overlay paper.
pub(super) fn largest(overlay: &Overlay, selection: &[Vec<usize>]) -> Vec<f64> {
    let best = over_relays(&overlay.relays, &overlay.demands, selection);
    best.unwrap().rates
}
