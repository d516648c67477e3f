//! How far a transfer is, and whether anything of it moves.

use manyway::ConnectionStats;
use manyway::files::{Phase, Progress};

use crate::meter::Direction;

/// How much of a transfer is complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) phase: Phase,
    pub(crate) done: u64,
    pub(crate) total: u64,
    pub(crate) files: u64,
    pub(crate) files_done: u64,
}

impl Completion {
    pub(crate) fn of(progress: &Progress, direction: Direction, stats: &ConnectionStats) -> Self {
        let total = progress.bytes_total();
        let mut done = progress.bytes_done();
        let mut phase = progress.phase();
        if direction == Direction::Sending {
            // Data may wait in the stream's buffer for long: only acknowledged data counts.
            done = done.min(stats.bytes_acked);
            if phase == Phase::Syncing && done < total {
                phase = Phase::Transferring;
            }
        }
        Self {
            phase,
            done,
            total,
            files: progress.files_total(),
            files_done: progress.files_done(),
        }
    }

    /// The part of the bytes that is done.
    pub(crate) fn fraction(&self) -> f64 {
        self.done as f64 / self.total.max(1) as f64
    }
}

/// What has moved. Any change counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    phase: Phase,
    /// Stream bytes that the peer has acknowledged, and that have come from it.
    network: [u64; 2],
    /// Bytes and files of this host's disk, or of the peer's as far as it tells; bytes that were
    /// copied here.
    disk: [u64; 3],
    /// Bytes and files of the list.
    listed: [u64; 2],
}

impl Moved {
    pub(crate) fn of(progress: &Progress, stats: &ConnectionStats) -> Self {
        Self {
            phase: progress.phase(),
            network: [stats.bytes_acked, stats.bytes_received],
            disk: [
                progress.bytes_done(),
                progress.files_done(),
                progress.bytes_copied(),
            ],
            listed: [progress.bytes_total(), progress.files_total()],
        }
    }
}
