//! The table `relays` of a flow.

use manyway_control::paths;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::quantity::TimeSpan;

/// How mPath's path manager gets its relays and uses them.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Relays {
    /// The registration server gives so many relays at a time, drawn at random from all. Default:
    /// all of them.
    #[schemars(range(min = 1))]
    pub subset: Option<u32>,
    /// The manager knows at most so many, and asks for no more then. Default: 4096.
    #[schemars(range(min = 1))]
    pub max_known: Option<u32>,
    /// At most so many proxied paths are open at a time. Default: 256.
    #[schemars(range(min = 1))]
    pub max_open: Option<u32>,
    /// Whose path is opened once every relay has been used. Default: "best".
    pub reuse: Option<Reuse>,
    /// A relay whose path was closed for now is left alone for so long, twice as long after the
    /// second time, and so on up to an hour. Default: "60 s".
    pub rest: Option<TimeSpan>,
}

/// Which relay gets a new path when all have been used, by what its paths delivered per second of
/// their lives.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// The best of those without an open path, if it did better than the worst of those with one,
    /// or if there are none.
    Best,
    /// The best of those without an open path.
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
