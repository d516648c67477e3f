//! The sender's blocking thread: lists files, waits for the receiver's consent, then reads and
//! hashes.

use super::super::attributes::not_agreed;
use super::super::buffers::{Buffer, Pool};
use super::super::progress::Progress;
use super::super::spool::{Spool, Stored};
use super::super::summary::{FileSummary, Kept, Listed, Planned, Skipped};
use super::details::Details;
use super::difference::Difference;
use super::outbox::Outbox;
use super::reading::Reading;
use super::sources::{Opened, Sources};
use super::stop::Stop;
use manyway_transfer::failure::Side;
use manyway_transfer::message::{Batch, MAX_HOLE};
use manyway_transfer::{
    Agreement, Cause, Digest, Entry, Failure, FailureCode, Manifest, Message, Scope, Totals, Want,
    Wants,
};
use std::io;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// What a producer has sent.
pub(super) struct Produced {
    pub(super) files: Vec<FileSummary>,
    /// Of a dry run.
    pub(super) planned: Vec<Planned>,
    pub(super) totals: Totals,
    pub(super) skipped: Skipped,
    pub(super) kept: Kept,
    /// Files that were offered, and then couldn't be sent.
    pub(super) missing: Kept,
}

/// The receiver's word to go on.
pub(super) struct Accepted {
    pub(super) wants: Wants,
    /// To be told when the progress's totals are without what the receiver has.
    pub(super) ready: oneshot::Sender<()>,
}

/// The producer's parts.
pub(super) struct Producer {
    sources: Sources,
    agreed: Agreement,
    opened: Opened,
    out: Outbox,
    progress: Arc<Progress>,
}

impl Producer {
    pub(super) fn new(
        (sources, agreed): (Sources, Agreement),
        chunks: mpsc::Sender<Buffer>,
        pool: Arc<Pool>,
        progress: Arc<Progress>,
    ) -> Self {
        Self {
            sources,
            agreed,
            opened: Opened::default(),
            out: Outbox::new(chunks, pool),
            progress,
        }
    }

    /// Everything, until the last byte is handed over; `go` is the receiver's word, and `basis`
    /// what it tells of files that it has in part.
    pub(super) fn run(
        mut self,
        go: oneshot::Receiver<Accepted>,
        basis: mpsc::Receiver<Option<Digest>>,
    ) -> Result<Produced, Stop> {
        let produced = self.produce(go, basis);
        if matches!(produced, Err(Stop::Failure(_))) {
            // What is complete may be of use.
            self.out.flush()?;
        }
        produced
    }

    fn produce(
        &mut self,
        go: oneshot::Receiver<Accepted>,
        basis: mpsc::Receiver<Option<Digest>>,
    ) -> Result<Produced, Stop> {
        let (stored, totals, mut skipped) = self.offer()?;
        let accepted = go.blocking_recv().map_err(|_| Stop::Gone)?;
        let wants = accepted.wants;
        let mut difference = Difference::new(basis);
        let mut files = Vec::with_capacity(FileSummary::MOST.min(totals.files as usize));
        let (mut kept, mut missing) = (Kept::default(), Kept::default());
        let mut listed = Listed::default();
        for file in self::files(&stored, &wants) {
            if let (entry, Want::Nothing) = file? {
                kept.add(Kept::whole(entry.size));
            }
        }
        self.progress.leave_out(kept);
        let _ = accepted.ready.send(());
        if self.sources.scope.dry_run {
            let mut planned = Vec::new();
            for entry in entries(&stored, &wants) {
                let (entry, want) = entry?;
                if let Some(one) = Planned::new(&entry, want)
                    && listed.takes(&entry.name)
                {
                    planned.push(one);
                }
            }
            return Ok(Produced {
                files: Vec::new(),
                planned,
                totals,
                skipped,
                kept,
                missing,
            });
        }
        for file in self::files(&stored, &wants) {
            let (entry, want) = file?;
            if want == Want::Nothing {
                continue;
            }
            difference.begin();
            let mut reading = self.begin(&entry);
            let sent = match &mut reading {
                Err(failure) => Err(Stop::Failure(failure.clone())),
                Ok(reading) if want == Want::Difference => {
                    difference.send(reading, &mut self.out, &self.progress)
                }
                Ok(reading) => self.send_file(reading).map(|digest| (digest, 0)),
            };
            match sent {
                Ok((digest, bytes)) => {
                    kept.add(Kept::part(bytes));
                    if listed.takes(&entry.name) {
                        files.push(FileSummary::new(&entry.name, entry.size, digest));
                    }
                }
                Err(Stop::Failure(failure)) => {
                    // The others can be sent all the same.
                    let cause = cause_of(failure.code).ok_or_else(|| failure.clone())?;
                    skipped.add(&entry.name, &failure.reason);
                    missing.add(Kept::whole(entry.size));
                    let left = reading.map_or(entry.size, |reading| reading.remaining());
                    let left = Kept {
                        files: 1,
                        bytes: left,
                    };
                    self.progress.leave_out(left);
                    match want {
                        Want::Difference => difference.leave_out(&entry, cause, &mut self.out)?,
                        _ => self.out.message(&Message::LeftOut(cause))?,
                    }
                }
                Err(Stop::Gone) => return Err(Stop::Gone),
            }
        }
        self.out.flush()?;
        Ok(Produced {
            files,
            planned: Vec::new(),
            totals,
            skipped,
            kept,
            missing,
        })
    }

