//! The target of the encoders: a buffer, or a counter that gives the encoded length. So one
//! function per message defines both its bytes and its length.

use bytes::BufMut;

use crate::varint;

/// Takes an encoder's output.
pub(crate) trait Sink {
    fn byte(&mut self, byte: u8);
    fn zeros(&mut self, count: usize);
    fn slice(&mut self, bytes: &[u8]);
    fn varint(&mut self, value: u64);
}

impl<B: BufMut> Sink for B {
    fn byte(&mut self, byte: u8) {
        self.put_u8(byte);
    }

    fn zeros(&mut self, count: usize) {
        self.put_bytes(0, count);
    }

    fn slice(&mut self, bytes: &[u8]) {
        self.put_slice(bytes);
    }

    fn varint(&mut self, value: u64) {
        varint::put(self, value);
    }
}

/// Counts bytes and keeps none.
pub(crate) struct Counter(usize);

/// The number of bytes that `write` writes.
pub(crate) fn count(write: impl FnOnce(&mut Counter)) -> usize {
    let mut counter = Counter(0);
    write(&mut counter);
    counter.0
}

impl Sink for Counter {
    fn byte(&mut self, _: u8) {
        self.0 += 1;
    }

    fn zeros(&mut self, count: usize) {
        self.0 += count;
    }

    fn slice(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn varint(&mut self, value: u64) {
        self.0 += varint::len(value);
    }
}
