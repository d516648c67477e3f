//! How large a path's datagrams may be: path MTU discovery at the packetization layer (RFC 8899).
//!
//! Sizes are of UDP payloads, with whatever stands in front of the packet for a relay. A path
//! starts at the base size, which every path worth having carries, and looks for its largest by
//! probes: padded packets that carry nothing else. A probe that is lost says that it was too large
//! or that packets get lost; so each size is tried three times, and it is no sign of congestion. A
//! path whose large packets all vanish while small ones arrive is a black hole: it goes back to the
//! base size and looks anew.

use std::time::Duration;

use manyway_units::Time;

/// Probes of one size before it counts as too large (RFC 8899 §5.1.2, MAX_PROBES).
const MAX_PROBES: u32 = 3;
/// The search ends when it can't gain more than this, in bytes.
const RESOLUTION: usize = 20;
/// When a search that has ended begins anew (RFC 8899 §5.1.1, PMTU_RAISE_TIMER).
const RAISE_TIMER: Duration = Duration::from_secs(600);
/// Lost large packets without a later one acknowledged that make a black hole, if a small one was.
const BLACK_HOLE: u32 = 3;
/// A probe is lost when a packet sent so much later is acknowledged (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u64 = 3;
/// What most paths carry that don't carry the most: Ethernet's 1500 bytes less IPv4 or IPv6 and UDP
/// headers.
const COMMON: [usize; 2] = [1472, 1452];

/// The packet size of one path.
#[derive(Debug)]
pub(super) struct Mtu {
    base: usize,
    /// What the path has carried.
    size: usize,
    /// What both ends and the interface allow.
    limit: usize,
    search: Search,
    probe: Option<Probe>,
    /// The newest acknowledged packet above the base size, and lost ones since.
    carried: u64,
    vanished: u32,
}

#[derive(Debug)]
enum Search {
    Looking(SizeSearch),
    Done { again: Time },
}

/// Everything below `too_large` may be possible; `tries` probes of `next` were lost.
#[derive(Debug)]
struct SizeSearch {
    too_large: usize,
    next: usize,
    tries: u32,
}

#[derive(Debug)]
struct Probe {
    number: u64,
    size: usize,
    deadline: Time,
}

impl Mtu {
    pub(super) fn new(base: usize, limit: usize) -> Self {
        let mut mtu = Self {
            base: base.min(limit),
            size: base.min(limit),
            limit,
            search: Search::Done { again: Time::MAX },
            probe: None,
            carried: 0,
            vanished: 0,
        };
        mtu.search(Time::ZERO, limit);
        mtu
    }

    /// The size of the path's full datagrams.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The size that carries whatever happens.
    pub(super) fn base(&self) -> usize {
        self.base
    }

    /// Whether a datagram is larger than every path carries.
    pub(super) fn is_large(&self, bytes: usize) -> bool {
        bytes > self.base
    }

    /// The size to probe now.
    pub(super) fn due(&self, now: Time) -> Option<usize> {
        match self.search {
            Search::Looking(SizeSearch { next, .. }) if self.probe.is_none() => Some(next),
            Search::Done { again } if again <= now && self.size < self.limit => Some(self.limit),
            _ => None,
        }
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.due(now).is_some()
    }

    /// When a probe counts as lost without any acknowledgement.
    pub(super) fn timer(&self) -> Option<Time> {
        self.probe.as_ref().map(|probe| probe.deadline)
    }

    pub(super) fn on_probe_sent(
        &mut self,
        now: Time,
        number: u64,
        size: usize,
        patience: Duration,
    ) {
        if let Search::Done { .. } = self.search {
            self.search(now, self.limit);
        }
        self.probe = Some(Probe {
            number,
            size,
            deadline: now + patience,
        });
    }

    /// Packets were acknowledged, `largest` the newest so far. Whether the size has changed.
    pub(super) fn on_acked(
        &mut self,
        now: Time,
        mut acked: impl Iterator<Item = u64>,
        largest: u64,
    ) -> bool {
        let Some(probe) = &self.probe else {
            return false;
        };
        let (number, size) = (probe.number, probe.size);
        if acked.any(|acked| acked == number) {
            self.probe = None;
            self.size = size;
            self.carried = self.carried.max(number);
            self.vanished = 0;
            self.step(now);
            return true;
        }
        if largest >= number + PACKET_THRESHOLD {
            self.on_probe_lost(now);
        }
        false
    }

