//! Which relays there are, and the ways through them: one from each socket that can reach the
//! relay.

use std::net::SocketAddr;

use manyway_units::Time;
use manyway_wire::relay::{ListenerName, Nonce, Peer};
use rand::RngExt;

use super::leaving::Stay;
use super::{Ask, FIRST_ASKING, News, Relay, RelayClient, RelayRoute, RouteState};
use crate::driver::compatible;
use crate::driver::{Local, LocalId};
use crate::relays::RelayAccess;

impl RelayClient {
    /// Takes relays into use, but for those beyond [`MAX_RELAYS`](manyway_wire::MAX_RELAYS); those
    /// known already get the access given from now on. How many were new.
    pub(crate) fn add(&mut self, now: Time, relays: &[RelayAccess]) -> usize {
        let added = relays
            .iter()
            .filter(|info| self.add_one(now, info).is_some());
        let added = added.count();
        self.reschedule();
        added
    }

    fn add_one(&mut self, now: Time, info: &RelayAccess) -> Option<u16> {
        if let Some(slot) = self.slot_of(info.relay.address) {
            if let Some(known) = self.relays.get_mut(&slot)
                && known.info.relay == info.relay
            {
                known.info = info.clone();
            }
            return None;
        }
        let mut slots = 0..manyway_wire::MAX_RELAYS as u16;
        let slot = slots.find(|slot| !self.relays.contains_key(slot))?;
        let seq = self.emptied.remove(&slot).map_or(0, |seq| seq + 1);
        let relay = Relay {
            info: info.clone(),
            first_seq: seq,
            seq,
            peer: None,
            name: None,
            ask_at: Some(now + FIRST_ASKING),
            asked: 0,
            refused: None,
        };
        self.asks.push(relay.ask(slot));
        self.relays.insert(slot, relay);
        for local in self.locals.clone() {
            self.add_route(slot, info.relay.address, &local);
        }
        Some(slot)
    }

    /// A relay at which the listener is known by a name: no connection is needed to mint there.
    pub(crate) fn add_named(&mut self, now: Time, info: &RelayAccess, name: ListenerName) {
        if let Some(slot) = self.add_one(now, info) {
            if let Some(relay) = self.relays.get_mut(&slot) {
                (relay.peer, relay.name, relay.ask_at) = (Some(Peer::Name(name)), Some(name), None);
            }
            self.start_all(now, slot);
        }
        self.reschedule();
    }

    pub(super) fn remove_slot(&mut self, slot: u16) {
        let Some(relay) = self.relays.remove(&slot) else {
            return;
        };
        let seq = relay.seq + 1;
        self.emptied.insert(slot, seq);
        self.asks.push(Ask {
            slot,
            seq,
            relay: None,
        });
        self.remove_routes(|state| state.slot == slot);
    }

    /// Gives a route up for good; the relay goes with its last route.
    pub(crate) fn remove(&mut self, route: RelayRoute) {
        let Some(slot) = self.states.get(&route).map(|state| state.slot) else {
            return;
        };
        self.states.remove(&route);
        self.news.push(News::Gone(route));
        if !self.states.values().any(|state| state.slot == slot) {
            self.remove_slot(slot);
        }
        self.reschedule();
    }

    pub(crate) fn add_local(&mut self, now: Time, local: &Local) {
        self.locals.retain(|l| l.id != local.id);
        self.locals.push(local.clone());
        let relays: Vec<_> = self
            .relays
            .iter()
            .map(|(&slot, relay)| (slot, relay.info.relay.address))
            .collect();
        for (slot, address) in relays {
            if let Some(route) = self.add_route(slot, address, local) {
                self.start(now, route);
            }
        }
        self.reschedule();
    }

    pub(crate) fn remove_local(&mut self, id: LocalId) {
        self.locals.retain(|l| l.id != id);
        self.remove_routes(|state| state.local == id);
        self.reschedule();
    }

    fn add_route(&mut self, slot: u16, relay: SocketAddr, local: &Local) -> Option<RelayRoute> {
        if !compatible(local.addr.ip(), relay.ip()) || self.route(local.id, relay).is_some() {
            return None;
        }
        let route = RelayRoute(self.next_route);
        self.next_route += 1;
        let state = RouteState {
            slot,
            local: local.id,
            relay,
            grants: None,
            own: None,
            mint_at: None,
            nonce: Nonce(self.rng.random()),
            sent: 0,
            next: None,
            last_sent: None,
            rounds: 0,
            stay: Stay::Yes,
            stayed: None,
        };
        self.states.insert(route, state);
        Some(route)
    }

    fn remove_routes(&mut self, gone: impl Fn(&RouteState) -> bool) {
        let news = &mut self.news;
        self.states.retain(|&route, state| {
            let gone = gone(state);
            if gone {
                news.push(News::Gone(route));
            }
            !gone
        });
    }

    fn slot_of(&self, address: SocketAddr) -> Option<u16> {
        let mut relays = self.relays.iter();
        let (&slot, _) = relays.find(|(_, relay)| relay.info.relay.address == address)?;
        Some(slot)
    }

    pub(super) fn routes_of(&self, slot: u16) -> Vec<RelayRoute> {
        let states = self.states.iter().filter(|(_, state)| state.slot == slot);
        states.map(|(&route, _)| route).collect()
    }
}
