//! The sender's blocking thread: lists files, waits for the receiver's consent, then reads and
//! hashes.

use super::super::buffers::{Buffer, Pool};
use super::super::progress::Progress;
use super::super::spool::{Entries, Spool};
use super::super::summary::{FileSummary, Skipped};
use super::outbox::Outbox;
use super::sources::{Sources, entry_of};
use super::stop::Stop;
use manyway_transfer::failure::Side;
use manyway_transfer::message::Batch;
use manyway_transfer::{Digest, Entry, Failure, FailureCode, Manifest, Message, Totals, Verifier};
use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// What a producer has sent.
pub(super) struct Produced {
    pub(super) files: Vec<FileSummary>,
    pub(super) totals: Totals,
    pub(super) skipped: Skipped,
}

/// The producer's parts.
pub(super) struct Producer {
    sources: Sources,
    out: Outbox,
    progress: Arc<Progress>,
}

impl Producer {
    pub(super) fn new(
        sources: Sources,
        chunks: mpsc::Sender<Buffer>,
        pool: Arc<Pool>,
        progress: Arc<Progress>,
    ) -> Self {
        Self {
            sources,
            out: Outbox::new(chunks, pool),
            progress,
        }
    }

    /// Everything, until the last byte is handed over; `go` is the receiver's word.
    pub(super) fn run(mut self, go: oneshot::Receiver<()>) -> Result<Produced, Stop> {
        let produced = self.produce(go);
        if matches!(produced, Err(Stop::Failure(_))) {
            // What is complete may be of use.
            self.out.flush()?;
        }
        produced
    }

    fn produce(&mut self, go: oneshot::Receiver<()>) -> Result<Produced, Stop> {
        let (entries, totals, skipped) = self.offer()?;
        go.blocking_recv().map_err(|_| Stop::Gone)?;
        let files = self.send_files(entries, totals)?;
        Ok(Produced {
            files,
            totals,
            skipped,
        })
    }

    /// Lists everything into the stream and, for later, into a spool.
    fn offer(&mut self) -> Result<(Entries, Totals, Skipped), Stop> {
        let mut offer = Offer {
            out: &mut self.out,
            progress: &self.progress,
            spool: Spool::new(None),
            manifest: Manifest::new(),
            entries: Vec::new(),
            batch: Batch::default(),
        };
        let mut skipped = Skipped::default();
        self.sources.list(&mut skipped, |entry| offer.push(entry))?;
        offer.flush()?;
        let (spool, totals) = (offer.spool, offer.manifest.totals());
        self.out.message(&Message::Offered(totals))?;
        self.out.flush()?;
        Ok((spool.entries().map_err(spool_failure)?, totals, skipped))
    }

    fn send_files(&mut self, entries: Entries, totals: Totals) -> Result<Vec<FileSummary>, Stop> {
        let mut files = Vec::with_capacity(FileSummary::MOST.min(totals.files as usize));
        for entry in entries {
            let entry = entry.map_err(spool_failure)?;
            if entry.is_file() {
                self.progress.set_current(entry.name.as_str());
                let digest = self.send_file(&entry)?;
                if files.len() < FileSummary::MOST {
                    files.push(FileSummary::new(&entry.name, entry.size, digest));
                }
            }
        }
        self.out.flush()?;
        Ok(files)
    }

    fn send_file(&mut self, entry: &Entry) -> Result<Digest, Stop> {
        let path = self.sources.path_of(&entry.name);
        let file = open(&path).map_err(|error| read_failure("opening", entry, &error))?;
        check_unchanged(entry, &file)?;
        let mut verifier = Verifier::new(entry);
        while verifier.remaining() > 0 {
            let wanted = usize::try_from(verifier.remaining()).unwrap_or(usize::MAX);
            let room = self
                .out
                .content(wanted.min(manyway_transfer::message::MAX_DATA))?;
            let read = fill(&file, room).map_err(|error| read_failure("reading", entry, &error))?;
            if read < room.len() {
                check_unchanged(entry, &file)?;
                return Err(changed(entry, "it ended early").into());
            }
            verifier
                .update(room)
                .map_err(|error| Failure::content(&entry.name, error))?;
            self.out.commit(read);
        }
        // The size and time of the listing still hold: what was read is one version of the file.
        check_unchanged(entry, &file)?;
        let digest = verifier
            .digest()
            .map_err(|error| Failure::content(&entry.name, error))?;
        self.out.message(&Message::Trailer(digest))?;
        Ok(digest)
    }
}

/// A manifest on its way out.
struct Offer<'a> {
    out: &'a mut Outbox,
    progress: &'a Progress,
    spool: Spool,
    manifest: Manifest,
    entries: Vec<Entry>,
    batch: Batch,
}

impl Offer<'_> {
    fn push(&mut self, entry: Entry) -> Result<(), Stop> {
        self.manifest.push(&entry).map_err(Failure::from)?;
        self.progress.set_totals(self.manifest.totals());
        if !self.batch.add(entry.name.as_str()) {
            self.flush()?;
            self.batch.add(entry.name.as_str());
        }
        self.entries.push(entry);
        if self.manifest.totals().entries == 1 {
            // At once: the receiver waits only so long for a sign that something comes.
            self.flush()?;
            self.out.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Stop> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let message = Message::Entries(std::mem::take(&mut self.entries));
        self.batch = Batch::default();
        self.spool.append(&message).map_err(spool_failure)?;
        self.out.message(&message)
    }
}

/// Opens a file for reading; never through a symbolic link, and never waiting for a pipe's other
/// end.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
}

/// Reads until `room` is full or the file ends.
fn fill(mut file: &File, room: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match file.read(&mut room[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Holds an open file to what was listed.
fn check_unchanged(entry: &Entry, file: &File) -> Result<(), Failure> {
    let metadata = file
        .metadata()
        .map_err(|error| read_failure("reading", entry, &error))?;
    if !metadata.is_file() {
        return Err(changed(entry, "it is no longer a regular file"));
    }
    let now = entry_of(entry.name.clone(), &metadata);
    if now.size < entry.size {
        Err(changed(
            entry,
            format_args!("it shrank from {} to {} bytes", entry.size, now.size),
        ))
    } else if now.size > entry.size {
        Err(changed(
            entry,
            format_args!("it grew from {} to {} bytes", entry.size, now.size),
        ))
    } else if now.mtime != entry.mtime {
        Err(changed(entry, "it was written to"))
    } else {
        Ok(())
    }
}

fn changed(entry: &Entry, how: impl std::fmt::Display) -> Failure {
    let reason = format_args!(
        "changed at the sender during the transfer: {how}; send it again when nothing writes to it"
    );
    Failure::new(FailureCode::Changed, reason).of(&entry.name)
}

fn read_failure(doing: &str, entry: &Entry, error: &io::Error) -> Failure {
    Failure::disk(Side::Sender, doing, &entry.name, error)
}

fn spool_failure(error: io::Error) -> Failure {
    Failure::disk(
        Side::Sender,
        "storing the list of files",
        "temporary directory",
        &error,
    )
}
