//! The listener's side of relays: which ones the initiator has named, and what was passed on about
//! them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use manyway_units::Time;
use manyway_wire::relay::{CONSENT_LIFE, Grant, RelayId, StaleReason};
use manyway_wire::{Frame, PathId};

use crate::relays::{Fresh, HEED, RelayAddress};

use super::Connection;
use super::path::Through;
use super::receive::Violation;

/// What the endpoint has to do about relays.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConsentChange {
    /// The peer names a relay.
    Want(RelayAddress),
    /// It asks for a new consent.
    Refresh(RelayAddress),
    /// It doesn't need the relay any more.
    Drop(RelayAddress),
}

/// The relays that the initiator has named: one for each slot at most.
#[derive(Debug, Default)]
pub(super) struct Consents {
    slots: BTreeMap<u16, Slot>,
    changes: Vec<ConsentChange>,
    /// Relays named so far, and when the first was.
    named: u64,
    since: Option<Time>,
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

impl Connection {
    /// The initiator names a relay, asks for a new consent, or empties a slot. The codec bounds the
    /// number of slots.
    pub(super) fn on_relay(
        &mut self,
        now: Time,
        slot: u16,
        seq: u64,
        relay: Option<(SocketAddr, RelayId)>,
    ) -> Result<(), Violation> {
        if self.initiator {
            return Err(Violation("RELAY: only the initiator names relays".into()));
        }
        let mut relay = relay.map(|(address, id)| RelayAddress { address, id });
        let known = self.consents.slots.get(&slot);
        let is_new = relay.is_some() && known.is_none_or(|known| known.relay != relay);
        if is_new && !self.consents.admits(now) {
            // It may ask again later.
            relay = None;
        }
        let Consents { slots, changes, .. } = &mut self.consents;
        let known = slots.entry(slot).or_insert(Slot {
            seq,
            relay: None,
            told: None,
            stayed: None,
        });
        if seq < known.seq {
            return Ok(());
        }
        let before = std::mem::replace(&mut known.relay, relay);
        let newer = std::mem::replace(&mut known.seq, seq) < seq;
        if before == relay && !newer {
            // A copy of a frame that came before.
            return Ok(());
        }
        known.told = None;
        if before == relay {
            changes.extend(relay.map(ConsentChange::Refresh));
            return Ok(());
        }
        // The same relay may be in two slots, if the initiator wishes.
        let kept = |gone: &RelayAddress| slots.values().any(|s| s.relay == Some(*gone));
        let gone = before.filter(|gone| !kept(gone));
        changes.extend(gone.map(ConsentChange::Drop));
        changes.extend(relay.map(ConsentChange::Want));
        Ok(())
    }

    pub(crate) fn take_consent_changes(&mut self) -> Vec<ConsentChange> {
        std::mem::take(&mut self.consents.changes)
    }

    /// A relay has just consented to forward to us: the initiator hears of it when it needs to.
    pub(crate) fn on_fresh_consent(&mut self, now: Time, fresh: Fresh) {
        let Fresh { relay, consent } = fresh;
        self.on_relay_stays(now, relay.address);
        for (&slot, known) in &mut self.consents.slots {
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
            self.control
                .retain(|c| !matches!(c, Frame::Consent { slot: other, .. } if *other == slot));
            self.control
                .push_back(Frame::Consent { slot, seq, consent });
        }
    }

    /// A relay doesn't honour what goes in front of our datagrams: who asked for it shall get a new
    /// consent.
    ///
    /// Whoever sees our packets can say in its name that it is leaving. It is greeted, and if it
    /// answers, it stays.
    pub(crate) fn on_stale_grant(&mut self, now: Time, address: SocketAddr, reason: StaleReason) {
        let mut leaves = reason == StaleReason::Leaving;
        for known in self.consents.slots.values_mut() {
            if known.relay.is_some_and(|relay| relay.address == address) {
                known.told = None;
                leaves &= known.stayed.is_none_or(|at| at + HEED <= now);
            }
        }
        if leaves {
            for index in self.paths_by_way_of(address) {
                self.set_backup(now, index, true);
            }
        }
    }

    /// A relay that doubts were cast on has answered.
    fn on_relay_stays(&mut self, now: Time, address: SocketAddr) {
        if self.backups.is_empty() {
            return;
        }
        let mut cleared = false;
        for index in self.paths_by_way_of(address) {
            if self.backups.contains(&index) {
                self.set_backup(now, index, false);
                cleared = true;
            }
        }
        let here = |slot: &&mut Slot| slot.relay.is_some_and(|relay| relay.address == address);
        for slot in self.consents.slots.values_mut().filter(here) {
            slot.stayed = cleared.then_some(now).or(slot.stayed);
        }
    }

    fn paths_by_way_of(&self, address: SocketAddr) -> Vec<usize> {
        let through = self
            .paths
            .iter()
            .filter(|(_, path)| path.remote == address && path.through.is_some());
        through.map(|(index, _)| index).collect()
    }

    /// Whether a path of ours, by way of this relay, has this grant in front of its datagrams.
    pub(crate) fn has_grant(&self, address: SocketAddr, is_it: impl Fn(&Grant) -> bool) -> bool {
        let through = |path: &super::path::Path| path.through.as_ref().map(|t| t.header);
        self.paths
            .iter()
            .any(|(_, path)| path.remote == address && through(path).is_some_and(|g| is_it(&g)))
    }

    /// What goes in front of our datagrams on a path.
    pub(super) fn on_grant(
        &mut self,
        path: PathId,
        seq: u64,
        grant: Grant,
    ) -> Result<(), Violation> {
        if self.initiator {
            return Err(Violation("GRANT: only the initiator has grants".into()));
        }
        let through = Through {
            lane: None,
            header: grant,
            seq,
        };
        let newer = |known: &Option<Through>| known.is_none_or(|known| known.seq < seq);
        if let Some(&index) = self.by_id.get(&path) {
            let known = &mut self.paths[index].through;
            if newer(known) {
                *known = Some(through);
            }
        } else if self.local_cids.contains_key(&path) {
            // It may come before its path's first packet; there are never more ids ahead than we
            // have issued.
            let known = self.early_grants.get(&path).copied();
            if newer(&known) {
                self.early_grants.insert(path, through);
            }
        }
        Ok(())
    }
}