    /// The timer has run out.
    pub(super) fn on_timer(&mut self, now: Time) {
        if self.probe.as_ref().is_some_and(|p| p.deadline <= now) {
            self.on_probe_lost(now);
        }
    }

    /// A large packet was acknowledged.
    pub(super) fn on_large_acked(&mut self, number: u64) {
        self.carried = self.carried.max(number);
        self.vanished = 0;
    }

    /// A large packet was lost. Whether that makes a black hole: then the size is the base.
    pub(super) fn on_large_lost(&mut self, now: Time, number: u64) -> bool {
        if number <= self.carried || self.size == self.base {
            return false;
        }
        self.vanished += 1;
        self.vanished >= BLACK_HOLE && self.fall(now)
    }

    /// The kernel says that a datagram is larger than its interface takes: no need to wait. Whether
    /// the size is another now.
    pub(super) fn on_refused(&mut self, now: Time) -> bool {
        match (self.probe.take(), &mut self.search) {
            (Some(_), Search::Looking(search)) => {
                search.tries = MAX_PROBES - 1;
                self.on_try_failed(now);
                false
            }
            _ => self.size > self.base && self.fall(now),
        }
    }

    /// The path leads another way now.
    pub(super) fn restart(&mut self, now: Time, limit: usize) {
        self.limit = limit;
        self.base = self.base.min(limit);
        self.fall(now);
    }

    /// Back to the base size. What was carried before is tried first: perhaps it was only bad luck.
    fn fall(&mut self, now: Time) -> bool {
        let before = std::mem::replace(&mut self.size, self.base);
        self.probe = None;
        self.vanished = 0;
        self.search(now, self.limit);
        if let Search::Looking(search) = &mut self.search
            && before > self.base
        {
            search.next = before.min(self.limit);
        }
        true
    }

    fn on_probe_lost(&mut self, now: Time) {
        self.probe = None;
        self.on_try_failed(now);
    }

    fn on_try_failed(&mut self, now: Time) {
        let Search::Looking(search) = &mut self.search else {
            return;
        };
        search.tries += 1;
        if search.tries >= MAX_PROBES {
            search.too_large = search.next;
            self.step(now);
        }
    }

    /// Begins a search up to `limit`, the largest size first: mostly it is the interface's, and
    /// carried.
    fn search(&mut self, now: Time, limit: usize) {
        self.search = if limit > self.size {
            Search::Looking(SizeSearch {
                too_large: limit + 1,
                next: limit,
                tries: 0,
            })
        } else {
            Search::Done {
                again: now + RAISE_TIMER,
            }
        };
    }

