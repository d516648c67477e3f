//! What was written and isn't acknowledged: segments of bytes, found by offset.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Writes smaller than this are copied together: a segment of its own would cost more in
/// bookkeeping, and a short slice may keep a large buffer of the writer's alive.
const COPY_BELOW: usize = 4 << 10;
/// Small writes are gathered in blocks of at most this size.
const GATHER: usize = 64 << 10;
/// A segment from this size on is cut down by copying once only a small part of it is
/// unacknowledged...
const COMPACT_FROM: usize = 128 << 10;
/// ...namely this fraction, so that copying costs little per byte sent.
const COMPACT_FRACTION: usize = 16;

/// The unacknowledged bytes of one stream. Large writes are kept as they come, without copying.
#[derive(Default, Debug)]
pub(super) struct SendBuffer {
    segments: VecDeque<Segment>,
    /// Small writes that are not yet a segment; they end at `end`.
    tail: BytesMut,
    end: u64,
    /// The segment that was read last: most reads go on from there.
    cursor: usize,
}

#[derive(Debug)]
struct Segment {
    start: u64,
    data: Bytes,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + self.data.len() as u64
    }
}

impl SendBuffer {
    /// The offset behind the last byte written.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Appends bytes.
    pub(super) fn push(&mut self, data: Bytes) {
        if data.len() < COPY_BELOW {
            if self.tail.len() + data.len() > GATHER {
                self.seal();
            }
            self.tail.extend_from_slice(&data);
            self.end += data.len() as u64;
        } else {
            self.seal();
            self.push_segment(data);
        }
    }

    /// The bytes from `offset` on, `len` of them; they must have been written and not released.
    pub(super) fn get(&mut self, offset: u64, len: usize) -> Bytes {
        let end = offset + len as u64;
        if end > self.end - self.tail.len() as u64 {
            self.seal();
        }
        let mut index = self.find(offset);
        self.cursor = index;
        let Some(first) = self.segments.get(index) else {
            debug_assert_eq!(len, 0, "bytes at {offset} were never written");
            return Bytes::new();
        };
        let from = (offset - first.start) as usize;
        if from + len <= first.data.len() {
            return first.data.slice(from..from + len);
        }
        let mut gathered = BytesMut::with_capacity(len);
        let mut from = from;
        while gathered.len() < len {
            let data = &self.segments[index].data;
            let to = data.len().min(from + len - gathered.len());
            gathered.extend_from_slice(&data[from..to]);
            (index, from) = (index + 1, 0);
        }
        gathered.freeze()
    }

    /// Frees what lies below `offset`.
    pub(super) fn release(&mut self, offset: u64) {
        if offset == self.end {
            // Everything: don't keep the gathering block of a stream that may never write again.
            *self = SendBuffer {
                end: self.end,
                ..SendBuffer::default()
            };
            return;
        }
        if offset > self.end - self.tail.len() as u64 {
            self.seal();
        }
        while self.segments.front().is_some_and(|s| s.end() <= offset) {
            self.segments.pop_front();
            self.cursor = self.cursor.saturating_sub(1);
        }
        if let Some(front) = self.segments.front_mut() {
            let released = offset.saturating_sub(front.start) as usize;
            let live = front.data.len() - released;
            if front.data.len() >= COMPACT_FROM && live <= front.data.len() / COMPACT_FRACTION {
                front.data = Bytes::copy_from_slice(&front.data[released..]);
                front.start = offset;
            }
        }
    }

    /// The segment that has `offset`.
    fn find(&self, offset: u64) -> usize {
        let here = |s: &Segment| s.start <= offset && offset < s.end();
        let near = self.cursor..self.segments.len().min(self.cursor + 2);
        near.into_iter()
            .find(|&i| here(&self.segments[i]))
            .unwrap_or_else(|| self.segments.partition_point(|s| s.end() <= offset))
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            let data = self.tail.split().freeze();
            self.end -= data.len() as u64;
            self.push_segment(data);
        }
    }

    fn push_segment(&mut self, data: Bytes) {
        let start = self.end;
        self.end += data.len() as u64;
        self.segments.push_back(Segment { start, data });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(range: std::ops::Range<u64>) -> Vec<u8> {
        range.map(|i| (i * 7 % 251) as u8).collect()
    }

    #[test]
    fn large_writes_are_not_copied_and_small_ones_are_gathered() {
        let mut buffer = SendBuffer::default();
        let large = Bytes::from(pattern(0..10_000));
        buffer.push(large.clone());
        assert_eq!(buffer.get(100, 50).as_ptr(), large[100..].as_ptr());
        for start in (10_000..20_000).step_by(10) {
            buffer.push(Bytes::from(pattern(start..start + 10)));
        }
        assert_eq!(buffer.get(10_000, 10_000), pattern(10_000..20_000));
        assert_eq!(buffer.segments.len(), 2);
    }

    #[test]
    fn reads_across_segments_and_releases_the_front() {
        let mut buffer = SendBuffer::default();
        let mut end = 0;
        for len in [5000, 1, 4096, 100, 70_000, 3] {
            buffer.push(Bytes::from(pattern(end..end + len)));
            end += len;
        }
        assert_eq!(buffer.end(), end);
        for offset in (0..end - 6000).step_by(997) {
            buffer.release(offset);
            assert_eq!(buffer.get(offset, 6000), pattern(offset..offset + 6000));
        }
        buffer.release(end - 1);
        assert_eq!(buffer.segments.len(), 1);
        assert_eq!(buffer.get(end - 1, 1), pattern(end - 1..end));
        buffer.release(end);
        assert_eq!((buffer.segments.len(), buffer.end()), (0, end));
    }

    #[test]
    fn a_small_rest_does_not_pin_a_large_buffer() {
        let mut buffer = SendBuffer::default();
        let large = Bytes::from(pattern(0..1_000_000));
        buffer.push(large.clone());
        buffer.release(900_000);
        assert!(!large.is_unique());
        buffer.release(950_000);
        assert!(large.is_unique());
        assert_eq!(buffer.get(950_000, 50_000), pattern(950_000..1_000_000));
    }
}
