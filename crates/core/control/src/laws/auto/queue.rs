//! Whether a path's losses come from its queue. It knows no window but to count by.
//!
//! A full queue drops packets, so losses by congestion meet a queue that is fuller than usual;
//! random losses meet any. Each loss event that meets one of the longest queues seen lately, or
//! doesn't, speaks for the one or the other, the less the more often other packets meet it: a
//! sequential test of two hypotheses (Wald, 1945), however long the queues are, and however noisy.

use std::time::Duration;

use manyway_units::Time;

use crate::controller::Ack;

/// The fullest queue is that of the last one or two such spans.
const SPAN: Duration = Duration::from_secs(20);
/// A queue is full above half of the fullest, or, where packets meet that more often than not,
/// above the part that half of them meet, up to this one: noise alone is often above half.
const FULL: [f64; 2] = [0.5, 0.95];
/// The share of losses by congestion that meet a full queue.
const MEETS_FULL: f64 = 0.85;
/// The share of other packets that do is known to be within this range.
const USUAL: [f64; 2] = [0.02, 0.8];
/// The log-likelihood ratio of congestion to random loss begins with this one, …
const UNKNOWN: f64 = 1.0;
/// … never leaves the range between this one and its negative, …
const SURE: f64 = 5.0;
/// … and below this one losses count as random, …
const RANDOM: f64 = -2.5;
/// … until it is above this one.
const CONGESTION: f64 = 1.0;
/// Below this one, a queue must be more than noise to make losses congestion because it is full, …
const CERTAIN: f64 = -3.5;
/// … that is so many times the mean change from one sample to the next.
const NOISE: f64 = 6.0;
/// The share of packets lost above which all losses are congestion.
const HEAVY: f64 = 0.12;
/// A queue of less than this part of the smallest round-trip time is none, …
const EMPTY: f64 = 0.08;
/// … and if the fullest is below this part, it could be noise.
const MATERIAL: f64 = 0.03;
/// Paths whose queueing delays have a smaller ratio aren't behind the same queue.
const SHORTER: f64 = 0.25;

/// The queueing delay on a path (the round-trip time above its smallest, in seconds), and the
/// losses beside it.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// The smallest round-trip time.
    base: f64,
    /// The last samples; the queue is bursty.
    last: [f64; 3],
    smoothed: f64,
    /// By how much one sample differs from the next, smoothed.
    change: f64,
    /// The least in this round.
    least: f64,
    /// The fullest in this span and in the one before.
    top: [f64; 2],
    until: Time,
    /// Above which part of the fullest it is full, found over some 8 rounds.
    full: f64,
    /// Share of packets at which the queue was full, as [`Queue::is_full`] has it, over some 32
    /// rounds.
    usual: f64,
    /// What speaks for congestion: the logarithm of how much likelier it would be to see such
    /// losses than by chance.
    evidence: f64,
    random: bool,
    /// Share of packets lost, over some 8 rounds.
    lossy: f64,
}

impl Default for Queue {
    /// Losses are congestion until they are known to be random.
    fn default() -> Self {
        Queue {
            base: 0.0,
            last: [0.0; 3],
            smoothed: 0.0,
            change: 0.0,
            least: f64::INFINITY,
            top: [0.0; 2],
            until: Time::ZERO,
            full: FULL[0],
            usual: 0.0,
            evidence: UNKNOWN,
            random: false,
            lossy: 0.0,
        }
    }
}

impl Queue {
    /// An acknowledgement with a sample; `window` is the path's, in packets, here and below.
    pub(super) fn on_ack(&mut self, ack: &Ack, window: f64) {
        self.base = ack.min_rtt.as_secs_f64();
        let delay = (ack.rtt.as_secs_f64() - self.base).max(0.0);
        self.change += ((delay - self.last[0]).abs() - self.change) / 64.0;
        self.last = [delay, self.last[0], self.last[1]];
        self.least = self.least.min(delay);
        self.smoothed += (delay - self.smoothed) / 8.0;
        if ack.now >= self.until {
            self.top = [0.0, self.top[0]];
            self.until = ack.now + SPAN.max(ack.smoothed_rtt.saturating_mul(32));
        }
        self.top[0] = self.top[0].max(delay);
        let full = f64::from(u8::from(self.is_full()));
        self.usual += (ack.packets / window / 32.0).min(1.0) * (full - self.usual);
        let step = (ack.packets / window / 8.0).min(1.0);
        self.full = (self.full + step * (full - 0.5)).clamp(FULL[0], FULL[1]);
        self.lossy -= step * self.lossy;
    }

    /// The end of a round: the queue that stood all of it, if there was a sample.
    pub(super) fn on_round_end(&mut self) -> Option<f64> {
        let least = std::mem::replace(&mut self.least, f64::INFINITY);
        least.is_finite().then_some(least)
    }

    /// The smallest round-trip time, in seconds.
    pub(super) fn base(&self) -> f64 {
        self.base
    }

    /// Smoothed round-trip time, in seconds.
    pub(super) fn rtt(&self) -> f64 {
        self.base + self.smoothed
    }

    /// Packets were lost.
    pub(super) fn on_lost(&mut self, packets: f64, window: f64) {
        self.lossy += (packets / window / 8.0).min(1.0) * (1.0 - self.lossy);
    }

    /// A loss event. True if it is congestion.
    pub(super) fn on_loss(&mut self, packets: f64, window: f64) -> bool {
        self.on_lost(packets, window);
        let full = self.is_full();
        let usual = self.usual.clamp(USUAL[0], USUAL[1]);
        let ratio = match full {
            true => MEETS_FULL / usual,
            false => (1.0 - MEETS_FULL) / (1.0 - usual),
        };
        self.evidence = (self.evidence + ratio.ln()).clamp(-SURE, SURE);
        let limit = if self.random { CONGESTION } else { RANDOM };
        self.random = self.evidence < limit;
        let tells = self.evidence > CERTAIN || self.smoothed > NOISE * self.change;
        !self.random || self.overflows() && tells || self.lossy > HEAVY
    }

    /// Whether one of the last packets has met a full queue that isn't noise.
    pub(super) fn overflows(&self) -> bool {
        self.is_full() && self.top() > MATERIAL * self.base
    }

    /// Losses turned out to be congestion.
    pub(super) fn is_congested(&mut self) {
        (self.evidence, self.random) = (SURE, false);
    }

    /// Whether losses are random, as far as is known.
    pub(super) fn random(&self) -> bool {
        self.random
    }

    /// Whether there is next to no queue.
    pub(super) fn is_empty(&self) -> bool {
        self.smoothed < EMPTY * self.base
    }

    /// Whether it is so much shorter than another, long one that it can't be the same.
    pub(super) fn is_shorter(&self, than: &Queue) -> bool {
        !than.is_empty() && self.smoothed < SHORTER * than.smoothed
    }

    fn top(&self) -> f64 {
        self.top[0].max(self.top[1])
    }

    /// Whether one of the last packets has met a full queue.
    pub(super) fn is_full(&self) -> bool {
        let full = self.full * self.top();
        self.last.iter().any(|delay| *delay > full)
    }
}
