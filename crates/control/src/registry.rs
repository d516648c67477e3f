//! Names of controllers and how to make them, in one place.

use crate::controller::Controller;
use crate::coupled::Coupled;
use crate::law::Law;
use crate::laws::{Balia, Cubic, Lia, Reno};
use crate::options::Options;

/// One line per controller.
const ENTRIES: &[Entry] = &[
    Entry {
        name: "reno",
        about: "uncoupled Reno on every path (RFC 5681): n paths take n shares of a common bottleneck",
        controller: |options| Box::new(Coupled::new(Reno, *options)),
        law: Some(|| Box::new(Reno)),
    },
    Entry {
        name: "lia",
        about: "linked increases (RFC 6356): as much as one flow on the best path, never more than one on any",
        controller: |options| Box::new(Coupled::new(Lia, *options)),
        law: Some(|| Box::new(Lia)),
    },
    Entry {
        name: "balia",
        about: "balanced linked adaptation (Peng et al.): friendlier than lia, and quick to respond",
        controller: |options| Box::new(Coupled::new(Balia, *options)),
        law: Some(|| Box::new(Balia)),
    },
    Entry {
        name: "cubic",
        about: "uncoupled CUBIC on every path (RFC 9438): the kernel's default, as a baseline",
        controller: |options| Box::new(Cubic::new(*options)),
        law: None,
    },
];

struct Entry {
    name: &'static str,
    about: &'static str,
    controller: fn(&Options) -> Box<dyn Controller>,
    /// The window law, where the controller is one.
    law: Option<fn() -> Box<dyn Law>>,
}

/// A controller without paths, by its name.
///
/// # Errors
/// [`UnknownLaw`] if there is no such name.
pub fn controller(name: &str, options: &Options) -> Result<Box<dyn Controller>, UnknownLaw> {
    Ok((find(name)?.controller)(options))
}

/// A window law by its name; `None` where the named controller is not a window law (`cubic`).
///
/// # Errors
/// [`UnknownLaw`] if there is no such name.
pub fn law(name: &str) -> Result<Option<Box<dyn Law>>, UnknownLaw> {
    Ok(find(name)?.law.map(|make| make()))
}

/// All names with a line about each, in the order in which they should be listed.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    ENTRIES.iter().map(|entry| (entry.name, entry.about))
}

/// A law by name with its parameters, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct LawSpec {
    name: &'static str,
}

impl LawSpec {
    /// The law's name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// There is no congestion control of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown congestion control {name:?}{}; known are {}", hint(.suggestion), known())]
pub struct UnknownLaw {
    /// The name asked for.
    pub name: String,
    /// The known name nearest to it, if one is near.
    pub suggestion: Option<&'static str>,
}

fn find(name: &str) -> Result<&'static Entry, UnknownLaw> {
    ENTRIES
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| UnknownLaw {
            name: name.chars().take(64).collect(),
            suggestion: nearest(name),
        })
}

fn hint(suggestion: &Option<&'static str>) -> String {
    suggestion.map_or_else(String::new, |name| format!(" (did you mean {name:?}?)"))
}

fn known() -> String {
    names().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// The known name with the fewest edits to `name`, if at most half of its letters differ.
fn nearest(name: &str) -> Option<&'static str> {
    if name.len() > 64 {
        return None;
    }
    let name = name.to_lowercase();
    names()
        .map(|(known, _)| (edits(&name, known), known))
        .min_by_key(|&(edits, _)| edits)
        .filter(|&(edits, known)| 2 * edits <= known.len())
        .map(|(_, known)| known)
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_makes_the_controller_it_names() {
        for (name, about) in names() {
            let made = controller(name, &Options::default()).unwrap();
            assert_eq!(made.name(), name);
            assert!(!about.is_empty());
            if let Some(law) = law(name).unwrap() {
                assert_eq!(law.name(), name);
            }
        }
        assert!(law("cubic").unwrap().is_none());
    }

    #[test]
    fn unknown_names_are_told_what_exists() {
        let error = controller("Ballia", &Options::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown congestion control \"Ballia\" (did you mean \"balia\"?); known are reno, lia, balia, cubic"
        );
        let error = controller("x", &Options::default()).unwrap_err();
        assert_eq!(error.suggestion, None);
        let long = "l".repeat(1 << 20);
        let error = controller(&long, &Options::default()).unwrap_err();
        assert_eq!(error.name.len(), 64);
    }

    #[test]
    fn edits_counts_insertions_deletions_and_replacements() {
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", ""), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("lia", "balia"), 2);
    }
}
