//! Distributions, and when a rate has settled.

use serde::Serialize;

/// Numbers in ascending order.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    /// The finite ones of `values`.
    pub(crate) fn new(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values
            .into_iter()
            .filter(|value| value.is_finite())
            .collect();
        sorted.sort_by(f64::total_cmp);
        Sample(sorted)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Share of the values above `bound`; NaN without any value.
    pub(crate) fn above(&self, bound: f64) -> f64 {
        let at = self.0.partition_point(|&value| value <= bound);
        (self.0.len() - at) as f64 / self.0.len() as f64
    }

    /// Share of the values of at most `bound`; NaN without any value.
    pub(crate) fn within(&self, bound: f64) -> f64 {
        1.0 - self.above(bound)
    }

    /// The smallest value that at least this share of all don't exceed; NaN without any value.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        let value = self.0.get(rank.clamp(1, self.0.len().max(1)) - 1);
        value.copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// The distribution function as points of a line, values beyond `most` left out of it.
    pub(crate) fn distribution(&self, most: f64) -> Vec<(f64, f64)> {
        let share = |n: usize| n as f64 / self.0.len() as f64;
        let shown = self.0.iter().take_while(|&&value| value <= most);
        let points = shown
            .enumerate()
            .flat_map(|(n, &value)| [(value, share(n)), (value, share(n + 1))]);
        points.collect()
    }
}

/// The mean over so many intervals counts as the rate of a moment.
const SMOOTHED: usize = 4;
/// A rate has settled when it gets to this share of its mean over the second half.
const SETTLED: f64 = 0.9;

/// When a rate gets to its steady state, given its means over intervals of `interval_s`: the end of
/// the first four of them whose mean is nine tenths of the mean over the second half. NaN if that
/// never happens.
pub(crate) fn settled_s(rates: &[f64], interval_s: f64) -> f64 {
    let late = &rates[rates.len() / 2..];
    let steady = mean(late);
    let first = rates
        .windows(SMOOTHED)
        .position(|window| mean(window) >= SETTLED * steady);
    first.map_or(f64::NAN, |n| (n + SMOOTHED) as f64 * interval_s)
}

fn mean(values: &[f64]) -> f64 {
    let known = values.iter().filter(|value| value.is_finite());
    let (sum, count) = known.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_quantiles() {
        let sample = Sample::new([4.0, 1.0, f64::NAN, 2.0, 3.0]);
        assert_eq!(sample.len(), 4);
        assert_eq!((sample.above(2.0), sample.within(2.0)), (0.5, 0.5));
        assert_eq!((sample.above(4.0), sample.above(0.0)), (0.0, 1.0));
        let quantiles = [0.0, 0.25, 0.5, 0.51, 1.0].map(|share| sample.quantile(share));
        assert_eq!(quantiles, [1.0, 1.0, 2.0, 3.0, 4.0]);
        assert!(Sample::default().quantile(0.5).is_nan());
    }

    #[test]
    fn a_distribution_rises_by_steps() {
        let sample = Sample::new([1.0, 3.0, 9.0, 9.0]);
        let expected = [(1.0, 0.0), (1.0, 0.25), (3.0, 0.25), (3.0, 0.5)];
        assert_eq!(sample.distribution(5.0), expected);
    }

    #[test]
    fn a_rate_settles_when_it_gets_near_its_last_half() {
        let mut rates = vec![1.0; 20];
        rates.extend([2.0; 80]);
        // Three of the four at 2, one at 1: 1.75 is below 1.8, so all four have to be.
        assert_eq!(settled_s(&rates, 5.0), 120.0);
        assert_eq!(settled_s(&[1.0; 40], 5.0), 20.0);
    }
}
