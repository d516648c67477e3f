//! Messages that both sides exchange apart from the content: hello, control messages, farewell.

use super::error::TransferError;
use super::progress::{Phase, Progress};
use manyway_transfer::message::HEADER_LEN;
use manyway_transfer::{
    Agreement, Failure, FrameKind, Header, Hello, Message, ProtocolError, Role,
};
use std::io::{self, Cursor};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Chain};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

/// How long a side that is done waits for the other one's last words.
pub(super) const LINGER: Duration = Duration::from_secs(5);

/// A message could not be read.
#[derive(Debug)]
pub(super) enum ReadError {
    Stream(io::Error),
    Protocol(ProtocolError),
}

impl ReadError {
    pub(super) fn into_transfer_error(self, doing: impl FnOnce() -> String) -> TransferError {
        match self {
            ReadError::Stream(source) => lost(doing(), source),
            ReadError::Protocol(error) => error.into(),
        }
    }
}

/// The two directions of a transfer's stream: what the other side says and what we do. From a pair
/// of streams, or what [`begin`] has made of one.
#[derive(Debug)]
pub struct Talk<R, W> {
    /// In front stands what was read already and is still to be heeded.
    pub(super) reader: Chain<Cursor<Vec<u8>>, R>,
    pub(super) writer: W,
    /// What came of the hellos, once they are exchanged.
    agreed: Option<Agreement>,
}

