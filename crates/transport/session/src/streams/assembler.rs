//! Reassembly: bytes arrive in any order, the reader gets them in order, in large pieces.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Received bytes are copied once, to their place in blocks of this size (aligned to it in the
/// stream).
const BLOCK: usize = 64 << 10;

/// A block in one piece, with a bit per byte.
const WHOLE: usize = BLOCK + BLOCK / 8;
/// From this size on, what lies loose in a block is put in its place: finding it would cost more.
const MOST_LOOSE: usize = WHOLE / 4;
/// Blocks may be whole at once for a fraction of what the reader has got, up to this much: a stream
/// that moves fast needn't copy twice.
const MOST_EARNED: u64 = 256 << 10;
const EARNED_FRACTION: u64 = 4;

/// The received, unread bytes of a stream.
///
/// Memory is charged for what has arrived: a block is whole, with a bit per byte for its holes,
/// only when as many bytes wait for the reader, or many pieces lie loose in it. Before, it holds
/// its beginning, and copies of the pieces behind holes. So memory is at most some nine times the
/// bytes of the frames that fill it, besides [`MOST_EARNED`], and at most 9/8 of what lies between
/// the reader and the highest byte received, rounded outwards to blocks.
#[derive(Default, Debug)]
pub(super) struct Assembler {
    /// The next offset the reader gets.
    read: u64,
    /// Block `i` begins at offset `(read / BLOCK + i) × BLOCK`.
    blocks: VecDeque<Block>,
    /// Bytes that have arrived and weren't read.
    held: usize,
    /// Bytes allocated, without constant parts.
    allocated: usize,
}

impl Assembler {
    /// The next offset the reader gets.
    pub(super) fn read_offset(&self) -> u64 {
        self.read
    }

    /// Bytes allocated, without constant parts.
    pub(super) fn allocated(&self) -> usize {
        self.allocated
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
            let earned = (self.read / EARNED_FRACTION).min(MOST_EARNED) as usize;
            let whole = self.allocated + WHOLE <= 2 * (self.held + bytes.len()) + earned;
            let block = &mut self.blocks[slot];
            let before = block.allocated();
            self.held += block.insert((at % BLOCK as u64) as usize, bytes, whole);
            self.allocated = self.allocated - before + block.allocated();
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
        let before = front.allocated();
        let data = front.take(max)?;
        self.held -= data.len();
        self.allocated = self.allocated - before + front.allocated();
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
}

/// 64 KiB of a stream.
#[derive(Default, Debug)]
struct Block {
    /// From `taken` on: to `filled`, or if the block is whole to the highest byte received, with
    /// garbage where nothing has arrived.
    data: BytesMut,
    /// The reader has got everything below.
    taken: usize,
    /// Everything below has arrived.
    filled: usize,
    above: Above,
}

/// What has arrived above `filled`.
#[derive(Default, Debug)]
enum Above {
    #[default]
    Nothing,
    /// A few pieces, which aren't in their place.
    Loose(Box<Loose>),
    /// The block is whole; its bits from the first hole on.
    Whole(Box<Bits>),
}

impl Block {
    /// Stores bytes; whether the block may be `whole`. How many of them are new.
    fn insert(&mut self, at: usize, bytes: &[u8], whole: bool) -> usize {
        let end = at + bytes.len();
        let start = at.max(self.filled);
        if start >= end {
            return 0;
        }
        let bytes = &bytes[start - at..];
        let whole = whole || bytes.len() > MOST_LOOSE;
        match self.above {
            Above::Nothing if start == self.filled => {
                self.store(start, bytes, whole);
                self.filled = end;
                return bytes.len();
            }
            Above::Whole(_) => {}
            Above::Nothing | Above::Loose(_) if whole => self.make_whole(),
            Above::Nothing => self.above = Above::Loose(Box::default()),
            Above::Loose(_) => {}
        }
        let Above::Loose(loose) = &mut self.above else {
            return self.insert_whole(start, bytes);
        };
        let new = loose.insert(start, bytes);
        self.append_loose();
        let loose = match &self.above {
            Above::Loose(loose) => loose.allocated(),
            _ => 0,
        };
        if loose > MOST_LOOSE || loose > 0 && self.data.capacity() + loose > WHOLE {
            self.make_whole();
        }
        new
    }

    /// Moves the pieces that aren't behind a hole any more to the block's beginning.
    fn append_loose(&mut self) {
        let Above::Loose(mut loose) = std::mem::take(&mut self.above) else {
            return;
        };
        let mut moved = 0;
        while let Some(&piece) = loose.pieces.get(moved)
            && usize::from(piece.start) == self.filled
        {
            self.store(self.filled, loose.bytes(piece), false);
            self.filled = piece.end();
            moved += 1;
        }
        loose.pieces.drain(..moved);
        if !loose.pieces.is_empty() {
            self.above = Above::Loose(loose);
        }
    }

