//! A stream's sending side: what is to be sent for the first time, what again, and how it ends.

use bytes::Bytes;
use manyway_wire::stream_frame_capacity;

use super::StreamId;
use super::buffer::SendBuffer;
use super::error::WriteError;
use super::ranges::RangeSet;
use super::types::{Chunk, StreamRange};

#[derive(Debug)]
pub(super) struct SendHalf {
    buffer: SendBuffer,
    /// Everything below is acknowledged and released.
    acked: u64,
    /// Acknowledged ranges above `acked`.
    acked_apart: RangeSet,
    /// Everything below was sent at least once.
    sent: u64,
    /// What was lost: sent, neither acknowledged nor sent again.
    resend: RangeSet,
    /// The first offset the peer doesn't allow.
    limit: u64,
    fin: Fin,
    reset: Option<Reset>,
    /// The application knows that it can't write any more.
    app_done: bool,
}

#[derive(Copy, Clone, Default, Debug)]
struct Fin {
    wanted: bool,
    sent: bool,
    acked: bool,
    resend: bool,
}

#[derive(Copy, Clone, Debug)]
pub(super) struct Reset {
    pub(super) code: u64,
    pub(super) final_size: u64,
    by_peer: bool,
    pending: bool,
    acked: bool,
}

impl SendHalf {
    pub(super) fn new(limit: u64) -> Self {
        SendHalf {
            buffer: SendBuffer::default(),
            acked: 0,
            acked_apart: RangeSet::default(),
            sent: 0,
            resend: RangeSet::default(),
            limit,
            fin: Fin::default(),
            reset: None,
            app_done: false,
        }
    }

    /// The direction that a unidirectional stream of the peer's doesn't have.
    pub(super) fn absent() -> Self {
        let fin = Fin {
            wanted: true,
            sent: true,
            acked: true,
            resend: false,
        };
        SendHalf {
            fin,
            app_done: true,
            ..SendHalf::new(0)
        }
    }

    // What the application does.

    /// Whether bytes may be written; an error that the application sees here counts as told.
    pub(super) fn writable(&mut self) -> Result<(), WriteError> {
        match self.reset {
            Some(Reset {
                by_peer: true,
                code,
                ..
            }) => {
                self.app_done = true;
                Err(WriteError::Stopped(code))
            }
            Some(_) => Err(WriteError::Closed),
            None if self.fin.wanted => Err(WriteError::Closed),
            None => Ok(()),
        }
    }

    pub(super) fn write(&mut self, data: Bytes) {
        self.buffer.push(data);
    }

    pub(super) fn finish(&mut self) -> Result<(), WriteError> {
        self.writable()?;
        self.fin.wanted = true;
        self.app_done = true;
        Ok(())
    }

    pub(super) fn reset(&mut self, code: u64) -> Result<(), WriteError> {
        if self.reset.is_some_and(|r| r.by_peer) && !self.app_done {
            self.app_done = true;
            return Ok(());
        }
        if self.reset.is_some() || self.is_delivered() {
            return Err(WriteError::Closed);
        }
        self.app_done = true;
        self.abandon(code, false);
        Ok(())
    }

    // What the peer does.

    /// Returns whether this is news to the application.
    pub(super) fn on_stop(&mut self, code: u64) -> bool {
        let news = self.reset.is_none() && !self.is_delivered();
        if news {
            self.abandon(code, true);
        }
        news
    }

