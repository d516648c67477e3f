//! Which path carries the next packet, and which one has something to do: the ordered sets.
//!
//! It owns the sets and each path's place in them; it never sees a path. Whoever changes a path
//! tells it the path's new [`Place`], so no packet costs more than O(log paths). Data goes by
//! earliest delivery first, without letting a slow path block a fast one.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;

use manyway_units::Time;

/// A path this many times slower than the fastest one is "slow": worth asking whether to wait
/// instead.
const SLOW: u64 = 2;

/// The paths by delivery time, by their timers, and those that owe a datagram. A path is known by
/// its index; its key is its delivery time in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct PathOrder {
    /// Active paths that may send a full packet now, soonest delivery first.
    ready: BTreeSet<(u64, usize)>,
    /// All active paths, soonest delivery first.
    active: BTreeSet<(u64, usize)>,
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
    pub(super) timer: Option<Time>,
    /// It owes a datagram.
    pub(super) owes: bool,
}

#[derive(Copy, Clone, Debug, Default)]
struct Indexed {
    ready: Option<u64>,
    active: Option<u64>,
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

    /// The path for the next packet of stream data, if one may send and should.
    ///
    /// When only a slow path may send, `better_to_wait` says, of its key, the fastest path's key
    /// and the fastest path, whether that one would still be sooner.
    pub(super) fn choose(
        &self,
        better_to_wait: impl FnOnce(u64, u64, usize) -> bool,
    ) -> Option<usize> {
        let &(key, index) = self.ready.first()?;
        let &(fastest_key, fastest) = self.active.first()?;
        if index == fastest || key < fastest_key.saturating_mul(SLOW) {
            return Some(index);
        }
        (!better_to_wait(key, fastest_key, fastest)).then_some(index)
    }

    /// The slow path that a path which is ready now would overtake with the same packet.
    pub(super) fn overtaken(&self) -> Option<usize> {
        let &(key, ready) = self.ready.first()?;
        let &(slow_key, slow) = self.active.last()?;
        (slow != ready && slow_key >= key.saturating_mul(SLOW)).then_some(slow)
    }

    /// The next path in turn that may send, whichever delivers soonest.
    pub(super) fn choose_in_turn(&mut self) -> Option<usize> {
        let after = (Bound::Excluded(self.filled), Bound::Unbounded);
        let next = self.ready.range(after).next().or(self.ready.first());
        self.filled = *next?;
        Some(self.filled.1)
    }
}

/// Whether the fastest path, busy now, would still deliver all that is left before the slow one
/// could. Keys in nanoseconds, `rate` of the fastest path in bytes/s, `left` and `credit` in bytes.
///
/// The first test is ECF's (Lim et al., CoNEXT 2017), the second BLEST's (Ferlin et al., IFIP
/// Networking 2016): data sent on the slow path must not be what the receive window waits for.
pub(super) fn better_to_wait(
    slow_key: u64,
    fast_key: u64,
    rate: f64,
    left: u64,
    credit: u64,
) -> bool {
    let (slow, fast) = (slow_key as f64 * 1e-9, fast_key as f64 * 1e-9);
    left as f64 / rate + fast < slow || (credit as f64) < rate * slow
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

    fn never(_: u64, _: u64, _: usize) -> bool {
        panic!("there is nothing to weigh")
    }

    #[test]
    fn the_path_that_delivers_soonest_is_chosen() {
        let mut order = PathOrder::default();
        assert_eq!(order.choose(never), None);
        order.update(0, at(30, true));
        order.update(1, at(20, true));
        order.update(2, at(10, false));
        // Less than twice as slow as the fastest: not worth waiting.
        order.update(1, at(19, true));
        assert_eq!(order.choose(never), Some(1));
        order.update(2, at(10, true));
        assert_eq!(order.choose(never), Some(2));
        assert_eq!(order.soonest(), Some(2));
        order.remove(2);
        order.update(1, at(19, false));
        assert_eq!(order.choose(never), Some(0));
        order.update(0, Place::default());
        assert_eq!((order.choose(never), order.soonest()), (None, Some(1)));
    }

    #[test]
    fn a_slow_path_asks_whether_to_wait() {
        let mut order = PathOrder::default();
        order.update(0, at(40, true));
        order.update(1, at(20, false));
        let seen = |slow, fast, fastest| {
            assert_eq!((slow, fast, fastest), (40, 20, 1));
            true
        };
        assert_eq!(order.choose(seen), None);
        assert_eq!(order.choose(|_, _, _| false), Some(0));
    }

    #[test]
    fn waiting_pays_for_a_short_rest_or_a_tight_window() {
        // Fast: 10 ms and 1 MB/s; slow: 100 ms.
        let wait = |left, credit| better_to_wait(100_000_000, 10_000_000, 1e6, left, credit);
        assert!(wait(80_000, 1 << 30), "90 ms are less than 100");
        assert!(!wait(91_000, 1 << 30));
        assert!(
            wait(1 << 30, 99_000),
            "the window would wait for the slow path"
        );
        assert!(!wait(1 << 30, 101_000));
    }

    #[test]
    fn only_a_much_slower_path_is_overtaken() {
        let mut order = PathOrder::default();
        order.update(0, at(20, true));
        assert_eq!(order.overtaken(), None, "by itself");
        order.update(1, at(39, false));
        assert_eq!(order.overtaken(), None);
        order.update(1, at(40, false));
        assert_eq!(order.overtaken(), Some(1));
        order.update(0, at(20, false));
        assert_eq!(order.overtaken(), None, "nobody is ready");
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
