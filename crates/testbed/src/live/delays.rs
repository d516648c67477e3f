//! Percentiles of very many delays.

use std::time::Duration;

/// Delays below this are told apart to the nanosecond, longer ones to a 32nd.
const EXACT: u64 = 1 << BITS;
const BITS: u32 = 5;
const BINS: usize = ((64 - BITS as usize) + 1) * EXACT as usize;

/// Counts delays in bins whose width grows with the delay.
#[derive(Debug, Clone)]
pub struct Delays {
    bins: Box<[u64]>,
    count: u64,
    most: u64,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            bins: vec![0; BINS].into(),
            count: 0,
            most: 0,
        }
    }
}

impl Delays {
    /// Counts one.
    pub(crate) fn add(&mut self, delay: Duration) {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.bins[bin(nanos)] += 1;
        self.count += 1;
        self.most = self.most.max(nanos);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest.
    pub fn most(&self) -> Duration {
        Duration::from_nanos(self.most)
    }

    /// The delay that `share` of all are not above, at most a 32nd too long; zero without any.
    pub fn percentile(&self, share: f64) -> Duration {
        let wanted = (share * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (bin, count) in self.bins.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return Duration::from_nanos(end(bin).min(self.most));
            }
        }
        Duration::ZERO
    }
}

fn bin(nanos: u64) -> usize {
    let shift = (nanos | EXACT).ilog2() - BITS;
    u64::from(shift) as usize * EXACT as usize + (nanos >> shift) as usize
}

/// The longest delay of a bin.
fn end(bin: usize) -> u64 {
    let shift = (bin as u64 / EXACT).saturating_sub(1);
    let mantissa = bin as u64 - shift * EXACT;
    (((u128::from(mantissa) + 1) << shift) - 1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_in_order_and_narrow() {
        for nanos in (0..2000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX - 1, u64::MAX]) {
            let (bin, end) = (bin(nanos), end(bin(nanos)));
            assert!(bin < BINS, "{nanos}");
            assert!(
                end >= nanos && end - nanos <= nanos / 32,
                "{nanos} in {bin}, which ends at {end}"
            );
            assert!(end == u64::MAX || super::bin(end + 1) == bin + 1, "{nanos}");
        }
    }

    #[test]
    fn percentiles_of_a_thousand() {
        let mut delays = Delays::default();
        assert_eq!(delays.percentile(0.5), Duration::ZERO);
        for micros in 1..=1000 {
            delays.add(Duration::from_micros(micros));
        }
        let near = |share, micros: f64| {
            let measured = delays.percentile(share).as_secs_f64() * 1e6;
            assert!(
                measured >= micros && measured <= micros * (1.0 + 1.0 / 32.0),
                "{share}: {measured} µs"
            );
        };
        near(0.5, 500.0);
        near(0.99, 990.0);
        assert_eq!(delays.percentile(1.0), Duration::from_millis(1));
        assert_eq!(
            (delays.count(), delays.most()),
            (1000, Duration::from_millis(1))
        );
    }
}
