//! Which path carries the next packet: earliest delivery first, without letting a slow path block a
//! fast one.

use manyway_control::Permit;
use manyway_units::Time;

use crate::stats::PathState;

use super::Connection;

/// A path this many times slower than the fastest one is "slow": worth asking whether to wait
/// instead.
const SLOW: u64 = 2;

impl Connection {
    /// Brings a path's place in the ordered sets up to date, and those of backups, which depend on
    /// it.
    pub(super) fn refresh(&mut self, now: Time, index: usize) {
        self.place(now, index);
        self.place_backups(now);
    }

    /// Paths that are to be left have their place among the active ones only while there is no
    /// other.
    pub(super) fn place_backups(&mut self, now: Time) {
        for n in 0..self.backups.len() {
            self.place(now, self.backups[n]);
        }
    }

    /// Whether a path carries data only for want of a better one.
    pub(super) fn set_backup(&mut self, now: Time, index: usize, backup: bool) {
        self.backups.retain(|&other| other != index);
        if backup {
            self.backups.push(index);
        }
        self.refresh(now, index);
    }

    fn is_spared(&self, index: usize) -> bool {
        let better = |&(_, other): &(u64, usize)| !self.backups.contains(&other);
        self.backups.contains(&index) && self.active.iter().any(better)
    }

    /// Whether another path than this one could carry what it carries.
    pub(super) fn has_other(&self, index: usize) -> bool {
        let backup = |&i: &usize| i != index && self.paths[i].state == PathState::Active;
        self.active.iter().any(|&(_, other)| other != index) || self.backups.iter().any(backup)
    }

    fn place(&mut self, now: Time, index: usize) {
        let spared = self.is_spared(index);
        let path = &mut self.paths[index];
        let active = path.state == PathState::Active && !spared;
        let key = path.delivery_key();
        let permit = path.sender.permit(now, self.controllers.under(path.under));

        let place = active.then_some(key);
        if path.indexed.active != place {
            if let Some(old) = path.indexed.active {
                self.active.remove(&(old, index));
            }
            if let Some(new) = place {
                self.active.insert((new, index));
            }
            path.indexed.active = place;
        }

        let place = (active && matches!(permit, Permit::Now { .. })).then_some(key);
        if path.indexed.ready != place {
            if let Some(old) = path.indexed.ready {
                self.ready.remove(&(old, index));
            }
            if let Some(new) = place {
                self.ready.insert((new, index));
            }
            path.indexed.ready = place;
        }

        let paced = match permit {
            Permit::Paced(at) if active => Some(at),
            _ => None,
        };
        let timer = [
            path.sender.timeout(),
            path.received.deadline(),
            path.validation.timer(now),
            path.moving.timer(now),
            path.mtu.timer(),
            paced,
            Some(path.last_sent + self.idle_timeout / 3),
        ]
        .into_iter()
        .flatten()
        .min();
        if path.indexed.timer != timer {
            if let Some(old) = path.indexed.timer {
                self.timers.remove(&(old, index));
            }
            if let Some(new) = timer {
                self.timers.insert((new, index));
            }
            path.indexed.timer = timer;
        }

        let owes = path.probes > 0
            || path.respond.is_some()
            || path.received.is_due()
            || path.validation.due(now).is_some()
            || path.moving.owes(now)
            || path.wants_mtu_probe(now);
        if owes && !path.indexed.attention {
            path.indexed.attention = true;
            self.attention.push_back(index);
        }
    }

    /// Takes a path out of all ordered sets.
    pub(super) fn unindex(&mut self, index: usize) {
        self.backups.retain(|&other| other != index);
        let indexed = std::mem::take(&mut self.paths[index].indexed);
        if let Some(key) = indexed.active {
            self.active.remove(&(key, index));
        }
        if let Some(key) = indexed.ready {
            self.ready.remove(&(key, index));
        }
        if let Some(at) = indexed.timer {
            self.timers.remove(&(at, index));
        }
        if indexed.attention {
            self.attention.retain(|&i| i != index);
        }
    }

    /// The path for the next packet of stream data, if one may send and should.
    pub(super) fn choose(&mut self) -> Option<usize> {
        if let Some(index) = self.next_in_turn() {
            return Some(index);
        }
        let &(key, index) = self.ready.first()?;
        let &(fastest_key, fastest) = self.active.first()?;
        if index == fastest || key < fastest_key.saturating_mul(SLOW) {
            return Some(index);
        }
        (!self.better_to_wait(key, fastest_key, fastest)).then_some(index)
    }

    /// Whether the fastest path, busy now, would still deliver all that is left before the slow one
    /// could.
    ///
    /// The first test is ECF's (Lim et al., CoNEXT 2017), the second BLEST's (Ferlin et al., IFIP
    /// Networking 2016): data sent on the slow path must not be what the receive window waits for.
    fn better_to_wait(&self, slow_key: u64, fast_key: u64, fastest: usize) -> bool {
        let rate = self.paths[fastest].rate(self.controllers.of(&self.paths[fastest]));
        let (slow, fast) = (slow_key as f64 * 1e-9, fast_key as f64 * 1e-9);
        let left = (self.streams.unsent_bytes() + self.filler) as f64;
        if left / rate + fast < slow {
            return true;
        }
        (self.streams.send_credit() as f64) < rate * slow
    }

    /// With nothing new to send, or no window for it: a packet in flight on a slow path that a path
    /// which is ready now would deliver sooner. Sends each packet again at most once.
    pub(super) fn overtake(&mut self) -> Option<(usize, usize)> {
        let &(key, ready) = self.ready.first()?;
        let &(slow_key, slow) = self.active.last()?;
        if slow == ready || slow_key < key.saturating_mul(SLOW) {
            return None;
        }
        Some((ready, slow))
    }
}
