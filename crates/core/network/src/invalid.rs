//! What is wrong with a link configuration that can't work.

use std::fmt;

use manyway_units::Rate;

/// A link configuration that can't work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the link's `{field}` is {value}: {allowed}")]
pub struct InvalidLink {
    /// The setting, in the words of [`LinkConfig`](crate::LinkConfig) and its parts: `rate`,
    /// `queue.red.max_p`, `loss.good_to_bad`, `timetable[2].rate`, `timetable_period`. Scenario
    /// files use the same.
    pub field: String,
    /// What it is.
    pub value: String,
    /// What it may be.
    pub allowed: &'static str,
}

impl InvalidLink {
    pub(crate) fn new(
        field: impl Into<String>,
        value: impl fmt::Display,
        allowed: &'static str,
    ) -> Self {
        Self {
            field: field.into(),
            value: value.to_string(),
            allowed,
        }
    }
}

/// Bits per second: a packet of 1500 bytes takes 1.2 ns, and the clock counts whole ones.
const FASTEST: f64 = 10e12;

pub(crate) fn check_rate(field: impl Into<String>, rate: Rate) -> Result<(), InvalidLink> {
    let allowed = match rate.bits_per_sec() {
        1.0..=FASTEST => return Ok(()),
        ..1.0 => "choose at least 1 bps (to cut a link off, take it down)",
        _ => "choose at most 10 Tbps",
    };
    Err(InvalidLink::new(field, rate, allowed))
}
