//! Links as written: the settings of `manyway_network::LinkConfig` with units, none of them
//! required yet, since a sweep or an assignment may still give what is missing.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::queue::Queue;
use crate::quantity::{Bandwidth, Bytes, Number, TimeSpan, WholePackets};

/// A one-way link: a queue, a transmitter, a wire.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [{ "required": ["rate"] }, { "required": ["trace"] }]))]
pub struct Link {
    /// How fast packets are transmitted; 1 bps to 10 Tbps. Required without a `trace`.
    pub rate: Option<Bandwidth>,
    /// The rate over time, in a file relative to the scenario's folder. If its name ends with
    /// `.csv`, it is a table with columns time_s, rate_bps and perhaps delay_s, which repeats after
    /// `timetable_period`; otherwise it is in Mahimahi's trace format, and repeats without end.
    /// Replaces `rate`, `varying` and `timetable`. Default: none.
    #[schemars(length(min = 1))]
    pub trace: Option<String>,
    /// The rate varies at random, with `rate` as its mean; replaces `timetable`. Default: a
    /// constant rate.
    pub varying: Option<Varying>,
    /// Propagation delay, one way. Required, except for access links ("0 s").
    pub delay: Option<TimeSpan>,
    /// A token bucket in front of the queue, which drops packets that exceed it and delays none
    /// (RFC 2697 without an excess burst). Default: none.
    pub policer: Option<Policer>,
    /// The size of a DropTail queue in packets or bytes, including the packet in transmission, or a
    /// table with one entry for another kind of queue. Default: one bandwidth-delay product of this
    /// link (its rate times twice its delay), at least "15 kB".
    pub queue: Option<Queue>,
    /// Probability with which a packet is lost on the wire, or a table for losses in bursts or at
    /// equal distances. Default: 0.
    pub loss: Option<Loss>,
    /// The largest random extra delay of a packet, uniformly distributed. Default: "0 s".
    pub jitter: Option<TimeSpan>,
    /// With jitter, packets may overtake each other. Default: false: a packet that would overtake
    /// arrives together with the packet before it.
    pub overtaking: Option<bool>,
    /// Some packets are late, and others overtake them. Default: none.
    pub late: Option<Late>,
    /// Changes over time, in order. Default: none.
    pub timetable: Option<Vec<Change>>,
    /// The timetable repeats after this time, without end. Default: it runs once.
    pub timetable_period: Option<TimeSpan>,
}

/// A rate that changes at random in steps. Its logarithm is a normally distributed AR(1) process.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Varying {
    /// The length of a step; at least "1 ms". The steps repeat after 2048.
    #[schemars(required)]
    pub interval: Option<TimeSpan>,
    /// The standard deviation of the rate's natural logarithm, 0 to 2.
    #[schemars(required)]
    pub deviation: Option<Number>,
    /// The correlation of a step's logarithm with the one before, at least 0 and less than 1.
    /// Default: 0.
    pub memory: Option<Number>,
    /// Times without a rate, in which packets wait. Default: none.
    pub outages: Option<Outages>,
    /// The seed of the steps. Links with different names have different steps; all repetitions have
    /// the same. Default: 1.
    pub seed: Option<u64>,
}

/// Times without a rate. Both lengths are geometrically distributed.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outages {
    /// The mean time from one to the next; at least the interval.
    #[schemars(required)]
    pub every: Option<TimeSpan>,
    /// The mean length; at least the interval.
    #[schemars(required)]
    pub lasting: Option<TimeSpan>,
}

/// A token bucket without a queue.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policer {
    /// The rate of the tokens; at least 1 bps.
    #[schemars(required)]
    pub rate: Option<Bandwidth>,
    /// The size of the token bucket, which is full at the start: at least a packet.
    #[schemars(required)]
    pub burst: Option<Bytes>,
}

/// Packets that take longer than all others, as over a second, longer route.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Late {
    /// The probability that a packet is late.
    #[schemars(required)]
    pub share: Option<Number>,
    /// The extra delay of a late packet.
    #[schemars(required)]
    pub by: Option<TimeSpan>,
}

/// A change at a point in time; keys that it doesn't have stay unchanged.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// From when on.
    #[schemars(required)]
    pub at: Option<TimeSpan>,
    /// The link's rate; 1 bps to 10 Tbps.
    pub rate: Option<Bandwidth>,
    /// The link's delay.
    pub delay: Option<TimeSpan>,
    /// Whether the link is up. A link that goes down loses all packets in its queue and in flight
    /// on it.
    pub up: Option<bool>,
}

/// Packets lost on the wire.
#[derive(Debug, Clone, PartialEq)]
pub enum Loss {
    /// `0.001`: each packet with this probability.
    Bernoulli(Number),
    /// `{ every = "1000 packets" }`: one packet in so many, at equal distances.
    Periodic(WholePackets),
    /// `{ good_to_bad = …, … }`: in bursts.
    GilbertElliott(GilbertElliott),
}

/// Losses in bursts: a chain of a good and a bad state takes a step with every packet (Gilbert,
/// 1960; Elliott, 1963).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// Probability of a step from good to bad.
    #[schemars(required)]
    pub good_to_bad: Option<Number>,
    /// Probability of a step from bad to good: bad times last 1/`bad_to_good` packets on average.
    #[schemars(required)]
    pub bad_to_good: Option<Number>,
    /// Probability of a loss in the good state. Default: 0.
    pub good: Option<Number>,
    /// Probability of a loss in the bad state. Default: 1.
    pub bad: Option<Number>,
}

impl<'de> Deserialize<'de> for Loss {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Loss;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a probability like 0.001, { every = \"1000 packets\" }, or \
                    { good_to_bad = …, bad_to_good = … } for bursts",
                )
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Loss, E> {
                Ok(Loss::Bernoulli(Number(number as f64)))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Loss, E> {
                Number::deserialize(de::value::F64Deserializer::new(number)).map(Loss::Bernoulli)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Loss, A::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Table {
                    every: Option<WholePackets>,
                    good_to_bad: Option<Number>,
                    bad_to_good: Option<Number>,
                    good: Option<Number>,
                    bad: Option<Number>,
                }
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                let bursts = GilbertElliott {
                    good_to_bad: table.good_to_bad,
                    bad_to_good: table.bad_to_good,
                    good: table.good,
                    bad: table.bad,
                };
                let chain = [
                    bursts.good_to_bad,
                    bursts.bad_to_good,
                    bursts.good,
                    bursts.bad,
                ];
                match table.every {
                    None => Ok(Loss::GilbertElliott(bursts)),
                    Some(every) if chain.iter().all(Option::is_none) => Ok(Loss::Periodic(every)),
                    Some(_) => Err(de::Error::custom(
                        "losses come at equal distances, `every`, or in bursts: leave the other \
                         keys out",
                    )),
                }
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Loss {
    fn schema_name() -> Cow<'static, str> {
        "Loss".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Packets lost on the wire.",
            "anyOf": [
                { "type": "number", "minimum": 0, "exclusiveMaximum": 1 },
                {
                    "type": "object",
                    "properties": { "every": generator.subschema_for::<WholePackets>() },
                    "required": ["every"],
                    "additionalProperties": false,
                },
                generator.subschema_for::<GilbertElliott>(),
            ],
        })
    }
}
