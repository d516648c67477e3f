//! The scenario as a tree of values, each of which knows where it was written.

use std::fmt;

use indexmap::IndexMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_parser::lexer::TokenKind;

mod de;
mod key;

pub(crate) use de::{Failure, Why, decode, field_names};
pub(crate) use key::{Key, Segment};

/// Where a value was written.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// At this byte of the file.
    File(usize),
    /// In the assignment of this number.
    Assignment(usize),
}

/// A value.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    /// Wide enough for every 64-bit integer, signed or not.
    Integer(i128),
    Float(f64),
    Bool(bool),
    /// A date or a time of day; nothing in a scenario takes one.
    Date(String),
    List(Vec<Node>),
    Table(Box<Table>),
}

/// Keys and values in the order in which they were written.
pub(crate) type Table = IndexMap<String, Entry>;

/// A key with its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Where the key was written.
    pub(crate) key: Origin,
    pub(crate) node: Node,
    /// The entry was copied here from `[defaults]`.
    pub(crate) inherited: bool,
}

/// A number that no integer of 64 bits or finite float can hold, and where it stands.
#[derive(Debug)]
pub(crate) struct TooLarge {
    pub(crate) text: String,
    pub(crate) at: usize,
}

/// Brackets within brackets, or parts of a dotted key: far more than a scenario has, and nothing to
/// run out of stack at.
const MAX_DEPTH: usize = 16;

/// Where, if anywhere, `text` nests deeper than [`MAX_DEPTH`]; to be asked before it is parsed, as
/// toml itself bounds values only and not dotted keys.
pub(crate) fn too_deep(text: &str) -> Option<usize> {
    let (mut brackets, mut dots) = (0_usize, 0);
    for token in toml_parser::Source::new(text).lex() {
        match token.kind() {
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => {
                brackets += 1;
                dots = 0;
            }
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => {
                brackets = brackets.saturating_sub(1);
                dots = 0;
            }
            TokenKind::Equals | TokenKind::Comma | TokenKind::Newline => dots = 0,
            TokenKind::Dot => dots += 1,
            _ => {}
        }
        if brackets > MAX_DEPTH || dots > MAX_DEPTH {
            return Some(token.span().start());
        }
    }
    None
}

/// The tree of a parsed document.
pub(crate) fn from_document(document: &DeTable<'_>) -> Result<Table, TooLarge> {
    // Most flows have fewer keys than a collection without a known size makes room for.
    let mut table = Table::with_capacity(document.len());
    for (key, value) in document {
        let entry = Entry {
            key: Origin::File(key.span().start),
            node: from_toml(value)?,
            inherited: false,
        };
        table.insert(key.get_ref().to_string(), entry);
    }
    Ok(table)
}

