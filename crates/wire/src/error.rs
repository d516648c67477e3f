/// Bytes that are not what they should be. Nothing of them may be used.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a field.
    #[error("{what} is cut off")]
    Truncated {
        /// What was being read.
        what: &'static str,
    },
    /// A field has a value it may not have.
    #[error("{what} is invalid")]
    Invalid {
        /// What was being read.
        what: &'static str,
    },
    /// The bytes go on where they should end.
    #[error("{what} has bytes left over")]
    TrailingBytes {
        /// What was being read.
        what: &'static str,
    },
    /// A frame type that doesn't exist.
    #[error("frame type {0:#x} is unknown")]
    UnknownFrame(u8),
    /// A protocol version that this release doesn't speak.
    #[error("protocol version {0} is not spoken here: both sides need the same release")]
    UnknownVersion(u8),
    /// Another kind of datagram.
    #[error("the datagram is not {expected}")]
    OtherType {
        /// What was expected.
        expected: &'static str,
    },
}
