//! Keeps a reserve of the disk free.

use super::tree::Dir;
use manyway_transfer::{Failure, FailureCode};
use manyway_units::ByteSize;
use nix::sys::statvfs::fstatvfs;
use std::sync::Arc;

/// Most that is kept free, in bytes; of small file systems a hundredth.
const RESERVE: u64 = 100_000_000;
/// How many bytes may arrive between two looks at the free space: other transfers fill it, too.
const INTERVAL: u64 = 16 << 20;

/// The space in the receiving directory's file system.
#[derive(Debug)]
pub(super) struct Space {
    root: Arc<Dir>,
    since_last: u64,
}

/// Bytes free, and how many of them are to stay so.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Room {
    free: u64,
    reserve: u64,
}

impl Room {
    fn of(free: u64, size: u64) -> Self {
        Self {
            free,
            reserve: RESERVE.min(size / 100),
        }
    }

    fn admits(self, bytes: u64) -> bool {
        bytes
            .checked_add(self.reserve)
            .is_some_and(|bytes| bytes <= self.free)
    }
}

impl Space {
    pub(super) fn new(root: Arc<Dir>) -> Self {
        Self {
            root,
            since_last: 0,
        }
    }

    /// Refuses a manifest that doesn't fit.
    pub(super) fn admit(&self, bytes: u64) -> Result<(), Failure> {
        self.check(bytes)
    }

    /// Content was written, or something of the list of entries.
    pub(super) fn wrote(&mut self, bytes: u64) -> Result<(), Failure> {
        self.since_last += bytes;
        if self.since_last < INTERVAL {
            return Ok(());
        }
        self.since_last = 0;
        self.check(0)
    }

    fn check(&self, bytes: u64) -> Result<(), Failure> {
        // A file system that doesn't tell is written to until it is full.
        let Some(room) = self.room().filter(|room| !room.admits(bytes)) else {
            return Ok(());
        };
        let reason = "there isn't enough room on the receiver's disk; make room there, or receive \
                      into a directory on another disk";
        let here = format_args!(
            "{} are free, {} are still to be received, and {} must stay free",
            ByteSize::new(room.free).decimal(),
            ByteSize::new(bytes).decimal(),
            ByteSize::new(room.reserve).decimal()
        );
        Err(Failure::new(FailureCode::DiskFull, reason).only_here(here))
    }

    fn room(&self) -> Option<Room> {
        let stat = fstatvfs(&*self.root).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.fragment_size());
        #[allow(clippy::useless_conversion, reason = "macOS has 32 bits for them")]
        let (free, all) = (stat.blocks_available().into(), stat.blocks().into());
        Some(Room::of(bytes(free), bytes(all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_or_100_mb_stay_free() {
        let stick = Room::of(1000, 2000);
        assert!(stick.admits(980) && !stick.admits(981));
        let disk = Room::of(1 << 40, 1 << 42);
        assert!(disk.admits((1 << 40) - RESERVE) && !disk.admits((1 << 40) - RESERVE + 1));
        assert!(!disk.admits(u64::MAX));
    }
}