    /// Puts everything in its place.
    fn make_whole(&mut self) {
        let above = std::mem::replace(&mut self.above, Above::Whole(Box::default()));
        if let Above::Loose(loose) = above {
            for &piece in &loose.pieces {
                self.insert_whole(usize::from(piece.start), loose.bytes(piece));
            }
        }
    }

    fn insert_whole(&mut self, mut start: usize, bytes: &[u8]) -> usize {
        let Above::Whole(mut arrived) = std::mem::take(&mut self.above) else {
            return 0;
        };
        let (first, end) = (start, start + bytes.len());
        let mut new = 0;
        loop {
            start = arrived.next(false, start, end);
            if start == end {
                break;
            }
            let stop = arrived.next(true, start, end);
            self.store(start, &bytes[start - first..stop - first], true);
            arrived.set(start, stop);
            new += stop - start;
            start = stop;
        }
        self.filled = arrived.next(false, self.filled, BLOCK);
        if self.filled < BLOCK {
            // Kept while the block has room: where one packet was late, others will be.
            self.above = Above::Whole(arrived);
        }
        new
    }

    fn store(&mut self, at: usize, bytes: &[u8], whole: bool) {
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
            let rest = BLOCK - self.taken;
            let size = if whole {
                rest
            } else {
                need.next_power_of_two().clamp(512, rest.max(512))
            };
            // `reserve` would double what it has, beyond the block.
            let mut data = BytesMut::with_capacity(size);
            data.extend_from_slice(&self.data);
            self.data = data;
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

    fn allocated(&self) -> usize {
        let above = match &self.above {
            Above::Nothing => 0,
            Above::Loose(loose) => loose.allocated(),
            Above::Whole(_) => BLOCK / 8,
        };
        self.data.capacity() + above
    }
}

/// Pieces of a block behind holes, as they came.
#[derive(Default, Debug)]
struct Loose {
    /// In the order of their places, disjoint.
    pieces: Vec<Piece>,
    data: Vec<u8>,
}

#[derive(Copy, Clone, Debug)]
struct Piece {
    start: u16,
    len: u16,
    /// Where in `data` it is.
    at: u16,
}

impl Piece {
    fn end(self) -> usize {
        usize::from(self.start) + usize::from(self.len)
    }
}

impl Loose {
    /// Stores what isn't there yet; how many bytes that is. A piece is shorter than a block: it is
    /// behind a hole.
    fn insert(&mut self, start: usize, bytes: &[u8]) -> usize {
        let (first, end) = (start, start + bytes.len());
        let mut index = self.pieces.partition_point(|piece| piece.end() <= start);
        let (mut start, mut new) = (start, 0);
        while start < end {
            let next = self.pieces.get(index).copied();
            let stop = next.map_or(end, |next| end.min(usize::from(next.start)));
            if start < stop {
                let piece = Piece {
                    start: start as u16,
                    len: (stop - start) as u16,
                    at: self.data.len() as u16,
                };
                self.data
                    .extend_from_slice(&bytes[start - first..stop - first]);
                self.pieces.insert(index, piece);
                new += stop - start;
                index += 1;
            }
            start = next.map_or(end, |next| next.end().max(stop));
            index += 1;
        }
        new
    }

    fn bytes(&self, piece: Piece) -> &[u8] {
        let at = usize::from(piece.at);
        &self.data[at..at + usize::from(piece.len)]
    }

