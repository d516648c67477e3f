//! One connection: streams above, paths below, and the choice between them.
//!
//! A path's place in the ordered sets (`ready`, `active`, `timers`, `attention`) is brought up to
//! date by [`Connection::refresh`] after each datagram in or out, so no packet costs more than
//! O(log paths).

mod carriers;
mod consents;
mod controllers;
mod detours;
mod lifecycle;
mod migrate;
mod mtu;
mod outbound;
mod overlay;
mod pairs;
mod path;
mod receive;
mod schedule;
mod selection;
mod survey;
mod timers;
mod transmit;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_control::Outcome;
use manyway_units::Time;
use manyway_wire::{ConnectionId, Frame, PathId, StreamId};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use slab::Slab;

use crate::carrier::Facts;
use crate::config::Config;
use crate::crypto::{Opener, Sealer};
use crate::driver::Local;
use crate::event::{CloseReason, Event};
use crate::handshake::Established;
use crate::limit::Limiter;
use crate::received::AckPolicy;
use crate::relays::RelayClient;
use crate::stats::{ConnectionStats, PathStats};
use crate::streams::{OpenError, ReadError, Streams, StreamsConfig, WriteError};

pub(crate) use carriers::CarrierChange;
use carriers::Carriers;
pub(crate) use consents::ConsentChange;
use consents::Consents;
use controllers::Controllers;
use detours::Detours;
use pairs::Pairs;
pub(crate) use path::Through;
use path::{NewPath, Path, Payload, Under};
pub(crate) use receive::{Arrival, Opened};
use selection::Selection;

/// Path ids whose connection ids are announced ahead of use.
const SPARE_PATHS: u32 = 16;
/// Bytes the peer may send before the first window update.
const INITIAL_RECEIVE_WINDOW: u64 = 4 << 20;
/// An ACK may always wait this long for the next packet.
const SHORTEST_ACK_DELAY: Duration = Duration::from_millis(1);
/// Statistics kept of paths that are over.
const MAX_CLOSED_PATHS: usize = 256;

/// A connection: its streams, its paths and what is known of the peer.
///
/// Reached through [`Endpoint::connection`](crate::Endpoint::connection); every method is
/// immediate, and what it causes to be sent leaves with the next
/// [`Endpoint::poll_transmit`](crate::Endpoint::poll_transmit).
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    initiator: bool,
    phase: Phase,
    rng: Pcg64Mcg,
    sealer: Sealer,
    opener: Opener,
    streams: Streams,
    controllers: Controllers,
    limiter: Option<Limiter>,
    limited_until: Option<Time>,
    /// Bytes that say nothing and are still to be sent.
    filler: u64,
    survey_from: Time,
    /// The place in `ready` of the path that was filled last.
    filled: (u64, usize),

    paths: Slab<Path>,
    by_id: BTreeMap<PathId, usize>,
    closed_paths: VecDeque<PathStats>,
    /// Connection ids we issued for paths not in use yet, and the peer's.
    local_cids: BTreeMap<PathId, ConnectionId>,
    remote_cids: BTreeMap<PathId, ConnectionId>,
    next_local_cid: u32,
    next_path: u32,
    pairs: Option<Pairs>,
    /// Paths through relays (initiator only).
    detours: Option<Box<Detours>>,
    /// Which relays these are, if it isn't all of them.
    selection: Option<Box<Selection>>,
    /// Relays that the initiator has named (listener only), and grants that came before their
    /// paths.
    consents: Consents,
    early_grants: BTreeMap<PathId, Through>,
    /// TCP connections and their rates.
    carriers: Carriers,
    /// Addresses gained since the ticket was written (listener only).
    gained: Vec<SocketAddr>,
    gained_seq: u64,
    peer_addresses_seq: Option<u64>,
    /// Those that the listener has told of last (initiator only).
    peer_addresses: Vec<SocketAddr>,

    /// Active paths that may send a full packet now, soonest delivery first.
    ready: BTreeSet<(u64, usize)>,
    /// All active paths, soonest delivery first.
    active: BTreeSet<(u64, usize)>,
    /// Paths that carry data only while no other is active: their relay is leaving.
    backups: Vec<usize>,
    timers: BTreeSet<(Time, usize)>,
    /// Paths that owe something: an ACK, a challenge or its answer, a probe.
    attention: VecDeque<usize>,
    control: VecDeque<Frame<'static>>,
    /// Paths whose ACK goes out on a second path too, because the peer's probe timeout ran out on
    /// them.
    echo_acks: VecDeque<PathId>,

    events: VecDeque<Event>,
    cid_changes: Vec<CidChange>,
    outcome: Outcome<Payload>,
    ranges: receive::Ranges,
    peer_max_datagram: usize,
    /// How long the peer holds ACKs back, and how many paths it wants at most.
    peer_ack_delay: Duration,
    peer_max_paths: usize,
    idle_timeout: Duration,
    last_heard: Time,
    resent: u64,
    acked: u64,
    rejected: u64,
}

