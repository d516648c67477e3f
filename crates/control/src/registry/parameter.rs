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

/// An interval of numbers, the upper end included; never NaN.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Range {
    /// The lower end.
    pub low: f64,
    /// Whether the lower end itself is allowed.
    pub low_included: bool,
    /// The upper end; infinite where infinity is a value like others (`inf`).
    pub high: f64,
}

impl Range {
    /// From `low` to `high`, both included.
    pub const fn between(low: f64, high: f64) -> Self {
        Range {
            low,
            low_included: true,
            high,
        }
    }

    /// More than `low`, at most `high`.
    pub const fn above(low: f64, high: f64) -> Self {
        Range {
            low,
            low_included: false,
            high,
        }
    }

    /// Whether `value` is in the range.
    pub fn contains(&self, value: f64) -> bool {
        (value > self.low || self.low_included && value == self.low) && value <= self.high
    }
}

impl Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (self.low, self.high);
        if self.low_included {
            write!(f, "{low} to {high}")
        } else {
            write!(f, "more than {low}, at most {high}")
        }
    }
}
