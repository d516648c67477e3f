//! Sums, means and shares that several studies take.

use manyway_simulate::measure::Summary;

/// Independent runs, summed up; there is at least one.
pub(crate) fn summary(values: impl Iterator<Item = f64>) -> Summary {
    Summary::of(&values.collect::<Vec<_>>()).expect("at least one run")
}

/// The arithmetic mean; NaN without any value.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The median; NaN without any value.
pub(crate) fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(f64::NAN, |summary| summary.median)
}

/// The largest value; minus infinity without any.
pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Standard deviation over mean.
pub(crate) fn variation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares = values.iter().map(|value| (value - mean).powi(2));
    let variance = squares.sum::<f64>() / values.len() as f64;
    variance.sqrt() / mean
}

/// Jain's fairness index: 1 when all have the same, 1/n when one has everything.
pub(crate) fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    sum * sum / (rates.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[1.0, 2.0]), 0.9);
    }

    #[test]
    fn variation_is_that_of_all_values() {
        assert_eq!(variation(&[1.0, 3.0]), 0.5);
        assert_eq!(variation(&[2.0, 2.0]), 0.0);
    }
}
