//! The table `[sweep]`, which is read from the tree.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

/// Keys with lists of values. What is in it depends on all the rest of the file, so it is read
/// apart: see [`Scenario::points`](crate::Scenario::points).
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Sweep;

impl<'de> Deserialize<'de> for Sweep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Sweep)
    }
}

impl JsonSchema for Sweep {
    fn schema_name() -> Cow<'static, str> {
        "Sweep".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Keys with lists of values: the scenario is run for every combination. \
             A bare key is one of [defaults], or \"duration\"; others are written with dots, in \
             quotes, and * stands for every name: \"links.wifi.rate\", \"links.*.queue\".",
            "properties": {
                "cases": {
                    "type": "array",
                    "description": "Tables of keys that change together; either all or none of \
                     them have a `name`.",
                    "items": { "type": "object", "minProperties": 1 },
                    "minItems": 1,
                },
            },
            "additionalProperties": {
                "anyOf": [
                    { "type": "array", "minItems": 1 },
                    {
                        "type": "object",
                        "description": "The same without quotes: links.wifi.rate = [ … ].",
                    },
                ],
            },
        })
    }
}