impl<R: AsyncRead, W> From<(R, W)> for Talk<R, W> {
    fn from((reader, writer): (R, W)) -> Self {
        Self {
            reader: Cursor::new(Vec::new()).chain(reader),
            writer,
            agreed: None,
        }
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Talk<R, W> {
    /// Exchanges hellos, unless that is done.
    pub(super) async fn greet(
        &mut self,
        ours: Hello,
        progress: &Progress,
    ) -> Result<Agreement, TransferError> {
        let agreed = match self.agreed {
            Some(agreed) => agreed,
            None => self.exchange_hellos(ours, || progress.doing("")).await?,
        };
        progress.enter(Phase::Listing);
        Ok(agreed)
    }

    async fn exchange_hellos(
        &mut self,
        ours: Hello,
        doing: impl Fn() -> String,
    ) -> Result<Agreement, TransferError> {
        let hello = Message::Hello(ours);
        let (said, heard) = tokio::join!(
            write_message(&mut self.writer, &hello),
            read_message(&mut self.reader)
        );
        let agreed = match heard {
            Ok(Message::Hello(theirs)) => ours.agree(theirs)?,
            Ok(Message::Failure(failure)) => return Err(TransferError::There(failure)),
            Ok(other) => return Err(ProtocolError::Unexpected(other.kind()).into()),
            Err(error) => return Err(error.into_transfer_error(&doing)),
        };
        said.map_err(|error| lost(doing(), error))?;
        self.agreed = Some(agreed);
        Ok(agreed)
    }

    /// Waits for the sender's first message, and leaves it to be read.
    async fn await_offer(self) -> Result<Self, TransferError> {
        let (said, mut reader) = self.reader.into_inner();
        debug_assert!(said.get_ref().is_empty(), "hellos are not read twice");
        let (header, body) = read_frame(&mut reader)
            .await
            .map_err(|error| error.into_transfer_error(before_it_began))?;
        if !matches!(
            header.kind,
            FrameKind::Scope | FrameKind::Entries | FrameKind::Offered | FrameKind::Failure
        ) {
            return Err(ProtocolError::Unexpected(header.kind).into());
        }
        let said = [&header.encode()[..], &body].concat();
        Ok(Self {
            reader: Cursor::new(said).chain(reader),
            ..self
        })
    }
}

/// Begins a transfer with a peer that has dialled and opened a stream: exchanges hellos, of which
/// [`Sources::hello`](super::Sources::hello) or
/// [`ReceiveOptions::hello`](super::ReceiveOptions::hello) gives ours, and waits for the first
/// message of a sender's offer. So whoever is dialled knows that there is a transfer. Each of the
/// two may take `patience` in all, however their bytes arrive.
///
/// # Errors
/// [`TransferError`]: `patience` is over, the stream has ended, or what came is no transfer.
pub async fn begin<R, W>(
    streams: (R, W),
    ours: Hello,
    patience: Duration,
) -> Result<Talk<R, W>, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let late = |missing: &str| {
        let seconds = patience.as_secs();
        let text = format!("the peer opened a stream but sent no {missing} for {seconds} s");
        let error = io::Error::new(io::ErrorKind::TimedOut, text);
        move |_| lost(before_it_began(), error)
    };
    let mut talk = Talk::from(streams);
    let hellos = talk.exchange_hellos(ours, before_it_began);
    timeout(patience, hellos).await.map_err(late("hello"))??;
    if ours.role == Role::Sender {
        return Ok(talk);
    }
    let offered = timeout(patience, talk.await_offer()).await;
    offered.map_err(late("offer"))?
}

fn before_it_began() -> String {
    "before it began".to_owned()
}

pub(super) async fn write_message<W: AsyncWrite + Unpin>(
    writer: &mut W,
    message: &Message,
) -> io::Result<()> {
    writer.write_all(&message.to_bytes()).await?;
    writer.flush().await
}

/// Reads one message; data frames are refused.
pub(super) async fn read_message<R: AsyncRead + Unpin>(
    reader: &mut R,
) -> Result<Message, ReadError> {
    let (header, body) = read_frame(reader).await?;
    Message::decode(header.kind, &body).map_err(ReadError::Protocol)
}

async fn read_frame<R: AsyncRead + Unpin>(reader: &mut R) -> Result<(Header, Vec<u8>), ReadError> {
    let mut header = [0; HEADER_LEN];
    reader
        .read_exact(&mut header)
        .await
        .map_err(ReadError::Stream)?;
    let header = Header::decode(header).map_err(ReadError::Protocol)?;
    if header.kind == FrameKind::Data {
        return Err(ReadError::Protocol(ProtocolError::Unexpected(header.kind)));
    }
    let mut body = vec![0; header.len];
    reader
        .read_exact(&mut body)
        .await
        .map_err(ReadError::Stream)?;
    Ok((header, body))
}

/// Ends a transfer that failed: tells the other side if it doesn't know, and waits until it has
/// heard.
pub(super) async fn conclude<R, W>(
    mut reader: R,
    mut writer: W,
    error: TransferError,
) -> TransferError
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let farewell = async {
        if let TransferError::Here(failure) = &error {
            write_message(&mut writer, &Message::Failure(failure.clone())).await?;
            writer.shutdown().await?;
            // The other side may still be sending: closing now could destroy our message on its
            // way.
            drain(&mut reader).await
        } else {
            writer.shutdown().await
        }
    };
    // Best effort: `error` is what there is to report.
    let _ = timeout(LINGER, farewell).await;
    error
}

/// Reads until the end of the stream.
async fn drain<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<()> {
    let mut void = vec![0; 64 << 10];
    while reader.read(&mut void).await? > 0 {}
    Ok(())
}

pub(super) fn lost(doing: String, source: io::Error) -> TransferError {
    TransferError::Stream { doing, source }
}

/// A blocking thread's result; its panic, if it had one, goes on here.
pub(super) async fn join<T, E>(thread: &mut JoinHandle<Result<T, E>>) -> Result<T, E>
where
    E: From<Failure>,
{
    joined(thread.await)
}

pub(super) fn joined<T, E: From<Failure>>(result: Result<Result<T, E>, JoinError>) -> Result<T, E> {
    match result {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(Failure::new(
            manyway_transfer::FailureCode::Cancelled,
            "the program is shutting down",
        )
        .into()),
    }
}
