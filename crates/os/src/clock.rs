use std::time::{Duration, Instant, SystemTime};

/// Unix time that neither jumps nor runs backwards: the system's when it was started, and from
/// there a steady clock.
#[derive(Copy, Clone, Debug)]
pub struct UnixClock {
    start: Instant,
    unix: Duration,
}

impl UnixClock {
    /// Reads the system's time; 1970 if it is before that.
    pub fn start() -> Self {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            start: Instant::now(),
            unix: unix.unwrap_or_default(),
        }
    }

    /// The time since 1970.
    pub fn now(&self) -> Duration {
        self.unix + self.start.elapsed()
    }
}
