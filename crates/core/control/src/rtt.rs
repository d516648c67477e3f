//! Round-trip time estimation. It reads no clock and sets no timer.

use std::time::Duration;

/// The timers' granularity (RFC 9002 §6.1.2), ns.
const GRANULARITY: u64 = 1_000_000;

/// A path's round-trip time estimator (RFC 9002 §5).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rtt {
    // All in ns: integer arithmetic on one word is several times cheaper than on `Duration`.
    latest: u64,
    smoothed: u64,
    variance: u64,
    min: u64,
    sampled: bool,
}

impl Rtt {
    /// An estimator that assumes `initial` until the first sample (RFC 9002 §6.2.2).
    pub fn new(initial: Duration) -> Self {
        let initial = nanos(initial);
        Rtt {
            latest: initial,
            smoothed: initial,
            variance: initial / 2,
            min: initial,
            sampled: false,
        }
    }

    /// Takes a sample: `latest` is the time from sending to acknowledgement, of which the peer says
    /// it held back `ack_delay`.
    pub fn update(&mut self, latest: Duration, ack_delay: Duration) {
        self.update_nanos(nanos(latest), nanos(ack_delay));
    }

    /// [`Rtt::update`] in ns.
    #[inline]
    pub(crate) fn update_nanos(&mut self, latest: u64, ack_delay: u64) {
        self.latest = latest;
        if !self.sampled {
            self.sampled = true;
            self.min = latest;
            self.smoothed = latest;
            self.variance = latest / 2;
            return;
        }
        // The smallest is taken before the delay is, so that no peer can fake a short path.
        self.min = self.min.min(latest);
        let adjusted = self.without_delay(latest, ack_delay);
        let error = self.smoothed.abs_diff(adjusted);
        self.variance = self.variance - self.variance / 4 + error / 4;
        self.smoothed = self.smoothed - self.smoothed / 8 + adjusted / 8;
    }

    /// The last sample as measured, the peer's delay included; before the first the initial value.
    #[inline]
    pub fn latest(&self) -> Duration {
        Duration::from_nanos(self.latest)
    }

    /// [`Rtt::latest`] in ns, for hot loops.
    #[inline]
    pub fn latest_nanos(&self) -> u64 {
        self.latest
    }

    /// The exponentially smoothed round-trip time.
    #[inline]
    pub fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.smoothed)
    }

    /// The smoothed mean deviation.
    #[inline]
    pub fn variance(&self) -> Duration {
        Duration::from_nanos(self.variance)
    }

    /// The smallest sample since the path began, or since persistent congestion.
    #[inline]
    pub fn min(&self) -> Duration {
        Duration::from_nanos(self.min)
    }

    /// Whether there has been a sample.
    #[inline]
    pub fn has_sample(&self) -> bool {
        self.sampled
    }

    /// The probe timeout without the peer's delay and without backoff: `smoothed + max(4·variance,
    /// 1 ms)` (RFC 9002 §6.2.1).
    #[inline]
    pub fn pto_base(&self) -> Duration {
        Duration::from_nanos(self.pto_nanos())
    }

    /// [`Rtt::pto_base`] in ns.
    #[inline]
    pub(crate) fn pto_nanos(&self) -> u64 {
        let deviation = self.variance.saturating_mul(4).max(GRANULARITY);
        self.smoothed.saturating_add(deviation)
    }

    /// How long a packet may be overtaken before it counts as lost: `threshold · max(latest,
    /// smoothed)`, at least 1 ms (RFC 9002 §6.1.2).
    pub(crate) fn loss_delay(&self, threshold: f64) -> Duration {
        let rtt = self.loss_base() as f64;
        Duration::from_nanos(((rtt * threshold) as u64).max(GRANULARITY))
    }

    /// The larger of the last and the smoothed round-trip time, ns.
    #[inline]
    pub(crate) fn loss_base(&self) -> u64 {
        self.latest.max(self.smoothed)
    }

    /// `latest` without the peer's `delay`, unless that would go below the smallest sample; ns.
    #[inline]
    pub(crate) fn without_delay(&self, latest: u64, delay: u64) -> u64 {
        if latest >= self.min.saturating_add(delay) {
            latest - delay
        } else {
            latest
        }
    }

    #[inline]
    pub(crate) fn smoothed_nanos(&self) -> u64 {
        self.smoothed
    }

    /// After persistent congestion the smallest sample is taken anew (RFC 9002 §5.2).
    pub(crate) fn reset_min(&mut self) {
        self.min = self.latest;
    }
}

/// A span in ns; cut at 146 years, which only a hostile clock makes, so that sums of a few hold.
#[inline]
pub(crate) fn nanos(span: Duration) -> u64 {
    // Spelled out because `Duration::as_nanos` is 128 bits wide.
    let secs = span.as_secs().min(u64::MAX / 4_000_000_000);
    secs * 1_000_000_000 + u64::from(span.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn first_sample_replaces_the_initial_value() {
        let mut rtt = Rtt::new(ms(333));
        assert!(!rtt.has_sample());
        assert_eq!((rtt.smoothed(), rtt.variance()), (ms(333), ms(333) / 2));
        rtt.update(ms(40), ms(10));
        assert!(rtt.has_sample());
        assert_eq!(rtt.latest(), ms(40));
        assert_eq!(rtt.smoothed(), ms(40));
        assert_eq!(rtt.variance(), ms(20));
        assert_eq!(rtt.min(), ms(40));
    }

    #[test]
    fn later_samples_are_smoothed_without_the_peers_delay() {
        let mut rtt = Rtt::new(ms(333));
        rtt.update(ms(40), ms(0));
        // 60 ms of which 4 were the peer's: 56; variance 3/4·20 + 1/4·16, smoothed 7/8·40 + 1/8·56.
        rtt.update(ms(60), ms(4));
        assert_eq!(rtt.variance(), ms(19));
        assert_eq!(rtt.smoothed(), ms(42));
        assert_eq!((rtt.latest(), rtt.min()), (ms(60), ms(40)));
        assert_eq!(rtt.pto_base(), ms(42 + 76));
    }

    #[test]
    fn a_delay_that_would_undercut_the_minimum_is_not_believed() {
        let mut rtt = Rtt::new(ms(333));
        rtt.update(ms(40), ms(0));
        rtt.update(ms(48), ms(10));
        assert_eq!(rtt.smoothed(), ms(41));
        assert_eq!(rtt.min(), ms(40));
    }

    #[test]
    fn absurd_spans_saturate() {
        let mut rtt = Rtt::new(Duration::MAX);
        rtt.update(Duration::MAX, Duration::MAX);
        rtt.update(Duration::MAX, Duration::MAX);
        rtt.update(Duration::ZERO, Duration::MAX);
        assert!(rtt.pto_base() > Duration::from_secs(1));
        assert!(rtt.loss_delay(1.125) > Duration::ZERO);
    }
}
