use std::time::{Duration, SystemTime};

use nix::time::{ClockId, clock_gettime};

/// It counts the time in which the machine sleeps, too, which `Instant` doesn't on Linux.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STEADY: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEADY: ClockId = ClockId::CLOCK_MONOTONIC;

/// Unix time that neither jumps nor runs backwards: the system's when it was started, and from
/// there a steady clock, which doesn't stop while the machine sleeps.
#[derive(Copy, Clone, Debug)]
pub struct UnixClock {
    /// The steady clock's reading at the start.
    start: Duration,
    unix: Duration,
}

impl UnixClock {
    /// Reads the system's time; 1970 if it is before that.
    pub fn start() -> Self {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            start: steady(),
            unix: unix.unwrap_or_default(),
        }
    }

    /// The time since 1970.
    pub fn now(&self) -> Duration {
        self.unix + steady().saturating_sub(self.start)
    }
}

fn steady() -> Duration {
    // It can't fail: every system that we build for has this clock.
    clock_gettime(STEADY).map_or(Duration::ZERO, Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_from_the_systems_time() {
        let clock = UnixClock::start();
        let first = clock.now();
        std::thread::sleep(Duration::from_millis(20));
        let passed = clock.now() - first;
        assert!(passed >= Duration::from_millis(20), "{passed:?}");
        let system = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let off = system.unwrap().abs_diff(clock.now());
        assert!(off < Duration::from_secs(60), "{off:?}");
    }

    /// Both clocks begin with the boot, but only one of them has the time that was slept.
    #[test]
    #[cfg(target_os = "linux")]
    fn its_clock_counts_sleep() {
        let boot = std::fs::read_to_string("/proc/uptime").unwrap();
        let boot: f64 = boot.split(' ').next().unwrap().parse().unwrap();
        assert!((steady().as_secs_f64() - boot).abs() < 5.0);
    }
}
