//! The content phase of a receiver: takes one file after the other.

use super::super::progress::{Phase, Progress};
use super::super::spool::Entries;
use super::super::summary::{Kept, Skipped};
use super::allowance::Reservation;
use super::arrived::Arrived;
use super::basis::{Held, Item};
use super::claim::Claims;
use super::commit::{Job, There};
use super::difference::Difference;
use super::disk::Id;
use super::end::{End, spool_failure, write_failure};
use super::inbox::{Frame, Inbox};
use super::link::Link;
use super::metadata::Metadata;
use super::options::ReceiveOptions;
use super::part::{Complete, MOST_NUMBERS, Part, is_marked, mark, unmark};
use super::space::Space;
use super::transfers::Transfer;
use super::tree::{Dir, Level, Made, Tree};
use manyway_transfer::{
    Cause, Conflict, Decision, Entry, Existing, Failure, FailureCode, Kind, Message, Policy,
    ProtocolError, Verifier, Want, Wants, decide, groups, numbered,
};
use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

/// The content phase.
pub(super) struct Intake<'a> {
    pub(super) options: &'a ReceiveOptions,
    /// See [`Scope::top`](manyway_transfer::Scope::top).
    pub(super) top: bool,
    pub(super) inbox: &'a mut Inbox,
    /// Where this transfer deletes.
    pub(super) claims: &'a mut Claims,
    pub(super) transfer: &'a Transfer,
    pub(super) progress: &'a Progress,
    pub(super) metadata: Arc<Metadata>,
    /// Permission bits that nothing gets.
    pub(super) mask: u16,
    pub(super) space: Option<Space>,
    pub(super) reservation: Option<Reservation>,
    pub(super) tree: Tree,
    /// Directories.
    pub(super) entered: Arrived,
    /// See [`Room::replaced`](super::room::Room::replaced).
    pub(super) replaced: &'a HashSet<Id>,
    /// Files that are there in part.
    pub(super) held: Receiver<Held>,
    /// What the sender is told of them.
    pub(super) told: Receiver<Item>,
    pub(super) kept: Kept,
    /// What the sender hasn't sent.
    pub(super) left_out: Skipped,
    /// Files among it that were offered.
    pub(super) missing: Kept,
    /// What this side leaves out.
    pub(super) altered: Skipped,
    pub(super) jobs: SyncSender<Job>,
}

