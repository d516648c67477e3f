//! Names that cannot leave the directory they are joined to.

use manyway_units::printable;
use std::cmp::Ordering;
use std::fmt;

/// A relative name whose every component is harmless: the only kind of name that reaches a disk.
///
/// Components are separated by `/`. There are no empty components, no `.` or `..`, no backslash, no
/// NUL or other control character; a component has at most [`SafeName::MAX_COMPONENT`] bytes, the
/// whole at most [`SafeName::MAX_LEN`], and there are at most [`SafeName::MAX_DEPTH`] of them.
/// Names are UTF-8.
///
/// Characters that can't be seen but turn the direction of text, or have no width, are allowed:
/// some languages need them in names. `Display` escapes them ([`printable`]), so that no name looks
/// like another; [`SafeName::as_str`] is the name itself.
///
/// The order is by component, bytewise, so that a directory comes directly before what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SafeName(String);

impl SafeName {
    /// Longest component, in bytes (what the common file systems allow).
    pub const MAX_COMPONENT: usize = 255;
    /// Longest name, in bytes, separators included.
    pub const MAX_LEN: usize = 4096;
    /// Most components.
    pub const MAX_DEPTH: usize = 64;

    /// Checks a name that came from elsewhere.
    ///
    /// # Errors
    /// Says which rule the name breaks; the message carries the name with control characters
    /// escaped and cut to a printable length.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        match problem_with(name) {
            None => Ok(Self(name.to_owned())),
            Some(problem) => Err(NameError {
                name: printable(name, 80),
                problem,
            }),
        }
    }

    /// This name with one more component.
    ///
    /// # Errors
    /// As [`SafeName::parse`]; also if `component` contains a separator.
    pub fn join(&self, component: &str) -> Result<Self, NameError> {
        single(component)?;
        Self::parse(&format!("{}/{component}", self.0))
    }

    /// The whole name, components separated by `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The components, outermost first; there is at least one.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// The first component.
    pub fn top(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(top, _)| top)
    }

    /// The last component.
    pub fn file_name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, last)| last)
    }

    /// All but the last component; `None` for a name of one component.
    pub fn parent(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// Number of components.
    pub fn depth(&self) -> usize {
        self.components().count()
    }
}

impl PartialOrd for SafeName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SafeName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.components().cmp(other.components())
    }
}

impl fmt::Display for SafeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.0, Self::MAX_LEN))
    }
}

impl AsRef<str> for SafeName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// A name that is not safe, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name `{name}` is not safe: {problem}")]
pub struct NameError {
    /// The name, escaped and shortened for printing.
    pub name: String,
    /// The rule it breaks.
    pub problem: NameProblem,
}

/// The rule a name breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// No characters at all.
    #[error("it is empty")]
    Empty,
    /// It starts with a separator.
    #[error("it is absolute")]
    Absolute,
    /// Two separators in a row, or one at the end.
    #[error("it has an empty component")]
    EmptyComponent,
    /// A component `.`.
    #[error("it has a component `.`")]
    Dot,
    /// A component `..`.
    #[error("it has a component `..`")]
    DotDot,
    /// A separator where one component was expected.
    #[error("it has a `/` within a component")]
    Separator,
    /// A backslash, a separator on other systems.
    #[error("it has a backslash")]
    Backslash,
    /// NUL or another control character.
    #[error("it has the control character {0:#04x}")]
    Control(u32),
    /// Not UTF-8 (found by whoever turns a file system's name into text).
    #[error("it is not UTF-8")]
    NotUtf8,
    /// A component of more than [`SafeName::MAX_COMPONENT`] bytes.
    #[error("a component has {0} bytes, more than 255")]
    LongComponent(usize),
    /// More than [`SafeName::MAX_LEN`] bytes.
    #[error("it has {0} bytes, more than 4096")]
    TooLong(usize),
    /// More than [`SafeName::MAX_DEPTH`] components.
    #[error("it is more than 64 directories deep")]
    TooDeep,
}

fn problem_with(name: &str) -> Option<NameProblem> {
    if name.is_empty() {
        return Some(NameProblem::Empty);
    }
    // Lengths first: they bound the work below.
    if name.len() > SafeName::MAX_LEN {
        return Some(NameProblem::TooLong(name.len()));
    }
    if name.starts_with('/') {
        return Some(NameProblem::Absolute);
    }
    if name.split('/').count() > SafeName::MAX_DEPTH {
        return Some(NameProblem::TooDeep);
    }
    name.split('/').find_map(problem_with_component)
}

fn problem_with_component(component: &str) -> Option<NameProblem> {
    match component {
        "" => return Some(NameProblem::EmptyComponent),
        "." => return Some(NameProblem::Dot),
        ".." => return Some(NameProblem::DotDot),
        _ => {}
    }
    if component.len() > SafeName::MAX_COMPONENT {
        return Some(NameProblem::LongComponent(component.len()));
    }
    component.chars().find_map(|c| match c {
        '\\' => Some(NameProblem::Backslash),
        c if c.is_control() => Some(NameProblem::Control(c.into())),
        _ => None,
    })
}

