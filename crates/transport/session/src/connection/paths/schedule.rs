//! Which paths carry data now, and which one is next: the part of the path set that keeps the
//! ordered sets up to date and asks them.

use std::time::Duration;

use manyway_control::Permit;
use manyway_control::scheduler::{Backlog, Pipe};
use manyway_units::Time;

use crate::driver::LocalId;
use crate::stats::PathState;

use super::super::copies::Cursor;
use super::super::packet::Payload;
use super::PathSet;
use super::order::Place;

impl PathSet {
    /// Brings a path's place in the ordered sets up to date, and those of backups, which depend on
    /// it.
    pub(crate) fn refresh(&mut self, now: Time, index: usize) {
        self.count(index);
        self.place(now, index);
        self.refresh_backups(now);
    }

    /// Something has arrived on a path: its place is brought up to date before anything leaves,
    /// once for all that arrives together.
    pub(crate) fn refresh_later(&mut self, index: usize) {
        if !std::mem::replace(&mut self.slab[index].stale, true) {
            self.stale.push(index);
        }
    }

    /// Brings the places of paths on which something has arrived up to date.
    pub(crate) fn refresh_stale(&mut self, now: Time) {
        if self.stale.is_empty() {
            return;
        }
        for n in 0..self.stale.len() {
            let index = self.stale[n];
            if let Some(path) = self.slab.get_mut(index)
                && std::mem::take(&mut path.stale)
            {
                self.place(now, index);
            }
        }
        self.stale.clear();
        self.refresh_backups(now);
    }

    /// Brings the number of packets and control frames that paths remember up to date.
    fn count(&mut self, index: usize) {
        let path = &mut self.slab[index];
        let unsettled = path.unsettled();
        let last = std::mem::replace(&mut path.counted, unsettled);
        self.unsettled = self.unsettled - last + path.counted;
    }

    /// Paths on standby, and those that are to be left, have their place among the active ones only
    /// while there is no other.
    pub(super) fn refresh_backups(&mut self, now: Time) {
        for n in 0..self.standbys.len() {
            self.place(now, self.standbys[n]);
        }
        for n in 0..self.backups.len() {
            self.place(now, self.backups[n]);
        }
    }

    fn place(&mut self, now: Time, index: usize) {
        let spared = self.is_spared(index);
        let duplicates = self.waiting.scheduler().duplicates();
        let path = &self.slab[index];
        let active = path.state == PathState::Active && !spared;
        let permit = path.permit(now, self.controllers.of(path.transport()));
        let paced = match permit {
            Permit::Paced(at) if active => Some(at),
            _ => None,
        };
        let place = Place {
            active: active.then(|| path.delivery_key()),
            ready: active && matches!(permit, Permit::Now { .. }),
            roomy: path.is_roomy(),
            carried: duplicates.then(|| path.copied.number()),
            timer: path.timer(now, paced, self.keep_alive),
            owes: path.owes(now, self.initiator),
        };
        self.order.update(index, place);
    }

    /// Whether a path carries data only for want of a better one.
    pub(crate) fn set_backup(&mut self, now: Time, index: usize, backup: bool) {
        self.backups.retain(|&other| other != index);
        if backup {
            self.backups.push(index);
        }
        self.refresh(now, index);
    }

    /// Paths that carry data only for want of a better one.
    pub(crate) fn backups(&self) -> &[usize] {
        &self.backups
    }

    /// A path carries data only while none but backups is active, or not only then any more.
    pub(crate) fn set_standby(&mut self, now: Time, index: usize, standby: bool) {
        self.slab[index].standby = standby;
        self.standbys.retain(|&other| other != index);
        if standby {
            self.standbys.push(index);
        }
        self.refresh(now, index);
    }

    fn is_spared(&self, index: usize) -> bool {
        let last = |other: usize| self.backups.contains(&other);
        let spare = |other: usize| last(other) || self.slab[other].standby;
        match (last(index), self.slab[index].standby) {
            (true, _) => self.order.active().any(|other| !last(other)),
            (_, true) => self.order.active().any(|other| !spare(other)),
            _ => false,
        }
    }

    /// Whether another path than this one could carry what it carries.
    pub(crate) fn has_other(&self, index: usize) -> bool {
        let works = |&i: &usize| i != index && self.slab[i].state == PathState::Active;
        let mut spare = self.backups.iter().chain(&self.standbys);
        self.order.active().any(|other| other != index) || spare.any(works)
    }

    /// How many paths carry data.
    pub(crate) fn active_len(&self) -> usize {
        self.order.active_len()
    }

    /// Whether no active path is expected to deliver sooner than this one.
    pub(crate) fn is_soonest(&self, index: usize) -> bool {
        let best = self.order.active().next();
        best.is_none_or(|best| self.slab[index].delivery_key() <= self.slab[best].delivery_key())
    }

    /// Another active path than this one, the soonest to deliver.
    pub(crate) fn another_active(&self, index: usize) -> Option<usize> {
        self.order.active().find(|&other| other != index)
    }

    /// The smoothed round-trip time of the path that delivers soonest.
    pub(crate) fn best_rtt(&self) -> Option<Duration> {
        let best = self.order.active().next()?;
        Some(self.slab[best].sender.rtt().smoothed())
    }

    /// How many paths owe something.
    pub(crate) fn owing(&self) -> usize {
        self.order.owing()
    }

    /// The next path that owes something, which is taken out of the queue.
    pub(crate) fn next_owing(&mut self) -> Option<usize> {
        self.order.next_attention()
    }

