//! How fast a transfer moves, and since when it doesn't.

use std::time::Duration;

use manyway_units::Rate;

use crate::completion::{Completion, Moved};
use crate::meter::{Condition, Row};

/// The rate is a mean over about this time.
const SMOOTH: f64 = 10.0;
/// A rate from a shorter time says little about the rest.
const FIRST: Duration = Duration::from_secs(2);
/// Nothing moves for this long: the transfer is stalled.
const STALL: Duration = Duration::from_secs(5);

/// Why nothing moves, and since when, counted from the transfer's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Still {
    /// No path answers.
    Outage(Duration),
    /// Paths work, but nothing moves: a disk, a user, or the other side's network.
    Stall(Duration),
}

impl Still {
    pub(super) fn since(self) -> Duration {
        match self {
            Self::Outage(since) | Self::Stall(since) => since,
        }
    }
}

/// The pace at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Now {
    pub(super) rate: Rate,
    pub(super) still: Option<Still>,
    /// Until the end; `None` where nobody knows.
    pub(super) left: Option<Duration>,
}

/// Turns successive moments into a pace.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Option<(Duration, u64)>,
    smoothed: f64,
    /// When bytes began to move, or began again.
    begun: Option<Duration>,
    moved: Option<(Duration, Moved)>,
    /// Whether a path has worked, and since when none does.
    worked: bool,
    out: Option<Duration>,
}

impl Pace {
    pub(super) fn sample(
        &mut self,
        at: Duration,
        completion: &Completion,
        moved: Moved,
        rows: &[Row],
    ) -> Now {
        let still = self.still(at, moved, rows);
        let done = completion.done;
        let (since, before) = self.last.replace((at, done)).unwrap_or_default();
        match (still, self.begun) {
            // What comes after an outage has a rate of its own.
            (Some(_), _) => (self.begun, self.smoothed) = (None, 0.0),
            (None, None) if done > before => self.begun = Some(since),
            _ => {}
        }
        if let Some(begun) = self.begun {
            let span = at.saturating_sub(since);
            let now = Rate::of(done.saturating_sub(before), span).bits_per_sec();
            // At first it is the mean since the beginning.
            let lasted = at.saturating_sub(begun).as_secs_f64();
            let weight = (span.as_secs_f64() / lasted.clamp(0.1, SMOOTH)).min(1.0);
            self.smoothed += weight * (now - self.smoothed);
        }
        let rate = Rate::from_bits_per_sec(self.smoothed);
        Now {
            rate,
            still,
            left: self.left(at, completion, rate),
        }
    }

    fn still(&mut self, at: Duration, moved: Moved, rows: &[Row]) -> Option<Still> {
        let works = rows.iter().any(|row| {
            let condition = row.condition;
            condition == Condition::Up || condition == Condition::UpAgain
        });
        self.worked |= works;
        if works {
            self.out = None;
        } else if self.worked {
            // Since something came last, on any path.
            let down = rows.iter().filter(|row| row.condition == Condition::Down);
            let silent = down.map(|row| row.silent).min().unwrap_or_default();
            self.out.get_or_insert(at.saturating_sub(silent));
        }
        let since = match self.moved {
            Some((since, last)) if last == moved => since,
            _ => {
                self.moved = Some((at, moved));
                at
            }
        };
        match self.out {
            Some(out) => Some(Still::Outage(out)),
            None => (at.saturating_sub(since) >= STALL).then_some(Still::Stall(since)),
        }
    }

