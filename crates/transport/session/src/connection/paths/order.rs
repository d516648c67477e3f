//! Which path carries the next packet, and which one has something to do: the ordered sets.
//!
//! It owns the sets and each path's place in them; it never sees a path. Whoever changes a path
//! tells it the path's new [`Place`], so no packet costs more than O(log paths). Data goes by
//! earliest delivery first, without letting a slow path block a fast one.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;

use manyway_units::Time;

/// Paths that are looked at at a time for what another one could overtake.
const MAX_OTHERS: usize = 4;

/// The paths by delivery time, by their timers, and those that owe a datagram. A path is known by
/// its index; its key is its delivery time in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct PathOrder {
    /// Active paths that may send a full packet now, soonest delivery first.
    ready: BTreeSet<(u64, usize)>,
    /// Those of them whose packets hold a datagram of the application.
    roomy: BTreeSet<(u64, usize)>,
    /// All active paths, soonest delivery first.
    active: BTreeSet<(u64, usize)>,
    /// Paths that may send a full packet now, by how much of the data they have carried, where
    /// every path carries all of it.
    behind: BTreeSet<(u64, usize)>,
    timers: BTreeSet<(Time, usize)>,
    /// Paths that have to send something: an ACK, a challenge or its answer, a probe.
    attention: VecDeque<usize>,
    /// What the sets hold for each path, so that it can be taken out again in O(log n).
    places: Vec<Indexed>,
    /// The place in `ready` of the path that was filled last.
    filled: (u64, usize),
}

/// Where a path belongs.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Place {
    /// Its delivery time, while it carries data.
    pub(super) active: Option<u64>,
    /// It may send a full packet now.
    pub(super) ready: bool,
    /// Its packets hold a datagram of the application.
    pub(super) roomy: bool,
    /// How much of the data it has carried, where every path carries all of it.
    pub(super) carried: Option<u64>,
    pub(super) timer: Option<Time>,
    /// It owes a datagram.
    pub(super) owes: bool,
}

#[derive(Copy, Clone, Debug, Default)]
struct Indexed {
    ready: Option<u64>,
    roomy: Option<u64>,
    active: Option<u64>,
    behind: Option<u64>,
    timer: Option<Time>,
    attention: bool,
}

/// Moves a path from one key of a set to another.
fn rekey<K: Ord + Copy>(
    set: &mut BTreeSet<(K, usize)>,
    index: usize,
    known: &mut Option<K>,
    new: Option<K>,
) {
    if *known != new {
        if let Some(old) = *known {
            set.remove(&(old, index));
        }
        if let Some(new) = new {
            set.insert((new, index));
        }
        *known = new;
    }
}

impl PathOrder {
    /// Brings a path's place up to date. What it owes it keeps owing until it is
    /// [served](Self::next_attention).
    pub(super) fn update(&mut self, index: usize, place: Place) {
        if self.places.len() <= index {
            self.places.resize(index + 1, Indexed::default());
        }
        let known = &mut self.places[index];
        rekey(&mut self.active, index, &mut known.active, place.active);
        let ready = place.active.filter(|_| place.ready);
        rekey(&mut self.ready, index, &mut known.ready, ready);
        let roomy = ready.filter(|_| place.roomy);
        rekey(&mut self.roomy, index, &mut known.roomy, roomy);
        let behind = place.carried.filter(|_| ready.is_some());
        rekey(&mut self.behind, index, &mut known.behind, behind);
        rekey(&mut self.timers, index, &mut known.timer, place.timer);
        if place.owes {
            self.attend(index);
        }
    }

    /// Takes a path out of all sets.
    pub(super) fn remove(&mut self, index: usize) {
        self.update(index, Place::default());
        if std::mem::take(&mut self.places[index].attention) {
            self.attention.retain(|&other| other != index);
        }
    }

    /// The path's turn comes even if it owes nothing itself.
    pub(super) fn attend(&mut self, index: usize) {
        if !std::mem::replace(&mut self.places[index].attention, true) {
            self.attention.push_back(index);
        }
    }

