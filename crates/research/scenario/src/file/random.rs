//! Values that are drawn anew each time: the size of a transfer, or the time until the next one.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::{F64Deserializer, I64Deserializer, MapAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::quantity::{Bytes, Number, TimeSpan};

/// One value, or where others come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Random<T> {
    /// `"100 kB"`: always the same.
    Fixed(T),
    /// `{ exponential = "100 kB" }`, by its mean. Starts with such distances are a Poisson process.
    Exponential(T),
    /// `{ pareto = { mean = "100 kB", shape = 1.2 } }`.
    Pareto(Pareto<T>),
    /// `{ published = "web-search" }`: sizes that others have measured.
    Published(Published),
    /// `{ file = "sizes.txt" }`: sizes and their cumulative probabilities.
    File(String),
}

/// The Pareto distribution: P(X > x) = (scale / x)^shape, with scale = mean (shape - 1) / shape.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pareto<T> {
    /// The mean.
    #[schemars(required)]
    pub mean: Option<T>,
    /// Above 1. Up to 2, the variance is infinite.
    #[schemars(required)]
    pub shape: Option<Number>,
}

/// Sizes of flows in data centres, in the form in which "pFabric: Minimal Near-Optimal Datacenter
/// Transport" (Alizadeh et al., SIGCOMM 2013, Figure 4) and its successors use them.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Published {
    /// A web search cluster ("Data Center TCP", Alizadeh et al., SIGCOMM 2010): 10 kB to 30 MB,
    /// 1.7 MB on average.
    WebSearch,
    /// A cluster for data mining ("VL2", Greenberg et al., SIGCOMM 2009): half of the flows have at
    /// most 1.1 kB, and 2 % more than 100 MB; 12.7 MB on average.
    DataMining,
}

/// What can be random.
pub trait Quantity: for<'de> Deserialize<'de> + JsonSchema {
    /// What it is, and how to write it.
    const EXPECTED: &'static str;
    /// The type's name in the schema.
    const NAME: &'static str;
    /// Whether measured distributions can be read from files.
    const MEASURED: bool;
}

impl Quantity for Bytes {
    const EXPECTED: &'static str = "a size, like \"100 kB\", or a table with one entry: \
        exponential, pareto, published or file, like { exponential = \"100 kB\" }";
    const NAME: &'static str = "RandomSize";
    const MEASURED: bool = true;
}

impl Quantity for TimeSpan {
    const EXPECTED: &'static str = "a duration, like \"20 ms\", or a table with one entry: \
        exponential or pareto, like { exponential = \"20 ms\" }";
    const NAME: &'static str = "RandomTime";
    const MEASURED: bool = false;
}

impl<T> Random<T> {
    /// The value, if it is always the same.
    pub fn fixed(&self) -> Option<&T> {
        match self {
            Self::Fixed(value) => Some(value),
            _ => None,
        }
    }
}

impl<'de, T: Quantity> Deserialize<'de> for Random<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Either(PhantomData))
    }
}

struct Either<T>(PhantomData<T>);

impl<'de, T: Quantity> Visitor<'de> for Either<T> {
    type Value = Random<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Random<T>, E> {
        T::deserialize(StrDeserializer::new(text)).map(Random::Fixed)
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Random<T>, E> {
        T::deserialize(I64Deserializer::new(number)).map(Random::Fixed)
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Random<T>, E> {
        T::deserialize(F64Deserializer::new(number)).map(Random::Fixed)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Random<T>, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, bound = "T: Quantity")]
        struct Table<T> {
            exponential: Option<T>,
            pareto: Option<Pareto<T>>,
            published: Option<Published>,
            file: Option<String>,
        }
        let table = Table::<T>::deserialize(MapAccessDeserializer::new(map))?;
        let all = [
            table.exponential.map(Random::Exponential),
            table.pareto.map(Random::Pareto),
            table.published.map(Random::Published),
            table.file.map(Random::File),
        ];
        let mut written = all.into_iter().flatten();
        let only = written.next().filter(|_| written.next().is_none());
        let measured = matches!(only, Some(Random::Published(_) | Random::File(_)));
        only.filter(|_| T::MEASURED || !measured)
            .ok_or_else(|| de::Error::custom(format!("expected {}", T::EXPECTED)))
    }
}

impl<T: Quantity> JsonSchema for Random<T> {
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut entries = json_schema!({
            "exponential": generator.subschema_for::<T>(),
            "pareto": generator.subschema_for::<Pareto<T>>(),
        });
        if T::MEASURED {
            let published = generator.subschema_for::<Published>();
            entries.insert("published".to_owned(), published.to_value());
            let file = json_schema!({
                "type": "string",
                "description": "A file, relative to the scenario's folder: in each line a size in \
                    bytes and the share of the values up to it, both increasing, the last share 1.",
            });
            entries.insert("file".to_owned(), file.to_value());
        }
        json_schema!({
            "description": "A value, or a distribution from which it is drawn anew each time.",
            "anyOf": [
                generator.subschema_for::<T>(),
                {
                    "type": "object",
                    "properties": entries,
                    "minProperties": 1,
                    "maxProperties": 1,
                    "additionalProperties": false,
                },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Quantity>(value: &str) -> Result<Random<T>, String> {
        #[derive(Deserialize)]
        #[serde(bound = "T: Quantity")]
        struct File<T: Quantity> {
            value: Random<T>,
        }
        let file = toml::from_str::<File<T>>(&format!("value = {value}"));
        file.map(|file| file.value)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_or_a_table_with_one_entry() {
        let size = |text| read::<Bytes>(text);
        assert!(matches!(size("\"10 kB\""), Ok(Random::Fixed(_))));
        let exponential = size("{ exponential = \"10 kB\" }");
        assert!(matches!(exponential, Ok(Random::Exponential(_))));
        let published = size("{ published = \"web-search\" }");
        assert_eq!(published, Ok(Random::Published(Published::WebSearch)));
        assert!(size("{}").unwrap_err().contains("a table with one entry"));
        let two = size("{ exponential = \"1 B\", file = \"x\" }");
        assert!(two.unwrap_err().contains("a table with one entry"));
        assert!(size("10").unwrap_err().contains("no unit"));
    }

    #[test]
    fn times_come_from_no_file() {
        assert!(read::<TimeSpan>("{ exponential = \"1 s\" }").is_ok());
        for text in ["{ file = \"x\" }", "{ published = \"web-search\" }"] {
            let error = read::<TimeSpan>(text).unwrap_err();
            assert!(error.contains("exponential or pareto"), "{error}");
        }
    }
}
