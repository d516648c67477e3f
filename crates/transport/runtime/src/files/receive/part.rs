//! A file while it is received: it has a temporary name until it is complete. If the transfer ends
//! before, it stays, for another transfer to go on with.

use super::super::summary::Skipped;
use super::disk::{Found, Id, Lock, OWNERS, lock, mtime};
use super::end::{End, write_failure};
use super::metadata::Metadata;
use super::room::Room;
use super::temporary::{left_name, random_name};
use super::tree::Dir;
use manyway_transfer::{
    Conflict, Decision, Digest, Entry, Failure, GROUP, Policy, SafeName, ZEROS, decide, numbered,
};
use manyway_units::printable;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fchmod, fstat, futimens};
use nix::sys::time::TimeSpec;
use nix::unistd::geteuid;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Most names tried for one entry.
pub(super) const MOST_NUMBERS: u32 = 10_000;

/// A file being received, in its final directory.
#[derive(Debug)]
pub(super) struct Part {
    dir: Arc<Dir>,
    /// Its present name; `None` once it has its final one.
    temporary: Option<String>,
    file: File,
    /// Where the next bytes go.
    at: u64,
    /// How long it is, with a hole at its end.
    len: u64,
    /// How long it is without.
    end: u64,
    /// Where a hole begins that ends at `at`, and what was there is to go.
    punching: Option<u64>,
    /// May it stay if the transfer ends early?
    keep: bool,
    pub(super) entry: Entry,
}

impl Part {
    /// A new, empty file beside where `entry` is to be, readable by nobody else.
    pub(super) fn new(dir: Arc<Dir>, entry: Entry, mut keep: bool) -> Result<Self, Failure> {
        let failure = |error| write_failure("creating", &entry.name, error);
        // Without `keep`, what an interrupted transfer has left is still another's to resume.
        let mut temporary = match keep {
            true => left_name(entry.name.file_name()),
            false => random_name(entry.name.file_name()),
        };
        if keep && let Left::File(_) = reopen(&dir, &temporary).map_err(failure)? {
            dir.disk()
                .remove(dir.as_fd(), &temporary)
                .map_err(failure)?;
        }
        let file = loop {
            match dir.disk().create(dir.as_fd(), &temporary) {
                Ok(file) => break file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // Another transfer is at work on the same. None looks for it there.
                    temporary = random_name(entry.name.file_name());
                    keep = false;
                }
                Err(error) => return Err(failure(error)),
            }
        };
        Ok(Self {
            dir,
            temporary: Some(temporary),
            file,
            at: 0,
            len: 0,
            end: 0,
            punching: None,
            keep,
            entry,
        })
    }

    /// What an interrupted transfer has left of a file, of which the caller has got hold.
    pub(super) fn left(dir: Arc<Dir>, entry: Entry, file: File, keep: bool) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self {
            temporary: Some(left_name(entry.name.file_name())),
            at: 0,
            len,
            end: len,
            punching: None,
            keep,
            dir,
            file,
            entry,
        })
    }

    /// Which file it is.
    pub(super) fn id(&self) -> Result<Id, Failure> {
        let stat =
            fstat(&self.file).map_err(|error| self.failure("looking it up", error.into()))?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// The file, for reading.
    pub(super) fn reader(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Writes the next bytes; if the file has holes, without those blocks that are zeros.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        if self.entry.holes == 0 {
            return self.put(bytes);
        }
        while !bytes.is_empty() {
            let (len, zeros) = run(bytes, self.at);
            let (now, later) = bytes.split_at(len);
            match zeros {
                true => self.hole(len as u64),
                false => self.put(now)?,
            }
            bytes = later;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.punch()?;
        let written = self.dir.disk().write(&self.file, bytes, self.at);
        written.map_err(|error| self.failure("writing", error))?;
        self.skip(bytes.len() as u64)?;
        self.end = self.end.max(self.at);
        Ok(())
    }

    /// The next bytes are zeros, and take no room on the disk.
    pub(super) fn hole(&mut self, bytes: u64) {
        if self.at < self.end {
            self.punching.get_or_insert(self.at);
        }
        self.at += bytes;
        self.len = self.len.max(self.at);
    }

    /// Makes a hole of what was there, in one piece: file systems leave less of it then.
    fn punch(&mut self) -> Result<(), Failure> {
        let Some(from) = self.punching.take() else {
            return Ok(());
        };
        let len = self.at.min(self.end) - from;
        let punched = self.dir.disk().punch(&self.file, from, len);
        punched.map_err(|error| self.failure("writing", error))
    }

    /// The next bytes are there.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), Failure> {
        self.punch()?;
        self.at += bytes;
        self.len = self.len.max(self.at);
        Ok(())
    }

    /// How long it is.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Gives the complete file its length, mode, time and more, and notes what isn't possible.
    pub(super) fn restore(
        &mut self,
        metadata: &Metadata,
        altered: &mut Skipped,
    ) -> Result<(), Failure> {
        self.punch()?;
        if self.end != self.at {
            let cut = self.dir.disk().set_len(&self.file, self.at);
            cut.map_err(|error| self.failure("setting its length", error))?;
            (self.len, self.end) = (self.at, self.at);
        }
        let (disk, file) = (self.dir.disk(), self.file.as_fd());
        let restored = metadata.restore(disk, file, &self.entry, altered);
        restored.map_err(|error| self.failure("setting mode and time", error))
    }

    /// Brings the content to disk.
    pub(super) fn sync(&self) -> Result<(), Failure> {
        let synced = self.dir.disk().sync_file(&self.file);
        synced.map_err(|error| self.failure("syncing", error))
    }

    /// It doesn't stay if the transfer ends early.
    pub(super) fn discard(&mut self) {
        self.keep = false;
    }

    /// Gives the file its final name, and says which.
    pub(super) fn place(&mut self, room: &mut Room<'_>) -> Result<SafeName, End> {
        let Some(temporary) = self.temporary.clone() else {
            return Ok(self.local_name(self.entry.name.file_name())?);
        };
        // A transfer that was thought dead may have placed it meanwhile.
        let is_same = |name: &str| {
            // The file system may have cut the time of both.
            let time = fstat(&self.file).ok().as_ref().map(mtime);
            self.dir.look(name).is_ok_and(|found| {
                found.size() == Some(self.entry.size) && found.stat().map(mtime) == time
            })
        };
        match take_name(&self.dir, &self.entry, &temporary, room, is_same)? {
            Named::As(name) => {
                self.temporary = None;
                Ok(self.local_name(&name)?)
            }
            Named::Same => {
                self.keep = false;
                Ok(self.local_name(self.entry.name.file_name())?)
            }
        }
    }

    pub(super) fn dir(&self) -> &Arc<Dir> {
        &self.dir
    }

    fn local_name(&self, name: &str) -> Result<SafeName, Failure> {
        self.dir
            .local_name(name)
            .map_err(|error| self.failure("naming", error))
    }

    fn failure(&self, doing: &str, error: io::Error) -> Failure {
        write_failure(doing, &self.entry.name, error)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let Some(temporary) = self.temporary.take() else {
            return;
        };
        // What has no whole group spares nobody anything.
        if self.keep && self.end >= GROUP {
            return;
        }
        if let Err(error) = self.dir.disk().remove(self.dir.as_fd(), &temporary) {
            let file = printable(&temporary, SafeName::MAX_LEN);
            tracing::warn!(%file, %error, "can't remove an incomplete file");
        }
    }
}

