use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A timer that is precise to some microseconds, told by a descriptor (Linux: timerfd). Other
/// systems have none.
#[derive(Debug)]
pub struct PreciseTimer(here::Timer);

impl PreciseTimer {
    /// One that isn't set.
    ///
    /// # Errors
    /// The system has none, or none left.
    pub fn new() -> io::Result<Self> {
        here::Timer::new().map(Self)
    }

    /// A descriptor that can be read once the time is over, 8 bytes then, and never blocks.
    ///
    /// # Errors
    /// The process has too many open.
    pub fn expiries(&self) -> io::Result<OwnedFd> {
        self.0.expiries()
    }

    /// Sets it to `delay` from now, in place of what it was set to.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set(&self, delay: Duration) -> io::Result<()> {
        self.0.set(delay)
    }
}

#[cfg(target_os = "linux")]
mod here {
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use std::time::Duration;

    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

    #[derive(Debug)]
    pub(super) struct Timer(TimerFd);

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
            Ok(Self(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?))
        }

        pub(super) fn expiries(&self) -> io::Result<OwnedFd> {
            self.0.as_fd().try_clone_to_owned()
        }

        pub(super) fn set(&self, delay: Duration) -> io::Result<()> {
            // Zero would disarm it.
            let delay = delay.max(Duration::from_nanos(1));
            let once = Expiration::OneShot(delay.into());
            Ok(self.0.set(once, TimerSetTimeFlags::empty())?)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod here {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    #[derive(Debug)]
    pub(super) enum Timer {}

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn expiries(&self) -> io::Result<OwnedFd> {
            match *self {}
        }

        pub(super) fn set(&self, _delay: Duration) -> io::Result<()> {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;
    use std::io::{ErrorKind, Read};

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn it_is_read_when_the_time_is_over() {
        let timer = PreciseTimer::new().unwrap();
        let mut expiries = File::from(timer.expiries().unwrap());
        for delay in [Duration::ZERO, Duration::from_micros(300)] {
            let error = expiries.read(&mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            timer.set(delay).unwrap();
            let readable = PollFd::new(expiries.as_fd(), PollFlags::POLLIN);
            poll(&mut [readable], PollTimeout::NONE).unwrap();
            assert_eq!(expiries.read(&mut [0; 8]).unwrap(), 8);
        }
    }
}