    /// The next size to try, between what is carried and what is too large.
    fn step(&mut self, now: Time) {
        let Search::Looking(search) = &mut self.search else {
            return;
        };
        let (low, high) = (self.size, search.too_large);
        if high <= low + RESOLUTION {
            self.search = Search::Done {
                again: now + RAISE_TIMER,
            };
            return;
        }
        let common = COMMON
            .into_iter()
            .find(|size| (low + 1..high).contains(size));
        search.next = common.unwrap_or((low + high) / 2);
        search.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    /// A path that carries `carries` bytes, each probe lost with the chance that `lossy` draws.
    struct Bench {
        mtu: Mtu,
        now: Time,
        number: u64,
        probes: u32,
    }

    impl Bench {
        fn new(base: usize, limit: usize) -> Self {
            Self {
                mtu: Mtu::new(base, limit),
                now: Time::from_millis(1),
                number: 0,
                probes: 0,
            }
        }

        /// One probe and its fate; false if none is due.
        fn probe(&mut self, carries: usize, lost: bool) -> bool {
            let Some(size) = self.mtu.due(self.now) else {
                return false;
            };
            assert!(size > self.mtu.size() && size <= self.mtu.limit, "{size}");
            self.probes += 1;
            self.number += 1;
            let number = self.number;
            self.mtu.on_probe_sent(self.now, number, size, 3 * RTT);
            assert!(self.mtu.due(self.now).is_none(), "one at a time");
            self.now += RTT;
            self.number += 5;
            let arrives = size <= carries && !lost;
            let acked = arrives.then_some(number).into_iter();
            let changed = self.mtu.on_acked(self.now, acked, self.number);
            assert_eq!(changed, arrives);
            true
        }

        fn search(&mut self, carries: usize) {
            while self.probe(carries, false) {
                assert!(self.probes < 100, "it ends");
            }
        }
    }

    #[test]
    fn usual_sizes_take_one_probe_or_few() {
        for (limit, carries, most) in [
            (1472, 1472, 1),
            (8952, 8952, 1),
            // The interface's size three times, then Ethernet's, and what may lie between.
            (8952, 1472, 3 + 1 + 27),
            (1472, 1452, 3 + 1),
            (1472, 1200, 3 + 3 + 15),
            (1200, 1200, 0),
        ] {
            let mut bench = Bench::new(1200, limit);
            bench.search(carries);
            assert!(
                bench.mtu.size() + RESOLUTION >= carries,
                "{limit} {carries}"
            );
            assert!(bench.probes <= most, "{limit} {carries}: {}", bench.probes);
        }
    }

    #[test]
    fn a_probe_without_any_answer_times_out() {
        let mut mtu = Mtu::new(1200, 1472);
        let mut now = Time::from_millis(5);
        for _ in 0..MAX_PROBES {
            assert_eq!(mtu.due(now), Some(1472));
            mtu.on_probe_sent(now, 7, 1472, 3 * RTT);
            now = mtu.timer().expect("a deadline");
            mtu.on_timer(Time::from_nanos(now.as_nanos() - 1));
            assert!(mtu.due(now).is_none());
            mtu.on_timer(now);
        }
        assert_eq!(mtu.due(now), Some(1452));
    }

    #[test]
    fn a_black_hole_is_left_and_looked_at_again() {
        let mut bench = Bench::new(1200, 1472);
        bench.search(1472);
        let number = bench.number;
        bench.mtu.on_large_acked(number + 10);
        // Losses among packets of before say nothing.
        for lost in 0..10 {
            assert!(!bench.mtu.on_large_lost(bench.now, number + lost));
        }
        assert!(!bench.mtu.on_large_lost(bench.now, number + 11));
        assert!(!bench.mtu.on_large_lost(bench.now, number + 12));
        assert!(bench.mtu.on_large_lost(bench.now, number + 13));
        assert_eq!(bench.mtu.size(), 1200);
        assert_eq!(
            bench.mtu.due(bench.now),
            Some(1472),
            "perhaps it was bad luck"
        );
        bench.search(1300);
        assert!((1280..=1300).contains(&bench.mtu.size()));
    }

    #[test]
    fn a_refusal_by_the_kernel_needs_no_second_try() {
        let mut mtu = Mtu::new(1200, 8952);
        mtu.on_probe_sent(Time::ZERO, 1, 8952, RTT);
        assert!(!mtu.on_refused(Time::ZERO));
        assert_eq!(mtu.due(Time::ZERO), Some(1472));
        mtu.on_probe_sent(Time::ZERO, 2, 1472, RTT);
        assert!(mtu.on_acked(Time::ZERO, [2].into_iter(), 2));
        // Not a probe, but a full packet.
        mtu.probe = None;
        assert!(mtu.on_refused(Time::ZERO));
        assert_eq!(mtu.size(), 1200);
    }

    proptest! {
        /// Whatever is lost, the size is one that was carried or the base; without losses it is the
        /// largest within the resolution.
        #[test]
        fn the_size_is_one_that_was_carried(
            carries in 1200usize..9_100,
            limit in 1200usize..9_000,
            losses in prop::collection::vec(any::<bool>(), 0..60),
        ) {
            let mut bench = Bench::new(1200, limit);
            for lost in &losses {
                bench.probe(carries, *lost);
                prop_assert!(bench.mtu.size() <= carries.min(limit).max(1200));
            }
            let mut bench = Bench::new(1200, limit);
            bench.search(carries);
            let most = carries.min(limit);
            prop_assert!(bench.mtu.size() <= most && bench.mtu.size() + RESOLUTION >= most);
            prop_assert!(bench.mtu.due(bench.now).is_none());
            if most < limit {
                let later = bench.now + RAISE_TIMER;
                prop_assert_eq!(bench.mtu.due(later), Some(limit));
            }
        }
    }
}
