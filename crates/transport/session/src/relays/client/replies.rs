//! What the listener and the relays say.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::Time;
use manyway_wire::relay::{
    Consent, ConsentReply, Minted, Peer, Refusal, Refused, RelayReply, Stale, StaleReason,
};

use super::{FIRST_ASKING, Grants, Lane, News, OVERDUE, RelayClient, URGENT};
use crate::driver::LocalId;

impl RelayClient {
    /// The listener consents to the relay that was in the slot when RELAY number `seq` was sent.
    pub(crate) fn on_consent(&mut self, now: Time, slot: u16, seq: u64, consent: Consent) {
        let Some(relay) = self.relays.get_mut(&slot) else {
            return;
        };
        let older = |peer: &Peer| match peer {
            Peer::Consent(known) => known.issued > consent.issued,
            Peer::Name(_) => false,
        };
        if seq < relay.first_seq || relay.peer.as_ref().is_some_and(older) {
            return;
        }
        relay.peer = Some(Peer::Consent(consent));
        relay.ask_at = Some(now + OVERDUE);
        self.start_all(now, slot);
        self.reschedule();
    }

    /// Takes what a relay says; whether it was meant for us.
    pub(crate) fn on_reply(
        &mut self,
        now: Time,
        (local, from): (LocalId, SocketAddr),
        reply: &RelayReply,
    ) -> bool {
        let Some(lane) = self.lane(local, from) else {
            return false;
        };
        let taken = match reply {
            RelayReply::Consent(reply) => self.on_proof(now, lane, reply),
            RelayReply::Minted(minted) => self.on_minted(now, lane, minted),
            RelayReply::Refused(refused) => self.on_refused(now, lane, refused),
            RelayReply::Stale(stale) => self.on_stale(now, lane, stale),
        };
        self.reschedule();
        taken
    }

    fn on_proof(&mut self, now: Time, lane: Lane, reply: &ConsentReply) -> bool {
        let Some(way) = self
            .ways
            .get_mut(&lane)
            .filter(|way| way.awaits(reply.nonce))
        else {
            return false;
        };
        way.own = Some((reply.proof, now));
        (way.sent, way.next) = (0, Some(now));
        self.on_stay(now, lane);
        true
    }

    fn on_minted(&mut self, now: Time, lane: Lane, minted: &Minted) -> bool {
        let Some(way) = self
            .ways
            .get_mut(&lane)
            .filter(|way| way.awaits(minted.nonce))
        else {
            return false;
        };
        let ends = minted.there.expires().min(minted.back.expires());
        let lifetime = Duration::from_secs(ends.saturating_sub(minted.now).into());
        let first = way.grants.is_none();
        way.grants = Some(Grants {
            there: minted.there,
            back: minted.back,
            expires: now + lifetime,
        });
        (way.sent, way.rounds) = (0, 0);
        (way.next, way.mint_at) = (None, None);
        if let Some(relay) = self.relays.get_mut(&way.slot) {
            (relay.asked, relay.refused) = (0, None);
            if matches!(relay.peer, Some(Peer::Name(_))) {
                way.mint_at = Some(now + lifetime / 2);
            }
        }
        self.news.push(match first {
            true => News::Granted(lane),
            false => News::Renewed(lane),
        });
        self.on_stay(now, lane);
        true
    }

    fn on_refused(&mut self, now: Time, lane: Lane, refused: &Refused) -> bool {
        let Some(way) = self
            .ways
            .get_mut(&lane)
            .filter(|way| way.awaits(refused.nonce))
        else {
            return false;
        };
        (way.sent, way.next, way.own) = (0, None, None);
        let slot = way.slot;
        tracing::debug!(relay = %way.relay, reason = %refused.reason, "no grants");
        if let Some(relay) = self.relays.get_mut(&slot) {
            relay.refused = Some(refused.reason);
        }
        match refused.reason {
            Refusal::Voucher | Refusal::VoucherExpired | Refusal::Address => self.remove(lane),
            Refusal::Leaving => {
                self.on_left(lane);
                self.next_round(now, lane);
            }
            Refusal::Consent | Refusal::UnknownName => self.next_round(now, lane),
            Refusal::Busy => {
                if let Some(way) = self.ways.get_mut(&lane) {
                    way.next = Some(now + FIRST_ASKING);
                }
            }
        }
        true
    }

    fn on_stale(&mut self, now: Time, lane: Lane, stale: &Stale) -> bool {
        let Some(way) = self.ways.get_mut(&lane) else {
            return false;
        };
        if !way
            .grants
            .as_ref()
            .is_some_and(|g| stale.concerns(&g.there))
        {
            return false;
        }
        match stale.reason {
            StaleReason::Leaving => self.on_leaving(now, lane),
            StaleReason::Moved => {
                way.own = None;
                self.refresh(now, lane);
            }
            StaleReason::Expired => self.distrust(now, lane),
        }
        true
    }

    /// New grants, unless they are being asked for.
    fn refresh(&mut self, now: Time, lane: Lane) {
        let Some(way) = self.ways.get(&lane) else {
            return;
        };
        if way.next.is_none() && way.last_sent.is_none_or(|at| at + URGENT <= now) {
            self.start(now, lane);
        }
    }

    /// The path doesn't answer: the relay may have forgotten everything, its keys included. So from
    /// the beginning.
    pub(crate) fn distrust(&mut self, now: Time, lane: Lane) {
        let Some(way) = self.ways.get_mut(&lane) else {
            return;
        };
        way.own = None;
        if let Some(relay) = self.relays.get_mut(&way.slot)
            && relay.asked == 0
        {
            relay.ask_again(now);
            relay.peer = relay.name.map(Peer::Name).or(relay.peer);
            self.asks.push(relay.ask(way.slot));
        }
        self.refresh(now, lane);
        self.reschedule();
    }
}
