//! One path's life: opened, validated, moved, stalled, revived, closed.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_control::TimerEvent;
use manyway_units::Time;
use manyway_wire::{AckFrame, PathId};

use crate::driver::Local;
use crate::event::PathDownReason;
use crate::stats::PathState;

use super::super::paths::{NewPath, Origin, PathTransport, Response};
use super::super::violation::Violation;
use super::Traffic;

/// A carrier is given up after this many timeouts without progress, even if there is no other path:
/// whoever dialled it may dial again.
const GIVE_UP_ALONE: u32 = 5;

/// A path on standby is stalled after this many timeouts: after the last packets before it, nothing
/// follows that could show the loss of one of them sooner.
const SILENT_ON_STANDBY: u32 = 3;

impl Traffic {
    /// Takes a path out for good, whether or not it leads through a relay; what was in flight on it
    /// is sent over the others.
    pub(crate) fn close_path(
        &mut self,
        now: Time,
        index: usize,
        reason: PathDownReason,
        tell: bool,
    ) {
        let path = &self.core.paths()[index];
        self.relayed.on_closing(now, path, reason);
        self.detours.on_closing(path);
        let (id, route) = self.core.close_path(now, index, reason, tell);
        self.consents.take_early_grant(id);
        if let Some(route) = route {
            self.relayed.on_closed(now, id, route);
        }
    }

    pub(crate) fn on_abandon(&mut self, now: Time, path: PathId) -> Result<(), Violation> {
        if !self.core.ids().was_issued(path) {
            let text = format!("PATH_ABANDON: path {} doesn't exist", path.0);
            return Err(Violation(text));
        }
        if let Some(index) = self.core.paths().index_of(path) {
            self.close_path(now, index, PathDownReason::Abandoned, false);
        } else {
            self.consents.take_early_grant(path);
        }
        self.core.on_abandoned(now, path);
        Ok(())
    }

    /// Opens paths on carriers and address pairs that have none (initiator only).
    pub(crate) fn open_paths(&mut self, now: Time) {
        self.open_carriers(now);
        self.core.open_pairs(now);
    }

    /// The first packet on a path id that we issued an id for: the initiator opened that path.
    pub(crate) fn accept_path(
        &mut self,
        now: Time,
        id: PathId,
        local: &Local,
        remote: SocketAddr,
        transport: PathTransport,
    ) -> Option<usize> {
        if !self.core.paths().admits() {
            return None;
        }
        let grant = self.consents.take_early_grant(id);
        // What runs on a carrier goes through no relay for datagrams.
        let relay = grant.filter(|_| transport == PathTransport::Coupled);
        let new = NewPath {
            id,
            local: local.clone(),
            remote,
            remote_cid: None,
            transport,
            relay,
            initial_rtt: None,
        };
        Some(self.core.accept_path(now, new))
    }

    /// An ACK, which came on the path at `on`.
    pub(crate) fn on_ack(
        &mut self,
        now: Time,
        on: usize,
        ack: &AckFrame<'_>,
    ) -> Result<(), Violation> {
        // An ACK for a path that is over by now is normal.
        let Some(index) = self.core.paths().index_of(ack.path()) else {
            return Ok(());
        };
        let before = self.relayed.window_before(index, self.core.paths());
        let acked = self.core.on_ack(now, index, (ack, on != index));
        let Some(acked) = acked.map_err(Violation)? else {
            return Ok(());
        };
        if acked.any {
            self.on_path_alive(now, index);
        }
        self.settle(now, index);
        if acked.resized {
            self.core.on_resized(index);
        }
        self.core.refresh(now, index);
        self.observe(now, index, (before, acked.lost));
        self.look_at_detours(now);
        Ok(())
    }

    /// Passes on what a path's sender said of its packets.
    fn settle(&mut self, now: Time, index: usize) {
        let transmitter = &mut self.transmitter;
        self.core
            .settle(now, index, |payload| transmitter.on_acked(payload));
    }

    pub(crate) fn on_response(&mut self, now: Time, index: usize, origin: Origin, data: [u8; 8]) {
        let answer = (origin, data);
        match self.core.on_response(now, index, answer, self.initiator) {
            Response::Validated(rtt) => self.validated(now, index, rtt),
            Response::Candidate => self.migrate(now, index),
            Response::Nothing => {}
        }
    }

