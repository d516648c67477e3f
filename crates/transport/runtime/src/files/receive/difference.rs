//! A file of which there is something already, while the rest is received.

use super::super::summary::Skipped;
use super::basis::{Held, Version, version};
use super::commit::{Job, Same};
use super::end::write_failure;
use super::metadata::Metadata;
use super::options::ReceiveOptions;
use super::part::{Complete, Part};
use super::tree::Dir;
use manyway_transfer::{
    Conflict, Digest, Entry, Failure, FailureCode, GROUP, Policy, Verifier, VerifyError, ZEROS,
    group_hash,
};
use nix::unistd::geteuid;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

/// By the group, and by others.
const READ_BY_OTHERS: u16 = 0o044;

const CLOSED: &str = "other users still can't read it, because part of it was here already \
                      (`--perms` lets them read it)";

/// A file that is made of what is there and of what comes.
pub(super) struct Difference {
    dir: Arc<Dir>,
    /// With the mode that the file gets.
    entry: Entry,
    /// May others read it at the sender, and not here?
    stays_closed: bool,
    verifier: Verifier,
    /// What becomes the file: of an interrupted transfer, or new. Nothing is new yet while all is
    /// as in the existing file.
    part: Option<Part>,
    /// So many groups were told from the part, and the others from the existing file.
    in_part: u64,
    /// A file of the same name, which stays as it is.
    existing: Option<File>,
    /// What it was before its groups were told.
    version: Option<Version>,
    /// So much of it becomes the beginning of a new file before anything else does.
    copying: u64,
    policy: Policy,
    keep: bool,
}

impl Difference {
    pub(super) fn new(
        held: Held,
        dir: Arc<Dir>,
        mut entry: Entry,
        options: &ReceiveOptions,
    ) -> Self {
        let existing = held.existing.as_ref().filter(|_| !options.keeps_modes());
        let metadata = existing.and_then(|file| file.metadata().ok());
        // Who sends needn't know the content of what is kept: it isn't opened to others.
        let closed = metadata.map_or(0, |old| READ_BY_OTHERS & !(old.mode() as u16));
        let stays_closed = entry.mode & closed != 0;
        entry.mode &= !closed;
        let mut part = held.part;
        if let Some(part) = &mut part {
            part.entry = entry.clone();
        }
        Self {
            dir,
            verifier: Verifier::new(&entry),
            entry,
            stays_closed,
            part,
            in_part: held.in_part,
            existing: held.existing,
            version: held.version,
            copying: 0,
            policy: options.policy,
            keep: options.keeps(),
        }
    }

    pub(super) fn is_between_groups(&self) -> bool {
        self.verifier.is_between_groups()
    }

    /// Has all of it come?
    pub(super) fn is_complete(&self) -> bool {
        self.verifier.remaining() == 0
    }

    /// Bytes that haven't come.
    pub(super) fn remaining(&self) -> u64 {
        self.verifier.remaining()
    }

    /// The sender hasn't got it any more: what is incomplete is of no use.
    pub(super) fn discard(&mut self) {
        if let Some(part) = &mut self.part {
            part.discard();
        }
    }

    /// The hash of the group that ended last.
    pub(super) fn last_group(&self) -> Option<Digest> {
        self.verifier.last_group()
    }

    /// Bytes to the end of the group.
    pub(super) fn in_group(&self) -> u64 {
        GROUP - self.verifier.seen() % GROUP
    }

    /// How long what becomes the file is: what makes it longer fills the disk.
    pub(super) fn len(&self) -> u64 {
        self.part.as_ref().map_or(0, Part::len)
    }

    /// The next group is as it is there; its hash was told. How long it is.
    pub(super) fn keep(&mut self, hash: Digest) -> Result<u64, Failure> {
        let at = self.verifier.seen();
        match (&mut self.part, &self.existing) {
            // Unlike the part, whose lock is ours, it may have changed since it was hashed.
            (Some(part), Some(existing)) if at >= self.in_part * GROUP => {
                let mut group = vec![0; self.verifier.remaining().min(GROUP) as usize];
                copy(existing, &mut group, at, &mut self.verifier, part)?;
                Ok(group.len() as u64)
            }
            (Some(part), _) => {
                let len = self.verifier.keep(hash);
                let len = len.map_err(|error| Failure::content(&self.entry.name, error))?;
                part.skip(len)?;
                Ok(len)
            }
            (None, _) => {
                let len = self.verifier.keep(hash);
                len.map_err(|error| Failure::content(&self.entry.name, error))
            }
        }
    }

