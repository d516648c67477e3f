//! Notices a file system for which two names of a transfer are one.

use super::disk::Id;
use super::tree::Dir;
use manyway_transfer::SafeName;
use std::collections::HashSet;
use std::sync::Arc;

/// What a transfer has, or has found, in the directories that hold its current entry.
///
/// Memory grows by some 20 bytes for each entry of these directories.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    levels: Vec<(Arc<Dir>, HashSet<Id>)>,
}

impl Arrived {
    /// Notes it; `false`: the directory had it already, by another name.
    pub(super) fn add(&mut self, dir: &Arc<Dir>, id: Id) -> bool {
        self.level(dir).insert(id)
    }

    /// Is what was found there of this transfer?
    pub(super) fn has(&mut self, dir: &Arc<Dir>, found: Option<Id>) -> bool {
        found.is_some_and(|id| self.level(dir).contains(&id))
    }

    /// That of a directory; those that can't get entries any more are forgotten.
    fn level(&mut self, dir: &Arc<Dir>) -> &mut HashSet<Id> {
        let depth = |dir: &Dir| dir.local().map_or(0, SafeName::depth);
        let is_over = |other: &Arc<Dir>| depth(other) >= depth(dir) && !Arc::ptr_eq(other, dir);
        while self.levels.last().is_some_and(|(other, _)| is_over(other)) {
            self.levels.pop();
        }
        let is_new = |(other, _): &(Arc<Dir>, _)| !Arc::ptr_eq(other, dir);
        if self.levels.last().is_none_or(is_new) {
            self.levels.push((dir.clone(), HashSet::new()));
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last].1
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::Os;
    use super::*;

    #[test]
    fn what_a_directory_got_is_known_until_the_next() {
        let at = tempfile::tempdir().unwrap();
        for dir in ["a", "b"] {
            std::fs::create_dir(at.path().join(dir)).unwrap();
        }
        let root = Dir::root(at.path(), Arc::new(Os)).unwrap();
        let [a, b] = ["a", "b"].map(|name| root.open(name).unwrap());
        let mut arrived = Arrived::default();
        let ids = [1, 2, 3, 4].map(|inode| (7, inode));
        assert!(arrived.add(&root, ids[0]) && arrived.add(&a, ids[1]) && arrived.add(&a, ids[2]));
        assert!(arrived.has(&a, Some(ids[1])) && !arrived.add(&a, ids[2]));
        assert!(!arrived.has(&a, Some(ids[0])) && !arrived.has(&a, None));
        assert!(!arrived.has(&b, Some(ids[1])) && arrived.add(&b, ids[1]));
        assert!(arrived.has(&root, Some(ids[0])) && !arrived.has(&root, Some(ids[1])));
        // Only what can get more is held.
        assert_eq!(arrived.levels.len(), 1);
    }
}
