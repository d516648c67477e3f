//! A stream whose other side has to read in time.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Fails if written bytes can't be sent within a time limit. The limit is for all of them, so
/// reading a byte now and then doesn't prolong it. (`hyper` only limits the time for reading.)
pub(super) struct Prompt<S> {
    stream: S,
    within: Duration,
    /// Set while bytes wait to be sent.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Prompt<S> {
    pub(super) fn new(stream: S, within: Duration) -> Self {
        Self {
            stream,
            within,
            deadline: None,
        }
    }

    /// Returns `polled`, or an error if it is pending beyond the deadline.
    fn wait<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_pending() {
            let within = self.within;
            let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(within)));
            if deadline.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prompt<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prompt<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wait(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        if polled.is_ready() {
            self.deadline = None;
        }
        self.wait(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.wait(cx, polled)
    }
}
