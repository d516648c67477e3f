//! Datagrams of connections and of handshakes that peers begin.

use std::net::{IpAddr, SocketAddr};

use manyway_units::Time;
use manyway_wire::{AnyInit, DataHeader};
use rand::RngExt;

use super::accounts::Admission;
use super::{Endpoint, Owner, behind};
use crate::connection::{Arrival, Connection, Opened, RelayHeader, Start};
use crate::driver::{ConnectionHandle, Ecn, Incoming, LocalId};
use crate::handshake::{Outcome, Place, host};

impl Endpoint {
    pub(super) fn on_data(&mut self, now: Time, incoming: Incoming<'_>) {
        let Incoming {
            local,
            remote,
            ecn,
            data,
        } = incoming;
        let Ok(header) = DataHeader::decode(data) else {
            return;
        };
        match self.cids.get(&header.cid) {
            Some(&Owner::Connection(handle, path)) => {
                if !self.carriers.is_empty() && !self.may_carry(local, handle, path) {
                    return;
                }
                let Some((local, facts)) = Self::find(&self.locals, &self.carriers, local) else {
                    return;
                };
                if let Some(connection) = self.connections.get_mut(&handle) {
                    connection.handle_packet(
                        now,
                        Arrival {
                            path,
                            header,
                            local,
                            remote,
                            facts,
                            ecn,
                            data,
                        },
                    );
                    // The rest is settled once for all packets that have come, when nothing is left
                    // to send.
                    self.heed(now, handle);
                    self.touch(handle);
                }
            }
            Some(Owner::Attempt(_)) => {}
            None => {
                self.on_first_data(now, header, (local, remote), ecn, data);
            }
        }
    }

    /// Perhaps the first sealed packet of a half-open handshake: if it opens, the peer is
    /// authenticated.
    fn on_first_data(
        &mut self,
        now: Time,
        header: DataHeader,
        (arrived, source): (LocalId, SocketAddr),
        ecn: Option<Ecn>,
        data: &mut [u8],
    ) {
        let len = data.len();
        let Some(responder) = self
            .responders
            .values_mut()
            .find(|r| r.contains(&header.cid))
        else {
            return;
        };
        let Some(opened) = responder.try_open(now, &header, data) else {
            return;
        };
        let handle = ConnectionHandle(self.next_handle);
        self.next_handle += 1;
        // The packet may be a copy that has overtaken the original: path 0 begins where the
        // handshake took place.
        let place = opened.places.likeliest(arrived, source);
        let (local, remote) = place.map_or((arrived, source), |p| (p.local, p.remote));
        let Some(arrived_at) = Self::find(&self.locals, &self.carriers, arrived) else {
            return;
        };
        let home = Self::find(&self.locals, &self.carriers, local).map(|home| (home, remote));
        let ((local, facts), remote) = home.unwrap_or((arrived_at, source));
        // To send it, the peer needed the answer, which went to where this came from.
        let only = opened.places.only(arrived, source);
        // Later packets may have waited for a probe timeout.
        let first = opened.packet_number == 0;
        let answered = only.filter(|_| first).and_then(|place| place.answered);
        let grant = opened.established.peer.grant;
        let start = Start {
            initiator: false,
            established: opened.established,
            local: local.clone(),
            remote,
            validated: only.is_some(),
            places: opened.places,
            facts,
            rtt: answered.map(|at| now.since(at)),
            relay: grant.map(|grant| RelayHeader::back(grant, 0)),
            locals: Vec::new(),
            remotes: Vec::new(),
            choices: self.rng.random(),
            secrets: self.rng.random(),
            named_in_all: self.named.clone(),
            memory: self.memory.clone(),
            relays: None,
        };
        let mut connection = Connection::new(now, self.config.clone(), start);
        connection.announce(self.gained.frame());
        connection.handle_first(
            now,
            Opened {
                number: opened.packet_number,
                len,
                local: arrived_at.0,
                remote: source,
                ecn,
                plain: opened.payload,
            },
        );
        if !self.make_room(now, host(remote)) {
            let text = "it has its maximum number of connections: try again later";
            connection.turn_away(now, text);
            self.say_last(now, connection);
            return;
        }
        self.connections.insert(handle, connection);
        self.accounts.open(now, handle, host(remote));
        self.settle(now, handle);
        self.touch(handle);
    }

    /// Whether a host may open one more connection, once another has made room if need be.
    fn make_room(&mut self, now: Time, host: IpAddr) -> bool {
        match self.accounts.admit(now, host) {
            Admission::Granted => true,
            Admission::InPlaceOf(handle) => {
                let text = "other peers wait, and this connection transfers nothing";
                self.turn_away(now, handle, text);
                true
            }
            Admission::Refused => false,
        }
    }

    /// Closes a connection that there is no room for; what waits on it is gone.
    pub(super) fn turn_away(&mut self, now: Time, handle: ConnectionHandle, text: &str) {
        if let Some(connection) = self.connections.get_mut(&handle) {
            connection.turn_away(now, text);
            self.account(now, handle);
            self.register(now, handle);
            self.touch(handle);
        }
    }

    /// What a connection that is never heard of has to say.
    fn say_last(&mut self, now: Time, mut connection: Connection) {
        let mut buf = Vec::new();
        if let Some(transmit) = connection.poll_transmit(now, 1, &mut buf) {
            self.enqueue(transmit.local, transmit.remote, buf.into());
        }
    }

    pub(super) fn on_init(&mut self, now: Time, incoming: Incoming<'_>) {
        let Ok(init) = AnyInit::decode(incoming.data) else {
            return;
        };
        let cid = self.new_cid();
        let params = self.params(cid);
        let Some(responder) = self.responders.get_mut(&init.ticket_id) else {
            return;
        };
        let (local, remote, received) = (incoming.local, incoming.remote, incoming.data.len());
        match responder.on_init(now, incoming.remote, incoming.data, || params) {
            Outcome::Reply { datagram, cid, .. } => {
                let grant = responder.grant(&cid);
                let datagram = behind(grant.as_ref(), datagram);
                let place = Place {
                    local,
                    remote,
                    received: received as u64,
                    sent: datagram.len() as u64,
                    answered: Some(now),
                };
                responder.note_reply(&cid, place);
                self.enqueue(local, remote, datagram);
            }
            Outcome::Cookie { datagram } => {
                self.enqueue(incoming.local, incoming.remote, datagram);
            }
            Outcome::OtherVersion { datagram, theirs } => {
                tracing::info!(%remote, version = theirs, "a peer of another version came");
                self.enqueue(local, remote, datagram);
            }
            Outcome::Ignored(reason) => {
                tracing::debug!(remote = %incoming.remote, %reason, "INIT ignored")
            }
        }
    }
}
