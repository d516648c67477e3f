//! One connection: streams above, paths below, and the choice between them.
//!
//! [`Connection`] is what the application and the endpoint talk to. It passes on what they ask,
//! gives each frame to whom it concerns, and ends the connection. Every component owns its fields
//! and says what is to be done; the connection itself holds no protocol state.
//!
//! From below: [`packet`] and [`violation`] are types that several share; [`paths`] knows the paths
//! and [`data`] the streams and the [`datagrams`]; [`core`] holds both with the [`outbox`];
//! [`relayed`] and [`carriers`] look at paths and return what is to be done; [`transmit`] assembles
//! packets; [`traffic`] owns all these and carries a path through its life; [`receive`],
//! [`addresses`] and [`lifecycle`] stand by themselves.

mod addresses;
mod carriers;
mod copies;
mod core;
mod data;
mod datagrams;
mod detours;
mod lifecycle;
mod outbox;
mod packet;
mod paths;
mod rate_control;
mod receive;
mod relayed;
mod start;
#[cfg(test)]
mod tests;
mod traffic;
mod transmit;
mod violation;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_units::{Rate, Time, printable};
use manyway_wire::relay::{RelayReply, Stale};
use manyway_wire::{ConnectionId, Frame, Frames, MAX_REASON_LEN, PathId, PeerId, StreamId};

use crate::budget::{MAX_CONTROL, Usage};
use crate::carrier::Carrier;
use crate::config::Config;
use crate::driver::{Local, LocalId, SendErrorKind, Transmit};
use crate::event::{CloseReason, DatagramError, Event, PathDownReason, code};
use crate::relays::{Fresh, RelayAccess, RelayId};
use crate::stats::{ConnectionStats, PathSurvey};
use crate::streams::{OpenError, ReadError, WriteError};

use addresses::Addresses;
use lifecycle::{Idle, Lifecycle};
use paths::{Origin, PathTransport};
use receive::{Receiver, Refused};
use traffic::Traffic;
use violation::Violation;

