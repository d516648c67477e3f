//! How much senders may fill.

use manyway_transfer::{Failure, FailureCode};
use manyway_units::ByteSize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of a transfer's list of entries that don't count: they are in memory.
const LIST: u64 = 2 << 20;

/// How many bytes of content may still be received, by all transfers that share it (its clones do).
///
/// A transfer takes what its manifest announces and isn't there, before any content flows, and
/// gives back what wasn't written. No file can be longer than announced.
#[derive(Clone, Debug)]
pub struct Allowance(Arc<Bytes>);

#[derive(Debug)]
struct Bytes {
    left: AtomicU64,
    /// Of the lists that transfers keep while they last. Beside the content, so that a transfer
    /// doesn't lack in content what its list takes.
    lists: AtomicU64,
}

impl Allowance {
    /// An allowance of so many bytes.
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(Bytes {
            left: AtomicU64::new(bytes),
            lists: AtomicU64::new(0),
        }))
    }

    /// The bytes left.
    pub fn left(&self) -> u64 {
        self.0.left.load(Relaxed)
    }

    /// A transfer's list, still empty.
    pub(super) fn list(&self) -> List {
        List {
            allowance: self.clone(),
            bytes: 0,
        }
    }

    pub(super) fn reserve(&self, bytes: u64) -> Result<Reservation, Failure> {
        loop {
            let left = self.left();
            let Some(rest) = left.checked_sub(bytes) else {
                return Err(refused(bytes, 0, left));
            };
            let taken = self.0.left.compare_exchange(left, rest, Relaxed, Relaxed);
            if taken.is_ok() {
                return Ok(Reservation {
                    allowance: self.clone(),
                    unused: bytes,
                });
            }
        }
    }
}

/// Why a manifest can't be accepted whose list has so many bytes.
fn refused(announced: u64, list: u64, left: u64) -> Failure {
    let reason = "that is more than the receiver accepts (its `--max-total`)";
    let size = |bytes| ByteSize::new(bytes).decimal();
    let content = format!("{} of content", size(announced));
    let what = match list {
        0 => format!("{content} is"),
        _ => format!("{content} and a list of {} are", size(list)),
    };
    let left = size(left);
    let here = format_args!("{what} announced so far, and {left} may still come");
    Failure::new(FailureCode::Refused, reason).only_here(here)
}

/// A transfer's list of entries, which may be so much longer than the content that may come; the
/// lists of all transfers together, too. Dropping it gives back what it took.
#[derive(Debug)]
pub(super) struct List {
    allowance: Allowance,
    bytes: u64,
}

impl List {
    /// It is so much longer now; can the manifest that announces this much so far still be
    /// accepted?
    pub(super) fn grew(&mut self, bytes: u64, announced: u64) -> Result<(), Failure> {
        let before = self.counted();
        self.bytes += bytes;
        let more = self.counted() - before;
        let Allowance(all) = &self.allowance;
        let lists = all.lists.fetch_add(more, Relaxed) + more;
        match self.allowance.left() {
            left if announced <= left && (lists <= left || self.counted() == 0) => Ok(()),
            left => Err(refused(announced, self.bytes, left)),
        }
    }

    fn counted(&self) -> u64 {
        self.bytes.saturating_sub(LIST)
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let Allowance(all) = &self.allowance;
        all.lists.fetch_sub(self.counted(), Relaxed);
    }
}

/// A transfer's part of the allowance; dropping it gives back what wasn't used.
#[derive(Debug)]
pub(super) struct Reservation {
    allowance: Allowance,
    unused: u64,
}

impl Reservation {
    /// Content was written; if it is more than was reserved, because what was there is gone, the
    /// allowance has to have it.
    pub(super) fn used(&mut self, bytes: u64) -> Result<(), Failure> {
        let more = bytes.saturating_sub(self.unused);
        if more > 0 {
            self.unused += self.allowance.reserve(more)?.keep();
        }
        self.unused -= bytes;
        Ok(())
    }

    /// Its bytes, for another.
    fn keep(mut self) -> u64 {
        std::mem::take(&mut self.unused)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Allowance(all) = &self.allowance;
        all.left.fetch_add(self.unused, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_share_it_to_the_last_byte() {
        let allowance = Allowance::new(10);
        let mut first = allowance.clone().reserve(7).unwrap();
        let refused = allowance.reserve(4).unwrap_err();
        assert_eq!(refused.code, FailureCode::Refused);
        let told = "4 B of content is announced so far, and 3 B may still come";
        assert!(refused.to_string().contains(told), "{refused}");
        let second = allowance.reserve(3).unwrap();
        assert_eq!(allowance.left(), 0);
        first.used(5).unwrap();
        drop(first);
        drop(second);
        assert_eq!(allowance.left(), 5);
        let mut third = allowance.reserve(1).unwrap();
        third.used(4).unwrap();
        assert_eq!(allowance.left(), 1);
        assert!(third.used(2).is_err() && third.used(1).is_ok());
        drop(third);
        assert_eq!(allowance.left(), 0);
    }

    #[test]
    fn the_lists_of_all_transfers_count_too() {
        let allowance = Allowance::new(10);
        let mut alone = allowance.list();
        assert!(alone.grew(LIST + 10, 10).is_ok());
        assert!(alone.grew(1, 0).is_err());
        drop(alone);
        let (mut first, mut second) = (allowance.list(), allowance.clone().list());
        first.grew(LIST, 0).unwrap();
        first.grew(6, 0).unwrap();
        second.grew(LIST + 4, 0).unwrap();
        // What is in memory does no harm.
        assert!(allowance.list().grew(LIST, 10).is_ok());
        let refused = second.grew(1, 0).unwrap_err().to_string();
        let told = "0 B of content and a list of 2.097 MB are announced so far, and 10 B may";
        assert!(refused.contains(told), "{refused}");
        drop(first);
        second.grew(5, 0).unwrap();
        drop(second);
        assert_eq!((allowance.left(), allowance.0.lists.load(Relaxed)), (10, 0));
    }
}
