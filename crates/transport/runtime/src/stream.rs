//! The two halves of a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use manyway_session::{CloseReason, StreamId, streams};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop::poll_proceed;

use crate::connection_ref::ConnectionRef;
use crate::driver::shared::{State, wait};
use crate::error::{ConnectionLost, ReadError, WriteError};

/// Most bytes copied by one `poll_write`.
const LARGEST_COPY: usize = 256 << 10;

/// Our side of a stream, to be written.
///
/// [`AsyncWrite::poll_write`] takes what fits into the send buffer, [`AsyncWrite::poll_shutdown`]
/// ends the stream and waits until the peer has everything. It fails with
/// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if the reader is dropped before it has read the end,
/// even if it has read every byte, and after [`SendStream::reset`] as writing does. Dropped without
/// [`SendStream::finish`] or shutdown, the stream is reset with code 0: a reader must not take a
/// part for the whole.
#[derive(Debug)]
pub struct SendStream {
    connection: ConnectionRef,
    id: StreamId,
    /// Set when nothing is left to say.
    ended: Option<Ended>,
}

/// How our side of a stream ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Ended {
    /// The peer gets everything.
    Finished,
    /// It doesn't.
    Reset,
}

impl SendStream {
    pub(crate) fn new(connection: ConnectionRef, id: StreamId) -> Self {
        Self {
            connection,
            id,
            ended: None,
        }
    }

    /// The stream's id.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Writes all of `data`, without copying it.
    ///
    /// # Errors
    /// The peer stopped the stream, it was ended before, or the connection is over. If the future
    /// is dropped, a part may have been written; [`SendStream::write_chunk`] tells how much.
    pub async fn write_bytes(&mut self, mut data: Bytes) -> Result<(), WriteError> {
        while !data.is_empty() {
            self.write_chunk(&mut data).await?;
        }
        Ok(())
    }

    /// Writes what fits of `data`, without copying it, and takes it off its front; how much. Waits
    /// for room for the first byte. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// As [`SendStream::write_bytes`].
    pub async fn write_chunk(&mut self, data: &mut Bytes) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_write_chunk(cx, data)).await
    }

    fn poll_write_chunk(
        &mut self,
        cx: &mut Context<'_>,
        data: &mut Bytes,
    ) -> Poll<Result<usize, WriteError>> {
        if self.ended.is_some() {
            return Poll::Ready(Err(WriteError::Closed));
        }
        // A task whose streams are always ready lets others run all the same.
        let turn = ready!(poll_proceed(cx));
        let id = self.id;
        let polled = self.connection.shared.act(|state| {
            let (connection, slot) = state.established(self.connection.handle)?;
            match connection.write(id, data) {
                Ok(written) => Poll::Ready(Ok(written)),
                Err(streams::WriteError::Blocked) => {
                    wait(&mut slot.sends.entry(id).or_default().waker, cx)
                }
                Err(error) => Poll::Ready(Err(error.into())),
            }
        });
        if polled.is_ready() {
            turn.made_progress();
        }
        polled
    }

    /// Ends the stream behind what was written, without waiting. What was written is delivered as
    /// long as the connection lives.
    ///
    /// # Errors
    /// The peer stopped the stream, it was ended before, or the connection is over.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        if self.ended.is_some() {
            return Err(WriteError::Closed);
        }
        let id = self.id;
        self.connection.shared.act(|state| {
            Ok(state.established(self.connection.handle)?.0.finish(id)?) as Result<(), WriteError>
        })?;
        self.ended = Some(Ended::Finished);
        Ok(())
    }

    /// Gives the stream up: what the peer doesn't have yet is never sent, and its reader gets
    /// `code`.
    pub fn reset(&mut self, code: u64) {
        self.ended = Some(Ended::Reset);
        let id = self.id;
        self.connection.shared.act(|state| {
            if let Some(connection) = state.session.connection(self.connection.handle) {
                // An error says that there is nothing left to give up.
                let _ = connection.reset(id, code);
            }
        });
    }

    /// Waits until the peer has everything (`None`; only after [`SendStream::finish`]) or wants no
    /// more (its code). After [`SendStream::reset`] there is nothing to wait for: `None` at once,
    /// unless the peer has said before that it wants no more.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn stopped(&mut self) -> Result<Option<u64>, ConnectionLost> {
        poll_fn(|cx| self.poll_stopped(cx)).await
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<u64>, ConnectionLost>> {
        let id = self.id;
        self.connection.shared.look(|state| {
            let over = state.established(self.connection.handle).err();
            let lost = || ConnectionLost(CloseReason::Local);
            let slot = state
                .slots
                .get_mut(&self.connection.handle)
                .ok_or_else(lost)?;
            let send = slot.sends.entry(id).or_default();
            match (send.finished, send.stopped, over) {
                (true, ..) => Poll::Ready(Ok(None)),
                (_, Some(code), _) => Poll::Ready(Ok(Some(code))),
                // No more word of it will come.
                _ if self.ended == Some(Ended::Reset) => Poll::Ready(Ok(None)),
                (.., Some(lost)) => Poll::Ready(Err(lost)),
                (false, None, None) => wait(&mut send.waker, cx),
            }
        })
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut copy = Bytes::copy_from_slice(&data[..data.len().min(LARGEST_COPY)]);
        Poll::Ready(Ok(ready!(self.poll_write_chunk(cx, &mut copy))?))
    }

    /// Does nothing: what was written leaves as soon as the paths let it.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.ended {
            None => self.finish()?,
            Some(Ended::Finished) => {}
            Some(Ended::Reset) => return Poll::Ready(Err(WriteError::Closed.into())),
        }
        match ready!(self.poll_stopped(cx)) {
            Ok(None) => Poll::Ready(Ok(())),
            Ok(Some(code)) => Poll::Ready(Err(WriteError::Stopped(code).into())),
            Err(lost) => Poll::Ready(Err(lost.into())),
        }
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let id = self.id;
        self.connection.shared.act(|state| {
            if let Some(slot) = state.slots.get_mut(&self.connection.handle) {
                slot.sends.remove(&id);
            }
            if self.ended.is_none()
                && let Some(connection) = state.session.connection(self.connection.handle)
            {
                let _ = connection.reset(id, 0);
            }
        });
    }
}