fn single(component: &str) -> Result<(), NameError> {
    if component.contains('/') {
        return Err(NameError {
            name: printable(component, 80),
            problem: NameProblem::Separator,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    fn problem(name: &str) -> NameProblem {
        SafeName::parse(name).unwrap_err().problem
    }

    #[test]
    fn refuses_each_kind_of_bad_name() {
        assert_eq!(problem(""), NameProblem::Empty);
        assert_eq!(problem("/etc/passwd"), NameProblem::Absolute);
        assert_eq!(problem("../../etc/passwd"), NameProblem::DotDot);
        assert_eq!(problem("a/../b"), NameProblem::DotDot);
        assert_eq!(problem("./a"), NameProblem::Dot);
        assert_eq!(problem("a//b"), NameProblem::EmptyComponent);
        assert_eq!(problem("a/"), NameProblem::EmptyComponent);
        assert_eq!(problem("a\\..\\b"), NameProblem::Backslash);
        assert_eq!(problem("a\0b"), NameProblem::Control(0));
        assert_eq!(problem("a\u{9b}31m"), NameProblem::Control(0x9b));
        assert_eq!(problem(&"x".repeat(256)), NameProblem::LongComponent(256));
        assert_eq!(problem(&"x".repeat(10_000)), NameProblem::TooLong(10_000));
        assert_eq!(problem(&["d"; 65].join("/")), NameProblem::TooDeep);
    }

    #[test]
    fn accepts_the_limits_and_ordinary_names() {
        for name in [
            "a",
            "a b/ü/...",
            ".hidden",
            "..a",
            "-rf",
            &["d"; 64].join("/"),
        ] {
            assert_eq!(SafeName::parse(name).unwrap().as_str(), name);
        }
        assert!(SafeName::parse(&"x".repeat(255)).is_ok());
        let longest = "x".repeat(240) + &format!("/{}", "x".repeat(240)).repeat(16);
        assert_eq!(longest.len(), SafeName::MAX_LEN);
        assert!(SafeName::parse(&longest).is_ok());
        assert_eq!(
            problem(&format!("{longest}x")),
            NameProblem::TooLong(SafeName::MAX_LEN + 1)
        );
    }

    #[test]
    fn a_name_knows_its_ends() {
        for (name, top, last) in [("a", "a", "a"), ("a/b", "a", "b"), ("a/b/c", "a", "c")] {
            let name = SafeName::parse(name).unwrap();
            assert_eq!((name.top(), name.file_name()), (top, last));
        }
    }

    #[test]
    fn errors_are_short_and_free_of_control_characters() {
        let text = SafeName::parse(&format!("\u{1b}[2J{}", "y".repeat(10_000)))
            .unwrap_err()
            .to_string();
        assert!(text.len() < 200 && !text.contains('\u{1b}'), "{text:?}");
        insta::assert_snapshot!(
            SafeName::parse("../../etc/passwd").unwrap_err(),
            @"the name `../../etc/passwd` is not safe: it has a component `..`"
        );
    }

    #[test]
    fn a_name_that_looks_like_another_is_shown_for_what_it_is() {
        let name = SafeName::parse("exe.\u{202e}gpj").unwrap();
        assert_eq!(name.to_string(), "exe.\\u{202e}gpj");
        assert_eq!(name.as_str(), "exe.\u{202e}gpj");
    }

    #[test]
    fn a_directory_sorts_directly_before_its_contents() {
        let sorted = ["a", "a/b", "a/c", "a b", "a-b"].map(|n| SafeName::parse(n).unwrap());
        assert!(
            sorted.is_sorted(),
            "bytewise order would put `a b` between `a` and `a/b`"
        );
    }

    #[test]
    fn joins_one_component_only() {
        let name = SafeName::parse("a").unwrap();
        assert_eq!(name.join("b").unwrap().as_str(), "a/b");
        assert!(name.join("b/c").is_err());
        assert!(name.join("..").is_err());
    }

    proptest! {
        /// Whatever parses stays below the directory it is joined to, on this system's own reading
        /// of paths.
        #[test]
        fn what_parses_stays_inside(
            name in "[a./\\\\\0é\n]{0,12}|\\PC{0,40}|(\\.\\.|\\.|/|a|b){0,8}",
        ) {
            if let Ok(safe) = SafeName::parse(&name) {
                let components: Vec<_> = Path::new(safe.as_str()).components().collect();
                prop_assert!(components.iter().all(|c| matches!(c, Component::Normal(_))));
                prop_assert_eq!(components.len(), safe.depth());
                prop_assert_eq!(safe.components().collect::<Vec<_>>().join("/"), name);
            }
        }
    }
}
