//! The table `[overlay]`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, IntoDeserializer, SeqAccess, Visitor};

use crate::quantity::{Bandwidth, QueueLimit, TimeSpan, WholePackets};

/// An overlay: sources that send to one destination through relays that they choose, with the
/// application-level rate control of the overlay paper.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// How many sources there are. Default: as many as `selection` has.
    #[schemars(range(min = 1))]
    pub sources: Option<u32>,
    /// Each source's demand: one rate for all, or a list from which each source draws one at
    /// random, all with equal probability.
    #[schemars(required)]
    pub demand: Option<Demand>,
    /// How many relays there are. Default: as many as sources.
    #[schemars(range(min = 1))]
    pub relays: Option<u32>,
    /// b: relay j has a bandwidth to the destination in proportion to 1/j^b; 0 to 10. Default: 0.
    #[schemars(range(min = 0, max = 10))]
    pub skew: Option<f64>,
    /// f: the sum of the relays' bandwidths divided by the sum of the demands. Default: 1.
    pub ratio: Option<f64>,
    /// The bandwidth of each relay to the destination; replaces `relays`, `skew` and `ratio`.
    pub bandwidths: Option<Vec<Bandwidth>>,
    /// k: the number of paths of each source, through different relays; at most 256. Default: 2.
    #[schemars(range(min = 1, max = 256))]
    pub paths: Option<u32>,
    /// How a source chooses its relays. Default: "uniform".
    pub choice: Option<RelayChoice>,
    /// For the proportional choice: the largest relative error of a source's estimate of a relay's
    /// bandwidth; 0 to below 1. Default: 0.5, the paper's.
    pub bandwidth_error: Option<f64>,
    /// The relays of each source, counted from 1; replaces `choice`.
    pub selection: Option<Vec<Vec<u32>>>,
    /// The rate controller. Default: AIAD from 0 with the paper's constants.
    pub control: Option<RateControl>,
    /// How an overloaded link divides its bandwidth, at the flow level. Default: "max-min".
    pub sharing: Option<Sharing>,
    /// How many control intervals a run, or each iteration of a search, has; at most 1,000,000.
    /// Default: 1000.
    #[schemars(range(min = 1))]
    pub intervals: Option<u32>,
    /// How many of the last intervals count. Default: half of them.
    #[schemars(range(min = 1))]
    pub judged: Option<u32>,
    /// A run has settled when all further values are within this share of the mean of the last
    /// ones; 0.5 to below 1. Default: 0.98, the paper's for exact rates.
    pub band: Option<f64>,
    /// Sources choose other relays until all are satisfied. Default: sources keep their first
    /// choice.
    pub reselect: Option<Reselect>,
    /// The options of the packet level: `manyway run --level packet`. `[defaults]` has the TCP
    /// connections' keys. Default: flow level only.
    pub packets: Option<OverlayPackets>,
}

/// The rate controller's options: the constants of Fig. 2.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateControl {
    /// ε: a share of the source's demand, or a rate. Default: 0.01.
    pub increment: Option<Increment>,
    /// δ: an increment has succeeded if this share of the rate or less is missing at the receiver;
    /// 0 to below 1. Default: 0 at the flow level, where rates are exact, 0.03 at the packet level.
    pub tolerance: Option<f64>,
    /// α: success multiplies a path's increment term by it; more than 1. Default: 1.1.
    pub grow: Option<f64>,
    /// γ: failure divides it; more than 1. Default: 2.
    pub shrink: Option<f64>,
    /// β(0): the initial increment term. 0 is AIAD, 0.1 the paper's MIMD. Default: 0.
    pub boost: Option<f64>,
    /// The initial rates. Default: "zero".
    pub start: Option<Start>,
}

/// How unsatisfied sources choose again.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reselect {
    /// Which sources choose which relays again. Default: "k".
    pub scheme: Option<Scheme>,
    /// A source is satisfied if it gets this share of its demand; more than 0, at most 1. Default:
    /// 0.95.
    pub satisfied: Option<f64>,
    /// Iterations at most; the first selection counts as one. Default: 1000.
    #[schemars(range(min = 1))]
    pub iterations: Option<u32>,
}

