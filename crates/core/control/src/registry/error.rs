//! What is wrong with a law as somebody wrote it, and how to mend it.

use crate::laws::entries;
use crate::parameter::Parameter;

/// A law that can't be had as it was asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LawError {
    /// There is no congestion control of this name.
    #[error("unknown congestion control {name:?}{}; known are {}", hint(.suggestion), known())]
    Unknown {
        /// The name asked for.
        name: String,
        /// The known name nearest to it, if one is near.
        suggestion: Option<&'static str>,
    },
    /// The law has no such parameter.
    #[error("{law} has no parameter {key:?}{}; {}", hint(.suggestion), takes(.known))]
    UnknownParameter {
        /// The law.
        law: &'static str,
        /// The key asked for.
        key: String,
        /// The key nearest to it, if one is near.
        suggestion: Option<&'static str>,
        /// What the law takes.
        known: &'static [Parameter],
    },
    /// A parameter is out of its range.
    #[error("{law}: {} = {value} is out of range; allowed is {}", .parameter.key, .parameter.range)]
    OutOfRange {
        /// The law.
        law: &'static str,
        /// The parameter.
        parameter: &'static Parameter,
        /// The value asked for.
        value: f64,
    },
    /// A parameter's value is not a number.
    #[error("{law}: {} = {text:?} is not a number; allowed is \
        {}", .parameter.key, .parameter.range)]
    NotANumber {
        /// The law.
        law: &'static str,
        /// The parameter.
        parameter: &'static Parameter,
        /// What stands in the place of the number.
        text: String,
    },
    /// A parameter is given more than once.
    #[error("{law}: {key} is given twice; give it once")]
    Twice {
        /// The law.
        law: &'static str,
        /// The parameter's key.
        key: &'static str,
    },
    /// The parameters are in range one by one, but not together.
    #[error("{law}: {reason}")]
    Inconsistent {
        /// The law.
        law: &'static str,
        /// What doesn't fit, and how to mend it.
        reason: String,
    },
    /// Something behind the colon is not an assignment.
    #[error("{law}: {text:?} is not of the form key=value; write {}", example(.law, .known))]
    NotAssigned {
        /// The law.
        law: &'static str,
        /// What stands in the place of the assignment.
        text: String,
        /// What the law takes.
        known: &'static [Parameter],
    },
    /// No law can be added by this name.
    #[error(
        "{name:?} can't be the name of a law: take small letters, digits and hyphens, 64 at most, \
         with a letter first"
    )]
    Name {
        /// The name asked for.
        name: String,
    },
    /// A law can't be added, as there is one of its name.
    #[error("there is a law {law} already: take another name")]
    Taken {
        /// The law.
        law: &'static str,
    },
}

fn takes(known: &[Parameter]) -> String {
    if known.is_empty() {
        return "it takes none".to_owned();
    }
    let known: Vec<String> = known
        .iter()
        .map(|p| format!("{} ({})", p.key, p.range))
        .collect();
    format!("it takes {}", known.join(", "))
}

/// The law with its defaults written out.
fn example(law: &str, known: &[Parameter]) -> String {
    if known.is_empty() {
        return law.to_owned();
    }
    let known: Vec<String> = known
        .iter()
        .map(|p| format!("{}={}", p.key, p.default))
        .collect();
    format!("{law}:{}", known.join(","))
}

/// As much of an input as an error should repeat.
pub(super) fn shortened(input: &str) -> String {
    input.chars().take(64).collect()
}

fn hint(suggestion: &Option<&'static str>) -> String {
    suggestion.map_or_else(String::new, |name| format!(" (did you mean {name:?}?)"))
}

fn known() -> String {
    let names: Vec<_> = entries().map(|entry| entry.name).collect();
    names.join(", ")
}

/// The known word with the fewest edits to `word`, if at most half of its letters differ.
pub(super) fn nearest_of(
    word: &str,
    known: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    known
        .map(|known| (strsim::levenshtein(&word, known), known))
        .min_by_key(|&(edits, _)| edits)
        .filter(|&(edits, known)| 2 * edits <= known.len())
        .map(|(_, known)| known)
}