    /// The path sends something as if it owed it, if it is in use.
    pub(crate) fn attend(&mut self, index: usize) {
        if self.slab[index].state == PathState::Active {
            self.order.attend(index);
        }
    }

    // Choosing.

    /// The path for the next packet of stream data, if one may send and should. `backlog` says what
    /// there is to send.
    pub(crate) fn choose(&mut self, now: Time, backlog: impl FnOnce() -> Backlog) -> Option<usize> {
        let (ready, fastest) = self.order.choose()?;
        let Some(fastest) = fastest else {
            return Some(ready);
        };
        let (slow, fast) = (self.pipe(ready), self.pipe(fastest));
        let waits = self.waiting.better_to_wait(now, &slow, &fast, backlog());
        (!waits).then_some(ready)
    }

    /// The path for the next datagram of the application, if one may send and holds the largest.
    /// It never waits for a faster one: what waits is little, as the application holds back the
    /// rest, so the end of the data would always seem near.
    pub(crate) fn choose_for_datagrams(&self) -> Option<usize> {
        self.order.choose_roomy()
    }

    /// Whether a path may send a datagram of the application now, and holds the largest.
    pub(crate) fn takes_datagrams(&self, index: usize) -> bool {
        self.order.is_roomy(index)
    }

    fn pipe(&self, index: usize) -> Pipe {
        let path = &self.slab[index];
        path.pipe(self.controllers.of(path.transport()))
    }

    /// There is data to send, and the peer's window lets none leave.
    pub(crate) fn on_blocked(&mut self) {
        self.waiting.on_blocked();
    }

    /// The path that may send now and has carried the least of all data, and how much; where every
    /// path carries all of it.
    pub(crate) fn furthest_behind(&self) -> Option<(usize, Cursor)> {
        let (_, index) = self.order.furthest_behind()?;
        Some((index, self.slab[index].copied))
    }

    /// How much of the data a path has carried, where every path carries all of it.
    pub(crate) fn set_copied(&mut self, now: Time, index: usize, copied: Cursor) {
        self.slab[index].copied = copied;
        self.place(now, index);
    }

    /// The next path in turn that may send, whichever delivers soonest.
    pub(crate) fn choose_in_turn(&mut self) -> Option<usize> {
        self.order.choose_in_turn()
    }

    /// What a packet in flight on another path carries, if the one that is ready now would deliver
    /// it sooner. Each packet comes up once.
    pub(crate) fn take_overtaken(&mut self, now: Time) -> Option<Payload> {
        if !self.waiting.scheduler().overtakes() {
            return None;
        }
        let (fast, slower) = self.order.others()?;
        let delivery = Duration::from_nanos(self.slab[fast].delivery_key());
        for slow in slower {
            let payload = self.slab[slow].take_overtaken(now, delivery);
            if payload.is_some() {
                return payload;
            }
        }
        None
    }

    /// The path for frames that belong to none: not a carrier on which others wait.
    pub(crate) fn choose_for_control(&self) -> Option<usize> {
        let index = self.order.soonest()?;
        match self.slab[index].facts().own_control {
            true => self.least_queued(),
            false => Some(index),
        }
    }

    /// Whether a path may carry frames that belong to none. Not one that others have taken over
    /// from: a window update on a probe that nobody hears would be repeated on the next such probe,
    /// seconds later, and so on.
    pub(crate) fn may_carry_control(&self, index: usize) -> bool {
        self.slab[index].is_validated() && self.is_relied_on(index)
    }

    /// Whether no other path has taken over from this one.
    pub(crate) fn is_relied_on(&self, index: usize) -> bool {
        self.slab[index].state == PathState::Active || self.order.active_len() == 0
    }

    /// Packets that may leave on a path now.
    pub(crate) fn permit(&self, now: Time, index: usize) -> Permit {
        let path = &self.slab[index];
        path.permit(now, self.controllers.of(path.transport()))
    }

    // Carriers.

    /// Paths on carriers, oldest first.
    pub(crate) fn on_carriers(&self) -> &[usize] {
        &self.on_carriers
    }

    /// The path on a carrier.
    pub(crate) fn on_carrier(&self, id: LocalId) -> Option<usize> {
        let mut paths = self.on_carriers.iter().copied();
        paths.find(|&i| self.slab[i].local.id == id)
    }

    /// The driver wrote `bytes` more bytes of packets to a carrier.
    pub(crate) fn on_written(&mut self, now: Time, index: usize, bytes: u64) {
        if let Some(sender) = self.slab[index].sender.carried_mut() {
            sender.on_written(bytes);
        }
        self.refresh(now, index);
    }

    /// Holds a path on a carrier to a rate, or leaves it to the carrier.
    pub(crate) fn set_rate(&mut self, now: Time, index: usize, rate: Option<f64>) {
        if let Some(sender) = self.slab[index].sender.carried_mut() {
            sender.set_rate(now, rate);
        }
        self.refresh(now, index);
    }

    /// The carrier in use on which the least waits to be written.
    pub(crate) fn least_queued(&self) -> Option<usize> {
        let queued = |&index: &usize| {
            let path = &self.slab[index];
            let sender = path.sender.carried()?;
            let usable = path.state == PathState::Active && sender.takes_small();
            usable.then(|| (sender.unwritten(), sender.delivery(), index))
        };
        let least = self.on_carriers.iter().filter_map(queued).min();
        least.map(|(_, _, index)| index)
    }

    /// Whether a path may send a full packet now.
    pub(crate) fn is_ready(&self, index: usize) -> bool {
        self.order.is_ready(index)
    }
}
