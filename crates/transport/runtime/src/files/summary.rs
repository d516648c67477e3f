//! The result of a transfer.

use manyway_transfer::{Digest, Entry, Kind, SafeName, Want};
use serde::Serialize;
use std::fmt;

/// A finished transfer, as its sender sees it.
#[derive(Clone, Debug, Serialize)]
pub struct SendSummary {
    /// The files, in the order they were sent, without those that were there already; of more than
    /// [`FileSummary::MOST`], or [`FileSummary::MOST_BYTES`] of names, the first.
    pub files: Vec<FileSummary>,
    /// Nothing was sent: this says what would be.
    pub dry_run: bool,
    /// What a dry run would send; as many as `files` may have, the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<Planned>,
    /// What the receiver has deleted, or would.
    pub deleted: Deleted,
    /// Number of files.
    pub file_count: u64,
    /// What the receiver had already.
    pub kept: Kept,
    /// Number of directories.
    pub directories: u64,
    /// Number of symbolic links.
    pub symlinks: u64,
    /// Number of hard links, beside the first name of each file.
    pub hard_links: u64,
    /// What was left out.
    pub skipped: Skipped,
    /// What the receiver has left out or changed; it lists the names.
    pub altered: Skipped,
    /// Bytes of content.
    pub bytes: u64,
    /// From the receiver's acceptance to its report that all is on disk.
    pub seconds: f64,
}

/// A finished transfer, as its receiver sees it.
#[derive(Clone, Debug, Serialize)]
pub struct ReceiveSummary {
    /// The files, in the order they came, without those that were there already; of more than
    /// [`FileSummary::MOST`], or [`FileSummary::MOST_BYTES`] of names, the first.
    pub files: Vec<FileSummary>,
    /// What was deleted, or would be, as the sender doesn't have it.
    pub deleted: Deleted,
    /// Nothing was received or deleted: the sender only asked what would be.
    pub dry_run: bool,
    /// Number of files.
    pub file_count: u64,
    /// What was here already.
    pub kept: Kept,
    /// Number of directories, new or filled.
    pub directories: u64,
    /// Number of symbolic links that were offered.
    pub symlinks: u64,
    /// Number of hard links that were offered, beside the first name of each file.
    pub hard_links: u64,
    /// What the sender has left out.
    pub skipped: Skipped,
    /// What was left out or changed here.
    pub altered: Skipped,
    /// Bytes of content.
    pub bytes: u64,
    /// From acceptance until all was on disk.
    pub seconds: f64,
}

/// What needn't be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Number of files that were there, as their size and time say.
    pub files: u64,
    /// Bytes of content: of these files, and of the parts of others that were there.
    pub bytes: u64,
}

impl Kept {
    /// A file.
    pub(super) fn whole(bytes: u64) -> Self {
        Self { files: 1, bytes }
    }

    /// A part of one.
    pub(super) fn part(bytes: u64) -> Self {
        Self { files: 0, bytes }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// One transferred file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileSummary {
    /// Its name, as it is (a terminal needs it [`printable`](manyway_units::printable)): relative
    /// to what was sent; at the receiver, below the receiving directory.
    pub name: String,
    /// The receiver's name for it, if that is another (sender only); of more than
    /// [`FileSummary::MOST_BYTES`] of such names, the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_as: Option<String>,
    /// Its length.
    pub bytes: u64,
    /// Its hash, equal on both sides; serialized as hex.
    pub blake3: Digest,
}

impl FileSummary {
    /// Most files a summary lists: it is held in memory, and what fills it comes from elsewhere.
    pub const MOST: usize = 1 << 20;
    /// Most bytes of their names.
    pub const MOST_BYTES: usize = 32 << 20;