    /// Lists everything into the stream and, for later, into a spool.
    fn offer(&mut self) -> Result<(Stored, Totals, Skipped), Stop> {
        if self.sources.scope != Scope::default() {
            // At once, as the first entry: a long list may be behind the filter.
            let scope = self.sources.scope.clone();
            self.out.message(&Message::Scope(scope))?;
            self.out.flush()?;
        }
        let mut offer = Offer {
            out: &mut self.out,
            progress: &self.progress,
            spool: Spool::new(None),
            manifest: Manifest::new(),
            entries: Vec::new(),
            batch: Batch::default(),
        };
        let mut skipped = not_agreed(self.sources.hello(), self.agreed);
        let more = Details::new(self.agreed);
        self.sources
            .list(more, &mut skipped, |entry| offer.push(entry))?;
        offer.flush()?;
        let (spool, totals) = (offer.spool, offer.manifest.totals());
        self.out.message(&Message::Offered(totals))?;
        self.out.flush()?;
        Ok((spool.stored(), totals, skipped))
    }

    fn begin<'a>(&mut self, entry: &'a Entry) -> Result<Reading<'a>, Failure> {
        self.progress.set_current(entry.name.as_str());
        Reading::begin(&self.sources, entry, &mut self.opened)
    }

    fn send_file(&mut self, reading: &mut Reading<'_>) -> Result<Digest, Stop> {
        while reading.remaining() > 0 {
            let groups = reading.hole().min(MAX_HOLE);
            if groups > 0 {
                for _ in 0..groups {
                    self.progress.leave_out(Kept::part(reading.pass()?));
                }
                self.out.message(&Message::Hole(groups))?;
                if groups == MAX_HOLE {
                    // The receiver has to hash that, too.
                    self.out.flush()?;
                }
                continue;
            }
            let wanted = usize::try_from(reading.data()).unwrap_or(usize::MAX);
            let room = self
                .out
                .content(wanted.min(manyway_transfer::message::MAX_DATA))?;
            reading.fill(room)?;
            let read = room.len();
            self.out.commit(read);
        }
        reading.end(&mut self.out)
    }
}

/// Why a file can't be sent, unless it is more than that file's failure.
fn cause_of(code: FailureCode) -> Option<Cause> {
    match code {
        FailureCode::Changed => Some(Cause::Changed),
        FailureCode::Vanished => Some(Cause::Vanished),
        FailureCode::Permission | FailureCode::Read => Some(Cause::Unreadable),
        _ => None,
    }
}

/// The manifest's entries, each with what is wanted of it.
fn entries(stored: &Stored, wants: &Wants) -> impl Iterator<Item = Result<(Entry, Want), Failure>> {
    stored.entries().zip(0..).map(|(entry, number)| {
        let entry = entry.map_err(spool_failure)?;
        Ok((entry, wants.get(number)))
    })
}

/// The files among them.
fn files(stored: &Stored, wants: &Wants) -> impl Iterator<Item = Result<(Entry, Want), Failure>> {
    entries(stored, wants).filter(|entry| !matches!(entry, Ok((entry, _)) if !entry.is_file()))
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
        if !self.batch.add(entry.text_len()) {
            self.flush()?;
            self.batch.add(entry.text_len());
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

fn spool_failure(error: io::Error) -> Failure {
    Failure::disk(
        Side::Sender,
        "storing the list of files",
        "temporary directory",
        &error,
    )
}
