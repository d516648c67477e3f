//! The connections that have a place, and which of them make room for new ones.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use manyway_relay::exposition::Exposition;
use tokio::sync::oneshot;

use crate::core::source;

/// The order of arrival; unique.
type Id = u64;

/// All places.
pub(super) struct Places(Mutex<Room>);

/// A connection's place. Dropping it frees the place.
pub(super) struct Place {
    places: Arc<Places>,
    id: Id,
}

/// Resolves when the connection has to go.
pub(super) type Evicted = oneshot::Receiver<()>;

impl Places {
    /// Places for `all` connections, and for `per_source` of one source.
    pub(super) fn new(all: usize, per_source: usize) -> Arc<Self> {
        let room = Room {
            all,
            per_source,
            next: 0,
            connections: HashMap::new(),
            sources: HashMap::new(),
            crowds: BTreeSet::new(),
            refused: 0,
            evicted: 0,
        };
        Arc::new(Self(Mutex::new(room)))
    }

    /// Gives a connection a place, if necessary that of another one. None if none may go.
    pub(super) fn enter(self: &Arc<Self>, from: SocketAddr) -> Option<(Place, Evicted)> {
        let mut room = self.room();
        let Some((id, evicted)) = room.enter(source(from)) else {
            room.refused += 1;
            return None;
        };
        drop(room);
        let places = Arc::clone(self);
        Some((Place { places, id }, evicted))
    }

    /// Evicts the connection that is the first to go, if there is one.
    pub(super) fn make_way(&self) -> Option<()> {
        self.room().make_way()
    }

    /// Adds the number of connections, and how many came and went in which way.
    pub(super) fn expose(&self, text: &mut Exposition) {
        let room = self.room();
        let (now, help) = (room.connections.len(), "Connections now.");
        text.single("manyway_registry_connections", "gauge", help, now);
        let name = "manyway_registry_connections_total";
        let help = "Connections that got a place, found none, or lost theirs to others.";
        text.family(name, "counter", help);
        for (result, count) in [
            ("accepted", room.next),
            ("refused", room.refused),
            ("evicted", room.evicted),
        ] {
            text.sample(name, &[("result", result)], count);
        }
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Notes that the connection has shown a valid token, lease or credential.
    pub(super) fn prove(&self) {
        self.places.room().change(self.id, |it| it.proven = true);
    }

    /// Notes whether a request runs on the connection: one that is here with its body.
    pub(super) fn set_busy(&self, busy: bool) {
        self.places.room().change(self.id, |it| it.busy = busy);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.room().leave(self.id);
    }
}

struct Room {
    all: usize,
    per_source: usize,
    next: Id,
    connections: HashMap<Id, Connection>,
    sources: HashMap<[u8; 8], Source>,
    /// Of each source with connections that may go. The last entry names the first one to go.
    crowds: BTreeSet<Crowd>,
    /// Connections that found no place.
    refused: u64,
    /// Connections that lost theirs.
    evicted: u64,
}

/// How many connections of a source may go, whether some are unproven, and which one goes first.
type Crowd = (usize, bool, Reverse<Id>);

struct Connection {
    source: [u8; 8],
    proven: bool,
    busy: bool,
    /// Dropping it with the entry tells the connection's task to end.
    _stays: oneshot::Sender<()>,
}

#[derive(Default)]
struct Source {
    all: usize,
    unproven: BTreeSet<Id>,
    idle: BTreeSet<Id>,
}

impl Source {
    /// The oldest unproven one goes first, or else the oldest idle one.
    fn crowd(&self) -> Option<Crowd> {
        let count = self.unproven.len() + self.idle.len();
        let first = self.unproven.first().or(self.idle.first())?;
        Some((count, !self.unproven.is_empty(), Reverse(*first)))
    }
}

impl Room {
    fn enter(&mut self, key: [u8; 8]) -> Option<(Id, Evicted)> {
        let own = self.sources.get(&key);
        match own.filter(|own| own.all >= self.per_source) {
            Some(own) => {
                let (_, _, Reverse(first)) = own.crowd()?;
                self.evict(first);
            }
            None if self.connections.len() >= self.all => self.make_way()?,
            None => {}
        }
        let (stays, evicted) = oneshot::channel();
        let id = self.next;
        self.next += 1;
        let connection = Connection {
            source: key,
            proven: false,
            busy: false,
            _stays: stays,
        };
        self.count(id, &connection, true);
        self.connections.insert(id, connection);
        Some((id, evicted))
    }

    /// Evicts a connection of the source that has most of those that may go, so that a few sources
    /// push out only each other, whatever they have proven.
    fn make_way(&mut self) -> Option<()> {
        let (_, _, Reverse(first)) = *self.crowds.last()?;
        self.evict(first);
        Some(())
    }

    fn evict(&mut self, id: Id) {
        self.evicted += 1;
        self.leave(id);
    }

    fn leave(&mut self, id: Id) {
        if let Some(connection) = self.connections.remove(&id) {
            self.count(id, &connection, false);
        }
    }

    fn change(&mut self, id: Id, change: impl FnOnce(&mut Connection)) {
        // It may have been evicted.
        let Some(mut connection) = self.connections.remove(&id) else {
            return;
        };
        self.count(id, &connection, false);
        change(&mut connection);
        self.count(id, &connection, true);
        self.connections.insert(id, connection);
    }

