//! The few values that stand for a study.

use serde::Serialize;

/// A value that stands for a study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Headline {
    /// What it is, with its unit.
    pub name: String,
    /// The value.
    pub value: f64,
}

impl Headline {
    /// A value that repeats bit for bit on every machine: of a simulation.
    pub fn exact(name: impl Into<String>, value: f64) -> Self {
        Headline {
            name: name.into(),
            value,
        }
    }

    /// A value that depends on a solver's, in six significant digits: processors with and without
    /// fused multiply-add differ in the last ones.
    pub fn rounded(name: impl Into<String>, value: f64) -> Self {
        let digits = format!("{value:.5e}");
        Headline::exact(name, digits.parse().unwrap_or(value))
    }
}
