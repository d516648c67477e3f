//! One connection: streams above, paths below, and the choice between them.
//!
//! [`Connection`] is what the application and the endpoint talk to. It passes on what they ask,
//! gives each frame to whom it concerns, and ends the connection. Every component owns its fields
//! and says what is to be done; the connection itself holds no protocol state.
//!
//! From below: [`packet`] and [`violation`] are types that several share; [`paths`] knows the paths
//! and [`data`] the streams; [`core`] holds both with the [`outbox`]; [`relayed`], [`carriers`] and
//! [`transmit`] act on these; [`traffic`] carries a path through its life; [`receive`],
//! [`addresses`] and [`lifecycle`] stand by themselves.

mod addresses;
mod carriers;
mod core;
mod data;
mod lifecycle;
mod outbox;
mod packet;
mod paths;
mod rate_control;
mod receive;
mod relayed;
mod start;
mod traffic;
mod transmit;
mod violation;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_units::{Time, printable};
use manyway_wire::relay::{RelayReply, Stale};
use manyway_wire::{ConnectionId, Frame, Frames, MAX_REASON_LEN, PathId, StreamId};

use crate::budget::MAX_CONTROL;
use crate::carrier::Carrier;
use crate::config::Config;
use crate::driver::{Ecn, Local, LocalId, SendErrorKind, Transmit};
use crate::event::{CloseReason, Event, PathDownReason, code};
use crate::relays::{Fresh, RelayAccess, RelayId};
use crate::stats::{ConnectionStats, PathSurvey};
use crate::streams::{OpenError, ReadError, WriteError};

use self::core::Core;
use addresses::Addresses;
use lifecycle::{Idle, Lifecycle};
use paths::{Origin, PathTransport};
use receive::{Receiver, Refused};
use traffic::Traffic;
use violation::Violation;

pub(crate) use outbox::Change;
pub(crate) use paths::RelayHeader;
pub(crate) use receive::{Arrival, Opened};
pub(crate) use start::Start;

/// A connection: its streams, its paths and what is known of the peer.
///
/// Reached through [`Endpoint::connection`](crate::Endpoint::connection); every method is
/// immediate, and what it causes to be sent leaves with the next
/// [`Endpoint::poll_transmit`](crate::Endpoint::poll_transmit).
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    initiator: bool,
    lifecycle: Lifecycle,
    receiver: Receiver,
    traffic: Traffic,
    addresses: Addresses,
}

/// Whether a packet asks for an ACK, and whether for one at once.
#[derive(Default)]
struct Eliciting {
    any: bool,
    pinged: bool,
}

impl Connection {
    pub(crate) fn new(now: Time, config: Arc<Config>, start: Start) -> Self {
        let peer = &start.established.peer;
        let idle = config
            .idle_timeout
            .min(Duration::from_millis(peer.max_idle_ms.max(1)));
        let initiator = start.initiator;
        let (traffic, opener) = Traffic::new(now, &config, idle, start);
        Self {
            initiator,
            lifecycle: Lifecycle::new(now, idle),
            receiver: Receiver::new(opener),
            traffic,
            addresses: Addresses::default(),
            config,
        }
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// The peer's limit on open streams is reached, or the connection is over.
    pub fn open(&mut self) -> Result<StreamId, OpenError> {
        self.traffic.core.data.streams.open()
    }

    /// The next stream that the peer opened, if any.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.traffic.core.data.streams.accept()
    }

    /// Takes what fits into the send buffer from the front of `data`; returns its length in bytes.
    ///
    /// # Errors
    /// [`WriteError::Blocked`] when nothing fits now, else why the stream takes no more.
    pub fn write(&mut self, stream: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        self.traffic.core.data.streams.write(stream, data)
    }

    /// Ends our side of a stream; [`StreamEvent::Finished`](crate::streams::StreamEvent) tells when
    /// the peer has it all.
    ///
    /// # Errors
    /// The stream is unknown, reset or finished already.
    pub fn finish(&mut self, stream: StreamId) -> Result<(), WriteError> {
        self.traffic.core.data.streams.finish(stream)
    }

