//! The table of enrolled relays.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_wire::relay::RelayId;
use rand::Rng;
use rand::seq::index;

/// An enrolled relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub relay: RelayId,
    /// Its addresses, proved.
    pub addresses: Box<[SocketAddr]>,
    /// Whether it also forwards streams over TCP there, proved.
    pub tcp: bool,
    /// The name of the token with which it enrolled.
    pub owner: Arc<str>,
    /// Its lease's number. Every enrolment gets a new one.
    pub lease: i64,
    /// When the registry issued the challenge that the relay signed: Unix time in ms. An enrolment
    /// with the same or an older one is a replay.
    pub challenged: u64,
    /// It has announced that it leaves, so no client gets it. The entry stays until the lease ends,
    /// against replays.
    pub left: bool,
}

struct Entry {
    record: Record,
    /// `MAX` if the store decides when.
    expires: Duration,
}

/// All relays, with random access to the usable ones. Every operation takes the same time whatever
/// their number, except for the logarithm of a queue.
#[derive(Default)]
pub struct RelayTable {
    // First the relays that are also usable over TCP, then the other usable ones, then those that
    // have left.
    entries: Vec<Entry>,
    tcp: usize,
    usable: usize,
    at: HashMap<RelayId, usize>,
    // Times at which to check whether a relay has expired: at least one for each that can.
    due: BinaryHeap<Reverse<(Duration, RelayId)>>,
    owners: HashMap<Arc<str>, usize>,
}

impl RelayTable {
    /// The number of known relays, including those that have left.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it knows no relay.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of usable relays.
    pub fn usable(&self) -> usize {
        self.usable
    }

    /// The number of relays that have enrolled with this owner's token.
    pub fn owned(&self, owner: &str) -> usize {
        self.owners.get(owner).copied().unwrap_or(0)
    }

    /// A relay's entry.
    pub fn get(&self, relay: &RelayId) -> Option<&Record> {
        Some(&self.entries[*self.at.get(relay)?].record)
    }

    /// Adds or replaces a relay. It vanishes at `expires` unless it renews its lease.
    pub fn insert(&mut self, record: Record, expires: Duration) {
        self.remove(&record.relay);
        if expires < Duration::MAX {
            self.due.push(Reverse((expires, record.relay)));
        }
        *self.owners.entry(Arc::clone(&record.owner)).or_default() += 1;
        let (relay, left, tcp) = (record.relay, record.left, record.tcp);
        let end = self.entries.len();
        self.entries.push(Entry { record, expires });
        self.at.insert(relay, end);
        if !left {
            self.swap(end, self.usable);
            self.usable += 1;
        }
        if !left && tcp {
            self.swap(self.usable - 1, self.tcp);
            self.tcp += 1;
        }
    }

    /// Prolongs a lease. Returns whether it exists.
    pub fn renew(&mut self, relay: &RelayId, lease: i64, expires: Duration) -> bool {
        let Some(&at) = self.at.get(relay) else {
            return false;
        };
        let entry = &mut self.entries[at];
        if entry.record.lease != lease || entry.record.left {
            return false;
        }
        entry.expires = entry.expires.max(expires);
        true
    }

    /// Forgets a relay.
    pub fn remove(&mut self, relay: &RelayId) -> Option<Record> {
        let mut at = self.at.remove(relay)?;
        if at < self.tcp {
            self.tcp -= 1;
            let last = self.tcp;
            self.swap(at, last);
            at = last;
        }
        if at < self.usable {
            self.usable -= 1;
            let last = self.usable;
            self.swap(at, last);
            at = last;
        }
        let last = self.entries.len() - 1;
        self.swap(at, last);
        let entry = self.entries.pop()?;
        let owner = &entry.record.owner;
        if let Some(count) = self.owners.get_mut(owner) {
            *count -= 1;
            if *count == 0 {
                self.owners.remove(owner);
            }
        }
        Some(entry.record)
    }

    /// Forgets relays whose lease has ended.
    pub fn expire(&mut self, now: Duration) {
        while let Some(Reverse((time, relay))) = self.due.peek().copied() {
            if time > now {
                return;
            }
            self.due.pop();
            let Some(&at) = self.at.get(&relay) else {
                continue;
            };
            match self.entries[at].expires {
                Duration::MAX => {}
                expires if expires > now => self.due.push(Reverse((expires, relay))),
                _ => {
                    self.remove(&relay);
                }
            }
        }
    }

    /// The number of usable relays that forward streams over TCP.
    pub fn over_tcp(&self) -> usize {
        self.tcp
    }

    /// `count` of the usable relays, or all if there are fewer: first `tcp` that forward streams
    /// over TCP, or all of these if there are fewer, and then others of any kind. All sets are
    /// equally probable.
    pub fn sample(&self, count: usize, tcp: usize, rng: &mut (impl Rng + ?Sized)) -> Vec<&Record> {
        let count = count.min(self.usable);
        let tcp = tcp.min(count).min(self.tcp);
        let first = index::sample(rng, self.tcp, tcp).into_vec();
        let taken: HashSet<usize> = first.iter().copied().collect();
        // Add as many as the second draw may repeat.
        let others = index::sample(rng, self.usable, count).into_iter();
        let others = others.filter(|at| !taken.contains(at)).take(count - tcp);
        let drawn = first.iter().copied().chain(others);
        drawn.map(|at| &self.entries[at].record).collect()
    }

