//! The receiving side. The async side moves bytes; one blocking thread runs the protocol and
//! writes; another syncs complete files and gives them their final names.

mod allowance;
mod arrived;
mod basis;
mod claim;
mod commit;
mod consumer;
mod delete;
mod difference;
mod disk;
mod end;
mod inbox;
mod intake;
mod link;
mod metadata;
mod options;
mod outgoing;
mod part;
mod preview;
mod room;
mod shared;
mod space;
mod sweep;
mod temporary;
mod times;
mod transfers;
mod tree;

use super::buffers::{Buffer, Pool, QUEUE};
use super::error::TransferError;
use super::progress::{Phase, Progress};
use super::summary::ReceiveSummary;
use super::talk::{LINGER, Talk, conclude, joined, lost};
use consumer::Consumer;
use end::End;
use outgoing::Outgoing;
use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use transfers::Transfer;

pub use allowance::Allowance;
#[cfg(test)]
pub(super) use disk::{Disk, Os};
pub use options::{AskDotfiles, Dotfiles, Links, ReceiveOptions};
pub(super) use temporary::is_temporary;
pub use transfers::Transfers;

/// Receives files into `dir` (created if missing) from a side that runs [`send`](super::send()).
///
/// Returns when everything is on disk and the sender knows.
///
/// # Errors
/// [`TransferError`]; it names the file and the cause, whichever side it comes from. Files that
/// were complete before stay.
pub async fn receive<R, W>(
    talk: impl Into<Talk<R, W>>,
    dir: impl AsRef<Path>,
    options: ReceiveOptions,
    progress: Arc<Progress>,
) -> Result<ReceiveSummary, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut talk = talk.into();
    match attempt(&mut talk, dir.as_ref(), options, &progress).await {
        Ok(summary) => {
            progress.enter(Phase::Done);
            // The sender's Bye says that it knows everything: it needn't hear of this end.
            poll_fn(|context| {
                let _ = Pin::new(&mut talk.writer).poll_shutdown(context);
                Poll::Ready(())
            })
            .await;
            Ok(summary)
        }
        Err(error) => Err(conclude(talk.reader, talk.writer, error).await),
    }
}

async fn attempt<R, W>(
    talk: &mut Talk<R, W>,
    dir: &Path,
    options: ReceiveOptions,
    progress: &Arc<Progress>,
) -> Result<ReceiveSummary, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let agreed = talk.greet(options.hello(), progress).await?;
    let Talk { reader, writer, .. } = talk;
    let pool = Arc::new(Pool::default());
    let (to_consumer, chunks) = mpsc::channel(QUEUE);
    let (out, outgoing) = mpsc::channel(QUEUE);
    let transfer = options.transfers.begin(dir);
    let consumer = Consumer::new(
        dir,
        options,
        agreed,
        inbox::Inbox::new(chunks, pool.clone()),
        out,
        progress.clone(),
        transfer.clone(),
    );
    let mut consumer = tokio::task::spawn_blocking(move || consumer.run());

    // Dropping `feed` closes the consumer's inbox, which ends it.
    let mut feed = Some(Box::pin(feed(reader, to_consumer, &pool, &transfer)));
    // Dropping `speak` tells the blocking threads that nobody hears them.
    let mut speak = Some(Box::pin(speak(writer, outgoing)));
    let mut cause = None;
    let mut deadline = None;
    let result = loop {
        let patience = deadline.unwrap_or_else(Instant::now);
        tokio::select! {
            result = &mut consumer => break joined(result),
            error = next(&mut feed), if feed.is_some() => {
                if error.kind() != io::ErrorKind::UnexpectedEof {
                    speak = None;
                }
                cause.get_or_insert(error);
                feed = None;
            }
            spoken = next(&mut speak), if speak.is_some() => {
                speak = None;
                match spoken {
                    Ok(Spoken::Stop) => feed = None,
                    Ok(Spoken::All) => deadline = Some(Instant::now() + LINGER),
                    // Why the sender doesn't listen may be in what it has sent.
                    Err(error) => {
                        cause.get_or_insert(error);
                        deadline = Some(Instant::now() + LINGER);
                    }
                }
            }
            () = transfer.gives_way(), if feed.is_some() => {
                let reason = "the sender was silent, and another transfer needed these files";
                cause.get_or_insert(io::Error::new(io::ErrorKind::TimedOut, reason));
                feed = None;
            }
            () = sleep_until(patience), if deadline.is_some() && feed.is_some() => feed = None,
        }
    };
    if let Some(speak) = speak {
        // What was queued before the consumer ended.
        let _ = timeout(LINGER, speak).await;
    }
    result.map_err(|end| match end {
        End::Here(failure) => TransferError::Here(failure),
        End::There(failure) => TransferError::There(failure),
        End::Gone => {
            let ended = || {
                io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the sender ended the stream early",
                )
            };
            lost(progress.doing("receiving"), cause.unwrap_or_else(ended))
        }
    })
}

async fn next<F: Future>(future: &mut Option<Pin<Box<F>>>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Hands what arrives to the consumer, until the stream ends; that is never its own wish.
async fn feed<R: AsyncRead + Unpin>(
    reader: &mut R,
    consumer: mpsc::Sender<Buffer>,
    pool: &Pool,
    transfer: &Transfer,
) -> io::Error {
    loop {
        let mut buffer = pool.take();
        transfer.waits();
        match read_available(reader, &mut buffer).await {
            Ok(()) if buffer.len == 0 => {
                return io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the sender ended the stream early",
                );
            }
            Ok(()) => transfer.hears(),
            Err(error) => return error,
        }
        if consumer.send(buffer).await.is_err() {
            // The consumer has ended, and its result is what counts.
            return std::future::pending().await;
        }
    }
}

/// Reads at least one byte, unless the stream is at its end, and then as many as are there.
async fn read_available<R: AsyncRead + Unpin>(
    reader: &mut R,
    buffer: &mut Buffer,
) -> io::Result<()> {
    poll_fn(|context| {
        while buffer.len < buffer.bytes.len() {
            let mut room = ReadBuf::new(&mut buffer.bytes[buffer.len..]);
            match Pin::new(&mut *reader).poll_read(context, &mut room) {
                Poll::Ready(Ok(())) if room.filled().is_empty() => break,
                Poll::Ready(Ok(())) => buffer.len += room.filled().len(),
                // What came before the error is worth reading; the error comes again.
                Poll::Pending | Poll::Ready(Err(_)) if buffer.len > 0 => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    })
    .await
}

enum Spoken {
    /// There is nothing more to say.
    All,
    /// The disk has failed.
    Stop,
}

/// Sends what the blocking threads have to say.
async fn speak<W: AsyncWrite + Unpin>(
    writer: &mut W,
    mut outgoing: mpsc::Receiver<Outgoing>,
) -> io::Result<Spoken> {
    while let Some(item) = outgoing.recv().await {
        let (frame, last) = match item {
            Outgoing::Frame(frame) => (frame, false),
            Outgoing::Last(frame) => (frame, true),
            Outgoing::Stop => return Ok(Spoken::Stop),
        };
        writer.write_all(&frame).await?;
        writer.flush().await?;
        if last {
            break;
        }
    }
    Ok(Spoken::All)
}
