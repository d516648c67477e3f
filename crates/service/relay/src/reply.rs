use std::fmt;

/// A datagram for whoever the request came from, never longer than that.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply(Box<[u8]>);

impl Reply {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The datagram.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Reply {
    /// The type alone: the rest is for its receiver.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.0.first().copied().unwrap_or_default();
        write!(f, "Reply({kind:#04x}, {} bytes)", self.0.len())
    }
}
