//! The receiver's blocking thread: reads frames, decides, writes, hashes and verifies.

use super::super::attributes::not_agreed;
use super::super::progress::{Phase, Progress};
use super::super::spool::{Spool, Stored};
use super::super::summary::{Deleted, FileSummary, Kept, Listed, ReceiveSummary, Skipped};
use super::allowance::{Allowance, List, Reservation};
use super::arrived::Arrived;
use super::basis::{self, Basis};
use super::claim::Claims;
use super::commit::{BATCH, Committer};
use super::delete::{Deletion, Told};
use super::disk::{Disk, Id};
use super::end::{End, spool_failure};
use super::inbox::Inbox;
use super::intake::Intake;
use super::metadata::Metadata;
use super::options::ReceiveOptions;
use super::outgoing::Outgoing;
use super::preview::{Dots, Preview};
use super::room::Room;
use super::shared::Shared;
use super::space::Space;
use super::sweep;
use super::transfers::Transfer;
use super::tree::{Dir, RECEIVING_DIR, Tree};
use manyway_os::umask;
use manyway_transfer::failure::Side;
use manyway_transfer::message::MAX_MESSAGE;
use manyway_transfer::{
    Agreement, Entry, Failure, FailureCode, Manifest, Message, ProtocolError, Scope, Totals, Wants,
};
use std::collections::HashSet;
use std::fs;
use std::hash::RandomState;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::time::Instant;
use tokio::sync::mpsc;

/// Most bytes in holes that a receiver takes whose user hasn't said how much content to take.
const MOST_HOLES: u64 = 4 << 40;

/// The consumer's parts.
pub(super) struct Consumer {
    dir: PathBuf,
    options: ReceiveOptions,
    agreed: Agreement,
    inbox: Inbox,
    out: mpsc::Sender<Outgoing>,
    progress: Arc<Progress>,
    claims: Claims,
    transfer: Arc<Transfer>,
}

impl Consumer {
    pub(super) fn new(
        dir: &Path,
        options: ReceiveOptions,
        agreed: Agreement,
        inbox: Inbox,
        out: mpsc::Sender<Outgoing>,
        progress: Arc<Progress>,
        transfer: Arc<Transfer>,
    ) -> Self {
        Self {
            dir: dir.to_owned(),
            options,
            agreed,
            inbox,
            out,
            progress,
            claims: Claims::default(),
            transfer,
        }
    }

    /// Everything, from the manifest to the sender's farewell.
    pub(super) fn run(mut self) -> Result<ReceiveSummary, End> {
        let root = self.open_dir()?;
        let mut offer = self.take_manifest(&root)?;
        // The list stays on the disk until the end.
        let _list = offer.list.take();
        if !offer.scope.dry_run
            && let Some(sweeping) = self.transfer.sweeps()
        {
            let (disk, keep) = (self.options.disk(), self.options.keep_parts);
            sweep::begin(root.as_fd(), disk, keep, sweeping);
        }
        let totals = offer.totals;
        self.progress.leave_out(offer.there);
        let started = Instant::now();
        self.progress.enter(Phase::Transferring);
        for wants in offer.wants.bytes().chunks(MAX_MESSAGE) {
            self.say(Outgoing::Frame(Message::Wants(wants.to_vec()).to_bytes()));
        }
        let (manifest, scope) = (offer.manifest.clone(), offer.scope.clone());
        let replaced = offer.replaced.clone();
        let taken = match scope.dry_run {
            true => Taken {
                kept: offer.there,
                ..Taken::default()
            },
            false => {
                self.say(Outgoing::Frame(Message::Accept.to_bytes()));
                self.take_content(&root, offer)?
            }
        };
        let Taken {
            files,
            kept,
            skipped,
            missing,
            altered,
            told,
        } = taken;
        let deleted = self.delete(&root, &manifest, &scope, &replaced, told)?;
        self.check_place(&root)?;
        let seconds = started.elapsed().as_secs_f64();
        let done = Message::Done {
            totals,
            altered: altered.count,
        };
        self.say(Outgoing::Last(done.to_bytes()));
        // All is on disk: that the sender hears of it is worth waiting for, but changes nothing
        // here.
        let _ = self.inbox.message();
        Ok(ReceiveSummary {
            files,
            deleted,
            dry_run: scope.dry_run,
            file_count: totals.files - missing.files,
            directories: totals.directories,
            symlinks: totals.symlinks,
            hard_links: totals.hard_links,
            skipped,
            altered,
            kept,
            bytes: totals.bytes - missing.bytes,
            seconds,
        })
    }

