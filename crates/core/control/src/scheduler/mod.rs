//! Schedulers: which path carries the next packet of a connection's data.
//!
//! It owns the schedulers' names and their decision whether to wait for a faster path. Which paths
//! there are and which may send is known to who asks.

#[cfg(test)]
mod tests;
mod waiting;

use std::fmt;
use std::str::FromStr;

pub use waiting::{Backlog, Pipe, Waiting};

/// How a connection chooses the path for each packet of its data.
///
/// All but [`Redundant`](Self::Redundant) take the path with the shortest round-trip time of those
/// whose window has room. They differ in what they do when that isn't the fastest path of all.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// Waits for the fastest path while that would deliver all that is left sooner, or while the
    /// receive window would have to wait for the slower path. What a slower path has in flight is
    /// sent again on a faster one that has nothing else to do and delivers it sooner.
    #[default]
    EarliestDelivery,
    /// Never waits: the default scheduler of Linux (`mptcp.org`, "minRTT"; Raiciu et al., NSDI
    /// 2012, §4.2), without its penalties.
    MinRtt,
    /// ECF: waits for the fastest path if the transfer is complete sooner by that (Lim, Nahum,
    /// Towsley and Gibbens, "ECF: An MPTCP Path Scheduler to Manage Heterogeneous Paths", CoNEXT
    /// 2017, Algorithm 1).
    Ecf,
    /// BLEST: waits for the fastest path if data on the slower one would block the send window
    /// (Ferlin, Alay, Mehani and Boreli, "BLEST: Blocking Estimation-based MPTCP Scheduler for
    /// Heterogeneous Networks", IFIP Networking 2016, §III).
    Blest,
    /// Sends every byte on every path, each as far as its window allows (the scheduler `redundant`
    /// of `mptcp.org`). What has arrived on one path isn't sent on the others any more.
    Redundant,
}

impl Scheduler {
    /// Every scheduler, the default first.
    pub const ALL: [Self; 5] = [
        Self::EarliestDelivery,
        Self::MinRtt,
        Self::Ecf,
        Self::Blest,
        Self::Redundant,
    ];

    /// Its name, as [`FromStr`] takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EarliestDelivery => "earliest-delivery",
            Self::MinRtt => "minrtt",
            Self::Ecf => "ecf",
            Self::Blest => "blest",
            Self::Redundant => "redundant",
        }
    }

    /// Whether data in flight on a slower path is sent again on a faster one that has nothing else
    /// to do.
    pub const fn overtakes(self) -> bool {
        matches!(self, Self::EarliestDelivery)
    }

    /// Whether every path carries all data.
    pub const fn duplicates(self) -> bool {
        matches!(self, Self::Redundant)
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheduler {
    type Err = UnknownScheduler;

    fn from_str(name: &str) -> Result<Self, UnknownScheduler> {
        let known = Self::ALL.into_iter().find(|known| known.name() == name);
        known.ok_or_else(|| UnknownScheduler(name.to_owned()))
    }
}

/// A name that no scheduler has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no scheduler `{0}`: choose `earliest-delivery`, `minrtt`, `ecf`, `blest` or \
     `redundant`"
)]
pub struct UnknownScheduler(String);
