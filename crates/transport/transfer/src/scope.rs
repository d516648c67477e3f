//! What a sender's manifest speaks for.

use crate::filter::Filter;

/// How to read a manifest, beside what it lists: which names are missing because the sender doesn't
/// have them, and whether anything is to be done at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The top is a directory of the sender: what the manifest doesn't name there, the sender
    /// doesn't have.
    pub top: bool,
    /// The sender only wants to know what would be sent and deleted.
    pub dry_run: bool,
    /// Which names the sender has left out. It may have them or not.
    pub filter: Filter,
}

impl Scope {
    const TOP: u8 = 1;
    const DRY_RUN: u8 = 2;

    /// The flags, as they travel.
    pub(crate) fn flags(&self) -> u8 {
        (u8::from(self.top) * Self::TOP) | (u8::from(self.dry_run) * Self::DRY_RUN)
    }

    /// From flags that have travelled; `None`: there are others.
    pub(crate) fn from_flags(flags: u8) -> Option<Self> {
        (flags & !(Self::TOP | Self::DRY_RUN) == 0).then(|| Self {
            top: flags & Self::TOP != 0,
            dry_run: flags & Self::DRY_RUN != 0,
            filter: Filter::default(),
        })
    }
}
