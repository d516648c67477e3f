//! The limits of a gate's values, and the recorded bounds of those that miss them.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::extent::Size;

/// What a value must be within.
#[derive(Debug, Copy, Clone, PartialEq, Default, Serialize)]
pub struct Limits {
    /// The smallest that holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The largest below that doesn't.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<f64>,
    /// The largest that holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The smallest above that doesn't.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<f64>,
}

impl Limits {
    /// Whether a value is within them; one that isn't a number never is.
    pub fn hold(&self, value: f64) -> bool {
        let keeps = |limit: Option<f64>, kept: fn(f64, f64) -> bool| {
            limit.is_none_or(|limit| kept(value, limit))
        };
        !value.is_nan()
            && keeps(self.at_least, |value, limit| value >= limit)
            && keeps(self.above, |value, limit| value > limit)
            && keeps(self.at_most, |value, limit| value <= limit)
            && keeps(self.below, |value, limit| value < limit)
    }

    /// Whether a value that misses them is no further off than a bound, which misses them too: on
    /// the same side, and not beyond it.
    pub(crate) fn hold_to(&self, bound: f64, value: f64) -> bool {
        let lower = self.at_least.or(self.above);
        let upper = self.at_most.or(self.below);
        if self.hold(value) {
            return true;
        }
        match lower.is_some_and(|lower| bound <= lower) {
            true => value >= bound && upper.is_none_or(|upper| value <= upper),
            false => value <= bound && lower.is_none_or(|lower| value >= lower),
        }
    }

    /// Those that there are, by their keys.
    pub(crate) fn named(self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = [
            ("at_least", self.at_least),
            ("above", self.above),
            ("at_most", self.at_most),
            ("below", self.below),
        ];
        all.into_iter()
            .filter_map(|(name, limit)| Some((name, limit?)))
    }
}

/// `at least 0.9 and at most 1.1`.
impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, limit)) in self.named().enumerate() {
            let and = if n > 0 { " and " } else { "" };
            write!(f, "{and}{} {limit}", name.replace('_', " "))?;
        }
        Ok(())
    }
}

/// Recorded bounds of a gate.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Known {
    /// In short runs.
    short: Bounds,
    /// In full runs.
    full: Bounds,
}

/// Of the only value, or by case.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Bounds {
    One(f64),
    ByCase(IndexMap<String, f64>),
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds::ByCase(IndexMap::new())
    }
}

impl Known {
    /// The bound of a case; a gate's only value has an empty name.
    pub fn of(&self, size: Size, case: &str) -> Option<f64> {
        let mut all = self.all(size);
        all.find(|(name, _)| *name == case).map(|(_, bound)| bound)
    }

    /// All bounds of runs of this size.
    pub(crate) fn all(&self, size: Size) -> impl Iterator<Item = (&str, f64)> {
        let bounds = match size {
            Size::Short => &self.short,
            Size::Full => &self.full,
        };
        let (one, by_case) = match bounds {
            Bounds::One(bound) => (Some(("", *bound)), None),
            Bounds::ByCase(bounds) => (None, Some(bounds)),
        };
        let by_case = by_case.into_iter().flatten();
        one.into_iter()
            .chain(by_case.map(|(name, bound)| (name.as_str(), *bound)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_kept_on_both_sides() {
        let both = Limits {
            at_least: Some(0.8),
            below: Some(1.2),
            ..Limits::default()
        };
        for (value, holds) in [
            (0.8, true),
            (1.1, true),
            (1.2, false),
            (0.79, false),
            (f64::NAN, false),
            (f64::INFINITY, false),
        ] {
            assert_eq!(both.hold(value), holds, "{value}");
        }
        assert_eq!(both.to_string(), "at least 0.8 and below 1.2");
        assert!(!Limits::default().hold(f64::NAN));
    }

    #[test]
    fn a_bound_is_a_limit_on_its_side_only() {
        let both = Limits {
            at_least: Some(0.8),
            at_most: Some(1.2),
            ..Limits::default()
        };
        for (bound, value, kept) in [
            (0.7, 0.7, true),
            (0.7, 0.69, false),
            (0.7, 1.3, false),
            (1.3, 1.3, true),
            (1.3, 1.31, false),
            (1.3, 0.7, false),
            (1.3, 1.0, true),
            (1.3, f64::NAN, false),
        ] {
            assert_eq!(both.hold_to(bound, value), kept, "{bound}, {value}");
        }
    }
}
