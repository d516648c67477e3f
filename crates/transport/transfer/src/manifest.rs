//! The list of what is transferred: entries in a fixed order, checked one by one in constant
//! memory.

use crate::name::SafeName;

/// One file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name below the receiving directory.
    pub name: SafeName,
    /// File or directory.
    pub kind: Kind,
    /// Length in bytes; 0 for a directory.
    pub size: u64,
    /// Permission bits, [`Entry::MODE_MASK`] only: setuid, setgid and sticky bits do not travel.
    pub mode: u16,
    /// Time of last modification.
    pub mtime: Timestamp,
}

impl Entry {
    /// The mode bits that travel: read, write and execute for owner, group and others.
    pub const MODE_MASK: u16 = 0o777;

    /// Is this a file?
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// A time of day: seconds and nanoseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, less than 10⁹.
    pub nanos: u32,
}

/// How much a manifest holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files and directories.
    pub entries: u64,
    /// Files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

/// The running check of a manifest, by its sender as by its receiver.
///
/// Entries must come in strictly ascending order of their names, and the parent of each must be a
/// directory of the same manifest. In that order an open directory is the last entry or one of its
/// ancestors, so that both rules, and with them the absence of duplicates, are checked against the
/// last entry alone.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    last: Option<(SafeName, Kind)>,
    totals: Totals,
    name_bytes: u64,
}

impl Manifest {
    /// Most entries in one transfer.
    pub const MAX_ENTRIES: u64 = 1 << 24;
    /// Most bytes of names in one transfer.
    pub const MAX_NAME_BYTES: u64 = 1 << 31;
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
        self.count(entry)?;
        self.last = Some((entry.name.clone(), entry.kind));
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
        let open = self.last.as_ref().is_some_and(|(last, kind)| {
            let beneath =
                |rest: &str| rest.starts_with('/') || (rest.is_empty() && *kind == Kind::Directory);
            last.as_str().strip_prefix(parent).is_some_and(beneath)
        });
        if open {
            Ok(())
        } else {
            Err(ManifestError::NoParent(entry.name.clone()))
        }
    }

    fn count(&mut self, entry: &Entry) -> Result<(), ManifestError> {
        let totals = &mut self.totals;
        totals.entries += 1;
        totals.files += u64::from(entry.is_file());
        totals.bytes = totals.bytes.saturating_add(entry.size);
        self.name_bytes += entry.name.as_str().len() as u64;
        if totals.entries > Self::MAX_ENTRIES
            || self.name_bytes > Self::MAX_NAME_BYTES
            || totals.bytes > Self::MAX_BYTES
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
    /// More than [`Manifest::MAX_ENTRIES`], [`Manifest::MAX_NAME_BYTES`] or
    /// [`Manifest::MAX_BYTES`].
    #[error(
        "too much for one transfer at `{0}`: at most 2^24 entries, 2^31 bytes of names and 2^63 \
         bytes of content; send it in several parts"
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
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entry(name: &str, kind: Kind, size: u64) -> Entry {
        Entry {
            name: SafeName::parse(name).unwrap(),
            kind,
            size,
            mode: 0o644,
            mtime: Timestamp::default(),
        }
    }

    fn check(entries: &[(&str, Kind)]) -> Result<Totals, ManifestError> {
        let mut manifest = Manifest::new();
        for (name, kind) in entries {
            manifest.push(&entry(name, *kind, 1))?;
        }
        Ok(manifest.totals())
    }

    use Kind::{Directory as D, File as F};

    #[test]
    fn accepts_a_tree_and_counts_it() {
        let totals = check(&[("a", D), ("a/b", D), ("a/b/c", F), ("a/d", F), ("a b", F)]).unwrap();
        assert_eq!((totals.entries, totals.files), (5, 3));
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
        let full = |entries, bytes, name_bytes| Manifest {
            last: None,
            totals: Totals {
                entries,
                files: 0,
                bytes,
            },
            name_bytes,
        };
        let (entries, names) = (Manifest::MAX_ENTRIES, Manifest::MAX_NAME_BYTES);
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
                let ok = manifest.push(&entry(name.as_str(), *kind, 0)).is_ok();
                prop_assert_eq!(ok, ascending && parent_ok);
                if !ok {
                    break;
                }
                seen.insert(name.as_str().to_owned(), *kind);
            }
        }
    }
}