    fn allocated(&self) -> usize {
        self.data.capacity() + self.pieces.capacity() * size_of::<Piece>()
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn byte(offset: u64) -> u8 {
        (offset % 251) as u8
    }

    fn bytes(offset: u64, len: usize) -> Vec<u8> {
        (offset..offset + len as u64).map(byte).collect()
    }

    /// An assembler whose reader has got `blocks` blocks.
    fn read(blocks: u64) -> Assembler {
        let mut assembler = Assembler::default();
        for block in 0..blocks {
            assembler.insert(block * BLOCK as u64, &[7; BLOCK]);
            assert_eq!(assembler.take(usize::MAX).unwrap().len(), BLOCK);
        }
        assert_eq!(assembler.allocated(), 0);
        assembler
    }

    /// A stream that has moved may have whole blocks at once, for a quarter of what it moved.
    #[test]
    fn a_block_is_whole_when_it_is_paid_for() {
        let behind_hole = |assembler: &mut Assembler, block: u64| {
            let before = assembler.allocated();
            assembler.insert(block * BLOCK as u64 + 9, b"x");
            assembler.allocated() - before
        };
        assert!(behind_hole(&mut read(4), 4) < 100);
        assert_eq!(behind_hole(&mut read(5), 5), WHOLE);
        // Up to 256 KiB of them.
        let mut assembler = read(40);
        let costs: Vec<usize> = (40..46)
            .map(|block| behind_hole(&mut assembler, block))
            .collect();
        assert_eq!(costs[..3], [WHOLE; 3]);
        assert!(costs[3..].iter().all(|cost| *cost < 100), "{costs:?}");
        // Or as many bytes wait.
        let mut assembler = Assembler::default();
        assembler.insert(0, &[7; WHOLE / 2]);
        assert!(assembler.allocated() <= BLOCK);
        assert!(behind_hole(&mut assembler, 1) < 100);
        assembler.insert(WHOLE as u64 / 2, &[7; BLOCK - WHOLE / 2]);
        assert!(behind_hole(&mut assembler, 2) < 100);
        assembler.insert(BLOCK as u64 + 100, &[7; 4000]);
        assert!(assembler.allocated() < BLOCK + 10_000);
        assembler.insert(BLOCK as u64 + 9000, &[7; 8000]);
        let both = BLOCK + WHOLE..BLOCK + WHOLE + 100;
        assert!(both.contains(&assembler.allocated()));
    }

    #[test]
    fn the_beginning_grows_by_doubling() {
        let mut gap = Assembler::default();
        gap.insert(0, &[7; 2000]);
        gap.insert(5000, &[7; 1000]);
        assert!(gap.allocated() <= 8192, "{}", gap.allocated());
        let mut assembler = Assembler::default();
        let mut sizes = std::collections::BTreeSet::new();
        for offset in 0..BLOCK as u64 {
            assembler.insert(offset, &[byte(offset)]);
            assert!(assembler.allocated() <= (2 * (offset as usize + 1)).max(512));
            sizes.insert(assembler.allocated());
        }
        assert_eq!((sizes.len(), assembler.allocated()), (8, BLOCK));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert { at: u64, len: usize },
        Next { ahead: u64, len: usize },
        Take(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let len = || prop_oneof![1usize..20, 1usize..2000, 1usize..70_000];
        prop_oneof![
            3 => (0u64..200_000, len()).prop_map(|(at, len)| Step::Insert { at, len }),
            3 => (0u64..300, 1usize..300).prop_map(|(at, len)| Step::Insert { at, len }),
            3 => (0u64..3, len()).prop_map(|(ahead, len)| Step::Next { ahead, len }),
            2 => len().prop_map(Step::Take),
        ]
    }

    proptest! {
        /// Against a model that knows of each byte whether it has arrived.
        #[test]
        fn every_byte_comes_once_in_its_place_and_is_charged(
            steps in prop::collection::vec(step(), 1..80),
        ) {
            let mut assembler = Assembler::default();
            let mut arrived = vec![false; 8 << 20];
            let (mut read, mut reach, mut held) = (0u64, 0u64, 0);
            for step in steps {
                let (at, len) = match step {
                    Step::Take(max) => {
                        prop_assert_eq!(assembler.is_readable(), read < reach);
                        let taken = assembler.take(max);
                        prop_assert_eq!(taken.is_some(), read < reach);
                        let Some(taken) = taken else { continue };
                        prop_assert!(taken.len() <= max && taken.len() as u64 <= reach - read);
                        prop_assert_eq!(&taken[..], bytes(read, taken.len()));
                        read += taken.len() as u64;
                        held -= taken.len();
                        prop_assert_eq!(assembler.read_offset(), read);
                        (0, 0)
                    }
                    Step::Insert { at, len } => (at, len),
                    Step::Next { ahead, len } => (reach + ahead, len),
                };
                assembler.insert(at, &bytes(at, len));
                for byte in at.max(read)..at + len as u64 {
                    held += usize::from(!std::mem::replace(&mut arrived[byte as usize], true));
                }
                while arrived[reach as usize] {
                    reach += 1;
                }
                prop_assert!(assembler.is_complete(reach) && !assembler.is_complete(reach + 1));
                prop_assert_eq!(assembler.held, held);
                let blocks = assembler.blocks.iter().map(Block::allocated);
                prop_assert_eq!(assembler.allocated(), blocks.clone().sum::<usize>());
                prop_assert!(blocks.clone().all(|block| block <= WHOLE));
                for block in &assembler.blocks {
                    if let Above::Loose(loose) = &block.above {
                        prop_assert!(!loose.pieces.is_empty());
                        prop_assert!(loose.allocated() <= MOST_LOOSE);
                        let size = loose.data.len() + 6 * loose.pieces.len();
                        prop_assert!(loose.allocated() >= size);
                    }
                }
            }
        }
    }
}
