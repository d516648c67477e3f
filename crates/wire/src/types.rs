use std::fmt;

/// What a datagram is demultiplexed by: random, one per path and direction.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub [u8; 8]);

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionId({:016x})", u64::from_be_bytes(self.0))
    }
}

/// A path of a connection; never reused within it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A stream of a connection: `index << 1 | opener`, with opener 0 for the connection's initiator and
/// 1 for the listener. All streams carry data both ways.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// The `index`-th stream that this side opens.
    pub const fn new(index: u64, initiator: bool) -> Self {
        StreamId(index << 1 | if initiator { 0 } else { 1 })
    }

    /// How many streams its opener opened before it.
    pub const fn index(self) -> u64 {
        self.0 >> 1
    }

    /// Whether the connection's initiator opened it.
    pub const fn is_initiators(self) -> bool {
        self.0 & 1 == 0
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
