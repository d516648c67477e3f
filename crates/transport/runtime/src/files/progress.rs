//! Progress, readable from any thread while a transfer runs.

use super::summary::Kept;
use manyway_transfer::{SafeName, Totals};
use manyway_units::printable;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a transfer is. Reading it is cheap and never waits for a disk or the network.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    bytes_done: AtomicU64,
    bytes_total: AtomicU64,
    bytes_copied: AtomicU64,
    files_done: AtomicU64,
    files_total: AtomicU64,
    entries: AtomicU64,
    current: Mutex<String>,
}

/// The stages of a transfer, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Greeting the other side.
    Greeting,
    /// Listing what there is to transfer; the totals grow.
    Listing,
    /// Bytes are moving.
    Transferring,
    /// All bytes are there; the receiver brings them to disk.
    Syncing,
    /// Done.
    Done,
}

impl Progress {
    /// A progress at zero, to be shared.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The stage.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Greeting,
            1 => Phase::Listing,
            2 => Phase::Transferring,
            3 => Phase::Syncing,
            _ => Phase::Done,
        }
    }

    /// Bytes of content handed to the stream (sender) or to the disk (receiver).
    pub fn bytes_done(&self) -> u64 {
        self.bytes_done.load(Relaxed)
    }

    /// Bytes that a receiver has copied from a file that is there into the one that replaces it.
    pub fn bytes_copied(&self) -> u64 {
        self.bytes_copied.load(Relaxed)
    }

    /// Bytes of content in all, without what the receiver turns out to have.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total.load(Relaxed)
    }

    /// Files complete and synced at the receiver.
    pub fn files_done(&self) -> u64 {
        self.files_done.load(Relaxed)
    }

    /// Files in all, without those that the receiver has.
    pub fn files_total(&self) -> u64 {
        self.files_total.load(Relaxed)
    }

    /// Entries of the manifest so far.
    pub(super) fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// The name of the file being read (sender) or written (receiver), as it is, which may not be
    /// fit for a terminal; empty before the first.
    pub fn current(&self) -> String {
        self.lock_current().clone()
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Relaxed);
    }

    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes_done.fetch_add(bytes, Relaxed);
    }

    pub(super) fn add_copied(&self, bytes: u64) {
        self.bytes_copied.fetch_add(bytes, Relaxed);
    }

    pub(super) fn set_files_done(&self, files: u64) {
        self.files_done.store(files, Relaxed);
    }

    pub(super) fn set_totals(&self, totals: Totals) {
        self.bytes_total.store(totals.bytes, Relaxed);
        self.files_total.store(totals.files, Relaxed);
        self.entries.store(totals.entries, Relaxed);
    }

    /// The receiver has so much.
    pub(super) fn leave_out(&self, kept: Kept) {
        self.files_total.fetch_sub(kept.files, Relaxed);
        self.bytes_total.fetch_sub(kept.bytes, Relaxed);
    }

    pub(super) fn set_current(&self, name: &str) {
        let mut current = self.lock_current();
        current.clear();
        current.push_str(name);
    }

    /// For errors: "while sending notes.txt".
    pub(super) fn doing(&self, verb: &str) -> String {
        let current = self.current();
        match self.phase() {
            Phase::Greeting => "before the transfer began".to_owned(),
            Phase::Listing => "before the first file".to_owned(),
            Phase::Syncing => "before the receiver had everything on disk".to_owned(),
            _ if current.is_empty() => format!("while {verb}"),
            _ => format!("while {verb} {}", printable(&current, SafeName::MAX_LEN)),
        }
    }

    fn lock_current(&self) -> MutexGuard<'_, String> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
