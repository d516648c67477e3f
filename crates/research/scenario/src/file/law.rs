//! The key `law`: a name with parameters, or a table.

use std::borrow::Cow;
use std::fmt;

use manyway_control::{LawSpec, registry};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use crate::kernel::KernelLaw;

/// A congestion-control law with its parameters: `"lia"`, `"ewtcp:a=0.25"` or `{ name = "ewtcp", a
/// = 0.25 }`; or the kernel's transport with one of the kernel's laws, `"kernel:mptcp:cubic"`.
#[derive(Debug, Clone, PartialEq)]
pub enum Law {
    /// Of manyway's.
    Ours(LawSpec),
    /// Of the kernel's.
    Kernel(KernelLaw),
}

impl Law {
    /// Its name, without parameters.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Ours(law) => law.name().to_owned(),
            Self::Kernel(law) => law.to_string(),
        }
    }

    /// Whether it comes with a path manager.
    pub(crate) fn is_managed(&self) -> bool {
        matches!(self, Self::Ours(law) if law.path_manager().is_some())
    }
}

impl<'de> Deserialize<'de> for Law {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Law;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a law: its name in quotes, or { name = \"ewtcp\", a = 0.25 }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Law, E> {
                match KernelLaw::is_meant(text) {
                    true => text.parse().map(Law::Kernel).map_err(E::custom),
                    false => text.parse().map(Law::Ours).map_err(E::custom),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Law, A::Error> {
                let mut name: Option<String> = None;
                let mut parameters = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "name" => name = Some(map.next_value()?),
                        _ => parameters.push((key, map.next_value::<f64>()?)),
                    }
                }
                let name = name.ok_or_else(|| {
                    de::Error::custom("a law's table needs its `name`, as in { name = \"lia\" }")
                })?;
                LawSpec::new(&name, parameters)
                    .map(Law::Ours)
                    .map_err(de::Error::custom)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Law {
    fn schema_name() -> Cow<'static, str> {
        "Law".into()
    }

    /// The registry's laws: as text, and as a table each.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = registry::laws().map(|law| law.name()).collect();
        let text = json!({
            "type": "string",
            "pattern": format!(
                "^(({})(:.+)?|kernel:(tcp|mptcp):[A-Za-z0-9_-]{{1,15}})$",
                names.join("|")
            ),
            "examples": names,
        });
        let tables = registry::laws().map(|law| {
            let mut properties = Map::new();
            properties.insert("name".to_owned(), json!({ "const": law.name() }));
            for (parameter, _) in law.parameters() {
                let description = format!(
                    "{}; {}. Default: {}.",
                    parameter.meaning, parameter.range, parameter.default
                );
                let schema = json!({ "type": "number", "description": description });
                properties.insert(parameter.key.to_owned(), schema);
            }
            json!({
                "type": "object",
                "description": law.about(),
                "properties": properties,
                "required": ["name"],
                "additionalProperties": false,
            })
        });
        let choices: Vec<Value> = std::iter::once(text).chain(tables).collect();
        json_schema!({
            "description": "A congestion-control law with its parameters: a name, \
             \"name:key=value,…\", or a table. At the live level also a law of the kernel's, with \
             its TCP or MPTCP: \"kernel:mptcp:cubic\".",
            "anyOf": choices,
        })
    }
}