pub(crate) use outbox::Change;
pub(crate) use paths::{NamedInAll, PathMemory, RelayHeader};
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
    peer: Option<PeerId>,
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
        let (initiator, identity) = (start.initiator, start.established.identity);
        let (traffic, opener) = Traffic::new(now, &config, idle, start);
        Self {
            initiator,
            peer: identity,
            lifecycle: Lifecycle::new(now, idle),
            receiver: Receiver::new(opener),
            traffic,
            addresses: Addresses::default(),
            config,
        }
    }

    /// Whom the peer has proven to be in the handshake: the listener that made the ticket, or an
    /// initiator with an [identity](Config::identity). `None` for an initiator without.
    pub fn peer(&self) -> Option<PeerId> {
        self.peer
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// The peer's limit on open streams is reached, or the connection is over.
    pub fn open(&mut self) -> Result<StreamId, OpenError> {
        self.traffic.streams().open()
    }

    /// Opens a stream on which only this side sends.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_uni(&mut self) -> Result<StreamId, OpenError> {
        self.traffic.streams().open_uni()
    }

    /// The next stream on which only the peer sends, if it opened any.
    pub fn accept_uni(&mut self) -> Option<StreamId> {
        self.traffic.streams().accept_uni()
    }

    /// The next stream that the peer opened, if any.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.traffic.streams().accept()
    }

    /// Takes what fits into the send buffer from the front of `data`; returns its length in bytes.
    ///
    /// # Errors
    /// [`WriteError::Blocked`] when nothing fits now, else why the stream takes no more.
    pub fn write(&mut self, stream: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        self.traffic.streams().write(stream, data)
    }

    /// Ends our side of a stream; [`StreamEvent::Finished`](crate::streams::StreamEvent) tells when
    /// the peer has it all.
    ///
    /// # Errors
    /// The stream is unknown, reset or finished already.
    pub fn finish(&mut self, stream: StreamId) -> Result<(), WriteError> {
        self.traffic.streams().finish(stream)
    }

    /// Gives up our side of a stream: what the peer doesn't have yet is never sent.
    ///
    /// # Errors
    /// The stream is unknown or over already.
    pub fn reset(&mut self, stream: StreamId, code: u64) -> Result<(), WriteError> {
        self.traffic.streams().reset(stream, code)
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
        self.traffic.streams().read(now, stream, max)
    }

    /// Whether the streams have something to say to the peer, as a limit that reading has raised.
    pub fn has_control(&self) -> bool {
        self.traffic.has_control()
    }

    /// Asks the peer to stop sending on a stream; what arrives is dropped.
    ///
    /// # Errors
    /// The stream is unknown or was read to its end.
    pub fn stop(&mut self, stream: StreamId, code: u64) -> Result<(), ReadError> {
        self.traffic.streams().stop(stream, code)
    }

    /// Most bytes of a datagram that can be sent; `None` unless both sides have set
    /// [`Config::datagram`](crate::Config::datagram).
    pub fn max_datagram(&mut self) -> Option<usize> {
        self.traffic.datagrams().most()
    }

    /// Queues a datagram (RFC 9221), which leaves before stream data, at once or within 50 ms, or
    /// never. It may get lost, and overtake others. [`ConnectionStats::datagrams`] counts.
    ///
    /// # Errors
    /// [`DatagramError::Blocked`] when as many wait as may, else why it can't be sent.
    pub fn send_datagram(&mut self, now: Time, data: Bytes) -> Result<(), DatagramError> {
        if self.is_closed() {
            return Err(DatagramError::Closed);
        }
        self.traffic.datagrams().send(now, data)
    }

    /// The oldest datagram that arrived and wasn't taken. When too many wait, the oldest goes.
    pub fn recv_datagram(&mut self) -> Option<Bytes> {
        self.traffic.datagrams().take()
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
        self.traffic.unacked_bytes()
    }

    /// Addresses that the listener has gained since it wrote the ticket, as it says; at most 32.
    pub fn peer_addresses(&self) -> &[SocketAddr] {
        self.addresses.peer()
    }

    /// Whether a TCP connection from `local` to this address of the listener's may be dialled now.
    /// One that isn't in the ticket is the peer's choice: it has to be in a network that it may
    /// know of, and is charged to what the peer may make us send to others.
    pub fn may_dial(&mut self, now: Time, local: IpAddr, remote: SocketAddr) -> bool {
        self.traffic.may_dial(now, local, remote)
    }

    /// Sends `bytes` bytes of filler beside all other data, as fast as congestion control and
    /// [`Config::limit`](crate::Config::limit) allow: this measures the paths without moving data.
    /// Filler that was asked for before and hasn't left is dropped.
    pub fn fill(&mut self, now: Time, bytes: u64) {
        self.traffic.fill(now, bytes);
    }

    /// Sends stream data at no more than this rate from now on, in place of
    /// [`Config::limit`](crate::Config::limit); `None`: as fast as congestion control allows.
    pub fn set_limit(&mut self, now: Time, limit: Option<Rate>) {
        self.traffic.set_limit(now, limit);
    }

    /// Filler that hasn't left yet, in bytes.
    pub fn unsent_filler(&self) -> u64 {
        self.traffic.unsent_filler()
    }

    /// What was seen of every path over UDP in use since [`Connection::fill`]; empty without
    /// [`Config::watch`](crate::Config::watch).
    pub fn survey(&mut self, now: Time) -> Vec<PathSurvey> {
        self.traffic.survey(now)
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
        self.traffic.add_relays(now, relays)
    }

    /// These relays could be dialled over TCP now; nothing is known of whether they answer. Of use
    /// with [`Config::selection`](crate::Config::selection) only: [`Connection::relays_to_dial`]
    /// says which are wanted.
    pub fn relays_over_tcp(&mut self, relays: &[RelayAccess]) {
        self.traffic.relays_over_tcp(relays);
    }

    /// The relays that are to have a TCP connection now, if they aren't reached by UDP; `None` if
    /// all of them may.
    pub fn relays_to_dial(&self) -> Option<Vec<RelayId>> {
        self.traffic.relays_to_dial()
    }

    /// A TCP connection to the relay, or through it, didn't come about.
    pub fn on_dial_failed(&mut self, now: Time, relay: RelayId) {
        self.traffic.on_dial_failed(now, relay);
    }

    /// Counters of the connection and of each path.
    pub fn stats(&self) -> ConnectionStats {
        self.traffic.stats(self.receiver.rejected())
    }

    // What the endpoint asks.

    /// The round-trip time of the best path.
    pub(crate) fn best_rtt(&self) -> Option<Duration> {
        self.traffic.best_rtt()
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.traffic.poll_event(self.lifecycle.is_open())
    }

    /// What its paths carried is for those of the next connection.
    pub(crate) fn remember(&self) {
        self.traffic.remember();
    }

    /// What the endpoint has to do outside of the connection.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        self.traffic.take_changes()
    }

    /// The connection ids by which the endpoint knows the connection.
    pub(crate) fn issued_cids(&self) -> impl Iterator<Item = ConnectionId> {
        self.traffic.issued_cids()
    }

    /// Fills `buf` with one or more datagrams for one path.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Time,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        while let Some((path, code, reason)) = self.lifecycle.next_close() {
            let close = (code, &*reason);
            let transmit = self.traffic.transmit_close(now, path, close, buf);
            if transmit.is_some() {
                return transmit;
            }
        }
        if !self.lifecycle.is_open() {
            return None;
        }
        let transmit = self.traffic.poll(now, max_segments, buf);
        if let Some(text) = self.traffic.take_failure() {
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
        end.into_iter().chain(self.traffic.timeout(now)).min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        match self.lifecycle.on_timeout(now) {
            Idle::No => {}
            Idle::Over => return,
            Idle::TimedOut => {
                let seconds = self.lifecycle.idle_timeout().as_secs();
                let reason = CloseReason::TimedOut {
                    seconds,
                    paths: self.traffic.path_count(),
                    offline: self.traffic.is_offline(),
                };
                self.traffic.tell(Event::Closed(reason));
                return;
            }
        }
        self.traffic.on_timeout(now);
    }

    pub(crate) fn handle_packet(&mut self, now: Time, arrival: Arrival<'_>) {
        let (id, local, remote) = (arrival.path, arrival.local, arrival.remote);
        if !self.lifecycle.is_open() {
            if self.traffic.on_unopened(id, remote, arrival.data.len()) {
                self.lifecycle.repeat(id);
            }
            return;
        }
        let transport = PathTransport::of(arrival.facts);
        let (pto, path) = (self.traffic.largest_pto(), self.traffic.path(id));
        if path.is_some_and(|path| path.facts().reliable && path.local().id != local.id) {
            // What a carrier's path carries comes on that carrier.
            return;
        }
        let opened = self.receiver.open(now, pto, arrival, path);
        match opened {
            Ok(opened) => {
                let known = self.traffic.index_of(id);
                if let Some(index) = known {
                    let from = (local, remote);
                    self.traffic.follow_relay(now, index, from, opened.number);
                }
                let mut accept = || self.traffic.accept_path(now, id, local, remote, transport);
                if let Some(index) = known.or_else(&mut accept) {
                    self.handle_opened(now, (id, index), opened);
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
        let id = PathId(0);
        if let Some(index) = self.traffic.index_of(id) {
            self.handle_opened(now, (id, index), opened);
        }
    }

    /// A socket was added: the initiator pairs it up.
    pub(crate) fn add_local(&mut self, now: Time, local: &Local) {
        match self.initiator {
            true => self.traffic.add_local(now, local),
            false => self.traffic.rebind(now, local),
        }
    }

    /// Tells the peer at which addresses this listener is beside those of the ticket.
    pub(crate) fn announce(&mut self, gained: Option<Frame<'static>>) {
        if let Some(frame) = gained.filter(|_| !self.initiator) {
            self.traffic.announce(frame);
        }
    }

    /// A socket is gone: its paths' data goes over the others.
    pub(crate) fn remove_local(
        &mut self,
        now: Time,
        id: LocalId,
        locals: &BTreeMap<LocalId, Local>,
    ) {
        self.traffic.remove_local(now, id, locals);
    }

    /// The listener is, or may be, at these addresses too.
    pub(crate) fn add_remotes(&mut self, now: Time, addresses: &[SocketAddr]) {
        self.traffic.add_remotes(now, addresses);
    }

    /// A datagram could not be sent. Without a route the path between these two addresses is given
    /// up, unless it is the last one. Whether there is such a path.
    pub(crate) fn on_send_error(
        &mut self,
        now: Time,
        local: LocalId,
        remote: SocketAddr,
        kind: SendErrorKind,
    ) -> bool {
        self.traffic.on_send_error(now, local, remote, kind)
    }

    /// Opens a path on a carrier, as soon as the peer's connection ids are there. Whether it is
    /// wanted.
    pub(crate) fn offer_carrier(&mut self, now: Time, carrier: Carrier) -> bool {
        !self.is_closed() && self.traffic.offer_carrier(now, carrier)
    }

    /// A carrier has broken or was closed: what was in flight on it goes over the other paths.
    pub(crate) fn remove_carrier(&mut self, now: Time, id: LocalId, reason: PathDownReason) {
        self.traffic.remove_carrier(now, id, reason);
    }

    /// The driver wrote `bytes` more bytes of packets to a carrier.
    pub(crate) fn on_carrier_written(&mut self, now: Time, id: LocalId, bytes: u64) {
        self.traffic.on_carrier_written(now, id, bytes);
    }

    /// The rate at which a carrier delivers, bytes/s.
    pub(crate) fn carrier_rate(&self, id: LocalId) -> Option<f64> {
        self.traffic.carrier_rate(id)
    }

    /// Takes what a relay says; whether it was meant for us.
    pub(crate) fn on_relay_reply(
        &mut self,
        now: Time,
        from: (LocalId, SocketAddr),
        reply: &RelayReply,
    ) -> bool {
        self.traffic.on_relay_reply(now, from, reply)
    }

    /// Charges the peer for what goes to a relay that it has named; whether it may go.
    pub(crate) fn charge_greeting(&mut self, now: Time, bytes: u64) -> bool {
        self.traffic.charge_greeting(now, bytes)
    }

    /// The relay has answered.
    pub(crate) fn refund_greetings(&mut self, bytes: u64) {
        self.traffic.refund_greetings(bytes);
    }

    /// A relay has just consented to forward to us: the initiator hears of it when it needs to.
    pub(crate) fn on_fresh_consent(&mut self, now: Time, fresh: Fresh) {
        self.traffic.on_fresh_consent(now, fresh);
    }

    /// A relay doesn't honour what goes in front of some datagrams. Whether they are ours.
    pub(crate) fn on_stale_grant(&mut self, now: Time, relay: SocketAddr, stale: &Stale) -> bool {
        self.traffic.on_stale_grant(now, relay, stale)
    }

    // What it costs.

    /// What the connection takes and has brought.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            closed: self.is_closed(),
            ..self.traffic.usage()
        }
    }

    /// How far the receive window may grow, in bytes.
    pub(crate) fn limit_window(&mut self, share: u64) {
        let most = self.config.receive_window.min(share);
        let most = most.max(self.config.initial_receive_window());
        self.traffic.streams().limit_window(most);
    }

    /// Closes the connection because there is no room for it, and lets go of what it holds.
    pub(crate) fn turn_away(&mut self, now: Time, why: &str) {
        let reason = CloseReason::Overloaded(why.to_owned());
        self.traffic.discard(now);
        self.close_with(now, code::OVERLOADED, why, reason);
    }

    /// The connection is over: it lets go of all that can't be read any more, as there is no room
    /// for it.
    pub(crate) fn let_go(&mut self, now: Time) {
        self.traffic.let_go(now);
    }

    // What concerns several components.

    fn close_with(&mut self, now: Time, code: u64, reason: &str, event: CloseReason) {
        let until = now + 3 * self.traffic.largest_pto();
        let owed = self.traffic.closable();
        if self.lifecycle.close(until, code, reason, owed) {
            if code == code::PROTOCOL {
                self.traffic.distrust();
            }
            self.traffic.tell(Event::Closed(event));
        }
    }

    fn handle_opened(&mut self, now: Time, (id, index): (PathId, usize), opened: Opened<'_>) {
        self.lifecycle.on_heard(now);
        let origin = self.traffic.on_packet(now, index, &opened);
        let eliciting = match self.handle_frames(now, (id, index), origin, opened.plain) {
            Ok(eliciting) => eliciting,
            Err(Violation(text)) => {
                let reason = CloseReason::Protocol(text.clone());
                self.close_with(now, code::PROTOCOL, &text, reason);
                return;
            }
        };
        if self.traffic.overflows() {
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
        if self.traffic.index_of(id) == Some(index) {
            let eliciting = (eliciting.any, eliciting.pinged);
            self.traffic.record(now, index, &opened, eliciting);
        }
        self.traffic.open_paths(now);
        self.traffic.drive(now);
        if self.lifecycle.is_open() {
            self.traffic.select(now);
        }
    }

    fn handle_frames(
        &mut self,
        now: Time,
        (id, index): (PathId, usize),
        origin: Origin,
        plain: &[u8],
    ) -> Result<Eliciting, Violation> {
        let (mut eliciting, mut listed) = (Eliciting::default(), None);
        for frame in Frames::new(plain) {
            let frame = frame?;
            eliciting.any |= frame.is_ack_eliciting();
            eliciting.pinged |= matches!(frame, Frame::Ping);
            // Only the newest list counts, and going through one takes time.
            if let Frame::Addresses { seq, addresses } = frame {
                if self.addresses.on_announced(seq) {
                    listed = Some(addresses);
                }
                continue;
            }
            self.handle_frame(now, index, origin, frame)?;
            if self.is_closed() || self.traffic.index_of(id) != Some(index) {
                break;
            }
        }
        if let Some(addresses) = listed {
            if self.initiator {
                self.addresses.set_peer(&addresses);
            }
            self.traffic.add_remotes(now, &addresses);
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
        let traffic = &mut self.traffic;
        match frame {
            // Lists of addresses are gone through behind the last frame.
            Frame::Padding { .. } | Frame::Ping | Frame::Filler | Frame::Addresses { .. } => {}
            Frame::Ack(ack) => traffic.on_ack(now, index, &ack)?,
            Frame::Stream {
                stream,
                offset,
                fin,
                data,
            } => traffic.on_stream(now, index, (stream, offset, fin), data)?,
            Frame::Datagram { data } => traffic.on_datagram(now, index, data)?,
            Frame::ResetStream {
                stream,
                code,
                final_size,
            } => traffic.streams().on_reset(stream, code, final_size)?,
            Frame::StopSending { stream, code } => traffic.streams().on_stop(stream, code)?,
            Frame::MaxData { max } => traffic.streams().on_max_data(max),
            Frame::MaxStreamData { stream, max } => {
                traffic.streams().on_max_stream_data(stream, max)?
            }
            Frame::MaxStreams { kind, count } => {
                traffic.streams().on_max_streams(kind, count);
            }
            Frame::PathChallenge { data } => traffic.on_challenge(index, origin, data),
            Frame::PathResponse { data } => traffic.on_response(now, index, origin, data),
            Frame::PathId { path, cid } => traffic.on_cid_announced(now, path, cid)?,
            Frame::PathAbandon { path, .. } => traffic.on_abandon(now, path)?,
            Frame::Relay { slot, seq, relay } => traffic.on_relay(now, slot, seq, relay)?,
            Frame::Consent { slot, seq, consent } => traffic.on_consent(now, slot, seq, consent)?,
            Frame::Grant { path, seq, grant } => traffic.on_grant(now, path, seq, grant)?,
            Frame::Close { code, reason } => {
                let reason = printable(reason, MAX_REASON_LEN);
                if self.lifecycle.end() {
                    let reason = CloseReason::Peer { code, reason };
                    traffic.tell(Event::Closed(reason));
                }
            }
        }
        Ok(())
    }
}
