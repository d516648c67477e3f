//! Tells the sender what there is of files, in a thread beside the one that writes.
//!
//! It goes through the files of which the difference is wanted, and hashes them group by group. It
//! may be [`BASIS_WINDOW`] groups ahead of what the sender has answered: the queue between it and
//! the thread that takes the answers has room for so many.

use super::outgoing::Outgoing;
use super::part::{Left, Part, reopen};
use super::temporary::left_name;
use super::transfers::Transfer;
use super::tree::{Dir, Level, Tree};
use crate::files::spool::Stored;
use manyway_transfer::message::BASIS_WINDOW;
use manyway_transfer::{
    Digest, Entry, GROUP, Kind, Message, Policy, Want, Wants, group_hash, groups,
};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Hashes in a message.
const FRAME: usize = 256;
/// Files that may be open before the sender has come to them, each with what is left of it.
const OPEN: usize = 32;
/// How long a transfer of another process may hold an incomplete file without writing to it: a lost
/// connection is noticed after 30 s.
pub(super) const PATIENCE: Duration = Duration::from_secs(35);
/// After so long, who still writes is alive.
const LOOK: Duration = Duration::from_secs(2);

/// What there is of a file.
pub(super) enum Item {
    /// The hash of its next group. The sender was told.
    Group(Digest),
    /// It has no more groups, though the sender has. The sender was told.
    End,
}

/// What there is of a file: one of the two, both, or nothing after all.
#[derive(Default)]
pub(super) struct Held {
    /// What an interrupted transfer has left.
    pub(super) part: Option<Part>,
    /// How many groups, from the first one on, are those of the part. The others are those of the
    /// existing file.
    pub(super) in_part: u64,
    /// A file of the same name.
    pub(super) existing: Option<File>,
    /// Of that file, before any of it was told.
    pub(super) version: Option<Version>,
}

/// When content and anything else of a file changed last, in seconds and nanoseconds.
pub(super) type Version = [i64; 4];

pub(super) fn version(file: &File) -> Option<Version> {
    let of = file.metadata().ok()?;
    Some([of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec()])
}

/// The queue of files, in the manifest's order.
pub(super) fn files() -> (SyncSender<Held>, Receiver<Held>) {
    sync_channel(OPEN)
}

/// The queue of what is in them.
pub(super) fn items() -> (SyncSender<Item>, Receiver<Item>) {
    sync_channel(BASIS_WINDOW)
}

/// The thread's parts.
pub(super) struct Basis<'a> {
    pub(super) wants: &'a Wants,
    pub(super) files: SyncSender<Held>,
    pub(super) items: SyncSender<Item>,
    pub(super) out: mpsc::Sender<Outgoing>,
    /// A file that is there may stand in the way.
    pub(super) policy: Policy,
    /// May incomplete files stay?
    pub(super) keep: bool,
    /// Nobody is interested any more.
    pub(super) over: &'a AtomicBool,
    /// Hashes that are queued, and that the sender doesn't know yet.
    pub(super) told: Vec<Digest>,
    pub(super) transfer: &'a Transfer,
}

/// Nobody is interested any more.
struct Over;

