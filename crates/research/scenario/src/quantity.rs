//! Values with a unit, as they are written in a scenario.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use manyway_network::Limit;
use manyway_units::{ByteSize, ParseQuantityError, Rate, parse_duration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// The longest time that a scenario may speak of: a year.
const MAX_TIME: Duration = Duration::from_secs(365 * 86_400);

/// The highest rate that a scenario may speak of, in bits/s, which is also a link's.
const MAX_RATE: f64 = 10e12;

macro_rules! quantity {
    (
        $(#[$meta:meta])*
        $name:ident($inner:ty), $what:literal, $examples:expr, $pattern:literal, $parse:expr
    ) => {
        $(#[$meta])*
        #[derive(Debug, Copy, Clone, PartialEq)]
        pub struct $name(pub $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let quantity = Quantity { what: $what, example: $examples[0], parse: $parse };
                deserializer.deserialize_any(quantity).map($name)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "description": concat!("A ", $what, ", with its unit."),
                    "pattern": $pattern,
                    "examples": $examples,
                })
            }
        }
    };
}

quantity!(
    /// A transmission rate: `"20 Mbps"`. At most 10 Tbps.
    Bandwidth(Rate), "rate", ["20 Mbps", "1.5 Gbps", "800 kbps", "2 MB/s"],
    r"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([kKmMgGtT]i?)?(bps|bit/s|b/s|Bps|B/s|byte/s)\s*$",
    |text| {
        let rate: Rate = text.parse().map_err(to_text)?;
        match rate.bits_per_sec() <= MAX_RATE {
            true => Ok(rate),
            false => Err(format!("{text:?} is too fast: a scenario's rates are at most 10 Tbps")),
        }
    }
);

quantity!(
    /// A duration, or a point in time as the duration since the beginning: `"10 ms"`. At most 365
    /// days.
    TimeSpan(Duration), "duration", ["10 ms", "1.5 s", "250 us", "1 h 30 min"],
    r"^\s*(([0-9]+\.?[0-9]*|\.[0-9]+)\s*(ns|us|µs|μs|ms|s|sec|m|min|h|d)\s*)+$",
    |text| {
        let time = parse_duration(text).map_err(to_text)?;
        match time <= MAX_TIME {
            true => Ok(time),
            false => Err(format!("{text:?} is too long: a scenario's times are at most 365 d")),
        }
    }
);

quantity!(
    /// A number of bytes: `"1500 B"`.
    Bytes(ByteSize), "size", ["1500 B", "64 kB", "10 MB", "1 GiB"],
    r"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([kKmMgGtT]i?)?(B|byte|bytes)\s*$",
    bytes
);

quantity!(
    /// How much a queue holds, in packets or in bytes: `"100 packets"`, `"64 kB"`.
    QueueLimit(Limit), "queue size", ["100 packets", "64 kB", "1 MB"],
    r"^\s*([0-9]+\s*packets?|([0-9]+\.?[0-9]*|\.[0-9]+)\s*([kKmMgGtT]i?)?(B|byte|bytes))\s*$",
    queue_limit
);

quantity!(
    /// A number of packets, with a fraction where that makes sense: `"10 packets"`.
    Packets(f64), "number of packets", ["10 packets", "1.5 packets"],
    r"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*packets?\s*$",
    packets
);

quantity!(
    /// A whole number of packets: `"2 packets"`.
    WholePackets(u32), "whole number of packets", ["2 packets", "1 packet"],
    r"^\s*[0-9]+\s*packets?\s*$",
    whole_packets
);

quantity!(
    /// A length of a queue, in packets or in bytes: `"50 packets"`, `"75 kB"`.
    Threshold(QueueLength), "length of a queue", ["50 packets", "75 kB"],
    r"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*(packets?|([kKmMgGtT]i?)?(B|byte|bytes))\s*$",
    |text| match number_of_packets(text) {
        Some(_) => packets(text).map(QueueLength::Packets),
        None => bytes(text).map(QueueLength::Bytes).map_err(|error| error + ", or 50 packets"),
    }
);

/// How long a queue is.
#[derive(Debug, Copy, Clone, PartialEq)]
pub enum QueueLength {
    /// In packets.
    Packets(f64),
    /// In bytes.
    Bytes(ByteSize),
}

fn to_text<E: fmt::Display>(error: E) -> String {
    error.to_string()
}

/// Unlike on the command line, a size in a file has its unit.
fn bytes(text: &str) -> Result<ByteSize, String> {
    // Their example "1500" is for the command line.
    let size = text.parse().map_err(|error| {
        to_text::<ParseQuantityError>(error).replace("such as 1500,", "such as 1500 B,")
    })?;
    if text
        .trim_end()
        .ends_with(|c: char| c.is_ascii_digit() || c == '.')
    {
        return Err(format!(
            "{text:?} has no unit: write \"{} B\", or use kB, MB, KiB, …",
            text.trim()
        ));
    }
    Ok(size)
}

fn queue_limit(text: &str) -> Result<Limit, String> {
    if number_of_packets(text).is_some() {
        return whole_packets(text).map(Limit::Packets);
    }
    if text
        .trim_end()
        .ends_with(|c: char| c.is_ascii_digit() || c == '.')
    {
        let number = text.trim();
        return Err(format!(
            "{text:?} has no unit: write \"{number} packets\" or \"{number} kB\""
        ));
    }
    bytes(text)
        .map(|size| Limit::Bytes(size.bytes()))
        .map_err(|error| error + ", or 100 packets")
}

