//! Paths on which nothing comes back, and on which something does again.

use manyway_units::Time;

use crate::stats::PathState;

use super::PathSet;

/// The probe timeouts of the last path in use until users hear that it is down. One alone may come
/// from losses.
const SILENT_ALONE: u32 = 2;

impl PathSet {
    /// Takes a path out of use until something comes back on it. Whether that is news.
    pub(crate) fn stall(&mut self, now: Time, index: usize) -> bool {
        let path = &mut self.slab[index];
        path.state = PathState::Stalled;
        path.stalled_since = now;
        !std::mem::take(&mut path.told_silent)
    }

    /// A probe timeout has fired. Whether users are to hear that the path is down although it stays
    /// in use: there is no other one.
    pub(crate) fn note_silence(&mut self, index: usize) -> bool {
        let last = self.order.active_len() <= 1;
        let path = &mut self.slab[index];
        let silent = path.state == PathState::Active && path.sender.pto_count() >= SILENT_ALONE;
        last && silent && !std::mem::replace(&mut path.told_silent, true)
    }

    /// Something came back on a path. Whether it was stalled: it is in use again then; and whether
    /// users heard that it is down.
    pub(crate) fn revive(&mut self, index: usize) -> (bool, bool) {
        let path = &mut self.slab[index];
        let stalled = path.state == PathState::Stalled;
        if stalled {
            path.state = PathState::Active;
        }
        let told = std::mem::take(&mut path.told_silent);
        (stalled, stalled || told)
    }

    /// Other active paths than this one whose probe timeouts ran out.
    ///
    /// The last active path is never stalled, however silent. When another one comes back, it isn't
    /// the last one any more, and it must not hold data until its own, backed-off, probe timeout.
    /// Revivals are rare enough to look at every path.
    pub(crate) fn silent_beside(&self, index: usize) -> Vec<usize> {
        let active = self.order.active().filter(|&other| other != index);
        active
            .filter(|&other| self.slab[other].sender.pto_count() > 0)
            .collect()
    }
}
