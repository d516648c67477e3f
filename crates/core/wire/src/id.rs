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

/// Who sends on a stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamKind {
    /// Both sides.
    Bidirectional,
    /// The side that opened it.
    Unidirectional,
}

impl StreamKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Bidirectional, Self::Unidirectional];
}

/// A stream's number in its connection, at most 2^62 - 1 (RFC 9000 §2.1). Bit 0 says who opened it
/// (0: the initiator, 1: the listener), bit 1 whether it is unidirectional; the other bits count
/// that side's streams of that kind.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// The number of the stream with this index, from 0, among those of its kind that the
    /// connection's initiator opens, or its listener.
    pub const fn new(initiator: bool, kind: StreamKind, index: u64) -> Self {
        Self(index << 2 | (kind as u64) << 1 | !initiator as u64)
    }

    /// Whether the connection's initiator opened the stream.
    pub const fn is_initiators(self) -> bool {
        self.0 & 1 == 0
    }

    /// Who sends on the stream.
    pub const fn kind(self) -> StreamKind {
        match self.0 & 2 {
            0 => StreamKind::Bidirectional,
            _ => StreamKind::Unidirectional,
        }
    }

    /// How many streams of the kind the same side has opened before.
    pub const fn index(self) -> u64 {
        self.0 >> 2
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
    fn the_lowest_bits_tell_the_opener_and_the_kind() {
        use StreamKind::{Bidirectional, Unidirectional};
        assert_eq!(StreamId::new(true, Bidirectional, 0), StreamId(0));
        assert_eq!(StreamId::new(false, Bidirectional, 0), StreamId(1));
        assert_eq!(StreamId::new(true, Unidirectional, 0), StreamId(2));
        assert_eq!(StreamId::new(true, Bidirectional, 5), StreamId(20));
        for kind in StreamKind::ALL {
            let stream = StreamId::new(false, kind, 7);
            assert!(!stream.is_initiators());
            assert_eq!((stream.kind(), stream.index()), (kind, 7));
        }
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