impl Intake<'_> {
    /// Takes everything.
    pub(super) fn take(&mut self, entries: Entries, wants: &Wants) -> Result<(), End> {
        // What a receiver that was killed has named here may not be on disk.
        send(&self.jobs, Job::Named(self.parent()?))?;
        for (entry, number) in entries.zip(0..) {
            let mut entry = entry.map_err(spool_failure)?;
            entry.mode &= !self.mask;
            for level in self.tree.leave_for(&entry.name) {
                finish(&self.jobs, level, true)?;
            }
            match entry.kind {
                Kind::File => {}
                Kind::Directory => {
                    self.take_directory(entry)?;
                    continue;
                }
                Kind::Symlink(_) | Kind::HardLink(_) => {
                    self.take_link(entry)?;
                    continue;
                }
                // Its user wants it so.
                Kind::LeftOut(Cause::TooLarge) => continue,
                Kind::LeftOut(cause) => {
                    self.left_out.add(&entry.name, cause);
                    continue;
                }
            }
            match wants.get(number) {
                Want::All => self.take_file(entry)?,
                Want::Nothing if entry.shared || self.metadata.updates() => {
                    let dir = self.parent()?;
                    send(&self.jobs, Job::There(Box::new(There { dir, entry })))?;
                }
                Want::Nothing => {}
                Want::Difference => self.take_difference(entry)?,
            }
        }
        self.progress.enter(Phase::Syncing);
        Ok(())
    }

    /// Leaves the directories that are open; unless all of their content came, another transfer may
    /// go on with them.
    pub(super) fn leave_all(&mut self, complete: bool) -> Result<(), End> {
        self.tree
            .leave_to(0)
            .try_for_each(|level| finish(&self.jobs, level, complete || !self.options.keeps()))
    }

    fn take_directory(&mut self, entry: Entry) -> Result<(), End> {
        let parent = self.parent()?;
        let policy = self.options.policy;
        let failure = |error| write_failure("creating the directory", &entry.name, error);
        let mut name = entry.name.file_name().to_owned();
        for n in 1..=MOST_NUMBERS {
            let found = parent.look(&name).map_err(failure)?;
            if found.existing == Existing::Nothing {
                // Marked first: who is killed in between leaves no directory that looks complete.
                // With another name, no other transfer finds it.
                let marked = policy != Policy::Rename && mark(&parent, &name).map_err(failure)?;
                match parent.make(&name) {
                    Ok(()) => {}
                    Err(error) => {
                        if marked {
                            unmark(&parent, &name).ok();
                        }
                        // Somebody else was faster.
                        if error.kind() == io::ErrorKind::AlreadyExists {
                            continue;
                        }
                        return Err(failure(error).into());
                    }
                }
                self.takes_block()?;
                let marked = marked.then(|| parent.clone());
                let dir = parent.open(&name).map_err(failure)?;
                self.entered.add(&parent, dir.id());
                self.claim(&dir)?;
                let dir = Some(dir);
                let made = Some(Made {
                    entry,
                    marked,
                    existed: false,
                });
                self.tree.enter(Level { dir, made });
                return send(&self.jobs, Job::Named(parent));
            }
            match decide(policy, &Kind::Directory, found.existing) {
                Decision::Merge => {
                    let dir = parent.open(&name).map_err(failure)?;
                    if !self.entered.add(&parent, dir.id()) {
                        return Err(Failure::conflict(&entry.name, Conflict::Alias).into());
                    }
                    self.claim(&dir)?;
                    dir.open_up();
                    send(&self.jobs, Job::Named(dir.clone()))?;
                    let is_marked = is_marked(&parent, &name).map_err(failure)?;
                    let made = (is_marked || self.metadata.updates()).then(|| Made {
                        entry,
                        marked: is_marked.then_some(parent),
                        existed: !is_marked,
                    });
                    let dir = Some(dir);
                    self.tree.enter(Level { dir, made });
                    return Ok(());
                }
                Decision::Rename => name = numbered(entry.name.file_name(), n),
                Decision::Refuse(conflict) => {
                    return Err(Failure::conflict(&entry.name, conflict).into());
                }
                Decision::Replace
                    if found.any_id().is_some_and(|id| self.replaced.contains(&id)) =>
                {
                    match parent.disk().remove(parent.as_fd(), &name) {
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        removed => removed.map_err(failure)?,
                    }
                }
                Decision::Replace => {
                    let conflict = match found.existing {
                        Existing::Symlink => Conflict::IsSymlink,
                        _ => Conflict::NotDirectory,
                    };
                    return Err(Failure::conflict(&entry.name, conflict).into());
                }
                // There is something.
                Decision::Create => {}
            }
        }
        Err(Failure::conflict(&entry.name, Conflict::Exists).into())
    }

    /// Keeps others away that delete in a directory at the top, too.
    fn claim(&mut self, dir: &Dir) -> Result<(), End> {
        let at_top = dir.local().is_some_and(|name| name.depth() == 1);
        if self.top || !at_top || !self.options.deletes() {
            return Ok(());
        }
        let (inbox, transfer) = (&self.inbox, self.transfer);
        self.claims.top(dir, || {
            transfer.needs_way();
            inbox.is_closed()
        })
    }

    fn take_link(&mut self, entry: Entry) -> Result<(), End> {
        let (links, dotfiles) = (self.options.links, self.options.deletes_hidden());
        if let Some(reason) = links.refusal(&entry, self.top, dotfiles) {
            self.altered.add(&entry.name, reason);
            return Ok(());
        }
        let dir = self.parent()?;
        let there = dir.look(entry.name.file_name()).map(|found| found.existing);
        if there.is_ok_and(|there| there == Existing::Nothing) {
            self.takes_block()?;
        }
        send(&self.jobs, Job::Link(Box::new(Link { dir, entry })))
    }

    fn take_file(&mut self, entry: Entry) -> Result<(), End> {
        let parent = self.parent()?;
        let mut verifier = Verifier::new(&entry);
        let mut part = Part::new(parent, entry, self.options.keeps())?;
        self.takes_block()?;
        self.progress.set_current(part.entry.name.as_str());
        let expected = loop {
            match self.inbox.frame()? {
                Frame::Data(len) => {
                    let mut left = len;
                    while left > 0 {
                        let bytes = self.inbox.some(left)?;
                        left -= bytes.len();
                        let updated = verifier.update(bytes);
                        updated.map_err(|error| Failure::content(&part.entry.name, error))?;
                        part.write(bytes)?;
                        let len = bytes.len() as u64;
                        self.progress.add_bytes(len);
                        self.grew(len)?;
                    }
                }
                Frame::Message(Message::Hole(groups)) => {
                    self.begin_hole(groups)?;
                    for _ in 0..groups {
                        let len = verifier.zeros();
                        let len = len.map_err(|error| Failure::content(&part.entry.name, error))?;
                        part.hole(len);
                        self.passed_hole(len, len)?;
                    }
                }
                Frame::Message(Message::Trailer(digest)) => break digest,
                Frame::Message(Message::LeftOut(cause)) => {
                    if cause == Cause::Vanished {
                        part.discard();
                    }
                    return self.leave_out(&part.entry, cause, verifier.remaining());
                }
                Frame::Message(other) => return Err(ProtocolError::Unexpected(other.kind()).into()),
            }
        };
        let verified = verifier.verify(expected);
        let digest = verified.map_err(|error| Failure::content(&part.entry.name, error))?;
        part.restore(&self.metadata, &mut self.altered)?;
        send(&self.jobs, Job::File(Box::new(Complete { part, digest })))
    }

    /// Takes what differs from what is there.
    fn take_difference(&mut self, entry: Entry) -> Result<(), End> {
        let held = self.held.recv().map_err(|_| End::Gone)?;
        self.progress.set_current(entry.name.as_str());
        let mut file = Difference::new(held, self.parent()?, entry.clone(), self.options);
        let mut listed = true;
        let expected = loop {
            match self.inbox.frame()? {
                Frame::Message(Message::Kept(groups)) => {
                    for _ in 0..groups {
                        let Some(Item::Group(hash)) = listed.then(|| self.told()).transpose()?
                        else {
                            return Err(ProtocolError::Unexpected(Message::Kept(0).kind()).into());
                        };
                        let before = file.len();
                        let len = file.keep(hash)?;
                        self.grew(file.len() - before)?;
                        self.kept.add(Kept::part(len));
                        self.progress.leave_out(Kept::part(len));
                    }
                }
                Frame::Message(Message::Hole(groups)) => {
                    self.begin_hole(groups)?;
                    for _ in 0..groups {
                        let told = match listed && !file.is_complete() {
                            true => self.told()?,
                            false => Item::End,
                        };
                        let told = match told {
                            Item::Group(hash) => Some(hash),
                            Item::End => None,
                        };
                        listed = told.is_some();
                        let mut before = file.len();
                        let len = match told.filter(|_| file.is_unmade() && file.is_hole(told)) {
                            // The existing file may stay.
                            Some(told) => file.keep(told)?,
                            None => {
                                self.make(&mut file)?;
                                before = file.len();
                                file.hole()?
                            }
                        };
                        if told.is_some() && told == file.last_group() {
                            self.kept.add(Kept::part(len));
                        }
                        self.passed_hole(len, file.len() - before)?;
                    }
                }
                Frame::Data(len) => {
                    let mut left = len;
                    while left > 0 {
                        if listed && file.is_between_groups() {
                            listed = matches!(self.told()?, Item::Group(_));
                        }
                        self.make(&mut file)?;
                        let bytes = self.inbox.some(left.min(file.in_group() as usize))?;
                        left -= bytes.len();
                        let (len, before) = (bytes.len() as u64, file.len());
                        file.write(bytes)?;
                        self.progress.add_bytes(len);
                        self.wrote(len, file.len() - before)?;
                    }
                }
                Frame::Message(Message::Trailer(digest)) => break digest,
                Frame::Message(Message::LeftOut(cause)) => {
                    // What the sender was told of the rest is in vain.
                    let mut heard = groups(entry.size - file.remaining());
                    while listed && heard < groups(entry.size) {
                        listed = matches!(self.told()?, Item::Group(_));
                        heard += 1;
                    }
                    if cause == Cause::Vanished {
                        file.discard();
                    }
                    return self.leave_out(&entry, cause, file.remaining());
                }
                Frame::Message(other) => return Err(ProtocolError::Unexpected(other.kind()).into()),
            }
        };
        if file.is_another() {
            self.make(&mut file)?;
        }
        let job = file.end(expected, &self.metadata, &mut self.altered)?;
        send(&self.jobs, job)
    }

    /// The sender doesn't send the last bytes of a file. What came of it stays incomplete.
    fn leave_out(&mut self, entry: &Entry, cause: Cause, bytes: u64) -> Result<(), End> {
        self.left_out.add(&entry.name, cause);
        self.missing.add(Kept::whole(entry.size));
        self.progress.leave_out(Kept { files: 1, bytes });
        match entry.shared {
            true => send(&self.jobs, Job::Missing),
            false => Ok(()),
        }
    }

    /// Makes a new file, if there is none yet, of what was kept of the existing one so far. That
    /// may be long: it is in vain if the transfer is over meanwhile.
    fn make(&mut self, file: &mut Difference) -> Result<(), End> {
        if !file.is_unmade() || file.is_complete() && !file.is_another() {
            return Ok(());
        }
        file.begin()?;
        while let Some(len) = file.copy_group()? {
            self.progress.add_copied(len);
            self.grew(len)?;
            if self.inbox.is_closed() {
                return Err(End::Gone);
            }
        }
        Ok(())
    }

    /// The next that the sender was told.
    fn told(&self) -> Result<Item, End> {
        self.told.recv().map_err(|_| End::Gone)
    }

    /// A group in a hole has passed, and made the file longer. It is hashed: so it counts as
    /// content does.
    fn passed_hole(&mut self, len: u64, longer: u64) -> Result<(), Failure> {
        self.progress.leave_out(Kept::part(len));
        self.grew(longer)
    }

    /// Is a hole worth its hashing? What has come of a transfer that is over may be full of them.
    fn begin_hole(&self, groups: u64) -> Result<(), End> {
        /// So much is soon done.
        const FEW: u64 = 8;
        match groups > FEW && self.inbox.is_closed() {
            true => Err(End::Gone),
            false => Ok(()),
        }
    }

    /// An incomplete file is longer now.
    fn grew(&mut self, bytes: u64) -> Result<(), Failure> {
        self.wrote(bytes, bytes)
    }

    /// So much was written, and made an incomplete file longer by that. The rest may have been a
    /// hole, and takes room now.
    fn wrote(&mut self, bytes: u64, longer: u64) -> Result<(), Failure> {
        if let Some(reservation) = &mut self.reservation {
            reservation.used(longer)?;
        }
        match &mut self.space {
            Some(space) => space.wrote(bytes),
            None => Ok(()),
        }
    }

    /// Something new takes room on the disk, however little is in it.
    fn takes_block(&mut self) -> Result<(), Failure> {
        /// What file systems allocate at least, as a rule.
        const BLOCK: u64 = 4096;
        match &mut self.space {
            Some(space) => space.wrote(BLOCK),
            None => Ok(()),
        }
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

fn finish(jobs: &SyncSender<Job>, level: Level, complete: bool) -> Result<(), End> {
    match (level.dir, level.made) {
        (Some(_), Some(made)) if made.existed && !complete => Ok(()),
        (Some(dir), Some(mut made)) => {
            if !complete && made.marked.take().is_some() {
                // The next transfer goes on here.
                made.entry.mode |= 0o700;
            }
            send(jobs, Job::Finished(dir, made))
        }
        _ => Ok(()),
    }
}

/// A committer that doesn't take jobs any more has failed, and says why itself.
fn send(jobs: &SyncSender<Job>, job: Job) -> Result<(), End> {
    jobs.send(job).map_err(|_| End::Gone)
}
