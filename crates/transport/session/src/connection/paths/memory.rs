//! What paths between two hosts carried, for the next one between them: of a connection that comes
//! later, or of an interface that comes back.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use manyway_control::Remembered;
use manyway_units::Time;

use crate::budget::{MEMORIES, MEMORY_LASTS};

#[derive(Debug)]
struct Entry {
    hosts: (IpAddr, IpAddr),
    at: Time,
    remembered: Remembered,
}

/// What all paths of an endpoint have left, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathMemory(Arc<Mutex<VecDeque<Entry>>>);

impl PathMemory {
    /// Our address and the peer's; the path was last heard of at that time.
    pub(crate) fn note(&self, hosts: (IpAddr, IpAddr), at: Time, remembered: Remembered) {
        self.with(|entries| {
            entries.retain(|entry| entry.hosts != hosts);
            if entries.len() == MEMORIES {
                entries.pop_front();
            }
            entries.push_back(Entry {
                hosts,
                at,
                remembered,
            });
        });
    }

    /// Takes it out: two paths at once would jump to twice of half.
    pub(crate) fn take(&self, now: Time, hosts: (IpAddr, IpAddr)) -> Option<Remembered> {
        self.with(|entries| {
            entries.retain(|entry| now.since(entry.at) <= MEMORY_LASTS);
            let at = entries.iter().position(|entry| entry.hosts == hosts)?;
            Some(entries.remove(at)?.remembered)
        })
    }

    fn with<R>(&self, act: impl FnOnce(&mut VecDeque<Entry>) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn hosts(n: u16) -> (IpAddr, IpAddr) {
        let [high, low] = n.to_be_bytes();
        (
            IpAddr::from([10, 0, 0, 1]),
            IpAddr::from([10, 1, high, low]),
        )
    }

    fn carried(bytes: u64) -> Remembered {
        Remembered {
            bytes,
            min_rtt: Duration::from_millis(20),
        }
    }

    #[test]
    fn it_is_taken_once_and_lasts_for_a_while() {
        let memory = PathMemory::default();
        let then = Time::from_millis(5000);
        memory.note(hosts(1), then, carried(1));
        memory.clone().note(hosts(1), then, carried(2));
        assert_eq!(memory.take(then, hosts(2)), None);
        assert_eq!(memory.take(then + MEMORY_LASTS, hosts(1)), Some(carried(2)));
        assert_eq!(memory.take(then, hosts(1)), None);
        memory.note(hosts(1), then, carried(1));
        let late = then + MEMORY_LASTS + Duration::from_millis(1);
        assert_eq!(memory.take(late, hosts(1)), None);
    }

    #[test]
    fn so_many_are_kept() {
        let memory = PathMemory::default();
        for n in 0..=MEMORIES as u16 {
            memory.note(hosts(n), Time::ZERO, carried(1));
        }
        assert_eq!(memory.0.lock().unwrap().len(), MEMORIES);
        assert!(memory.take(Time::ZERO, hosts(0)).is_none());
        assert!(memory.take(Time::ZERO, hosts(1)).is_some());
    }
}
