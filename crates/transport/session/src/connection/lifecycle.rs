//! A connection's end: by CLOSE, by silence, or at once.
//!
//! It owns the state, the idle timeout and who is still to be sent CLOSE. It never looks at a path
//! and never writes the frame: it says whom it goes to.

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_units::Time;
use manyway_wire::PathId;

/// Where in its life a connection is.
#[derive(Debug)]
pub(super) struct Lifecycle {
    state: State,
    idle_timeout: Duration,
    last_heard: Time,
}

#[derive(Debug)]
enum State {
    Open,
    /// CLOSE was sent and is repeated when the peer goes on talking.
    Closing {
        until: Time,
        code: u64,
        reason: String,
        owed: Vec<PathId>,
        /// Datagrams that came since, by path: forged ones on one leave others their answers.
        late: BTreeMap<PathId, u64>,
    },
    Closed,
}

/// What a timeout has brought.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// The connection goes on.
    No,
    /// Nothing was heard for the idle timeout: it has ended by this.
    TimedOut,
    /// It had ended before.
    Over,
}

impl Lifecycle {
    pub(super) fn new(now: Time, idle_timeout: Duration) -> Self {
        Self {
            state: State::Open,
            idle_timeout,
            last_heard: now,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    pub(super) fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }

    /// A packet has opened.
    pub(super) fn on_heard(&mut self, now: Time) {
        self.last_heard = now;
    }

    /// When the connection ends if nothing is heard, or is over if it is closing.
    pub(super) fn timeout(&self) -> Option<Time> {
        match &self.state {
            State::Open => Some(self.last_heard + self.idle_timeout),
            State::Closing { until, .. } => Some(*until),
            State::Closed => None,
        }
    }

    pub(super) fn on_timeout(&mut self, now: Time) -> Idle {
        let due = self.timeout().is_some_and(|at| at <= now);
        let open = self.is_open();
        if due {
            self.state = State::Closed;
        }
        match (open, due) {
            (false, _) => Idle::Over,
            (true, true) => Idle::TimedOut,
            (true, false) => Idle::No,
        }
    }

    /// Says CLOSE on these paths, and again until `until` as the peer goes on talking. Whether the
    /// connection was open.
    pub(super) fn close(
        &mut self,
        until: Time,
        code: u64,
        reason: &str,
        owed: impl Iterator<Item = PathId>,
    ) -> bool {
        let open = self.is_open();
        if open {
            self.state = State::Closing {
                until,
                code,
                reason: truncated(reason),
                owed: owed.collect(),
                late: BTreeMap::new(),
            };
        }
        open
    }

    /// Ends at once, without telling the peer: it knows, or it can't be reached. Whether the
    /// connection was open.
    pub(super) fn end(&mut self) -> bool {
        let open = self.is_open();
        self.state = State::Closed;
        open
    }

    /// A datagram came on a path: perhaps the peer hasn't heard. Since anybody may have sent it,
    /// CLOSE answers the path's first, second, fourth, eighth … only (RFC 9000 §10.2.1).
    pub(super) fn repeat(&mut self, path: PathId) {
        if let State::Closing { owed, late, .. } = &mut self.state {
            let late = late.entry(path).or_default();
            *late += 1;
            if late.is_power_of_two() && !owed.contains(&path) {
                owed.push(path);
            }
        }
    }

    /// The next path that CLOSE goes out on, with its code and reason.
    pub(super) fn next_close(&mut self) -> Option<(PathId, u64, String)> {
        let State::Closing {
            code, reason, owed, ..
        } = &mut self.state
        else {
            return None;
        };
        let path = owed.pop()?;
        Some((path, *code, reason.clone()))
    }
}

/// At most what a CLOSE frame takes, cut at a character.
fn truncated(reason: &str) -> String {
    let mut end = reason.len().min(manyway_wire::MAX_REASON_LEN);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(30);

    fn s(s: u64) -> Time {
        Time::from_millis(1000 * s)
    }

    fn open() -> Lifecycle {
        Lifecycle::new(s(0), IDLE)
    }

    fn closing(owed: &[u32]) -> Lifecycle {
        let mut lifecycle = open();
        assert!(lifecycle.close(s(3), 7, "why", owed.iter().map(|&id| PathId(id))));
        lifecycle
    }

    #[test]
    fn silence_ends_it_and_packets_put_that_off() {
        let mut lifecycle = open();
        lifecycle.on_heard(s(10));
        assert_eq!(lifecycle.on_timeout(s(30)), Idle::No);
        assert_eq!(lifecycle.timeout(), Some(s(40)));
        assert_eq!(lifecycle.on_timeout(s(40)), Idle::TimedOut);
        assert_eq!(lifecycle.on_timeout(s(41)), Idle::Over);
        assert_eq!(lifecycle.timeout(), None);
    }

    #[test]
    fn close_goes_out_once_per_path_and_again_when_the_peer_talks() {
        let mut lifecycle = closing(&[0, 1]);
        let why = |path| Some((PathId(path), 7, "why".to_owned()));
        assert_eq!(lifecycle.next_close(), why(1));
        lifecycle.repeat(PathId(0));
        assert_eq!(lifecycle.next_close(), why(0));
        assert_eq!(lifecycle.next_close(), None);
        lifecycle.repeat(PathId(1));
        assert_eq!(lifecycle.next_close(), why(1));
        let mut answers = 0;
        for _ in 1..1000 {
            lifecycle.repeat(PathId(1));
            answers += u32::from(lifecycle.next_close().is_some());
        }
        assert_eq!(answers, 9, "the 2nd, 4th … 512th");
        lifecycle.repeat(PathId(0));
        assert_eq!(lifecycle.next_close(), why(0), "the 2nd there");
    }

    #[test]
    fn closing_ends_in_time_and_says_nothing_more() {
        let mut lifecycle = closing(&[0]);
        assert!(!lifecycle.is_open() && lifecycle.timeout().is_some());
        lifecycle.on_heard(s(2));
        assert_eq!(lifecycle.on_timeout(s(2)), Idle::Over);
        assert_eq!(lifecycle.timeout(), Some(s(3)), "talk doesn't put it off");
        lifecycle.on_timeout(s(3));
        assert!(lifecycle.timeout().is_none() && lifecycle.next_close().is_none());
        lifecycle.repeat(PathId(0));
        assert_eq!(lifecycle.next_close(), None);
    }

    #[test]
    fn it_ends_once() {
        let mut lifecycle = closing(&[0]);
        assert!(!lifecycle.close(s(9), 8, "again", std::iter::empty()));
        assert_eq!(lifecycle.timeout(), Some(s(3)));
        assert!(!lifecycle.end() && lifecycle.timeout().is_none());
        assert!(open().end());
    }

    #[test]
    fn reasons_are_cut_at_a_character() {
        let most = manyway_wire::MAX_REASON_LEN;
        let long = "x".repeat(most - 1) + "é";
        assert_eq!(truncated(&long), "x".repeat(most - 1));
        assert_eq!(truncated("short"), "short");
    }
}