/// The overlay at the packet level: each path is a TCP connection over its relay's link; the first
/// hop is never the bottleneck.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OverlayPackets {
    /// Round-trip time of each path without queues.
    #[schemars(required)]
    pub rtt: Option<TimeSpan>,
    /// DropTail queue of each relay's link. Default: "50 packets".
    pub queue: Option<QueueLimit>,
    /// Length of a control interval. Default: ten round-trip times.
    pub interval: Option<TimeSpan>,
    /// How many packets may wait in a connection's socket; also the size of the token bucket.
    /// Default: "4 packets".
    pub send_buffer: Option<WholePackets>,
    /// With `start = "maxmin"`: the number of intervals that the procedure takes before the first
    /// one; the rates of its last half are the initial rates. Default: 10.
    #[schemars(range(min = 2))]
    pub fill_intervals: Option<u32>,
}

/// How a source chooses a relay.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RelayChoice {
    /// All relays with equal probability.
    Uniform,
    /// In proportion to the source's estimates of their bandwidths.
    Proportional,
}

/// How an overloaded link divides its bandwidth.
// The three classical rules for dividing too little: equal awards, proportional, equal losses. Over
// several links: the max-min allocation of the network; the smallest part, and the largest loss, of
// all links, each by the loads offered.
#[derive(Debug, Copy, Clone, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Flows that want more than the common share get that share, the others get all that they
    /// want.
    #[default]
    MaxMin,
    /// Every flow gets the same fraction of its offered rate.
    Proportional,
    /// Every flow loses the same rate, at most its own.
    EqualLoss,
}

impl Sharing {
    /// All rules.
    pub const ALL: [Sharing; 3] = [Sharing::MaxMin, Sharing::Proportional, Sharing::EqualLoss];

    /// Whether every sender on an overloaded link gets less than it sends there: the *perfect
    /// congestion detection* of the overlay paper's Theorem 1, as an independent study reads it.
    pub fn tells_everyone(self) -> bool {
        self != Sharing::MaxMin
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::MaxMin => "max-min",
            Sharing::Proportional => "proportional",
            Sharing::EqualLoss => "equal loss",
        }
    }
}

/// Rates to begin with.
#[derive(Debug, Copy, Clone, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// 0 on every path.
    #[default]
    Zero,
    /// The result of the maxmin procedure: each unit of data goes to the next path in turn that
    /// accepts it.
    MaxMin,
}

/// Who chooses what again.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Scheme {
    /// k-reselection: an unsatisfied source, all of its paths.
    #[serde(rename = "k")]
    All,
    /// 1-reselection: an unsatisfied source, its slowest path.
    #[serde(rename = "1")]
    Slowest,
    /// The baseline: every source, all paths.
    #[serde(rename = "everyone")]
    Everyone,
}

/// What sources have to send: `"1.2 Mbps"`, or `["1.2 Mbps", "6 Mbps"]` to draw from.
#[derive(Debug, Clone, PartialEq)]
pub enum Demand {
    /// All alike.
    Equal(Bandwidth),
    /// Each draws one of these.
    Drawn(Vec<Bandwidth>),
}

/// ε: `0.01` of the demand, or `"0.06 Mbps"`.
#[derive(Debug, Copy, Clone, PartialEq)]
pub enum Increment {
    /// A share of the source's demand.
    Share(f64),
    /// A rate.
    Rate(Bandwidth),
}

impl<'de> Deserialize<'de> for Demand {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Demand;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a rate in quotes, or a list of them to draw from: [\"1.2 Mbps\", \"6 Mbps\"]",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Demand, E> {
                Bandwidth::deserialize(text.into_deserializer()).map(Demand::Equal)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Demand, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Demand::Drawn)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Demand {
    fn schema_name() -> Cow<'static, str> {
        "Demand".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What each source has to send: one rate for all, or a list to draw \
             from.",
            "anyOf": [
                generator.subschema_for::<Bandwidth>(),
                generator.subschema_for::<Vec<Bandwidth>>(),
            ],
        })
    }
}

impl<'de> Deserialize<'de> for Increment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Increment;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a share of the demand such as 0.01, or a rate such as \"60 kbps\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Increment, E> {
                Bandwidth::deserialize(text.into_deserializer()).map(Increment::Rate)
            }
            fn visit_f64<E: de::Error>(self, share: f64) -> Result<Increment, E> {
                Ok(Increment::Share(share))
            }
            fn visit_i64<E: de::Error>(self, share: i64) -> Result<Increment, E> {
                Ok(Increment::Share(share as f64))
            }
            fn visit_u64<E: de::Error>(self, share: u64) -> Result<Increment, E> {
                Ok(Increment::Share(share as f64))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Increment {
    fn schema_name() -> Cow<'static, str> {
        "Increment".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "ε: a share of the source's demand, or a rate.",
            "anyOf": [
                { "type": "number", "exclusiveMinimum": 0, "maximum": 1 },
                generator.subschema_for::<Bandwidth>(),
            ],
        })
    }
}