#[derive(Debug)]
enum Phase {
    Open,
    /// CLOSE was sent and is repeated when the peer goes on talking.
    Closing {
        until: Time,
        code: u64,
        reason: String,
        owed: Vec<usize>,
    },
    Closed,
}

/// What the endpoint has to do to its table of connection ids.
#[derive(Debug)]
pub(crate) enum CidChange {
    Issued { cid: ConnectionId, path: PathId },
    Retired { cid: ConnectionId },
}

/// What a connection starts from, once the handshake is through.
pub(crate) struct Start {
    pub(crate) initiator: bool,
    pub(crate) established: Established,
    pub(crate) local: Local,
    pub(crate) remote: SocketAddr,
    /// Of what path 0 runs on.
    pub(crate) facts: Facts,
    pub(crate) rtt: Option<Duration>,
    /// Path 0 leads through a relay.
    pub(crate) through: Option<Through>,
    /// Sockets and the peer's addresses: the pairs the initiator tries.
    pub(crate) locals: Vec<Local>,
    pub(crate) remotes: Vec<SocketAddr>,
    pub(crate) seed: [u8; 16],
    /// What the initiator knows of relays by now.
    pub(crate) relays: Option<RelayClient>,
}

impl Connection {
    pub(crate) fn new(now: Time, config: Arc<Config>, start: Start) -> Self {
        let Start {
            initiator,
            established,
            local,
            remote,
            facts,
            rtt,
            through,
            locals,
            remotes,
            seed,
            relays,
        } = start;
        let peer = &established.peer;
        let mut streams = Streams::new(StreamsConfig {
            initiator,
            initial_receive_window: Self::initial_window(&config),
            max_receive_window: config.receive_window,
            send_buffer: config.send_buffer,
            max_streams: config.max_streams,
        });
        streams.set_peer_limits(
            peer.initial_max_data,
            peer.initial_max_stream_data,
            peer.initial_max_streams,
        );
        let options = manyway_control::Options::default().with_slow_start(config.slow_start);
        let controller = Box::new(config.cc.controller(&options));
        let idle = config
            .idle_timeout
            .min(Duration::from_millis(peer.max_idle_ms.max(1)));
        let mut connection = Self {
            initiator,
            phase: Phase::Open,
            rng: Pcg64Mcg::from_seed(seed),
            streams,
            controllers: Controllers::new(controller, config.watch),
            filler: 0,
            survey_from: now,
            filled: (0, 0),
            limiter: config
                .limit
                .map(|rate| Limiter::new(rate, config.initial_datagram, now)),
            limited_until: None,
            paths: Slab::new(),
            by_id: BTreeMap::new(),
            closed_paths: VecDeque::new(),
            local_cids: BTreeMap::new(),
            remote_cids: BTreeMap::new(),
            next_local_cid: 1,
            next_path: 1,
            pairs: (initiator && config.udp).then(|| Pairs::new(locals, remotes)),
            detours: None,
            selection: None,
            consents: Consents::default(),
            early_grants: BTreeMap::new(),
            carriers: Carriers::default(),
            gained: Vec::new(),
            gained_seq: 0,
            peer_addresses_seq: None,
            peer_addresses: Vec::new(),
            ready: BTreeSet::new(),
            active: BTreeSet::new(),
            backups: Vec::new(),
            timers: BTreeSet::new(),
            attention: VecDeque::new(),
            control: VecDeque::new(),
            echo_acks: VecDeque::new(),
            events: VecDeque::from([Event::Connected]),
            cid_changes: vec![CidChange::Issued {
                cid: established.local_cid,
                path: PathId(0),
            }],
            outcome: Outcome::default(),
            ranges: Vec::new(),
            peer_max_datagram: usize::try_from(peer.max_datagram).unwrap_or(usize::MAX),
            peer_ack_delay: Duration::from_millis(peer.ack_delay_ms),
            peer_max_paths: usize::try_from(peer.max_paths).unwrap_or(usize::MAX),
            idle_timeout: idle,
            last_heard: now,
            resent: 0,
            acked: 0,
            rejected: 0,
            sealer: established.sealer,
            opener: established.opener,
            config,
        };
        connection.begin_selection();
        connection
            .local_cids
            .insert(PathId(0), established.local_cid);
        let local_id = local.id;
        let index = connection.create_path(
            now,
            NewPath {
                id: PathId(0),
                local,
                remote,
                remote_cid: Some(established.remote_cid),
                under: Under::of(facts),
                through,
                initial_rtt: rtt,
            },
        );
        if initiator {
            // The answer to the handshake came from there: that is the validation.
            connection.validated(now, index, rtt);
            // The listener learns that the handshake is through from our first sealed packet.
            connection.paths[index].probes += 1;
            if let Some(pairs) = &mut connection.pairs
                && through.is_none()
                && !facts.reliable
            {
                pairs.on_opened(local_id, remote, PathId(0));
            }
            if let Some(relays) = relays {
                connection.take_over_relays(now, relays, through);
            }
        } else {
            let challenge = connection.rng.random();
            connection.paths[index].validation.start(now, challenge);
        }
        connection.issue_cids();
        connection.refresh(now, index);
        connection
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// The peer's limit on open streams is reached, or the connection is over.
    pub fn open(&mut self) -> Result<StreamId, OpenError> {
        self.streams.open()
    }

    /// The next stream that the peer opened, if any.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.streams.accept()
    }

