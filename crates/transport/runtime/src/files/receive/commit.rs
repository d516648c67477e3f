//! Syncs complete files and gives them their final names, in a thread beside the one that writes.
//!
//! It syncs files, names them, syncs their directories, and only then reports them. It takes all
//! jobs that have queued up as one batch and syncs them in parallel: a file system's journal then
//! commits once for many files.

use super::super::progress::Progress;
use super::super::summary::{FileSummary, Listed, Skipped};
use super::arrived::Arrived;
use super::delete::Told;
use super::disk::Id;
use super::end::{End, sync_failure, write_failure};
use super::link::Link;
use super::metadata::Metadata;
use super::outgoing::Outgoing;
use super::part::{Complete, unmark};
use super::room::Room;
use super::shared::Shared;
use super::tree::{Dir, Made};
use manyway_transfer::message::Batch;
use manyway_transfer::{
    Conflict, Digest, Entry, Failure, Kind, Message, Policy, Renamed, SafeName, Saved,
};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Receiver;
use std::thread::Builder;
use tokio::sync::mpsc;

/// Most jobs in a batch, and so most files waiting open; the queue holds as many again.
pub(super) const BATCH: usize = 64;
const NO_LINK: &str = "a hard link, which isn't possible here; receive into another file system";
const NO_FILE: &str = "a hard link to a file that isn't here";
/// Threads that sync a batch.
const SYNCERS: usize = 8;

/// What there is to do, in the manifest's order.
#[derive(Debug)]
pub(super) enum Job {
    /// A complete, verified file.
    File(Box<Complete>),
    /// There are names in this directory that may not be on disk.
    Named(Arc<Dir>),
    /// No more comes into a directory we made: give it its mode and time.
    Finished(Arc<Dir>, Made),
    /// A file of the same content was there.
    Same(Box<Same>),
    /// A symbolic or a hard link.
    Link(Box<Link>),
    /// A file that was there, as its size and time say.
    There(Box<There>),
    /// A file that may have further names, and wasn't sent.
    Missing,
}

/// A file that was there with the content that was sent.
#[derive(Debug)]
pub(super) struct Same {
    pub(super) file: File,
    pub(super) dir: Arc<Dir>,
    pub(super) entry: Entry,
    pub(super) digest: Digest,
}

/// A file that was there, as its size and time say.
#[derive(Debug)]
pub(super) struct There {
    pub(super) dir: Arc<Dir>,
    pub(super) entry: Entry,
}

/// What has become of everything.
pub(super) struct Committed {
    pub(super) files: Vec<FileSummary>,
    pub(super) altered: Skipped,
    pub(super) told: Told,
}

/// The committer's parts.
pub(super) struct Committer<'a> {
    pub(super) root: Arc<Dir>,
    pub(super) metadata: Arc<Metadata>,
    /// Files that hard links may lead to.
    pub(super) shared: Shared,
    /// What can't be as it is at the sender.
    pub(super) altered: Skipped,
    pub(super) arrived: Arrived,
    /// For what takes a name.
    pub(super) room: Room<'a>,
    pub(super) out: mpsc::Sender<Outgoing>,
    pub(super) progress: Arc<Progress>,
    pub(super) files: Vec<FileSummary>,
    pub(super) listed: Listed,
    /// Files placed.
    pub(super) placed: u64,
}

