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
        Self {
            start: steady(),
            unix: system(),
        }
    }

    /// The time since 1970.
    pub fn now(&self) -> Duration {
        self.unix + steady().saturating_sub(self.start)
    }
}

/// Notices that the system's clock was wrong when a [`UnixClock`] was started, and has been set
/// since: that one goes on with the wrong time.
#[derive(Copy, Clone, Debug)]
pub struct ClockCheck {
    clock: UnixClock,
    /// How far the system's clock was ahead when that was last noticed, in ms.
    told: i64,
}

impl ClockCheck {
    /// The largest difference that isn't worth a word, in ms.
    const TOLERANCE: u64 = 60_000;

    /// Checks this clock.
    pub fn new(clock: UnixClock) -> Self {
        Self { clock, told: 0 }
    }

    /// Warns if the clocks differ, once for each difference. Call it now and then.
    pub fn check(&mut self) {
        if let Some(ahead) = self.notice(self.clock.now(), system()) {
            let s = ahead.unsigned_abs() / 1000;
            let way = if ahead > 0 { "ahead of" } else { "behind" };
            tracing::warn!(
                "the system's clock is now {s} s {way} the one that this process has used since \
                 it started, by which vouchers are issued and expire: if the system's clock is \
                 right, restart the process"
            );
        }
    }

    /// How far the system's clock is ahead, if that is news. It may hover around the tolerance, so
    /// it is news only if it has changed by as much.
    fn notice(&mut self, now: Duration, system: Duration) -> Option<i64> {
        let ahead = system.as_millis() as i64 - now.as_millis() as i64;
        if ahead.abs_diff(self.told) <= Self::TOLERANCE {
            return None;
        }
        self.told = ahead;
        (ahead.unsigned_abs() > Self::TOLERANCE).then_some(ahead)
    }
}

fn system() -> Duration {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    unix.unwrap_or_default()
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

    #[test]
    fn a_system_clock_that_is_set_is_noticed_once() {
        const START: u64 = 1_800_000_000_000;
        let mut check = ClockCheck::new(UnixClock::start());
        // How far it is ahead, over time, and what is said.
        for (n, (ahead, said)) in [
            (0, None),
            (60_000, None),
            (60_001, Some(60_001)),
            (60_000, None),
            (60_001, None),
            (3_600_000, Some(3_600_000)),
            (3_600_000, None),
            (3_601_000, None),
            (500, None),
            (3_600_000, Some(3_600_000)),
            (-86_400_000, Some(-86_400_000)),
            (-86_400_000, None),
            (0, None),
            (-60_000, None),
            (-60_001, Some(-60_001)),
        ]
        .into_iter()
        .enumerate()
        {
            let now = START + 1000 * n as u64;
            let system = now.checked_add_signed(ahead).unwrap();
            let [now, system] = [now, system].map(Duration::from_millis);
            assert_eq!(check.notice(now, system), said, "{n}");
        }
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
