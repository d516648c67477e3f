//! The receiver's blocking thread: reads frames, decides, writes, hashes and verifies.

use super::super::progress::{Phase, Progress};
use super::super::spool::{Entries, Spool};
use super::super::summary::{FileSummary, ReceiveSummary};
use super::allowance::Reservation;
use super::commit::{BATCH, Committer, Job};
use super::disk::Disk;
use super::end::End;
use super::inbox::{Frame, Inbox};
use super::options::ReceiveOptions;
use super::outgoing::Outgoing;
use super::part::{Complete, MOST_NUMBERS, Part, write_failure};
use super::preview::{Dots, Preview};
use super::space::Space;
use super::sweep;
use super::tree::{Dir, Level, RECEIVING_DIR, Tree};
use crate::os::umask::umask;
use manyway_transfer::failure::Side;
use manyway_transfer::{
    Conflict, Decision, Entry, Failure, FailureCode, Kind, Manifest, Message, ProtocolError,
    Totals, Verifier, decide, numbered,
};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;
use tokio::sync::mpsc;

/// The consumer's parts.
pub(super) struct Consumer {
    dir: PathBuf,
    options: ReceiveOptions,
    inbox: Inbox,
    out: mpsc::Sender<Outgoing>,
    progress: Arc<Progress>,
}

impl Consumer {
    pub(super) fn new(
        dir: &Path,
        options: ReceiveOptions,
        inbox: Inbox,
        out: mpsc::Sender<Outgoing>,
        progress: Arc<Progress>,
    ) -> Self {
        Self {
            dir: dir.to_owned(),
            options,
            inbox,
            out,
            progress,
        }
    }

    /// Everything, from the manifest to the sender's farewell.
    pub(super) fn run(mut self) -> Result<ReceiveSummary, End> {
        let root = self.open_dir()?;
        sweep::begin(root.as_fd(), self.options.disk(), self.options.keep_parts);
        let offer = self.take_manifest(&root)?;
        let totals = offer.totals;
        let started = Instant::now();
        self.progress.enter(Phase::Transferring);
        self.say(Outgoing::Frame(Message::Accept.to_bytes()));
        let files = self.take_content(&root, offer)?;
        self.check_place(&root)?;
        let seconds = started.elapsed().as_secs_f64();
        self.say(Outgoing::Last(Message::Done(totals).to_bytes()));
        // All is on disk: that the sender hears of it is worth waiting for, but changes nothing
        // here.
        let _ = self.inbox.message();
        Ok(ReceiveSummary {
            files,
            file_count: totals.files,
            directories: totals.entries - totals.files,
            bytes: totals.bytes,
            seconds,
        })
    }

    fn open_dir(&self) -> Result<Arc<Dir>, Failure> {
        let disk = self.options.disk();
        let opened = make_dir(&self.dir, &disk).and_then(|()| Dir::root(&self.dir, disk));
        opened.map_err(|error| {
            let failure = Failure::disk(Side::Receiver, "opening", RECEIVING_DIR, &error);
            failure.only_here(self.dir.display())
        })
    }

    /// Everything is in the directory that was opened: is that the one its user will look into?
    fn check_place(&self, root: &Dir) -> Result<(), Failure> {
        if root.is_at(&self.dir) {
            return Ok(());
        }
        let reason = "the receiving directory was renamed or replaced during the transfer";
        let dir = self.dir.display();
        let here = match root.path() {
            Some(path) => format!("{dir}: the files are in {}", path.display()),
            None => format!("{dir}: the files are where it is now"),
        };
        Err(Failure::new(FailureCode::Write, reason).only_here(here))
    }

