/// Why bytes are not what they should be. Names the field at fault.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the field does.
    #[error("it ends in the middle of {what}")]
    Truncated {
        /// The field.
        what: &'static str,
    },
    /// A number is larger than the protocol allows.
    #[error("{what} is {value}, and at most {limit} is allowed")]
    TooLarge {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The largest value it may have.
        limit: u64,
    },
    /// A number is smaller than the protocol allows.
    #[error("{what} is {value}, and at least {limit} is needed")]
    TooSmall {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The smallest value it may have.
        limit: u64,
    },
    /// A field has none of the values that mean something.
    #[error("{what} is malformed")]
    Malformed {
        /// The field.
        what: &'static str,
    },
    /// The frame type is unknown.
    #[error("frame type {kind:#04x} is unknown")]
    UnknownFrame {
        /// The type byte.
        kind: u8,
    },
    /// The datagram's first byte is that of another kind of datagram, or of none.
    #[error("its first byte is {found:#04x}, which doesn't begin {expected}")]
    WrongType {
        /// The kind of datagram that was asked for.
        expected: &'static str,
        /// The first byte.
        found: u8,
    },
    /// The peer speaks another version of the protocol.
    #[error(
        "it is of protocol version {found} and this release speaks version {version}: install the \
         same release on both hosts",
        version = crate::VERSION
    )]
    UnsupportedVersion {
        /// The version byte.
        found: u8,
    },
    /// A datagram or field has not the length it must have.
    #[error("{what} has {found} bytes instead of {expected}")]
    WrongLength {
        /// The datagram or field.
        what: &'static str,
        /// The length it must have, in bytes.
        expected: usize,
        /// The length it has, in bytes.
        found: usize,
    },
    /// Something that may be given once is given twice.
    #[error("{what} is given twice")]
    Duplicate {
        /// The field.
        what: &'static str,
    },
    /// Something that must be given isn't.
    #[error("{what} is missing")]
    Missing {
        /// The field.
        what: &'static str,
    },
}
