//! Each route's share of the traffic over time.

use std::time::Duration;

use super::super::trial::Sample;

/// Each route's share between two moments, 0 to 1; all zero if nothing was sent.
pub(super) fn shares(samples: &[Sample], from: Duration, to: Duration) -> Vec<f64> {
    let (Some(before), Some(after)) = (at(samples, from), at(samples, to)) else {
        return Vec::new();
    };
    let each = after.bytes.iter().zip(&before.bytes);
    let each: Vec<f64> = each.map(|(a, b)| a.saturating_sub(*b) as f64).collect();
    let sum: f64 = each.iter().sum();
    each.iter().map(|bytes| bytes / sum.max(1.0)).collect()
}

/// The last sample up to then, otherwise the first one.
fn at(samples: &[Sample], moment: Duration) -> Option<&Sample> {
    let later = samples.partition_point(|sample| sample.at <= moment);
    samples.get(later.saturating_sub(1))
}

/// When a route reached this many loss epochs; `None` if it never did.
pub(super) fn epochs_reached(samples: &[Sample], route: usize, epochs: u64) -> Option<Duration> {
    let reached = |sample: &&Sample| sample.loss_events.get(route).is_some_and(|&n| n >= epochs);
    samples.iter().find(reached).map(|sample| sample.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64, bytes: [u64; 2], epochs: u64) -> Sample {
        Sample {
            at: Duration::from_secs(seconds),
            bytes: bytes.into(),
            loss_events: vec![epochs, 0],
        }
    }

    #[test]
    fn shares_are_of_what_was_sent_in_the_span() {
        let samples = [
            sample(0, [0, 0], 0),
            sample(10, [600, 400], 3),
            sample(20, [1500, 500], 7),
        ];
        let within = |from, to| {
            let seconds = Duration::from_secs;
            shares(&samples, seconds(from), seconds(to))
        };
        assert_eq!(within(0, 10), [0.6, 0.4]);
        assert_eq!(within(10, 20), [0.9, 0.1]);
        assert_eq!(within(12, 30), [0.9, 0.1]);
        assert_eq!(within(20, 20), [0.0, 0.0]);
        assert_eq!(shares(&[], Duration::ZERO, Duration::ZERO), [0.0; 0]);
    }

    #[test]
    fn the_epochs_moment() {
        let samples = [
            sample(0, [0, 0], 0),
            sample(10, [1, 1], 3),
            sample(20, [1, 1], 7),
        ];
        let reached = |epochs| epochs_reached(&samples, 0, epochs);
        assert_eq!(reached(3), Some(Duration::from_secs(10)));
        assert_eq!(reached(4), Some(Duration::from_secs(20)));
        assert_eq!(reached(8), None);
    }
}
