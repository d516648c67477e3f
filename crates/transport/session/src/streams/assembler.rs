//! Reassembly: bytes arrive in any order, the reader gets them in order, in large pieces.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Received bytes are copied once, to their place in blocks of this size (aligned to it in the
/// stream).
const BLOCK: usize = 64 << 10;

/// The received, unread bytes of a stream.
///
/// Memory is at most 9/8 of what lies between the reader and the highest byte received, rounded
/// outwards to blocks, however the peer cuts its frames: a block with holes has a bit per byte, not
/// a node per fragment.
#[derive(Default, Debug)]
pub(super) struct Assembler {
    /// The next offset the reader gets.
    read: u64,
    /// Block `i` begins at offset `(read / BLOCK + i) × BLOCK`.
    blocks: VecDeque<Block>,
}

impl Assembler {
    /// The next offset the reader gets.
    pub(super) fn read_offset(&self) -> u64 {
        self.read
    }

    /// Stores bytes at `offset`; what was received before stays as it is. The caller has bounded
    /// `offset`.
    pub(super) fn insert(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        let mut at = offset.max(self.read);
        while at < end {
            let index = at / BLOCK as u64;
            let stop = end.min((index + 1) * BLOCK as u64);
            let slot = (index - self.read / BLOCK as u64) as usize;
            if slot >= self.blocks.len() {
                self.blocks.resize_with(slot + 1, Block::default);
            }
            let bytes = &data[(at - offset) as usize..(stop - offset) as usize];
            self.blocks[slot].insert((at % BLOCK as u64) as usize, bytes, index == 0);
            at = stop;
        }
    }

    /// Whether `take` has something to give.
    pub(super) fn is_readable(&self) -> bool {
        self.blocks.front().is_some_and(|b| b.filled > b.taken)
    }

    /// The next bytes in order, at most `max`; up to a block's end.
    pub(super) fn take(&mut self, max: usize) -> Option<Bytes> {
        let front = self.blocks.front_mut()?;
        let data = front.take(max)?;
        if front.taken == BLOCK {
            self.blocks.pop_front();
        }
        self.read += data.len() as u64;
        Some(data)
    }

    /// Whether every byte from the reader to `end` is there.
    pub(super) fn is_complete(&self, end: u64) -> bool {
        let mut reach = self.read;
        for block in &self.blocks {
            reach += (block.filled - block.taken) as u64;
            if block.filled < BLOCK {
                break;
            }
        }
        reach >= end
    }

    /// Bytes allocated, without constant parts.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        let block = |b: &Block| b.data.capacity() + b.arrived.as_ref().map_or(0, |_| BLOCK / 8);
        self.blocks.iter().map(block).sum()
    }
}

/// 64 KiB of a stream.
#[derive(Default, Debug)]
struct Block {
    /// From `taken` to the highest byte received; garbage where nothing has arrived.
    data: BytesMut,
    /// The reader has got everything below.
    taken: usize,
    /// Everything below has arrived.
    filled: usize,
    /// What has arrived above `filled`; from the first hole on.
    arrived: Option<Box<Bits>>,
}

impl Block {
    fn insert(&mut self, at: usize, bytes: &[u8], first: bool) {
        let end = at + bytes.len();
        let mut start = at.max(self.filled);
        if start >= end {
            return;
        }
        if self.arrived.is_none() && start == self.filled {
            self.store(start, &bytes[start - at..], first);
            self.filled = end;
            return;
        }
        let mut arrived = self.arrived.take().unwrap_or_default();
        loop {
            start = arrived.next(false, start, end);
            if start == end {
                break;
            }
            let stop = arrived.next(true, start, end);
            self.store(start, &bytes[start - at..stop - at], first);
            arrived.set(start, stop);
            start = stop;
        }
        self.filled = arrived.next(false, self.filled, BLOCK);
        // Kept while the block has room: where one packet was late, others will be.
        self.arrived = (self.filled < BLOCK).then_some(arrived);
    }

    fn store(&mut self, at: usize, bytes: &[u8], first: bool) {
        let from = at - self.taken;
        let held = self.data.len();
        if from < held {
            let inside = bytes.len().min(held - from);
            self.data[from..from + inside].copy_from_slice(&bytes[..inside]);
            self.data.extend_from_slice(&bytes[inside..]);
            return;
        }
        let need = from + bytes.len();
        if self.data.capacity() < need {
            // A stream may be short: only its first block grows step by step.
            let whole = BLOCK - self.taken;
            let size = if first {
                need.next_power_of_two().clamp(512, whole.max(512))
            } else {
                whole
            };
            self.data.reserve(size - held);
        }
        self.data.resize(from, 0);
        self.data.extend_from_slice(bytes);
    }

    fn take(&mut self, max: usize) -> Option<Bytes> {
        let len = max.min(self.filled - self.taken);
        if len == 0 {
            return None;
        }
        self.taken += len;
        if self.taken == BLOCK {
            return Some(std::mem::take(&mut self.data).freeze());
        }
        Some(self.data.split_to(len).freeze())
    }
}

/// A bit per byte of a block.
#[derive(Debug)]
struct Bits([u64; BLOCK / 64]);

impl Default for Bits {
    fn default() -> Self {
        Bits([0; BLOCK / 64])
    }
}

impl Bits {
    /// The first position in `from..to` whose bit is `value`; `to` when there is none.
    fn next(&self, value: bool, from: usize, to: usize) -> usize {
        let flip = if value { 0 } else { u64::MAX };
        let mut at = from;
        while at < to {
            let word = (self.0[at / 64] ^ flip) >> (at % 64);
            if word != 0 {
                return to.min(at + word.trailing_zeros() as usize);
            }
            at = (at / 64 + 1) * 64;
        }
        to
    }

    fn set(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            let stop = to.min((at / 64 + 1) * 64);
            let ones = u64::MAX >> (64 - (stop - at));
            self.0[at / 64] |= ones << (at % 64);
            at = stop;
        }
    }
}
