//! The list of what is transferred: entries in a fixed order, checked one by one in constant
//! memory.

use crate::entry::{Entry, Kind};
use crate::name::SafeName;
use serde::{Deserialize, Serialize};

/// How much a manifest holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// All there is, with what is left out.
    pub entries: u64,
    /// Files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Hard links: further names of files.
    pub hard_links: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

impl Totals {
    /// Counts an entry; bytes saturate.
    pub fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        match entry.kind {
            Kind::File => self.files += 1,
            Kind::Directory => self.directories += 1,
            Kind::Symlink(_) => self.symlinks += 1,
            Kind::HardLink(_) => self.hard_links += 1,
            Kind::LeftOut(_) => {}
        }
        self.bytes = self.bytes.saturating_add(entry.size);
    }
}

/// The running check of a manifest, by its sender as by its receiver.
///
/// Entries must come in strictly ascending order of their names, and the parent of each must be a
/// directory of the same manifest. In that order an open directory is the last entry or one of its
/// ancestors, so that both rules, and with them the absence of duplicates, are checked against the
/// last entry alone.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// The last name, and whether it is a directory's.
    last: Option<(SafeName, bool)>,
    totals: Totals,
    /// Bytes of names, targets and attributes.
    text_bytes: u64,
    /// Files that may have further names.
    shared: u64,
}

impl Manifest {
    /// Most entries in one transfer.
    pub const MAX_ENTRIES: u64 = 1 << 24;
    /// Most bytes of names, targets and attributes in one transfer.
    pub const MAX_TEXT_BYTES: u64 = 1 << 31;
    /// Most files with further names in one transfer.
    pub const MAX_SHARED: u64 = 1 << 20;
    /// Most bytes in one transfer: what file offsets can express.
    pub const MAX_BYTES: u64 = i64::MAX as u64;

    /// An empty manifest.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next entry.
    ///
    /// # Errors
    /// Names the entry that is out of order, without a parent, or too much; the manifest is then of
    /// no further use.
    pub fn push(&mut self, entry: &Entry) -> Result<(), ManifestError> {
        self.check_order(entry)?;
        self.check_parent(entry)?;
        self.check_link(entry)?;
        self.count(entry)?;
        self.last = Some((entry.name.clone(), entry.is_directory()));
        Ok(())
    }

    /// What was taken so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Compares with what the sender says it has offered.
    ///
    /// # Errors
    /// [`ManifestError::Totals`] if the two differ.
    pub fn finish(&self, claimed: Totals) -> Result<Totals, ManifestError> {
        if claimed != self.totals {
            return Err(ManifestError::Totals {
                claimed,
                counted: self.totals,
            });
        }
        Ok(claimed)
    }

    fn check_order(&self, entry: &Entry) -> Result<(), ManifestError> {
        match &self.last {
            Some((last, _)) if entry.name <= *last => Err(ManifestError::Order {
                name: entry.name.clone(),
                last: last.clone(),
            }),
            _ => Ok(()),
        }
    }

    fn check_parent(&self, entry: &Entry) -> Result<(), ManifestError> {
        let Some(parent) = entry.name.parent() else {
            return Ok(());
        };
        let open = self.last.as_ref().is_some_and(|(last, directory)| {
            let beneath = |rest: &str| rest.starts_with('/') || (rest.is_empty() && *directory);
            last.as_str().strip_prefix(parent).is_some_and(beneath)
        });
        if open {
            Ok(())
        } else {
            Err(ManifestError::NoParent(entry.name.clone()))
        }
    }

