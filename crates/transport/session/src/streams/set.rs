//! All streams of a connection: what the application does with them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use manyway_units::Time;
use manyway_wire::MAX_STREAM_COUNT;

use super::error::{OpenError, ReadError, WriteError};
use super::recv::RecvHalf;
use super::send::SendHalf;
use super::stream::{Ledger, Stream};
use super::types::{MAX_OFFSET, StreamEvent, StreamsConfig};
use super::window::Window;
use super::{StreamId, StreamKind};

/// A stream may buffer this much (or an eighth of the send buffer, if that is less) when others
/// have filled the rest.
const GUARANTEED: u64 = 64 << 10;

/// The streams of one connection.
#[derive(Debug)]
pub struct Streams {
    pub(super) config: StreamsConfig,
    pub(super) streams: BTreeMap<StreamId, Box<Stream>>,
    pub(super) ledger: Ledger,
    pub(super) events: VecDeque<StreamEvent>,
    /// Of each kind.
    pub(super) ours: [Ours; 2],
    /// Of each kind.
    pub(super) theirs: [Theirs; 2],
    pub(super) peer: Peer,
    /// The connection's receive window.
    pub(super) window: Window,
    /// Bytes received: the sum of all streams' highest offsets.
    pub(super) received: u64,
    /// The most of them that weren't consumed at a time.
    pub(super) most_unread: u64,
    /// Bytes that the application has read.
    read: u64,
    /// New bytes sent, over all streams.
    pub(super) sent: u64,
    /// Round-trip time as last told.
    pub(super) rtt: Duration,
    /// Streams whose last write didn't take everything.
    waiting_writers: BTreeSet<StreamId>,
}

/// Streams of a kind that this side opens.
#[derive(Default, Debug)]
pub(super) struct Ours {
    pub(super) opened: u64,
    /// How many the peer allows in all.
    pub(super) limit: u64,
    /// An `open` failed for the limit.
    pub(super) waiting: bool,
}

/// Streams of a kind that the peer opens.
#[derive(Default, Debug)]
pub(super) struct Theirs {
    pub(super) opened: u64,
    /// How many it may open in all.
    pub(super) limit: u64,
    /// The peer should be told a new limit.
    pub(super) due: bool,
    unaccepted: VecDeque<StreamId>,
}

/// What the peer allows this side to send.
#[derive(Default, Debug)]
pub(super) struct Peer {
    /// Bytes in all.
    pub(super) max_data: u64,
    /// Bytes on a new stream.
    pub(super) max_stream_data: u64,
}

impl Streams {
    /// No streams yet; [`set_peer_limits`](Self::set_peer_limits) must come before anything can be
    /// opened.
    pub fn new(config: StreamsConfig) -> Self {
        let cap = config.max_receive_window.min(MAX_OFFSET);
        Streams {
            window: Window::new(config.initial_window(), cap).shared(config.window_shares.max(1)),
            theirs: std::array::from_fn(|_| Theirs {
                limit: config.max_streams.min(MAX_STREAM_COUNT),
                ..Theirs::default()
            }),
            config,
            streams: BTreeMap::new(),
            ledger: Ledger::default(),
            events: VecDeque::new(),
            ours: Default::default(),
            peer: Peer::default(),
            received: 0,
            most_unread: 0,
            read: 0,
            sent: 0,
            rtt: Duration::ZERO,
            waiting_writers: BTreeSet::new(),
        }
    }

    /// Takes the peer's transport parameters: bytes in all, bytes per stream, and streams of each
    /// kind that this side may open.
    pub fn set_peer_limits(&mut self, max_data: u64, max_stream_data: u64, max_streams: u64) {
        self.peer.max_data = self.peer.max_data.max(max_data);
        self.peer.max_stream_data = max_stream_data;
        for ours in &mut self.ours {
            ours.limit = ours.limit.max(max_streams.min(MAX_STREAM_COUNT));
        }
        for (&id, stream) in &mut self.streams {
            if self.config.sends_on(id) {
                stream.send.on_max(max_stream_data);
            }
            stream.settle(id, &mut self.ledger);
        }
    }

    /// Opens a stream. The peer hears of it with its first frame.
    ///
    /// # Errors
    /// [`OpenError::Limit`] when the peer allows no more; [`StreamEvent::Available`] follows.
    pub fn open(&mut self) -> Result<StreamId, OpenError> {
        self.open_kind(StreamKind::Bidirectional)
    }

