//! What every path is to carry: the data that left first on one of them, for the others.
//!
//! It owns the record of what was sent, and bounds it. How far each path has come is the path's;
//! what has arrived meanwhile is known to the streams.

use std::collections::VecDeque;

use crate::streams::StreamRange;

/// Packets of data that are remembered. A path further behind than that leaves out what is between.
const MAX_RANGES: usize = 4096;

/// What was sent, in the order in which it was sent first.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Number of the oldest range remembered.
    first: u64,
    ranges: VecDeque<StreamRange>,
}

/// How far a path has come in [`Copies`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    number: u64,
    /// Bytes of that range that it has carried.
    within: u32,
}

impl Cursor {
    /// The number of the range that the path carries next.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Copies {
    /// Data left for the first time.
    pub(super) fn push(&mut self, range: StreamRange) {
        if self.ranges.len() == MAX_RANGES {
            self.ranges.pop_front();
            self.first += 1;
        }
        self.ranges.push_back(range);
    }

    /// Where a path is that has carried everything.
    pub(super) fn end(&self) -> Cursor {
        Cursor {
            number: self.first + self.ranges.len() as u64,
            within: 0,
        }
    }

    /// What a path carries next.
    pub(super) fn at(&self, cursor: &mut Cursor) -> Option<StreamRange> {
        if cursor.number < self.first {
            *cursor = Cursor {
                number: self.first,
                within: 0,
            };
        }
        let range = self.ranges.get((cursor.number - self.first) as usize)?;
        Some(StreamRange {
            offset: range.offset + u64::from(cursor.within),
            len: range.len - cursor.within,
            ..*range
        })
    }

    /// The path has carried the first `len` bytes of what is left of `range`, or needs not.
    pub(super) fn pass(&self, cursor: &mut Cursor, range: &StreamRange, until: u64) {
        if until < range.end() {
            cursor.within += (until - range.offset) as u32;
        } else {
            *cursor = Cursor {
                number: cursor.number + 1,
                within: 0,
            };
        }
    }

    /// Memory that it takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.ranges.capacity() * size_of::<StreamRange>()
    }
}
