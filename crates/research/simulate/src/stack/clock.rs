//! Clocks that don't run as the world's does.

use std::time::Duration;

use manyway_units::Time;

/// A host's clock beside the world's: it may run fast or slow, and it may leap ahead.
#[derive(Debug, Copy, Clone, Default, PartialEq, Eq)]
pub struct Clock {
    ppm: i32,
    ahead: Duration,
}

const MILLION: i128 = 1_000_000;

impl Clock {
    /// A clock that gains this many microseconds a second, or loses them if it's negative; 100,000
    /// at most.
    pub fn drifting(ppm: i32) -> Self {
        Self {
            ppm: ppm.clamp(-100_000, 100_000),
            ahead: Duration::ZERO,
        }
    }

    pub(super) fn leap(&mut self, by: Duration) {
        self.ahead += by;
    }

    /// What this clock shows at a moment of the world.
    pub(super) fn own(&self, world: Time) -> Time {
        if *self == Self::default() {
            return world;
        }
        let at = nanoseconds(world);
        time(at + at * i128::from(self.ppm) / MILLION + self.ahead.as_nanos() as i128)
    }

    /// The first moment of the world at which this clock shows `own` or more.
    pub(super) fn world(&self, own: Time) -> Time {
        if *self == Self::default() {
            return own;
        }
        let elapsed = nanoseconds(own) - self.ahead.as_nanos() as i128;
        let guess = elapsed * MILLION / (MILLION + i128::from(self.ppm));
        // Both divisions round: the moment is next to the guess.
        let first = ((guess - 2).max(0)..).find(|&at| self.own(time(at)) >= own);
        time(first.unwrap_or(0))
    }
}

fn nanoseconds(at: Time) -> i128 {
    at.since(Time::ZERO).as_nanos() as i128
}

fn time(nanoseconds: i128) -> Time {
    Time::ZERO + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_comes_when_the_clock_shows_it_and_not_before() {
        for ppm in [0, 100, -100, 100_000, -100_000] {
            let mut clock = Clock::drifting(ppm);
            clock.leap(Duration::from_millis(1_234));
            for at in [1_300_000_000, 1_999_999_999, 60_000_000_007] {
                let own = Time::ZERO + Duration::from_nanos(at);
                let world = clock.world(own);
                assert!(clock.own(world) >= own, "{ppm} ppm: early");
                if world > Time::ZERO {
                    let before = world - Duration::from_nanos(1);
                    assert!(clock.own(before) < own, "{ppm} ppm: late");
                }
            }
        }
    }

    #[test]
    fn drift_and_leaps_add_up() {
        let mut clock = Clock::drifting(1_000);
        clock.leap(Duration::from_secs(3));
        let shown = clock.own(Time::ZERO + Duration::from_secs(10));
        assert_eq!(shown.since(Time::ZERO), Duration::from_millis(13_010));
    }
}
