//! The configuration of a link. Scenario files use the same words for the same settings.

use std::time::Duration;

use manyway_units::Rate;

use crate::invalid::{InvalidLink, check_rate};
use crate::{Loss, Policer, Queue, Timetable};
pub use state::LinkState;

mod state;

/// What a one-way link is like.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// How fast packets are serialised.
    pub rate: Rate,
    /// Propagation delay, one way: from the departure of a packet's last bit to its arrival.
    pub delay: Duration,
    /// What drops packets before they get to the queue.
    pub policer: Option<Policer>,
    /// Where packets wait, and for how many there is room.
    pub queue: Queue,
    /// Packets lost on the wire, after they took their time in the queue.
    pub loss: Loss,
    /// On top of `delay`, each packet takes a time of its own, uniform between 0 and this. Unless
    /// `overtaking` is set, one that would overtake another arrives together with it.
    pub jitter: Duration,
    /// Packets overtake each other by jitter, and when the delay falls.
    pub overtaking: bool,
    /// Packets that take longer than all others, and are overtaken by them.
    pub late: Late,
    /// How rate and delay change over time, and when the link is down.
    pub timetable: Timetable,
    /// Seed of everything random on the link.
    pub seed: u64,
}

impl LinkConfig {
    /// A link of this rate and one-way delay with DropTail of one bandwidth-delay product
    /// ([`Queue::bandwidth_delay`]), without losses, jitter or changes.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self {
            rate,
            delay,
            policer: None,
            queue: Queue::bandwidth_delay(rate, delay),
            loss: Loss::None,
            jitter: Duration::ZERO,
            overtaking: false,
            late: Late::default(),
            timetable: Timetable::default(),
            seed: 0,
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first field that can't work.
    pub fn validate(&self) -> Result<(), InvalidLink> {
        check_rate("rate", self.rate)?;
        self.policer.as_ref().map_or(Ok(()), Policer::validate)?;
        self.queue.validate()?;
        self.loss.validate()?;
        self.late.validate()?;
        self.timetable.validate()
    }
}

/// Packets that take longer than all others, as over a second, longer way.
#[derive(Debug, Copy, Clone, PartialEq, Default)]
pub struct Late {
    /// Each packet's probability to be one, independently of all others: 0 to 1.
    pub share: f64,
    /// How much longer they take.
    pub by: Duration,
}

impl Late {
    fn validate(&self) -> Result<(), InvalidLink> {
        match (0.0..=1.0).contains(&self.share) {
            true => Ok(()),
            false => Err(InvalidLink::new(
                "late.share",
                self.share,
                "choose a probability from 0 to 1",
            )),
        }
    }
}

#[cfg(test)]
mod tests;
