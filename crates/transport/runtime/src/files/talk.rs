//! Messages that both sides exchange apart from the content: hello, control messages, farewell.

use super::error::TransferError;
use super::progress::{Phase, Progress};
use manyway_transfer::message::HEADER_LEN;
use manyway_transfer::{Failure, FrameKind, Header, Hello, Message, ProtocolError, Role};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
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

/// Exchanges hellos.
pub(super) async fn greet<R, W>(
    reader: &mut R,
    writer: &mut W,
    role: Role,
    progress: &Progress,
) -> Result<(), TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let ours = Hello::new(role);
    let hello = Message::Hello(ours);
    let (said, heard) = tokio::join!(write_message(writer, &hello), read_message(reader));
    let doing = || progress.doing("");
    match heard {
        Ok(Message::Hello(theirs)) => ours.agree(theirs)?,
        Ok(Message::Failure(failure)) => return Err(TransferError::There(failure)),
        Ok(other) => return Err(ProtocolError::Unexpected(other.kind()).into()),
        Err(error) => return Err(error.into_transfer_error(doing)),
    };
    said.map_err(|error| lost(doing(), error))?;
    progress.enter(Phase::Listing);
    Ok(())
}

/// Reads the other side's first message and returns its bytes, for the one who runs the transfer to
/// find in front of the rest. Whoever is dialled knows by it that a transfer begins.
///
/// # Errors
/// [`TransferError`]: `patience` is over, the stream has ended, or what came is neither a hello nor
/// the reason why there will be none.
pub async fn first_message<R: AsyncRead + Unpin>(
    reader: &mut R,
    patience: Duration,
) -> Result<Vec<u8>, TransferError> {
    let doing = || "before it began".to_owned();
    let Ok(heard) = timeout(patience, read_message(reader)).await else {
        let seconds = patience.as_secs();
        let text = format!("the peer opened a stream and said no hello on it for {seconds} s");
        return Err(lost(doing(), io::Error::new(io::ErrorKind::TimedOut, text)));
    };
    match heard.map_err(|error| error.into_transfer_error(doing))? {
        message @ (Message::Hello(_) | Message::Failure(_)) => Ok(message.to_bytes()),
        other => Err(ProtocolError::Unexpected(other.kind()).into()),
    }
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
    Message::decode(header.kind, &body).map_err(ReadError::Protocol)
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
