//! The sending side: one blocking thread lists, reads and hashes; the async side writes its buffers
//! and reads the receiver's messages.

mod details;
mod difference;
mod extents;
mod outbox;
mod producer;
mod reading;
mod sources;
mod stop;

pub use sources::Sources;

use super::buffers::{Buffer, Pool, QUEUE};
use super::error::TransferError;
use super::progress::{Phase, Progress};
use super::summary::{Deleted, Listed, SendSummary, Skipped};
use super::talk::{LINGER, Talk, conclude, join, lost, read_message, write_message};
use manyway_transfer::message::BASIS_WINDOW;
use manyway_transfer::{
    Digest, Failure, FailureCode, FrameKind, Message, ProtocolError, SafeName, Saved, Totals, Wants,
};
use producer::{Accepted, Produced, Producer};
use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use stop::Stop;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::error::{TryRecvError, TrySendError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Sends files over a stream to a side that runs [`receive`](super::receive()).
///
/// Returns when the receiver has everything on disk, or knows why not.
///
/// # Errors
/// [`TransferError`]; it names the file and the cause, whichever side it comes from.
pub async fn send<R, W>(
    talk: impl Into<Talk<R, W>>,
    sources: Sources,
    progress: Arc<Progress>,
) -> Result<SendSummary, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut talk = talk.into();
    match attempt(&mut talk, sources, &progress).await {
        Ok(summary) => {
            progress.enter(Phase::Done);
            // All is on the receiver's disk, whether or not it hears this.
            let bye = async {
                write_message(&mut talk.writer, &Message::Bye).await?;
                talk.writer.shutdown().await
            };
            let _ = timeout(LINGER, bye).await;
            Ok(summary)
        }
        Err(error) => Err(conclude(talk.reader, talk.writer, error).await),
    }
}

async fn attempt<R, W>(
    talk: &mut Talk<R, W>,
    sources: Sources,
    progress: &Arc<Progress>,
) -> Result<SendSummary, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let agreed = talk.greet(sources.hello(), progress).await?;
    let Talk { reader, writer, .. } = talk;
    let pool = Arc::new(Pool::default());
    let (chunks, from_producer) = mpsc::channel(QUEUE);
    let (go, wait) = oneshot::channel();
    let (tell, basis) = mpsc::channel(BASIS_WINDOW);
    let dry_run = sources.scope.dry_run;
    let producer = Producer::new((sources, agreed), chunks, pool.clone(), progress.clone());
    let mut producer = tokio::task::spawn_blocking(move || producer.run(wait, basis));

    let stop = AtomicBool::new(false);
    let mut pump = pin!(pump(writer, from_producer, &pool, &stop, progress));
    let mut listen = pin!(listen(reader, dry_run, go, tell, progress));
    tokio::select! {
        heard = &mut listen => match heard {
            // It may be here before the pump has noticed that it is done.
            Ok(heard) => match timeout(LINGER, pump).await {
                Ok(_) => summarise(join(&mut producer).await?, heard, dry_run),
                Err(_) => Err(ProtocolError::Unexpected(FrameKind::Done).into()),
            },
            Err(error) => {
                // What the pump has begun must end with a whole frame, or the receiver would take
                // what we have to say for content.
                stop.store(true, Relaxed);
                if matches!(error, TransferError::Here(_)) {
                    let _ = timeout(LINGER, pump).await;
                }
                Err(error)
            }
        },
        pumped = &mut pump => match pumped {
            Ok(()) => {
                let produced = match join(&mut producer).await {
                    // It was not told to go on: the receiver has ended it, and says why.
                    Err(Stop::Gone) => return Err(listen.await.err().unwrap_or_else(ended)),
                    other => other?,
                };
                progress.enter(Phase::Syncing);
                summarise(produced, listen.await?, dry_run)
            }
            Err(source) => Err(last_words(listen, lost(progress.doing("sending"), source)).await),
        },
    }
}

impl From<Stop> for TransferError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Failure(failure) => failure.into(),
            Stop::Gone => ended(),
        }
    }
}

fn ended() -> TransferError {
    Failure::new(FailureCode::Cancelled, "the transfer ended early").into()
}

/// Writes the producer's buffers until there are no more.
async fn pump<W: AsyncWrite + Unpin>(
    writer: &mut W,
    mut chunks: mpsc::Receiver<Buffer>,
    pool: &Pool,
    stop: &AtomicBool,
    progress: &Progress,
) -> io::Result<()> {
    while !stop.load(Relaxed) {
        let chunk = match chunks.try_recv() {
            Ok(chunk) => chunk,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                writer.flush().await?;
                match chunks.recv().await {
                    Some(chunk) => chunk,
                    None => break,
                }
            }
        };
        writer.write_all(chunk.filled()).await?;
        progress.add_bytes(chunk.content);
        pool.put(chunk);
    }
    writer.flush().await
}

/// What the receiver had to say.
struct Heard {
    took: Duration,
    totals: Totals,
    altered: u64,
    renames: Renames,
    deleted: Deleted,
}

/// The receiver's names for files, by their numbers.
#[derive(Default)]
struct Renames {
    names: BTreeMap<u64, SafeName>,
    listed: Listed,
}

impl Renames {
    /// Keeps it, if a summary can list it. `false`: the file has another name already.
    fn add(&mut self, file: u64, name: SafeName) -> bool {
        !self.listed.takes(&name) || self.names.insert(file, name).is_none()
    }
}

