mod accounts;
mod attempt;
mod carriers;
mod error;
mod gained;
mod incoming;
mod meeting;
mod relays;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_units::Time;
use manyway_wire::relay::Grant;
use manyway_wire::{ConnectionId, DatagramType, PathId, TransportParameters};
use rand::rngs::ChaCha20Rng;
use rand::{Rng, RngExt, SeedableRng};

use crate::config::{Config, ConfigError};
use crate::connection::{Change, Connection, NamedInAll, PathMemory};
use crate::crypto::KeyLimits;
use crate::driver::{ConnectionHandle, Incoming, Local, LocalId, SendErrorKind, Transmit};
use crate::event::Event;
use crate::handshake::{Identity, Responder, ResponderConfig, ResponderStats, Secrets};
use crate::relays::{Pace, Registrant, Registrar};
use crate::stats::ConnectionStats;

use accounts::Accounts;
use attempt::Attempt;
use carriers::CarrierEntry;
pub use error::ConnectError;
use gained::Gained;

/// Datagrams waiting in the endpoint's own queue; beyond, answers to INITs are dropped.
const MAX_QUEUED: usize = 1024;

/// Every connection over one set of sockets; sans-IO.
///
/// A driver calls [`handle_datagram`](Endpoint::handle_datagram) and
/// [`handle_timeout`](Endpoint::handle_timeout), and after anything that may have caused output
/// [`poll_transmit`](Endpoint::poll_transmit) and [`poll_event`](Endpoint::poll_event) until both
/// return `None`, and sleeps until [`timeout`](Endpoint::timeout).
#[derive(Debug)]
pub struct Endpoint {
    config: Arc<Config>,
    rng: ChaCha20Rng,
    locals: BTreeMap<LocalId, Local>,
    /// Since tickets were written.
    gained: Gained,
    responders: BTreeMap<[u8; 8], Responder>,
    attempts: BTreeMap<ConnectionHandle, Attempt>,
    connections: BTreeMap<ConnectionHandle, Connection>,
    accounts: Accounts,
    next_handle: u64,
    /// Looked up, never iterated over: its order doesn't matter.
    cids: HashMap<ConnectionId, Owner, BuildHasherDefault<IdHasher>>,
    queue: VecDeque<Queued>,
    /// Datagrams that open our NAT, by the time they are due.
    openings: BTreeSet<meeting::Opening>,
    opening_pace: Pace,
    /// What all connections may send to addresses that their peers name.
    named: NamedInAll,
    pub(crate) memory: PathMemory,
    registrar: Registrar,
    carriers: BTreeMap<LocalId, CarrierEntry>,
    /// Carriers that are to be closed.
    carriers_over: VecDeque<LocalId>,
    events: VecDeque<(ConnectionHandle, Event)>,
    /// Connections that may have something to send.
    dirty: BTreeSet<ConnectionHandle>,
    /// Connections that may have something to tell.
    telling: BTreeSet<ConnectionHandle>,
    timers: BTreeSet<(Time, ConnectionHandle)>,
    timer_of: BTreeMap<ConnectionHandle, Time>,
}

#[derive(Copy, Clone, Debug)]
enum Owner {
    Connection(ConnectionHandle, PathId),
    Attempt(ConnectionHandle),
}

#[derive(Debug)]
struct Queued {
    local: LocalId,
    remote: SocketAddr,
    data: Bytes,
}

