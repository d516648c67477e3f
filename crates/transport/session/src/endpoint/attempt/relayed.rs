//! First contact through relays: when no address of the listener's can be reached, the relays that
//! the ticket names may lead to it.
//!
//! The listener is known there by a name that the ticket's secret gives. With the grants for both
//! ways, the INIT goes there like any other datagram, and carries, encrypted, the grant for the way
//! back. That is another INIT than the direct one, and another for each relay.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use manyway_units::Time;
use manyway_wire::relay::RelayReply;
use manyway_wire::{ConnectionId, Reply, Ticket, TransportParameters};
use rand::RngExt;

use crate::connection::RelayHeader;
use crate::endpoint::{
    ConnectError, ConnectionHandle, Endpoint, Incoming, Local, LocalId, Owner, behind,
};
use crate::event::{RelayContact, RelayHeard};
use crate::handshake::{Initiator, InitiatorConfig, relay_name};
use crate::relays::{News, RelayAccess, RelayAddress, RelayClient, RelayRoute};

use super::{Answered, REPEAT};

/// The relays of an attempt to connect.
#[derive(Debug)]
pub(super) struct Relayed {
    client: RelayClient,
    ticket: Ticket,
    tries: BTreeMap<RelayRoute, Try>,
    /// What the relays said; one that refuses is no longer among the client's.
    heard: BTreeMap<SocketAddr, RelayHeard>,
}

/// A handshake through one relay.
#[derive(Debug)]
struct Try {
    initiator: Initiator,
    cid: ConnectionId,
    sent: u32,
    first_sent: Time,
    next: Time,
}

impl Relayed {
    /// The relays that the ticket names and that may be used; `None` if there are none.
    pub(super) fn new(
        now: Time,
        ticket: &Ticket,
        relays: &[RelayAccess],
        locals: Vec<Local>,
        seed: [u8; 32],
    ) -> Option<Self> {
        let mut client = RelayClient::new(seed, locals);
        let mut heard = BTreeMap::new();
        for &(address, id) in &ticket.relays {
            let Some(known) = relays.iter().find(|info| info.relay.id == id) else {
                continue;
            };
            let info = RelayAccess {
                relay: RelayAddress { address, id },
                access: known.access.clone(),
            };
            heard.insert(address, RelayHeard::Nothing);
            client.add_named(now, &info, relay_name(&ticket.secret, &id));
        }
        client.timeout()?;
        Some(Self {
            client,
            ticket: ticket.clone(),
            tries: BTreeMap::new(),
            heard,
        })
    }

    pub(super) fn timeout(&self) -> Option<Time> {
        let inits = self.tries.values().map(|t| t.next);
        inits.chain(self.client.timeout()).min()
    }

    pub(super) fn cids(&self) -> impl Iterator<Item = ConnectionId> {
        self.tries.values().map(|t| t.cid)
    }

    pub(super) fn add_local(&mut self, now: Time, local: &Local) {
        self.client.add_local(now, local);
    }

    pub(super) fn remove_local(&mut self, id: LocalId) {
        self.client.remove_local(id);
    }

    /// What each relay has said.
    pub(super) fn contacts(&self) -> Vec<RelayContact> {
        let contact = |(&address, &heard)| RelayContact { address, heard };
        self.heard.iter().map(contact).collect()
    }

    fn hear(&mut self, relay: SocketAddr, reply: &RelayReply) {
        let news = match reply {
            RelayReply::Minted(_) => RelayHeard::Granted,
            RelayReply::Refused(refused) => RelayHeard::Refused(refused.reason),
            RelayReply::Consent(_) | RelayReply::Stale(_) => return,
        };
        if let Some(heard) = self.heard.get_mut(&relay)
            && *heard != RelayHeard::Granted
        {
            *heard = news;
        }
    }

    pub(super) fn into_client(self) -> RelayClient {
        self.client
    }

    /// A REPLY that came by way of a relay.
    pub(super) fn on_reply(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        reply: &Reply<'_>,
    ) -> Option<Answered> {
        let (&route, attempt) = self
            .tries
            .iter_mut()
            .find(|(_, t)| t.cid == reply.receiver_cid && t.sent > 0)?;
        let (local, relay) = self.client.ends(route)?;
        if (local.id, relay) != (incoming.local, incoming.remote) {
            return None;
        }
        let rtt = (attempt.sent == 1).then(|| now.since(attempt.first_sent));
        let result = attempt.initiator.on_reply(incoming.data);
        let grants = self.client.grants(now, route);
        let relay = grants.map(|grants| RelayHeader {
            route: Some(route),
            grant: grants.there,
            seq: 0,
        });
        Some(Answered { result, rtt, relay })
    }
}

