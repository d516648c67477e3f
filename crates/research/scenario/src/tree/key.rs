//! Dotted keys.

use std::fmt;

use super::MAX_DEPTH;

/// A way through the tree: `links.wifi.rate`, `links.*.queue`, `flows.phone.paths[1].start`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Key(Vec<Segment>);

/// A step of a [`Key`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Segment {
    /// Into a table.
    Key(String),
    /// Into a list, counted from 0.
    Index(usize),
    /// Into every entry of a table: `*`.
    Every,
}

impl Key {
    /// The keys of nested tables, outermost first.
    pub(crate) fn of<S: Into<String>>(keys: impl IntoIterator<Item = S>) -> Self {
        Key(keys
            .into_iter()
            .map(|key| Segment::Key(key.into()))
            .collect())
    }

    /// Reads a dotted key as somebody wrote it; parts in quotes may hold dots.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut segments = Vec::new();
        let mut rest = text.trim();
        loop {
            let (segment, after) = first_segment(rest)?;
            segments.push(segment);
            if segments.len() > MAX_DEPTH {
                return Err(format!("the key has more than {MAX_DEPTH} parts"));
            }
            let after = after.trim_start();
            match after.strip_prefix('.') {
                Some(next) => rest = next.trim_start(),
                None if after.is_empty() => return Ok(Key(segments)),
                None => rest = after,
            }
        }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The key's first name, if it has nothing else.
    pub(crate) fn bare(&self) -> Option<&str> {
        match &self.0[..] {
            [Segment::Key(name)] => Some(name),
            _ => None,
        }
    }

    /// The name of step `n`.
    pub(crate) fn name(&self, n: usize) -> Option<&str> {
        match self.0.get(n) {
            Some(Segment::Key(name)) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn join(&self, key: impl Into<String>) -> Self {
        self.with(Segment::Key(key.into()))
    }

    pub(crate) fn at(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    pub(crate) fn with(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Key(segments)
    }

    /// This key and more steps.
    pub(crate) fn joined(&self, segments: &[Segment]) -> Self {
        Key([&self.0[..], segments].concat())
    }

    /// Puts a step in front of all others.
    pub(crate) fn prepend(&mut self, segment: Segment) {
        self.0.insert(0, segment);
    }

    /// Whether one of the two leads to the other's value, or to something that holds it.
    pub(crate) fn overlaps(&self, other: &Key) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        pairs.all(|(a, b)| a == b || *a == Segment::Every || *b == Segment::Every)
    }
}

/// The first part of a dotted key, and what follows it.
fn first_segment(text: &str) -> Result<(Segment, &str), String> {
    let empty = || "a part of the key is empty".to_owned();
    for quote in ['"', '\''] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let (name, after) = quoted
                .split_once(quote)
                .ok_or_else(|| format!("the quote {quote} is not closed"))?;
            let next = after.trim_start();
            if !(next.is_empty() || next.starts_with(['.', '['])) {
                return Err(format!("a dot is missing behind {quote}{name}{quote}"));
            }
            return Ok((Segment::Key(name.to_owned()), after));
        }
    }
    if let Some(inside) = text.strip_prefix('[') {
        let parsed = inside
            .split_once(']')
            .and_then(|(index, after)| Some((index.trim().parse().ok()?, after)));
        let (index, after) = parsed
            .ok_or("what is in [ ] must be a number, counted from 0, as in timetable[0].at")?;
        return Ok((Segment::Index(index), after));
    }
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    match name.trim() {
        "" => Err(empty()),
        "*" => Ok((Segment::Every, after)),
        name if after == "." => Err(format!("nothing follows the dot behind {name}")),
        name => Ok((Segment::Key(name.to_owned()), after)),
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, segment) in self.0.iter().enumerate() {
            if n > 0 && !matches!(segment, Segment::Index(_)) {
                f.write_str(".")?;
            }
            write!(f, "{segment}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        match self {
            Segment::Key(name) if !name.is_empty() && name.chars().all(plain) => f.write_str(name),
            Segment::Key(name) => {
                let shown: String = name.chars().take(64).collect();
                write!(f, "{shown:?}")
            }
            Segment::Index(index) => write!(f, "[{index}]"),
            Segment::Every => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        let cases = [
            ("law", "law"),
            (" links . wifi . rate ", "links.wifi.rate"),
            ("links.*.queue", "links.*.queue"),
            ("sweep.\"links.wifi.rate\"", "sweep.\"links.wifi.rate\""),
            ("sweep.'links.wifi.rate'", "sweep.\"links.wifi.rate\""),
            ("links.wifi.timetable[2].at", "links.wifi.timetable[2].at"),
            ("\"links\".wifi", "links.wifi"),
            ("'a b'[0].at", "\"a b\"[0].at"),
        ];
        for (text, shown) in cases {
            assert_eq!(Key::parse(text).unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn refuses_what_leads_nowhere() {
        for text in [
            "", ".", "a.", ".a", "a..b", "\"a", "\"a\"b", "a[", "a[x]", "a[-1]",
        ] {
            assert!(Key::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_table_overlaps_what_it_holds() {
        let key = |text: &str| Key::parse(text).unwrap();
        assert!(key("links.wifi").overlaps(&key("links.wifi.rate")));
        assert!(key("links.*.rate").overlaps(&key("links.wifi")));
        assert!(!key("links.wifi.rate").overlaps(&key("links.wifi.delay")));
        assert!(!key("links.*.rate").overlaps(&key("flows.a.rate")));
    }

    proptest! {
        #[test]
        fn never_panics_and_reads_back_what_it_shows(text in "[a-z*.\"'\\[\\]0-9ü ]{0,12}") {
            // A quote within a name is shown escaped, which is not read back; no name has one.
            if let Ok(key) = Key::parse(&text) && !text.contains('"') {
                prop_assert_eq!(Key::parse(&key.to_string()), Ok(key));
            }
        }
    }
}
