//! When a series of rates has settled.

/// How a series of rates settles, as the overlay paper measures it (section 5.1).
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct Convergence {
    /// The mean of the last values.
    pub value: f64,
    /// So many intervals pass before all values stay within the band around it; as many as there
    /// are, if the last one is outside.
    pub time: usize,
}

impl Convergence {
    /// Of the last so many values the mean, and since when all are within `band` of it: the paper
    /// takes 5000 of 10 000 and 0.98, or 500 of 1000 and 0.95. `None` without values.
    pub fn of(series: &[f64], last: usize, band: f64) -> Option<Self> {
        let tail = &series[series.len().saturating_sub(last.max(1))..];
        let value = tail.iter().sum::<f64>() / tail.len() as f64;
        let outside = |x: &f64| (x - value).abs() > (1.0 - band) * value;
        let time = series
            .iter()
            .rposition(outside)
            .map_or(0, |index| index + 1);
        (!series.is_empty()).then_some(Convergence { value, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settles_after_the_last_value_outside() {
        let of = |series: &[f64]| Convergence::of(series, 2, 0.9).unwrap();
        let settled = of(&[0.0, 5.0, 10.0, 8.0, 9.5, 10.0, 10.0]);
        assert_eq!(
            settled,
            Convergence {
                value: 10.0,
                time: 4
            }
        );
        assert_eq!(of(&[10.0; 4]).time, 0);
        assert_eq!(of(&[10.0, 0.0]).time, 2);
        assert_eq!(
            of(&[0.0; 3]),
            Convergence {
                value: 0.0,
                time: 0
            }
        );
        assert_eq!(Convergence::of(&[], 2, 0.9), None);
    }
}
