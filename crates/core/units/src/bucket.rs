use std::time::Duration;

use crate::Time;

/// A token bucket: lets through `rate` per second in the long run, and at most `burst` at once.
///
/// Amounts have whatever unit the owner counts in, bytes or packets; the rate is in that unit per
/// second. Time is handed in and may stand still; it never runs backwards here.
///
/// ```
/// use manyway_units::{Bucket, Time};
///
/// // 1000 bytes/s, 1500 at once.
/// let mut bucket = Bucket::new(1000.0, 1500.0, Time::ZERO);
/// assert_eq!(bucket.permit(Time::ZERO, 1500.0), Ok(()));
/// bucket.spend(Time::ZERO, 1500.0);
/// let later = bucket.permit(Time::ZERO, 500.0).unwrap_err();
/// assert!(later >= Time::from_millis(500) && later < Time::from_millis(501));
/// assert_eq!(bucket.permit(later, 500.0), Ok(()));
/// ```
#[derive(Clone, Debug)]
pub struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    refilled: Time,
}

impl Bucket {
    /// A full bucket. A rate or burst that is negative or not a number counts as 0.
    pub fn new(rate: f64, burst: f64, now: Time) -> Self {
        let burst = sound(burst);
        Self {
            rate: sound(rate),
            burst,
            tokens: burst,
            refilled: now,
        }
    }

    /// Per second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Most at once.
    pub fn burst(&self) -> f64 {
        self.burst
    }

    /// Changes the rate from `now` on; what has been saved up stays.
    pub fn set_rate(&mut self, now: Time, rate: f64) {
        self.refill(now);
        self.rate = sound(rate);
    }

    /// Changes the burst; what is above it is gone.
    pub fn set_burst(&mut self, burst: f64) {
        self.burst = sound(burst);
        self.tokens = self.tokens.min(self.burst);
    }

    /// What may leave at `now`; less than 0 after more was spent than was there.
    pub fn tokens(&self, now: Time) -> f64 {
        let elapsed = now.since(self.refilled).as_secs_f64();
        (self.tokens + elapsed * self.rate).min(self.burst)
    }

    /// Whether `amount` may leave at `now`. More than a burst never fits, so it may leave when the
    /// bucket is full. Nothing leaves without a burst.
    ///
    /// # Errors
    /// When to ask again; [`Time::MAX`] if the rate is 0.
    pub fn permit(&self, now: Time, amount: f64) -> Result<(), Time> {
        let missing = amount.min(self.burst) - self.tokens(now);
        if missing <= 0.0 && self.burst > 0.0 {
            return Ok(());
        }
        let wait = missing / self.rate;
        // Longer than anybody waits, or for ever.
        if wait.is_nan() || wait > 1e6 || self.burst == 0.0 {
            return Err(Time::MAX);
        }
        // One nanosecond more, lest rounding asks at a moment when a token is still missing.
        Err(now + Duration::from_secs_f64(wait) + Duration::from_nanos(1))
    }

    /// Takes `amount` if that may leave at `now`.
    ///
    /// # Errors
    /// When to ask again, as [`permit`](Self::permit) says.
    pub fn take(&mut self, now: Time, amount: f64) -> Result<(), Time> {
        self.permit(now, amount)?;
        self.spend(now, amount);
        Ok(())
    }

    /// When `amount` may leave if nothing else does before; in the past if it may now.
    pub fn ready(&self, amount: f64) -> Time {
        self.permit(self.refilled, amount)
            .err()
            .unwrap_or(self.refilled)
    }

    /// What was taken comes back, as far as there is room.
    pub fn give_back(&mut self, amount: f64) {
        self.tokens = (self.tokens + sound(amount)).min(self.burst);
    }

    /// So much has left at `now`, permitted or not: what is too much has to be earned before
    /// anything else leaves.
    pub fn spend(&mut self, now: Time, amount: f64) {
        self.refill(now);
        self.tokens -= sound(amount);
    }

    fn refill(&mut self, now: Time) {
        self.tokens = self.tokens(now);
        self.refilled = self.refilled.max(now);
    }
}

fn sound(value: f64) -> f64 {
    if value > 0.0 { value.min(1e18) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sends `amount` whenever permitted until `end`; how much in all.
    fn drain(bucket: &mut Bucket, mut now: Time, end: Time, amount: f64) -> f64 {
        let mut sent = 0.0;
        while now < end {
            match bucket.permit(now, amount) {
                Ok(()) => {
                    bucket.spend(now, amount);
                    sent += amount;
                }
                Err(at) => {
                    assert!(at > now);
                    now = at;
                }
            }
        }
        sent
    }

    #[test]
    fn nothing_leaves_at_rate_zero_and_all_of_nonsense_is_zero() {
        for rate in [0.0, -1.0, f64::NAN, 1e-300] {
            let mut bucket = Bucket::new(rate, 100.0, Time::ZERO);
            bucket.spend(Time::ZERO, 100.0);
            assert_eq!(bucket.permit(Time::from_millis(1), 1.0), Err(Time::MAX));
        }
    }

    #[test]
    fn nothing_leaves_without_a_burst() {
        let bucket = Bucket::new(100.0, 0.0, Time::ZERO);
        assert_eq!(bucket.permit(Time::from_millis(1000), 1.0), Err(Time::MAX));
    }

    #[test]
    fn a_new_rate_counts_from_then_on() {
        let mut bucket = Bucket::new(100.0, 1000.0, Time::ZERO);
        bucket.spend(Time::ZERO, 1000.0);
        bucket.set_rate(Time::from_millis(1000), 10.0);
        assert!((bucket.tokens(Time::from_millis(2000)) - 110.0).abs() < 1e-9);
        bucket.set_burst(50.0);
        assert_eq!(bucket.tokens(Time::from_millis(2000)), 50.0);
    }

    #[test]
    fn what_is_given_back_may_leave_again_and_no_more() {
        let mut bucket = Bucket::new(10.0, 100.0, Time::ZERO);
        assert_eq!(bucket.take(Time::ZERO, 60.0), Ok(()));
        let ready = bucket.ready(60.0);
        assert_eq!(bucket.take(Time::ZERO, 60.0), Err(ready));
        assert_eq!(ready.as_micros(), 2_000_000);
        bucket.give_back(20.0);
        assert_eq!(bucket.take(Time::ZERO, 60.0), Ok(()));
        bucket.give_back(1000.0);
        assert_eq!(bucket.tokens(Time::ZERO), 100.0);
        assert_eq!(bucket.ready(100.0), Time::ZERO);
    }

    proptest! {
        /// Never more than burst + rate × time, and not less than that by more than one unit of
        /// sending.
        #[test]
        fn the_rate_holds(
            rate in 1.0f64..1e9,
            burst in 1.0f64..1e6,
            share in 0.01f64..1.0,
            ms in 1u64..2000,
        ) {
            let amount = burst * share;
            // So many turns at most.
            prop_assume!(rate * ms as f64 / 1e3 / amount < 1e5);
            let mut bucket = Bucket::new(rate, burst, Time::ZERO);
            let sent = drain(&mut bucket, Time::ZERO, Time::from_millis(ms), amount);
            let most = burst + rate * ms as f64 / 1e3;
            prop_assert!(sent <= most * (1.0 + 1e-6), "{} of {}", sent, most);
            // A nanosecond is lost at each wait.
            let lost = rate * 1e-9 * (most / amount + 1.0);
            prop_assert!(sent >= most - 2.0 * amount - lost - 1e-6 * most, "{} of {}", sent, most);
        }
    }
}