    /// A file comes before its further names, so that its number is known.
    fn check_link(&self, entry: &Entry) -> Result<(), ManifestError> {
        match entry.kind {
            Kind::HardLink(number) if number >= self.shared => {
                Err(ManifestError::NoFile(entry.name.clone()))
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, entry: &Entry) -> Result<(), ManifestError> {
        self.totals.add(entry);
        self.text_bytes += entry.text_len() as u64;
        self.shared += u64::from(entry.shared);
        if self.totals.entries > Self::MAX_ENTRIES
            || self.text_bytes > Self::MAX_TEXT_BYTES
            || self.shared > Self::MAX_SHARED
            || self.totals.bytes > Self::MAX_BYTES
        {
            return Err(ManifestError::TooMuch(entry.name.clone()));
        }
        Ok(())
    }
}

/// A manifest that breaks the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Not strictly ascending: out of order, or twice the same.
    #[error("`{name}` is offered after `{last}`: a manifest is sorted and names nothing twice")]
    Order {
        /// The entry.
        name: SafeName,
        /// The one before it.
        last: SafeName,
    },
    /// No directory of the manifest holds it.
    #[error("`{0}` is offered without the directory that holds it")]
    NoParent(SafeName),
    /// A hard link to no file before it.
    #[error("`{0}` is offered as a hard link to a file that isn't offered before it")]
    NoFile(SafeName),
    /// More than [`Manifest::MAX_ENTRIES`], [`Manifest::MAX_TEXT_BYTES`], [`Manifest::MAX_SHARED`]
    /// or [`Manifest::MAX_BYTES`].
    #[error(
        "too much for one transfer at `{0}`: at most 2^24 entries, 2^31 bytes of names and \
         attributes, 2^20 files with hard links and 2^63 bytes of content; send it in several parts"
    )]
    TooMuch(SafeName),
    /// The sender's totals are not those of its entries.
    #[error("the sender offered {counted:?} but announced {claimed:?}")]
    Totals {
        /// What it says.
        claimed: Totals,
        /// What it sent.
        counted: Totals,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Cause, Target};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entry(name: &str, kind: Kind, size: u64) -> Entry {
        Entry {
            size,
            ..Entry::new(SafeName::parse(name).unwrap(), kind)
        }
    }

    fn check(entries: &[(&str, Kind)]) -> Result<Totals, ManifestError> {
        let mut manifest = Manifest::new();
        for (name, kind) in entries {
            manifest.push(&entry(name, kind.clone(), 1))?;
        }
        Ok(manifest.totals())
    }

    use Kind::{Directory as D, File as F};

    #[test]
    fn accepts_a_tree_and_counts_it() {
        let totals = check(&[("a", D), ("a/b", D), ("a/b/c", F), ("a/d", F), ("a b", F)]).unwrap();
        assert_eq!((totals.entries, totals.files), (5, 3));
        assert_eq!((totals.directories, totals.bytes), (2, 5));
    }

    #[test]
    fn refuses_orphans_duplicates_and_disorder() {
        assert!(matches!(
            check(&[("a/b", F)]),
            Err(ManifestError::NoParent(_))
        ));
        assert!(matches!(
            check(&[("a", F), ("a/b", F)]),
            Err(ManifestError::NoParent(_))
        ));
        assert!(matches!(
            check(&[("ab", D), ("ab/c", F), ("b/c", F)]),
            Err(ManifestError::NoParent(_))
        ));
        // `a` is a prefix of `ab` as text, not as a directory.
        assert!(matches!(
            check(&[("a", D), ("aa", D), ("aa/x", F), ("aaa/x", F)]),
            Err(ManifestError::NoParent(_))
        ));
        assert!(matches!(
            check(&[("a", D), ("a", D)]),
            Err(ManifestError::Order { .. })
        ));
        assert!(matches!(
            check(&[("b", F), ("a", F)]),
            Err(ManifestError::Order { .. })
        ));
        assert!(matches!(
            check(&[("a", D), ("b", F), ("a/c", F)]),
            Err(ManifestError::Order { .. })
        ));
    }

    /// What is no directory holds nothing, whatever it leads to at the receiver.
    #[test]
    fn nothing_comes_through_a_link() {
        let link = || Kind::Symlink(Target::parse("elsewhere").unwrap());
        for kind in [link(), Kind::LeftOut(Cause::Special)] {
            assert!(matches!(
                check(&[("a", kind), ("a/b", F)]),
                Err(ManifestError::NoParent(_))
            ));
        }
        let totals = check(&[("a", link()), ("b", Kind::LeftOut(Cause::Special))]).unwrap();
        assert_eq!((totals.entries, totals.symlinks, totals.files), (2, 1, 0));
    }

    #[test]
    fn a_hard_link_comes_after_its_file() {
        let shared = |name| Entry {
            shared: true,
            ..entry(name, F, 0)
        };
        let mut manifest = Manifest::new();
        manifest.push(&entry("a", F, 0)).unwrap();
        manifest.push(&shared("b")).unwrap();
        manifest.push(&entry("c", Kind::HardLink(0), 0)).unwrap();
        assert!(matches!(
            manifest.push(&entry("d", Kind::HardLink(1), 0)),
            Err(ManifestError::NoFile(_))
        ));
        manifest.push(&shared("e")).unwrap();
        manifest.push(&entry("f", Kind::HardLink(1), 0)).unwrap();
        assert_eq!(manifest.totals().hard_links, 2);
        manifest.shared = Manifest::MAX_SHARED - 1;
        manifest.push(&shared("g")).unwrap();
        assert!(manifest.push(&shared("h")).is_err());
    }

    #[test]
    fn sizes_do_not_overflow() {
        let mut manifest = Manifest::new();
        manifest.push(&entry("a", F, i64::MAX as u64)).unwrap();
        assert!(matches!(
            manifest.push(&entry("b", F, u64::MAX)),
            Err(ManifestError::TooMuch(_))
        ));
    }

    /// Each limit may be reached, and none passed.
    #[test]
    fn a_transfer_has_limits() {
        let full = |entries, bytes, text_bytes| Manifest {
            totals: Totals {
                entries,
                bytes,
                ..Totals::default()
            },
            text_bytes,
            ..Manifest::new()
        };
        let (entries, names) = (Manifest::MAX_ENTRIES, Manifest::MAX_TEXT_BYTES);
        let bytes = Manifest::MAX_BYTES;
        let mut nearly = full(entries - 1, bytes - 1, names - 2);
        assert_eq!(nearly.push(&entry("ab", F, 1)), Ok(()));
        for mut over in [
            full(entries, 0, 0),
            full(0, bytes, 0),
            full(0, 0, names - 1),
        ] {
            let name = SafeName::parse("ab").unwrap();
            let error = over.push(&entry("ab", F, 1));
            assert_eq!(error, Err(ManifestError::TooMuch(name)));
        }
        // The names of all entries count, with their directories'.
        let mut manifest = full(0, 0, names - 4);
        manifest.push(&entry("a", D, 0)).unwrap();
        manifest.push(&entry("a/b", F, 0)).unwrap();
        assert!(manifest.push(&entry("b", F, 0)).is_err());
    }

    #[test]
    fn totals_must_agree() {
        let mut manifest = Manifest::new();
        manifest.push(&entry("a", F, 7)).unwrap();
        let right = Totals {
            entries: 1,
            files: 1,
            bytes: 7,
            ..Totals::default()
        };
        assert_eq!(manifest.finish(right), Ok(right));
        assert!(manifest.finish(Totals { bytes: 8, ..right }).is_err());
    }

    proptest! {
        /// The check that sees only the last entry agrees with one that remembers everything.
        #[test]
        fn agrees_with_a_check_that_remembers_everything(
            list in prop::collection::vec(("[ab]{1,2}(/[ab]{1,2}){0,3}", any::<bool>()), 0..12),
            sort in any::<bool>(),
        ) {
            let mut list: Vec<(SafeName, Kind)> = list
                .into_iter()
                .map(|(name, file)| (SafeName::parse(&name).unwrap(), if file { F } else { D }))
                .collect();
            if sort {
                list.sort_by(|a, b| a.0.cmp(&b.0));
            }
            let mut seen: BTreeMap<String, Kind> = BTreeMap::new();
            let mut manifest = Manifest::new();
            for (i, (name, kind)) in list.iter().enumerate() {
                let ascending = i == 0 || list[i - 1].0 < *name;
                let parent_ok = name.parent().is_none_or(|p| seen.get(p) == Some(&D));
                let ok = manifest.push(&entry(name.as_str(), kind.clone(), 0)).is_ok();
                prop_assert_eq!(ok, ascending && parent_ok);
                if !ok {
                    break;
                }
                seen.insert(name.as_str().to_owned(), kind.clone());
            }
        }
    }
}