    /// Gives up our side of a stream: what the peer doesn't have yet is never sent.
    ///
    /// # Errors
    /// The stream is unknown or over already.
    pub fn reset(&mut self, stream: StreamId, code: u64) -> Result<(), WriteError> {
        self.traffic.core.data.streams.reset(stream, code)
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
        self.traffic.core.data.streams.read(now, stream, max)
    }

    /// Asks the peer to stop sending on a stream; what arrives is dropped.
    ///
    /// # Errors
    /// The stream is unknown or was read to its end.
    pub fn stop(&mut self, stream: StreamId, code: u64) -> Result<(), ReadError> {
        self.traffic.core.data.streams.stop(stream, code)
    }

    /// Closes the connection; unacknowledged stream data is dropped. Codes below 0x100 are the
    /// session's.
    pub fn close(&mut self, now: Time, code: u64, reason: &str) {
        self.close_with(now, code, reason, CloseReason::Local);
    }

    /// Whether the connection is closing or closed.
    pub fn is_closed(&self) -> bool {
        !self.lifecycle.is_open()
    }

    /// Stream bytes written and not acknowledged yet.
    pub fn unacked_bytes(&self) -> u64 {
        self.traffic.core.data.streams.unacked_bytes()
    }

    /// Addresses that the listener has gained since it wrote the ticket, as it says; at most 32.
    pub fn peer_addresses(&self) -> &[SocketAddr] {
        self.addresses.peer()
    }

    /// Sends `bytes` bytes of filler beside all other data, as fast as congestion control and
    /// [`Config::limit`](crate::Config::limit) allow: this measures the paths without moving data.
    /// Filler that was asked for before and hasn't left is dropped.
    pub fn fill(&mut self, now: Time, bytes: u64) {
        self.traffic.core.data.fill(bytes);
        self.traffic.core.paths.restart_survey(now);
        self.traffic.relayed.drive(now, &mut self.traffic.core);
    }

    /// Filler that hasn't left yet, in bytes.
    pub fn unsent_filler(&self) -> u64 {
        self.traffic.core.data.filler()
    }

    /// What was seen of every path over UDP in use since [`Connection::fill`]; empty without
    /// [`Config::watch`](crate::Config::watch).
    pub fn survey(&mut self, now: Time) -> Vec<PathSurvey> {
        self.traffic.core.paths.survey(now)
    }

    /// Offers relays to go through, as many as there may be; more can follow at any time. How many
    /// were new.
    ///
    /// With [`Config::selection`](crate::Config::selection) they are what it chooses from. Else,
    /// with the law `mpath`, they are candidates that its path manager probes and uses as it sees
    /// fit; with any other one, a path is opened through each as soon as the relay and the listener
    /// agree. Without UDP they are of no use here.
    pub fn add_relays(&mut self, now: Time, relays: &[RelayAccess]) -> usize {
        if !self.initiator || self.is_closed() || !self.config.udp {
            return 0;
        }
        self.traffic
            .relayed
            .add(now, relays, &mut self.traffic.core)
    }

    /// These relays could be dialled over TCP now; nothing is known of whether they answer. Of use
    /// with [`Config::selection`](crate::Config::selection) only: [`Connection::relays_to_dial`]
    /// says which are wanted.
    pub fn relays_over_tcp(&mut self, relays: &[RelayAccess]) {
        self.traffic.relayed.set_over_tcp(relays);
    }

    /// The relays that are to have a TCP connection now, if they aren't reached by UDP; `None` if
    /// all of them may.
    pub fn relays_to_dial(&self) -> Option<Vec<RelayId>> {
        self.traffic.relayed.to_dial()
    }

    /// A TCP connection to the relay, or through it, didn't come about.
    pub fn on_dial_failed(&mut self, now: Time, relay: RelayId) {
        self.traffic.relayed.on_dial_failed(now, relay);
    }

