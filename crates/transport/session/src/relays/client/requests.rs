//! What is asked, and asked again: HELLO and MINT of relays, consents of the listener.

use manyway_units::Time;
use manyway_wire::relay::{Hello, Mint, Nonce, Peer};
use rand::RngExt;

use super::leaving::Stay;
use super::{REPEAT, ROUNDS, RelayClient, RelayRoute, RouteState, TRIES};
use crate::relays::{Datagram, PROOF_LIFE};

impl RelayClient {
    /// Does what is due; the next datagram to send.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Datagram> {
        if self.wake.is_none_or(|at| at > now) {
            return None;
        }
        self.ask_overdue(now);
        let mut datagram = None;
        while datagram.is_none() && self.pace.permits(now) {
            let due = |(&route, state): (&RelayRoute, &RouteState)| {
                Some((state.due().filter(|at| *at <= now)?, route))
            };
            let Some((_, route)) = self.states.iter().filter_map(due).min() else {
                break;
            };
            datagram = self.request(now, route);
        }
        if datagram.is_some() {
            self.pace.note(now);
        }
        self.reschedule();
        datagram
    }

    /// The HELLO or MINT that is due on this route; or the end of a series.
    fn request(&mut self, now: Time, route: RelayRoute) -> Option<Datagram> {
        let state = self.states.get_mut(&route)?;
        state.next = None;
        if state.mint_at.is_some_and(|at| at <= now) {
            (state.mint_at, state.sent) = (None, 0);
        }
        if state.sent >= TRIES {
            state.own = None;
            self.next_round(now, route);
            return None;
        }
        let relay = self.relays.get(&state.slot)?;
        // Without the listener's consent there is nothing to ask for.
        let peer = relay.peer?;
        if state.sent == 0 {
            state.nonce = Nonce(self.rng.random());
        }
        let nonce = state.nonce;
        let own = state.own.filter(|(_, at)| now.since(*at) < PROOF_LIFE);
        let data = match own {
            None => {
                let relay = relay.info.relay.id;
                Vec::from(Hello { nonce, relay }.to_bytes())
            }
            Some((proof, _)) => {
                let mint = Mint {
                    nonce,
                    proof,
                    peer,
                    voucher: relay.info.access.voucher,
                };
                Vec::from(mint.seal(|message| relay.info.sign(message)))
            }
        };
        state.next = Some(now + REPEAT.delay(state.sent));
        state.sent += 1;
        state.last_sent = Some(now);
        Some(Datagram {
            local: state.local,
            remote: state.relay,
            data: data.into(),
        })
    }

    /// The relay gave no grants: again, with a newer consent of the listener's, or never.
    pub(super) fn next_round(&mut self, now: Time, route: RelayRoute) {
        if self
            .states
            .get(&route)
            .is_some_and(|state| state.stay == Stay::Doubted)
        {
            self.on_left(route);
        }
        let Some(state) = self.states.get_mut(&route) else {
            return;
        };
        (state.sent, state.next) = (0, None);
        state.rounds += 1;
        if state.rounds > ROUNDS {
            self.remove(route);
            return;
        }
        let Some(relay) = self.relays.get_mut(&state.slot) else {
            return;
        };
        relay.peer = relay.name.map(Peer::Name).or(relay.peer);
        if relay.name.is_some() {
            state.next = Some(now + REPEAT.delay(state.rounds));
        }
        if relay.asked == 0 && (relay.name.is_none() || state.grants.is_some()) {
            relay.ask_again(now);
            self.asks.push(relay.ask(state.slot));
        }
    }

    /// Relays to which the listener has brought no consent for long.
    fn ask_overdue(&mut self, now: Time) {
        let mut given_up = Vec::new();
        for (&slot, relay) in &mut self.relays {
            if relay.ask_at.is_none_or(|at| at > now) {
                continue;
            }
            if relay.asked >= ROUNDS {
                given_up.push(slot);
                continue;
            }
            relay.ask_again(now);
            self.asks.push(relay.ask(slot));
        }
        for slot in given_up {
            self.remove_slot(slot);
        }
    }

    pub(super) fn start_all(&mut self, now: Time, slot: u16) {
        for route in self.routes_of(slot) {
            self.start(now, route);
        }
    }

    pub(super) fn start(&mut self, now: Time, route: RelayRoute) {
        if let Some(state) = self.states.get_mut(&route) {
            (state.sent, state.next) = (0, Some(now));
        }
    }
}