    /// Takes the whole manifest, checks it, and refuses what cannot be received before any content
    /// is sent.
    fn take_manifest(&mut self, root: &Arc<Dir>) -> Result<Offer, End> {
        let mut manifest = Manifest::new();
        let mut spool = Spool::new(Some(&self.dir));
        let mut preview = Preview::new(root.clone(), self.options.policy);
        let mut dots = Dots::default();
        let allowance = self.options.allowance.clone();
        loop {
            let message = self.inbox.message()?;
            match &message {
                Message::Entries(entries) => {
                    for entry in entries {
                        manifest.push(entry)?;
                        preview.look(entry)?;
                        dots.look(&entry.name);
                    }
                    if let Some(allowance) = &allowance {
                        allowance.check(manifest.totals(), spool.len())?;
                    }
                    spool.append(&message).map_err(spool_failure)?;
                    self.progress.set_totals(manifest.totals());
                }
                Message::Offered(claimed) => {
                    let totals = manifest.finish(*claimed)?;
                    preview.verdict()?;
                    let space = self.options.check_space.then(|| Space::new(root.clone()));
                    if let Some(space) = &space {
                        space.admit(totals)?;
                    }
                    dots.verdict(&self.options.dotfiles)?;
                    let reservation = allowance.map(|all| all.reserve(totals, spool.len()));
                    return Ok(Offer {
                        totals,
                        entries: spool.entries().map_err(spool_failure)?,
                        space,
                        reservation: reservation.transpose()?,
                    });
                }
                other => return Err(ProtocolError::Unexpected(other.kind()).into()),
            }
        }
    }

    /// Takes the content of all files, with the committer at work beside it.
    fn take_content(&mut self, root: &Arc<Dir>, offer: Offer) -> Result<Vec<FileSummary>, End> {
        let committer = Committer {
            policy: self.options.policy,
            out: self.out.clone(),
            progress: self.progress.clone(),
            files: Vec::new(),
            placed: 0,
        };
        let (jobs, queue) = sync_channel(BATCH);
        std::thread::scope(|scope| {
            let committer = scope.spawn(move || committer.run(queue));
            let mask = match self.options.keep_modes {
                true => 0,
                false => umask(),
            };
            let mut intake = Intake {
                consumer: self,
                mask,
                space: offer.space,
                reservation: offer.reservation,
                tree: Tree::new(root.clone()),
                jobs,
            };
            let taken = intake.take(offer.entries);
            // Also after a failure: what is complete stays, with the right modes.
            let left = intake.leave_all();
            drop(intake);
            let committed = committer
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match (taken.and(left), committed) {
                (Err(end @ (End::Here(_) | End::There(_))), _) => Err(end),
                (_, Err(failure)) => Err(failure.into()),
                (Err(End::Gone), _) => Err(End::Gone),
                (Ok(()), Ok(files)) => Ok(files),
            }
        })
    }

    /// Hands a frame to the async side. If that has gone, the inbox will end, too.
    fn say(&self, outgoing: Outgoing) {
        let _ = self.out.blocking_send(outgoing);
    }
}

/// A manifest that can be accepted.
struct Offer {
    entries: Entries,
    totals: Totals,
    space: Option<Space>,
    reservation: Option<Reservation>,
}

/// The content phase.
struct Intake<'a> {
    consumer: &'a mut Consumer,
    /// Permission bits that nothing gets.
    mask: u16,
    space: Option<Space>,
    reservation: Option<Reservation>,
    tree: Tree,
    jobs: SyncSender<Job>,
}

