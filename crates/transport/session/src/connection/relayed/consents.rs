//! The listener's side of relays: which ones the initiator has named, what was passed on about
//! them, and grants that came before their paths.
//!
//! It owns one record for each slot and bounds how many relays may be named. It asks no relay
//! anything: the endpoint keeps in touch with them, and hears from here which are wanted.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use manyway_units::Time;
use manyway_wire::relay::{CONSENT_LIFE, Grant, RelayId, StaleReason};
use manyway_wire::{Frame, PathId};

use crate::relays::{Fresh, HEED, RelayAddress};

use super::super::core::Core;
use super::super::outbox::{Change, Outbox};
use super::super::paths::{Path, PathSet, RelayHeader};

/// The relays that the initiator has named: one for each slot at most.
#[derive(Debug, Default)]
pub(super) struct Consents {
    slots: BTreeMap<u16, Slot>,
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
    /// When a consent was passed on, and for which of our addresses.
    told: Option<(Time, SocketAddr)>,
    /// When it last turned out that the relay stays, though somebody had said that it leaves.
    stayed: Option<Time>,
}

impl Consents {
    /// Whether one more relay may be named: all slots once, then one a second. Each makes us send
    /// to an address that the peer has chosen.
    fn admits(&mut self, now: Time) -> bool {
        let since = *self.since.get_or_insert(now);
        let admitted = self.named < manyway_wire::MAX_RELAYS as u64 + now.since(since).as_secs();
        self.named += u64::from(admitted);
        admitted
    }

    /// The initiator names a relay, asks for a new consent, or empties a slot. The codec bounds the
    /// number of slots.
    pub(super) fn on_relay(
        &mut self,
        now: Time,
        slot: u16,
        seq: u64,
        relay: Option<(SocketAddr, RelayId)>,
        outbox: &mut Outbox,
    ) {
        let mut relay = relay.map(|(address, id)| RelayAddress { address, id });
        let known = self.slots.get(&slot);
        let is_new = relay.is_some() && known.is_none_or(|known| known.relay != relay);
        if is_new && !self.admits(now) {
            // It may ask again later.
            relay = None;
        }
        let known = self.slots.entry(slot).or_insert(Slot {
            seq,
            relay: None,
            told: None,
            stayed: None,
        });
        if seq < known.seq {
            return;
        }
        let before = std::mem::replace(&mut known.relay, relay);
        let newer = std::mem::replace(&mut known.seq, seq) < seq;
        if before == relay && !newer {
            // A copy of a frame that came before.
            return;
        }
        known.told = None;
        if before == relay {
            if let Some(relay) = relay {
                outbox.change(Change::RelayRefreshed(relay));
            }
            return;
        }
        // The same relay may be in two slots, if the initiator wishes.
        let kept = |gone: &RelayAddress| self.slots.values().any(|s| s.relay == Some(*gone));
        if let Some(gone) = before.filter(|gone| !kept(gone)) {
            outbox.change(Change::RelayDropped(gone));
        }
        if let Some(relay) = relay {
            outbox.change(Change::RelayWanted(relay));
        }
    }

    /// A relay has just consented to forward to us: the initiator hears of it when it needs to.
    pub(super) fn on_fresh(&mut self, now: Time, fresh: Fresh, core: &mut Core) {
        let Fresh { relay, consent } = fresh;
        self.on_relay_stays(now, relay.address, core);
        for (&slot, known) in &mut self.slots {
            if known.relay != Some(relay) {
                continue;
            }
            // Half of a grant's life: the one minted with the last consent holds for another half.
            let enough = known
                .told
                .is_some_and(|(at, address)| now < at + CONSENT_LIFE && address == consent.address);
            if enough {
                continue;
            }
            known.told = Some((now, consent.address));
            let seq = known.seq;
            let is_void =
                |f: &Frame<'_>| matches!(f, Frame::Consent { slot: other, .. } if *other == slot);
            let frame = Frame::Consent { slot, seq, consent };
            core.outbox.say_instead(frame, is_void);
        }
    }

    /// A relay doesn't honour what goes in front of our datagrams: who asked for it shall get a new
    /// consent.
    ///
    /// Whoever sees our packets can say in its name that it is leaving. It is greeted, and if it
    /// answers, it stays.
    pub(super) fn on_stale(
        &mut self,
        now: Time,
        address: SocketAddr,
        reason: StaleReason,
        paths: &mut PathSet,
    ) {
        let mut leaves = reason == StaleReason::Leaving;
        for known in self.slots.values_mut() {
            if known.relay.is_some_and(|relay| relay.address == address) {
                known.told = None;
                leaves &= known.stayed.is_none_or(|at| at + HEED <= now);
            }
        }
        if leaves {
            for index in by_way_of(paths, address) {
                paths.set_backup(now, index, true);
            }
        }
    }

    /// A relay that doubts were cast on has answered.
    fn on_relay_stays(&mut self, now: Time, address: SocketAddr, core: &mut Core) {
        if core.paths.backups().is_empty() {
            return;
        }
        let mut cleared = false;
        for index in by_way_of(&core.paths, address) {
            if core.paths.backups().contains(&index) {
                core.paths.set_backup(now, index, false);
                cleared = true;
            }
        }
        let here = |slot: &&mut Slot| slot.relay.is_some_and(|relay| relay.address == address);
        for slot in self.slots.values_mut().filter(here) {
            slot.stayed = cleared.then_some(now).or(slot.stayed);
        }
    }