impl Committer<'_> {
    /// Works until there are no more jobs, or one fails; the async side is then told to stop.
    pub(super) fn run(mut self, jobs: Receiver<Job>) -> Result<Committed, End> {
        let mut batch = Vec::new();
        while let Ok(job) = jobs.recv() {
            batch.push(job);
            batch.extend(jobs.try_iter().take(BATCH - 1));
            if let Err(end) = self.commit(&mut batch) {
                self.room.told.end(&self.out);
                // If nobody listens any more, there is nothing to stop.
                let _ = self.out.blocking_send(Outgoing::Stop);
                return Err(end);
            }
        }
        Ok(Committed {
            files: self.files,
            altered: self.altered,
            told: self.room.told,
        })
    }

    fn commit(&mut self, batch: &mut Vec<Job>) -> Result<(), End> {
        let files = batch.iter().filter_map(|job| match job {
            Job::File(file) => Some(&file.part),
            _ => None,
        });
        let synced = in_parallel(&files.collect::<Vec<_>>(), |part| part.sync());
        if let Err(failure) = synced {
            // From memory, the content would look right to the next transfer.
            for job in batch {
                if let Job::File(file) = job {
                    file.part.discard();
                }
            }
            return Err(failure.into());
        }

        let mut touched: Vec<Arc<Dir>> = Vec::new();
        let mut touch = |dir: &Arc<Dir>| {
            if !touched.iter().any(|other| Arc::ptr_eq(other, dir)) {
                touched.push(dir.clone());
            }
        };
        let mut report = Report::default();
        for job in batch.iter_mut() {
            match job {
                Job::File(file) => {
                    self.place(file, &mut report)?;
                    touch(file.part.dir());
                }
                Job::Named(dir) => touch(dir),
                Job::Finished(dir, Made { entry, existed, .. }) if *existed => {
                    let updated = self.metadata.update_dir(dir, entry, &mut self.altered);
                    updated.map_err(|error| metadata_failure(entry, error))?;
                    touch(dir);
                }
                Job::Finished(dir, Made { entry, marked, .. }) => {
                    let (disk, fd) = (dir.disk(), dir.as_fd());
                    let restored = self.metadata.restore(disk, fd, entry, &mut self.altered);
                    let restored = restored.and_then(|()| match marked {
                        Some(parent) => {
                            touch(parent);
                            unmark(parent, entry.name.file_name())
                        }
                        None => Ok(()),
                    });
                    restored.map_err(|error| metadata_failure(entry, error))?;
                    touch(dir);
                }
                Job::Same(same) => self.adopt(same)?,
                Job::Link(link) => {
                    self.place_link(link)?;
                    touch(&link.dir);
                }
                Job::There(there) => self.meet(there)?,
                Job::Missing => {
                    let added = self.shared.add(None);
                    added.map_err(|error| sync_failure(&self.root, &error))?;
                }
            }
        }
        in_parallel(&touched, |dir| {
            dir.sync().map_err(|error| sync_failure(dir, &error))
        })?;
        batch.clear();
        self.report(report);
        Ok(())
    }

    fn place(&mut self, file: &mut Complete, report: &mut Report) -> Result<(), End> {
        let dir = file.part.dir().clone();
        self.check_name(&dir, &file.part.entry, None)?;
        let name = file.part.place(&mut self.room)?;
        self.arrived.add(&dir, file.part.id()?);
        if name != file.part.entry.name {
            report.add(Renamed {
                file: self.placed,
                name: name.clone(),
            });
        }
        if file.part.entry.shared {
            self.share(file.part.dir(), name.file_name(), &file.part.entry)?;
        }
        self.note(&name, file.part.entry.size, file.digest);
        Ok(())
    }

    /// Nothing of this transfer has the name already, other than the file it is to be a link to.
    fn check_name(
        &mut self,
        dir: &Arc<Dir>,
        entry: &Entry,
        link_to: Option<Id>,
    ) -> Result<(), Failure> {
        let found = dir.look(entry.name.file_name());
        let found = found.map_err(|error| write_failure("looking it up", &entry.name, error))?;
        let other = found.any_id().filter(|id| Some(*id) != link_to);
        match self.room.policy != Policy::Rename && self.arrived.has(dir, other) {
            true => Err(Failure::conflict(&entry.name, Conflict::Alias)),
            false => Ok(()),
        }
    }

    /// The file that was there gets the time and mode of what was sent, if it may be overwritten.
    fn adopt(&mut self, same: &Same) -> Result<(), Failure> {
        let Same {
            file,
            dir,
            entry,
            digest,
        } = same;
        if self.room.policy == Policy::Overwrite {
            let (disk, fd) = (dir.disk(), file.as_fd());
            let restored = self.metadata.restore(disk, fd, entry, &mut self.altered);
            let synced = restored.and_then(|()| dir.disk().sync_file(file));
            synced.map_err(|error| metadata_failure(entry, error))?;
        }
        if entry.shared {
            self.share(dir, entry.name.file_name(), entry)?;
        }
        self.note(&entry.name, entry.size, *digest);
        Ok(())
    }

    /// A file was there: brings its metadata up to date.
    fn meet(&mut self, there: &There) -> Result<(), Failure> {
        let There { dir, entry } = there;
        if entry.shared {
            self.share(dir, entry.name.file_name(), entry)?;
        }
        if self.metadata.updates() {
            let updated = self.metadata.update_file(dir, entry, &mut self.altered);
            updated.map_err(|error| metadata_failure(entry, error))?;
        }
        Ok(())
    }

    /// Notes where a file is that may have further names.
    fn share(&mut self, dir: &Dir, name: &str, entry: &Entry) -> Result<(), Failure> {
        let found = dir.look(name).and_then(|found| {
            let local = dir.local_name(name)?;
            self.shared.add(found.id().map(|id| (&local, id)))
        });
        found.map_err(|error| write_failure("noting its place", &entry.name, error))
    }

    fn place_link(&mut self, link: &Link) -> Result<(), End> {
        match &link.entry.kind {
            Kind::Symlink(target) => {
                self.check_name(&link.dir, &link.entry, None)?;
                let (metadata, altered) = (&self.metadata, &mut self.altered);
                let made = link.place_symlink(target, &mut self.room, metadata, altered)?;
                if let Some(id) = made {
                    self.arrived.add(&link.dir, id);
                }
                Ok(())
            }
            Kind::HardLink(number) => {
                let problem = match self.shared.find(&self.root, *number) {
                    Ok(Some(file)) => {
                        self.check_name(&link.dir, &link.entry, Some(file.2))?;
                        let placed = link.place_hard_link(file, &mut self.room)?;
                        (!placed).then_some(NO_LINK)
                    }
                    Ok(None) => Some(NO_FILE),
                    Err(_) => Some(NO_LINK),
                };
                if let Some(problem) = problem {
                    self.altered.add(&link.entry.name, problem);
                }
                Ok(())
            }
            Kind::File | Kind::Directory | Kind::LeftOut(_) => Ok(()),
        }
    }

    fn note(&mut self, name: &SafeName, size: u64, digest: Digest) {
        self.placed += 1;
        if self.listed.takes(name) {
            self.files.push(FileSummary::new(name, size, digest));
        }
    }

    /// Tells the sender, unless it is gone, which will show elsewhere.
    fn report(&mut self, report: Report) {
        let files = self.placed;
        if files > self.progress.files_done() {
            self.progress.set_files_done(files);
            for saved in report.messages(files) {
                let _ = self
                    .out
                    .blocking_send(Outgoing::Frame(Message::Saved(saved).to_bytes()));
            }
        }
    }
}