    /// Paths that owe something.
    pub(super) fn owing(&self) -> usize {
        self.attention.len()
    }

    /// The next path that owes something, which is taken out of the queue.
    pub(super) fn next_attention(&mut self) -> Option<usize> {
        let index = self.attention.pop_front()?;
        self.places[index].attention = false;
        Some(index)
    }

    /// Whether the path may send a full packet now.
    pub(super) fn is_ready(&self, index: usize) -> bool {
        self.places.get(index).is_some_and(|p| p.ready.is_some())
    }

    /// Active paths, soonest delivery first.
    pub(super) fn active(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.active.iter().map(|&(_, index)| index)
    }

    pub(super) fn active_len(&self) -> usize {
        self.active.len()
    }

    /// The delivery time of the slowest active path, in nanoseconds.
    pub(super) fn slowest_key(&self) -> Option<u64> {
        self.active.last().map(|&(key, _)| key)
    }

    /// The path that delivers soonest: of those that may send now, else of all.
    pub(super) fn soonest(&self) -> Option<usize> {
        let &(_, index) = self.ready.first().or(self.active.first())?;
        Some(index)
    }

    pub(super) fn next_timer(&self) -> Option<Time> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Paths whose timers are due, in the order of these.
    pub(super) fn due(&self, now: Time) -> Vec<usize> {
        let due = self.timers.iter().take_while(|(at, _)| *at <= now);
        due.map(|&(_, index)| index).collect()
    }

    /// The path that delivers soonest of those that may send now, and the fastest of all if that is
    /// another one.
    pub(super) fn choose(&self) -> Option<(usize, Option<usize>)> {
        let &(_, ready) = self.ready.first()?;
        let &(_, fastest) = self.active.first()?;
        Some((ready, (fastest != ready).then_some(fastest)))
    }

    /// The path that delivers soonest of those that may send a datagram of the application now.
    pub(super) fn choose_roomy(&self) -> Option<usize> {
        self.roomy.first().map(|&(_, index)| index)
    }

    /// Whether the path may send a datagram of the application now.
    pub(super) fn is_roomy(&self, index: usize) -> bool {
        self.places.get(index).is_some_and(|p| p.roomy.is_some())
    }

    /// The path that may send now and has carried the least of all data.
    pub(super) fn furthest_behind(&self) -> Option<(u64, usize)> {
        self.behind.first().copied()
    }

    /// The path that delivers soonest of those that may send now, and others in use: the slowest
    /// ones.
    pub(super) fn others(&self) -> Option<(usize, impl Iterator<Item = usize>)> {
        let &(_, ready) = self.ready.first()?;
        let slowest = self.active.iter().rev().map(|&(_, index)| index);
        let others = slowest.filter(move |&index| index != ready);
        Some((ready, others.take(MAX_OTHERS)))
    }

