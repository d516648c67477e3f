//! Percentiles of many values in little memory.

use manyway_scenario::Measure;
use manyway_units::Time;

/// Bits of a value that tell buckets of one power of two apart.
const BITS: u32 = 6;

/// Counts values in buckets whose width is at most a 64th of their values, so that a percentile is
/// wrong by at most a 128th (0.8 %), and exact below 64.
///
/// It keeps the buckets between the least and the largest value, as DDSketch does (Masson et al.,
/// VLDB 2019): 64 for each power of two between them, and never more than 3776.
#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    /// The bucket of `counts[0]`.
    first: usize,
    counts: Vec<u64>,
}

impl Histogram {
    pub(crate) fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        match bucket
            .checked_sub(self.first)
            .map(|n| self.counts.get_mut(n))
        {
            Some(Some(count)) => *count += 1,
            _ => *self.make(bucket) += 1,
        }
    }

    /// Extends the buckets up to this one.
    #[cold]
    fn make(&mut self, bucket: usize) -> &mut u64 {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let missing = self.first - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = bucket;
        }
        let index = bucket - self.first;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        &mut self.counts[index]
    }

    /// The smallest value that at least a `share` of 0 to 1 of the values don't exceed, as the
    /// middle of its bucket; `None` without values.
    pub(crate) fn percentile(&self, share: f64) -> Option<f64> {
        let total: u64 = self.counts.iter().sum();
        let rank = (share.clamp(0.0, 1.0) * total as f64).ceil().max(1.0);
        let mut below = 0;
        for (index, count) in self.counts.iter().enumerate() {
            below += count;
            if below as f64 >= rank {
                return Some(middle(self.first + index));
            }
        }
        None
    }
}

/// Small values have a bucket each; beyond, a value's first bits and their place say which.
fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    ((u64::from(shift) << BITS) + (value >> shift)) as usize
}

/// The middle of a bucket's values.
fn middle(bucket: usize) -> f64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    let least = (bucket - (shift << BITS)) as f64;
    let width = (shift as f64).exp2();
    least * width + (width - 1.0) / 2.0
}

/// Durations in a span of time.
#[derive(Debug, Clone)]
pub(crate) struct Durations {
    from: Time,
    until: Time,
    nanos: Histogram,
}

impl Durations {
    pub(crate) fn new(from: Time, until: Time) -> Self {
        Self {
            from,
            until,
            nanos: Histogram::default(),
        }
    }

    /// Those of a subflow's round trips, if their percentiles are measured.
    pub(crate) fn of_rtts(measure: &Measure) -> Option<Box<Self>> {
        let rtts = || Box::new(Self::new(measure.from, measure.until));
        measure.percentiles.rtt.then(rtts)
    }

    /// Takes in a duration, in ns, if `now` is in the span.
    pub(crate) fn add(&mut self, now: Time, nanos: u64) {
        if self.from <= now && now < self.until {
            self.nanos.add(nanos);
        }
    }

    /// The median, the 95th and the 99th percentile, in seconds; NaN without a duration.
    pub(crate) fn percentiles(&self) -> [f64; 3] {
        [0.5, 0.95, 0.99].map(|share| {
            let nanos = self.nanos.percentile(share);
            nanos.map_or(f64::NAN, |nanos| nanos * 1e-9)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Beside the sorted values, of any size, in any order.
        #[test]
        fn percentiles_are_within_a_128th(
            values in prop::collection::vec((0u32..64).prop_flat_map(|bits| {
                let most = u64::MAX >> (63 - bits);
                most / 2..=most
            }), 1..300),
            share in 0.0..=1.0f64,
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            let mut sorted = values;
            sorted.sort_unstable();
            let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
            let exact = sorted[rank - 1] as f64;
            let found = histogram.percentile(share).unwrap();
            prop_assert!((found - exact).abs() <= exact / 128.0, "{} {}", found, exact);
            if exact < 64.0 {
                prop_assert_eq!(found, exact);
            }
            prop_assert!(histogram.counts.len() <= 3776);
        }
    }

    #[test]
    fn only_the_buckets_between_the_least_and_the_largest_are_kept() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(0.5), None);
        // 40 ms to 80 ms: one power of two, and a part of the next.
        for nanos in (40_000_000..80_000_000).step_by(1000) {
            histogram.add(nanos);
        }
        assert!(histogram.counts.len() <= 65, "{}", histogram.counts.len());
    }

    #[test]
    fn only_the_span_counts() {
        let at = |secs: u64| Time::from_millis(1000 * secs);
        let mut durations = Durations::new(at(1), at(2));
        assert!(durations.percentiles()[0].is_nan());
        for (now, nanos) in [(at(0), 1), (at(1), 20), (at(2), 3)] {
            durations.add(now, nanos);
        }
        assert_eq!(durations.percentiles(), [20e-9; 3]);
    }
}
