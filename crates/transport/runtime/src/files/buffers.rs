//! Buffers that circulate between a blocking thread and the async side.

use std::sync::{Mutex, PoisonError};

/// Length of a buffer: large enough to make thread hand-overs and system calls cheap, small enough
/// for the cache.
pub(super) const BUFFER: usize = 256 << 10;
/// Buffers in a queue between the threads.
pub(super) const QUEUE: usize = 6;

/// A buffer of [`BUFFER`] initialised bytes, of which the first `len` are in use.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) bytes: Box<[u8]>,
    pub(super) len: usize,
    /// How many of them are file content, for progress.
    pub(super) content: u64,
}

impl Buffer {
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Buffers at rest.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Vec<Box<[u8]>>>);

impl Pool {
    pub(super) fn take(&self) -> Buffer {
        let rested = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Buffer {
            bytes: rested.unwrap_or_else(|| vec![0; BUFFER].into_boxed_slice()),
            len: 0,
            content: 0,
        }
    }

    pub(super) fn put(&self, buffer: Buffer) {
        let mut resting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if resting.len() < QUEUE {
            resting.push(buffer.bytes);
        }
    }
}