    /// Takes what fits into the send buffer from the front of `data`; returns its length in bytes.
    ///
    /// # Errors
    /// [`WriteError::Blocked`] when nothing fits now, else why the stream takes no more.
    pub fn write(&mut self, stream: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        self.streams.write(stream, data)
    }

    /// Ends our side of a stream; [`StreamEvent::Finished`](crate::streams::StreamEvent) tells when
    /// the peer has it all.
    ///
    /// # Errors
    /// The stream is unknown, reset or finished already.
    pub fn finish(&mut self, stream: StreamId) -> Result<(), WriteError> {
        self.streams.finish(stream)
    }

    /// Gives up our side of a stream: what the peer doesn't have yet is never sent.
    ///
    /// # Errors
    /// The stream is unknown or over already.
    pub fn reset(&mut self, stream: StreamId, code: u64) -> Result<(), WriteError> {
        self.streams.reset(stream, code)
    }

    /// The next bytes of a stream, at most `max`; `None` at its end.
    ///
    /// # Errors
    /// [`ReadError::Blocked`] when nothing has arrived, [`ReadError::Reset`] when the peer gave it
    /// up.
    pub fn read(
        &mut self,
        now: Time,
        stream: StreamId,
        max: usize,
    ) -> Result<Option<Bytes>, ReadError> {
        self.streams.read(now, stream, max)
    }

    /// Asks the peer to stop sending on a stream; what arrives is dropped.
    ///
    /// # Errors
    /// The stream is unknown or was read to its end.
    pub fn stop(&mut self, stream: StreamId, code: u64) -> Result<(), ReadError> {
        self.streams.stop(stream, code)
    }

    /// Closes the connection; unacknowledged stream data is dropped. Codes below 0x100 are the
    /// session's.
    pub fn close(&mut self, now: Time, code: u64, reason: &str) {
        self.close_with(now, code, reason, CloseReason::Local);
    }

    /// Whether the connection is closing or closed.
    pub fn is_closed(&self) -> bool {
        !matches!(self.phase, Phase::Open)
    }