    /// The next path in turn that may send, whichever delivers soonest.
    pub(super) fn choose_in_turn(&mut self) -> Option<usize> {
        let after = (Bound::Excluded(self.filled), Bound::Unbounded);
        let next = self.ready.range(after).next().or(self.ready.first());
        self.filled = *next?;
        Some(self.filled.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(key: u64, ready: bool) -> Place {
        Place {
            active: Some(key),
            ready,
            ..Place::default()
        }
    }

    #[test]
    fn the_path_that_delivers_soonest_is_chosen() {
        let mut order = PathOrder::default();
        assert_eq!(order.choose(), None);
        order.update(0, at(30, true));
        order.update(1, at(20, true));
        order.update(2, at(10, false));
        assert_eq!(order.choose(), Some((1, Some(2))));
        order.update(2, at(10, true));
        assert_eq!(order.choose(), Some((2, None)));
        assert_eq!(order.soonest(), Some(2));
        order.remove(2);
        order.update(1, at(19, false));
        assert_eq!(order.choose(), Some((0, Some(1))));
        order.update(0, Place::default());
        assert_eq!((order.choose(), order.soonest()), (None, Some(1)));
    }

    #[test]
    fn datagrams_go_on_paths_that_hold_them() {
        let mut order = PathOrder::default();
        let roomy = |key, ready, roomy| Place {
            roomy,
            ..at(key, ready)
        };
        order.update(0, roomy(10, true, false));
        assert_eq!((order.choose_roomy(), order.is_roomy(0)), (None, false));
        order.update(1, roomy(30, true, true));
        order.update(2, roomy(20, false, true));
        assert_eq!((order.choose_roomy(), order.is_roomy(2)), (Some(1), false));
        order.update(2, roomy(20, true, true));
        assert_eq!((order.choose_roomy(), order.is_roomy(2)), (Some(2), true));
        order.update(2, roomy(20, true, false));
        order.remove(1);
        assert_eq!(order.choose_roomy(), None);
    }

    #[test]
    fn others_come_slowest_first_and_not_all_of_them() {
        let others = |order: &PathOrder| {
            let (fast, others) = order.others()?;
            Some((fast, others.collect::<Vec<_>>()))
        };
        let mut order = PathOrder::default();
        order.update(0, at(20, true));
        assert_eq!(others(&order), Some((0, vec![])), "by itself");
        order.update(1, at(30, false));
        order.update(2, at(25, true));
        order.update(3, at(10, false));
        assert_eq!(others(&order), Some((0, vec![1, 2, 3])));
        for index in 4..10 {
            order.update(index, at(40 + index as u64, false));
        }
        assert_eq!(others(&order), Some((0, vec![9, 8, 7, 6])));
        order.update(0, at(20, false));
        order.update(2, at(25, false));
        assert_eq!(others(&order), None, "nobody is ready");
    }

    #[test]
    fn the_path_furthest_behind_is_one_that_may_send() {
        let mut order = PathOrder::default();
        assert_eq!(order.furthest_behind(), None);
        let carried = |carried, ready| Place {
            carried: Some(carried),
            ..at(20, ready)
        };
        order.update(0, carried(7, true));
        order.update(1, carried(5, true));
        order.update(2, carried(3, false));
        assert_eq!(order.furthest_behind(), Some((5, 1)));
        order.update(1, carried(8, true));
        assert_eq!(order.furthest_behind(), Some((7, 0)));
        order.remove(0);
        assert_eq!(order.furthest_behind(), Some((8, 1)));
    }

    #[test]
    fn turns_go_round_the_ready_paths() {
        let mut order = PathOrder::default();
        for index in 0..3 {
            order.update(index, at(10 * (3 - index as u64), true));
        }
        order.update(3, at(5, false));
        let turns: Vec<_> = (0..6).filter_map(|_| order.choose_in_turn()).collect();
        assert_eq!(turns, [2, 1, 0, 2, 1, 0]);
    }

    #[test]
    fn who_owes_waits_once_and_in_turn() {
        let mut order = PathOrder::default();
        let owes = Place {
            owes: true,
            ..Place::default()
        };
        order.update(1, owes);
        order.update(0, owes);
        order.update(1, owes);
        assert_eq!(order.owing(), 2);
        assert_eq!(order.next_attention(), Some(1));
        order.update(1, owes);
        order.remove(0);
        assert_eq!(
            (order.next_attention(), order.next_attention()),
            (Some(1), None)
        );
    }

    #[test]
    fn timers_fire_in_order_and_are_moved() {
        let mut order = PathOrder::default();
        let timer = |ms| Place {
            timer: Some(Time::from_millis(ms)),
            ..Place::default()
        };
        order.update(0, timer(30));
        order.update(1, timer(10));
        order.update(2, timer(20));
        assert_eq!(order.due(Time::from_millis(20)), [1, 2]);
        order.update(1, timer(40));
        order.remove(2);
        assert_eq!(order.next_timer(), Some(Time::from_millis(30)));
        assert_eq!(order.due(Time::from_millis(29)), [0; 0]);
    }
}
