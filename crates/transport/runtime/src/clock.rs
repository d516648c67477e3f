use std::time::Instant;

use manyway_units::Time;

/// The wall clock as the session core sees it: nanoseconds since the endpoint was bound.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    /// The moment of `time`; `None` when it is further away than the clock reaches ("never").
    pub(crate) fn instant(&self, time: Time) -> Option<Instant> {
        self.origin.checked_add(time.since(Time::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let clock = Clock::start();
        let now = clock.now();
        let instant = clock.instant(now).unwrap();
        assert_eq!(Time::ZERO + instant.duration_since(clock.origin), now);
        assert!(clock.now() >= now);
    }
}
