//! Entries that a program adds at run time, beside those of the table.

use std::sync::{PoisonError, RwLock};

use super::{ENTRIES, Entry};

static ADDED: RwLock<Vec<&'static Entry>> = RwLock::new(Vec::new());

/// The entries of all laws, in the order in which to list them.
pub(crate) fn entries() -> impl Iterator<Item = &'static Entry> + Clone {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner).clone();
    ENTRIES.iter().chain(added)
}

/// Adds the entry that `make` makes for this name, until the process ends; or says who has the name
/// already.
pub(crate) fn add(
    name: &str,
    make: impl FnOnce(&'static str) -> Entry,
) -> Result<(), &'static Entry> {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    let mut known = ENTRIES.iter().chain(added.iter().copied());
    if let Some(entry) = known.find(|entry| entry.name == name) {
        return Err(entry);
    }
    added.push(Box::leak(Box::new(make(Box::leak(name.into())))));
    Ok(())
}