    /// Opens a stream on which only this side sends.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_uni(&mut self) -> Result<StreamId, OpenError> {
        self.open_kind(StreamKind::Unidirectional)
    }

    fn open_kind(&mut self, kind: StreamKind) -> Result<StreamId, OpenError> {
        let ours = &mut self.ours[kind as usize];
        let (index, limit) = (ours.opened, ours.limit);
        if index >= limit {
            ours.waiting = true;
            return Err(OpenError::Limit { limit });
        }
        ours.opened += 1;
        let id = StreamId::new(self.config.initiator, kind, index);
        self.insert(id);
        Ok(id)
    }

    /// The next stream that the peer opened, in the order of their ids.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.theirs[StreamKind::Bidirectional as usize]
            .unaccepted
            .pop_front()
    }

    /// The next stream that the peer opened and on which only it sends, in the order of their ids.
    pub fn accept_uni(&mut self) -> Option<StreamId> {
        self.theirs[StreamKind::Unidirectional as usize]
            .unaccepted
            .pop_front()
    }

    /// Takes what fits into the send buffer from the front of `data`; returns its length in bytes.
    /// Large pieces are kept as they are, without copying.
    ///
    /// # Errors
    /// [`WriteError::Blocked`] when nothing fits ([`StreamEvent::Writable`] follows, as it does
    /// when only a part fitted), [`WriteError::Stopped`] when the peer wants no more,
    /// [`WriteError::Closed`].
    pub fn write(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Err(WriteError::Closed);
        };
        let open = stream.send.writable();
        if open.is_ok() && !data.is_empty() {
            let limit = self.config.send_buffer.max(1);
            let total = limit.saturating_sub(self.ledger.buffered);
            let own = guaranteed(limit).saturating_sub(stream.send.buffered());
            let len = data
                .len()
                .min(usize::try_from(total.max(own)).unwrap_or(usize::MAX));
            if len < data.len() {
                self.waiting_writers.insert(id);
            }
            if len == 0 {
                return Err(WriteError::Blocked);
            }
            stream.send.write(data.split_to(len));
            self.settle(id);
            return Ok(len);
        }
        // The stream may be over now that the application knows that it was stopped.
        self.settle(id);
        open.map(|()| 0)
    }

    /// Ends this side's direction behind what was written. [`StreamEvent::Finished`] tells when the
    /// peer has it all.
    ///
    /// # Errors
    /// [`WriteError::Stopped`] when the peer wants no more, [`WriteError::Closed`].
    pub fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        let stream = self.streams.get_mut(&id).ok_or(WriteError::Closed)?;
        let result = stream.send.finish();
        self.waiting_writers.remove(&id);
        self.settle(id);
        result
    }

    /// Abandons this side's direction: what isn't acknowledged is dropped, and the peer's reader
    /// gets `code`.
    ///
    /// # Errors
    /// [`WriteError::Closed`] when everything was delivered or the stream was reset before.
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), WriteError> {
        let stream = self.streams.get_mut(&id).ok_or(WriteError::Closed)?;
        let result = stream.send.reset(code);
        self.waiting_writers.remove(&id);
        self.settle(id);
        self.wake_writers(id);
        result
    }

    /// The next bytes in order, at most `max`, usually up to a multiple of 64 KiB; `None` at the
    /// end, once.
    ///
    /// # Errors
    /// [`ReadError::Blocked`] when nothing has arrived ([`StreamEvent::Readable`] follows),
    /// [`ReadError::Reset`] (once) when the peer abandoned the stream, else [`ReadError::Closed`].
    pub fn read(
        &mut self,
        now: Time,
        id: StreamId,
        max: usize,
    ) -> Result<Option<Bytes>, ReadError> {
        let stream = self.streams.get_mut(&id).ok_or(ReadError::Closed)?;
        let shared = self.config.has_shares();
        if shared {
            limit_to_share(&mut stream.recv, &self.config, &self.window, &self.ledger);
        }
        let result = stream.recv.read(now, self.rtt, max);
        if let Ok(Some(data)) = &result {
            self.read += data.len() as u64;
            match shared {
                true => self.window.discard(data.len() as u64),
                false => self.window.read(now, self.rtt, data.len() as u64),
            }
        }
        if stream.settle_control(id, &mut self.ledger) {
            self.drop_stream(id);
        }
        self.make_room();
        result
    }

    /// With shares, the connection's window has room for all that its streams may send, and for
    /// new ones.
    pub(super) fn make_room(&mut self) {
        if self.config.has_shares() {
            let most = self.ledger.promised + self.config.initial_window();
            self.window.grow_to(most);
        }
    }

    /// Throws away what has arrived and what will arrive, and asks the peer to stop sending.
    ///
    /// # Errors
    /// [`ReadError::Closed`] when the stream was read to its end or stopped before.
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), ReadError> {
        let stream = self.streams.get_mut(&id).ok_or(ReadError::Closed)?;
        let result = stream.recv.stop(code);
        if let Ok(unread) = result {
            self.window.discard(unread);
        }
        self.settle(id);
        result.map(|_| ())
    }

    /// News for the application.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        self.events.pop_front()
    }

    /// Streams whose state is kept.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Bytes sent and not acknowledged, over all streams.
    pub fn unacked_bytes(&self) -> u64 {
        self.ledger.unacked
    }

    /// Bytes written and never sent, over all streams.
    pub fn unsent_bytes(&self) -> u64 {
        self.ledger.unsent
    }

    /// The most bytes, holes included, that were received and not consumed at a time, over all
    /// streams.
    pub fn most_unread(&self) -> u64 {
        self.most_unread
    }

    /// Bytes that were lost and not sent again, over all streams.
    pub fn lost_bytes(&self) -> u64 {
        self.ledger.lost
    }

    /// Memory that the streams take, in bytes: what waits for the application and for the peer's
    /// acknowledgements, and the streams themselves.
    pub fn memory(&self) -> usize {
        let buffered = usize::try_from(self.ledger.buffered).unwrap_or(usize::MAX);
        (self.ledger.received + self.streams.len() * size_of::<Stream>()).saturating_add(buffered)
    }

    /// Stream bytes that the application has read.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }

    /// How far the connection's receive window may grow from now on, in bytes.
    pub fn limit_window(&mut self, most: u64) {
        self.window.limit_to(most.min(MAX_OFFSET));
    }

    /// Lets go of all that wasn't read or acknowledged: the connection is over.
    pub fn discard(&mut self) {
        let ids: Vec<_> = self.streams.keys().copied().collect();
        for id in ids {
            // Errors say that there is nothing left.
            let _ = self.reset(id, 0);
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.recv.discard();
                stream.settle_control(id, &mut self.ledger);
            }
        }
    }

    /// The connection's receive window in bytes, as tuned so far.
    pub fn receive_window(&self) -> u64 {
        self.window.size()
    }

    /// Brings sums and queues up to date after a change, and drops the stream when it is over.
    pub(super) fn settle(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.settle(id, &mut self.ledger)
        {
            self.drop_stream(id);
        }
    }

    /// Forgets a stream that is over, and lets the peer open another.
    pub(super) fn drop_stream(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.remove(&id) {
            self.ledger.received -= stream.recv.allocated();
        }
        self.waiting_writers.remove(&id);
        if !self.is_ours(id) {
            let theirs = &mut self.theirs[id.kind() as usize];
            theirs.limit = (theirs.limit + 1).min(MAX_STREAM_COUNT);
            theirs.due = true;
            theirs.unaccepted.retain(|&other| other != id);
        }
    }

    /// After bytes of `id` were released: tells writers that there is room, not for every packet's
    /// worth.
    pub(super) fn wake_writers(&mut self, id: StreamId) {
        if self.waiting_writers.is_empty() {
            return;
        }
        let limit = self.config.send_buffer.max(1);
        if self.ledger.buffered < limit && self.ledger.buffered <= limit - limit / 8 {
            let woken = std::mem::take(&mut self.waiting_writers);
            self.events
                .extend(woken.into_iter().map(StreamEvent::Writable));
        } else if let Some(stream) = self.streams.get(&id)
            && stream.send.buffered() < guaranteed(limit).div_ceil(2)
            && self.waiting_writers.remove(&id)
        {
            self.events.push_back(StreamEvent::Writable(id));
        }
    }

    pub(super) fn stop_waiting(&mut self, id: StreamId) {
        self.waiting_writers.remove(&id);
    }

    /// The peer has opened all streams of a kind up to its `opened`-th. The caller has checked the
    /// limit.
    pub(super) fn peer_opens(&mut self, kind: StreamKind, opened: u64) {
        let first = self.theirs[kind as usize].opened;
        for index in first..opened {
            let id = StreamId::new(!self.config.initiator, kind, index);
            self.insert(id);
            self.theirs[kind as usize].unaccepted.push_back(id);
            self.events.push_back(StreamEvent::Opened);
        }
        self.theirs[kind as usize].opened = first.max(opened);
    }

    pub(super) fn is_ours(&self, id: StreamId) -> bool {
        self.config.opens(id)
    }

    fn insert(&mut self, id: StreamId) {
        let cap = self.config.max_receive_window.min(MAX_OFFSET);
        let cap = cap / self.config.window_shares.max(1);
        let send = match self.config.sends_on(id) {
            true => SendHalf::new(self.peer.max_stream_data),
            false => SendHalf::absent(),
        };
        let recv = match self.config.receives_on(id) {
            true => RecvHalf::new(Window::new(self.config.initial_stream_window(), cap)),
            false => RecvHalf::absent(),
        };
        let mut stream = Stream::new(send, recv);
        stream.settle_control(id, &mut self.ledger);
        self.streams.insert(id, stream);
        self.make_room();
    }
}

/// Lets a stream's window grow no further than its share.
pub(super) fn limit_to_share(
    recv: &mut RecvHalf,
    config: &StreamsConfig,
    window: &Window,
    ledger: &Ledger,
) {
    let cap = window.cap();
    // Whoever grows leaves others as much.
    let free = (cap / 2).saturating_sub(ledger.promised);
    let most = recv.window_size() + free / 2;
    recv.limit_window(most.min(cap / config.window_shares));
}

fn guaranteed(send_buffer: u64) -> u64 {
    GUARANTEED.min(send_buffer / 8)
}