    /// What goes in front of our datagrams on a path. It may come before the path's first packet;
    /// there are never more ids ahead than we have issued.
    pub(super) fn on_grant(&mut self, id: PathId, seq: u64, grant: Grant, core: &mut Core) {
        let header = RelayHeader::back(grant, seq);
        let newer = |known: Option<&RelayHeader>| known.is_none_or(|known| known.seq < seq);
        if let Some(index) = core.paths.index_of(id) {
            if newer(core.paths[index].relay()) {
                core.paths[index].set_relay(header);
            }
        } else if core.ids.local(id).is_some() && newer(self.early_grants.get(&id)) {
            self.early_grants.insert(id, header);
        }
    }

    /// The grant of a path whose first packet has just come, or which never will be.
    pub(super) fn take_early_grant(&mut self, id: PathId) -> Option<RelayHeader> {
        self.early_grants.remove(&id)
    }
}

/// Paths through the relay at this address.
fn by_way_of(paths: &PathSet, address: SocketAddr) -> Vec<usize> {
    paths.indices(|path| path.remote() == address && path.relay().is_some())
}

/// Whether a path of ours, by way of the relay at this address, has a grant like this in front of
/// its datagrams.
pub(super) fn has_grant(
    paths: &PathSet,
    address: SocketAddr,
    is_it: impl Fn(&Grant) -> bool,
) -> bool {
    let grant = |path: &Path| path.relay().map(|relay| relay.grant);
    let here = |path: &Path| path.remote() == address && grant(path).is_some_and(|g| is_it(&g));
    !paths.indices(here).is_empty()
}

#[cfg(test)]
mod tests {
    use manyway_wire::relay::{ForwardHeader, RelayType};

    use super::super::super::core::tests::{address, core, open};
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
        let (mut consents, mut outbox) = (Consents::default(), Outbox::default());
        consents.on_relay(T0, 0, 0, relay(1), &mut outbox);
        assert_eq!(outbox.take_changes(), [Change::RelayWanted(named(1))]);
        consents.on_relay(T0, 0, 0, relay(1), &mut outbox);
        assert_eq!(outbox.take_changes(), [], "a copy");
        consents.on_relay(T0, 0, 1, relay(1), &mut outbox);
        assert_eq!(outbox.take_changes(), [Change::RelayRefreshed(named(1))]);
        consents.on_relay(T0, 0, 0, None, &mut outbox);
        assert_eq!(outbox.take_changes(), [], "older than what is known");
        consents.on_relay(T0, 1, 0, relay(1), &mut outbox);
        outbox.take_changes();
        consents.on_relay(T0, 0, 2, None, &mut outbox);
        assert_eq!(outbox.take_changes(), [], "the other slot has it still");
        consents.on_relay(T0, 1, 1, relay(2), &mut outbox);
        let changes = [
            Change::RelayDropped(named(1)),
            Change::RelayWanted(named(2)),
        ];
        assert_eq!(outbox.take_changes(), changes);
    }

    #[test]
    fn an_initiator_can_not_make_us_send_to_ever_more_addresses() {
        let (mut consents, mut outbox) = (Consents::default(), Outbox::default());
        let most = manyway_wire::MAX_RELAYS as u64;
        for seq in 0..most + 100 {
            consents.on_relay(T0, 0, seq, relay(1 + (seq % 2) as u8), &mut outbox);
        }
        let wanted = outbox.take_changes().into_iter();
        let wanted = wanted.filter(|change| matches!(change, Change::RelayWanted(_)));
        assert_eq!(wanted.count() as u64, most);
        let later = Time::from_millis(1000);
        consents.on_relay(later, 0, most + 100, relay(1), &mut outbox);
        assert_eq!(outbox.take_changes(), [Change::RelayWanted(named(1))]);
    }

    #[test]
    fn grants_wait_for_their_paths_and_newer_ones_win() {
        let (mut consents, mut core) = (Consents::default(), core(false));
        core.issue_cids(T0);
        let grant = |tag: u8| {
            let mut bytes = [0; ForwardHeader::LEN_V4];
            (bytes[0], bytes[7]) = (RelayType::Forward4 as u8, tag);
            Grant::decode(&bytes).expect("a grant")
        };
        consents.on_grant(PathId(3), 2, grant(2), &mut core);
        consents.on_grant(PathId(3), 1, grant(1), &mut core);
        consents.on_grant(PathId(99), 1, grant(1), &mut core);
        assert_eq!(
            consents.early_grants.len(),
            1,
            "for ids that we have issued"
        );
        let header = consents.take_early_grant(PathId(3)).expect("it waits");
        assert_eq!((header.seq, header.grant), (2, grant(2)));
        let index = open(&mut core, 3);
        consents.on_grant(PathId(3), 5, grant(5), &mut core);
        consents.on_grant(PathId(3), 4, grant(4), &mut core);
        assert_eq!(core.paths[index].relay().map(|r| r.seq), Some(5));
        assert!(has_grant(&core.paths, address(3), |g| *g == grant(5)));
        assert!(!has_grant(&core.paths, address(4), |g| *g == grant(5)));
    }
}