    /// The address has answered: the path carries data from now on.
    pub(super) fn validated(&mut self, now: Time, index: usize, rtt: Option<Duration>) {
        let is_new = self.core.paths()[index].state() == PathState::Validating;
        let up = self.core.on_validated(now, index, rtt);
        let paths = self.core.paths();
        if is_new {
            self.relayed.on_answered(&paths[index]);
        }
        if up {
            self.relayed.on_working(&paths[index]);
            self.carriers.on_path_up(now, paths);
            self.detours.wake(now);
            self.look_at_detours(now);
        }
    }

    /// Moves the path if the peer's address has changed for good.
    fn migrate(&mut self, now: Time, index: usize) {
        let Some(rtt) = self.core.migrate(now, index) else {
            return;
        };
        if self.core.paths()[index].state() == PathState::Validating {
            self.validated(now, index, rtt);
        } else {
            self.on_path_alive(now, index);
        }
        self.core.refresh(now, index);
    }

    /// Something came back on a path: if it was stalled, it isn't any more, and paths that were
    /// used only for want of a better one are stalled instead.
    fn on_path_alive(&mut self, now: Time, index: usize) {
        if !self.core.revive(index) {
            return;
        }
        self.relayed.on_working(&self.core.paths()[index]);
        for other in self.core.paths().silent_beside(index) {
            self.stall(now, other);
            self.core.refresh(now, other);
        }
    }

    fn stall(&mut self, now: Time, index: usize) {
        self.core.stall(now, index);
        self.relayed.on_stalled(now, &self.core.paths()[index]);
        self.detours.wake(now);
        self.look_at_detours(now);
    }

    pub(super) fn on_path_timer(&mut self, now: Time, index: usize) {
        let before = self.relayed.window_before(index, self.core.paths());
        self.migrate(now, index);
        let id = self.core.paths()[index].id();
        if self.core.on_path_timer(now, index) {
            if self.core.paths().len() > 1 {
                let tell = self.core.paths()[index].state() == PathState::Validating;
                self.close_path(now, index, PathDownReason::TimedOut, tell);
                return;
            }
            // Without its only path a listener could never be reached again: only silence may end
            // that.
            self.core.challenge(now, index);
        }
        if let Some((event, lost)) = self.core.on_sender_timer(now, index) {
            self.settle(now, index);
            self.observe(now, index, (before, lost));
            if let TimerEvent::Probe { .. } = event
                && self.core.paths().index_of(id) == Some(index)
            {
                self.on_probe_timeout(now, index);
            }
        }
        if self.core.paths().is_lost(now, index) {
            self.close_path(now, index, PathDownReason::TimedOut, true);
        } else if self.core.paths().get(index).is_some() {
            self.core.refresh(now, index);
        }
    }

    /// Nothing came back for a probe timeout: probe, and don't let the data wait for the answer.
    fn on_probe_timeout(&mut self, now: Time, index: usize) {
        self.core.doubt_home(index);
        self.core.note_silence(index);
        if self.on_silence(now, index) {
            return;
        }
        let paths = self.core.paths();
        let path = &paths[index];
        let active = path.state() == PathState::Active;
        if path.facts().reliable {
            // Another packet on a stuck carrier would only wait behind the others.
            if active && paths.active_len() > 1 {
                self.stall(now, index);
            } else if self.initiator
                && paths.active_len() <= 1
                && path.sender().pto_count() >= GIVE_UP_ALONE
            {
                // TCP may take a quarter of an hour to notice; a new connection may get through at
                // once.
                self.close_path(now, index, PathDownReason::TimedOut, true);
            }
            return;
        }
        self.core.probe_silent(index);
        let path = &self.core.paths()[index];
        if path.is_on_standby() && path.sender().pto_count() < SILENT_ON_STANDBY {
            self.core.send_again(index, usize::MAX);
        } else if active && self.core.paths().has_other(index) {
            self.stall(now, index);
        } else {
            self.core.send_again(index, 2);
        }
        // The relay, or the listener's address there, may be another by now; asked again as rarely
        // as the path is probed.
        let path = &self.core.paths()[index];
        if path.sender().pto_count() >= 2 {
            self.relayed.suspect(now, path);
        }
    }
}
