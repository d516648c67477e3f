//! Parameters of laws: key, default, allowed range and meaning. Knows no law.

use std::fmt::{self, Display};

/// A parameter of a law.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub key: &'static str,
    /// Its value where none is given.
    pub default: f64,
    /// The values allowed.
    pub range: Range,
    /// What it does, with its unit if it has one.
    pub meaning: &'static str,
}

impl Parameter {
    /// A parameter.
    pub(crate) const fn new(
        key: &'static str,
        default: f64,
        range: Range,
        meaning: &'static str,
    ) -> Self {
        Parameter {
            key,
            default,
            range,
            meaning,
        }
    }
}

/// The parameters of `first`, then those of `second`; `N` is the number of both.
pub(crate) const fn join<const A: usize, const B: usize, const N: usize>(
    first: [Parameter; A],
    second: [Parameter; B],
) -> [Parameter; N] {
    assert!(A + B == N && A > 0, "N is the number of both");
    let mut joined = [first[0]; N];
    let mut i = 0;
    while i < N {
        joined[i] = if i < A { first[i] } else { second[i - A] };
        i += 1;
    }
    joined
}

/// An interval of numbers; never NaN.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Range {
    /// The lower end.
    pub low: f64,
    /// Whether the lower end itself is allowed.
    pub low_included: bool,
    /// The upper end; infinite where infinity is a value like others (`inf`).
    pub high: f64,
    /// Whether the upper end itself is allowed.
    pub high_included: bool,
    /// Whether only whole numbers are allowed.
    pub whole: bool,
}

impl Range {
    /// From `low` to `high`, both included.
    pub const fn between(low: f64, high: f64) -> Self {
        Range {
            low,
            low_included: true,
            high,
            high_included: true,
            whole: false,
        }
    }

    /// 0 for no, 1 for yes.
    pub const fn switch() -> Self {
        Range {
            whole: true,
            ..Range::between(0.0, 1.0)
        }
    }

    /// More than `low`, at most `high`.
    pub const fn above(low: f64, high: f64) -> Self {
        Range {
            low_included: false,
            ..Range::between(low, high)
        }
    }

    /// More than `low`, less than `high`.
    pub const fn within(low: f64, high: f64) -> Self {
        Range {
            high_included: false,
            ..Range::above(low, high)
        }
    }

    /// Whether `value` is in the range.
    pub fn contains(&self, value: f64) -> bool {
        (value > self.low || self.low_included && value == self.low)
            && (value < self.high || self.high_included && value == self.high)
            && (!self.whole || value.fract() == 0.0)
    }
}

impl Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (self.low, self.high);
        match (self.low_included, self.high_included) {
            (true, true) if self.whole && high - low == 1.0 => write!(f, "{low} or {high}"),
            (true, true) if self.whole => write!(f, "whole numbers from {low} to {high}"),
            (true, true) => write!(f, "{low} to {high}"),
            (true, false) => write!(f, "{low} to less than {high}"),
            (false, true) => write!(f, "more than {low}, at most {high}"),
            (false, false) => write!(f, "more than {low}, less than {high}"),
        }
    }
}