impl Endpoint {
    /// An endpoint without sockets. All randomness comes from `seed`: from the operating system in
    /// production, where it must never be used twice.
    ///
    /// # Errors
    /// The configuration doesn't hold together.
    pub fn new(config: Arc<Config>, seed: [u8; 32]) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::unchecked(config, seed))
    }

    /// An endpoint whose packets have a checksum in place of the tag and aren't encrypted: for
    /// simulations, where nobody listens. It only connects to its like. Everything else is that of
    /// [`Endpoint::new`], the handshake and all sizes included.
    ///
    /// # Errors
    /// As [`Endpoint::new`].
    #[cfg(feature = "simulation")]
    pub fn simulated(config: Config, seed: [u8; 32]) -> Result<Self, ConfigError> {
        config.validate()?;
        let config = Config {
            suite: crate::crypto::Suite::Checksum,
            ..config
        };
        Ok(Self::unchecked(Arc::new(config), seed))
    }

    fn unchecked(config: Arc<Config>, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let accounts = Accounts::new(&config);
        Self {
            config,
            registrar: Registrar::new(rng.random()),
            rng,
            locals: BTreeMap::new(),
            gained: Gained::default(),
            responders: BTreeMap::new(),
            attempts: BTreeMap::new(),
            connections: BTreeMap::new(),
            accounts,
            next_handle: 0,
            cids: HashMap::default(),
            queue: VecDeque::new(),
            carriers: BTreeMap::new(),
            carriers_over: VecDeque::new(),
            openings: BTreeSet::new(),
            opening_pace: Pace::default(),
            named: NamedInAll::default(),
            memory: PathMemory::default(),
            events: VecDeque::new(),
            dirty: BTreeSet::new(),
            telling: BTreeSet::new(),
            timers: BTreeSet::new(),
            timer_of: BTreeMap::new(),
        }
    }

    /// A socket is there; live connections start to use it.
    pub fn add_local(&mut self, now: Time, local: Local) {
        if !self.responders.is_empty() {
            self.gained.add(local.addr);
        }
        for (handle, connection) in &mut self.connections {
            connection.add_local(now, &local);
            connection.announce(self.gained.frame());
            self.dirty.insert(*handle);
            self.telling.insert(*handle);
        }
        for attempt in self.attempts.values_mut() {
            attempt.add_local(now, &local);
        }
        self.locals.insert(local.id, local);
        self.registrar.on_locals(now, &self.locals);
        self.register_all(now);
    }

    /// A socket is gone, and the carriers of its address with it; what was in flight on its paths
    /// goes over the others.
    pub fn remove_local(&mut self, now: Time, id: LocalId) {
        if let Some(local) = self.locals.remove(&id) {
            self.gained.remove(local.addr);
            self.remove_carriers_of(now, &local);
        }
        self.registrar.on_locals(now, &self.locals);
        self.queue.retain(|q| q.local != id);
        for attempt in self.attempts.values_mut() {
            attempt.remove_local(id);
        }
        for (handle, connection) in &mut self.connections {
            connection.remove_local(now, id, &self.locals);
            self.dirty.insert(*handle);
            self.telling.insert(*handle);
        }
        self.register_all(now);
    }

    /// The sockets in use.
    pub fn locals(&self) -> impl Iterator<Item = &Local> {
        self.locals.values()
    }

    /// Who this endpoint is.
    pub fn identity(&self) -> Option<&Identity> {
        self.config.identity.as_ref()
    }

    /// Accepts connections from those who hold this ticket, from now on. The ticket is one that
    /// names the addresses of the sockets; those who come are told of sockets that are added later.
    pub fn listen(&mut self, secrets: Secrets) {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let mut config = ResponderConfig::new(secrets, seed);
        config.suite = self.config.suite;
        config.limits = self.key_limits();
        let responder = Responder::new(config);
        self.responders
            .insert(responder.secrets().ticket_id(), responder);
    }

    /// As [`Endpoint::listen`], if copies of the ticket may be older than the sockets: those who
    /// come are told of all of them.
    pub fn listen_again(&mut self, secrets: Secrets) {
        for local in self.locals.values() {
            self.gained.add(local.addr);
        }
        self.listen(secrets);
    }

    /// A connection that is established and not forgotten. Whatever is done to it leaves with the
    /// next [`poll_transmit`](Endpoint::poll_transmit).
    pub fn connection(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        if !self.connections.contains_key(&handle) {
            return None;
        }
        self.touch(handle);
        self.connections.get_mut(&handle)
    }

    /// The counters of a connection; looking at them changes nothing.
    pub fn stats(&self, handle: ConnectionHandle) -> Option<ConnectionStats> {
        Some(self.connections.get(&handle)?.stats())
    }

    /// The shortest round-trip time of the connections' best paths, smoothed; `None` while none is
    /// in use.
    pub fn shortest_rtt(&self) -> Option<Duration> {
        let connections = self.connections.values();
        connections.filter_map(Connection::best_rtt).min()
    }

    /// Half-open handshakes under way, and what has happened to handshakes so far, over all tickets
    /// listened for.
    pub fn handshakes(&self) -> (usize, ResponderStats) {
        let each = self.responders.values().map(|r| (r.len(), r.stats()));
        each.fold(Default::default(), |(half_open, sum), (len, stats)| {
            (half_open + len, sum + stats)
        })
    }

    /// Gives up a connection attempt, or drops a connection that is closed (a live one closes
    /// first).
    pub fn forget(&mut self, handle: ConnectionHandle) {
        if let Some(attempt) = self.attempts.remove(&handle) {
            for cid in attempt.cids() {
                self.cids.remove(&cid);
            }
        }
        if let Some(mut connection) = self.connections.remove(&handle) {
            connection.remember();
            for cid in connection.issued_cids() {
                self.cids.remove(&cid);
            }
            for change in connection.take_changes() {
                if let Change::CidRetired(cid) = change {
                    self.cids.remove(&cid);
                }
            }
        }
        // The table of many connections isn't kept when few are left.
        if self.cids.len() < self.cids.capacity() / 4 {
            self.cids.shrink_to(2 * self.cids.len());
        }
        self.accounts.close(handle);
        self.forget_carriers(handle);
        self.registrar.forget(Registrant::Connection(handle));
        self.dirty.remove(&handle);
        self.telling.remove(&handle);
        if let Some(at) = self.timer_of.remove(&handle) {
            self.timers.remove(&(at, handle));
        }
    }

    /// Takes a datagram. What isn't for us, or is damaged, forged or replayed, changes nothing.
    pub fn handle_datagram(&mut self, now: Time, incoming: Incoming<'_>) {
        match DatagramType::of(incoming.data) {
            Some(DatagramType::Data) => self.on_data(now, incoming),
            Some(DatagramType::Init) => self.on_init(now, incoming),
            Some(DatagramType::Reply) => self.on_reply(now, incoming),
            Some(DatagramType::Cookie) => self.on_cookie(now, incoming),
            Some(DatagramType::OtherVersion) => self.on_other_version(&incoming),
            None => self.on_relay_datagram(now, &incoming),
        }
    }

    /// Fills `buf` with up to `max_segments` datagrams for one path; `None` when there is nothing
    /// to send now.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some(queued) = self.queue.pop_front() {
            buf.clear();
            buf.extend_from_slice(&queued.data);
            let len = buf.len();
            return Some(Transmit {
                local: queued.local,
                remote: queued.remote,
                ecn: false,
                len,
                segment_size: None,
            });
        }
        if let Some(transmit) = self.greet_relays(now, buf) {
            return Some(transmit);
        }
        while let Some(&handle) = self.dirty.first() {
            let Some(connection) = self.connections.get_mut(&handle) else {
                self.dirty.remove(&handle);
                continue;
            };
            if let Some(transmit) = connection.poll_transmit(now, max_segments.max(1), buf) {
                return Some(transmit);
            }
            self.settle(now, handle);
            self.dirty.remove(&handle);
        }
        None
    }

    /// A datagram that [`poll_transmit`](Endpoint::poll_transmit) gave out could not be sent.
    pub fn on_send_error(
        &mut self,
        now: Time,
        local: LocalId,
        remote: SocketAddr,
        kind: SendErrorKind,
    ) {
        if kind == SendErrorKind::Other {
            // Loss detection deals with it.
            return;
        }
        // There may be a thousand others, which it doesn't concern.
        let connections = self.connections.iter_mut();
        let concerned = connections.filter_map(|(&handle, connection)| {
            let concerns = connection.on_send_error(now, local, remote, kind);
            concerns.then_some(handle)
        });
        for handle in concerned.collect::<Vec<_>>() {
            self.touch(handle);
            self.settle(now, handle);
        }
    }

    /// When [`handle_timeout`](Endpoint::handle_timeout) has to be called next.
    pub fn timeout(&self) -> Option<Time> {
        let connections = self.timers.first().map(|&(at, _)| at);
        let responders = self
            .responders
            .values()
            .filter_map(Responder::timeout)
            .min();
        [
            connections,
            responders,
            self.registrar.timeout(),
            self.next_opening(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.send_openings(now);
        for responder in self.responders.values_mut() {
            responder.expire(now);
        }
        // Taken once: a timer that waits for a datagram to leave may still be due afterwards.
        let due: Vec<_> = self
            .timers
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|&(_, handle)| handle)
            .collect();
        for handle in due {
            if let Some(connection) = self.connections.get_mut(&handle) {
                connection.handle_timeout(now);
                self.settle(now, handle);
                self.touch(handle);
            } else {
                self.drive_attempt(now, handle);
            }
        }
    }

    /// News of a connection; a handle that is new here is a connection a peer opened.
    pub fn poll_event(&mut self) -> Option<(ConnectionHandle, Event)> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        while let Some(&handle) = self.telling.first() {
            if let Some(event) = self
                .connections
                .get_mut(&handle)
                .and_then(Connection::poll_event)
            {
                return Some((handle, event));
            }
            self.telling.remove(&handle);
        }
        None
    }

    /// Something was done to a connection that may make it send or tell something.
    fn touch(&mut self, handle: ConnectionHandle) {
        self.dirty.insert(handle);
        self.telling.insert(handle);
    }

    fn enqueue(&mut self, local: LocalId, remote: SocketAddr, data: Bytes) {
        if self.queue.len() < MAX_QUEUED {
            self.queue.push_back(Queued {
                local,
                remote,
                data,
            });
        }
    }

    /// After anything happened to a connection: its ids, its timer and what it costs.
    fn settle(&mut self, now: Time, handle: ConnectionHandle) {
        self.heed(now, handle);
        self.register(now, handle);
        self.account(now, handle);
        while let Some(over) = self.accounts.over() {
            if let Some(connection) = self.connections.get_mut(&over) {
                connection.let_go(now);
            }
            self.account(now, over);
            self.touch(over);
        }
        while let Some(excess) = self.accounts.excess(now) {
            self.turn_away(now, excess, "all connections together take too much memory");
        }
    }

    /// Does what a connection wants to be done outside of it.
    fn heed(&mut self, now: Time, handle: ConnectionHandle) {
        if let Some(connection) = self.connections.get_mut(&handle) {
            for change in connection.take_changes() {
                self.on_change(now, handle, change);
            }
        }
    }

    fn account(&mut self, now: Time, handle: ConnectionHandle) {
        if let Some(connection) = self.connections.get_mut(&handle) {
            connection.limit_window(self.accounts.share());
            self.accounts.update(now, handle, connection.usage());
        }
    }

    fn on_change(&mut self, now: Time, handle: ConnectionHandle, change: Change) {
        match change {
            Change::CidIssued(cid, path) => {
                self.cids.insert(cid, Owner::Connection(handle, path));
            }
            Change::CidRetired(cid) => {
                self.cids.remove(&cid);
            }
            Change::CarrierOpened(id, path) => self.on_carrier_opened(id, handle, path),
            Change::CarrierOver(id) => self.on_carrier_over(id),
            Change::RelayWanted(relay) => self.on_relay_wanted(now, handle, relay),
            Change::RelayRefreshed(relay) => self.registrar.refresh(now, relay),
            Change::RelayDropped(relay) => {
                self.registrar
                    .drop_user(relay, Registrant::Connection(handle));
            }
        }
    }

    fn register_all(&mut self, now: Time) {
        let handles: Vec<_> = self
            .connections
            .keys()
            .chain(self.attempts.keys())
            .copied()
            .collect();
        for handle in handles {
            self.settle(now, handle);
        }
    }

    fn register(&mut self, now: Time, handle: ConnectionHandle) {
        let timeout = match (self.connections.get(&handle), self.attempts.get(&handle)) {
            (Some(connection), _) => connection.timeout(now),
            (_, Some(attempt)) => Some(attempt.timeout()),
            _ => None,
        };
        if self.timer_of.get(&handle).copied() == timeout {
            return;
        }
        if let Some(old) = self.timer_of.remove(&handle) {
            self.timers.remove(&(old, handle));
        }
        if let Some(at) = timeout {
            self.timers.insert((at, handle));
            self.timer_of.insert(handle, at);
        }
    }

    fn new_cid(&mut self) -> ConnectionId {
        ConnectionId(self.rng.random())
    }

    fn params(&self, cid: ConnectionId) -> TransportParameters {
        let config = &*self.config;
        // Either side's streams have the same windows.
        let streams = config.streams(true);
        TransportParameters {
            initial_max_data: streams.initial_window(),
            initial_max_stream_data: streams.initial_stream_window(),
            initial_max_streams: config.max_streams,
            max_idle_ms: config.idle_timeout.as_millis() as u64,
            ack_delay_ms: config.ack_delay.as_millis() as u64,
            ack_every: u64::from(config.ack_every),
            max_paths: u64::from(config.max_paths),
            max_datagram: config.max_datagram as u64,
            max_datagram_data: config.datagram.unwrap_or_default() as u64,
            ..TransportParameters::new(cid)
        }
    }

    fn key_limits(&self) -> KeyLimits {
        KeyLimits {
            epoch_packets: self.config.epoch_packets,
            ..KeyLimits::default()
        }
    }
}

/// Connection ids are random, and the table's are our own choice: their bits are hash enough.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Ok(id) = bytes.try_into() {
            self.0 ^= u64::from_le_bytes(id);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A datagram with what a relay wants to see in front of it.
fn behind(grant: Option<&Grant>, datagram: Bytes) -> Bytes {
    match grant {
        Some(grant) => [grant.as_bytes(), &datagram].concat().into(),
        None => datagram,
    }
}