/// The tree of one parsed value.
pub(crate) fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Node, TooLarge> {
    let at = value.span().start;
    let too_large = |text: &str| TooLarge {
        text: text.chars().take(40).collect(),
        at,
    };
    let made = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => i128::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .filter(|n| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(n))
            .map(Value::Integer)
            .ok_or_else(|| too_large(integer.as_str()))?,
        DeValue::Float(float) => {
            let number: f64 = float
                .as_str()
                .parse()
                .map_err(|_| too_large(float.as_str()))?;
            if number.is_infinite() && !float.as_str().contains("inf") {
                return Err(too_large(float.as_str()));
            }
            Value::Float(number)
        }
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(values) => {
            Value::List(values.iter().map(from_toml).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => Value::Table(Box::new(from_document(table)?)),
    };
    Ok(Node {
        value: made,
        origin: Origin::File(at),
    })
}

impl Node {
    /// Gives the value and everything within it another origin.
    pub(crate) fn relocate(&mut self, origin: Origin) {
        self.origin = origin;
        match &mut self.value {
            Value::List(nodes) => nodes.iter_mut().for_each(|node| node.relocate(origin)),
            Value::Table(table) => table.values_mut().for_each(|entry| {
                entry.key = origin;
                entry.node.relocate(origin);
            }),
            _ => {}
        }
    }
}

/// As in TOML, on one line, shortened where it is long.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => match text.char_indices().nth(40) {
                Some((cut, _)) => write!(f, "{:?}", format!("{}…", &text[..cut])),
                None => write!(f, "{text:?}"),
            },
            Value::Integer(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number:?}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Date(text) => f.write_str(text),
            Value::List(nodes) => {
                let shown: Vec<_> = nodes
                    .iter()
                    .take(8)
                    .map(|node| node.value.to_string())
                    .collect();
                let more = if nodes.len() > 8 { ", …" } else { "" };
                write!(f, "[{}{more}]", shown.join(", "))
            }
            Value::Table(table) => {
                let shown: Vec<_> = table
                    .iter()
                    .take(8)
                    .map(|(key, entry)| {
                        let key = Segment::Key(key.clone());
                        format!("{key} = {}", entry.node.value)
                    })
                    .collect();
                let more = if table.len() > 8 { ", …" } else { "" };
                write!(f, "{{ {}{more} }}", shown.join(", "))
            }
        }
    }
}

/// What a key leads to.
pub(crate) enum Found<'a> {
    /// The value itself.
    Value {
        node: &'a Node,
        key: Origin,
        inherited: bool,
    },
    /// The key is missing; the innermost thing on the way that is there.
    Missing { inside: Option<Origin> },
}

/// Follows `key` from `root`.
pub(crate) fn find<'a>(root: &'a Table, key: &Key) -> Found<'a> {
    let mut segments = key.segments().iter();
    let Some(Segment::Key(first)) = segments.next() else {
        return Found::Missing { inside: None };
    };
    let Some(entry) = root.get(first) else {
        return Found::Missing { inside: None };
    };
    let (mut node, mut key, mut inherited) = (&entry.node, entry.key, entry.inherited);
    for segment in segments {
        let next = match (segment, &node.value) {
            (Segment::Key(name), Value::Table(table)) => table.get(name).map(|entry| {
                key = entry.key;
                inherited |= entry.inherited;
                &entry.node
            }),
            (Segment::Index(index), Value::List(nodes)) => nodes.get(*index).inspect(|node| {
                key = node.origin;
            }),
            _ => None,
        };
        let Some(next) = next else {
            let inside = Some(node.origin);
            return Found::Missing { inside };
        };
        node = next;
    }
    Found::Value {
        node,
        key,
        inherited,
    }
}

/// Takes the value at `key` out of the tree, if it is there.
pub(crate) fn remove(root: &mut Table, key: &Key) -> bool {
    let Some((last, parents)) = key.segments().split_last() else {
        return false;
    };
    if parents.is_empty() {
        return matches!(last, Segment::Key(name) if root.shift_remove(name).is_some());
    }
    let Some(parent) = find_mut(root, parents) else {
        return false;
    };
    match (last, &mut parent.value) {
        (Segment::Key(name), Value::Table(table)) => table.shift_remove(name).is_some(),
        (Segment::Index(index), Value::List(nodes)) if *index < nodes.len() => {
            nodes.remove(*index);
            true
        }
        _ => false,
    }
}

/// Follows the segments, of which there is at least one.
pub(crate) fn find_mut<'a>(root: &'a mut Table, segments: &[Segment]) -> Option<&'a mut Node> {
    let (first, rest) = segments.split_first()?;
    let Segment::Key(name) = first else {
        return None;
    };
    let mut node = &mut root.get_mut(name)?.node;
    for segment in rest {
        node = match (segment, &mut node.value) {
            (Segment::Key(name), Value::Table(table)) => &mut table.get_mut(name)?.node,
            (Segment::Index(index), Value::List(nodes)) => nodes.get_mut(*index)?,
            _ => return None,
        };
    }
    Some(node)
}
