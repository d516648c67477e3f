//! Loss intervals of one path, and how likely it is that those of two overlap by chance.

use std::collections::VecDeque;
use std::time::Duration;

use manyway_units::Time;

/// Loss intervals kept of a path: the newest.
const KEPT: usize = 2048;

/// From the sending of the last lost packet to the detection of its loss, both ends included
/// (mPath, Section III-E).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct LossInterval {
    sent: Time,
    detected: Time,
}

impl LossInterval {
    /// An interval that ends at `detected`; a later `sent` counts as that.
    pub(super) fn new(sent: Time, detected: Time) -> Self {
        Self {
            sent: sent.min(detected),
            detected,
        }
    }

    /// Whether the two have a moment in common.
    pub(super) fn overlaps(self, other: Self) -> bool {
        self.sent <= other.detected && other.sent <= self.detected
    }

    fn length(self) -> Duration {
        self.detected.since(self.sent)
    }
}

/// A path's loss intervals, one per loss event.
#[derive(Clone, Debug, Default)]
pub(super) struct LossLog {
    intervals: VecDeque<LossInterval>,
}

impl LossLog {
    /// A loss event begins.
    pub(super) fn on_loss(&mut self, interval: LossInterval) {
        self.intervals.push_back(interval);
        if self.intervals.len() > KEPT {
            self.intervals.pop_front();
        }
    }

    /// More losses of the event: the interval is that of the last lost packet.
    pub(super) fn on_further_loss(&mut self, interval: LossInterval) {
        self.intervals.pop_back();
        self.on_loss(interval);
    }

    /// How many events there were, as far as they are kept.
    pub(super) fn len(&self) -> usize {
        self.intervals.len()
    }

    /// How many of this path's intervals overlap one of the other's.
    fn overlaps(&self, other: &Self) -> usize {
        let mut own: Vec<LossInterval> = self.intervals.iter().copied().collect();
        own.sort_unstable_by_key(|i| i.sent);
        let mut others: Vec<LossInterval> = other.intervals.iter().copied().collect();
        others.sort_unstable_by_key(|i| i.detected);
        let longest = others.iter().map(|i| i.length()).max().unwrap_or_default();
        // The other's that ended before ours began are done with for all of ours that follow.
        let mut from = 0;
        let overlapping = own.iter().filter(|own| {
            while others.get(from).is_some_and(|i| i.detected < own.sent) {
                from += 1;
            }
            let near = others[from..]
                .iter()
                .take_while(|i| i.detected <= own.detected + longest);
            near.into_iter().any(|i| i.overlaps(**own))
        });
        overlapping.count()
    }
}

/// How likely it is that two paths that have nothing to do with each other lose packets at the same
/// time as often as these two did, in `span`: a probability from 0 to 1. With the intervals of one
/// path anywhere in the span, each overlaps one of the other's with the probability `q = min(1, n
/// (a + b) / span)`, where `n` is the other's number of intervals and `a`, `b` are the mean
/// lengths; the overlaps are then binomial.
pub(super) fn chance_of_overlaps(one: &LossLog, other: &LossLog, span: Duration) -> f64 {
    let (few, many) = if one.len() <= other.len() {
        (one, other)
    } else {
        (other, one)
    };
    let seen = few.overlaps(many);
    if seen == 0 || span.is_zero() {
        return 1.0;
    }
    let mean = |log: &LossLog| {
        let total: Duration = log.intervals.iter().map(|i| i.length()).sum();
        total.as_secs_f64() / log.len() as f64
    };
    let once = many.len() as f64 * (mean(few) + mean(many)) / span.as_secs_f64();
    binomial_tail(few.len(), seen, once.min(1.0))
}

/// `P(X >= least)` for X binomial with `trials` and probability `p`.
fn binomial_tail(trials: usize, least: usize, p: f64) -> f64 {
    if least == 0 || p >= 1.0 {
        return 1.0;
    }
    if p <= 0.0 {
        return 0.0;
    }
    // In logarithms: with a thousand trials the terms are beyond what a double holds.
    let odds = (p / (1.0 - p)).ln();
    let mut term = trials as f64 * (1.0 - p).ln();
    let mut tail = 0.0;
    for k in 0..=trials {
        if k >= least {
            tail += term.exp();
        }
        term += ((trials - k) as f64 / (k + 1) as f64).ln() + odds;
    }
    tail.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomial_tails_are_those_of_the_tables() {
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 5e-7, "{found}");
        close(binomial_tail(10, 3, 0.1), 0.070_190_8);
        close(binomial_tail(20, 10, 0.5), 0.588_098_5);
        close(binomial_tail(5, 5, 0.5), 0.031_25);
        close(binomial_tail(7, 0, 0.2), 1.0);
        close(binomial_tail(7, 1, 0.0), 0.0);
        close(binomial_tail(2000, 1000, 0.5), 0.508_919_9);
    }
}
