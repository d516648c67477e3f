//! Why one side closes a connection: application codes of CLOSE frames, and what the other side
//! makes of them.

use std::{error, fmt};

use manyway::CloseReason;

/// All is done.
pub(crate) const DONE: u64 = 0x100;
/// It has failed.
pub(crate) const FAILED: u64 = 0x101;
/// A user has stopped it.
pub(crate) const INTERRUPTED: u64 = 0x102;
/// Nothing has moved for `--timeout`.
pub(crate) const TIMED_OUT: u64 = 0x103;
/// The listener's user hasn't named this peer in `--allow-peer`.
pub(crate) const NOT_ALLOWED: u64 = 0x104;

/// The peer has closed the connection, and said why.
#[derive(Debug)]
pub(crate) struct ClosedByPeer {
    /// What was going on; may be empty.
    pub(crate) doing: String,
    pub(crate) reason: String,
    pub(crate) code: u64,
}

impl ClosedByPeer {
    /// If it did, and said why.
    pub(crate) fn of(reason: &CloseReason, doing: &str) -> Option<Self> {
        match reason {
            CloseReason::Peer { code, reason } if !reason.is_empty() => Some(Self {
                doing: doing.to_owned(),
                reason: reason.clone(),
                code: *code,
            }),
            _ => None,
        }
    }
}

impl fmt::Display for ClosedByPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { doing, reason, .. } = self;
        let space = if doing.is_empty() { "" } else { " " };
        write!(f, "the peer closed the connection{space}{doing}: {reason}")
    }
}

impl error::Error for ClosedByPeer {}
