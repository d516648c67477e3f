//! Our numbers, beside those of the papers.

use manyway_simulate::measure::Summary;
use serde::{Deserialize, Deserializer, Serialize};

/// What we have for a number of `claims/*.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ours {
    /// `paper/item`.
    pub claim: String,
    /// The number's name there.
    pub name: String,
    /// The mean of all repetitions, in the number's unit.
    #[serde(deserialize_with = "or_nan")]
    pub mean: f64,
    /// Half the 95 % interval of the mean, if there are repetitions.
    pub ci95: Option<f64>,
    /// Repetitions.
    pub runs: usize,
}

impl Ours {
    /// A mean over repetitions.
    pub(crate) fn mean(claim: &str, name: impl Into<String>, value: &Summary) -> Self {
        Ours {
            ci95: value.ci95,
            runs: value.runs,
            ..Ours::exact(claim, name, value.mean)
        }
    }

    /// A value that is computed, or that isn't a mean.
    pub(crate) fn exact(claim: &str, name: impl Into<String>, value: f64) -> Self {
        Ours {
            claim: claim.to_owned(),
            name: name.into(),
            mean: value,
            ci95: None,
            runs: 1,
        }
    }
}

/// JSON has null for what isn't finite.
pub(crate) fn or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}
