//! What the endpoint has to do with relays: it keeps in touch with those that listeners' peers
//! name.

use std::net::SocketAddr;

use manyway_units::Time;
use manyway_wire::relay::{RelayReply, is_relay_datagram};

use crate::driver::{ConnectionHandle, Incoming, Transmit};
use crate::relays::{Fresh, Registrant, RelayAddress};

use super::Endpoint;

impl Endpoint {
    /// A datagram that a relay may have sent; nobody else is believed.
    pub(super) fn on_relay_datagram(&mut self, now: Time, incoming: &Incoming<'_>) {
        if !is_relay_datagram(incoming.data) {
            return;
        }
        let Ok(reply) = RelayReply::decode(incoming.data) else {
            return;
        };
        let from = (incoming.local, incoming.remote);
        if let RelayReply::Consent(reply) = &reply
            && let Some((fresh, users, charges)) = self.registrar.on_reply(now, from, reply)
        {
            for (handle, bytes) in charges {
                if let Some(connection) = self.connections.get_mut(&handle) {
                    connection.refund_greetings(bytes);
                }
            }
            for user in users {
                if let Registrant::Connection(handle) = user {
                    self.on_fresh_consent(now, handle, fresh);
                }
            }
            return;
        }
        let attempts: Vec<ConnectionHandle> = self.attempts.keys().copied().collect();
        for handle in attempts {
            if self.on_reply_to_attempt(now, handle, from, &reply) {
                return;
            }
        }
        let handles: Vec<ConnectionHandle> = self.connections.keys().copied().collect();
        for handle in handles {
            let Some(connection) = self.connections.get_mut(&handle) else {
                continue;
            };
            let mut taken = connection.on_relay_reply(now, from, &reply);
            if let RelayReply::Stale(stale) = &reply
                && !taken
                && connection.on_stale_grant(now, incoming.remote, stale)
            {
                self.registrar.refresh_at(now, incoming.remote);
                taken = true;
            }
            if taken {
                self.settle(now, handle);
                self.touch(handle);
                return;
            }
        }
    }

    /// Lets whoever holds this listener's ticket find it at these relays, from now on: put them
    /// into the ticket. Without UDP it is the driver alone that keeps in touch with them.
    pub fn listen_at(&mut self, now: Time, ticket_id: [u8; 8], relays: &[RelayAddress]) {
        let Some(responder) = self.responders.get_mut(&ticket_id) else {
            return;
        };
        for relay in relays {
            responder.expect_through(relay.address);
            if !self.config.udp {
                continue;
            }
            let name = responder.secrets().relay_name(&relay.id);
            self.registrar.want(now, *relay, name.into(), &self.locals);
        }
    }

    /// The relays that our tickets name and that haven't answered, each by one of its addresses.
    pub fn silent_relays(&self) -> Vec<SocketAddr> {
        self.registrar.silent()
    }

    /// The peer of a connection names a relay: its consent is wanted.
    pub(super) fn on_relay_wanted(
        &mut self,
        now: Time,
        handle: ConnectionHandle,
        relay: RelayAddress,
    ) {
        if !self.config.udp {
            return;
        }
        let user = Registrant::Connection(handle);
        let fresh = self.registrar.want(now, relay, user, &self.locals);
        if let Some(connection) = self.connections.get_mut(&handle)
            && let Some(fresh) = fresh
        {
            connection.on_fresh_consent(now, fresh);
        }
    }

    fn on_fresh_consent(&mut self, now: Time, handle: ConnectionHandle, fresh: Fresh) {
        if let Some(connection) = self.connections.get_mut(&handle) {
            connection.on_fresh_consent(now, fresh);
            self.settle(now, handle);
            self.touch(handle);
        }
    }

    /// A HELLO or LISTEN that is due.
    pub(super) fn greet_relays(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let connections = &mut self.connections;
        let mut charge = |handle: ConnectionHandle, bytes| {
            let connection = connections.get_mut(&handle);
            connection.is_some_and(|connection| connection.charge_greeting(now, bytes))
        };
        let datagram = self.registrar.poll(now, &self.locals, &mut charge)?;
        buf.clear();
        buf.extend_from_slice(&datagram.data);
        Some(Transmit {
            local: datagram.local,
            remote: datagram.remote,
            ecn: false,
            len: buf.len(),
            segment_size: None,
        })
    }
}
