use std::time::Duration;

use manyway_units::{Rate, Time};

/// A token bucket over stream bytes: the `--limit` of a connection.
#[derive(Debug)]
pub(crate) struct Limiter {
    bytes_per_sec: f64,
    burst: f64,
    tokens: f64,
    refilled: Time,
}

impl Limiter {
    /// Holds at most 10 ms of the rate, and at least two full datagrams so that one can always leave.
    pub(crate) fn new(rate: Rate, max_datagram: usize, now: Time) -> Self {
        let bytes_per_sec = rate.bits_per_sec() / 8.0;
        let burst = (bytes_per_sec * 0.01).max(2.0 * max_datagram as f64);
        Self {
            bytes_per_sec,
            burst,
            tokens: burst,
            refilled: now,
        }
    }

    /// Bytes that may leave now, once there is room for a datagram; else when to ask again.
    pub(crate) fn permit(&mut self, now: Time, datagram: usize) -> Result<usize, Time> {
        let elapsed = now.since(self.refilled).as_secs_f64();
        self.refilled = self.refilled.max(now);
        self.tokens = (self.tokens + elapsed * self.bytes_per_sec).min(self.burst);
        if self.tokens >= datagram as f64 {
            return Ok(self.tokens as usize);
        }
        let wait = (datagram as f64 - self.tokens) / self.bytes_per_sec;
        // One nanosecond more, lest rounding asks at a moment when a token is still missing.
        Err(now + Duration::from_secs_f64(wait) + Duration::from_nanos(1))
    }

    pub(crate) fn spend(&mut self, bytes: usize) {
        self.tokens -= bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_faster_than_the_rate() {
        let rate = Rate::from_bits_per_sec(8e6);
        let mut limiter = Limiter::new(rate, 1200, Time::ZERO);
        let (mut now, mut sent) = (Time::ZERO, 0);
        while now < Time::from_millis(2000) {
            match limiter.permit(now, 1200) {
                Ok(_) => {
                    limiter.spend(1200);
                    sent += 1200;
                }
                Err(at) => {
                    assert!(at > now);
                    now = at;
                }
            }
        }
        assert!((1_990_000..=2_012_400).contains(&sent), "{sent}");
    }
}