/// Renamed files, in messages that are not too long.
#[derive(Default)]
struct Report {
    full: Vec<Saved>,
    renamed: Vec<Renamed>,
    batch: Batch,
}

impl Report {
    fn add(&mut self, renamed: Renamed) {
        let len = renamed.name.as_str().len();
        if !self.batch.add(len) {
            self.batch = Batch::default();
            self.batch.add(len);
            self.full.push(Saved {
                files: renamed.file,
                renamed: std::mem::take(&mut self.renamed),
            });
        }
        self.renamed.push(renamed);
    }

    fn messages(mut self, files: u64) -> Vec<Saved> {
        self.full.push(Saved {
            files,
            renamed: self.renamed,
        });
        self.full
    }
}

/// Does it to all, by several threads if there are several; the first failure counts.
fn in_parallel<T: Sync>(
    items: &[T],
    work: impl Fn(&T) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    if let [only] = items {
        return work(only);
    }
    let next = AtomicUsize::new(0);
    let worker = || -> Result<(), Failure> {
        while let Some(item) = items.get(next.fetch_add(1, Relaxed)) {
            work(item)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..items.len().min(SYNCERS))
            // If the system has no thread left, the others do its part.
            .filter_map(|_| Builder::new().spawn_scoped(scope, worker).ok())
            .collect();
        threads.into_iter().fold(worker(), |result, thread| {
            result.and(
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            )
        })
    })
}

fn metadata_failure(entry: &Entry, error: io::Error) -> Failure {
    write_failure("setting mode and time", &entry.name, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use manyway_transfer::FailureCode;

    #[test]
    fn parallel_work_reaches_all_and_reports_a_failure() {
        for n in [0, 1, 2, 7, 8, 9, 100] {
            let items: Vec<AtomicUsize> = (0..n).map(AtomicUsize::new).collect();
            let add = |item: &AtomicUsize| {
                item.fetch_add(1000, Relaxed);
                Ok(())
            };
            in_parallel(&items, add).unwrap();
            assert!(
                items
                    .iter()
                    .enumerate()
                    .all(|(i, item)| item.load(Relaxed) == 1000 + i)
            );
        }
        let failed = in_parallel(&[1, 2, 3], |n| match n {
            3 => Err(Failure::new(FailureCode::Write, "three")),
            _ => Ok(()),
        });
        assert_eq!(failed.unwrap_err().reason, "three");
    }

    #[test]
    fn long_reports_are_split_and_ascend() {
        let long = SafeName::parse(&["n"; 16].map(|n| n.repeat(255)).join("/")).unwrap();
        let mut report = Report::default();
        for file in 0..64 {
            report.add(Renamed {
                file,
                name: long.clone(),
            });
        }
        let messages = report.messages(64);
        assert!(messages.len() > 3 && messages.is_sorted_by(|a, b| a.files < b.files));
        let mut next = 0;
        for saved in messages {
            for renamed in &saved.renamed {
                assert!(renamed.file == next && renamed.file < saved.files);
                next += 1;
            }
            Message::Saved(saved).to_bytes();
        }
        assert_eq!(next, 64);
    }
}