impl Intake<'_> {
    fn take(&mut self, entries: Entries) -> Result<(), End> {
        for entry in entries {
            let mut entry = entry.map_err(spool_failure)?;
            entry.mode &= !self.mask;
            for level in self.tree.leave_for(&entry.name) {
                finish(&self.jobs, level)?;
            }
            match entry.kind {
                Kind::Directory => self.take_directory(entry)?,
                Kind::File => self.take_file(entry)?,
            }
        }
        self.consumer.progress.enter(Phase::Syncing);
        Ok(())
    }

    fn leave_all(&mut self) -> Result<(), End> {
        self.tree
            .leave_to(0)
            .try_for_each(|level| finish(&self.jobs, level))
    }

    fn take_directory(&mut self, entry: Entry) -> Result<(), End> {
        let parent = self.parent()?;
        let policy = self.consumer.options.policy;
        let failure = |error| write_failure("creating the directory", &entry.name, error);
        let mut name = entry.name.file_name().to_owned();
        for n in 1..=MOST_NUMBERS {
            match parent.make(&name) {
                Ok(()) => {
                    let dir = Some(parent.open(&name).map_err(failure)?);
                    self.tree.enter(Level {
                        dir,
                        made: Some(entry),
                    });
                    return send(&self.jobs, Job::Grown(parent));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failure(error).into()),
            }
            match decide(
                policy,
                Kind::Directory,
                parent.existing(&name).map_err(failure)?,
            ) {
                Decision::Merge => {
                    let dir = Some(parent.open(&name).map_err(failure)?);
                    self.tree.enter(Level { dir, made: None });
                    return Ok(());
                }
                Decision::Rename => name = numbered(entry.name.file_name(), n),
                Decision::Refuse(conflict) => {
                    return Err(Failure::conflict(&entry.name, conflict).into());
                }
                // It is gone again.
                Decision::Create | Decision::Replace => {}
            }
        }
        Err(Failure::conflict(&entry.name, Conflict::Exists).into())
    }

    fn take_file(&mut self, entry: Entry) -> Result<(), End> {
        let parent = self.parent()?;
        let mut verifier = Verifier::new(&entry);
        let mut part = Part::new(parent, entry)?;
        let Consumer {
            inbox, progress, ..
        } = &mut *self.consumer;
        progress.set_current(part.entry.name.as_str());
        let expected = loop {
            match inbox.frame()? {
                Frame::Data(len) => {
                    let mut left = len;
                    while left > 0 {
                        let bytes = inbox.some(left)?;
                        left -= bytes.len();
                        let updated = verifier.update(bytes);
                        updated.map_err(|error| Failure::content(&part.entry.name, error))?;
                        part.write(bytes)?;
                        progress.add_bytes(bytes.len() as u64);
                        if let Some(space) = &mut self.space {
                            space.wrote(bytes.len() as u64)?;
                        }
                    }
                }
                Frame::Message(Message::Trailer(digest)) => break digest,
                Frame::Message(other) => return Err(ProtocolError::Unexpected(other.kind()).into()),
            }
        };
        let verified = verifier.verify(expected);
        let digest = verified.map_err(|error| Failure::content(&part.entry.name, error))?;
        part.restore()?;
        if let Some(reservation) = &mut self.reservation {
            reservation.used(part.entry.size);
        }
        send(&self.jobs, Job::File(Box::new(Complete { part, digest })))
    }

    fn parent(&self) -> Result<Arc<Dir>, Failure> {
        let missing = || {
            Failure::new(
                FailureCode::Other,
                "a directory is missing that should have been made",
            )
        };
        self.tree.innermost().cloned().ok_or_else(missing)
    }
}

/// Makes a directory and those above it that are missing, each safely on disk.
fn make_dir(path: &Path, disk: &Arc<dyn Disk>) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let above = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    make_dir(above, disk)?;
    match fs::create_dir(path) {
        // Somebody else has made it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => Dir::root(above, disk.clone())?.sync(),
    }
}

fn finish(jobs: &SyncSender<Job>, level: Level) -> Result<(), End> {
    match (level.dir, level.made) {
        (Some(dir), Some(entry)) => send(jobs, Job::Finished(dir, entry)),
        _ => Ok(()),
    }
}

/// A committer that doesn't take jobs any more has failed, and says why itself.
fn send(jobs: &SyncSender<Job>, job: Job) -> Result<(), End> {
    jobs.send(job).map_err(|_| End::Gone)
}

fn spool_failure(error: io::Error) -> Failure {
    Failure::disk(
        Side::Receiver,
        "storing the list of files",
        RECEIVING_DIR,
        &error,
    )
}