/// What stands before `packets`.
fn number_of_packets(text: &str) -> Option<&str> {
    let text = text.trim();
    let number = text
        .strip_suffix("packets")
        .or_else(|| text.strip_suffix("packet"))?;
    Some(number.trim_end())
}

fn packets(text: &str) -> Result<f64, String> {
    let plain = |number: &&str| number.chars().all(|c| c.is_ascii_digit() || c == '.');
    number_of_packets(text)
        .filter(plain)
        .and_then(|number| number.parse().ok())
        .filter(|number: &f64| number.is_finite())
        .ok_or_else(|| format!("{text:?} is not a number of packets: write it like \"10 packets\""))
}

fn whole_packets(text: &str) -> Result<u32, String> {
    let plain = |number: &&str| number.chars().all(|c| c.is_ascii_digit());
    number_of_packets(text)
        .filter(plain)
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| {
            let most = u32::MAX;
            format!(
                "{text:?} is not a whole number of packets up to {most}: write it like \"100 \
                packets\""
            )
        })
}

/// Reads text with a unit, and says how to write what has none.
struct Quantity<T> {
    what: &'static str,
    example: &'static str,
    parse: fn(&str) -> Result<T, String>,
}

impl<T> Quantity<T> {
    fn bare<E: de::Error>(&self, number: impl fmt::Display) -> Result<T, E> {
        let Quantity { what, example, .. } = self;
        Err(E::custom(format!(
            "{number} has no unit: a {what} is written in quotes, like {example:?}"
        )))
    }
}

impl<T> Visitor<'_> for Quantity<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} in quotes, like {:?}", self.what, self.example)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.bare(number)
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.bare(number)
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.bare(number)
    }
}

/// A name of a link, a path, a flow or a span: ASCII letters, digits, `_` and `-`, at most 64 of
/// them. Names become part of the names of files and columns, and of dotted keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// A name that the program gives: it is a good one.
    pub(crate) fn own(name: &'static str) -> Self {
        Name(name.to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            let shown: String = name.chars().take(40).collect();
            return Err(de::Error::custom(format!(
                "{shown:?} can't be a name: names consist of the letters A-Z and a-z, digits, _ \
                 and -, at most 64 of them"
            )));
        }
        Ok(Name(name))
    }
}

impl JsonSchema for Name {
    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A name: ASCII letters, digits, _ and -, at most 64 of them.",
            "pattern": "^[A-Za-z0-9_-]{1,64}$",
        })
    }
}

/// A finite number.
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct Number(pub f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if !number.is_finite() {
            return Err(de::Error::custom(format!(
                "{number} is not a finite number"
            )));
        }
        Ok(Number(number))
    }
}

impl JsonSchema for Number {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Number".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};

    fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
        let text: StrDeserializer<'a, Error> = text.into_deserializer();
        T::deserialize(text).map_err(|error| error.to_string())
    }

    #[test]
    fn queues_are_in_packets_or_bytes() {
        let limit = |text| read::<QueueLimit>(text).unwrap().0;
        assert_eq!(limit("100 packets"), Limit::Packets(100));
        assert_eq!(limit("1packet"), Limit::Packets(1));
        assert_eq!(limit("64 kB"), Limit::Bytes(64_000));
        assert_eq!(limit("64 KiB"), Limit::Bytes(65_536));
        for text in [
            "100",
            "1.5 packets",
            "-1 packets",
            "packets",
            "100 Mbps",
            "99999999999 packets",
        ] {
            let error = read::<QueueLimit>(text).unwrap_err();
            assert!(error.contains("packets"), "{error}");
        }
    }

    #[test]
    fn fractions_of_packets() {
        assert_eq!(read::<Packets>("1.5 packets"), Ok(Packets(1.5)));
        assert_eq!(
            read::<Threshold>("50 packets"),
            Ok(Threshold(QueueLength::Packets(50.0)))
        );
        assert_eq!(
            read::<Threshold>("75 kB"),
            Ok(Threshold(QueueLength::Bytes(ByteSize::new(75_000))))
        );
        for text in ["1e3 packets", "inf packets", "NaN packets", "1 p", "", "."] {
            assert!(read::<Packets>(text).is_err(), "{text}");
            assert!(read::<Threshold>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_units_here() {
        assert_eq!(read::<Bytes>("1500 B"), Ok(Bytes(ByteSize::new(1500))));
        assert_eq!(
            read::<Bytes>("1500").unwrap_err(),
            "\"1500\" has no unit: write \"1500 B\", or use kB, MB, KiB, …"
        );
    }

    #[test]
    fn rates_are_bounded() {
        assert!(read::<Bandwidth>("10 Tbps").is_ok());
        for text in ["10.1 Tbps", "2 TB/s", "99999999999999999999999999 Tbps"] {
            let error = read::<Bandwidth>(text).unwrap_err();
            assert!(error.contains("at most 10 Tbps"), "{error}");
        }
    }

    #[test]
    fn times_are_bounded() {
        assert!(read::<TimeSpan>("365 d").is_ok());
        assert!(
            read::<TimeSpan>("366 d")
                .unwrap_err()
                .contains("at most 365 d")
        );
    }

    proptest! {
        #[test]
        fn never_panics(text in "[0-9.]{0,4} ?[a-zA-Zµ/]{0,8}\\PC{0,3}") {
            let _ = read::<Bandwidth>(&text);
            let _ = read::<TimeSpan>(&text);
            let _ = read::<Bytes>(&text);
            let _ = read::<QueueLimit>(&text);
            let _ = read::<Packets>(&text);
            let _ = read::<WholePackets>(&text);
            let _ = read::<Threshold>(&text);
            let _ = read::<Name>(&text);
        }
    }
}
