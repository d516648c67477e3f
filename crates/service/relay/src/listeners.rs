//! The listeners by name, in a table of fixed size.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use manyway_wire::relay::{CONSENT_LIFE, ListenerName};
use siphasher::sip128::SipHasher13;

/// Entries in which a name can be.
const WAYS: usize = 4;

/// Names, and the addresses from which their listeners were last heard. An entry ends after a
/// minute. If there is no room, the oldest entry makes way.
///
/// Columns of integers, all zero at first, so that the system provides memory only for what is
/// used.
pub(crate) struct Listeners {
    names: Box<[u128]>,
    ips: Box<[u128]>,
    ports: Box<[u16]>,
    /// Unix time; 0 where there is no entry.
    seen: Box<[u32]>,
    key: SipHasher13,
}

impl Listeners {
    /// Room for four times `sets` names, a power of two.
    pub(crate) fn new(sets: usize, mut random: impl FnMut() -> u64) -> Self {
        let len = sets.next_power_of_two() * WAYS;
        Self {
            names: vec![0; len].into(),
            ips: vec![0; len].into(),
            ports: vec![0; len].into(),
            seen: vec![0; len].into(),
            key: SipHasher13::new_with_keys(random(), random()),
        }
    }

    /// Notes that `address` listens under `name` at time `now`. The latest address counts.
    pub(crate) fn insert(&mut self, name: ListenerName, address: SocketAddr, now: u32) {
        let at = self.find_entry(&name).unwrap_or_else(|| {
            let oldest = self.set(&name).min_by_key(|at| self.seen[*at]);
            oldest.expect("a set has entries")
        });
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        self.names[at] = u128::from_be_bytes(name.0);
        self.ips[at] = ip.to_bits();
        self.ports[at] = address.port();
        self.seen[at] = now;
    }

    /// The address that listens under `name`, and when it was last heard.
    pub(crate) fn find(&self, name: &ListenerName, now: u32) -> Option<(SocketAddr, u32)> {
        let at = self.find_entry(name)?;
        let seen = self.seen[at];
        let fresh = now.saturating_sub(seen) <= CONSENT_LIFE.as_secs() as u32;
        let ip = Ipv6Addr::from_bits(self.ips[at]).to_canonical();
        fresh.then_some((SocketAddr::new(ip, self.ports[at]), seen))
    }

    /// The most bytes that it occupies.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.names)
            + size_of_val(&*self.ips)
            + size_of_val(&*self.ports)
            + size_of_val(&*self.seen)
    }

    fn find_entry(&self, name: &ListenerName) -> Option<usize> {
        let name_bits = u128::from_be_bytes(name.0);
        self.set(name)
            .find(|&at| self.seen[at] != 0 && self.names[at] == name_bits)
    }

    fn set(&self, name: &ListenerName) -> std::ops::Range<usize> {
        let set = self.key.hash(&name.0).h1 as usize & (self.names.len() / WAYS - 1);
        set * WAYS..(set + 1) * WAYS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u32 = 1_800_000_000;

    fn name(number: u32) -> ListenerName {
        ListenerName(u128::from(number).to_be_bytes())
    }

    fn addr(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn the_last_who_says_so_is_found_until_silent_for_a_minute() {
        let mut table = Listeners::new(16, || 7);
        assert_eq!(table.find(&name(1), NOW), None);
        table.insert(name(1), addr(1), NOW);
        let v6 = "[2001:db8::1]:9".parse().unwrap();
        table.insert(name(2), v6, NOW + 5);
        assert_eq!(table.find(&name(1), NOW + 60), Some((addr(1), NOW)));
        assert_eq!(table.find(&name(1), NOW + 61), None);
        assert_eq!(table.find(&name(2), NOW + 61), Some((v6, NOW + 5)));
        table.insert(name(1), addr(2), NOW + 70);
        assert_eq!(table.find(&name(1), NOW + 70), Some((addr(2), NOW + 70)));
        // Nobody has the name that empty entries seem to have.
        assert_eq!(table.find(&ListenerName::NONE, NOW), None);
    }

    #[test]
    fn the_oldest_makes_room_and_the_table_never_grows() {
        let mut table = Listeners::new(1, || 7);
        let memory = table.memory();
        for number in 0..4 {
            table.insert(name(number), addr(1), NOW + number);
        }
        table.insert(name(0), addr(1), NOW + 10);
        table.insert(name(9), addr(1), NOW + 11);
        let found = |number| table.find(&name(number), NOW + 11).is_some();
        assert!(found(0) && !found(1) && found(2) && found(3) && found(9));
        for number in 0..10_000 {
            table.insert(name(number), addr(1), NOW);
        }
        assert_eq!(table.memory(), memory);
    }
}
