use manyway_units::{Bucket, Rate, Time};

/// A token bucket over stream bytes: the `--limit` of a connection.
#[derive(Debug)]
pub(crate) struct Limiter(Bucket);

impl Limiter {
    /// Holds at most 10 ms of the rate, and at least two full datagrams so that one can always
    /// leave.
    pub(crate) fn new(rate: Rate, max_datagram: usize, now: Time) -> Self {
        let bytes_per_sec = rate.bits_per_sec() / 8.0;
        let burst = (bytes_per_sec * 0.01).max(2.0 * max_datagram as f64);
        Self(Bucket::new(bytes_per_sec, burst, now))
    }

    /// Whether a datagram may leave now; else when to ask again.
    pub(crate) fn permit(&self, now: Time, datagram: usize) -> Result<(), Time> {
        self.0.permit(now, datagram as f64)
    }

    pub(crate) fn spend(&mut self, now: Time, bytes: usize) {
        self.0.spend(now, bytes as f64);
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
                Ok(()) => {
                    limiter.spend(now, 1200);
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
