//! Whether two paths share a queue, by how their delays change. It knows no windows.

use std::collections::VecDeque;

use manyway_units::Time;

use crate::bottleneck::{ENOUGH_INTERVALS, INTERVAL, changes, in_common};

/// Intervals that are remembered.
const KEPT: usize = 32;
/// If the changes of two paths are smaller than this part of their round-trip times on the average,
/// they say nothing: so short a queue shows less than bursts do.
const MATERIAL: f64 = 0.02;
/// Nor if their squares are less than so many times those of noise, …
const NOISE: f64 = 2.0;
/// … which is averaged over about so many intervals.
const NOISE_SPAN: f64 = 16.0;

/// Means of a path's delays, plus an unknown constant, over intervals that are the same for all
/// paths.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    number: u64,
    /// The last sample, and the round-trip time then.
    last: Option<(f64, f64)>,
    /// Of this interval: samples, their mean, and the sum of their squared deviations (Welford).
    count: f64,
    mean: f64,
    squares: f64,
    /// Numbers and means of those that are over, in seconds, oldest first.
    means: VecDeque<(u64, f64)>,
    /// The variance of such a mean if samples were independent, averaged over some 16 intervals.
    noise: f64,
}

/// Whether the changes of two paths' delays show that they share a queue.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Likeness {
    /// There is too little to tell.
    Unknown,
    /// The delays hardly change: if the paths share a queue, it is too short to be seen.
    Unseen,
    /// 1 if both see the same queue, 0 if what the one sees has nothing to do with the other.
    Known(f64),
}

impl Delays {
    /// A packet's delay, and the round-trip time that its acknowledgement measured, in seconds.
    pub(super) fn on_sample(&mut self, now: Time, delay: f64, rtt: f64) {
        // A way is no longer than the way there and back: it is a clock that leaps further.
        let leaps = |(last, its_rtt): (f64, f64)| (delay - last).abs() > rtt.max(its_rtt);
        if self.last.is_some_and(leaps) {
            *self = Delays::default();
        }
        self.last = Some((delay, rtt));
        let number = now.as_nanos() / INTERVAL.as_nanos() as u64;
        if number > self.number {
            if self.count > 0.0 {
                if self.means.len() == KEPT {
                    self.means.pop_front();
                }
                self.means.push_back((self.number, self.mean));
                let noise = self.squares / self.count / self.count;
                self.noise += (noise - self.noise) / NOISE_SPAN;
            }
            (self.number, self.count, self.mean, self.squares) = (number, 0.0, 0.0, 0.0);
        }
        self.count += 1.0;
        let off = delay - self.mean;
        self.mean += off / self.count;
        self.squares += off * (delay - self.mean);
    }

    /// How alike the changes of two paths' delays are from one interval to the next: Lin's
    /// concordance, with changes of 0 in the mean. Unlike Pearson's correlation it is low if only
    /// one of them changes.
    pub(super) fn likeness(&self, other: &Delays) -> Likeness {
        let (Some((_, rtt)), Some((_, other_rtt))) = (self.last, other.last) else {
            return Likeness::Unknown;
        };
        let noise = 2.0 * (self.noise + other.noise);
        let material = MATERIAL * rtt.min(other_rtt);
        let [one, other] = [self, other].map(|path| changes(path.means.iter().copied()));
        let (mut same, mut all, mut count) = (0.0, 0.0, 0usize);
        for (x, y) in in_common(one, other) {
            same += 2.0 * x * y;
            all += x * x + y * y;
            count += 1;
        }
        let least = material * material + NOISE * noise;
        if count < ENOUGH_INTERVALS {
            Likeness::Unknown
        } else if all <= least * count as f64 {
            Likeness::Unseen
        } else {
            Likeness::Known(same / all)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Means that change no more than the noise of their samples has them change.
    #[test]
    fn noise_says_nothing() {
        let mut paths = [Delays::default(), Delays::default()];
        let mut x = 1u64;
        let mut likeness = |common: f64| {
            for step in 0..32 * 4 {
                let now = Time::ZERO + INTERVAL.mul_f64(f64::from(step) / 4.0);
                for path in &mut paths {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let noise = (x >> 40) as f64 / f64::from(1 << 24);
                    let shared = if step / 4 % 2 == 0 { common } else { 0.0 };
                    let delay = 0.002 * noise + shared;
                    path.on_sample(now + Duration::from_nanos(1), delay, 0.1);
                }
            }
            let [one, other] = paths.clone();
            paths = Default::default();
            one.likeness(&other)
        };
        assert_eq!(likeness(0.0), Likeness::Unseen);
        let seen = likeness(0.010);
        assert!(
            matches!(seen, Likeness::Known(seen) if seen > 0.9),
            "{seen:?}"
        );
    }
}