    /// Deletes what the sender doesn't have, if that is wanted, and tells it.
    fn delete(
        &self,
        root: &Arc<Dir>,
        manifest: &Stored,
        scope: &Scope,
        replaced: &HashSet<Id>,
        mut told: Told,
    ) -> Result<Deleted, End> {
        let mut result = Ok(());
        if self.options.deletes() {
            let deletion = Deletion {
                filter: &scope.filter,
                dotfiles: self.options.deletes_hidden(),
                dry_run: scope.dry_run,
                is_over: &|| self.inbox.is_closed(),
                tell: |name| told.add(name, &self.out),
                hasher: RandomState::new(),
            };
            result = deletion.run(root, scope.top, manifest, replaced);
        }
        let deleted = told.end(&self.out);
        result.map(|()| deleted)
    }

    /// Keeps others away that delete in the directory, too, before anything in it is looked at.
    fn claim(&mut self, root: &Dir, scope: Option<&Scope>) -> Result<(), End> {
        if !self.options.deletes() || scope.is_some_and(|scope| scope.dry_run) {
            return Ok(());
        }
        let alone = scope.is_some_and(|scope| scope.top);
        let (inbox, transfer) = (&self.inbox, &self.transfer);
        self.claims.root(root, alone, || {
            transfer.needs_way();
            inbox.is_closed()
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
        let mut preview = Preview::new(root.clone(), &self.options);
        let mut dots = Dots::default();
        let allowance = self.options.allowance.clone();
        let mut list = allowance.as_ref().map(Allowance::list);
        let mut space = self.options.check_space.then(|| Space::new(root.clone()));
        let mut scope = None;
        loop {
            let message = self.inbox.message()?;
            let begins = manifest.totals().entries == 0;
            if begins && matches!(message, Message::Entries(_) | Message::Offered(_)) {
                self.claim(root, scope.as_ref())?;
            }
            match &message {
                Message::Scope(new) if begins && scope.is_none() => {
                    preview.top = new.top;
                    preview.dry_run = new.dry_run;
                    if new.dry_run {
                        root.only_look();
                    }
                    preview.filter = new.filter.clone();
                    scope = Some(new.clone());
                }
                Message::Entries(entries) => {
                    for entry in entries {
                        manifest.push(entry)?;
                        preview.look(entry, &|| self.inbox.is_closed())?;
                        dots.look(&entry.name);
                    }
                    let len = spool.append(&message).map_err(spool_failure)?;
                    if let Some(list) = &mut list {
                        list.grew(len, preview.missing())?;
                    }
                    if let Some(space) = &mut space {
                        space.wrote(len)?;
                    }
                    self.progress.set_totals(manifest.totals());
                }
                Message::Offered(claimed) => {
                    let totals = manifest.finish(*claimed)?;
                    preview.verdict()?;
                    if let Some(space) = &space {
                        space.admit(preview.missing() - preview.holes())?;
                    }
                    if allowance.is_none() && preview.holes() > MOST_HOLES {
                        return Err(too_many_holes(preview.holes()).into());
                    }
                    dots.verdict(&self.options.dotfiles)?;
                    let reservation = allowance.map(|all| all.reserve(preview.missing()));
                    return Ok(Offer {
                        scope: scope.unwrap_or_default(),
                        totals,
                        there: preview.there(),
                        replaced: preview.replaced(),
                        wants: preview.wants(),
                        manifest: spool.stored(),
                        space,
                        list,
                        reservation: reservation.transpose()?,
                    });
                }
                other => return Err(ProtocolError::Unexpected(other.kind()).into()),
            }
        }
    }

    /// Takes the content of all files, with the committer at work beside it, and with what tells
    /// the sender which content is there.
    fn take_content(&mut self, root: &Arc<Dir>, offer: Offer) -> Result<Taken, End> {
        let metadata = Arc::new(Metadata::new(&self.options, self.agreed));
        let failed = AtomicBool::new(false);
        let room = Room {
            policy: self.options.policy,
            replaced: &offer.replaced,
            filter: &offer.scope.filter,
            dotfiles: self.options.deletes_hidden(),
            failed: &failed,
            told: Told::default(),
            out: self.out.clone(),
        };
        let committer = Committer {
            root: root.clone(),
            metadata: metadata.clone(),
            shared: Shared::new(&self.dir),
            altered: Skipped::default(),
            arrived: Arrived::default(),
            room,
            out: self.out.clone(),
            progress: self.progress.clone(),
            files: Vec::new(),
            listed: Listed::default(),
            placed: 0,
        };
        let (jobs, queue) = sync_channel(BATCH);
        let ((files, held), (items, told)) = (basis::files(), basis::items());
        let over = AtomicBool::new(false);
        let basis = Basis {
            wants: &offer.wants,
            files,
            items,
            out: self.out.clone(),
            policy: self.options.policy,
            keep: self.options.keeps(),
            over: &over,
            told: Vec::new(),
            transfer: &self.transfer,
        };
        let manifest = &offer.manifest;
        std::thread::scope(|scope| {
            let thread = || std::thread::Builder::new();
            let committer = thread()
                .spawn_scoped(scope, move || committer.run(queue))
                .map_err(no_thread)?;
            if offer.wants.bytes().is_empty() {
                drop(basis);
            } else {
                thread()
                    .spawn_scoped(scope, move || basis.run(root.clone(), manifest))
                    .map_err(no_thread)?;
            }
            let mask = match self.options.keeps_modes() {
                true => 0,
                false => umask(),
            };
            let special = match self.options.keep_modes {
                true => 0,
                false => Entry::SPECIAL,
            };
            let mut intake = Intake {
                options: &self.options,
                top: offer.scope.top,
                inbox: &mut self.inbox,
                claims: &mut self.claims,
                transfer: &self.transfer,
                progress: &self.progress,
                metadata,
                mask: mask | special,
                space: offer.space,
                reservation: offer.reservation,
                tree: Tree::new(root.clone()),
                entered: Arrived::default(),
                replaced: &offer.replaced,
                held,
                told,
                kept: offer.there,
                left_out: Skipped::default(),
                missing: Kept::default(),
                altered: not_agreed(self.options.hello(), self.agreed),
                jobs,
            };
            let taken = intake.take(manifest.entries(), &offer.wants);
            failed.store(taken.is_err(), Relaxed);
            // Also after a failure: what is complete stays, with the right modes.
            let left = intake.leave_all(taken.is_ok());
            over.store(true, Relaxed);
            let Intake {
                kept,
                left_out: skipped,
                missing,
                mut altered,
                jobs,
                ..
            } = intake;
            drop(jobs);
            let committed = committer
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match (taken.and(left), committed) {
                (Err(end @ (End::Here(_) | End::There(_))), _) => Err(end),
                (_, Err(end)) => Err(end),
                (Err(End::Gone), _) => Err(End::Gone),
                (Ok(()), Ok(committed)) => {
                    altered.extend(committed.altered);
                    Ok(Taken {
                        files: committed.files,
                        kept,
                        skipped,
                        missing,
                        altered,
                        told: committed.told,
                    })
                }
            }
        })
    }

    /// Hands a frame to the async side. If that has gone, the inbox will end, too.
    fn say(&self, outgoing: Outgoing) {
        let _ = self.out.blocking_send(outgoing);
    }
}

fn no_thread(error: io::Error) -> Failure {
    let reason = format_args!("the receiver's system has no thread left: {error}");
    Failure::new(FailureCode::Other, reason)
}

/// They take no room, but both sides hash them.
fn too_many_holes(bytes: u64) -> Failure {
    let reason = "there are more than 4 TiB in holes, which the receiver accepts only with its \
                  option `--max-total`";
    Failure::new(FailureCode::Refused, reason)
        .only_here(format_args!("{bytes} bytes are announced"))
}

/// A manifest that can be accepted.
struct Offer {
    scope: Scope,
    manifest: Stored,
    wants: Wants,
    totals: Totals,
    there: Kept,
    /// What is there and becomes another kind.
    replaced: HashSet<Id>,
    space: Option<Space>,
    list: Option<List>,
    reservation: Option<Reservation>,
}

/// What came of the content.
#[derive(Default)]
struct Taken {
    files: Vec<FileSummary>,
    kept: Kept,
    /// What the sender has left out.
    skipped: Skipped,
    /// Files among it that were offered.
    missing: Kept,
    /// What was left out or changed here.
    altered: Skipped,
    /// What was removed.
    told: Told,
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
