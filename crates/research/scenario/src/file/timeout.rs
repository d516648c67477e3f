//! The key `retransmission_timeout`: a word, or a table.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::quantity::TimeSpan;

/// What a sender does when nothing is acknowledged for a while.
#[derive(Debug, Copy, Clone, PartialEq)]
pub enum RetransmissionTimeout {
    /// `"probe"`: it sends a probe, and nothing counts as lost until that is acknowledged (RFC
    /// 9002).
    Probe,
    /// `{ tcp = { min = "200 ms" } }`: all that is in flight counts as lost, and the window starts
    /// again from its minimum (RFC 6298).
    Tcp(TcpTimeout),
}

/// TCP's retransmission timeout.
#[derive(Debug, Copy, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpTimeout {
    /// The shortest: "1 s" in RFC 6298, "200 ms" in Linux.
    pub min: TimeSpan,
}

impl From<RetransmissionTimeout> for manyway_control::RetransmissionTimeout {
    fn from(timeout: RetransmissionTimeout) -> Self {
        match timeout {
            RetransmissionTimeout::Probe => manyway_control::RetransmissionTimeout::Probe,
            RetransmissionTimeout::Tcp(TcpTimeout { min }) => {
                manyway_control::RetransmissionTimeout::Tcp { min: min.0 }
            }
        }
    }
}

const EXPECTED: &str = "a timeout: \"probe\" or { tcp = { min = \"200 ms\" } }";

impl<'de> Deserialize<'de> for RetransmissionTimeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            tcp: Option<TcpTimeout>,
        }

        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = RetransmissionTimeout;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<RetransmissionTimeout, E> {
                match text {
                    "probe" => Ok(RetransmissionTimeout::Probe),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<RetransmissionTimeout, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                let tcp = table.tcp.map(RetransmissionTimeout::Tcp);
                tcp.ok_or_else(|| de::Error::custom(format!("expected {EXPECTED}")))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for RetransmissionTimeout {
    fn schema_name() -> Cow<'static, str> {
        "RetransmissionTimeout".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What a sender does when nothing is acknowledged for a while: it sends \
             a probe (RFC 9002), or counts all packets in flight as lost (RFC 6298).",
            "anyOf": [
                { "const": "probe" },
                {
                    "type": "object",
                    "properties": { "tcp": generator.subschema_for::<TcpTimeout>() },
                    "required": ["tcp"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}