/// How many of the first bytes, which go to `at`, are in blocks of zeros, or in others; and which.
fn run(bytes: &[u8], at: u64) -> (usize, bool) {
    /// What file systems allocate at least, as a rule.
    const BLOCK: usize = 4096;
    let is_zero = |block: &[u8]| *block == ZEROS[..block.len()];
    let first = bytes.len().min(BLOCK - (at % BLOCK as u64) as usize);
    let (first, others) = bytes.split_at(first);
    let zeros = is_zero(first);
    let alike = others.chunks(BLOCK);
    let alike = alike.take_while(|block| is_zero(block) == zeros);
    (first.len() + alike.map(<[u8]>::len).sum::<usize>(), zeros)
}

/// What [`take_name`] did.
pub(super) enum Named {
    /// It has this name now.
    As(String),
    /// The same is there already; it has its temporary name still.
    Same,
}

/// Gives what has a temporary name that of its entry, or the next free one. A directory that is to
/// be replaced goes only now: whatever ends a transfer before, it is still there.
pub(super) fn take_name(
    dir: &Arc<Dir>,
    entry: &Entry,
    temporary: &str,
    room: &mut Room<'_>,
    is_same: impl Fn(&str) -> bool,
) -> Result<Named, End> {
    let policy = room.policy;
    let failure = |error| write_failure("naming", &entry.name, error);
    let replace = policy == Policy::Overwrite;
    let wanted = entry.name.file_name();
    let mut name = wanted.to_owned();
    for n in 1..=MOST_NUMBERS {
        match dir.disk().rename(dir.as_fd(), temporary, &name, replace) {
            Ok(()) => return Ok(Named::As(name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failure(error).into()),
        }
        let found = dir.look(&name).map_err(failure)?;
        match decide(policy, &entry.kind, found.existing) {
            Decision::Rename => name = numbered(wanted, n),
            Decision::Refuse(Conflict::Exists) if is_same(&name) => return Ok(Named::Same),
            Decision::Refuse(Conflict::IsDirectory) => {
                if let Some(conflict) = room.make(dir, &name, &found)? {
                    return Err(Failure::conflict(&entry.name, conflict).into());
                }
            }
            Decision::Refuse(conflict) => {
                return Err(Failure::conflict(&entry.name, conflict).into());
            }
            // It is gone again.
            Decision::Create | Decision::Replace | Decision::Merge => {}
        }
    }
    Err(Failure::conflict(&entry.name, Conflict::Exists).into())
}

/// A complete file with its hash.
#[derive(Debug)]
pub(super) struct Complete {
    pub(super) part: Part,
    pub(super) digest: Digest,
}

/// Notes that a directory is being made, and isn't complete: it has no mode and time of its own
/// yet. `false`: there is something else of the marker's name.
pub(super) fn mark(dir: &Dir, name: &str) -> io::Result<bool> {
    match dir.disk().create(dir.as_fd(), &left_name(name)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => is_marked(dir, name),
        Err(error) => Err(error),
    }
}

/// Has an interrupted transfer made that directory?
pub(super) fn is_marked(dir: &Dir, name: &str) -> io::Result<bool> {
    let found = dir.look(&left_name(name))?;
    Ok(dir.is_ours(&found, false) && found.size() == Some(0))
}

/// The directory is complete.
pub(super) fn unmark(dir: &Dir, name: &str) -> io::Result<()> {
    match dir.disk().remove(dir.as_fd(), &left_name(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What an interrupted transfer has left under a name.
pub(super) enum Left {
    /// An incomplete file, ours alone now.
    File(File),
    /// An incomplete file that somebody is at work on.
    Busy(File),
    /// Nothing of ours.
    Nothing,
}

/// Opens an incomplete file that is left, to go on with it.
///
/// It is closed to others again: one that was complete may have its final mode.
pub(super) fn reopen(dir: &Dir, name: &str) -> io::Result<Left> {
    let open = |access| {
        let flags = access | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        openat(dir, name, flags, Mode::empty()).map(File::from)
    };
    // A link, a directory, or somebody else's: it stays.
    let (file, writable) = match open(OFlag::O_RDWR) {
        Err(Errno::EACCES) => (open(OFlag::O_RDONLY), false),
        other => (other, true),
    };
    let Ok(mut file) = file else {
        return Ok(Left::Nothing);
    };
    let stat = fstat(&file)?;
    if !dir.is_ours(&Found::of(stat), false) {
        return Ok(Left::Nothing);
    }
    let mut locked = lock(&file, dir, name)?;
    if locked == Lock::Ours && stat.st_mode & 0o7777 != OWNERS {
        let closed = fchmod(&file, Mode::from_bits_truncate(OWNERS));
        // What the file system gives to somebody else has the mode that it gives, too.
        if stat.st_uid == geteuid().as_raw() {
            closed?;
        }
    }
    if locked == Lock::Ours && !writable {
        drop(file);
        file = open(OFlag::O_RDWR)?;
        locked = lock(&file, dir, name)?;
    }
    Ok(match locked {
        Lock::Ours => Left::File(file),
        Lock::Busy => Left::Busy(file),
        Lock::Gone | Lock::Unknown => Left::Nothing,
    })
}

/// What is left of a file, if going on with it spares something.
pub(super) fn worthwhile(dir: &Dir, entry: &Entry, only_look: bool) -> io::Result<Option<u64>> {
    if entry.size < GROUP {
        return Ok(None);
    }
    let found = dir.look(&left_name(entry.name.file_name()))?;
    Ok(found
        .size()
        .filter(|&size| dir.is_ours(&found, only_look) && size >= GROUP))
}

/// A transfer needs what is left of a file: its status changes now, so that nobody takes it for
/// old, whatever the clock said before.
pub(super) fn renew(dir: &Dir, entry: &Entry) -> io::Result<()> {
    match reopen(dir, &left_name(entry.name.file_name()))? {
        Left::File(file) => touch(&file),
        // Somebody else is at work on it.
        Left::Busy(_) | Left::Nothing => Ok(()),
    }
}

/// Sets the time of an incomplete file's last change of status: to now, whatever that is. Whoever
/// may write to it can change its times, but not its mode.
pub(super) fn touch(file: &File) -> io::Result<()> {
    Ok(futimens(file, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_at_blocks() {
        let mut bytes = vec![0; 5 * 4096];
        bytes[2 * 4096] = 1;
        bytes[3 * 4096 - 1] = 1;
        assert_eq!(run(&bytes, 0), (2 * 4096, true));
        assert_eq!(run(&bytes[2 * 4096..], 2 * 4096), (4096, false));
        assert_eq!(run(&bytes[3 * 4096..], 3 * 4096), (2 * 4096, true));
        // What comes in the middle of a block.
        assert_eq!(run(&bytes[100..], 100), (2 * 4096 - 100, true));
        assert_eq!(run(&bytes[4000..], 8000), (192, true));
        assert_eq!(run(&[0; 10], 4095), (10, true));
        assert_eq!(run(&[1, 0], 4095), (1, false));
    }
}
