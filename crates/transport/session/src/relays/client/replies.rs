//! What the listener and the relays say.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::Time;
use manyway_wire::relay::{
    Consent, ConsentReply, Minted, Peer, Refusal, Refused, RelayReply, Stale, StaleReason,
};

use super::{FIRST_ASKING, Grants, News, OVERDUE, RelayClient, RelayRoute, URGENT};
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
        let Some(route) = self.route(local, from) else {
            return false;
        };
        let taken = match reply {
            RelayReply::Consent(reply) => self.on_proof(now, route, reply),
            RelayReply::Minted(minted) => self.on_minted(now, route, minted),
            RelayReply::Refused(refused) => self.on_refused(now, route, refused),
            RelayReply::Stale(stale) => self.on_stale(now, route, stale),
        };
        self.reschedule();
        taken
    }

    fn on_proof(&mut self, now: Time, route: RelayRoute, reply: &ConsentReply) -> bool {
        let Some(state) = self
            .states
            .get_mut(&route)
            .filter(|state| state.awaits(reply.nonce))
        else {
            return false;
        };
        state.own = Some((reply.proof, now));
        (state.sent, state.next) = (0, Some(now));
        self.on_stay(now, route);
        true
    }

    fn on_minted(&mut self, now: Time, route: RelayRoute, minted: &Minted) -> bool {
        let Some(state) = self
            .states
            .get_mut(&route)
            .filter(|state| state.awaits(minted.nonce))
        else {
            return false;
        };
        let ends = minted.there.expires().min(minted.back.expires());
        let lifetime = Duration::from_secs(ends.saturating_sub(minted.now).into());
        let first = state.grants.is_none();
        state.grants = Some(Grants {
            there: minted.there,
            back: minted.back,
            expires: now + lifetime,
        });
        (state.sent, state.rounds) = (0, 0);
        (state.next, state.mint_at) = (None, None);
        if let Some(relay) = self.relays.get_mut(&state.slot) {
            (relay.asked, relay.refused) = (0, None);
            if matches!(relay.peer, Some(Peer::Name(_))) {
                state.mint_at = Some(now + lifetime / 2);
            }
        }
        self.news.push(match first {
            true => News::Granted(route),
            false => News::Renewed(route),
        });
        self.on_stay(now, route);
        true
    }

    fn on_refused(&mut self, now: Time, route: RelayRoute, refused: &Refused) -> bool {
        let Some(state) = self
            .states
            .get_mut(&route)
            .filter(|state| state.awaits(refused.nonce))
        else {
            return false;
        };
        (state.sent, state.next, state.own) = (0, None, None);
        let (slot, address) = (state.slot, state.relay);
        let (granted, mut first) = (state.grants.is_some(), true);
        tracing::debug!(relay = %state.relay, reason = %refused.reason, "no grants");
        if let Some(relay) = self.relays.get_mut(&slot) {
            first = relay.refused.replace(refused.reason).is_none();
        }
        match refused.reason {
            Refusal::Voucher | Refusal::VoucherExpired | Refusal::Revoked | Refusal::Address => {
                if granted && first {
                    self.news.push(News::Refused(address, refused.reason));
                }
                self.remove(route)
            }
            Refusal::Leaving => {
                self.on_left(route);
                self.next_round(now, route);
            }
            Refusal::Consent | Refusal::UnknownName => self.next_round(now, route),
            Refusal::Busy => {
                if let Some(state) = self.states.get_mut(&route) {
                    state.next = Some(now + FIRST_ASKING);
                }
            }
        }
        true
    }

    fn on_stale(&mut self, now: Time, route: RelayRoute, stale: &Stale) -> bool {
        let Some(state) = self.states.get_mut(&route) else {
            return false;
        };
        if !state
            .grants
            .as_ref()
            .is_some_and(|g| stale.concerns(&g.there))
        {
            return false;
        }
        match stale.reason {
            StaleReason::Leaving => self.on_leaving(now, route),
            StaleReason::Moved => {
                state.own = None;
                self.refresh(now, route);
            }
            StaleReason::Expired => self.distrust(now, route),
        }
        true
    }

    /// New grants, unless they are being asked for.
    fn refresh(&mut self, now: Time, route: RelayRoute) {
        let Some(state) = self.states.get(&route) else {
            return;
        };
        if state.next.is_none() && state.last_sent.is_none_or(|at| at + URGENT <= now) {
            self.start(now, route);
        }
    }

    /// The path doesn't answer: the relay may have forgotten everything, its keys included. So from
    /// the beginning.
    pub(crate) fn distrust(&mut self, now: Time, route: RelayRoute) {
        let Some(state) = self.states.get_mut(&route) else {
            return;
        };
        state.own = None;
        if let Some(relay) = self.relays.get_mut(&state.slot)
            && relay.asked == 0
        {
            relay.ask_again(now);
            relay.peer = relay.name.map(Peer::Name).or(relay.peer);
            self.asks.push(relay.ask(state.slot));
        }
        self.refresh(now, route);
        self.reschedule();
    }
}
