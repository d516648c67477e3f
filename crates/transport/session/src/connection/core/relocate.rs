//! Paths that lead elsewhere: the pairs and the application hear of it, and what was in flight goes
//! out again.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::Time;

use crate::driver::Local;
use crate::event::{PathDownReason, PathEvent};
use crate::stats::PathState;

use super::super::packet::Payload;
use super::Core;

impl Core {
    /// The path's socket is gone, and no other path is left to tell the peer where we are now.
    pub(crate) fn unbind(&mut self, now: Time, index: usize) {
        if self.paths.unbind(now, index) {
            let event = self.paths[index].down_event(PathDownReason::LocalGone);
            self.outbox.tell(event);
        }
        self.paths.refresh(now, index);
    }

    /// Gives paths that have lost their socket this one.
    pub(crate) fn rebind(&mut self, now: Time, local: &Local) {
        for index in self.paths.unbound(local) {
            self.go_on_from(now, index, local, self.paths[index].remote());
            let path = &self.paths[index];
            if let Some(pairs) = &mut self.pairs {
                pairs.on_opened(local.id, path.remote(), path.id());
            }
        }
    }

    /// A relay forwards to the socket from which it was asked last, and its grants back are for
    /// that one: a listener's path goes on from where its newest packet came. That may be another
    /// of the relay's addresses, of the other family, where a relay `answers`.
    pub(crate) fn follow_relay(
        &mut self,
        now: Time,
        index: usize,
        (local, remote): (&Local, SocketAddr),
        number: u64,
        answers: impl FnOnce(SocketAddr) -> bool,
    ) {
        if self.paths[index].is_led_to(local.id, remote, number, answers) {
            self.go_on_from(now, index, local, remote);
        }
    }

    fn go_on_from(&mut self, now: Time, index: usize, local: &Local, remote: SocketAddr) {
        let in_flight = self.paths.rebind(now, index, local, remote);
        self.send_all_again(in_flight);
        self.paths.refresh(now, index);
    }

    /// Moves a path if the peer's address has changed for good; the round-trip time to the new one,
    /// if it can be told.
    pub(crate) fn migrate(&mut self, now: Time, index: usize) -> Option<Option<Duration>> {
        let moved = self.paths.migrate(now, index)?;
        self.send_all_again(moved.in_flight);
        let path = &self.paths[index];
        if let Some(pairs) = &mut self.pairs {
            let (local, to) = (path.local().id, path.remote());
            pairs.on_moved(now, local, moved.previous, to, path.id());
        }
        if path.state() != PathState::Validating {
            self.outbox.tell(PathEvent::Moved {
                path: path.id(),
                name: path.local().name.clone(),
                remote: path.remote(),
                previous: moved.previous,
            });
        }
        Some(moved.rtt)
    }

    fn send_all_again(&mut self, in_flight: Vec<(u64, Payload)>) {
        for (_, payload) in in_flight {
            for frame in self.data.send_again(payload) {
                self.outbox.say_again(frame, &self.ids);
            }
        }
    }
}
