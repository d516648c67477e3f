//! How the driver rests while packets come and go densely: for a while, and then it looks at every
//! socket. Woken for each packet, it would take more time than all that is done about it.
//!
//! What is due meanwhile is late by as much: less than the shortest delay of an acknowledgement,
//! and a small part of a round trip, which is what the laws judge queues by.

use std::time::Duration;

use manyway_units::Time;

/// Longest rest. The pacer holds a millisecond's packets, which leaves as much for being late.
const LONGEST: Duration = Duration::from_micros(500);
/// Shortest that is worth it: the kernel is late by half as much.
const SHORTEST: Duration = Duration::from_micros(100);
/// At most this part of the shortest round trip.
const OF_ROUND_TRIP: u32 = 16;
/// Bytes that are to pass in one: with fewer a rest spares nothing, with more it would only hold
/// back those who wait for an answer.
const LEAST: f64 = 4_000.0;
const MOST: f64 = 24_000.0;
/// The rate and the round trip are looked at so often.
const SPAN: Duration = Duration::from_millis(10);

/// The rate at which bytes pass, received and sent, and the rests that it allows.
#[derive(Debug, Default)]
pub(super) struct Rests {
    since: Time,
    bytes: u64,
    /// As long as the last span allows.
    rest: Option<Duration>,
}

impl Rests {
    /// Rests of one length, for ever.
    #[cfg(test)]
    pub(super) fn always(rest: Duration) -> Self {
        Self {
            since: Time::MAX,
            bytes: 0,
            rest: Some(rest),
        }
    }

    /// So many bytes have passed.
    pub(super) fn note(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// How long to rest from `now` on, if nothing is left to do.
    pub(super) fn next(
        &mut self,
        now: Time,
        shortest_rtt: impl FnOnce() -> Option<Duration>,
    ) -> Option<Duration> {
        let elapsed = now.since(self.since);
        if elapsed >= SPAN {
            let rate = self.bytes as f64 / elapsed.as_secs_f64();
            (self.since, self.bytes) = (now, 0);
            self.rest = (rate * LONGEST.as_secs_f64() >= LEAST)
                .then(|| Duration::from_secs_f64(MOST / rate).min(LONGEST))
                .and_then(|rest| Some(rest.min(shortest_rtt()? / OF_ROUND_TRIP)))
                .filter(|rest| *rest >= SHORTEST);
        }
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Option<Duration> = Some(Duration::from_millis(20));

    /// What comes of `mbps`, in packets of `size` bytes, a second after a start in silence.
    fn rest_at(mbps: f64, size: usize, rtt: Option<Duration>) -> Option<Duration> {
        let mut rests = Rests::default();
        let packets = mbps * 1e6 / 8.0 / size as f64;
        let mut at = Duration::from_secs(1);
        assert_eq!(rests.next(Time::ZERO + at, || rtt), None);
        let mut rest = None;
        for _ in 0..packets as usize {
            at += Duration::from_secs_f64(1.0 / packets);
            rests.note(size);
            rest = rests.next(Time::ZERO + at, || rtt);
        }
        rest
    }

    #[test]
    fn dense_packets_come_together_and_others_at_once() {
        for slow in [0.1, 20.0, 60.0] {
            assert_eq!(rest_at(slow, 1472, FAR), None, "{slow}");
        }
        for dense in [70.0, 100.0, 200.0, 380.0] {
            assert_eq!(rest_at(dense, 1472, FAR), Some(LONGEST), "{dense}");
        }
        let fast = rest_at(1000.0, 1472, FAR).unwrap();
        assert!((180..200).contains(&fast.as_micros()), "{fast:?}");
        assert_eq!(rest_at(8000.0, 8952, FAR), None);
    }

    #[test]
    fn a_short_path_is_not_made_longer() {
        let rtt = |micros| Some(Duration::from_micros(micros));
        assert_eq!(rest_at(200.0, 1472, rtt(4_000)), rtt(250));
        assert_eq!(rest_at(200.0, 1472, rtt(300)), None);
        assert_eq!(rest_at(200.0, 1472, None), None, "no path is up");
    }

    #[test]
    fn a_silence_ends_them() {
        let mut rests = Rests::default();
        let mut now = Time::ZERO + Duration::from_secs(1);
        let mut turn = |bytes, millis| {
            now += Duration::from_millis(millis);
            rests.note(bytes);
            rests.next(now, || FAR)
        };
        assert_eq!(turn(0, 0), None);
        assert_eq!(turn(200_000, 10), Some(LONGEST));
        assert_eq!(turn(0, 9), Some(LONGEST));
        assert_eq!(turn(0, 1), None);
        assert_eq!(turn(200_000, 10), Some(LONGEST));
        assert_eq!(turn(1_500, 5_000), None);
    }
}