    /// Stream bytes written and not acknowledged yet.
    pub fn unacked_bytes(&self) -> u64 {
        self.streams.unacked_bytes()
    }

    /// Addresses that the listener has gained since it wrote the ticket, as it says; at most 32.
    pub fn peer_addresses(&self) -> &[SocketAddr] {
        &self.peer_addresses
    }

    /// Counters of the connection and of each path.
    pub fn stats(&self) -> ConnectionStats {
        let open = self
            .by_id
            .values()
            .map(|&index| self.paths[index].stats(self.controllers.of(&self.paths[index])));
        let mut paths: Vec<_> = self.closed_paths.iter().cloned().chain(open).collect();
        paths.sort_by_key(|p| p.id.0);
        ConnectionStats {
            bytes_acked: self.acked,
            bytes_sent: paths.iter().map(|p| p.stream_bytes_sent).sum(),
            bytes_received: paths.iter().map(|p| p.stream_bytes_received).sum(),
            bytes_resent: self.resent,
            packets_rejected: self.rejected,
            relays: self.relay_stats(),
            selection: self.selection_stats(),
            paths,
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        // What became of the streams comes before the end: the packet that closes may bring the
        // last ACK.
        if let Some(Event::Closed(_)) = self.events.front()
            && let Some(event) = self.streams.poll_event()
        {
            return Some(Event::Stream(event));
        }
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if self.is_closed() {
            return None;
        }
        self.streams.poll_event().map(Event::Stream)
    }

    pub(crate) fn take_cid_changes(&mut self) -> std::vec::Drain<'_, CidChange> {
        self.cid_changes.drain(..)
    }

    fn close_with(&mut self, now: Time, code: u64, reason: &str, event: CloseReason) {
        if self.is_closed() {
            return;
        }
        let until = now + 3 * self.largest_pto();
        let owed = self
            .by_id
            .values()
            .copied()
            .filter(|&i| self.paths[i].validation.takes_close(self.initiator))
            .collect();
        self.phase = Phase::Closing {
            until,
            code,
            reason: truncated(reason),
            owed,
        };
        self.events.push_back(Event::Closed(event));
    }

    /// Ends at once, without telling the peer: it knows, or it can't be reached.
    fn end(&mut self, event: CloseReason) {
        if matches!(self.phase, Phase::Open) {
            self.events.push_back(Event::Closed(event));
        }
        self.phase = Phase::Closed;
    }

    /// The receive window to start with; it grows as the application proves to be fast.
    pub(crate) fn initial_window(config: &Config) -> u64 {
        INITIAL_RECEIVE_WINDOW.min(config.receive_window)
    }

    /// mPath's rule, but an ACK isn't held back for more than an eighth of a round trip: on a short
    /// path 10 ms are half a window, which the peer's window would have to cover twice.
    fn ack_policy(&self, index: usize) -> AckPolicy {
        let rtt = self.paths[index].sender.rtt();
        let short = if rtt.has_sample() {
            (rtt.min() / 8).max(SHORTEST_ACK_DELAY)
        } else {
            Duration::MAX
        };
        AckPolicy {
            every: self.config.ack_every,
            delay: self.config.ack_delay.min(short),
        }
    }

    /// The longest probe timeout of the paths in use.
    fn largest_pto(&self) -> Duration {
        let slowest = self
            .active
            .last()
            .map(|&(_, index)| self.paths[index].sender.pto());
        slowest
            .or_else(|| self.paths.iter().map(|(_, p)| p.sender.pto()).max())
            .unwrap_or(Duration::from_secs(1))
    }
}

/// Sends what a packet carried again, as far as it is still needed.
fn requeue(streams: &mut Streams, control: &mut VecDeque<Frame<'static>>, payload: Payload) {
    for range in payload.ranges() {
        streams.on_lost(range);
    }
    for lost in payload.control {
        if Streams::is_control(&lost) {
            streams.on_control_lost(&lost);
        } else {
            control.push_back(lost);
        }
    }
}

/// At most what a CLOSE frame takes, cut at a character.
fn truncated(reason: &str) -> String {
    let mut end = reason.len().min(manyway_wire::MAX_REASON_LEN);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason[..end].to_owned()
}
