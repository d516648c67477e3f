//! Where sizes and times come from that are drawn anew each time.

use std::sync::Arc;

/// More than anybody sends or waits for: a petabyte, or 11 days.
const MOST: f64 = 1e15;

/// A distribution of whole numbers: bytes or nanoseconds. It holds no randomness: a level draws the
/// share of the values below one, uniform from 0 to 1, and [`Distribution::at`] is the value.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Fixed(u64),
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: f64,
    },
    /// P(X > x) = (scale / x)^shape.
    Pareto {
        /// The smallest value.
        scale: f64,
        /// Above 1.
        shape: f64,
    },
    /// Measured: values and the shares of values up to them, both rising, the last share 1. Between
    /// two points, the share rises in proportion to the value; the first point has value 0 or any
    /// share of its own.
    Measured(Arc<[(f64, f64)]>),
}

/// The scale of the Pareto distribution with this mean.
pub(crate) fn pareto_scale(mean: f64, shape: f64) -> f64 {
    mean * (shape - 1.0) / shape
}

impl From<u64> for Distribution {
    fn from(value: u64) -> Self {
        Self::Fixed(value)
    }
}

impl Distribution {
    /// The value, if it is always the same.
    pub fn fixed(&self) -> Option<u64> {
        match self {
            Self::Fixed(value) => Some(*value),
            _ => None,
        }
    }

    /// The mean. Drawn values are rounded up, which adds a half to it.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(value) => *value as f64,
            Self::Exponential { mean } => *mean,
            Self::Pareto { scale, shape } => scale * shape / (shape - 1.0),
            Self::Measured(points) => {
                let first = points.first().map_or(0.0, |(value, share)| value * share);
                let between = points.windows(2).map(|pair| match pair {
                    [(low, below), (high, up_to)] => (up_to - below) * (low + high) / 2.0,
                    _ => 0.0,
                });
                first + between.sum::<f64>()
            }
        }
    }

    /// The value that a `share` of 0 to 1 of all values don't exceed: at least 1, and at most
    /// 10^15. Of a fixed one, the value itself.
    pub fn at(&self, share: f64) -> u64 {
        let rest = (1.0 - share).max(f64::MIN_POSITIVE);
        let value = match self {
            Self::Fixed(value) => return *value,
            Self::Exponential { mean } => -mean * rest.ln(),
            Self::Pareto { scale, shape } => scale * rest.powf(-1.0 / shape),
            Self::Measured(points) => {
                let above = points.partition_point(|(_, up_to)| *up_to < share);
                match (above.checked_sub(1).map(|n| points[n]), points.get(above)) {
                    (Some((low, below)), Some((high, up_to))) => {
                        low + (high - low) * (share - below) / (up_to - below)
                    }
                    (None, Some((first, _))) => *first,
                    (below, None) => below.map_or(0.0, |(last, _)| last),
                }
            }
        };
        value.ceil().clamp(1.0, MOST) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measured(points: &[(f64, f64)]) -> Distribution {
        Distribution::Measured(points.into())
    }

    #[test]
    fn values_by_their_shares() {
        let fixed = Distribution::from(7);
        assert_eq!((fixed.at(0.0), fixed.at(0.9), fixed.mean()), (7, 7, 7.0));
        // The median of an exponential distribution is ln 2 of its mean.
        let exponential = Distribution::Exponential { mean: 1e6 };
        assert_eq!(exponential.at(0.5), 693_148);
        // P(X > 8) = 1/8 with shape 1.5 and scale 2: (2/8)^1.5.
        let pareto = Distribution::Pareto {
            scale: 2.0,
            shape: 1.5,
        };
        assert_eq!(pareto.at(0.874_999), 8);
        assert_eq!((pareto.at(0.0), pareto.mean()), (2, 6.0));
        let steps = measured(&[(10.0, 0.25), (20.0, 0.75), (100.0, 1.0)]);
        let values = [0.0, 0.25, 0.5, 0.75, 0.875, 1.0].map(|share| steps.at(share));
        assert_eq!(values, [10, 10, 15, 20, 60, 100]);
        assert_eq!(steps.mean(), 2.5 + 7.5 + 15.0);
    }

    #[test]
    fn no_value_is_zero_or_beyond_measure() {
        let pareto = Distribution::Pareto {
            scale: 1e6,
            shape: 1.001,
        };
        assert_eq!(pareto.at(1.0), 1_000_000_000_000_000);
        let exponential = Distribution::Exponential { mean: 1e6 };
        assert_eq!(exponential.at(0.0), 1);
    }

    proptest! {
        /// Evenly spread shares give the mean, but for what a heavy tail has beyond the last.
        #[test]
        fn the_mean_is_that_of_the_values(kind in 0..3, scale in 1e3..1e6_f64) {
            let distribution = match kind {
                0 => Distribution::Exponential { mean: scale },
                1 => Distribution::Pareto { scale, shape: 3.0 },
                _ => measured(&[(0.0, 0.0), (scale, 0.3), (5.0 * scale, 0.9), (6.0 * scale, 1.0)]),
            };
            let count = 20_000;
            let share = |n: i32| (f64::from(n) + 0.5) / f64::from(count);
            let sum: f64 = (0..count).map(|n| distribution.at(share(n)) as f64).sum();
            let mean = distribution.mean();
            prop_assert!((sum / f64::from(count) / mean - 1.0).abs() < 2e-3);
        }

        #[test]
        fn values_rise_with_their_shares(a in 0.0..1.0_f64, b in 0.0..1.0_f64) {
            let (low, high) = (a.min(b), a.max(b));
            for distribution in [
                Distribution::Exponential { mean: 1e5 },
                Distribution::Pareto { scale: 10.0, shape: 1.1 },
                measured(&[(0.0, 0.0), (10.0, 0.5), (11.0, 0.6), (4000.0, 1.0)]),
            ] {
                prop_assert!(distribution.at(low) <= distribution.at(high));
            }
        }
    }
}