/// Listens to the receiver until it is done.
async fn listen<R: AsyncRead + Unpin>(
    reader: &mut R,
    dry_run: bool,
    go: oneshot::Sender<Accepted>,
    basis: mpsc::Sender<Option<Digest>>,
    progress: &Progress,
) -> Result<Heard, TransferError> {
    let mut go = Some((go, Wants::default()));
    let mut started = Instant::now();
    let mut saved = 0;
    let mut renames = Renames::default();
    let mut deleted = Deleted::default();
    loop {
        let message = read_message(reader)
            .await
            .map_err(|error| error.into_transfer_error(|| progress.doing("sending")))?;
        match (message, &mut go) {
            (Message::Failure(failure), _) => return Err(TransferError::There(failure)),
            (Message::Wants(bytes), Some((_, wants))) => {
                if !wants.extend(&bytes, progress.entries()) {
                    return Err(ProtocolError::Counts(FrameKind::Wants).into());
                }
            }
            (Message::Accept, Some(_)) => {
                started = Instant::now();
                progress.enter(Phase::Transferring);
                accept(&mut go).await;
            }
            (Message::Deleted(names), _) => names.iter().for_each(|name| deleted.add(name)),
            (Message::Basis(hashes), None) => note_basis(hashes, &basis)?,
            (Message::Saved(report), None) => {
                saved = note(report, saved, progress, &mut renames)?;
            }
            // In a dry run it is there in place of Accept; else all content must have gone out.
            (Message::Done { totals, altered }, waiting)
                if waiting.is_some() == dry_run
                    && (dry_run || progress.bytes_done() == progress.bytes_total()) =>
            {
                accept(&mut go).await;
                return Ok(Heard {
                    took: started.elapsed(),
                    totals,
                    altered,
                    renames,
                    deleted,
                });
            }
            (other, _) => return Err(ProtocolError::Unexpected(other.kind()).into()),
        }
    }
}

/// Tells the producer what is wanted, and waits until the totals are without what isn't.
async fn accept(go: &mut Option<(oneshot::Sender<Accepted>, Wants)>) {
    if let Some((go, wants)) = go.take() {
        let (ready, is_ready) = oneshot::channel();
        // A producer that isn't there any more has a failure to report.
        let _ = go.send(Accepted { wants, ready });
        let _ = is_ready.await;
    }
}

/// Passes on which groups the receiver has; it may not be further ahead than agreed.
fn note_basis(
    hashes: Vec<Digest>,
    basis: &mpsc::Sender<Option<Digest>>,
) -> Result<(), ProtocolError> {
    let end = hashes.is_empty().then_some(None);
    for item in hashes.into_iter().map(Some).chain(end) {
        if let Err(TrySendError::Full(_)) = basis.try_send(item) {
            return Err(ProtocolError::Counts(FrameKind::Basis));
        }
    }
    Ok(())
}

/// Takes a progress report; its bounds keep a hostile receiver from filling our memory.
fn note(
    report: Saved,
    before: u64,
    progress: &Progress,
    renames: &mut Renames,
) -> Result<u64, ProtocolError> {
    let new = before..report.files;
    if new.is_empty() || report.files > progress.files_total() {
        return Err(ProtocolError::Counts(FrameKind::Saved));
    }
    for item in report.renamed {
        if !new.contains(&item.file) || !renames.add(item.file, item.name) {
            return Err(ProtocolError::Counts(FrameKind::Saved));
        }
    }
    progress.set_files_done(report.files);
    Ok(report.files)
}

/// The write side is broken; a failure the receiver sent before may explain it better.
async fn last_words(
    listen: impl Future<Output = Result<Heard, TransferError>>,
    otherwise: TransferError,
) -> TransferError {
    match timeout(LINGER, listen).await {
        Ok(Err(error @ TransferError::There(_))) => error,
        _ => otherwise,
    }
}

fn summarise(
    produced: Produced,
    heard: Heard,
    dry_run: bool,
) -> Result<SendSummary, TransferError> {
    let Produced {
        mut files,
        planned,
        totals,
        skipped,
        kept,
        missing,
    } = produced;
    if heard.totals != totals {
        return Err(ProtocolError::Counts(FrameKind::Done).into());
    }
    for (file, name) in heard.renames.names {
        if let Some(file) = usize::try_from(file)
            .ok()
            .and_then(|file| files.get_mut(file))
        {
            file.saved_as = Some(name.as_str().to_owned());
        }
    }
    Ok(SendSummary {
        files,
        dry_run,
        planned,
        deleted: heard.deleted,
        file_count: totals.files - missing.files,
        directories: totals.directories,
        symlinks: totals.symlinks,
        hard_links: totals.hard_links,
        skipped,
        altered: Skipped {
            count: heard.altered,
            examples: Vec::new(),
        },
        kept,
        bytes: totals.bytes - missing.bytes,
        seconds: heard.took.as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::summary::FileSummary;
    use super::*;

    /// A receiver can call everything by another name.
    #[test]
    fn what_the_receiver_calls_files_is_bounded() {
        let long = SafeName::parse(&["n"; 16].map(|n| n.repeat(255)).join("/")).unwrap();
        let most = FileSummary::MOST_BYTES / long.as_str().len();
        let mut renames = Renames::default();
        assert!((0..10_000).all(|file| renames.add(file, long.clone())));
        assert_eq!(renames.names.len(), most);
        assert!(renames.names.keys().copied().eq(0..most as u64));
    }
}
