use manyway_control::TimerEvent;
use manyway_units::Time;

use crate::event::{CloseReason, PathDownReason};
use crate::stats::PathState;

use super::{Connection, Phase, requeue};

/// A path that answers nothing for this long is given up, if another one is alive.
const GIVE_UP: std::time::Duration = std::time::Duration::from_secs(30);

impl Connection {
    /// When [`Connection::handle_timeout`] has to be called next.
    pub(crate) fn timeout(&self, now: Time) -> Option<Time> {
        match &self.phase {
            Phase::Closed => None,
            Phase::Closing { until, .. } => Some(*until),
            Phase::Open => {
                let path = self.timers.first().map(|&(at, _)| at);
                let idle = self.last_heard + self.idle_timeout;
                let pairs = self.pairs.as_ref().and_then(|p| p.timer(now));
                [path, Some(idle), pairs, self.limited_until]
                    .into_iter()
                    .flatten()
                    .min()
            }
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        match &self.phase {
            Phase::Closed => return,
            Phase::Closing { until, .. } => {
                if *until <= now {
                    self.phase = Phase::Closed;
                }
                return;
            }
            Phase::Open => {}
        }
        if self.last_heard + self.idle_timeout <= now {
            let (seconds, paths) = (self.idle_timeout.as_secs(), self.paths.len());
            self.end(CloseReason::TimedOut { seconds, paths });
            return;
        }
        if self.limited_until.is_some_and(|at| at <= now) {
            self.limited_until = None;
        }
        // Taken once: a timer that waits for a datagram to leave may still be due afterwards.
        let due: Vec<usize> = self
            .timers
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|&(_, index)| index)
            .collect();
        for index in due {
            if self.paths.contains(index) {
                self.on_path_timer(now, index);
            }
        }
        self.open_paths(now);
    }

    fn on_path_timer(&mut self, now: Time, index: usize) {
        let path = &mut self.paths[index];
        path.received.on_timer(now);
        if path.validation.has_failed(now) {
            let tell = path.state == PathState::Validating;
            self.close_path(now, index, PathDownReason::TimedOut, tell);
            return;
        }
        if path.last_sent + self.idle_timeout / 3 <= now {
            path.probes += 1;
            // Pushes the keep-alive on even if the probe can't leave.
            path.last_sent = now;
        }
        if path.sender.timeout().is_some_and(|at| at <= now) {
            let event = path
                .sender
                .on_timeout(now, &mut *self.controller, &mut self.outcome);
            self.take_outcome(None);
            if let TimerEvent::Probe { .. } = event {
                self.on_probe_timeout(now, index);
            }
        }
        if let Some(path) = self.paths.get(index)
            && path.state == PathState::Stalled
            && path.stalled_since + GIVE_UP <= now
            && !self.active.is_empty()
        {
            self.close_path(now, index, PathDownReason::TimedOut, true);
            return;
        }
        if self.paths.contains(index) {
            self.refresh(now, index);
        }
    }

    /// Nothing came back for a probe timeout: probe, and don't let the data wait for the answer.
    fn on_probe_timeout(&mut self, now: Time, index: usize) {
        // A path that isn't validated is probed by its challenges alone.
        if self.paths[index].state != PathState::Validating {
            self.paths[index].probes = 1;
        }
        if self.paths[index].state == PathState::Active && self.active.len() > 1 {
            self.paths[index].state = PathState::Stalled;
            self.paths[index].stalled_since = now;
            self.path_down(index, PathDownReason::Stalled);
        }
        let again = self.outstanding(index, if self.active.len() > 1 { usize::MAX } else { 2 });
        for payload in again {
            self.resent += payload.ranges().map(|r| u64::from(r.len)).sum::<u64>();
            requeue(&mut self.streams, &mut self.control, payload);
        }
    }
}
