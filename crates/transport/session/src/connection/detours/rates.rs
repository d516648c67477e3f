//! What paths deliver over a span, and how sure that is.

use std::collections::VecDeque;
use std::time::Duration;

use manyway_units::Time;

/// A span has so many parts, by whose differences its error is known.
const PARTS: u32 = 8;
/// It takes so many round trips, …
const ROUNDS: u32 = 10;
/// … but not less, and not more.
const SPAN: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(3)];
/// Rates that are still growing are measured for so many spans at most: …
const SPANS: u32 = 4;
/// … those whose second half has more than the first by this factor.
const GROWING: f64 = 1.03;
/// The smallest error: how exact one measurement is at best.
const LEAST_ERROR: f64 = 0.015;
/// Parts that follow each other are alike, so that their differences say too little.
const ALIKE: f64 = 1.5;

/// So many parts say something already.
const ENOUGH: usize = 3;
/// How a rate wanders is known by the last so many measurements.
const KEPT: usize = 8;
/// Standard deviations of a normal distribution in its median absolute deviation.
const NORMAL: f64 = 1.4826;

/// What there is to see at a time.
#[derive(Copy, Clone, Debug)]
pub(super) struct Seen {
    pub(super) now: Time,
    /// There is more to send than has left.
    pub(super) unsatisfied: bool,
    /// Stream bytes that have arrived, each counted once.
    pub(super) delivered: u64,
    /// Bytes that have arrived through relays.
    pub(super) relayed: u64,
    /// Direct paths, and whether the slow start of each is over; `None` if none works.
    pub(super) direct: Option<bool>,
    /// The same for paths through relays.
    pub(super) relays: Option<bool>,
    /// The longest round trip of a direct path, and of any.
    pub(super) direct_rtt: Duration,
    pub(super) rtt: Duration,
}

/// What paths deliver.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Rates {
    /// Goodput over all paths, bytes/s.
    pub(super) rate: f64,
    /// Its standard error, as a part of it.
    pub(super) error: f64,
    /// The part of all bytes that came through relays, at least 0.
    pub(super) relayed: f64,
}

/// A measurement that has begun.
#[derive(Clone, Debug)]
pub(super) struct Measure {
    began: Time,
    span: Duration,
    spans: u32,
    /// Bytes delivered and relayed when it began.
    from: (u64, u64),
    /// The current part: when it began, and with how many bytes delivered.
    part: (Time, u64),
    /// Rates of the parts that are over.
    parts: Vec<f64>,
}

impl Measure {
    pub(super) fn new(seen: &Seen, rtt: Duration) -> Self {
        let [shortest, longest] = SPAN;
        Self {
            began: seen.now,
            span: (ROUNDS * rtt).clamp(shortest, longest),
            spans: 1,
            from: (seen.delivered, seen.relayed),
            part: (seen.now, seen.delivered),
            parts: Vec::new(),
        }
    }

    /// The part of all bytes that came through relays so far.
    pub(super) fn relayed(&self, seen: &Seen) -> f64 {
        let relayed = seen.relayed.saturating_sub(self.from.1) as f64;
        relayed / (seen.delivered.saturating_sub(self.from.0) as f64).max(1.0)
    }

    /// What was found, once the span is over.
    pub(super) fn take(&mut self, seen: &Seen) -> Option<Rates> {
        let (began, from) = self.part;
        let took = seen.now.since(began);
        if took < self.span / PARTS {
            return None;
        }
        let bytes = seen.delivered.saturating_sub(from);
        self.parts.push(bytes as f64 / took.as_secs_f64());
        self.part = (seen.now, seen.delivered);
        if seen.now.since(self.began) < self.span {
            return None;
        }
        if self.is_growing() && self.spans < SPANS {
            let (span, spans) = (self.span, self.spans + 1);
            let anew = Self::new(seen, Duration::ZERO);
            *self = Self {
                span,
                spans,
                ..anew
            };
            return None;
        }
        Some(self.rates(seen))
    }

    /// What was found so far, once there is something to tell its error by, unless it is growing.
    pub(super) fn so_far(&self, seen: &Seen) -> Option<Rates> {
        (self.parts.len() >= ENOUGH && !self.is_growing()).then(|| self.rates(seen))
    }

    fn is_growing(&self) -> bool {
        let (first, second) = self.parts.split_at(self.parts.len() / 2);
        mean(second) > GROWING * mean(first)
    }

    fn rates(&self, seen: &Seen) -> Rates {
        let all = mean(&self.parts);
        let squares = self.parts.iter().map(|part| (part - all).powi(2));
        let count = self.parts.len() as f64;
        let error = (squares.sum::<f64>() / count.max(2.0) / (count - 1.0).max(1.0)).sqrt();
        Rates {
            rate: all,
            error: (ALIKE * error / all.max(1.0)).max(LEAST_ERROR),
            relayed: self.relayed(seen),
        }
    }
}

fn mean(parts: &[f64]) -> f64 {
    parts.iter().sum::<f64>() / parts.len().max(1) as f64
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    let count = of.len();
    mean(&of[count.saturating_sub(1) / 2..(count / 2 + 1).min(count)])
}

/// How a rate wanders from one measurement to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Wander {
    /// The last [`KEPT`] measurements, bytes/s.
    rates: VecDeque<f64>,
}

impl Wander {
    pub(super) fn add(&mut self, rate: f64) {
        if self.rates.len() == KEPT {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
    }

    /// The mean rate in bytes/s, if there is one.
    pub(super) fn mean(&self) -> Option<f64> {
        let count = self.rates.len() as f64;
        (count > 0.0).then(|| self.rates.iter().sum::<f64>() / count)
    }

    /// How far a measurement is from the others, as a part of them: the standard deviation of a
    /// normal distribution with their median absolute deviation. What happens once isn't counted,
    /// as paths that haven't settled yet.
    pub(super) fn deviation(&self) -> f64 {
        let middle = median(self.rates.iter().copied().collect());
        let off = self.rates.iter().map(|rate| (rate - middle).abs());
        NORMAL * median(off.collect()) / middle.max(1.0)
    }
}