    pub(super) fn on_max(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Returns whether everything, with the end, is acknowledged since this call.
    pub(super) fn on_acked(&mut self, range: &StreamRange) -> bool {
        if self.reset.is_some() || self.is_delivered() {
            return false;
        }
        let (start, end) = (range.offset.max(self.acked), range.end().min(self.sent));
        if start < end {
            self.resend.remove(start..end);
            if start == self.acked {
                self.acked = self.acked_apart.absorb(end);
                self.buffer.release(self.acked);
            } else {
                self.acked_apart.insert(start..end);
            }
        }
        if range.fin && self.fin.sent {
            self.fin.acked = true;
            self.fin.resend = false;
        }
        self.is_delivered()
    }

    pub(super) fn on_lost(&mut self, range: &StreamRange) {
        if self.reset.is_some() {
            return;
        }
        let (mut start, end) = (range.offset.max(self.acked), range.end().min(self.sent));
        while start < end
            && let Some(gap) = self.acked_apart.first_gap(start..end)
        {
            start = gap.end;
            self.resend.insert(gap);
        }
        self.fin.resend |= range.fin && self.fin.sent && !self.fin.acked;
    }

    // What is sent.

    /// The next lost bytes (or the lost end) as a frame of at most `max` bytes.
    pub(super) fn next_resend(&mut self, stream: StreamId, max: usize) -> Option<Chunk> {
        let lost = match self.resend.first() {
            Some(lost) => lost,
            None if self.fin.resend => self.buffer.end()..self.buffer.end(),
            None => return None,
        };
        self.again(stream, lost, max)
    }

    /// New bytes (or the end), at most `credit` of them, as a frame of at most `max` bytes.
    pub(super) fn next_new(&mut self, stream: StreamId, credit: u64, max: usize) -> Option<Chunk> {
        let available = self.sendable().min(credit);
        if available == 0 && !self.wants_bare_fin() {
            return None;
        }
        let len = fit(stream, self.sent, available, max)?;
        let range = self.range(stream, self.sent, len);
        let data = self.buffer.get(range.offset, len);
        self.sent = range.end();
        self.fin.sent |= range.fin;
        Some(Chunk {
            range,
            data,
            retransmission: false,
        })
    }

    /// What is still unacknowledged of `range`, as a frame of at most `max` bytes: for sending it
    /// on another path.
    pub(super) fn again_within(&mut self, range: &StreamRange, max: usize) -> Option<Chunk> {
        let missing = self.missing_within(range)?;
        self.again(range.stream, missing, max)
    }

    /// The first bytes of `range` that are sent and not acknowledged; none of them at the end, if
    /// only that is.
    pub(super) fn missing_within(&self, range: &StreamRange) -> Option<std::ops::Range<u64>> {
        if self.reset.is_some() {
            return None;
        }
        let (start, end) = (range.offset.max(self.acked), range.end().min(self.sent));
        let gap = match start < end {
            true => self.acked_apart.first_gap(start..end),
            false => None,
        };
        let end = range.fin && self.fin.sent && !self.fin.acked;
        gap.or_else(|| end.then(|| self.buffer.end()..self.buffer.end()))
    }

    fn again(
        &mut self,
        stream: StreamId,
        bytes: std::ops::Range<u64>,
        max: usize,
    ) -> Option<Chunk> {
        let len = fit(stream, bytes.start, bytes.end - bytes.start, max)?;
        let range = self.range(stream, bytes.start, len);
        self.resend.remove(range.offset..range.end());
        if range.fin {
            self.fin.sent = true;
            self.fin.resend = false;
        }
        let data = self.buffer.get(range.offset, len);
        Some(Chunk {
            range,
            data,
            retransmission: true,
        })
    }

    fn range(&self, stream: StreamId, offset: u64, len: usize) -> StreamRange {
        StreamRange {
            stream,
            offset,
            len: len as u32,
            fin: self.fin.wanted && offset + len as u64 == self.buffer.end(),
        }
    }

    /// The RESET_STREAM frame to be sent, if one is due; it counts as sent from now on.
    pub(super) fn take_reset(&mut self) -> Option<Reset> {
        let reset = self.reset.as_mut().filter(|r| r.pending)?;
        reset.pending = false;
        Some(*reset)
    }

    pub(super) fn on_reset_lost(&mut self) {
        if let Some(reset) = &mut self.reset {
            reset.pending |= !reset.acked;
        }
    }

    pub(super) fn on_reset_acked(&mut self) {
        if let Some(reset) = &mut self.reset {
            (reset.acked, reset.pending) = (true, false);
        }
    }

    // How it stands.

    /// Bytes written and never sent.
    pub(super) fn unsent(&self) -> u64 {
        if self.reset.is_some() {
            0
        } else {
            self.buffer.end() - self.sent
        }
    }

    /// Bytes lost and not sent again.
    pub(super) fn lost(&self) -> u64 {
        self.resend.bytes()
    }

    /// Bytes sent and not acknowledged.
    pub(super) fn unacked(&self) -> u64 {
        if self.reset.is_some() {
            0
        } else {
            self.sent - self.acked - self.acked_apart.bytes()
        }
    }

    /// Bytes held in memory.
    pub(super) fn buffered(&self) -> u64 {
        if self.reset.is_some() {
            0
        } else {
            self.buffer.end() - self.acked
        }
    }

    /// How many more bytes the stream's limit allows, whether or not they are written.
    pub(super) fn allowed(&self) -> u64 {
        self.limit.saturating_sub(self.sent)
    }

    /// New bytes that are written and that the stream's limit allows.
    pub(super) fn sendable(&self) -> u64 {
        if self.reset.is_some() {
            return 0;
        }
        self.limit.min(self.buffer.end()).saturating_sub(self.sent)
    }

    /// Whether nothing but the end is left to be said.
    pub(super) fn wants_bare_fin(&self) -> bool {
        self.reset.is_none() && self.fin.wanted && !self.fin.sent && self.sent == self.buffer.end()
    }

    pub(super) fn wants_resend(&self) -> bool {
        self.reset.is_none() && (self.fin.resend || !self.resend.is_empty())
    }

    pub(super) fn wants_reset(&self) -> bool {
        self.reset.is_some_and(|r| r.pending)
    }

    /// Whether nothing is left to do, and the application knows.
    pub(super) fn is_over(&self) -> bool {
        self.app_done && (self.is_delivered() || self.reset.is_some_and(|r| r.acked))
    }

    fn is_delivered(&self) -> bool {
        self.reset.is_none() && self.fin.acked && self.acked == self.buffer.end()
    }

    fn abandon(&mut self, code: u64, by_peer: bool) {
        self.reset = Some(Reset {
            code,
            final_size: self.sent,
            by_peer,
            pending: true,
            acked: false,
        });
        self.buffer = SendBuffer::default();
        self.acked_apart = RangeSet::default();
        self.resend = RangeSet::default();
    }
}

/// How many of `available` bytes fit into a STREAM frame of at most `max` bytes; None when not even
/// one does.
fn fit(stream: StreamId, offset: u64, available: u64, max: usize) -> Option<usize> {
    let room = stream_frame_capacity(stream, offset, max.min(u32::MAX as usize))?;
    let len = usize::try_from(available).map_or(room, |available| available.min(room));
    (len > 0 || available == 0).then_some(len)
}