    fn left(&self, at: Duration, completion: &Completion, rate: Rate) -> Option<Duration> {
        let lasted = at.saturating_sub(self.begun?);
        let left = completion.total.saturating_sub(completion.done);
        let seconds = (left as f64 / rate.bytes_per_sec()).ceil();
        (lasted >= FIRST && seconds < 1e7).then(|| Duration::from_secs_f64(seconds))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use manyway::files::{Phase, Progress};
    use manyway::{CarrierKind, ConnectionStats, PathId, PathState};

    use super::*;

    const STEP: Duration = Duration::from_millis(250);

    fn row(condition: Condition) -> Row {
        Row {
            id: PathId(0),
            name: "eth0".to_owned(),
            remote: SocketAddr::from(([203, 0, 113, 5], 1)),
            carrier: CarrierKind::Udp,
            label: "eth0".to_owned(),
            relay: false,
            state: PathState::Active,
            condition,
            silent: 12 * STEP,
            rate: Rate::ZERO,
            rtt: STEP,
            window: None,
            packet: 1472,
            loss: None,
        }
    }

    /// A transfer of which 1 MB moves in each step in which it moves.
    #[derive(Default)]
    struct Transfer {
        pace: Pace,
        at: Duration,
        done: u64,
    }

    impl Transfer {
        fn steps(&mut self, steps: u32, moves: bool, condition: Condition) -> Now {
            let mut now = None;
            for _ in 0..steps {
                self.at += STEP;
                self.done += u64::from(moves) * 1_000_000;
                let stats = ConnectionStats {
                    bytes_acked: self.done,
                    ..ConnectionStats::default()
                };
                let moved = Moved::of(&Progress::new(), &stats);
                let completion = Completion {
                    phase: Phase::Transferring,
                    done: self.done,
                    total: 1_000_000_000,
                    files: 1,
                    files_done: 0,
                };
                let rows = [row(condition)];
                now = Some(self.pace.sample(self.at, &completion, moved, &rows));
            }
            now.unwrap()
        }
    }

    #[test]
    fn an_eta_is_told_once_the_rate_says_something() {
        let mut transfer = Transfer::default();
        let trying = transfer.steps(40, false, Condition::Trying);
        assert_eq!((trying.rate, trying.left), (Rate::ZERO, None));
        let first = transfer.steps(7, true, Condition::Up);
        assert_eq!((first.left, first.still), (None, None));
        // 32 Mbps from the first bytes on, not from the start.
        assert!((first.rate.mbps() - 32.0).abs() < 0.1, "{first:?}");
        let later = transfer.steps(1, true, Condition::Up);
        assert_eq!(later.left, Some(Duration::from_secs(248)));
    }

    #[test]
    fn the_rate_forgets() {
        let mut transfer = Transfer::default();
        transfer.steps(100, true, Condition::Up);
        for _ in 0..100 {
            // A quarter as fast.
            transfer.steps(3, false, Condition::Up);
            transfer.steps(1, true, Condition::Up);
        }
        let now = transfer.steps(1, false, Condition::Up);
        assert!((now.rate.mbps() - 8.0).abs() < 0.5, "{now:?}");
    }

    #[test]
    fn an_outage_begins_and_ends() {
        let mut transfer = Transfer::default();
        transfer.steps(40, true, Condition::Up);
        // When something came last: the meter noticed the silence later.
        let began = transfer.at + STEP - 12 * STEP;
        let out = transfer.steps(20, false, Condition::Down);
        assert_eq!(out.still, Some(Still::Outage(began)));
        assert_eq!((out.rate, out.left), (Rate::ZERO, None));
        // A path answers again: what there was before says nothing of it.
        let again = transfer.steps(1, true, Condition::Up);
        assert_eq!((again.still, again.left), (None, None));
        let later = transfer.steps(8, true, Condition::Up);
        assert!(
            later.left.is_some() && (later.rate.mbps() - 32.0).abs() < 0.1,
            "{later:?}"
        );
    }

    #[test]
    fn paths_that_work_and_carry_nothing_are_a_stall() {
        let mut transfer = Transfer::default();
        transfer.steps(40, true, Condition::Up);
        let last = transfer.at;
        assert_eq!(transfer.steps(19, false, Condition::Up).still, None);
        let now = transfer.steps(1, false, Condition::Up);
        assert_eq!((now.still, now.left), (Some(Still::Stall(last)), None));
    }
}
