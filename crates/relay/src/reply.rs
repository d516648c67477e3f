use std::fmt;

use manyway_wire::relay::MINTED_MAX_LEN;

/// A datagram for whoever the request came from, never longer than that.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Reply {
    bytes: [u8; MINTED_MAX_LEN],
    len: usize,
}

impl Reply {
    /// `bytes`, of which there are at most [`MINTED_MAX_LEN`].
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut whole = [0; MINTED_MAX_LEN];
        whole[..bytes.len()].copy_from_slice(bytes);
        Self {
            bytes: whole,
            len: bytes.len(),
        }
    }

    /// The datagram.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Debug for Reply {
    /// The type alone: the rest is for its receiver.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({:#04x}, {} bytes)", self.bytes[0], self.len)
    }
}
