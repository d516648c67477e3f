use manyway_control::TimerEvent;
use manyway_units::Time;
use rand::RngExt;

use crate::event::{CloseReason, PathDownReason};
use crate::stats::PathState;

use super::{Connection, Phase, requeue};

/// A path that answers nothing for this long is given up, if another one is alive.
const GIVE_UP: std::time::Duration = std::time::Duration::from_secs(30);
/// So many timeouts without progress, and a carrier is given up though there is no other path:
/// whoever dialled it may dial again.
const GIVE_UP_ALONE: u32 = 5;

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
                let relays = self.detours.as_ref().and_then(|d| d.timeout());
                let rates = self.carriers.overlay.timeout();
                let choice = self.selection_timeout().map(|at| at.max(now));
                let others = [self.limited_until, relays, rates, choice];
                [path, Some(idle), pairs]
                    .into_iter()
                    .chain(others)
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
        self.on_detour_timer(now);
        self.drive_selection(now);
        self.drive_overlay(now);
    }

    fn on_path_timer(&mut self, now: Time, index: usize) {
        let before = self.window_before(index);
        self.drive_moving(now, index);
        let path = &mut self.paths[index];
        let id = path.id;
        path.received.on_timer(now);
        path.mtu.on_timer(now);
        if path.validation.has_failed(now) {
            if self.by_id.len() > 1 {
                let tell = path.state == PathState::Validating;
                self.close_path(now, index, PathDownReason::TimedOut, tell);
                return;
            }
            // Without its only path a listener could never be reached again: only silence may end
            // that.
            path.validation.start(now, self.rng.random());
        }
        if path.last_sent + self.idle_timeout / 3 <= now {
            path.probes += 1;
            // Pushes the keep-alive on even if the probe can't leave.
            path.last_sent = now;
        }
        if path.sender.timeout().is_some_and(|at| at <= now) {
            let event =
                path.sender
                    .on_timeout(now, self.controllers.of_mut(path.under), &mut self.outcome);
            let lost = !self.outcome.lost.is_empty();
            self.take_outcome(now, index);
            self.observe(now, index, before, lost);
            if let TimerEvent::Probe { .. } = event
                && self.by_id.get(&id) == Some(&index)
            {
                self.on_probe_timeout(now, index);
            }
        }
        if let Some(path) = self.paths.get(index)
            && path.state == PathState::Stalled
            && path.stalled_since.max(path.heard) + GIVE_UP <= now
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
        self.paths[index].moving.on_probe_timeout();
        if self.on_silence(now, index) {
            return;
        }
        if self.paths[index].facts.reliable {
            // Another packet on a stuck carrier would only wait behind the others.
            if self.paths[index].state == PathState::Active && self.active.len() > 1 {
                self.stall(now, index);
            } else if self.initiator
                && self.active.len() <= 1
                && self.paths[index].sender.pto_count() >= GIVE_UP_ALONE
            {
                // TCP may take a quarter of an hour to notice; a new connection may get through at
                // once.
                self.close_path(now, index, PathDownReason::TimedOut, true);
            }
            return;
        }
        // A path that isn't validated is probed by its challenges alone.
        if self.paths[index].state != PathState::Validating {
            self.paths[index].probes = 1;
        }
        if self.paths[index].state == PathState::Active && self.has_other(index) {
            self.stall(now, index);
        } else {
            self.send_again(index, 2);
        }
        // The relay, or the listener's address there, may be another by now; asked again as rarely
        // as the path is probed.
        if self.paths[index].sender.pto_count() >= 2 {
            self.suspect_relay(now, index);
        }
    }

    /// Takes a path out of use until something comes back on it: the others carry what is in flight
    /// on it.
    pub(super) fn stall(&mut self, now: Time, index: usize) {
        self.paths[index].state = PathState::Stalled;
        self.paths[index].stalled_since = now;
        self.path_down(index, PathDownReason::Stalled);
        self.send_again(index, usize::MAX);
        self.suspect_relay(now, index);
        self.wake_selection();
    }

    /// Queues what the oldest `max` packets in flight on a path carry once more.
    fn send_again(&mut self, index: usize, max: usize) {
        for payload in self.outstanding(index, max) {
            self.resent += payload.ranges().map(|r| u64::from(r.len)).sum::<u64>();
            requeue(&mut self.streams, &mut self.control, payload);
        }
    }
}