    /// The queue's length, for tests of its bound.
    #[cfg(test)]
    fn queued(&self) -> usize {
        self.due.len()
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.entries.swap(a, b);
        for at in [a, b] {
            // A relay that is being removed has no place any more.
            if let Some(place) = self.at.get_mut(&self.entries[at].record.relay) {
                *place = at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;

    use super::*;

    fn record(number: u8, lease: i64, left: bool) -> Record {
        Record {
            relay: RelayId([number; 32]),
            addresses: Box::new([]),
            tcp: number.is_multiple_of(3),
            owner: ["a", "b"][usize::from(number % 2)].into(),
            lease,
            challenged: 0,
            left,
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u8, bool),
        Renew(u8, i64),
        Remove(u8),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..12u8, any::<bool>()).prop_map(|(n, left)| Step::Insert(n, left)),
            (0..12u8, 0..3i64).prop_map(|(n, lease)| Step::Renew(n, lease)),
            (0..12u8).prop_map(Step::Remove),
            (0..40u64).prop_map(Step::Pass),
        ]
    }

    proptest! {
        /// The same as a table that is searched from end to end.
        #[test]
        fn it_is_what_a_simple_table_is(steps in prop::collection::vec(step(), 0..60)) {
            let mut fleet = RelayTable::default();
            let mut table: BTreeMap<u8, (bool, Duration)> = BTreeMap::new();
            let mut now = Duration::ZERO;
            let life = Duration::from_secs(60);
            for step in steps {
                match step {
                    Step::Insert(n, left) => {
                        fleet.insert(record(n, 1, left), now + life);
                        table.insert(n, (left, now + life));
                    }
                    Step::Renew(n, lease) => {
                        let known = table.get_mut(&n).filter(|(left, _)| lease == 1 && !*left);
                        let renewed = fleet.renew(&RelayId([n; 32]), lease, now + life);
                        prop_assert_eq!(renewed, known.is_some());
                        if let Some((_, expires)) = known { *expires = now + life; }
                    }
                    Step::Remove(n) => {
                        prop_assert_eq!(
                            fleet.remove(&RelayId([n; 32])).is_some(),
                            table.remove(&n).is_some()
                        );
                    }
                    Step::Pass(seconds) => {
                        now += Duration::from_secs(seconds);
                        fleet.expire(now);
                        table.retain(|_, (_, expires)| *expires > now);
                    }
                }
                let usable: BTreeSet<u8> = table
                    .iter()
                    .filter(|(_, (left, _))| !left)
                    .map(|(n, _)| *n)
                    .collect();
                let mut rng = ChaCha20Rng::seed_from_u64(1);
                let sampled: BTreeSet<u8> = fleet
                    .sample(100, 0, &mut rng)
                    .iter()
                    .map(|r| r.relay.0[0])
                    .collect();
                prop_assert_eq!(&sampled, &usable);
                let tcp = usable.iter().filter(|n| n.is_multiple_of(3)).count();
                prop_assert_eq!(fleet.over_tcp(), tcp);
                let sample = fleet.sample(6, 3, &mut rng);
                let distinct: BTreeSet<u8> = sample.iter().map(|r| r.relay.0[0]).collect();
                prop_assert_eq!(
                    (sample.len(), distinct.len()),
                    (usable.len().min(6), usable.len().min(6))
                );
                prop_assert!(distinct.is_subset(&usable));
                prop_assert!(sample.iter().take(tcp.min(3)).all(|record| record.tcp));
                prop_assert_eq!(fleet.len(), table.len());
                for (owner, parity) in [("a", 0), ("b", 1)] {
                    prop_assert_eq!(
                        fleet.owned(owner),
                        table.keys().filter(|n| *n % 2 == parity).count()
                    );
                }
            }
        }
    }

    #[test]
    fn samples_have_no_repetition_and_everybody_gets_a_turn() {
        let mut fleet = RelayTable::default();
        (0..100).for_each(|n| fleet.insert(record(n, 1, n >= 80), Duration::MAX));
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut seen = [0; 100];
        for _ in 0..2000 {
            let sample = fleet.sample(10, 0, &mut rng);
            let distinct: BTreeSet<RelayId> = sample.iter().map(|record| record.relay).collect();
            assert_eq!(distinct.len(), 10);
            sample
                .iter()
                .for_each(|r| seen[usize::from(r.relay.0[0])] += 1);
        }
        // 250 expected, with a standard deviation of 15: five of them.
        assert!(
            seen[..80].iter().all(|n| (175..=325).contains(n)),
            "{seen:?}"
        );
        assert!(
            seen[80..].iter().all(|n| *n == 0),
            "who left isn't handed out"
        );
    }

    /// Of eight, two at least over TCP: each of the 27 that do has the same chance, and so has each
    /// of the 53 that don't.
    #[test]
    fn samples_with_tcp_in_them_are_fair() {
        let mut fleet = RelayTable::default();
        (0..80).for_each(|n| fleet.insert(record(n, 1, false), Duration::MAX));
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut seen = [0; 80];
        for _ in 0..4000 {
            for record in fleet.sample(8, 2, &mut rng) {
                seen[usize::from(record.relay.0[0])] += 1;
            }
        }
        // Two of 27, then six of the 78 that are left: 603 and 308 expected, with standard
        // deviations of 23 and 17: five of them.
        for (n, times) in seen.iter().enumerate() {
            let expected = if n.is_multiple_of(3) {
                490..=720
            } else {
                220..=395
            };
            assert!(expected.contains(times), "{n}: {times}");
        }
    }

    #[test]
    fn heartbeats_take_no_memory() {
        let mut fleet = RelayTable::default();
        (0..10).for_each(|n| fleet.insert(record(n, 1, false), Duration::from_secs(60)));
        for second in 0..10_000 {
            let now = Duration::from_secs(second);
            fleet.expire(now);
            for n in 0..10 {
                assert!(fleet.renew(&RelayId([n; 32]), 1, now + Duration::from_secs(60)));
            }
        }
        assert!(fleet.queued() <= 10, "{}", fleet.queued());
    }
}
