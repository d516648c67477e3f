//! Queues as written.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::quantity::{Bytes, Number, QueueLimit, Threshold, TimeSpan};

/// The queue in front of a link.
#[derive(Debug, Clone, PartialEq)]
pub enum Queue {
    /// `"100 packets"`: a packet that finds no room is dropped.
    DropTail(QueueLimit),
    /// `{ red = { … } }`.
    Red(Red),
    /// `{ pie = { … } }`.
    Pie(Pie),
    /// `{ codel = { … } }`.
    CoDel(CoDel),
    /// `{ drr = { … } }`.
    Drr(Drr),
    /// `{ fq_codel = { … } }`.
    FqCoDel(FqCoDel),
    /// `{ priority = { … } }`.
    Priority(Priority),
    /// `{ dualpi2 = { … } }`.
    DualPi2(DualPi2),
}

/// Random early detection (Floyd and Jacobson, 1993), as in ns-2.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Red {
    /// How much the queue holds at most.
    #[schemars(required)]
    pub limit: Option<QueueLimit>,
    /// Average length below which the queue drops nothing.
    #[schemars(required)]
    pub min: Option<Threshold>,
    /// Average length at which the drop probability is `max_p`.
    #[schemars(required)]
    pub max: Option<Threshold>,
    /// Drop probability at `max`. Default: 0.1.
    pub max_p: Option<Number>,
    /// Weight of each packet in the moving average; "auto" averages over about a second, as ns-2
    /// can do. Default: 0.002.
    pub weight: Option<Weight>,
    /// Above `max` the probability rises to 1 at twice `max` rather than at once. Default: true.
    pub gentle: Option<bool>,
    /// Early drops keep a distance of 1/p to 2/p packets, ns-2's `wait_`, rather than 1 to 1/p.
    /// Default: true.
    pub wait: Option<bool>,
    /// ECN-capable packets are marked instead of dropped early. Default: false.
    pub ecn: Option<bool>,
    /// A typical packet, for lengths in bytes and idle times. Default: "1500 B".
    pub mean_packet: Option<Bytes>,
}

/// The weight of RED's moving average.
#[derive(Debug, Copy, Clone, PartialEq)]
pub enum Weight {
    /// A number.
    Fixed(Number),
    /// `"auto"`: from the link's rate.
    Auto,
}

/// Proportional Integral controller Enhanced (RFC 8033).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pie {
    /// How much the queue holds at most.
    #[schemars(required)]
    pub limit: Option<QueueLimit>,
    /// The delay that it aims at. Default: "15 ms".
    pub target: Option<TimeSpan>,
    /// How often it adjusts the drop probability. Default: "15 ms".
    pub update: Option<TimeSpan>,
    /// For so long after an idle time, it drops nothing. Default: "150 ms".
    pub burst: Option<TimeSpan>,
    /// ECN-capable packets are marked instead of dropped, while the drop probability is below 0.1.
    /// Default: false.
    pub ecn: Option<bool>,
}

/// Controlled Delay (RFC 8289).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoDel {
    /// How much the queue holds at most.
    #[schemars(required)]
    pub limit: Option<QueueLimit>,
    /// How long packets may wait for good. Default: "5 ms".
    pub target: Option<TimeSpan>,
    /// For so long packets have to wait for more than the target before it drops one. Default:
    /// "100 ms".
    pub interval: Option<TimeSpan>,
    /// ECN-capable packets are marked instead of dropped. Default: false.
    pub ecn: Option<bool>,
}

/// Deficit round robin (Shreedhar and Varghese, 1996), with a queue for every subflow.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drr {
    /// How much all queues hold at most together; then the longest one drops its oldest packet.
    #[schemars(required)]
    pub limit: Option<QueueLimit>,
    /// How much a queue may send when it is its turn; at least "64 B". Default: "1500 B".
    pub quantum: Option<Bytes>,
}

/// FQ-CoDel (RFC 8290): subflows are hashed to queues with CoDel, served in turn.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FqCoDel {
    /// How much all queues hold at most together; then the longest one drops half of its packets,
    /// at most 64.
    #[schemars(required)]
    pub limit: Option<QueueLimit>,
    /// How many queues there are; 1 to 65536. Default: 1024.
    #[schemars(range(min = 1, max = 65536))]
    pub queues: Option<u32>,
    /// How much a queue may send when it is its turn; at least "64 B". Default: "1514 B".
    pub quantum: Option<Bytes>,
    /// CoDel's target. Default: "5 ms".
    pub target: Option<TimeSpan>,
    /// CoDel's interval. Default: "100 ms".
    pub interval: Option<TimeSpan>,
    /// ECN-capable packets are marked instead of dropped. Default: false.
    pub ecn: Option<bool>,
}