impl Endpoint {
    /// As [`Endpoint::connect`], and by way of the relays that the ticket names, as far as `relays`
    /// gives the right to use them. All that are given are offered to the connection later.
    ///
    /// # Errors
    /// No socket of ours can reach any of the ticket's addresses or relays, or the ticket is
    /// unusable.
    pub fn connect_through(
        &mut self,
        now: Time,
        ticket: &Ticket,
        relays: &[RelayAccess],
    ) -> Result<ConnectionHandle, ConnectError> {
        let seed = self.rng.random();
        // Those of a ticket pass datagrams on.
        let relays = if self.config.udp { relays } else { &[] };
        let locals = self.locals.values().cloned().collect();
        let relayed = Relayed::new(now, ticket, relays, locals, seed);
        let usable = |id| relays.iter().any(|info| info.relay.id == id);
        let named = ticket.relays.iter().filter(|(_, id)| usable(*id));
        let named: Vec<SocketAddr> = named.map(|(address, _)| *address).collect();
        self.begin_attempt(now, ticket, relayed, &named)
    }

    /// Sends what is due to relays, and through them.
    pub(super) fn drive_relayed(&mut self, now: Time, handle: ConnectionHandle) {
        let Some(relayed) = self.relayed(handle) else {
            return;
        };
        let mut out = Vec::new();
        while let Some(datagram) = relayed.client.poll(now) {
            out.push((datagram.local, datagram.remote, datagram.data));
        }
        for news in relayed.client.take_news() {
            match news {
                News::Granted(route) => self.begin_try(now, handle, route),
                News::Renewed(_) => {}
                // It is good enough to say who else there is.
                News::Leaving(_) | News::Left(_) | News::Stays(_) | News::Refused(..) => {}
                News::Gone(route) => self.end_try(handle, route),
            }
        }
        if let Some(relayed) = self.relayed(handle) {
            relayed.inits(now, &mut out);
        }
        for (local, remote, data) in out {
            self.enqueue(local, remote, data);
        }
    }

    fn relayed(&mut self, handle: ConnectionHandle) -> Option<&mut Relayed> {
        self.attempts.get_mut(&handle)?.relayed.as_mut()
    }

    /// The grants are there: an INIT of its own for this relay.
    fn begin_try(&mut self, now: Time, handle: ConnectionHandle, route: RelayRoute) {
        let cid = self.new_cid();
        let mut params = self.params(cid);
        let (suite, limits) = (self.config.suite, self.key_limits());
        let identity = self.config.identity.as_ref();
        let Some(relayed) = self
            .attempts
            .get_mut(&handle)
            .and_then(|a| a.relayed.as_mut())
        else {
            return;
        };
        let Some(grants) = relayed.client.grants(now, route) else {
            return;
        };
        params = TransportParameters {
            grant: Some(grants.back),
            ..params
        };
        let config = InitiatorConfig {
            ticket: &relayed.ticket,
            identity,
            params,
            suite,
            limits,
        };
        // The same ticket was good enough for the direct INIT.
        let Ok(initiator) = Initiator::new(config, &mut self.rng) else {
            return;
        };
        let attempt = Try {
            initiator,
            cid,
            sent: 0,
            first_sent: now,
            next: now,
        };
        if let Some(old) = relayed.tries.insert(route, attempt) {
            self.cids.remove(&old.cid);
        }
        self.cids.insert(cid, Owner::Attempt(handle));
    }

    fn end_try(&mut self, handle: ConnectionHandle, route: RelayRoute) {
        let gone = self.relayed(handle).and_then(|r| r.tries.remove(&route));
        if let Some(gone) = gone {
            self.cids.remove(&gone.cid);
        }
    }

    /// A relay's word to an attempt; whether it was meant for it.
    pub(in crate::endpoint) fn on_reply_to_attempt(
        &mut self,
        now: Time,
        handle: ConnectionHandle,
        from: (LocalId, SocketAddr),
        reply: &RelayReply,
    ) -> bool {
        let Some(relayed) = self.relayed(handle) else {
            return false;
        };
        let taken = relayed.client.on_reply(now, from, reply);
        if taken {
            relayed.hear(from.1, reply);
            self.drive_attempt(now, handle);
        }
        taken
    }
}

impl Relayed {
    /// The INITs that are due.
    fn inits(&mut self, now: Time, out: &mut Vec<(LocalId, SocketAddr, Bytes)>) {
        for (&route, attempt) in &mut self.tries {
            if attempt.next > now {
                continue;
            }
            attempt.next = now + REPEAT.delay(attempt.sent);
            let Some((local, relay)) = self.client.ends(route) else {
                continue;
            };
            let Some(grants) = self.client.grants(now, route) else {
                continue;
            };
            if attempt.sent == 0 {
                attempt.first_sent = now;
            }
            attempt.sent += 1;
            let init = Bytes::copy_from_slice(attempt.initiator.datagram());
            out.push((local.id, relay, behind(Some(&grants.there), init)));
        }
    }
}
