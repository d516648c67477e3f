//! A session's endpoint as a host.

use std::sync::Arc;

use manyway_session::{
    Config, ConfigError, ConnectError, ConnectionHandle, ConnectionStats, Ecn, Endpoint, Incoming,
    Local, LocalId, Secrets, Ticket,
};
use manyway_units::Time;

use super::traffic::{Traffic, TrafficConfig};
use crate::events::mix;
use crate::{Arrival, Departure, Host, SocketId};

/// An endpoint with an application that moves bytes.
#[derive(Debug)]
pub struct SessionHost {
    endpoint: Endpoint,
    traffic: Traffic,
}

/// Datagrams taken from the endpoint at a time, as a runtime with segmentation offload does.
const MAX_SEGMENTS: usize = 10;

impl SessionHost {
    /// A host without sockets. Its keys and every other random choice come from `seed`.
    ///
    /// # Errors
    /// The configuration doesn't hold together.
    pub fn new(config: Config, seed: u64, traffic: TrafficConfig) -> Result<Self, ConfigError> {
        let mut key = [0; 32];
        for (n, word) in (0..).zip(key.chunks_mut(8)) {
            word.copy_from_slice(&mix(mix(seed) ^ n).to_le_bytes());
        }
        Ok(Self {
            endpoint: Endpoint::new(Arc::new(config), key)?,
            traffic: Traffic::new(traffic),
        })
    }

    /// Tells the endpoint of a socket that the world gave this host, and how large its interface's
    /// packets may be (in bytes; 1500 without one).
    pub fn add_local(
        &mut self,
        now: Time,
        socket: SocketId,
        name: &str,
        addr: std::net::SocketAddr,
        mtu: Option<u32>,
    ) {
        let local = Local {
            id: LocalId(socket.0),
            name: name.to_owned(),
            addr,
            mtu,
        };
        self.endpoint.add_local(now, local);
        self.run_application(now);
    }

    /// Tells the endpoint that a socket is gone.
    pub fn remove_local(&mut self, now: Time, socket: SocketId) {
        self.endpoint.remove_local(now, LocalId(socket.0));
        self.run_application(now);
    }

    /// Accepts connections from those who hold the ticket of these secrets.
    pub fn listen(&mut self, secrets: Secrets) {
        self.endpoint.listen(secrets);
    }

    /// Starts to connect.
    ///
    /// # Errors
    /// No socket of this host fits any of the ticket's addresses.
    pub fn connect(
        &mut self,
        now: Time,
        ticket: &Ticket,
    ) -> Result<ConnectionHandle, ConnectError> {
        self.endpoint.connect(now, ticket)
    }

    /// Closes a connection.
    pub fn close(&mut self, now: Time, handle: ConnectionHandle, code: u64, reason: &str) {
        if let Some(connection) = self.endpoint.connection(handle) {
            connection.close(now, code, reason);
        }
        self.run_application(now);
    }

    /// The application's record of what happened.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The endpoint, to do anything else with.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The counters of the connection that was established first; `None` before that and after it
    /// was forgotten.
    pub fn stats(&mut self) -> Option<ConnectionStats> {
        let handle = self.traffic.connection()?;
        Some(self.endpoint.connection(handle)?.stats())
    }

    fn run_application(&mut self, now: Time) {
        while let Some((handle, event)) = self.endpoint.poll_event() {
            self.traffic
                .on_event(now, &mut self.endpoint, handle, event);
        }
    }
}

impl Host for SessionHost {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        let incoming = Incoming {
            local: LocalId(arrival.socket.0),
            remote: arrival.remote,
            ecn: match (arrival.ecn, arrival.marked) {
                (_, true) => Some(Ecn::Ce),
                (true, false) => Some(Ecn::Ect0),
                (false, false) => None,
            },
            data: arrival.data,
        };
        self.endpoint.handle_datagram(now, incoming);
        self.run_application(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Departure> {
        let transmit = self.endpoint.poll_transmit(now, MAX_SEGMENTS, buf)?;
        Some(Departure {
            socket: SocketId(transmit.local.0),
            remote: transmit.remote,
            ecn: transmit.ecn,
            segment_size: transmit.segment_size,
        })
    }

    fn timeout(&self) -> Option<Time> {
        self.endpoint.timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.endpoint.handle_timeout(now);
        self.run_application(now);
    }
}
