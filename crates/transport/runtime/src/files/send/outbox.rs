//! Packs the producer's frames into buffers; no frame spans two.

use super::super::buffers::{Buffer, Pool};
use super::stop::Stop;
use manyway_transfer::message::HEADER_LEN;
use manyway_transfer::{FrameKind, Header, Message};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Frames on their way to the async side.
pub(super) struct Outbox {
    queue: mpsc::Sender<Buffer>,
    pool: Arc<Pool>,
    buffer: Buffer,
    scratch: Vec<u8>,
}

impl Outbox {
    pub(super) fn new(queue: mpsc::Sender<Buffer>, pool: Arc<Pool>) -> Self {
        let buffer = pool.take();
        Self {
            queue,
            pool,
            buffer,
            scratch: Vec::new(),
        }
    }

    /// Adds a message.
    pub(super) fn message(&mut self, message: &Message) -> Result<(), Stop> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        message.encode(&mut scratch);
        if scratch.len() > self.room() {
            self.flush()?;
        }
        let start = self.buffer.len;
        self.buffer.bytes[start..start + scratch.len()].copy_from_slice(&scratch);
        self.buffer.len += scratch.len();
        self.scratch = scratch;
        Ok(())
    }

    /// Room for the content of a data frame: some if `wanted` is large, all of it if it is small.
    pub(super) fn content(&mut self, wanted: usize) -> Result<&mut [u8], Stop> {
        /// Frames smaller than this are not worth splitting content for.
        const WORTHWHILE: usize = 32 << 10;
        if self.room() < HEADER_LEN + wanted.min(WORTHWHILE) {
            self.flush()?;
        }
        let start = self.buffer.len + HEADER_LEN;
        let end = self.buffer.bytes.len().min(start + wanted);
        Ok(&mut self.buffer.bytes[start..end])
    }

    /// Makes a data frame of the first `len` bytes of what [`Outbox::content`] gave.
    pub(super) fn commit(&mut self, len: usize) {
        let start = self.buffer.len;
        let header = Header::new(FrameKind::Data, len).encode();
        self.buffer.bytes[start..start + HEADER_LEN].copy_from_slice(&header);
        self.buffer.len += HEADER_LEN + len;
        self.buffer.content += len as u64;
    }

    /// Hands over what there is.
    pub(super) fn flush(&mut self) -> Result<(), Stop> {
        if self.buffer.len == 0 {
            return Ok(());
        }
        let full = std::mem::replace(&mut self.buffer, self.pool.take());
        self.queue.blocking_send(full).map_err(|_| Stop::Gone)
    }

    fn room(&self) -> usize {
        self.buffer.bytes.len() - self.buffer.len
    }
}