    /// Are zeros, in place of the next group, as it is there? Its hash was told if it is.
    pub(super) fn is_hole(&self, told: Option<Digest>) -> bool {
        let index = self.verifier.seen() / GROUP;
        let zeros = &ZEROS[..self.verifier.remaining().min(GROUP) as usize];
        told.is_some_and(|told| told == group_hash(self.entry.size, index, zeros))
    }

    /// The next group lies in a hole. How long it is.
    pub(super) fn hole(&mut self) -> Result<u64, Failure> {
        let len = self.verifier.zeros();
        let len = len.map_err(|error| Failure::content(&self.entry.name, error))?;
        self.made()?.hole(len);
        Ok(len)
    }

    /// Takes bytes that differ.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let too_long = bytes.len() as u64 > self.verifier.remaining();
        if too_long {
            let announced = self.entry.size;
            let error = VerifyError::TooLong { announced };
            return Err(Failure::content(&self.entry.name, error));
        }
        let updated = self.verifier.update(bytes);
        updated.map_err(|error| Failure::content(&self.entry.name, error))?;
        self.made()?.write(bytes)
    }

    /// All is there: can the existing file not be what was sent?
    pub(super) fn is_another(&self) -> bool {
        let existing = self.existing.as_ref().filter(|_| self.part.is_none());
        let metadata = existing.and_then(|file| file.metadata().ok());
        let same = metadata.is_some_and(|metadata| {
            // What is somebody else's, or has another name, too, is replaced, not changed.
            let ours = metadata.nlink() == 1 && metadata.uid() == geteuid().as_raw();
            metadata.len() == self.entry.size && (ours || self.policy != Policy::Overwrite)
        });
        // What has been written to since is read again.
        let written = existing.is_some_and(|file| version(file) != self.version);
        self.part.is_none() && (!same || written)
    }

    /// Holds it to the sender's hash.
    pub(super) fn end(
        self,
        expected: Digest,
        metadata: &Metadata,
        altered: &mut Skipped,
    ) -> Result<Job, Failure> {
        let verified = self.verifier.verify(expected);
        let digest = verified.map_err(|error| Failure::content(&self.entry.name, error))?;
        let Self {
            dir, entry, part, ..
        } = self;
        match (part, self.existing) {
            (Some(mut part), _) => {
                part.restore(metadata, altered)?;
                if self.stays_closed {
                    altered.add(&entry.name, CLOSED);
                }
                Ok(Job::File(Box::new(Complete { part, digest })))
            }
            (None, Some(file)) => Ok(Job::Same(Box::new(Same {
                file,
                dir,
                entry,
                digest,
            }))),
            (None, None) => Err(Failure::conflict(&entry.name, Conflict::Exists)),
        }
    }

    /// Is there nothing yet that becomes the file?
    pub(super) fn is_unmade(&self) -> bool {
        self.part.is_none()
    }

    /// Makes a new file, into which [`Self::copy_group`] has to bring what was kept of the existing
    /// one. That is hashed again: somebody may have written to it.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        if self.existing.is_some() && self.policy != Policy::Overwrite {
            return Err(Failure::conflict(&self.entry.name, Conflict::Exists));
        }
        self.part = Some(Part::new(self.dir.clone(), self.entry.clone(), self.keep)?);
        self.copying = self.verifier.seen();
        self.verifier = Verifier::new(&self.entry);
        Ok(())
    }

    /// Copies the next group, and says how long it is; `None`: that was all.
    pub(super) fn copy_group(&mut self) -> Result<Option<u64>, Failure> {
        let at = self.verifier.seen();
        let len = self.copying.saturating_sub(at).min(GROUP);
        let (Some(existing), Some(part), 1..) = (&self.existing, &mut self.part, len) else {
            return Ok(None);
        };
        let mut group = vec![0; len as usize];
        copy(existing, &mut group, at, &mut self.verifier, part)?;
        Ok(Some(len))
    }

    /// What becomes the file.
    fn made(&mut self) -> Result<&mut Part, Failure> {
        let missing = || Failure::new(FailureCode::Other, "a file is missing that was to be made");
        self.part.as_mut().ok_or_else(missing)
    }
}

/// Copies from the existing file.
fn copy(
    existing: &File,
    group: &mut [u8],
    at: u64,
    verifier: &mut Verifier,
    part: &mut Part,
) -> Result<(), Failure> {
    let read: io::Result<()> = existing.read_exact_at(group, at);
    read.map_err(|error| write_failure("reading what was there", &part.entry.name, error))?;
    let updated = verifier.update(group);
    updated.map_err(|error| Failure::content(&part.entry.name, error))?;
    part.write(group)
}
