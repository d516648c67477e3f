//! Reads the tree into types, by serde.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor,
};

use super::{Key, Node, Segment, Table, Value};

/// Reads `table` as a `T`.
pub(crate) fn decode<'de, T: de::Deserialize<'de>>(table: &'de Table) -> Result<T, Failure> {
    T::deserialize(TableDeserializer(table))
}

/// What could not be read, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The way to it.
    pub(crate) key: Key,
    /// It is the key itself that is wrong, not its value.
    pub(crate) at_key: bool,
    pub(crate) why: Why,
}

#[derive(Debug)]
pub(crate) enum Why {
    /// The type's own words.
    Message(String),
    /// The value is of another kind than this.
    Expected(String),
    /// The table takes these keys only.
    UnknownKey(&'static [&'static str]),
    /// The text must be one of these.
    UnknownWord(&'static [&'static str]),
}

impl Failure {
    fn new(why: Why) -> Self {
        Failure {
            key: Key::default(),
            at_key: false,
            why,
        }
    }

    fn within(mut self, segment: Segment) -> Self {
        self.key.prepend(segment);
        self
    }

    fn at_key(mut self, key: &str) -> Self {
        self.at_key = true;
        self.within(Segment::Key(key.to_owned()))
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.key, self.why)
    }
}

impl de::Error for Failure {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Failure::new(Why::Message(message.to_string()))
    }
    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Failure::new(Why::Expected(plain_words(&expected.to_string())))
    }
    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Failure::new(Why::Expected(plain_words(&expected.to_string())))
    }
    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        Failure::new(Why::UnknownKey(expected))
    }
    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Failure::new(Why::UnknownWord(expected))
    }
}

/// Serde's names of types, for people.
fn plain_words(expected: &str) -> String {
    match expected {
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" => "a whole number, 0 or more".to_owned(),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "text in quotes".to_owned(),
        "a sequence" => "a list: [ … ]".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.contains("enum ") => "text in quotes".to_owned(),
        other => other.to_owned(),
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match &self.value {
            Value::Text(text) | Value::Date(text) => visitor.visit_borrowed_str(text),
            Value::Integer(number) => match (i64::try_from(*number), u64::try_from(*number)) {
                (Ok(number), _) => visitor.visit_i64(number),
                (_, Ok(number)) => visitor.visit_u64(number),
                _ => visitor.visit_i128(*number),
            },
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::List(nodes) => visitor.visit_seq(List {
                nodes: nodes.iter(),
                next: 0,
            }),
            Value::Table(table) => TableDeserializer(table).deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        visitor.visit_newtype_struct(self)
    }

    /// Not from a list, which serde would take for the fields in order.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        match &self.value {
            Value::Table(table) => TableDeserializer(table).deserialize_any(visitor),
            _ => Err(Failure::new(Why::Expected("a table".to_owned()))),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        match &self.value {
            Value::Text(word) => {
                let word: StrDeserializer<'_, Failure> = word.as_str().into_deserializer();
                word.deserialize_enum(name, variants, visitor)
            }
            _ => Err(Failure::new(Why::UnknownWord(variants))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct TableDeserializer<'de>(&'de Table);

impl<'de> Deserializer<'de> for TableDeserializer<'de> {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_map(Map {
            entries: self.0.iter(),
            value: None,
        })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64
        char str string bytes byte_buf unit option enum
        newtype_struct unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Map<'de> {
    entries: indexmap::map::Iter<'de, String, super::Entry>,
    value: Option<(&'de str, &'de Node)>,
}

impl<'de> de::MapAccess<'de> for Map<'de> {
    type Error = Failure;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Failure> {
        let Some((key, entry)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some((key, &entry.node));
        let deserializer: StrDeserializer<'_, Failure> = key.as_str().into_deserializer();
        let key = seed
            .deserialize(deserializer)
            .map_err(|failure| failure.at_key(key))?;
        Ok(Some(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Failure> {
        let Some((key, node)) = self.value.take() else {
            return Err(de::Error::custom("a value without its key"));
        };
        seed.deserialize(node)
            .map_err(|failure| failure.within(Segment::Key(key.to_owned())))
    }
}

struct List<'de> {
    nodes: std::slice::Iter<'de, Node>,
    next: usize,
}

impl<'de> de::SeqAccess<'de> for List<'de> {
    type Error = Failure;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Failure> {
        let Some(node) = self.nodes.next() else {
            return Ok(None);
        };
        let index = self.next;
        self.next += 1;
        seed.deserialize(node)
            .map(Some)
            .map_err(|failure| failure.within(Segment::Index(index)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.nodes.len())
    }
}

/// The keys that a struct takes, as its `Deserialize` names them.
pub(crate) fn field_names<'de, T: de::Deserialize<'de>>() -> &'static [&'static str] {
    struct Ask<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Ask<'_> {
        type Error = Failure;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Failure> {
            Err(de::Error::custom("only asked for its keys"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Failure> {
            *self.0 = fields;
            self.deserialize_any(visitor)
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64
        char str string bytes byte_buf unit option enum
            newtype_struct unit_struct seq tuple tuple_struct map identifier ignored_any
        }
    }

    let mut names: &'static [&'static str] = &[];
    // The answer is in `names`; the error is how it got there.
    let _ = T::deserialize(Ask(&mut names));
    names
}