    pub(super) fn new(name: &SafeName, bytes: u64, blake3: Digest) -> Self {
        Self {
            name: name.as_str().to_owned(),
            saved_as: None,
            bytes,
            blake3,
        }
    }
}

/// What a summary lists: how many names of files so far, and their bytes.
#[derive(Debug, Default)]
pub(super) struct Listed {
    names: usize,
    bytes: usize,
}

impl Listed {
    /// Counts one more. `false`: it isn't listed, nor is what comes after it.
    pub(super) fn takes(&mut self, name: &SafeName) -> bool {
        self.names = self.names.saturating_add(1);
        self.bytes = self.bytes.saturating_add(name.as_str().len());
        self.names <= FileSummary::MOST && self.bytes <= FileSummary::MOST_BYTES
    }
}

/// A file, directory or link that would be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// Its name, as it is, relative to what would be sent.
    pub name: String,
    /// What it is.
    pub kind: PlannedKind,
    /// The length of a file; 0 for others.
    pub bytes: u64,
    /// The receiver has a file of that name, or a part of one: the sender would send only what
    /// differs.
    pub in_part: bool,
}

/// What would be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// One more name of a file.
    HardLink,
}

impl Planned {
    /// Nothing is planned for an entry that the sender leaves out.
    pub(super) fn new(entry: &Entry, want: Want) -> Option<Self> {
        let kind = match entry.kind {
            Kind::File => PlannedKind::File,
            Kind::Directory => PlannedKind::Directory,
            Kind::Symlink(_) => PlannedKind::Symlink,
            Kind::HardLink(_) => PlannedKind::HardLink,
            Kind::LeftOut(_) => return None,
        };
        (want != Want::Nothing).then(|| Self {
            name: entry.name.as_str().to_owned(),
            kind,
            bytes: entry.size,
            in_part: want == Want::Difference,
        })
    }
}

/// What the receiver has deleted, because the sender doesn't have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Deleted {
    /// How many files, directories and links.
    pub count: u64,
    /// Their names, as they were, below the receiving directory, in the order in which they went;
    /// of more than [`Deleted::MOST_BYTES`], the first.
    pub names: Vec<String>,
    #[serde(skip)]
    bytes: usize,
}

impl Deleted {
    /// Most bytes of names, with 32 for each: a peer can tell any number of them.
    pub const MOST_BYTES: usize = 32 << 20;

    pub(super) fn add(&mut self, name: &SafeName) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(name.as_str().len() + 32);
        if self.bytes <= Self::MOST_BYTES {
            self.names.push(name.as_str().to_owned());
        }
    }
}

/// What isn't, or isn't quite, as it is at the sender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// How many.
    pub count: u64,
    /// The first hundred, each with the reason.
    pub examples: Vec<String>,
}

impl Skipped {
    /// Most names that are listed.
    const MOST: usize = 100;

    pub(super) fn add(&mut self, name: impl fmt::Display, reason: impl fmt::Display) {
        self.count += 1;
        if self.examples.len() < Self::MOST {
            self.examples.push(format!("{name}: {reason}"));
        }
    }

    /// Adds another list.
    pub(super) fn extend(&mut self, other: Self) {
        self.count += other.count;
        let room = Self::MOST.saturating_sub(self.examples.len());
        self.examples.extend(other.examples.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer may tell any number of names.
    #[test]
    fn the_names_of_what_was_deleted_are_bounded() {
        let long = SafeName::parse(&["n"; 16].map(|n| n.repeat(255)).join("/")).unwrap();
        let mut deleted = Deleted::default();
        for _ in 0..10_000 {
            deleted.add(&long);
        }
        assert_eq!(deleted.count, 10_000);
        let bytes = deleted.names.len() * (long.as_str().len() + 32);
        assert!((Deleted::MOST_BYTES - 5000..=Deleted::MOST_BYTES).contains(&bytes));
    }

    #[test]
    fn the_names_of_files_are_bounded_by_number_and_bytes() {
        let count = |name: &SafeName| {
            let mut listed = Listed::default();
            let count = (0..FileSummary::MOST + 10).take_while(|_| listed.takes(name));
            let count = count.count();
            // Nor is a shorter one that comes later.
            assert!(!listed.takes(&SafeName::parse("a").unwrap()));
            count
        };
        let long = SafeName::parse(&["n"; 16].map(|n| n.repeat(255)).join("/")).unwrap();
        assert_eq!(count(&long), FileSummary::MOST_BYTES / long.as_str().len());
        assert_eq!(count(&SafeName::parse("short").unwrap()), FileSummary::MOST);
    }
}