impl Basis<'_> {
    /// Goes through the manifest, and ends early without a word if nobody is interested.
    pub(super) fn run(mut self, root: Arc<Dir>, manifest: &Stored) {
        let mut tree = Tree::new(root);
        // Who writes reads the same list, and reports what is wrong with it.
        for (entry, number) in manifest.entries().map_while(Result::ok).zip(0..) {
            tree.leave_for(&entry.name).for_each(drop);
            match entry.kind {
                Kind::Symlink(_) | Kind::HardLink(_) | Kind::LeftOut(_) => {}
                Kind::Directory => {
                    let parent = tree.innermost();
                    let dir = parent.and_then(|dir| dir.open(entry.name.file_name()).ok());
                    tree.enter(Level { dir, made: None });
                }
                Kind::File => {
                    if self.wants.get(number) == Want::Difference
                        && self.tell(&entry, tree.innermost()).is_err()
                    {
                        return;
                    }
                }
            }
        }
    }

    fn tell(&mut self, entry: &Entry, dir: Option<&Arc<Dir>>) -> Result<(), Over> {
        let held = dir.map(|dir| self.hold(entry, dir)).unwrap_or_default();
        let part = held.part.as_ref().and_then(|part| part.reader().ok());
        let existing = held.existing.as_ref();
        let existing = existing.and_then(|file| file.try_clone().ok());
        let in_part = held.in_part;
        self.put(|basis| &basis.files, held)?;
        let all = groups(entry.size);
        let mut buffer = vec![0; GROUP as usize];
        let mut told = 0;
        while told < all
            && let Some(file) = if told < in_part { &part } else { &existing }
        {
            let at = told * GROUP;
            let group = &mut buffer[..(entry.size - at).min(GROUP) as usize];
            if file.read_exact_at(group, at).is_err() {
                break;
            }
            let hash = group_hash(entry.size, told, group);
            self.put(|basis| &basis.items, Item::Group(hash))?;
            self.told.push(hash);
            if self.told.len() == FRAME {
                self.flush()?;
            }
            told += 1;
        }
        self.flush()?;
        if told < all {
            self.put(|basis| &basis.items, Item::End)?;
            self.say(Message::Basis(Vec::new()))?;
        }
        Ok(())
    }

    /// Gets hold of what there is.
    fn hold(&self, entry: &Entry, dir: &Arc<Dir>) -> Held {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(dir.as_fd(), entry.name.file_name(), flags, Mode::empty());
        let is_file = |file: &File| file.metadata().is_ok_and(|metadata| metadata.is_file());
        let existing = file.ok().map(File::from).filter(is_file);
        // What can't be replaced has to be what is sent.
        let left = match (&existing, self.policy) {
            (Some(_), Policy::Refuse) => None,
            _ => self.left(entry, dir),
        };
        let part =
            left.and_then(|file| Part::left(dir.clone(), entry.clone(), file, self.keep).ok());
        let in_part = part
            .as_ref()
            .map_or(0, |part| groups_in(part.len(), entry.size));
        let is_basis = |file: &File| {
            let len = file.metadata().map_or(0, |metadata| metadata.len());
            groups_in(len, entry.size) > 0
        };
        Held {
            version: existing.as_ref().and_then(version),
            // Beside a part, a file without a whole group gives nothing: its mode doesn't count.
            existing: existing.filter(|file| part.is_none() || is_basis(file)),
            part,
            in_part,
        }
    }

    /// What an interrupted transfer has left. Its connection may be lost without its knowledge: if
    /// it doesn't write, its end is awaited.
    fn left(&self, entry: &Entry, dir: &Arc<Dir>) -> Option<File> {
        let name = left_name(entry.name.file_name());
        let begun = Instant::now();
        let mut last = None;
        while !self.over.load(Relaxed) && !self.out.is_closed() {
            let file = match reopen(dir, &name).ok()? {
                Left::File(file) => return Some(file),
                Left::Nothing => return None,
                Left::Busy(file) => file,
            };
            let modified = file
                .metadata()
                .and_then(|metadata| metadata.modified())
                .ok()?;
            let now = Instant::now();
            let (_, since) = *last.insert(
                last.filter(|&(before, _)| before == modified)
                    .unwrap_or((modified, now)),
            );
            // What was on its way when the connection was lost is still written.
            let writes = now >= begun + LOOK && now < since + LOOK / 2;
            if writes || now >= begun + PATIENCE {
                return None;
            }
            self.transfer.needs_way();
            std::thread::sleep(Duration::from_millis(50));
        }
        None
    }

    fn put<T>(&mut self, queue: impl Fn(&Self) -> &SyncSender<T>, item: T) -> Result<(), Over> {
        match queue(self).try_send(item) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(item)) => {
                // The sender can only answer what it knows.
                self.flush()?;
                queue(self).send(item).map_err(|_| Over)
            }
            Err(TrySendError::Disconnected(_)) => Err(Over),
        }
    }

    fn flush(&mut self) -> Result<(), Over> {
        match std::mem::take(&mut self.told) {
            told if told.is_empty() => Ok(()),
            told => self.say(Message::Basis(told)),
        }
    }

    fn say(&self, message: Message) -> Result<(), Over> {
        let mut frame = Outgoing::Frame(message.to_bytes());
        loop {
            frame = match self.out.try_send(frame) {
                Err(mpsc::error::TrySendError::Full(frame)) if !self.over.load(Relaxed) => frame,
                sent => return sent.map_err(|_| Over),
            };
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// How many groups of a file of `size` bytes its first `len` bytes hold.
fn groups_in(len: u64, size: u64) -> u64 {
    if len < size {
        len / GROUP
    } else {
        groups(size)
    }
}
