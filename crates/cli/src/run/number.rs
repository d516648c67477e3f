//! Numbers of a table's column or a plot's axis: one unit and one number of decimals for all. This
//! module turns numbers into text and knows nothing about what they measure.

use manyway_simulate::measure::Estimate;

/// The unit and precision of a column or an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Style {
    /// The divisor of all values.
    pub(super) unit: f64,
    /// The unit's prefix: `M` of Mbps.
    pub(super) prefix: &'static str,
    decimals: usize,
}

impl Style {
    /// Four significant digits for the largest of `values`, but at most `decimals` behind the
    /// point.
    pub(super) fn plain(values: impl IntoIterator<Item = f64>, decimals: usize) -> Self {
        Self::scaled(largest(values), (1.0, ""), decimals)
    }

    /// The same in `k`, `M` or `G`, as suits the largest.
    pub(super) fn rate(values: impl IntoIterator<Item = f64>) -> Self {
        let largest = largest(values);
        let unit = match largest {
            x if x >= 1e9 => (1e9, "G"),
            x if x >= 1e6 || x == 0.0 => (1e6, "M"),
            _ => (1e3, "k"),
        };
        Self::scaled(largest, unit, 3)
    }

    /// Values in seconds, written in seconds or, when all are below one, in milliseconds.
    pub(super) fn time(values: impl IntoIterator<Item = f64>) -> Self {
        let largest = largest(values);
        let unit = match largest {
            x if x > 0.0 && x < 1.0 => (1e-3, "m"),
            _ => (1.0, ""),
        };
        Self::scaled(largest, unit, 3)
    }

    /// Values in seconds, written in milliseconds.
    pub(super) fn millis(values: impl IntoIterator<Item = f64>) -> Self {
        Self::scaled(largest(values), (1e-3, "m"), 2)
    }

    /// Values from 0 to 1, written in percent.
    pub(super) fn percent(decimals: usize) -> Self {
        Self {
            unit: 0.01,
            prefix: "",
            decimals,
        }
    }

    fn scaled(largest: f64, (unit, prefix): (f64, &'static str), decimals: usize) -> Self {
        let digits = (largest / unit).max(1.0).log10().floor() as usize + 1;
        Self {
            unit,
            prefix,
            decimals: 4_usize.saturating_sub(digits).min(decimals),
        }
    }

    /// `39.13 ± 0.42`, `39.13` without an interval, `-` without an estimate.
    pub(super) fn write(&self, estimate: impl Into<Option<Estimate>>) -> String {
        // What had no value in any run, such as the goodput of a flow that wasn't there.
        let estimate = estimate.into().filter(|estimate| estimate.n > 0);
        let mean = self.number(estimate.map(|estimate| estimate.mean));
        match estimate.and_then(|estimate| estimate.ci95) {
            Some(ci95) => format!("{mean} ± {}", self.number(ci95)),
            None => mean,
        }
    }

    /// `39.13`, or `-` without a value.
    pub(super) fn number(&self, value: impl Into<Option<f64>>) -> String {
        match value.into() {
            Some(value) => format!("{:.*}", self.decimals, value / self.unit),
            None => "-".to_owned(),
        }
    }
}

fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values
        .into_iter()
        .filter(|x| x.is_finite())
        .fold(0.0, |largest, x| largest.max(x.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unit_and_precision_for_all() {
        let estimate = |mean, ci95| Estimate {
            mean,
            ci95: Some(ci95),
            n: 3,
        };
        let style = Style::rate([39.1e6, 0.5e6]);
        assert_eq!(style.prefix, "M");
        assert_eq!(style.write(estimate(39.126e6, 421e3)), "39.13 ± 0.42");
        let alone = Estimate {
            ci95: None,
            ..estimate(0.5e6, 0.0)
        };
        assert_eq!(style.write(alone), "0.50");
        assert_eq!(style.write(None), "-");
        assert_eq!(style.write(Estimate::default()), "-");
        assert_eq!(style.number(0.5e6), "0.50");
        assert_eq!(style.number(None), "-");
        assert_eq!(Style::rate([812.0]).number(812.0), "0.812");
        assert_eq!(Style::rate([6e9]).number(5.7e9), "5.700");
        assert_eq!(Style::rate([0.0]).number(0.0), "0.000");
        assert_eq!(
            Style::plain([12_345.0, f64::NAN], 1).number(12_345.4),
            "12345"
        );
        assert_eq!(Style::plain([1.0], 1).number(0.25), "0.2");
        assert_eq!(Style::millis([0.0401]).number(0.0401), "40.10");
        assert_eq!(
            Style::percent(1).write(estimate(0.9871, 0.002)),
            "98.7 ± 0.2"
        );
    }
}
