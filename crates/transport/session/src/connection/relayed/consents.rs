//! The listener's side of relays: which ones the initiator has named, what was passed on about
//! them, and grants that came before their paths.
//!
//! It owns one record for each slot, and bounds how many relays may be named and what they may be
//! sent before they answer. It asks no relay anything: the endpoint keeps in touch with them, and
//! hears from here which are wanted.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use manyway_units::Time;
use manyway_wire::relay::{CONSENT_LIFE, Grant, RelayId, Stale, StaleReason};
use manyway_wire::{Frame, PathId};

use crate::budget::RELAY_MEMORY;
use crate::relays::{Fresh, HEED, RelayAddress};

use super::super::outbox::Change;
use super::super::paths::{Named, NamedInAll, Path, PathSet, RelayHeader};
use super::action::Action;

/// The relays that the initiator has named: one for each slot at most.
#[derive(Debug)]
pub(crate) struct Consents {
    slots: BTreeMap<u16, Slot>,
    /// What goes to them before they answer.
    budget: Named,
    /// Relays named so far, and when the first was.
    named: u64,
    since: Option<Time>,
    /// Grants of paths whose first packet is still to come.
    early_grants: BTreeMap<PathId, RelayHeader>,
}

#[derive(Debug)]
struct Slot {
    seq: u64,
    relay: Option<RelayAddress>,
    /// It has answered us since it was named.
    answered: bool,
    /// When a consent was passed on, and for which of our addresses.
    told: Option<(Time, SocketAddr)>,
    /// When it last turned out that the relay stays, though somebody had said that it leaves.
    stayed: Option<Time>,
}

impl Consents {
    pub(crate) fn new(named_in_all: NamedInAll) -> Self {
        Self {
            slots: BTreeMap::new(),
            budget: Named::new(named_in_all),
            named: 0,
            since: None,
            early_grants: BTreeMap::new(),
        }
    }

    /// A datagram of the peer's has opened.
    pub(crate) fn on_received(&mut self, bytes: usize) {
        self.budget.on_received(bytes);
    }

    /// Charges the peer for what goes to a relay that it has named; whether it may go.
    pub(crate) fn charge(&mut self, now: Time, bytes: u64) -> bool {
        self.budget.charge(now, bytes).is_ok()
    }

    /// The relay has answered.
    pub(crate) fn refund(&mut self, bytes: u64) {
        self.budget.refund(bytes);
    }

