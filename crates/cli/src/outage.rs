//! Notices that nothing comes back any more, over any path.
//!
//! The session never gives its last path up before the idle timeout, so the paths' states don't
//! tell.

use std::time::Duration;

use manyway::{ConnectionStats, PathState};

/// What was sent is answered within this time, or within some round trips.
const PATIENCE: Duration = Duration::from_secs(2);
const ROUND_TRIPS: u32 = 4;

/// What has come and gone over all paths at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    at: Duration,
    sent: u64,
    received: u64,
    /// Whether a path is in use, as far as the session knows.
    open: bool,
    rtt: Duration,
}

impl Sample {
    fn of(at: Duration, stats: &ConnectionStats) -> Self {
        let paths = || stats.paths.iter();
        let active = || paths().filter(|path| path.state == PathState::Active);
        Self {
            at,
            sent: paths().map(|path| path.bytes_sent).sum(),
            received: paths().map(|path| path.bytes_received).sum(),
            open: active().next().is_some(),
            rtt: active().map(|path| path.rtt).max().unwrap_or_default(),
        }
    }
}

/// Watches a connection's counters.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    /// The counters when something came the last time.
    heard: Option<Sample>,
    /// Since when something waits for an answer.
    waits: Option<Duration>,
    /// When the outage under way began.
    since: Option<Duration>,
}

/// What is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    Began,
    /// With how long it lasted.
    Ended(Duration),
}

impl Outages {
    /// Takes the counters `at` this time since the start.
    pub(crate) fn look(&mut self, at: Duration, stats: &ConnectionStats) -> Option<News> {
        self.take(Sample::of(at, stats))
    }

    /// For how long the outage under way has lasted.
    pub(crate) fn lasts(&self, at: Duration) -> Option<Duration> {
        Some(at.saturating_sub(self.since?))
    }

    fn take(&mut self, now: Sample) -> Option<News> {
        let heard = match &mut self.heard {
            Some(heard) if now.received <= heard.received => heard,
            _ => {
                self.heard = Some(now);
                self.waits = None;
                let began = self.since.take()?;
                return Some(News::Ended(now.at.saturating_sub(began)));
            }
        };
        // A path that is closed takes its counters along.
        heard.received = now.received;
        heard.sent = heard.sent.min(now.sent);
        if now.sent > heard.sent {
            self.waits.get_or_insert(now.at);
        }
        let patience = PATIENCE.max(now.rtt * ROUND_TRIPS);
        let late = |since| now.at.saturating_sub(since) >= patience;
        let out = !now.open || self.waits.is_some_and(late);
        if !out || self.since.is_some() {
            return None;
        }
        self.since = self.waits.or(Some(now.at));
        Some(News::Began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64, sent: u64, received: u64) -> Sample {
        Sample {
            at: Duration::from_secs(seconds),
            sent,
            received,
            open: true,
            rtt: Duration::from_millis(20),
        }
    }

    #[test]
    fn an_outage_is_an_answer_that_stays_away() {
        let mut outages = Outages::default();
        // Nothing is sent, so nothing has to come.
        for seconds in 0..60 {
            assert_eq!(outages.take(sample(seconds, 10, 5)), None);
        }
        assert_eq!(outages.take(sample(60, 20, 5)), None);
        assert_eq!(outages.take(sample(61, 20, 5)), None);
        assert_eq!(outages.take(sample(62, 30, 5)), Some(News::Began));
        assert_eq!(outages.take(sample(70, 40, 5)), None);
        assert!(outages.lasts(Duration::from_secs(70)).is_some());
        let ended = outages.take(sample(75, 50, 6));
        assert!(matches!(ended, Some(News::Ended(_))), "{ended:?}");
        assert_eq!(outages.lasts(Duration::from_secs(75)), None);
        // A long way isn't an outage.
        let far = |seconds| Sample {
            rtt: Duration::from_secs(3),
            ..sample(seconds, 60, 6)
        };
        assert_eq!(outages.take(far(76)), None);
        assert_eq!(outages.take(far(80)), None);
        assert_eq!(outages.take(far(88)), Some(News::Began));
    }

    #[test]
    fn without_a_path_there_is_no_need_to_wait() {
        let mut outages = Outages::default();
        assert_eq!(outages.take(sample(1, 10, 5)), None);
        let closed = Sample {
            open: false,
            ..sample(2, 10, 5)
        };
        assert_eq!(outages.take(closed), Some(News::Began));
    }
}
