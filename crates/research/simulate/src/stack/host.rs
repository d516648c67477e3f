//! A session's endpoint as a host.

use std::sync::Arc;
use std::time::Duration;

use manyway_scenario::Sealing;
use manyway_session::{
    Config, ConfigError, ConnectError, ConnectionHandle, ConnectionStats, Ecn, Endpoint, Incoming,
    Local, LocalId, Secrets, Ticket,
};
use manyway_units::Time;

use super::clock::Clock;
use super::traffic::{Traffic, TrafficConfig};
use crate::events::mix;
use crate::{Arrival, Departure, Host, SocketId};

/// An endpoint with an application that moves bytes.
#[derive(Debug)]
pub struct SessionHost {
    endpoint: Endpoint,
    traffic: Traffic,
    clock: Clock,
}

/// Datagrams taken from the endpoint at a time, as a runtime with segmentation offload does.
const MAX_SEGMENTS: usize = 10;

impl SessionHost {
    /// A host without sockets. Its keys and every other random choice come from `seed`. It leaves
    /// out no packet numbers: ACKs at random moments would be one more cause of differences.
    ///
    /// # Errors
    /// The configuration doesn't hold together.
    pub fn new(config: Config, seed: u64, traffic: TrafficConfig) -> Result<Self, ConfigError> {
        Self::sealing(config, seed, traffic, Sealing::Aead)
    }

    /// [`SessionHost::new`], with packets sealed in this way; both ends need the same.
    ///
    /// # Errors
    /// As of [`SessionHost::new`].
    pub fn sealing(
        config: Config,
        seed: u64,
        traffic: TrafficConfig,
        sealing: Sealing,
    ) -> Result<Self, ConfigError> {
        let mut key = [0; 32];
        for (n, word) in (0..).zip(key.chunks_mut(8)) {
            word.copy_from_slice(&mix(mix(seed) ^ n).to_le_bytes());
        }
        let config = Config {
            leave_out_numbers: false,
            ..config
        };
        Ok(Self {
            endpoint: match sealing {
                Sealing::Aead => Endpoint::new(Arc::new(config), key)?,
                Sealing::Checksum => Endpoint::simulated(config, key)?,
            },
            traffic: Traffic::new(traffic),
            clock: Clock::default(),
        })
    }

    /// Gives the host a clock of its own. Every `now` that others hand in is the world's; what
    /// [`SessionHost::traffic`] records is by this clock.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// The host's clock leaps ahead, as after its machine was suspended.
    pub fn leap(&mut self, by: Duration) {
        self.clock.leap(by);
    }

    /// Whether the application reads what arrives. What has arrived until it reads again is read
    /// then.
    pub fn set_reading(&mut self, now: Time, reading: bool) {
        let own = self.clock.own(now);
        self.traffic.set_reading(own, &mut self.endpoint, reading);
        self.run_application(own);
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
        let own = self.clock.own(now);
        self.endpoint.add_local(own, local);
        self.run_application(own);
    }

    /// Tells the endpoint that a socket is gone.
    pub fn remove_local(&mut self, now: Time, socket: SocketId) {
        let own = self.clock.own(now);
        self.endpoint.remove_local(own, LocalId(socket.0));
        self.run_application(own);
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
        self.endpoint.connect(self.clock.own(now), ticket)
    }

    /// Closes a connection.
    pub fn close(&mut self, now: Time, handle: ConnectionHandle, code: u64, reason: &str) {
        let own = self.clock.own(now);
        if let Some(connection) = self.endpoint.connection(handle) {
            connection.close(own, code, reason);
        }
        self.run_application(own);
    }

    /// The application's record of what happened.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub(super) fn traffic_mut(&mut self) -> &mut Traffic {
        &mut self.traffic
    }

    /// The endpoint, to do anything else with.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The counters of the connection that was established first; `None` before that and after it
    /// was forgotten.
    pub fn stats(&self) -> Option<ConnectionStats> {
        self.endpoint.stats(self.traffic.connection()?)
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
        let own = self.clock.own(now);
        self.endpoint.handle_datagram(own, incoming);
        self.run_application(own);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Departure> {
        let own = self.clock.own(now);
        let transmit = self.endpoint.poll_transmit(own, MAX_SEGMENTS, buf)?;
        Some(Departure {
            socket: SocketId(transmit.local.0),
            remote: transmit.remote,
            ecn: transmit.ecn,
            segment_size: transmit.segment_size,
        })
    }

    fn timeout(&self) -> Option<Time> {
        let own = self.endpoint.timeout().into_iter();
        let own = own.chain(self.traffic.timeout()).min();
        own.map(|own| self.clock.world(own))
    }

    fn handle_timeout(&mut self, now: Time) {
        let own = self.clock.own(now);
        self.endpoint.handle_timeout(own);
        self.traffic.on_timeout(own, &mut self.endpoint);
        self.run_application(own);
    }
}
