//! The table `relays` of a flow.

use manyway_control::paths;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::quantity::TimeSpan;

/// How mPath's path manager gets its relays and uses them.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Relays {
    /// The number of relays that the registration server returns at a time, drawn at random from
    /// all. Default: all of them.
    #[schemars(range(min = 1))]
    pub subset: Option<u32>,
    /// The largest number of relays that the manager knows; it then asks for no more. Default:
    /// 4096.
    #[schemars(range(min = 1))]
    pub max_known: Option<u32>,
    /// The largest number of open proxied paths at a time. Default: 256.
    #[schemars(range(min = 1))]
    pub max_open: Option<u32>,
    /// Which relay's path the manager opens once it has used every relay. Default: "best".
    pub reuse: Option<Reuse>,
    /// How long the manager doesn't use a relay after closing its path; twice as long after the
    /// second time, and so on up to an hour. Default: "60 s".
    pub rest: Option<TimeSpan>,
}

/// Which relay gets a new path when all have been used, by what its paths delivered per second of
/// their lives.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// The best relay without an open path, if it was better than the worst relay with one, or if
    /// no path is open.
    Best,
    /// The best relay without an open path.
    BestIdle,
}

impl From<Reuse> for paths::Reuse {
    fn from(reuse: Reuse) -> Self {
        match reuse {
            Reuse::Best => paths::Reuse::Best,
            Reuse::BestIdle => paths::Reuse::BestIdle,
        }
    }
}
