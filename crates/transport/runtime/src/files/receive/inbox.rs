//! Frames for the receiver's blocking thread, read from buffers as they arrive.

use super::super::buffers::{Buffer, Pool};
use super::end::End;
use manyway_transfer::message::HEADER_LEN;
use manyway_transfer::{FrameKind, Header, Message, ProtocolError};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Bytes on their way from the async side.
pub(super) struct Inbox {
    queue: mpsc::Receiver<Buffer>,
    pool: Arc<Pool>,
    buffer: Option<Buffer>,
    at: usize,
}

/// A frame's beginning; the content of a data frame is read on its own.
pub(super) enum Frame {
    /// That many bytes of content follow.
    Data(usize),
    /// A whole message.
    Message(Message),
}

impl Inbox {
    pub(super) fn new(queue: mpsc::Receiver<Buffer>, pool: Arc<Pool>) -> Self {
        Self {
            queue,
            pool,
            buffer: None,
            at: 0,
        }
    }

    /// Does nobody feed it any more?
    pub(super) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// The next frame; a failure of the sender ends the transfer here.
    pub(super) fn frame(&mut self) -> Result<Frame, End> {
        let mut header = [0; HEADER_LEN];
        self.exact(&mut header)?;
        let header = Header::decode(header)?;
        if header.kind == FrameKind::Data {
            return Ok(Frame::Data(header.len));
        }
        let mut body = vec![0; header.len];
        self.exact(&mut body)?;
        match Message::decode(header.kind, &body)? {
            Message::Failure(failure) => Err(End::There(failure)),
            message => Ok(Frame::Message(message)),
        }
    }

    /// The next frame, which must be a message.
    pub(super) fn message(&mut self) -> Result<Message, End> {
        match self.frame()? {
            Frame::Message(message) => Ok(message),
            Frame::Data(_) => Err(ProtocolError::Unexpected(FrameKind::Data).into()),
        }
    }

    /// The next bytes: at least one, at most `max` (which is not 0).
    pub(super) fn some(&mut self, max: usize) -> Result<&[u8], End> {
        while self
            .buffer
            .as_ref()
            .is_none_or(|buffer| self.at == buffer.len)
        {
            if let Some(empty) = self.buffer.take() {
                self.pool.put(empty);
            }
            self.buffer = Some(self.queue.blocking_recv().ok_or(End::Gone)?);
            self.at = 0;
        }
        let filled = self.buffer.as_ref().map_or(&[][..], Buffer::filled);
        let start = self.at;
        self.at = filled.len().min(start + max);
        Ok(&filled[start..self.at])
    }

    fn exact(&mut self, mut into: &mut [u8]) -> Result<(), End> {
        while !into.is_empty() {
            let bytes = self.some(into.len())?;
            into[..bytes.len()].copy_from_slice(bytes);
            into = &mut into[bytes.len()..];
        }
        Ok(())
    }
}
