use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use manyway_os::PreciseTimer;
use tokio::net::unix::pipe::Receiver;

/// A timer that wakes one task.
///
/// It is precise where the system can be: the pacer asks for delays well below the millisecond that
/// tokio's own timers round to.
pub(crate) struct Timer {
    precise: Option<Precise>,
    coarse: Option<Pin<Box<tokio::time::Sleep>>>,
    armed: Option<Instant>,
}

impl Timer {
    /// A timer that isn't set. Must be called within a tokio runtime.
    pub(crate) fn new() -> Self {
        let precise = Precise::new()
            .inspect_err(|error| tracing::debug!(%error, "timers are rounded to a millisecond"))
            .ok();
        Self {
            precise,
            coarse: None,
            armed: None,
        }
    }

    /// Ready once `deadline` has passed, at once if it already has; otherwise the task is woken
    /// then, or earlier.
    pub(crate) fn poll_until(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        loop {
            let now = Instant::now();
            if now >= deadline {
                return Poll::Ready(());
            }
            // A timer that fires early only costs a look at the clock, so an earlier one stays as
            // it is.
            let armed = match self.armed {
                Some(armed) if armed <= deadline && armed > now => armed,
                _ => {
                    self.arm(deadline, deadline - now);
                    deadline
                }
            };
            match self.poll_fired(cx) {
                Poll::Ready(()) => self.armed = None,
                Poll::Pending => {
                    self.armed = Some(armed);
                    return Poll::Pending;
                }
            }
        }
    }

    fn arm(&mut self, deadline: Instant, delay: Duration) {
        if let Some(timer) = &mut self.precise {
            match timer.timer.set(delay) {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, "a timer failed; they are rounded to a millisecond");
                    self.precise = None;
                }
            }
        }
        match &mut self.coarse {
            Some(sleep) => sleep.as_mut().reset(deadline.into()),
            None => self.coarse = Some(Box::pin(tokio::time::sleep_until(deadline.into()))),
        }
    }

    fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match (&mut self.precise, &mut self.coarse) {
            (Some(timer), _) => timer.poll_fired(cx),
            (None, Some(sleep)) => sleep.as_mut().poll(cx),
            (None, None) => Poll::Pending,
        }
    }
}

/// A [`PreciseTimer`] that tokio's reactor watches.
struct Precise {
    timer: PreciseTimer,
    /// The timer's descriptor isn't a pipe, but it is read like one, and this is the safe way to
    /// have a foreign descriptor watched.
    expiries: Receiver,
}

impl Precise {
    fn new() -> io::Result<Self> {
        let timer = PreciseTimer::new()?;
        let expiries = Receiver::from_owned_fd_unchecked(timer.expiries()?)?;
        Ok(Self { timer, expiries })
    }

    fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut count = [0; 8];
        while self.expiries.poll_read_ready(cx).is_ready() {
            match self.expiries.try_read(&mut count) {
                // Readiness is cleared by the attempt; a stale one is no expiry.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test]
    async fn fires_never_early_and_again_after_each_arming() {
        for mut timer in [
            Timer::new(),
            Timer {
                precise: None,
                coarse: None,
                armed: None,
            },
        ] {
            for micros in [0, 1, 300, 2_000, 50] {
                let deadline = Instant::now() + Duration::from_micros(micros);
                poll_fn(|cx| timer.poll_until(cx, deadline)).await;
                assert!(Instant::now() >= deadline);
            }
        }
    }

    #[tokio::test]
    async fn a_later_and_an_earlier_deadline_replace_the_one_before() {
        let mut timer = Timer::new();
        let start = Instant::now();
        let far = start + Duration::from_secs(3600);
        let near = start + Duration::from_millis(5);
        let later = start + Duration::from_millis(10);
        for deadline in [far, near] {
            assert!(
                poll_fn(|cx| Poll::Ready(timer.poll_until(cx, deadline)))
                    .await
                    .is_pending()
            );
        }
        poll_fn(|cx| timer.poll_until(cx, later)).await;
        assert!(Instant::now() >= later);
    }
}
