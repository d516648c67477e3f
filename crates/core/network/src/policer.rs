//! A policer in front of a link: a token bucket without a queue.

use manyway_units::{Bucket, Rate, Time};

use crate::invalid::{InvalidLink, check_rate};

/// Drops what exceeds a rate and a burst before it gets to the queue, and holds nothing back: the
/// meter of RFC 2697 without an excess burst, whose red packets are dropped.
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct Policer {
    /// How fast tokens come.
    pub rate: Rate,
    /// Tokens that there is room for, in bytes; all of them are there in the beginning. A packet
    /// larger than this never passes.
    pub burst: u64,
}

impl Policer {
    pub(crate) fn validate(&self) -> Result<(), InvalidLink> {
        check_rate("policer.rate", self.rate)?;
        match self.burst {
            0 => Err(InvalidLink::new(
                "policer.burst",
                0,
                "choose at least as many bytes as a packet has",
            )),
            _ => Ok(()),
        }
    }
}

/// A policer at work.
#[derive(Debug, Clone)]
pub(crate) struct Meter(Bucket);

impl Meter {
    pub(crate) fn new(policer: Policer) -> Self {
        let (rate, burst) = (policer.rate.bytes_per_sec(), policer.burst as f64);
        Self(Bucket::new(rate, burst, Time::ZERO))
    }

    /// Whether a packet that comes at `now`, in ns, may pass; then its tokens are gone.
    pub(crate) fn admits(&mut self, now: u64, bytes: u32) -> bool {
        let (now, bytes) = (Time::from_nanos(now), f64::from(bytes));
        // Less than a nanosecond's tokens may be missing by rounding.
        let slack = self.0.rate() * 1e-9;
        let passes = bytes <= self.0.burst() && bytes <= self.0.tokens(now) + slack;
        if passes {
            self.0.spend(now, bytes);
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::{DropReason, Link, LinkConfig, Packet, Verdict};

    /// A link of 1 Gbps behind a policer.
    fn policed(mbps: f64, burst: u64) -> Link {
        Link::new(LinkConfig {
            policer: Some(Policer {
                rate: Rate::from_mbps(mbps),
                burst,
            }),
            ..LinkConfig::new(Rate::from_mbps(1000.0), Duration::from_millis(10))
        })
        .unwrap()
    }

    fn passes(link: &mut Link, at: Time, bytes: u32) -> bool {
        match link.offer(at, Packet::new(bytes)) {
            Verdict::Delivered { departs, .. } => {
                assert!(departs.since(at) < Duration::from_millis(1), "no queue");
                true
            }
            other => {
                assert_eq!(other, Verdict::Dropped(DropReason::Policed));
                false
            }
        }
    }

    /// At 12 Mbps a packet of 1500 bytes has its tokens after a millisecond.
    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut link = policed(12.0, 15_000);
        let burst: Vec<bool> = (0..12)
            .map(|_| passes(&mut link, Time::ZERO, 1500))
            .collect();
        assert_eq!(burst, [[true; 10].as_slice(), &[false; 2]].concat());
        assert!(!passes(&mut link, Time::from_micros(999), 1500));
        assert!(passes(&mut link, Time::from_micros(1000), 1500));
        assert!(!passes(&mut link, Time::from_micros(1000), 1500));
        // A smaller one may pass where a larger one doesn't.
        assert!(!passes(&mut link, Time::from_micros(1100), 1500));
        assert!(passes(&mut link, Time::from_micros(1100), 150));
        // After a pause there is a whole burst and no more.
        let late = Time::from_millis(60_000);
        let count = (0..20).filter(|_| passes(&mut link, late, 1500)).count();
        assert_eq!(count, 10);
        let stats = link.stats();
        assert_eq!((stats.offered, stats.dropped_policed), (37, 15));
        assert_eq!(stats.dropped(), 15);
    }

    #[test]
    fn a_packet_larger_than_the_burst_never_passes() {
        let mut link = policed(12.0, 1499);
        assert!(!passes(&mut link, Time::from_millis(1000), 1500));
        assert!(passes(&mut link, Time::from_millis(1000), 1499));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let refused = |mbps, burst| {
            let rate = Rate::from_mbps(mbps);
            Policer { rate, burst }.validate().unwrap_err().field
        };
        assert_eq!(refused(0.0, 1500), "policer.rate");
        assert_eq!(refused(1.0, 0), "policer.burst");
    }

    proptest! {
        /// Packets of one size at even distances: as many pass in a time t as there are tokens for,
        /// burst + rate · t; all where they come no faster. (With room for one packet only, a
        /// bucket that is full while none comes loses tokens.)
        #[test]
        fn as_much_passes_as_has_tokens(
            mbps in 1.0..100.0_f64,
            burst in 2u64..40,
            bytes in 100u32..1501,
            load in 0.1..4.0_f64,
            count in 1u64..3000,
        ) {
            let rate = Rate::from_mbps(mbps);
            let mut link = policed(mbps, burst * u64::from(bytes));
            let gap = f64::from(bytes) / rate.bytes_per_sec() / load;
            let at = |n: u64| Time::from_secs_f64(gap * n as f64);
            let passed = (0..count).filter(|&n| passes(&mut link, at(n), bytes)).count() as f64;
            let earned = rate.bytes_per_sec() * at(count - 1).as_secs_f64();
            let due = (burst as f64 + earned / f64::from(bytes)).floor().min(count as f64);
            prop_assert!((passed - due).abs() <= 1.0, "{} of {}", passed, due);
            if load <= 1.0 {
                prop_assert_eq!(passed, count as f64);
            }
        }
    }
}