/// The peer's side of a stream, to be read.
///
/// Dropped before its end, it asks the peer to stop sending.
#[derive(Debug)]
pub struct RecvStream {
    connection: ConnectionRef,
    id: StreamId,
    over: Option<Over>,
}

/// Why nothing more comes.
#[derive(Copy, Clone, Debug)]
enum Over {
    End,
    Reset(u64),
    Stopped,
}

impl RecvStream {
    pub(crate) fn new(connection: ConnectionRef, id: StreamId) -> Self {
        Self {
            connection,
            id,
            over: None,
        }
    }

    /// The stream's id.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// The next bytes, at most `max`, without copying them; `None` at the end. There are none only
    /// if `max` is 0. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// The peer gave the stream up, it was stopped here, or the connection is over.
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, ReadError> {
        poll_fn(|cx| {
            let mut chunk = None;
            let room = |taken: &Option<Bytes>| if taken.is_some() { 0 } else { max };
            ready!(self.poll_read_with(cx, &mut chunk, room, |taken, bytes| *taken = Some(bytes)))?;
            // No room isn't the end.
            let none = || self.over.is_none().then(Bytes::new);
            Poll::Ready(Ok(chunk.or_else(none)))
        })
        .await
    }

    /// Asks the peer to stop sending; what has arrived is thrown away.
    pub fn stop(&mut self, code: u64) {
        if self.over.is_some() {
            return;
        }
        self.over = Some(Over::Stopped);
        let id = self.id;
        self.connection.shared.act(|state| {
            if let Some(connection) = state.session.connection(self.connection.handle) {
                // An error says that there is nothing left to stop.
                let _ = connection.stop(id, code);
            }
        });
    }

    /// Reads into `sink` while it has room and there is something to read; ready with nothing added
    /// at the end.
    fn poll_read_with<S>(
        &mut self,
        cx: &mut Context<'_>,
        sink: &mut S,
        room: impl Fn(&S) -> usize,
        mut put: impl FnMut(&mut S, Bytes),
    ) -> Poll<Result<(), ReadError>> {
        match self.over {
            None => {}
            Some(Over::End) => return Poll::Ready(Ok(())),
            Some(Over::Reset(code)) => return Poll::Ready(Err(ReadError::Reset(code))),
            Some(Over::Stopped) => return Poll::Ready(Err(ReadError::Closed)),
        }
        let turn = ready!(poll_proceed(cx));
        let Self {
            connection: this,
            id,
            over,
        } = self;
        let now = this.shared.clock.now();
        let mut read = |state: &mut State| {
            let mut any = false;
            while room(sink) > 0 {
                // What arrived before the connection's end may still be read.
                let Some(connection) = state.session.connection(this.handle) else {
                    break;
                };
                match connection.read(now, *id, room(sink)) {
                    Ok(Some(bytes)) => {
                        any = true;
                        put(sink, bytes);
                    }
                    Ok(None) => {
                        *over = Some(Over::End);
                        return Poll::Ready(Ok(()));
                    }
                    Err(streams::ReadError::Closed) => return Poll::Ready(Err(ReadError::Closed)),
                    Err(streams::ReadError::Reset(code)) => {
                        *over = Some(Over::Reset(code));
                        return Poll::Ready(if any {
                            Ok(())
                        } else {
                            Err(ReadError::Reset(code))
                        });
                    }
                    Err(streams::ReadError::Blocked) => break,
                }
            }
            if any || room(sink) == 0 {
                return Poll::Ready(Ok(()));
            }
            let (_, slot) = state.established(this.handle)?;
            wait(slot.receives.entry(*id).or_default(), cx)
        };
        let polled = this.shared.act_if(|state| {
            let polled = read(state);
            let connection = state.session.connection(this.handle);
            // Mostly, reading opens no window.
            let work = connection.is_some_and(|connection| connection.has_control());
            (polled, work)
        });
        if polled.is_ready() {
            turn.made_progress();
        }
        polled
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = self.poll_read_with(
            cx,
            buf,
            |buf| buf.remaining(),
            |buf, bytes| buf.put_slice(&bytes),
        );
        polled.map_err(io::Error::from)
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        self.stop(0);
        let id = self.id;
        self.connection.shared.look(|state| {
            if let Some(slot) = state.slots.get_mut(&self.connection.handle) {
                slot.receives.remove(&id);
            }
        });
    }
}

impl From<streams::WriteError> for WriteError {
    fn from(error: streams::WriteError) -> Self {
        match error {
            streams::WriteError::Stopped(code) => Self::Stopped(code),
            streams::WriteError::Closed | streams::WriteError::Blocked => Self::Closed,
        }
    }
}
