//! PIE (RFC 8033): drops at the entrance, with a probability that a controller sets by the delay.

use std::time::Duration;

use rand::RngExt;

use super::Limit;
use super::arrival::{Admission, Arrival};
use crate::InvalidLink;
use crate::random::{Generator, Purpose, generator};

/// Proportional Integral controller Enhanced, with the RFC's parameters for whatever isn't a field
/// here: `alpha` 0.125 Hz and `beta` 1.25 Hz (section 4.2), and derandomisation and capped
/// adjustments (sections 5.4 and 5.5).
///
/// The delay is the time that a packet that arrived now would wait: the link knows it, so nothing
/// estimates a departure rate (section 4.3).
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct Pie {
    /// How much the queue holds at most, the packet in service included.
    pub limit: Limit,
    /// `QDELAY_REF`: the delay that it aims at.
    pub target: Duration,
    /// `T_UPDATE`: how often the probability is adjusted.
    pub update: Duration,
    /// `MAX_BURST`: for so long after an idle time nothing is dropped.
    pub burst: Duration,
    /// Marks ECN-capable packets instead of dropping them, while the probability is below 0.1
    /// (section 5.1).
    pub ecn: bool,
}

/// `alpha`, in Hz.
const ALPHA: f64 = 0.125;
/// `beta`, in Hz.
const BETA: f64 = 1.25;
/// `mark_ecnth`: above this probability, ECN-capable packets are dropped like others.
const MARKS_BELOW: f64 = 0.1;
/// `MEAN_PKTSIZE`, in bytes: two such packets may always wait.
const MEAN_PACKET: u64 = 1500;
/// Probabilities summed over the packets since the last drop below which none is dropped …
const ACCUMULATED_LOW: f64 = 0.85;
/// … and from which one is.
const ACCUMULATED_HIGH: f64 = 8.5;

/// So many updates take the probability to where it stays while nothing comes: what was before them
/// needn't be made up for.
const MOST_UPDATES: u64 = 2000;

impl Pie {
    /// PIE with this limit and the RFC's parameters: 15 ms, adjusted every 15 ms, bursts of 150 ms,
    /// no marks.
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            target: Duration::from_millis(15),
            update: Duration::from_millis(15),
            burst: Duration::from_millis(150),
            ecn: false,
        }
    }

    pub(super) fn validate(&self) -> Result<(), InvalidLink> {
        for (field, time) in [("target", self.target), ("update", self.update)] {
            if time < Duration::from_micros(1) {
                let shown = format!("{time:?}");
                let allowed = "choose at least 1 us";
                return Err(InvalidLink::new(
                    format!("queue.pie.{field}"),
                    shown,
                    allowed,
                ));
            }
        }
        Ok(())
    }
}

/// PIE at work.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pie: Pie,
    /// `drop_prob_`.
    probability: f64,
    /// `accu_prob_`.
    accumulated: f64,
    /// `qdelay_old_`, in seconds.
    delay: f64,
    /// `burst_allowance_`, in seconds.
    burst: f64,
    /// When the probability is adjusted next, in ns.
    next_update: u64,
    generator: Generator,
}

impl Gate {
    /// The configuration is valid.
    pub(crate) fn new(pie: Pie, seed: u64) -> Self {
        Self {
            pie,
            probability: 0.0,
            accumulated: 0.0,
            delay: 0.0,
            burst: pie.burst.as_secs_f64(),
            next_update: 0,
            generator: generator(seed, Purpose::Queue),
        }
    }

    /// A packet arrives.
    pub(crate) fn admit(&mut self, arrival: Arrival) -> Admission {
        self.catch_up(arrival.now, arrival.free_at);
        if !arrival.room {
            self.accumulated = 0.0;
            return Admission::Full;
        }
        if !self.drops(arrival.waiting_bytes) {
            return Admission::Accepted { marked: false };
        }
        match self.pie.ecn && arrival.ecn && self.probability < MARKS_BELOW {
            true => Admission::Accepted { marked: true },
            false => Admission::Early,
        }
    }

    /// `drop_early` (section 4.1 and appendix B).
    fn drops(&mut self, waiting_bytes: u64) -> bool {
        if self.burst > 0.0 {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        let short = self.delay < self.pie.target.as_secs_f64() / 2.0 && self.probability < 0.2;
        if self.accumulated < ACCUMULATED_LOW || short || waiting_bytes <= 2 * MEAN_PACKET {
            return false;
        }
        let drops = self.accumulated >= ACCUMULATED_HIGH
            || self.generator.random::<f64>() < self.probability;
        if drops {
            self.accumulated = 0.0;
        }
        drops
    }

    /// Adjusts the probability as often as was due since the last packet: nothing came meanwhile,
    /// so the queue's delay at each of these times is known.
    fn catch_up(&mut self, now: u64, free_at: u64) {
        let step = u64::try_from(self.pie.update.as_nanos()).unwrap_or(u64::MAX);
        let missed = now.saturating_sub(self.next_update) / step;
        self.next_update += missed.saturating_sub(MOST_UPDATES) * step;
        while self.next_update <= now {
            let left = free_at.saturating_sub(self.next_update);
            self.update(left as f64 * 1e-9);
            let Some(next) = self.next_update.checked_add(step) else {
                return;
            };
            self.next_update = next;
        }
    }

    /// `calculate_drop_prob` (section 4.2 and appendix B), with the delay in seconds.
    fn update(&mut self, delay: f64) {
        let target = self.pie.target.as_secs_f64();
        let step = ALPHA * (delay - target) + BETA * (delay - self.delay);
        let scale = match self.probability {
            p if p < 0.000_001 => 2048.0,
            p if p < 0.000_01 => 512.0,
            p if p < 0.000_1 => 128.0,
            p if p < 0.001 => 32.0,
            p if p < 0.01 => 8.0,
            p if p < 0.1 => 2.0,
            _ => 1.0,
        };
        let most = if self.probability >= 0.1 { 0.02 } else { 1.0 };
        let mut probability = self.probability + (step / scale).min(most);
        if delay == 0.0 && self.delay == 0.0 {
            probability *= 0.98;
        }
        self.probability = probability.clamp(0.0, 1.0);
        let quiet = delay < target / 2.0 && self.delay < target / 2.0;
        self.burst = match self.probability == 0.0 && quiet {
            true => self.pie.burst.as_secs_f64(),
            false => (self.burst - self.pie.update.as_secs_f64()).max(0.0),
        };
        self.delay = delay;
    }
}

#[cfg(test)]
mod tests;
