//! Why a packet could not be sealed, or did not open.

/// Why a packet could not be sealed. After [`SealError::ConfidentialityLimit`] the connection can
/// send nothing more and must be dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The key has sealed as many packets as is safe and the peer never acknowledged one of them.
    #[error(
        "the packet key is used up after {packets} packets and the peer acknowledged none of them, \
         so the next key can't be taken up: connect again"
    )]
    ConfidentialityLimit {
        /// Packets sealed with the key.
        packets: u64,
    },
    /// The header would end after the buffer does.
    #[error("a header of {header_len} bytes at {start} doesn't fit a buffer of {len} bytes")]
    HeaderOutOfBounds {
        /// Where the packet starts in the buffer.
        start: usize,
        /// Length of the packet's header.
        header_len: usize,
        /// Length of the buffer.
        len: usize,
    },
    /// The payload is longer than the AEAD can seal.
    #[error("the packet is too long to be sealed")]
    TooLong,
}

/// Why a packet did not open. All but [`OpenError::IntegrityLimit`] mean: drop the packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The packet is shorter than a header and a tag.
    #[error("the packet is too short: {len} bytes")]
    TooShort {
        /// The packet's length in bytes.
        len: usize,
    },
    /// No key for the packet's epoch: it is older than the previous one, that one's keys are gone,
    /// or it is further ahead than an honest peer can be.
    #[error(
        "the packet is of epoch {packet}, whose keys are not held; the present one is {current}"
    )]
    UnknownEpoch {
        /// The epoch in the packet's header.
        packet: u8,
        /// The epoch of the last packet that moved the keys on.
        current: u8,
    },
    /// The packet was forged or damaged on the way.
    #[error("the packet is forged or damaged")]
    Forged,
    /// So many packets were forged that the next might slip through: the connection must close.
    #[error(
        "{forged} forged packets arrived, which is this connection's limit: somebody is attacking \
         it; connect again"
    )]
    IntegrityLimit {
        /// Packets that failed to open.
        forged: u64,
    },
}
