//! Who listens under which name: a table of fixed size.

use std::hash::Hasher;
use std::net::SocketAddr;

use manyway_wire::relay::{CONSENT_LIFE, ListenerName};
use siphasher::sip::SipHasher13;

/// Entries that a name can be in.
const WAYS: usize = 4;

/// Names and the consents of those who listen under them. An entry is over when its consent is; where there is no
/// room, the oldest makes it.
pub(crate) struct Listeners {
    entries: Box<[Option<Entry>]>,
    key: (u64, u64),
}

#[derive(Copy, Clone)]
struct Entry {
    name: ListenerName,
    address: SocketAddr,
    seen: u32,
}

impl Listeners {
    pub(crate) fn new(sets: usize, mut random: impl FnMut() -> u64) -> Self {
        Self {
            entries: vec![None; sets.next_power_of_two() * WAYS].into_boxed_slice(),
            key: (random(), random()),
        }
    }

    /// Notes that `address` listens under `name` at time `now`; the last one who says so is found.
    pub(crate) fn insert(&mut self, name: ListenerName, address: SocketAddr, now: u32) {
        let set = self.set(&name);
        let entries = &mut self.entries[set..set + WAYS];
        let age = |entry: &Option<Entry>| entry.map_or(0, |entry| entry.seen);
        let at = match entries
            .iter()
            .position(|entry| entry.is_some_and(|e| e.name == name))
        {
            Some(same) => same,
            None => (0..WAYS).min_by_key(|at| age(&entries[*at])).unwrap_or(0),
        };
        entries[at] = Some(Entry {
            name,
            address,
            seen: now,
        });
    }

    /// Who listens under `name`, and since when it was last known.
    pub(crate) fn find(&self, name: &ListenerName, now: u32) -> Option<(SocketAddr, u32)> {
        let set = self.set(name);
        let entry = self.entries[set..set + WAYS]
            .iter()
            .flatten()
            .find(|entry| entry.name == *name)?;
        let fresh = now.saturating_sub(entry.seen) <= CONSENT_LIFE.as_secs() as u32;
        fresh.then_some((entry.address, entry.seen))
    }

    /// Bytes that it occupies, now and later.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.entries)
    }

    fn set(&self, name: &ListenerName) -> usize {
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        hasher.write(&name.0);
        (hasher.finish() as usize & (self.entries.len() / WAYS - 1)) * WAYS
    }
}