    /// Adds a connection to the sets it belongs to, or takes it out of them.
    fn count(&mut self, id: Id, connection: &Connection, enters: bool) {
        fn put(set: &mut BTreeSet<Id>, id: Id, enters: bool) {
            match enters {
                true => set.insert(id),
                false => set.remove(&id),
            };
        }
        let source = self.sources.entry(connection.source).or_default();
        if let Some(crowd) = source.crowd() {
            self.crowds.remove(&crowd);
        }
        match enters {
            true => source.all += 1,
            false => source.all -= 1,
        }
        match (connection.proven, connection.busy) {
            (false, _) => put(&mut source.unproven, id, enters),
            (true, false) => put(&mut source.idle, id, enters),
            (true, true) => {}
        }
        if let Some(crowd) = source.crowd() {
            self.crowds.insert(crowd);
        }
        if source.all == 0 {
            self.sources.remove(&connection.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(host: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, host], 5))
    }

    fn gone(evicted: &mut Evicted) -> bool {
        evicted.try_recv() != Err(oneshot::error::TryRecvError::Empty)
    }

    #[test]
    fn a_crowded_source_makes_way_and_nobody_else() {
        let places = Places::new(10, 8);
        let mut honest: Vec<_> = (0..2).map(|n| places.enter(from(n)).unwrap()).collect();
        let mut crowd: Vec<_> = (0..8).map(|_| places.enter(from(9)).unwrap()).collect();
        let mut late = places.enter(from(3)).unwrap();
        assert!(gone(&mut crowd[0].1), "the oldest of those that are most");
        // A second crowd takes the first one's places, until they have as many.
        let mut second: Vec<_> = (0..20).map(|_| places.enter(from(8)).unwrap()).collect();
        assert!(!honest.iter_mut().any(|(_, evicted)| gone(evicted)) && !gone(&mut late.1));
        let stay = |crowd: &mut Vec<(Place, Evicted)>| {
            let stay = crowd
                .iter_mut()
                .filter_map(|(_, it)| (!gone(it)).then_some(()));
            stay.count()
        };
        let (first, second) = (stay(&mut crowd), stay(&mut second));
        assert_eq!(first + second, 7);
        assert!(first.abs_diff(second) <= 1, "{first} {second}");
    }

    #[test]
    fn unproven_ones_go_before_idle_ones_and_busy_ones_stay() {
        let places = Places::new(3, 3);
        let enter = |host| places.enter(from(host));
        let mut busy = enter(1).unwrap();
        busy.0.prove();
        busy.0.set_busy(true);
        let mut idle = enter(2).unwrap();
        idle.0.set_busy(true);
        idle.0.prove();
        idle.0.set_busy(false);
        let mut new = enter(3).unwrap();
        new.0.set_busy(true);
        let mut newer = enter(4).unwrap();
        assert!(gone(&mut new.1) && !gone(&mut idle.1) && !gone(&mut busy.1));
        newer.0.prove();
        newer.0.set_busy(true);
        let last = enter(5).unwrap();
        assert!(gone(&mut idle.1) && !gone(&mut newer.1) && !gone(&mut busy.1));
        last.0.prove();
        last.0.set_busy(true);
        assert!(enter(6).is_none(), "all are at work");
        drop(last);
        assert!(enter(6).is_some());
        assert!(!gone(&mut busy.1) && !gone(&mut newer.1));
        let mut text = Exposition::default();
        places.expose(&mut text);
        let text = text.into_text();
        for sample in [
            "manyway_registry_connections 2",
            "manyway_registry_connections_total{result=\"accepted\"} 6",
            "manyway_registry_connections_total{result=\"refused\"} 1",
            "manyway_registry_connections_total{result=\"evicted\"} 2",
        ] {
            assert!(text.lines().any(|line| line == sample), "{sample}: {text}");
        }
    }

    /// Whoever has a valid secret can prove any number of connections, too.
    #[test]
    fn a_crowd_that_has_proven_itself_makes_way_for_newcomers() {
        let places = Places::new(9, 4);
        let mut crowd: Vec<_> = (0..8).map(|n| places.enter(from(n % 2)).unwrap()).collect();
        crowd.iter().for_each(|(place, _)| place.prove());
        let mut honest = places.enter(from(9)).unwrap();
        for host in [0, 1].repeat(10) {
            crowd.push(places.enter(from(host)).unwrap());
            crowd.last().unwrap().0.prove();
        }
        assert!(!gone(&mut honest.1));
        let mut late = places.enter(from(8)).unwrap();
        assert!(!gone(&mut honest.1) && !gone(&mut late.1));
        let stay = crowd
            .iter_mut()
            .filter_map(|(_, it)| (!gone(it)).then_some(()));
        assert_eq!(stay.count(), 7);
    }

    #[test]
    fn a_source_at_its_bound_takes_its_own_places() {
        let places = Places::new(10, 2);
        let mut other = places.enter(from(2)).unwrap();
        let mut own: Vec<_> = (0..2).map(|_| places.enter(from(1)).unwrap()).collect();
        own[0].0.prove();
        own.push(places.enter(from(1)).unwrap());
        assert!(gone(&mut own[1].1) && !gone(&mut own[0].1));
        own[2].0.prove();
        own.push(places.enter(from(1)).unwrap());
        assert!(gone(&mut own[0].1), "the oldest idle one");
        own[2].0.set_busy(true);
        own[3].0.prove();
        own[3].0.set_busy(true);
        assert!(places.enter(from(1)).is_none());
        assert!(!gone(&mut other.1));
    }

    #[test]
    fn nothing_is_kept_of_those_that_left() {
        let places = Places::new(10, 10);
        for host in 0..100 {
            let entered = places.enter(from(host % 7)).unwrap();
            entered.0.set_busy(true);
            if host % 2 == 0 {
                entered.0.prove();
            }
            entered.0.set_busy(false);
            if host % 3 == 0 {
                places.make_way().unwrap();
                entered.0.set_busy(true);
            }
        }
        assert_eq!(places.make_way(), None);
        let room = places.room();
        assert!(room.connections.is_empty() && room.sources.is_empty());
        assert!(room.crowds.is_empty());
    }
}
