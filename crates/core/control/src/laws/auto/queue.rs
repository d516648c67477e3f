//! Whether a path's losses come from its queue. It knows no window but to count by.
//!
//! A full queue drops packets, so losses by congestion meet a queue that is fuller than usual;
//! random losses meet any. Each loss event that meets one of the longest queues seen lately, or
//! doesn't, speaks for the one or the other, the less the more often other packets meet it: a
//! sequential test of two hypotheses (Wald, 1945), however long the queues are, and however noisy.

use std::time::Duration;

use manyway_units::Time;

use crate::controller::Ack;

/// The emptiest and the fullest queue are those of the last one or two such spans: the round-trip
/// time of a path without a queue may change.
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
/// A queue of less than this part of the shortest round-trip time lately is none, …
const EMPTY: f64 = 0.08;
/// … and if the fullest is below this part, it could be noise.
const MATERIAL: f64 = 0.03;
/// Paths whose queueing delays have a smaller ratio aren't behind the same queue.
const SHORTER: f64 = 0.25;

/// The queue on a path, as its round-trip times show it (in seconds), and the losses beside it.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// The shortest ever.
    base: f64,
    /// The last samples; the queue is bursty.
    last: [f64; 3],
    smoothed: f64,
    /// By how much one sample differs from the next, smoothed.
    change: f64,
    /// The shortest in this round.
    least: f64,
    /// Those of this span and of the one before.
    spans: [Range; 2],
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

/// The shortest and the longest round-trip time, in seconds.
#[derive(Clone, Copy, Debug)]
struct Range {
    shortest: f64,
    longest: f64,
}

impl Range {
    /// Without a sample.
    const NONE: Range = Range {
        shortest: f64::INFINITY,
        longest: 0.0,
    };

    fn with(self, other: Range) -> Range {
        Range {
            shortest: self.shortest.min(other.shortest),
            longest: self.longest.max(other.longest),
        }
    }
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
            spans: [Range::NONE; 2],
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
        let rtt = ack.rtt.as_secs_f64();
        if self.range().shortest.is_infinite() {
            (self.last, self.smoothed) = ([rtt; 3], rtt);
        }
        self.change += ((rtt - self.last[0]).abs() - self.change) / 64.0;
        self.last = [rtt, self.last[0], self.last[1]];
        self.least = self.least.min(rtt);
        self.smoothed += (rtt - self.smoothed) / 8.0;
        if ack.now >= self.until {
            self.spans = [Range::NONE, self.spans[0]];
            self.until = ack.now + SPAN.max(ack.smoothed_rtt.saturating_mul(32));
        }
        self.spans[0] = self.spans[0].with(Range {
            shortest: rtt,
            longest: rtt,
        });
        let full = f64::from(u8::from(self.is_full()));
        self.usual += (ack.packets / window / 32.0).min(1.0) * (full - self.usual);
        let step = (ack.packets / window / 8.0).min(1.0);
        self.full = (self.full + step * (full - 0.5)).clamp(FULL[0], FULL[1]);
        self.lossy -= step * self.lossy;
    }

    /// The end of a round: the queue that stood all of it, if there was a sample. It is what the
    /// shortest round-trip time ever leaves: a queue of ours that stands is no part of the path.
    pub(super) fn on_round_end(&mut self) -> Option<f64> {
        let least = std::mem::replace(&mut self.least, f64::INFINITY);
        least.is_finite().then_some((least - self.base).max(0.0))
    }

    /// The shortest round-trip time ever, in seconds.
    pub(super) fn base(&self) -> f64 {
        self.base
    }

    /// Smoothed round-trip time, in seconds.
    pub(super) fn rtt(&self) -> f64 {
        self.smoothed
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
        let tells = self.evidence > CERTAIN || self.length() > NOISE * self.change;
        !self.random || self.overflows() && tells || self.lossy > HEAVY
    }

    /// Whether one of the last packets has met a full queue that isn't noise.
    pub(super) fn overflows(&self) -> bool {
        let Range { shortest, longest } = self.range();
        self.is_full() && longest - shortest > MATERIAL * shortest
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
        let shortest = self.range().shortest;
        shortest.is_finite() && self.length() < EMPTY * shortest
    }

    /// Whether it is so much shorter than another, long one that it can't be the same.
    pub(super) fn is_shorter(&self, than: &Queue) -> bool {
        !than.is_empty() && self.length() < SHORTER * than.length()
    }

    /// Of the round-trip times lately.
    fn range(&self) -> Range {
        self.spans[0].with(self.spans[1])
    }

    /// Its mean delay, in seconds.
    fn length(&self) -> f64 {
        self.smoothed - self.range().shortest
    }

    /// Whether one of the last packets has met a full queue.
    pub(super) fn is_full(&self) -> bool {
        let Range { shortest, longest } = self.range();
        let full = shortest + self.full * (longest - shortest);
        self.last.iter().any(|rtt| *rtt > full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Slot;

    fn after(rtts: impl IntoIterator<Item = f64>) -> Queue {
        let mut queue = Queue::default();
        for rtt in rtts {
            let rtt = Duration::from_secs_f64(rtt);
            queue.on_ack(
                &Ack {
                    slot: Slot(0),
                    now: Time::ZERO,
                    packets: 1.0,
                    rtt,
                    rtt_sampled: true,
                    smoothed_rtt: rtt,
                    min_rtt: Duration::from_millis(40),
                    sent: Time::ZERO,
                    received: None,
                    app_limited: false,
                    in_recovery: false,
                    delivery: None,
                },
                100.0,
            );
        }
        queue
    }

    #[test]
    fn no_queue_is_known_to_be_empty_without_a_sample() {
        assert!(!after([]).is_empty());
        assert!(after([0.040]).is_empty());
        assert!(!after([0.040; 8].into_iter().chain([0.060; 8])).is_empty());
    }

    #[test]
    fn a_full_queue_of_less_than_3_percent_is_noise() {
        for (longest, real) in [(0.0411, false), (0.0413, true)] {
            let queue = after([0.040, longest]);
            assert!(queue.is_full());
            assert_eq!(queue.overflows(), real);
        }
    }
}