    /// Counters of the connection and of each path.
    pub fn stats(&self) -> ConnectionStats {
        let paths = self.traffic.core.paths.stats();
        ConnectionStats {
            bytes_acked: self.traffic.core.data.acked(),
            bytes_sent: paths.iter().map(|p| p.stream_bytes_sent).sum(),
            bytes_received: paths.iter().map(|p| p.stream_bytes_received).sum(),
            bytes_resent: self.traffic.core.data.resent(),
            packets_rejected: self.receiver.rejected(),
            relays: self.traffic.relayed.stats(&self.traffic.core.paths),
            selection: self.traffic.relayed.selection_stats(),
            paths,
        }
    }

    // What the endpoint asks.

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        let Core { data, outbox, .. } = &mut self.traffic.core;
        // What became of the streams comes before the end: the packet that closes may bring the
        // last ACK.
        if outbox.ends()
            && let Some(event) = data.streams.poll_event()
        {
            return Some(Event::Stream(event));
        }
        if let Some(event) = outbox.next_event() {
            return Some(event);
        }
        if !self.lifecycle.is_open() {
            return None;
        }
        data.streams.poll_event().map(Event::Stream)
    }

    /// What the endpoint has to do outside of the connection.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        self.traffic.core.outbox.take_changes()
    }

    /// The connection ids by which the endpoint knows the connection.
    pub(crate) fn issued_cids(&self) -> impl Iterator<Item = ConnectionId> {
        self.traffic.core.ids.issued()
    }

    /// Fills `buf` with one or more datagrams for one path.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Time,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !self.lifecycle.is_open() {
            let Traffic {
                core, transmitter, ..
            } = &mut self.traffic;
            return transmitter.poll_close(now, &mut self.lifecycle, core, buf);
        }
        let transmit = self.traffic.poll(now, max_segments, buf);
        if let Some(text) = self.traffic.transmitter.take_failure() {
            self.close_with(now, code::CRYPTO, &text, CloseReason::Crypto(text.clone()));
        }
        transmit
    }

    /// When [`Connection::handle_timeout`] has to be called next.
    pub(crate) fn timeout(&self, now: Time) -> Option<Time> {
        let end = self.lifecycle.timeout();
        if !self.lifecycle.is_open() {
            return end;
        }
        let core = &self.traffic.core;
        [
            end,
            core.paths.timeout(),
            core.pairs.as_ref().and_then(|pairs| pairs.timer(now)),
            core.data.limited_until(),
            core.ids.timeout(),
            self.traffic.relayed.timeout(now),
            self.traffic.carriers.timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        match self.lifecycle.on_timeout(now) {
            Idle::No => {}
            Idle::Over => return,
            Idle::TimedOut => {
                let (seconds, paths) = (
                    self.lifecycle.idle_timeout().as_secs(),
                    self.traffic.core.paths.len(),
                );
                let reason = CloseReason::TimedOut { seconds, paths };
                self.traffic.core.outbox.tell(Event::Closed(reason));
                return;
            }
        }
        self.traffic.core.data.on_timeout(now);
        self.traffic.core.issue_cids(now);
        // Taken once: a timer that waits for a datagram to leave may still be due afterwards.
        for index in self.traffic.core.paths.due(now) {
            if self.traffic.core.paths.get(index).is_some() {
                self.traffic.on_path_timer(now, index);
            }
        }
        self.traffic.open_paths(now);
        self.traffic.relayed.on_timeout(now, &mut self.traffic.core);
        self.traffic.relayed.select(now, &mut self.traffic.core);
        self.traffic
            .carriers
            .on_timeout(now, &mut self.traffic.core);
    }

    pub(crate) fn handle_packet(&mut self, now: Time, arrival: Arrival<'_>) {
        let Core { paths, .. } = &mut self.traffic.core;
        let known = paths.index_of(arrival.path);
        if !self.lifecycle.is_open() {
            // Unopened, so from anywhere; but only the path's own address is answered.
            if let Some(index) = known {
                paths[index].on_unopened(arrival.remote, arrival.data.len());
                if paths[index].takes_close(self.initiator) {
                    self.lifecycle.repeat(arrival.path);
                }
            }
            return;
        }
        let (id, local, remote) = (arrival.path, arrival.local, arrival.remote);
        let transport = PathTransport::of(arrival.facts);
        let path = known.map(|index| &paths[index]);
        let opened = self.receiver.open(now, paths.largest_pto(), arrival, path);
        match opened {
            Ok(opened) => {
                let index =
                    known.or_else(|| self.traffic.accept_path(now, id, local, remote, transport));
                if let Some(index) = index {
                    self.handle_opened(now, index, opened);
                }
            }
            Err(Refused::Rejected) => {}
            Err(Refused::TooMany) => {
                let text = "as many packets failed to open as the cipher allows".to_owned();
                self.close_with(now, code::CRYPTO, &text, CloseReason::Crypto(text.clone()));
            }
        }
    }

    /// The listener's first packet, which opened by way of the handshake.
    pub(crate) fn handle_first(&mut self, now: Time, opened: Opened<'_>) {
        if let Some(index) = self.traffic.core.paths.index_of(PathId(0)) {
            self.handle_opened(now, index, opened);
        }
    }

    /// A socket was added: the initiator pairs it up, the listener tells the peer.
    pub(crate) fn add_local(&mut self, now: Time, local: &Local) {
        if self.initiator {
            if let Some(pairs) = &mut self.traffic.core.pairs {
                pairs.add_local(local.clone());
                self.traffic.open_paths(now);
                self.traffic
                    .relayed
                    .add_local(now, local, &mut self.traffic.core);
            }
            return;
        }
        let is_void = |frame: &Frame<'_>| matches!(frame, Frame::Addresses { .. });
        let frame = self.addresses.gain(local.addr);
        self.traffic.core.outbox.say_instead(frame, is_void);
        self.traffic.core.rebind(now, local);
    }

    /// A socket is gone: its paths' data goes over the others.
    pub(crate) fn remove_local(
        &mut self,
        now: Time,
        id: LocalId,
        locals: &BTreeMap<LocalId, Local>,
    ) {
        let core = &mut self.traffic.core;
        let gone = core.paths.indices(|path| path.local().id == id);
        if !self.initiator && gone.len() == core.paths.len() {
            // A listener can't open paths: without any, nobody could tell the peer where we are
            // now.
            gone.into_iter().for_each(|index| core.unbind(now, index));
            locals.values().for_each(|local| core.rebind(now, local));
            return;
        }
        for index in gone {
            self.traffic
                .relayed
                .close_path(now, index, PathDownReason::LocalGone, true, core);
        }
        if let Some(pairs) = &mut core.pairs {
            pairs.remove_local(id);
        }
        self.traffic.relayed.remove_local(now, id, core);
    }

    /// The listener is, or may be, at these addresses too.
    pub(crate) fn add_remotes(&mut self, now: Time, addresses: &[SocketAddr]) {
        if let Some(pairs) = &mut self.traffic.core.pairs {
            pairs.add_remotes(addresses);
            self.traffic.open_paths(now);
        }
    }

    /// A datagram could not be sent. Without a route the path between these two addresses is given
    /// up, unless it is the last one.
    pub(crate) fn on_send_error(
        &mut self,
        now: Time,
        local: LocalId,
        remote: SocketAddr,
        kind: SendErrorKind,
    ) {
        let core = &mut self.traffic.core;
        let Some(index) = core.paths.between(local, remote) else {
            return;
        };
        match kind {
            SendErrorKind::TooBig => core.paths.on_too_big(now, index),
            SendErrorKind::NoRoute if core.paths.len() > 1 => {
                self.traffic
                    .relayed
                    .close_path(now, index, PathDownReason::NoRoute, true, core);
            }
            // Loss detection deals with it.
            SendErrorKind::NoRoute | SendErrorKind::Other => {}
        }
    }

    /// Opens a path on a carrier, as soon as the peer's connection ids are there. Whether it is
    /// wanted.
    pub(crate) fn offer_carrier(&mut self, now: Time, carrier: Carrier) -> bool {
        let wanted = self.initiator
            && !self.is_closed()
            && (!carrier.facts.relay || self.traffic.relayed.takes_carrier_at(carrier.remote))
            && self.traffic.carriers.offer(carrier);
        if wanted {
            self.traffic
                .carriers
                .open_paths(now, &mut self.traffic.core);
        }
        wanted
    }

    /// A carrier has broken or was closed: what was in flight on it goes over the other paths.
    pub(crate) fn remove_carrier(&mut self, now: Time, id: LocalId) {
        self.traffic.carriers.withdraw(id);
        if let Some(index) = self.traffic.core.paths.on_carrier(id) {
            let (reason, core) = (PathDownReason::CarrierClosed, &mut self.traffic.core);
            self.traffic
                .relayed
                .close_path(now, index, reason, true, core);
        }
    }

    /// The driver wrote `bytes` more bytes of packets to a carrier.
    pub(crate) fn on_carrier_written(&mut self, now: Time, id: LocalId, bytes: u64) {
        if let Some(index) = self.traffic.core.paths.on_carrier(id) {
            self.traffic.core.paths.on_written(now, index, bytes);
        }
    }

    /// The rate at which a carrier delivers, bytes/s.
    pub(crate) fn carrier_rate(&self, id: LocalId) -> Option<f64> {
        let index = self.traffic.core.paths.on_carrier(id)?;
        self.traffic.core.paths[index].sender().carried()?.rate()
    }

    /// Takes what a relay says; whether it was meant for us.
    pub(crate) fn on_relay_reply(
        &mut self,
        now: Time,
        from: (LocalId, SocketAddr),
        reply: &RelayReply,
    ) -> bool {
        self.traffic
            .relayed
            .on_reply(now, from, reply, &mut self.traffic.core)
    }

    /// A relay has just consented to forward to us: the initiator hears of it when it needs to.
    pub(crate) fn on_fresh_consent(&mut self, now: Time, fresh: Fresh) {
        self.traffic
            .relayed
            .on_fresh_consent(now, fresh, &mut self.traffic.core);
    }

    /// A relay doesn't honour what goes in front of some datagrams. Whether they are ours.
    pub(crate) fn on_stale_grant(&mut self, now: Time, relay: SocketAddr, stale: &Stale) -> bool {
        self.traffic
            .relayed
            .on_stale_grant(now, relay, stale, &mut self.traffic.core.paths)
    }

    // What concerns several components.

    fn close_with(&mut self, now: Time, code: u64, reason: &str, event: CloseReason) {
        let until = now + 3 * self.traffic.core.paths.largest_pto();
        let paths = self.traffic.core.paths.iter().map(|(_, path)| path);
        let owed = paths.filter(|path| path.takes_close(self.initiator));
        let owed = owed.map(|path| path.id());
        if self.lifecycle.close(until, code, reason, owed) {
            self.traffic.core.outbox.tell(Event::Closed(event));
        }
    }

    fn handle_opened(&mut self, now: Time, index: usize, opened: Opened<'_>) {
        self.lifecycle.on_heard(now);
        let Core { paths, rng, .. } = &mut self.traffic.core;
        let (id, number) = (paths[index].id(), opened.number);
        let source = (opened.local, opened.remote);
        let origin = paths[index].on_packet(now, number, source, (opened.len, opened.ecn), rng);
        let eliciting = match self.handle_frames(now, index, origin, opened.plain) {
            Ok(eliciting) => eliciting,
            Err(Violation(text)) => {
                let reason = CloseReason::Protocol(text.clone());
                self.close_with(now, code::PROTOCOL, &text, reason);
                return;
            }
        };
        if self.traffic.core.outbox.overflows() {
            let text = format!(
                "it caused more than {MAX_CONTROL} control frames and took too few of them"
            );
            self.close_with(
                now,
                code::PROTOCOL,
                &text,
                CloseReason::Protocol(text.clone()),
            );
            return;
        }
        // The packet itself may have ended its path.
        if self.traffic.core.paths.index_of(id) == Some(index) {
            let path = &mut self.traffic.core.paths[index];
            let policy = path.ack_policy(self.config.ack_every, self.config.ack_delay);
            let at_once = opened.ecn == Some(Ecn::Ce) || eliciting.pinged;
            path.record(now, number, eliciting.any, policy, at_once);
            if eliciting.pinged {
                self.traffic
                    .transmitter
                    .echo_ack(&mut self.traffic.core, index);
            }
            self.traffic.core.paths.refresh(now, index);
        }
        self.traffic.open_paths(now);
        self.traffic.relayed.drive(now, &mut self.traffic.core);
        if self.lifecycle.is_open() {
            self.traffic.relayed.select(now, &mut self.traffic.core);
        }
    }

    fn handle_frames(
        &mut self,
        now: Time,
        index: usize,
        origin: Origin,
        plain: &[u8],
    ) -> Result<Eliciting, Violation> {
        let id = self.traffic.core.paths[index].id();
        let mut eliciting = Eliciting::default();
        for frame in Frames::new(plain) {
            let frame = frame?;
            eliciting.any |= frame.is_ack_eliciting();
            eliciting.pinged |= matches!(frame, Frame::Ping);
            self.handle_frame(now, index, origin, frame)?;
            if self.is_closed() || self.traffic.core.paths.index_of(id) != Some(index) {
                break;
            }
        }
        Ok(eliciting)
    }

    fn handle_frame(
        &mut self,
        now: Time,
        index: usize,
        origin: Origin,
        frame: Frame<'_>,
    ) -> Result<(), Violation> {
        let core = &mut self.traffic.core;
        let streams = &mut core.data.streams;
        match frame {
            Frame::Padding { .. } | Frame::Ping | Frame::Filler => {}
            Frame::Ack(ack) => self.traffic.on_ack(now, &ack)?,
            Frame::Stream {
                stream,
                offset,
                fin,
                data,
            } => {
                core.paths[index].on_stream_data(now, data.len());
                let rtt = core.paths.slowest_rtt();
                streams.on_stream(now, rtt, stream, offset, data, fin)?;
            }
            Frame::ResetStream {
                stream,
                code,
                final_size,
            } => streams.on_reset(stream, code, final_size)?,
            Frame::StopSending { stream, code } => streams.on_stop(stream, code)?,
            Frame::MaxData { max } => streams.on_max_data(max),
            Frame::MaxStreamData { stream, max } => streams.on_max_stream_data(stream, max)?,
            Frame::MaxStreams { count } => streams.on_max_streams(count),
            Frame::PathChallenge { data } => core.paths[index].on_challenge(origin, data),
            Frame::PathResponse { data } => self.traffic.on_response(now, index, origin, data),
            Frame::PathId { path, cid } => {
                core.on_cid_announced(path, cid).map_err(Violation)?;
            }
            Frame::PathAbandon { path, .. } => self.traffic.on_abandon(now, path)?,
            Frame::Addresses { seq, addresses } => {
                if self.addresses.on_announced(seq) {
                    if self.initiator {
                        self.addresses.set_peer(&addresses);
                    }
                    self.add_remotes(now, &addresses);
                }
            }
            Frame::Relay { slot, seq, relay } => {
                self.traffic.relayed.on_relay(now, slot, seq, relay, core)?;
            }
            Frame::Consent { slot, seq, consent } => {
                self.traffic.relayed.on_consent(now, slot, seq, consent)?;
            }
            Frame::Grant { path, seq, grant } => {
                self.traffic.relayed.on_grant(path, seq, grant, core)?
            }
            Frame::Close { code, reason } => {
                let reason = printable(reason, MAX_REASON_LEN);
                if self.lifecycle.end() {
                    let reason = CloseReason::Peer { code, reason };
                    core.outbox.tell(Event::Closed(reason));
                }
            }
        }
        Ok(())
    }
}
