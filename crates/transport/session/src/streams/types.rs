//! What goes in and out of the stream layer.

use bytes::Bytes;

use super::{StreamId, StreamKind};

/// The largest stream offset, connection total and stream count the wire format can say (RFC 9000
/// §16: 62 bits).
pub const MAX_OFFSET: u64 = (1 << 62) - 1;

/// A stream may send this much at first (or its share, if that is less), however many there are, in
/// bytes.
const LEAST_STREAM_WINDOW: u64 = 16 << 10;

/// Settings of one connection's streams.
#[derive(Copy, Clone, Debug)]
pub struct StreamsConfig {
    /// Whether this side opened the connection; it decides who owns which stream ids.
    pub initiator: bool,
    /// Initial receive window of the connection in bytes (never above `max_receive_window`).
    pub initial_receive_window: u64,
    /// The connection's window, in bytes, that auto-tuning never passes.
    pub max_receive_window: u64,
    /// The part of both that a single stream may take: 1 for all, 8 for an eighth. With several,
    /// streams together grow to half of the connection's window, and the rest is for what each may
    /// send at first: those that nobody reads leave the others room.
    pub window_shares: u64,
    /// Most bytes that may be written and not yet acknowledged, over all streams. A stream that has
    /// nothing else buffered may exceed it by an eighth of it, at most 64 KiB, so that one stream
    /// can't starve the others.
    pub send_buffer: u64,
    /// Streams of each kind that the peer may have open at once. One frame of its can make this
    /// side keep the state of all of them (under a kilobyte each).
    pub max_streams: u64,
}

impl Default for StreamsConfig {
    fn default() -> Self {
        StreamsConfig {
            initiator: true,
            initial_receive_window: 1 << 20,
            max_receive_window: 64 << 20,
            window_shares: 1,
            send_buffer: 32 << 20,
            max_streams: 128,
        }
    }
}

impl StreamsConfig {
    /// The connection's receive window in bytes to begin with: what the transport parameter
    /// `initial_max_data` must tell the peer.
    pub fn initial_window(&self) -> u64 {
        self.initial_receive_window
            .min(self.max_receive_window)
            .min(MAX_OFFSET)
    }

    /// Whether this side is the one that opens the stream.
    pub(super) fn opens(&self, id: StreamId) -> bool {
        id.is_initiators() == self.initiator
    }

    /// Whether this side sends on the stream.
    pub(super) fn sends_on(&self, id: StreamId) -> bool {
        self.opens(id) || id.kind() == StreamKind::Bidirectional
    }

    /// Whether the peer sends on the stream.
    pub(super) fn receives_on(&self, id: StreamId) -> bool {
        !self.opens(id) || id.kind() == StreamKind::Bidirectional
    }

    /// The same of every stream, for `initial_max_stream_data`. With shares, those of
    /// `max_streams` take a quarter of the connection's window.
    pub fn initial_stream_window(&self) -> u64 {
        let share = self.initial_window() / self.window_shares.max(1);
        match self.has_shares() {
            true => (self.max_receive_window / 4 / self.max_streams.max(1))
                .max(LEAST_STREAM_WINDOW)
                .min(share),
            false => share,
        }
    }

    /// Whether a stream has only a part of the connection's window.
    pub(super) fn has_shares(&self) -> bool {
        self.window_shares > 1
    }
}

/// The part of a stream that one STREAM frame carried. A packet remembers these until it is acked
/// or lost.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct StreamRange {
    /// The stream.
    pub stream: StreamId,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes; zero for a frame that only says where the stream ends.
    pub len: u32,
    /// Whether the frame said that the stream ends behind these bytes.
    pub fin: bool,
}

impl StreamRange {
    /// The offset behind the last byte.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    /// Takes in the range that follows; whether it does.
    pub fn extend(&mut self, next: &StreamRange) -> bool {
        let follows = next.stream == self.stream && next.offset == self.end() && !self.fin;
        let Some(len) = self.len.checked_add(next.len).filter(|_| follows) else {
            return false;
        };
        (self.len, self.fin) = (len, next.fin);
        true
    }
}

/// The content of a STREAM frame to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// What the frame carries; hand it back when the packet is acked or lost.
    pub range: StreamRange,
    /// The bytes, `range.len` of them.
    pub data: Bytes,
    /// Whether the bytes (or the end) were sent before.
    pub retransmission: bool,
}

/// News for the application.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum StreamEvent {
    /// The peer opened a stream: `accept` or `accept_uni` returns it. One event per stream.
    Opened,
    /// The peer allows more streams, after `open` or `open_uni` failed.
    Available,
    /// A stream has bytes, its end or a reset to read; once, until a read is `Blocked` again.
    Readable(StreamId),
    /// A stream whose last write didn't take everything has room again.
    Writable(StreamId),
    /// The peer has acknowledged everything that was written, and the end.
    Finished(StreamId),
    /// The peer doesn't want our bytes any more; the sending side was reset with the same code.
    Stopped {
        /// The stream.
        id: StreamId,
        /// The peer application's reason.
        code: u64,
    },
}
