//! A file while it is received: it has a temporary name until it is complete, and is removed if the
//! transfer ends before.

use super::tree::Dir;
use manyway_transfer::conflict::cut;
use manyway_transfer::{
    Conflict, Decision, Digest, Entry, Failure, Kind, Policy, SafeName, decide, failure::Side,
    numbered,
};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
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
    pub(super) entry: Entry,
}

impl Part {
    /// A new, empty file beside where `entry` is to be, readable by nobody else.
    pub(super) fn new(dir: Arc<Dir>, entry: Entry) -> Result<Self, Failure> {
        loop {
            let temporary = temporary_name(entry.name.file_name());
            match dir.disk().create(dir.as_fd(), &temporary) {
                Ok(file) => {
                    return Ok(Self {
                        dir,
                        temporary: Some(temporary),
                        file,
                        entry,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(write_failure("creating", &entry.name, error)),
            }
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.dir.disk().write(&self.file, bytes);
        written.map_err(|error| self.failure("writing", error))
    }

    /// Gives the complete file its mode and time.
    pub(super) fn restore(&self) -> Result<(), Failure> {
        let restored = self.dir.disk().restore(self.file.as_fd(), &self.entry);
        restored.map_err(|error| self.failure("setting mode and time", error))
    }

    /// Brings the content to disk.
    pub(super) fn sync(&self) -> Result<(), Failure> {
        let synced = self.dir.disk().sync_file(&self.file);
        synced.map_err(|error| self.failure("syncing", error))
    }

    /// Gives the file its final name, and says which.
    pub(super) fn place(&mut self, policy: Policy) -> Result<SafeName, Failure> {
        let Some(temporary) = self.temporary.clone() else {
            return self.local_name(self.entry.name.file_name());
        };
        let wanted = self.entry.name.file_name().to_owned();
        let mut name = wanted.clone();
        for n in 1..=MOST_NUMBERS {
            if self.try_place(&temporary, &name, policy)? {
                self.temporary = None;
                return self.local_name(&name);
            }
            let existing = self
                .dir
                .existing(&name)
                .map_err(|error| self.failure("naming", error))?;
            match decide(policy, Kind::File, existing) {
                Decision::Rename => name = numbered(&wanted, n),
                Decision::Refuse(conflict) => {
                    return Err(Failure::conflict(&self.entry.name, conflict));
                }
                // It is gone again.
                Decision::Create | Decision::Replace | Decision::Merge => {}
            }
        }
        Err(Failure::conflict(&self.entry.name, Conflict::Exists))
    }

    pub(super) fn dir(&self) -> &Arc<Dir> {
        &self.dir
    }

    /// `false`: something is in the way.
    fn try_place(&self, temporary: &str, name: &str, policy: Policy) -> Result<bool, Failure> {
        let replace = policy == Policy::Overwrite;
        let dir = self.dir.as_fd();
        match self.dir.disk().rename(dir, temporary, name, replace) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(self.failure("naming", error)),
        }
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
        if let Some(temporary) = self.temporary.take()
            && let Err(error) = self.dir.disk().remove(self.dir.as_fd(), &temporary)
        {
            tracing::warn!(file = %temporary, %error, "can't remove an incomplete file");
        }
    }
}

/// A complete file with its hash.
#[derive(Debug)]
pub(super) struct Complete {
    pub(super) part: Part,
    pub(super) digest: Digest,
}

pub(super) fn write_failure(doing: &str, name: &SafeName, error: io::Error) -> Failure {
    Failure::disk(Side::Receiver, doing, name, &error)
}

/// What is between the name and the number of an incomplete file.
const MARK: &str = ".manyway-part-";

/// `.NAME.manyway-part-XXXXXXXX`, with NAME cut to what a component may hold.
fn temporary_name(name: &str) -> String {
    // Uniqueness is the kernel's O_EXCL; this only has to be unlikely to clash.
    let random = RandomState::new().hash_one(0) as u32;
    let room = SafeName::MAX_COMPONENT - 1 - MARK.len() - 8;
    format!(".{}{MARK}{random:08x}", cut(name, room))
}

/// Is it a name that [`temporary_name`] gives?
pub(super) fn is_temporary(name: &str) -> bool {
    let parts = name
        .strip_prefix('.')
        .and_then(|name| name.rsplit_once(MARK));
    parts.is_some_and(|(name, number)| {
        !name.is_empty()
            && number.len() == 8
            && number
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_safe_and_short_enough() {
        for name in ["a", &"é".repeat(127), &"x".repeat(255)] {
            let temporary = temporary_name(name);
            assert!(SafeName::parse(&temporary).is_ok(), "{temporary}");
            assert!(temporary.starts_with(&format!(".{}", cut(name, 60))));
            assert!(is_temporary(&temporary) && !is_temporary(name));
        }
    }
}
