//! How a path manager and its owner name relays and paths.

/// A relay (the paper's proxy), under whatever number its owner knows it by.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayKey(pub u64);

/// A path: the direct one, or the one through a relay. There is at most one through each.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathKey {
    /// The path without a relay.
    Direct,
    /// The path through this relay.
    Via(RelayKey),
}
