//! Errors with their place in the file, and hints at what was meant.

use std::fmt;

use crate::tree::Origin;

/// How many problems an error tells of at most.
const MAX_PROBLEMS: usize = 20;

/// A scenario that can't be run: everything that is wrong with it, as far as it could be told.
///
/// `Display` writes a line for each problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    problems: Vec<Problem>,
    /// Further ones that are left out.
    more: usize,
}

impl ScenarioError {
    /// `problems` has at least one entry.
    pub(crate) fn new(mut problems: Vec<Problem>) -> Self {
        let more = problems.len().saturating_sub(MAX_PROBLEMS);
        problems.truncate(MAX_PROBLEMS);
        ScenarioError { problems, more }
    }

    /// What is wrong; the first 20 problems.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl From<Problem> for ScenarioError {
    fn from(problem: Problem) -> Self {
        ScenarioError::new(vec![problem])
    }
}

impl std::error::Error for ScenarioError {}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            let separator = if n == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n… and {more} more"),
        }
    }
}

/// One thing that is wrong with a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it was written.
    pub place: Place,
    /// The key that it is about, with dots.
    pub key: Option<String>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{}: {key}: {}", self.place, self.message),
            None => write!(f, "{}: {}", self.place, self.message),
        }
    }
}

/// Where something was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a file, nowhere in particular.
    File(String),
    /// At a line and a column of a file, both counted from 1; a column is a character.
    Line {
        /// The file.
        file: String,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// In an assignment, [`Scenario::set`](crate::Scenario::set).
    Assignment(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(file) => f.write_str(&shown(file)),
            Place::Line { file, line, column } => write!(f, "{}:{line}:{column}", shown(file)),
            Place::Assignment(text) => write!(f, "--set {}", shown(text)),
        }
    }
}

/// As somebody wrote it, but fit for a terminal.
fn shown(text: &str) -> String {
    manyway_units::printable(text, usize::MAX)
}

/// The texts that a scenario was made of.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    /// The file's name.
    pub(crate) file: String,
    /// What is in it.
    pub(crate) text: String,
    /// The assignments, in order.
    pub(crate) assignments: Vec<String>,
}

impl Sources {
    pub(crate) fn place(&self, origin: Option<Origin>) -> Place {
        match origin {
            None => Place::File(self.file.clone()),
            Some(Origin::File(offset)) => self.line(offset),
            Some(Origin::Assignment(n)) => {
                let text = self.assignments.get(n).map_or("", String::as_str);
                Place::Assignment(shortened(text, 80))
            }
        }
    }

    fn line(&self, offset: usize) -> Place {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place::Line {
            file: self.file.clone(),
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
        }
    }
}

/// As much of `text` as an error should repeat.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

/// ` (did you mean NAME?)`, if one of `known` is near to `word`.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    if word.len() > 64 {
        return String::new();
    }
    let word = word.to_lowercase();
    let near = known
        .into_iter()
        .map(|known| {
            (
                strsim::damerau_levenshtein(&word, &known.to_lowercase()),
                known,
            )
        })
        .filter(|(edits, known)| 3 * edits <= known.chars().count())
        .min_by_key(|(edits, _)| *edits);
    near.map_or_else(String::new, |(_, known)| {
        format!(" (did you mean {known}?)")
    })
}

/// `a, b, c`, shortened where there are many.
pub(crate) fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const MOST: usize = 24;
    let more = names.len().saturating_sub(MOST);
    let mut list = names.take(MOST).collect::<Vec<_>>().join(", ");
    if more > 0 {
        list += &format!(", … ({more} more)");
    }
    list
}
