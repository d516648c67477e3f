//! What every demo presents: text, an object, a plot, and the rates in it.

use manyway_report::PlotError;
use manyway_units::Rate;

use super::trial::Sample;

/// What a demo has to show.
pub(super) trait Show {
    type Json: serde::Serialize;

    fn text(&self) -> String;
    fn json(&self) -> Self::Json;
    fn svg(&self) -> Result<String, PlotError>;
    /// Whether all copies equal the originals.
    fn verified(&self) -> bool;
}

/// What a rate amounts to in a plot.
pub(super) fn mbps(rate: Rate) -> f64 {
    rate.bits_per_sec() / 1e6
}

/// The rate over each way in Mbps, at the middle of each span between samples a few apart.
pub(super) fn rates(samples: &[Sample]) -> Vec<(f64, Vec<f64>)> {
    /// Two samples, half a second: evens out the bursts but not the windows' sawtooth.
    const SPAN: usize = 2;
    let spans = samples.iter().zip(samples.iter().skip(SPAN));
    spans
        .map(|(before, after)| {
            let span = after.at.saturating_sub(before.at);
            let each = after.bytes.iter().zip(&before.bytes);
            let rate =
                |(after, before): (&u64, &u64)| mbps(Rate::of(after.saturating_sub(*before), span));
            (
                before.at.as_secs_f64() + span.as_secs_f64() / 2.0,
                each.map(rate).collect(),
            )
        })
        .collect()
}
