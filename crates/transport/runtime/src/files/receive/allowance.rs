//! How much senders may fill.

use manyway_transfer::{Failure, FailureCode};
use manyway_units::ByteSize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A list of entries may be so much longer than the content that may come: it isn't kept.
const LIST: u64 = 2 << 20;

/// How many bytes of content may still be received, by all transfers that share it (its clones do).
///
/// A transfer takes what its manifest announces and isn't there, before any content flows, and
/// gives back what wasn't written. No file can be longer than announced.
#[derive(Clone, Debug)]
pub struct Allowance(Arc<AtomicU64>);

impl Allowance {
    /// An allowance of so many bytes.
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    /// The bytes left.
    pub fn left(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Whether a manifest of so many bytes that announces this much so far can still be accepted.
    pub(super) fn check(&self, announced: u64, list: u64) -> Result<(), Failure> {
        let left = self.left();
        if announced <= left && list <= left.saturating_add(LIST) {
            return Ok(());
        }
        let reason = "that is more than the receiver accepts (its `--max-total`)";
        let size = |bytes| ByteSize::new(bytes).decimal();
        let content = format!("{} of content", size(announced));
        let what = match list {
            0 => format!("{content} is"),
            _ => format!("{content} and a list of {} are", size(list)),
        };
        let left = size(left);
        let here = format_args!("{what} announced so far, and {left} may still come");
        Err(Failure::new(FailureCode::Refused, reason).only_here(here))
    }

    pub(super) fn reserve(&self, bytes: u64, list: u64) -> Result<Reservation, Failure> {
        loop {
            self.check(bytes, list)?;
            let left = self.left();
            if let Some(rest) = left.checked_sub(bytes)
                && let Ok(_) = self.0.compare_exchange(left, rest, Relaxed, Relaxed)
            {
                return Ok(Reservation {
                    allowance: self.clone(),
                    unused: bytes,
                });
            }
        }
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
            self.unused += self.allowance.reserve(more, 0)?.keep();
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
        self.allowance.0.fetch_add(self.unused, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_share_it_to_the_last_byte() {
        let allowance = Allowance::new(10);
        let mut first = allowance.clone().reserve(7, 0).unwrap();
        let refused = allowance.reserve(4, 0).unwrap_err();
        assert_eq!(refused.code, FailureCode::Refused);
        let told = "4 B of content is announced so far, and 3 B may still come";
        assert!(refused.to_string().contains(told), "{refused}");
        let second = allowance.reserve(3, 0).unwrap();
        assert_eq!(allowance.left(), 0);
        first.used(5).unwrap();
        drop(first);
        drop(second);
        assert_eq!(allowance.left(), 5);
        let mut third = allowance.reserve(1, 0).unwrap();
        third.used(4).unwrap();
        assert_eq!(allowance.left(), 1);
        assert!(third.used(2).is_err() && third.used(1).is_ok());
        drop(third);
        assert_eq!(allowance.left(), 0);
    }

    #[test]
    fn the_list_counts_too() {
        let allowance = Allowance::new(10);
        assert!(allowance.check(0, LIST + 10).is_ok());
        assert!(allowance.check(0, LIST + 11).is_err());
    }
}
