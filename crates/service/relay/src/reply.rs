use std::fmt;

/// A datagram to the source of a request, never longer than the request.
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
    /// Shows the type only: the rest is for the receiver.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.0.first().copied().unwrap_or_default();
        write!(f, "Reply({kind:#04x}, {} bytes)", self.0.len())
    }
}
