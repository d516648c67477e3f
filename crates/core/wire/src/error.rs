/// Why bytes can't be decoded. Names the field at fault.
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
        /// The largest allowed value.
        limit: u64,
    },
    /// A number is smaller than the protocol allows.
    #[error("{what} is {value}, and at least {limit} is needed")]
    TooSmall {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The smallest allowed value.
        limit: u64,
    },
    /// A field has a value without meaning.
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
    /// The datagram's first byte belongs to another kind of datagram, or to none.
    #[error("its first byte is {found:#04x}, which doesn't begin {expected}")]
    WrongType {
        /// The expected kind of datagram.
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
    /// A datagram or field has a wrong length.
    #[error("{what} has {found} bytes instead of {expected}")]
    WrongLength {
        /// The datagram or field.
        what: &'static str,
        /// The right length, in bytes.
        expected: usize,
        /// Its length, in bytes.
        found: usize,
    },
    /// Something that may occur once occurs twice.
    #[error("{what} is given twice")]
    Duplicate {
        /// The field.
        what: &'static str,
    },
    /// Something required is missing.
    #[error("{what} is missing")]
    Missing {
        /// The field.
        what: &'static str,
    },
}
