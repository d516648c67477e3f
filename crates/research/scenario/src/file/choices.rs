//! Keys of a flow that choose between words.

use std::borrow::Cow;
use std::fmt;

use manyway_control::SlowStartKind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::experiment::SeriesKind;
use crate::quantity::{Name, TimeSpan};

/// How a window grows until the first loss.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SlowStart {
    /// HyStart++ (RFC 9406), the transport's: leaves slow start when the round-trip time grows.
    HyStart,
    /// Doubles every round trip until the first loss (RFC 5681), as in the papers.
    Standard,
}

impl From<SlowStart> for SlowStartKind {
    fn from(kind: SlowStart) -> Self {
        match kind {
            SlowStart::HyStart => SlowStartKind::HyStart,
            SlowStart::Standard => SlowStartKind::Standard,
        }
    }
}

/// How much an ACK of several packets lets a window grow.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Growth {
    /// By all bytes that it acknowledges (RFC 3465), as in the transport: growth doesn't depend on
    /// how often the receiver sends ACKs.
    Bytes,
    /// By one packet for each ACK (RFC 5681, and Linux before 4.0).
    Acks,
}

impl From<Growth> for manyway_control::Growth {
    fn from(growth: Growth) -> Self {
        match growth {
            Growth::Bytes => manyway_control::Growth::Bytes,
            Growth::Acks => manyway_control::Growth::Acks,
        }
    }
}

/// How the sender distinguishes lost from reordered packets.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LossDetection {
    /// By three packets and an eighth of the round-trip time (RFC 9002).
    Fixed,
    /// Only by three packets, as TCP of the papers' time (RFC 6675); a timeout finds the rest.
    Packets,
    /// By the reordering seen so far; the sender undoes cuts that turn out to be wrong (RFC 8985,
    /// RFC 9438).
    Adaptive,
}

impl From<LossDetection> for manyway_control::LossDetection {
    fn from(detection: LossDetection) -> Self {
        match detection {
            LossDetection::Fixed => manyway_control::LossDetection::Fixed,
            LossDetection::Packets => manyway_control::LossDetection::Packets,
            LossDetection::Adaptive => manyway_control::LossDetection::Adaptive,
        }
    }
}

/// Which path carries the next packet of a flow's data.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Waits for a faster path where that delivers sooner, and overtakes slower ones.
    EarliestDelivery,
    /// The shortest round-trip time of those whose window has room.
    #[serde(rename = "minrtt")]
    MinRtt,
    /// Lim et al., CoNEXT 2017.
    Ecf,
    /// Ferlin et al., IFIP Networking 2016.
    Blest,
    /// Every path carries everything.
    Redundant,
}

impl From<Scheduler> for manyway_control::Scheduler {
    fn from(scheduler: Scheduler) -> Self {
        match scheduler {
            Scheduler::EarliestDelivery => manyway_control::Scheduler::EarliestDelivery,
            Scheduler::MinRtt => manyway_control::Scheduler::MinRtt,
            Scheduler::Ecf => manyway_control::Scheduler::Ecf,
            Scheduler::Blest => manyway_control::Scheduler::Blest,
            Scheduler::Redundant => manyway_control::Scheduler::Redundant,
        }
    }
}

/// A window's behaviour in recovery: while ACKs arrive for packets sent before its last cut.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Recovery {
    /// It stays constant (RFC 9002, RFC 6675), as in the transport.
    Hold,
    /// It grows with every ACK, as the papers print their laws.
    Grow,
}

/// What can be recorded over time.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Goodput of each subflow, bits/s.
    Rate,
    /// Congestion window of each subflow, packets.
    Window,
    /// Smoothed round-trip time of each subflow, seconds.
    Rtt,
    /// Backlog of each link, packets.
    Queue,
    /// Load carried by each link, bits/s.
    Load,
    /// Packets that each link dropped.
    Drops,
}

/// What can have percentiles.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Percentiles {
    /// Round-trip times of each subflow.
    Rtt,
    /// Times that packets are in each link's queue, their own transmission included.
    Queue,
}

impl From<What> for SeriesKind {
    fn from(what: What) -> Self {
        match what {
            What::Rate => SeriesKind::Rate,
            What::Window => SeriesKind::Window,
            What::Rtt => SeriesKind::Rtt,
            What::Queue => SeriesKind::Queue,
            What::Load => SeriesKind::Load,
            What::Drops => SeriesKind::Drops,
        }
    }
}

/// A path of a flow: its name, or a table that says when the subflow on it takes part.
#[derive(Debug, Clone, PartialEq)]
pub struct PathUse {
    /// The path.
    pub path: Option<Name>,
    /// When the subflow joins. Default: when the flow starts; earlier times mean that too.
    pub start: Option<TimeSpan>,
    /// When the subflow leaves. Default: when the flow stops.
    pub stop: Option<TimeSpan>,
    /// Whether the path leads through a relay, at the stack level. Default: false.
    pub relay: Option<bool>,
}

/// The table form of [`PathUse`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PathUseTable {
    /// The path.
    #[schemars(required)]
    path: Option<Name>,
    /// When the subflow joins. Default: when the flow starts; earlier times mean that too.
    start: Option<TimeSpan>,
    /// When the subflow leaves. Default: when the flow stops.
    stop: Option<TimeSpan>,
    /// Whether the path leads through a relay after its last link, at the stack level. Not for a
    /// flow's first path. Default: false; with law `mpath`, true for all paths except the first.
    relay: Option<bool>,
}

impl<'de> Deserialize<'de> for PathUse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = PathUse;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path: its name in quotes, or { path = \"…\", start = \"50 s\" }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<PathUse, E> {
                let path = Name::deserialize(de::value::StrDeserializer::new(text))?;
                Ok(PathUse {
                    path: Some(path),
                    start: None,
                    stop: None,
                    relay: None,
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PathUse, A::Error> {
                let PathUseTable {
                    path,
                    start,
                    stop,
                    relay,
                } = PathUseTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(PathUse {
                    path,
                    start,
                    stop,
                    relay,
                })
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for PathUse {
    fn schema_name() -> Cow<'static, str> {
        "PathUse".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A path of a flow: its name, or a table that says when the subflow on \
             it takes part.",
            "anyOf": [generator.subschema_for::<Name>(), PathUseTable::json_schema(generator)],
        })
    }
}
