//! Changes of a link over time.

use std::time::Duration;

use manyway_units::{Rate, Time};

use crate::invalid::{InvalidLink, check_rate};

/// How a link changes over time, known in advance. The default is not at all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timetable {
    /// In the order of time, at least [`Timetable::SPACING`] apart.
    pub changes: Vec<Change>,
    /// All changes come again after this time, for ever: with a period P and a change at a,
    /// at a, a+P, a+2P, … What a change doesn't mention stays as it is, from one round to the next
    /// too.
    /// Every change is before the period's end.
    pub period: Option<Duration>,
}

/// What is different from some moment on; what is `None` stays as it is.
#[derive(Debug, Copy, Clone, PartialEq, Default)]
pub struct Change {
    /// From when on, inclusive.
    pub at: Time,
    /// The link's rate. A packet in service goes on at the new rate.
    pub rate: Option<Rate>,
    /// The propagation delay, for packets whose last bit leaves from now on. When it falls, packets
    /// behind don't overtake those ahead.
    pub delay: Option<Duration>,
    /// Up or down. Going down loses everything queued and under way, and while the link is down
    /// every packet offered; it comes up empty.
    pub up: Option<bool>,
}

impl Timetable {
    /// Changes are at least this far apart.
    pub const SPACING: Duration = Duration::from_micros(1);

    /// Whether nothing ever changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidLink> {
        let mut earliest = Time::ZERO;
        for (index, change) in self.changes.iter().enumerate() {
            let field = |name: &str| format!("timetable[{index}].{name}");
            if change.at < earliest {
                let at = format!("{:?}", change.at);
                let allowed =
                    "changes are in the order of time, at least 1 µs after the one before";
                return Err(InvalidLink::new(field("at"), at, allowed));
            }
            earliest = change.at + Self::SPACING;
            if change.rate.is_none() && change.delay.is_none() && change.up.is_none() {
                let allowed = "a change has a rate, a delay, or says up or down";
                let field = format!("timetable[{index}]");
                return Err(InvalidLink::new(field, "empty", allowed));
            }
            if let Some(rate) = change.rate {
                check_rate(field("rate"), rate)?;
            }
        }
        self.validate_period()
    }

    fn validate_period(&self) -> Result<(), InvalidLink> {
        let (Some(period), Some(first), Some(last)) =
            (self.period, self.changes.first(), self.changes.last())
        else {
            return Ok(());
        };
        let (first, last) = (first.at.since(Time::ZERO), last.at.since(Time::ZERO));
        if period <= last || period - last + first < Self::SPACING {
            let allowed = "choose one that ends at least 1 µs after the last change";
            let period = format!("{period:?}");
            return Err(InvalidLink::new("timetable_period", period, allowed));
        }
        Ok(())
    }
}