    /// Memory that the named relays take, here and at the endpoint, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.slots.len() * RELAY_MEMORY
    }

    /// Lets go of all relays; what the endpoint has to hear.
    pub(crate) fn discard(&mut self) -> Vec<Change> {
        let slots = std::mem::take(&mut self.slots);
        let relays = slots.into_values().filter_map(|slot| slot.relay);
        relays.map(Change::RelayDropped).collect()
    }

    /// Whether one more relay may be named: all slots once, then one a second. Each makes us send
    /// to an address that the peer has chosen.
    fn admits(&mut self, now: Time) -> bool {
        let since = *self.since.get_or_insert(now);
        let admitted = self.named < manyway_wire::MAX_RELAYS as u64 + now.since(since).as_secs();
        self.named += u64::from(admitted);
        admitted
    }

    /// The initiator names a relay, asks for a new consent, or empties a slot; what the endpoint
    /// has to hear. The codec bounds the number of slots.
    pub(crate) fn on_relay(
        &mut self,
        now: Time,
        slot: u16,
        seq: u64,
        relay: Option<(SocketAddr, RelayId)>,
    ) -> Vec<Change> {
        let mut relay = relay.map(|(address, id)| RelayAddress { address, id });
        let known = self.slots.get(&slot);
        if known.is_some_and(|known| seq < known.seq) {
            return Vec::new();
        }
        let is_new = relay.is_some() && known.is_none_or(|known| known.relay != relay);
        if is_new && !self.admits(now) {
            // It may ask again later.
            relay = None;
        }
        let known = self.slots.entry(slot).or_insert(Slot {
            seq,
            relay: None,
            answered: false,
            told: None,
            stayed: None,
        });
        let before = std::mem::replace(&mut known.relay, relay);
        let newer = std::mem::replace(&mut known.seq, seq) < seq;
        if before == relay && !newer {
            // A copy of a frame that came before.
            return Vec::new();
        }
        known.told = None;
        known.answered &= before == relay;
        if before == relay {
            return relay.map(Change::RelayRefreshed).into_iter().collect();
        }
        // The same relay may be in two slots, if the initiator wishes.
        let kept = |gone: &RelayAddress| self.slots.values().any(|s| s.relay == Some(*gone));
        let gone = before.filter(|gone| !kept(gone)).map(Change::RelayDropped);
        gone.into_iter()
            .chain(relay.map(Change::RelayWanted))
            .collect()
    }

    /// A relay has just consented to forward to us: the initiator hears of it when it needs to.
    pub(crate) fn on_fresh(&mut self, now: Time, fresh: Fresh, paths: &PathSet) -> Vec<Action> {
        let Fresh { relay, consent } = fresh;
        let mut actions = self.on_relay_stays(now, relay.address, paths);
        for (&slot, known) in &mut self.slots {
            if known.relay != Some(relay) {
                continue;
            }
            known.answered = true;
            // Half of a grant's life: the one minted with the last consent holds for another half.
            let enough = known
                .told
                .is_some_and(|(at, address)| now < at + CONSENT_LIFE && address == consent.address);
            if enough {
                continue;
            }
            known.told = Some((now, consent.address));
            let seq = known.seq;
            actions.push(Action::Say(Frame::Consent { slot, seq, consent }));
        }
        actions
    }

    /// Whether a relay at this address, which the initiator has named, has answered us. An address
    /// that only the initiator speaks of may be a stranger's.
    pub(crate) fn has_answered(&self, address: SocketAddr) -> bool {
        let here = |slot: &Slot| slot.relay.is_some_and(|relay| relay.address == address);
        self.slots.values().any(|slot| slot.answered && here(slot))
    }

    /// A relay doesn't honour what goes in front of some datagrams: if they are ours, who asked for
    /// it shall get a new consent. `None` if they aren't.
    ///
    /// Whoever sees our packets can say in its name that it is leaving. It is greeted, and if it
    /// answers, it stays.
    pub(crate) fn on_stale(
        &mut self,
        now: Time,
        address: SocketAddr,
        stale: &Stale,
        paths: &PathSet,
    ) -> Option<Vec<Action>> {
        if !has_grant(paths, address, |grant| stale.concerns(grant)) {
            return None;
        }
        let mut leaves = stale.reason == StaleReason::Leaving;
        for known in self.slots.values_mut() {
            if known.relay.is_some_and(|relay| relay.address == address) {
                known.told = None;
                leaves &= known.stayed.is_none_or(|at| at + HEED <= now);
            }
        }
        let backups = leaves.then(|| by_way_of(paths, address));
        let backups = backups.into_iter().flatten();
        Some(backups.map(|index| Action::Backup(index, true)).collect())
    }

    /// A relay that doubts were cast on has answered.
    fn on_relay_stays(&mut self, now: Time, address: SocketAddr, paths: &PathSet) -> Vec<Action> {
        if paths.backups().is_empty() {
            return Vec::new();
        }
        let mut cleared = by_way_of(paths, address);
        cleared.retain(|index| paths.backups().contains(index));
        let here = |slot: &&mut Slot| slot.relay.is_some_and(|relay| relay.address == address);
        for slot in self.slots.values_mut().filter(here) {
            slot.stayed = (!cleared.is_empty()).then_some(now).or(slot.stayed);
        }
        let cleared = cleared.into_iter();
        cleared.map(|index| Action::Backup(index, false)).collect()
    }

    /// What goes in front of our datagrams on a path. It may come before the path's first packet,
    /// but only for an id that was `issued`.
    pub(crate) fn on_grant(
        &mut self,
        (id, issued): (PathId, bool),
        seq: u64,
        grant: Grant,
        paths: &PathSet,
    ) -> Option<Action> {
        let header = RelayHeader::back(grant, seq);
        let newer = |known: Option<&RelayHeader>| known.is_none_or(|known| known.seq < seq);
        if let Some(index) = paths.index_of(id) {
            return newer(paths[index].relay()).then_some(Action::Renew(index, header, None));
        }
        if issued && newer(self.early_grants.get(&id)) {
            self.early_grants.insert(id, header);
        }
        None
    }

    /// The grant of a path whose first packet has just come, or which never will be.
    pub(crate) fn take_early_grant(&mut self, id: PathId) -> Option<RelayHeader> {
        self.early_grants.remove(&id)
    }
}

/// Paths through the relay at this address.
fn by_way_of(paths: &PathSet, address: SocketAddr) -> Vec<usize> {
    paths.indices(|path| path.remote() == address && path.relay().is_some())
}

/// Whether a path of ours, by way of the relay at this address, has a grant like this in front of
/// its datagrams.
fn has_grant(paths: &PathSet, address: SocketAddr, is_it: impl Fn(&Grant) -> bool) -> bool {
    let grant = |path: &Path| path.relay().map(|relay| relay.grant);
    let here = |path: &Path| path.remote() == address && grant(path).is_some_and(|g| is_it(&g));
    !paths.indices(here).is_empty()
}

#[cfg(test)]
mod tests {
    use manyway_wire::relay::{Consent, ForwardHeader, Mac, RelayType};

    use super::super::super::core::tests::{address, new_path, paths};
    use super::*;

    const T0: Time = Time::ZERO;

    fn relay(last: u8) -> Option<(SocketAddr, RelayId)> {
        Some((address(last), RelayId([last; RelayId::LEN])))
    }

