//! A file that is read, hashed, and held to what was listed.

use super::extents::Extents;
use super::outbox::Outbox;
use super::sources::{Opened, Sources, mtime_of};
use super::stop::Stop;
use manyway_transfer::failure::Side;
use manyway_transfer::{Digest, Entry, Failure, FailureCode, GROUP, Message, Verifier, groups};
use nix::errno::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A file that is read and hashed.
pub(super) struct Reading<'a> {
    entry: &'a Entry,
    file: File,
    verifier: Verifier,
    extents: Extents,
}

impl<'a> Reading<'a> {
    pub(super) fn begin(
        sources: &Sources,
        entry: &'a Entry,
        last: &mut Opened,
    ) -> Result<Self, Failure> {
        let file = sources.open(&entry.name, last);
        let file = file.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ELOOP) => changed(entry, "a symbolic link is in its path now"),
            _ => read_failure("opening", entry, &error),
        })?;
        check_unchanged(entry, &file)?;
        Ok(Self {
            entry,
            file,
            verifier: Verifier::new(entry),
            extents: Extents::new(entry.size, entry.holes > 0),
        })
    }

    pub(super) fn remaining(&self) -> u64 {
        self.verifier.remaining()
    }

    /// How many groups from here on lie in a hole.
    pub(super) fn hole(&mut self) -> u64 {
        let at = self.verifier.seen();
        if !self.verifier.is_between_groups() {
            return 0;
        }
        match self.extents.hole_at(&self.file, at) {
            end if end == self.entry.size => groups(end - at),
            end => (end - at) / GROUP,
        }
    }

    /// Bytes before the next group that may lie in a hole.
    pub(super) fn data(&self) -> u64 {
        let at = self.verifier.seen();
        let end = self.extents.data_from(at + 1).next_multiple_of(GROUP);
        end.min(self.entry.size) - at
    }

    /// Passes over a group in a hole, and says how long it is.
    pub(super) fn pass(&mut self) -> Result<u64, Failure> {
        let passed = self.verifier.zeros();
        passed.map_err(|error| Failure::content(&self.entry.name, error))
    }

    /// Reads the next bytes.
    pub(super) fn fill(&mut self, room: &mut [u8]) -> Result<(), Failure> {
        let read = fill(&self.file, room, self.verifier.seen());
        let read = read.map_err(|error| read_failure("reading", self.entry, &error))?;
        if read < room.len() {
            check_unchanged(self.entry, &self.file)?;
            return Err(changed(self.entry, "it ended early"));
        }
        let updated = self.verifier.update(room);
        updated.map_err(|error| Failure::content(&self.entry.name, error))
    }

    /// The hash of the group that was read last.
    pub(super) fn last_group(&self) -> Option<Digest> {
        self.verifier.last_group()
    }

    /// Says the hash of it all.
    pub(super) fn end(&self, out: &mut Outbox) -> Result<Digest, Stop> {
        // Not every file system says how long a file is: `/proc` has 0 for what it makes up.
        let mut beyond = [0];
        let more = fill(&self.file, &mut beyond, self.entry.size);
        let more = more.map_err(|error| read_failure("reading", self.entry, &error))?;
        // The size and time of the listing still hold: what was read is one version of the file.
        check_unchanged(self.entry, &self.file)?;
        if more > 0 {
            return Err(longer(self.entry).into());
        }
        let digest = self.verifier.digest();
        let digest = digest.map_err(|error| Failure::content(&self.entry.name, error))?;
        out.message(&Message::Trailer(digest))?;
        Ok(digest)
    }
}

/// Reads from `at` until `room` is full or the file ends.
fn fill(file: &File, room: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match file.read_at(&mut room[filled..], at + filled as u64) {
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
    let size = metadata.len();
    if size < entry.size {
        Err(changed(
            entry,
            format_args!("it shrank from {} to {size} bytes", entry.size),
        ))
    } else if size > entry.size {
        Err(changed(
            entry,
            format_args!("it grew from {} to {size} bytes", entry.size),
        ))
    } else if mtime_of(&metadata) != entry.mtime {
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

fn longer(entry: &Entry) -> Failure {
    let reason = format_args!(
        "has more content than the {} bytes that its file system says; send a copy of it",
        entry.size
    );
    Failure::new(FailureCode::Changed, reason).of(&entry.name)
}

fn read_failure(doing: &str, entry: &Entry, error: &io::Error) -> Failure {
    Failure::disk(Side::Sender, doing, &entry.name, error)
}