/// Strict priority by the flows' `class`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Priority {
    /// How much all classes hold at most together; then a packet takes the place of the oldest one
    /// in the lowest class, if that is below its own.
    #[schemars(required)]
    pub limit: Option<QueueLimit>,
}

/// A short queue for L4S packets beside one for all others, with a controller that tells both
/// (RFC 9332).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DualPi2 {
    /// How much both queues hold at most together.
    #[schemars(required)]
    pub limit: Option<QueueLimit>,
    /// The delay that the controller aims at. Default: "15 ms".
    pub target: Option<TimeSpan>,
    /// How often it adjusts the probability. Default: "16 ms".
    pub update: Option<TimeSpan>,
    /// The coupling factor, 0.1 to 100: L4S packets are marked with a probability of so many times
    /// the root of the one with which others are dropped. Default: 2.
    #[schemars(range(min = 0.1, max = 100))]
    pub coupling: Option<Number>,
    /// L4S packets that have waited for longer are marked. Default: "1 ms".
    pub step: Option<TimeSpan>,
    /// L4S packets leave before others that have waited for up to this longer. Default: "50 ms".
    pub shift: Option<TimeSpan>,
}

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            red: Option<Red>,
            pie: Option<Pie>,
            codel: Option<CoDel>,
            drr: Option<Drr>,
            fq_codel: Option<FqCoDel>,
            priority: Option<Priority>,
            dualpi2: Option<DualPi2>,
        }

        impl Table {
            /// What is written, if that is one entry.
            fn only(self) -> Option<Queue> {
                let Table {
                    red,
                    pie,
                    codel,
                    drr,
                    fq_codel,
                    priority,
                    dualpi2,
                } = self;
                let all = [
                    red.map(Queue::Red),
                    pie.map(Queue::Pie),
                    codel.map(Queue::CoDel),
                    drr.map(Queue::Drr),
                    fq_codel.map(Queue::FqCoDel),
                    priority.map(Queue::Priority),
                    dualpi2.map(Queue::DualPi2),
                ];
                let mut written = all.into_iter().flatten();
                written.next().filter(|_| written.next().is_none())
            }
        }

        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Queue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a queue: \"100 packets\", \"64 kB\" or \
                    { red = { limit = …, min = …, max = … } }",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Queue, E> {
                QueueLimit::deserialize(de::value::StrDeserializer::new(text)).map(Queue::DropTail)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Queue, E> {
                QueueLimit::deserialize(de::value::I64Deserializer::new(number))
                    .map(Queue::DropTail)
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Queue, E> {
                QueueLimit::deserialize(de::value::F64Deserializer::new(number))
                    .map(Queue::DropTail)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Queue, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                let expected = "a queue that isn't text is a table with one entry: red, \
                    pie, codel, drr, fq_codel, priority or dualpi2, like \
                    { codel = { limit = \"1000 packets\" } }";
                table.only().ok_or_else(|| de::Error::custom(expected))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Queue {
    fn schema_name() -> Cow<'static, str> {
        "Queue".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The queue in front of a link.",
            "anyOf": [
                generator.subschema_for::<QueueLimit>(),
                {
                    "type": "object",
                    "properties": {
                        "red": generator.subschema_for::<Red>(),
                        "pie": generator.subschema_for::<Pie>(),
                        "codel": generator.subschema_for::<CoDel>(),
                        "drr": generator.subschema_for::<Drr>(),
                        "fq_codel": generator.subschema_for::<FqCoDel>(),
                        "priority": generator.subschema_for::<Priority>(),
                        "dualpi2": generator.subschema_for::<DualPi2>(),
                    },
                    "minProperties": 1,
                    "maxProperties": 1,
                    "additionalProperties": false,
                },
            ],
        })
    }
}

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Weight;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number greater than 0 and at most 1, or \"auto\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Weight, E> {
                match text {
                    "auto" => Ok(Weight::Auto),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Weight, E> {
                Ok(Weight::Fixed(Number(number as f64)))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Weight, E> {
                Number::deserialize(de::value::F64Deserializer::new(number)).map(Weight::Fixed)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Weight {
    fn schema_name() -> Cow<'static, str> {
        "Weight".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The weight of RED's moving average.",
            "anyOf": [
                { "type": "number", "exclusiveMinimum": 0, "maximum": 1 },
                { "const": "auto" },
            ],
        })
    }
}
