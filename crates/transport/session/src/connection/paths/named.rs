//! What a peer may make us send to addresses that it names and that haven't answered.
//!
//! It owns the budget of one connection and a share in the endpoint's. It knows no paths: each
//! attempt is charged in advance, and refunded when the address has answered.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use manyway_units::{Bucket, Time};

use crate::budget::{NAMED_AT_ONCE_IN_ALL, NAMED_ONCE, NAMED_PER_SECOND, NAMED_PER_SECOND_IN_ALL};

/// An attempt for which the peer hasn't sent enough yet is looked at again after this.
const PATIENCE: Duration = Duration::from_secs(1);

/// What all connections of an endpoint may send to such addresses.
#[derive(Clone, Debug)]
pub(crate) struct NamedInAll(Arc<Mutex<Bucket>>);

impl Default for NamedInAll {
    fn default() -> Self {
        let (rate, burst) = (NAMED_PER_SECOND_IN_ALL, NAMED_AT_ONCE_IN_ALL);
        let bucket = Bucket::new(rate as f64, burst as f64, Time::ZERO);
        Self(Arc::new(Mutex::new(bucket)))
    }
}

impl NamedInAll {
    fn with<R>(&self, act: impl FnOnce(&mut Bucket) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What one connection may.
#[derive(Debug)]
pub(crate) struct Named {
    /// Bytes that came from the peer.
    received: u64,
    /// Bytes that went, or may still go.
    charged: u64,
    bucket: Bucket,
    in_all: NamedInAll,
}

impl Named {
    pub(crate) fn new(in_all: NamedInAll) -> Self {
        Self {
            received: 0,
            charged: 0,
            bucket: Bucket::new(NAMED_PER_SECOND as f64, NAMED_ONCE as f64, Time::ZERO),
            in_all,
        }
    }

    /// A datagram of the peer's has opened.
    pub(crate) fn on_received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// Charges an attempt of so many bytes.
    ///
    /// # Errors
    /// Not before this time.
    pub(crate) fn charge(&mut self, now: Time, bytes: u64) -> Result<(), Time> {
        if self.charged + bytes > self.received + NAMED_ONCE {
            return Err(now + PATIENCE);
        }
        let amount = bytes as f64;
        self.bucket.permit(now, amount)?;
        self.in_all.with(|bucket| bucket.take(now, amount))?;
        self.bucket.spend(now, amount);
        self.charged += bytes;
        Ok(())
    }

    /// The address has answered: nobody was sent anything that he didn't ask for.
    pub(crate) fn refund(&mut self, bytes: u64) {
        self.charged = self.charged.saturating_sub(bytes);
        self.bucket.give_back(bytes as f64);
        self.in_all.with(|bucket| bucket.give_back(bytes as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: u64 = 1000;

    /// What attempts of a kilobyte are charged from 0 to 60 s, tried every 10 ms by so many
    /// connections, whose peers send so many bytes each 10 ms.
    fn charged(connections: usize, received: usize) -> Vec<u64> {
        let in_all = NamedInAll::default();
        let mut each: Vec<_> = (0..connections)
            .map(|_| Named::new(in_all.clone()))
            .collect();
        for step in 0..6000 {
            for named in &mut each {
                named.on_received(received);
                while named.charge(Time::from_millis(10 * step), KB).is_ok() {}
            }
        }
        each.iter().map(|named| named.charged).collect()
    }

    #[test]
    fn no_more_than_came_and_thirty_kilobytes_once() {
        assert_eq!(charged(1, 0), [30 * KB]);
        assert_eq!(charged(1, 50), [330 * KB], "6000 times 50 bytes");
    }

    #[test]
    fn ten_kilobytes_a_second_however_much_comes() {
        assert_eq!(charged(1, 1 << 20), [(30 + 599) * KB]);
    }

    #[test]
    fn an_endpoint_sends_a_hundred_kilobytes_a_second() {
        let all: u64 = charged(100, 1 << 20).iter().sum();
        assert_eq!(all, (300 + 5999) * KB);
    }

    #[test]
    fn what_is_refused_is_said_to_be_ready_later() {
        let mut named = Named::new(NamedInAll::default());
        let now = Time::from_millis(5000);
        named.on_received(1 << 20);
        assert_eq!(named.charge(now, 30 * KB), Ok(()));
        let ready = named.charge(now, 6 * KB).unwrap_err();
        assert_eq!(ready.since(now).as_micros(), 600_000);
        assert_eq!(named.charge(ready, 6 * KB), Ok(()));
        named.refund(6 * KB);
        assert_eq!(
            named.charge(ready, 6 * KB),
            Ok(()),
            "the other has answered"
        );
        let again = named.charge(ready, 6 * KB);
        assert_eq!(again, Err(ready + Duration::from_millis(600)), "once");
        // Where the peer has sent too little, time alone doesn't help: not before some time.
        let mut silent = Named::new(NamedInAll::default());
        assert!(silent.charge(now, 31 * KB).is_err_and(|later| later > now));
    }
}