    fn named(last: u8) -> RelayAddress {
        let (address, id) = relay(last).expect("some");
        RelayAddress { address, id }
    }

    #[test]
    fn a_relay_is_wanted_once_and_dropped_with_its_last_slot() {
        let mut consents = Consents::new(NamedInAll::default());
        assert_eq!(
            consents.on_relay(T0, 0, 0, relay(1)),
            [Change::RelayWanted(named(1))]
        );
        assert_eq!(consents.on_relay(T0, 0, 0, relay(1)), [], "a copy");
        assert_eq!(
            consents.on_relay(T0, 0, 1, relay(1)),
            [Change::RelayRefreshed(named(1))]
        );
        assert_eq!(
            consents.on_relay(T0, 0, 0, None),
            [],
            "older than what is known"
        );
        consents.on_relay(T0, 1, 0, relay(1));
        assert_eq!(
            consents.on_relay(T0, 0, 2, None),
            [],
            "the other slot has it still"
        );
        let changes = [
            Change::RelayDropped(named(1)),
            Change::RelayWanted(named(2)),
        ];
        assert_eq!(consents.on_relay(T0, 1, 1, relay(2)), changes);
    }

    /// What the initiator says of an address isn't enough to lead a path there.
    #[test]
    fn a_relay_has_answered_until_another_takes_its_slot() {
        let (mut consents, paths) = (Consents::new(NamedInAll::default()), paths(false));
        consents.on_relay(T0, 0, 0, relay(1));
        assert!(!consents.has_answered(address(1)));
        let consent = Consent {
            key: 0,
            issued: 0,
            address: address(5),
            mac: Mac([0; 8]),
        };
        let fresh = |last| Fresh {
            relay: named(last),
            consent,
        };
        consents.on_fresh(T0, fresh(2), &paths);
        assert!(!consents.has_answered(address(1)) && !consents.has_answered(address(2)));
        consents.on_fresh(T0, fresh(1), &paths);
        consents.on_relay(T0, 0, 1, relay(1));
        assert!(
            consents.has_answered(address(1)),
            "also when it is asked again"
        );
        consents.on_relay(T0, 0, 2, relay(2));
        assert!(!consents.has_answered(address(1)) && !consents.has_answered(address(2)));
    }

    #[test]
    fn an_initiator_can_not_make_us_send_to_ever_more_addresses() {
        let mut consents = Consents::new(NamedInAll::default());
        let most = manyway_wire::MAX_RELAYS as u64;
        let changes = (0..most + 100)
            .flat_map(|seq| consents.on_relay(T0, 0, seq, relay(1 + (seq % 2) as u8)));
        let wanted = changes.filter(|change| matches!(change, Change::RelayWanted(_)));
        assert_eq!(wanted.count() as u64, most);
        let later = Time::from_millis(1000);
        assert_eq!(
            consents.on_relay(later, 0, most + 100, relay(1)),
            [Change::RelayWanted(named(1))]
        );
    }

    /// Frames of several paths overtake each other.
    #[test]
    fn what_comes_late_uses_up_nothing() {
        let mut consents = Consents::new(NamedInAll::default());
        consents.on_relay(T0, 0, 1000, relay(1));
        for seq in 0..1000 {
            assert_eq!(consents.on_relay(T0, 0, seq, relay(2)), []);
        }
        let wanted = [Change::RelayWanted(named(3))];
        assert_eq!(consents.on_relay(T0, 1, 0, relay(3)), wanted);
    }

    #[test]
    fn grants_wait_for_their_paths_and_newer_ones_win() {
        let (mut consents, mut paths) = (Consents::new(NamedInAll::default()), paths(false));
        let grant = |tag: u8| {
            let mut bytes = [0; ForwardHeader::LEN_V4];
            (bytes[0], bytes[7]) = (RelayType::Forward4 as u8, tag);
            Grant::decode(&bytes).expect("a grant")
        };
        let (ours, unknown) = ((PathId(3), true), (PathId(99), false));
        for (id, seq) in [(ours, 2), (ours, 1), (unknown, 1)] {
            let action = consents.on_grant(id, seq, grant(seq as u8), &paths);
            assert!(action.is_none());
        }
        assert_eq!(
            consents.early_grants.len(),
            1,
            "for ids that we have issued"
        );
        let header = consents.take_early_grant(PathId(3)).expect("it waits");
        assert_eq!((header.seq, header.grant), (2, grant(2)));
        let index = paths.add(T0, new_path(3), None);
        let action = consents.on_grant(ours, 5, grant(5), &paths);
        let Some(Action::Renew(of, header, None)) = action else {
            panic!("{action:?}");
        };
        assert_eq!((of, header.seq), (index, 5));
        paths[index].set_relay(header);
        assert!(consents.on_grant(ours, 4, grant(4), &paths).is_none());
        assert!(has_grant(&paths, address(3), |g| *g == grant(5)));
        assert!(!has_grant(&paths, address(4), |g| *g == grant(5)));
    }
}
