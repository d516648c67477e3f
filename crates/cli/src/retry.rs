//! Tries again what a lost connection has ended.

use std::time::Duration;

use manyway_units::format_duration;
use tokio::time::{Instant, sleep};

use crate::exit::{Interrupted, Stop, is_the_networks, words};
use crate::progress::Report;
use crate::reports::Reports;
use crate::screen::Screen;

/// Pauses between attempts, in turn; the last one repeats.
const PAUSES: [u64; 6] = [1, 2, 4, 8, 15, 30];
/// An attempt that took longer had a connection: the time for retries begins anew.
const WORKED: Duration = Duration::from_secs(60);

/// Who hears of attempts, and who ends them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retrying<'a> {
    pub(crate) screen: &'a Screen,
    pub(crate) stop: &'a Stop,
    pub(crate) reports: &'a Reports,
}

/// Runs `attempt` until it succeeds, fails for another reason than the network, or has failed for
/// `patience`.
///
/// # Errors
/// That of the last attempt; [`Interrupted`] if the user stops the program meanwhile.
pub(crate) async fn until_done<T>(
    retrying: Retrying<'_>,
    patience: Option<Duration>,
    mut attempt: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let Retrying {
        screen,
        stop,
        reports,
    } = retrying;
    let mut end = None;
    let mut pauses = PAUSES.iter();
    loop {
        let began = Instant::now();
        let error = match attempt().await {
            Err(error) if is_the_networks(&error) => error,
            other => return other,
        };
        let Some(patience) = patience else {
            return Err(error);
        };
        if began.elapsed() > WORKED {
            end = None;
            pauses = PAUSES.iter();
        }
        let end = *end.get_or_insert_with(|| Instant::now() + patience);
        let pause = Duration::from_secs(*pauses.next().unwrap_or(&PAUSES[PAUSES.len() - 1]));
        if Instant::now() + pause > end {
            return Err(error);
        }
        let again = format_duration(pause);
        reports.report(|| Report::retry(pause, &error));
        let error = words(&error);
        screen.say(&match error.ends_with('.') {
            true => format!("manyway: {error} Trying again in {again}."),
            false => format!("manyway: {error}; trying again in {again}"),
        });
        tokio::select! {
            () = sleep(pause) => {}
            () = stop.requested() => return Err(Interrupted.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use manyway::files::TransferError;
    use manyway::{CloseReason, ConnectionLost};

    use super::*;
    use crate::close::{ClosedByPeer, FAILED, NOT_ALLOWED, TIMED_OUT};
    use crate::exit::TimedOut;

    fn lost() -> anyhow::Error {
        let error = TransferError::Stream {
            doing: "while sending x".to_owned(),
            source: io::ErrorKind::TimedOut.into(),
        };
        error.into()
    }

    fn closed(code: u64) -> anyhow::Error {
        let error = ClosedByPeer {
            doing: "while sending x".to_owned(),
            reason: "its reason".to_owned(),
            code,
        };
        error.into()
    }

    /// How often it is tried, and how long that takes.
    async fn tries(
        patience: Option<Duration>,
        each: Duration,
        error: impl Fn(u32) -> Option<anyhow::Error>,
    ) -> (u32, u64, bool) {
        let began = Instant::now();
        let mut tries = 0;
        let screen = Screen::quiet();
        let retrying = Retrying {
            reports: &Reports::silent(&screen),
            stop: &Stop::listen(false),
            screen: &screen,
        };
        let attempt = async || {
            tries += 1;
            sleep(each).await;
            error(tries).map_or(Ok(()), Err)
        };
        let result = until_done(retrying, patience, attempt).await;
        let done = result.is_ok();
        (tries, began.elapsed().as_secs(), done)
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_networks_failures_are_tried_again_and_for_so_long() {
        let none = Duration::ZERO;
        let hour = Some(Duration::from_secs(3600));
        assert_eq!(tries(None, none, |_| Some(lost())).await, (1, 0, false));
        let other = |_| Some(anyhow::anyhow!("the disk is full"));
        assert_eq!(tries(hour, none, other).await, (1, 0, false));
        assert_eq!(tries(hour, none, |_| Some(closed(FAILED))).await.0, 1);
        assert_eq!(tries(hour, none, |_| Some(closed(NOT_ALLOWED))).await.0, 1);
        let full = |tries| (tries < 3).then(|| closed(CloseReason::OVERLOADED));
        assert_eq!(tries(hour, none, full).await.0, 3);
        let second = |n| (n < 2).then(|| closed(TIMED_OUT));
        assert_eq!(tries(hour, none, second).await, (2, 1, true));
        let out = || TimedOut {
            limit: WORKED,
            waiting_for: "an answer".to_owned(),
        };
        let second = |n| (n < 2).then(|| out().into());
        assert_eq!(tries(hour, none, second).await, (2, 1, true));
        let silent = || {
            ConnectionLost(CloseReason::TimedOut {
                seconds: 30,
                paths: 2,
                offline: false,
            })
        };
        let second = |n| (n < 2).then(|| silent().into());
        assert_eq!(tries(hour, none, second).await, (2, 1, true));
        // After 1, 2, 4, 8 and 15 s.
        let sixth = |n| (n < 6).then(lost);
        assert_eq!(tries(hour, none, sixth).await, (6, 30, true));
        let minute = Some(Duration::from_secs(60));
        assert_eq!(tries(minute, none, |_| Some(lost())).await, (7, 60, false));
        // Each of these worked for a while.
        let long = Duration::from_secs(61);
        let ninth = |n| (n < 9).then(lost);
        assert_eq!(tries(minute, long, ninth).await, (9, 9 * 61 + 8, true));
    }
}
