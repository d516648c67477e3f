use std::time::Duration;

/// Exponential backoff: how long to wait before each try of something that keeps failing.
///
/// The caller counts the failures, so one constant serves every peer, path or relay.
///
/// ```
/// # use std::time::Duration;
/// use manyway_units::Backoff;
/// const RETRY: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));
/// assert_eq!(RETRY.delay(0), Duration::from_secs(5));
/// assert_eq!(RETRY.delay(2), Duration::from_secs(20));
/// assert_eq!(RETRY.delay(4), Duration::from_secs(60));
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    /// Delays that start at `first` and double up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Backoff { first, longest }
    }

    /// The delay after `failures` earlier delays: `first · 2^failures`, at most `longest`. From the
    /// 32nd doubling on it is `longest`, however short `first` is.
    pub fn delay(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures);
        factor
            .and_then(|factor| self.first.checked_mul(factor))
            .map_or(self.longest, |delay| delay.min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_delay() -> impl Strategy<Value = Duration> {
        prop_oneof![
            any::<Duration>(),
            (0_u64..1 << 40).prop_map(Duration::from_micros),
            Just(Duration::MAX),
        ]
    }

    proptest! {
        #[test]
        fn doubles_to_the_longest(first in any_delay(), longest in any_delay(), n in 0_u32..31) {
            let backoff = Backoff::new(first, longest);
            prop_assert_eq!(backoff.delay(0), first.min(longest));
            let doubled = backoff.delay(n).saturating_mul(2).min(longest);
            prop_assert_eq!(backoff.delay(n + 1), doubled);
        }

        #[test]
        fn stays_at_the_longest(first in any_delay(), longest in any_delay(), n in 32_u32..) {
            prop_assert_eq!(Backoff::new(first, longest).delay(n), longest);
        }
    }
}
