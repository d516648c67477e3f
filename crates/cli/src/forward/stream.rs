//! The first words on a stream that carries a pipe or a TCP connection: a request and its answer.

use std::io;
use std::time::Duration;
use std::{error, fmt};

use manyway::{Connection, ConnectionLost, RecvStream, SendStream};
use manyway_units::printable;
use manyway_wire::forward::{Code, HEADER_LEN, Header, HeaderError, Reply, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::error::Refusal;
use crate::close::ClosedByPeer;
use crate::exchange::CLOSE_WAIT;

/// Whoever opens a stream says what for within this time.
const REQUEST_WAIT: Duration = Duration::from_secs(15);
/// The other side answers within this time, in which it may try several addresses of a target. A
/// stream is free within it, too.
const REPLY_WAIT: Duration = Duration::from_secs(60);
/// Most characters of a peer's words.
const MAX_REASON: usize = 300;
/// The code of a stream that ends as a TCP connection does that is reset.
pub(crate) const CUT: u64 = 0x104;

/// Both directions of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) send: SendStream,
    pub(crate) receive: RecvStream,
}

impl Stream {
    /// Opens a stream with a request and waits for its success.
    ///
    /// # Errors
    /// [`Refusal`], [`WrongPeer`], or the connection is over.
    pub(crate) async fn open(
        connection: &Connection,
        request: &Request,
    ) -> anyhow::Result<(Self, Reply)> {
        let seconds = REPLY_WAIT.as_secs();
        let opened = timeout(REPLY_WAIT, connection.open_bi()).await;
        let (send, receive) = opened
            .map_err(|_| {
                anyhow::anyhow!(
                    "the peer allows no more connections at a time, and none has ended for \
                     {seconds} s"
                )
            })?
            .map_err(over)?;
        let mut stream = Self { send, receive };
        let asked = async {
            let written = stream.send.write_all(&request.encode()).await;
            written.map_err(lost)?;
            read_reply(&mut stream.receive).await
        };
        let answer = timeout(REPLY_WAIT, asked).await;
        let answer = answer.unwrap_or_else(|_| {
            let late = format!("the peer hasn't answered for {seconds} s");
            Err(io::Error::new(io::ErrorKind::TimedOut, late).into())
        });
        match answer {
            Ok(reply) => Ok((stream, reply)),
            // Who resets the stream may be about to close the connection, and say why.
            Err(error) if error.is::<io::Error>() => {
                let closed = timeout(CLOSE_WAIT, connection.closed()).await;
                Err(closed.map_or(error, |reason| over(ConnectionLost(reason))))
            }
            Err(error) => Err(error),
        }
    }

    /// The request of a stream that the peer has opened.
    ///
    /// # Errors
    /// It didn't come in time, is none, or the connection is over.
    pub(crate) async fn read_request(&mut self) -> anyhow::Result<Request> {
        let (kind, body) = timeout(REQUEST_WAIT, read_framed(&mut self.receive))
            .await
            .map_err(|_| {
                let seconds = REQUEST_WAIT.as_secs();
                anyhow::anyhow!("the peer opened a stream but sent no request for {seconds} s")
            })??;
        Ok(Request::decode(kind, &body)?)
    }

    /// Answers.
    pub(crate) async fn reply(&mut self, reply: &Reply) -> anyhow::Result<()> {
        self.send.write_all(&reply.encode()).await.map_err(lost)
    }

    /// Answers that it can't be, and ends the stream. Who doesn't read that isn't waited for.
    pub(crate) async fn refuse(mut self, code: Code, reason: impl Into<String>) {
        let refused = Reply::failed(code, reason);
        if self.reply(&refused).await.is_ok() {
            self.send.finish().ok();
        }
    }

    /// Ends both directions as a reset of TCP does.
    pub(crate) fn cut(&mut self) {
        self.send.reset(CUT);
        self.receive.stop(CUT);
    }
}

/// Waits for an answer.
///
/// # Errors
/// As [`Stream::open`].
pub(crate) async fn read_reply(receive: &mut RecvStream) -> anyhow::Result<Reply> {
    let (kind, body) = read_framed(receive).await?;
    let reply = Reply::decode(kind, &body).map_err(|_| WrongPeer(HeaderError::Other))?;
    match reply.code {
        Code::Done => Ok(reply),
        code => Err(Refusal {
            code,
            reason: printable(&reply.reason, MAX_REASON),
        }
        .into()),
    }
}

async fn read_framed(receive: &mut RecvStream) -> anyhow::Result<(u8, Vec<u8>)> {
    let mut header = [0; HEADER_LEN];
    receive.read_exact(&mut header).await.map_err(lost)?;
    let header = Header::decode(header).map_err(WrongPeer)?;
    let mut body = vec![0; header.len];
    receive.read_exact(&mut body).await.map_err(lost)?;
    Ok((header.kind, body))
}

/// The other side speaks another protocol.
#[derive(Debug)]
pub(crate) struct WrongPeer(pub(crate) HeaderError);

impl fmt::Display for WrongPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        match self.0 {
            HeaderError::FileTransfer => f.write_str(
                ": `forward` and `connect` need the ticket of `manyway serve`, and `send -` and \
                 `recv -` that of each other",
            ),
            _ => Ok(()),
        }
    }
}

impl error::Error for WrongPeer {}

/// A stream has failed: because the connection is over, mostly.
pub(crate) fn lost(error: io::Error) -> anyhow::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(ConnectionLost(reason)) => over(ConnectionLost(reason.clone())),
        None => error.into(),
    }
}

/// The peer's reason for closing the connection says more than that it is over.
pub(crate) fn over(lost: ConnectionLost) -> anyhow::Error {
    match ClosedByPeer::of(&lost.0, "") {
        Some(closed) => closed.into(),
        None => lost.into(),
    }
}
