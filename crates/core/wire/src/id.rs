use std::fmt;

/// Bytes of a [`ConnectionId`].
pub const CID_LEN: usize = 8;

/// Bytes of a ticket's id.
pub const TICKET_ID_LEN: usize = 8;

/// The id by which a receiver finds a packet's connection and path: random, one for each path and
/// direction.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub [u8; CID_LEN]);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// A path's number in its connection. 0 is the path of the handshake; no number is used twice.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A stream's number in its connection, at most 2^62 - 1. Bit 0 says who opened it (0: the
/// initiator, 1: the listener); the other bits count that side's streams. All streams are
/// bidirectional.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// The number of the stream with this index, from 0, of the connection's initiator or its
    /// listener.
    pub const fn new(initiator: bool, index: u64) -> Self {
        Self(index << 1 | !initiator as u64)
    }

    /// Whether the connection's initiator opened the stream.
    pub const fn is_initiators(self) -> bool {
        self.0 & 1 == 0
    }

    /// How many streams the same side has opened before.
    pub const fn index(self) -> u64 {
        self.0 >> 1
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_bit_tells_the_opener() {
        assert_eq!(StreamId::new(true, 0), StreamId(0));
        assert_eq!(StreamId::new(false, 0), StreamId(1));
        assert_eq!(StreamId::new(true, 5), StreamId(10));
        let stream = StreamId::new(false, 7);
        assert!(!stream.is_initiators());
        assert_eq!(stream.index(), 7);
    }

    #[test]
    fn paths_and_streams_print_as_numbers() {
        assert_eq!(format!("{} {:>3}", PathId(7), StreamId(12)), "7  12");
    }

    #[test]
    fn connection_ids_print_as_hexadecimal() {
        assert_eq!(
            ConnectionId([0, 1, 2, 3, 0xfc, 0xfd, 0xfe, 0xff]).to_string(),
            "00010203fcfdfeff"
        );
    }
}
