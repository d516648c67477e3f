//! All streams of a connection: what is sent, and what became of it.

use manyway_wire::Frame;

use super::set::Streams;
use super::types::{Chunk, StreamEvent, StreamRange};
use super::{StreamId, StreamKind};

/// The largest frame that [`Streams::poll_control`] gives out: a type and three numbers, in bytes.
pub(crate) const MAX_CONTROL_LEN: usize = 1 + 3 * 8;

impl Streams {
    /// Whether [`next_chunk`](Self::next_chunk) has something: lost bytes, new ones within flow
    /// control, or an end.
    pub fn has_data(&self) -> bool {
        let ledger = &self.ledger;
        !ledger.resend.is_empty()
            || !ledger.fin.is_empty()
            || (ledger.has_fresh() && self.connection_credit() > 0)
    }

    /// Whether [`poll_control`](Self::poll_control) has something.
    pub fn has_control(&self) -> bool {
        self.window.is_due()
            || self.theirs.iter().any(|theirs| theirs.due)
            || !self.ledger.control.is_empty()
    }

    /// Whether there are new bytes, none of which flow control allows.
    pub fn flow_blocked(&self) -> bool {
        self.ledger.unsent > 0 && (!self.ledger.has_fresh() || self.connection_credit() == 0)
    }

    /// How many more new bytes flow control allows, whether or not they are written: by the
    /// connection's limit and by the limits of the streams that have something unsent or
    /// unacknowledged. Nor can there be more than the send buffer holds.
    pub fn send_credit(&self) -> u64 {
        let sent = self.ledger.buffered.saturating_sub(self.ledger.unsent);
        let room = self.config.send_buffer.saturating_sub(sent);
        let connection = self.connection_credit().min(room);
        if self.ledger.unsent == 0 && self.ledger.unacked == 0 {
            return connection;
        }
        u64::try_from(self.ledger.allowed).map_or(connection, |streams| streams.min(connection))
    }

    /// What a STREAM frame of at most `max` bytes, header included, should carry: lost bytes first,
    /// then new ones; streams take turns. On the path that delivers soonest, streams with few
    /// unsent bytes go before others; on other paths, they go when there are no others. `None` when
    /// there is nothing, or no room for a single byte.
    pub fn next_chunk(&mut self, max: usize, soonest: bool) -> Option<Chunk> {
        if let Some(id) = self.ledger.resend.front() {
            let stream = self.streams.get_mut(&id)?;
            let chunk = stream.send.next_resend(id, max)?;
            self.ledger.resend.rotate(id, &mut stream.places.resend);
            stream.settle_data(id, &mut self.ledger);
            return Some(chunk);
        }
        let credit = self.connection_credit();
        let id = self
            .ledger
            .fin
            .front()
            .or_else(|| self.ledger.next_fresh(soonest).filter(|_| credit > 0))?;
        let stream = self.streams.get_mut(&id)?;
        let chunk = stream.send.next_new(id, credit, max)?;
        self.sent += u64::from(chunk.range.len);
        self.ledger.went(id, &mut stream.places);
        stream.settle_data(id, &mut self.ledger);
        Some(chunk)
    }

    /// What of a range that is under way isn't acknowledged yet, from the front, for sending it on
    /// another path as well, in a frame of at most `max` bytes. Shorter than the range when it
    /// doesn't fit or has gaps: ask again for the rest. `None` when nothing is missing any more, or
    /// there is no room for a single byte.
    pub fn chunk(&mut self, range: &StreamRange, max: usize) -> Option<Chunk> {
        let id = range.stream;
        let stream = self.streams.get_mut(&id)?;
        let chunk = stream.send.again_within(range, max)?;
        stream.settle_data(id, &mut self.ledger);
        Some(chunk)
    }

    /// Whether something of a range that is under way isn't acknowledged yet.
    pub fn is_missing(&self, range: &StreamRange) -> bool {
        let stream = self.streams.get(&range.stream);
        stream.is_some_and(|stream| stream.send.missing_within(range).is_some())
    }

    /// The peer has the range.
    pub fn on_acked(&mut self, range: &StreamRange) {
        let id = range.stream;
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.send.on_acked(range) {
            self.events.push_back(StreamEvent::Finished(id));
        }
        if stream.settle(id, &mut self.ledger) {
            self.drop_stream(id);
        }
        self.wake_writers(id);
    }

    /// A packet with the range was lost: what of it isn't acknowledged is queued to be sent again.
    pub fn on_lost(&mut self, range: &StreamRange) {
        if let Some(stream) = self.streams.get_mut(&range.stream) {
            stream.send.on_lost(range);
            stream.settle_data(range.stream, &mut self.ledger);
        }
    }

    /// The next control frame, with values as they are now.
    pub fn poll_control(&mut self) -> Option<Frame<'static>> {
        if self.window.is_due() {
            return Some(Frame::MaxData {
                max: self.window.announce(),
            });
        }
        for kind in StreamKind::ALL {
            let theirs = &mut self.theirs[kind as usize];
            if std::mem::take(&mut theirs.due) {
                let count = theirs.limit;
                return Some(Frame::MaxStreams { kind, count });
            }
        }
        let id = *self.ledger.control.first()?;
        let control = self.stream_control(id);
        self.settle(id);
        control
    }

    fn stream_control(&mut self, id: StreamId) -> Option<Frame<'static>> {
        let stream = self.streams.get_mut(&id)?;
        if let Some(reset) = stream.send.take_reset() {
            let (code, final_size) = (reset.code, reset.final_size);
            return Some(Frame::ResetStream {
                stream: id,
                code,
                final_size,
            });
        }
        if let Some(code) = stream.recv.take_stop() {
            return Some(Frame::StopSending { stream: id, code });
        }
        let max = stream.recv.window.announce();
        Some(Frame::MaxStreamData { stream: id, max })
    }

    /// Whether the frame is one of those that [`poll_control`](Self::poll_control) gives out.
    pub fn is_control(frame: &Frame<'_>) -> bool {
        matches!(
            frame,
            Frame::MaxData { .. }
                | Frame::MaxStreams { .. }
                | Frame::MaxStreamData { .. }
                | Frame::ResetStream { .. }
                | Frame::StopSending { .. }
        )
    }

    /// A packet with the frame was lost: it is queued again, with the latest value, if it still
    /// matters.
    pub fn on_control_lost(&mut self, control: &Frame<'_>) {
        match *control {
            Frame::MaxData { max } => self.window.on_lost(max),
            Frame::MaxStreams { kind, count } => {
                let theirs = &mut self.theirs[kind as usize];
                theirs.due |= count == theirs.limit;
            }
            Frame::MaxStreamData { stream, max } => {
                self.with(stream, |s| s.recv.window.on_lost(max))
            }
            Frame::ResetStream { stream, .. } => self.with(stream, |s| s.send.on_reset_lost()),
            Frame::StopSending { stream, .. } => self.with(stream, |s| s.recv.on_stop_lost()),
            _ => {}
        }
    }

    /// The peer has the frame.
    pub fn on_control_acked(&mut self, control: &Frame<'_>) {
        if let Frame::ResetStream { stream, .. } = *control {
            self.with(stream, |s| s.send.on_reset_acked());
        }
    }

    fn with(&mut self, id: StreamId, act: impl FnOnce(&mut super::stream::Stream)) {
        if let Some(stream) = self.streams.get_mut(&id) {
            act(stream);
            self.settle(id);
        }
    }

    fn connection_credit(&self) -> u64 {
        self.peer.max_data.saturating_sub(self.sent)
    }
}
