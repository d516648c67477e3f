//! The headline values that a study is expected to have: a small file of its own for each.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::extent::Size;
use crate::headline::Headline;
use crate::study::Study;

/// The headline values of a study, by name. The same seeds give the same values, so that each has
/// to be met exactly; [`Headline::rounded`] values are rounded in the file, too.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Of the short run.
    #[serde(default)]
    short: IndexMap<String, f64>,
    /// Of the full run.
    #[serde(default)]
    full: IndexMap<String, f64>,
}

/// A headline value that isn't as the reference has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// What it is.
    pub name: String,
    /// The reference's value, if it has one.
    pub expected: Option<f64>,
    /// The run's value, if it has one.
    pub found: Option<f64>,
}

/// Why a reference can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// The file can't be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The file isn't what we write.
    #[error("{}: {error}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: toml::de::Error,
    },
}

impl Reference {
    /// The reference of a study; one without values if it has none yet.
    ///
    /// # Errors
    ///
    /// When there is a file that can't be read.
    pub fn load(study: &dyn Study) -> Result<Self, ReferenceError> {
        let path = path(study);
        match fs::read_to_string(&path) {
            Ok(text) => {
                toml::from_str(&text).map_err(|error| ReferenceError::Malformed { path, error })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Reference::default()),
            Err(error) => Err(ReferenceError::Io { path, error }),
        }
    }

    /// What differs between these headline values and those of the reference.
    pub fn compare(&self, size: Size, headline: &[Headline]) -> Vec<Mismatch> {
        let expected = self.of(size);
        let mut mismatches = Vec::new();
        for Headline { name, value } in headline {
            let reference = expected.get(name).copied();
            if reference.is_none_or(|reference| !same(reference, *value)) {
                mismatches.push(Mismatch {
                    name: name.clone(),
                    expected: reference,
                    found: Some(*value),
                });
            }
        }
        let missing = expected
            .iter()
            .filter(|(name, _)| headline.iter().all(|known| known.name != **name));
        mismatches.extend(missing.map(|(name, value)| Mismatch {
            name: name.clone(),
            expected: Some(*value),
            found: None,
        }));
        mismatches
    }

    /// Expects these values from now on.
    ///
    /// # Panics
    ///
    /// When two of them have one name.
    pub fn expect(&mut self, size: Size, headline: &[Headline]) {
        let values = headline
            .iter()
            .map(|known| (known.name.clone(), known.value));
        let values: IndexMap<String, f64> = values.collect();
        assert_eq!(values.len(), headline.len(), "names of headline values");
        match size {
            Size::Short => self.short = values,
            Size::Full => self.full = values,
        }
    }

    /// Writes the study's file.
    ///
    /// # Errors
    ///
    /// When that isn't possible.
    pub fn save(&self, study: &dyn Study) -> Result<(), ReferenceError> {
        let path = path(study);
        let values = toml::to_string(self).expect("a map of numbers");
        let text = format!(
            "# Headline values of the study `{}`. Written by\n# `{}`\n# and, for those of the full \
             run, by the same with `--full`.\n\n{values}",
            study.name(),
            rewrite_command(study, Size::Short)
        );
        fs::write(&path, text).map_err(|error| ReferenceError::Io { path, error })
    }

    fn of(&self, size: Size) -> &IndexMap<String, f64> {
        match size {
            Size::Short => &self.short,
            Size::Full => &self.full,
        }
    }
}

/// The command that makes a run's headline values the reference.
pub fn rewrite_command(study: &dyn Study, size: Size) -> String {
    let full = match size {
        Size::Short => "",
        Size::Full => " --full",
    };
    let name = study.name();
    format!("cargo run --release -p manyway-studies -- {name}{full} --write-reference")
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match (self.expected, self.found) {
            (Some(expected), Some(found)) => write!(f, "expected {expected}, found {found}"),
            (None, Some(found)) => write!(f, "found {found}, the reference has no such value"),
            (Some(expected), None) => write!(f, "expected {expected}, the run has no such value"),
            (None, None) => Ok(()),
        }
    }
}

fn path(study: &dyn Study) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("reference");
    folder.join(study.name()).with_extension("toml")
}

/// Bit for bit, but for a value that isn't a number.
fn same(expected: f64, found: f64) -> bool {
    expected == found || (expected.is_nan() && found.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::STUDIES;

    fn headline() -> Vec<Headline> {
        vec![
            Headline::exact("share", 0.1 + 0.2),
            Headline::exact("never", f64::NAN),
            Headline::rounded("rate", 2.0 / 3.0),
        ]
    }

    #[test]
    fn values_survive_the_file() {
        let mut reference = Reference::default();
        reference.expect(Size::Short, &headline());
        let text = toml::to_string(&reference).unwrap();
        assert!(text.contains("rate = 0.666667\n"), "{text}");
        let read: Reference = toml::from_str(&text).unwrap();
        assert_eq!(read.compare(Size::Short, &headline()), []);
    }

    #[test]
    fn what_differs_is_told() {
        let mut reference = Reference::default();
        reference.expect(Size::Short, &headline());
        let mut other = headline();
        other[0].value = 0.3;
        other[2].name = "speed".to_owned();
        let told: Vec<String> = reference
            .compare(Size::Short, &other)
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = [
            "share: expected 0.30000000000000004, found 0.3",
            "speed: found 0.666667, the reference has no such value",
            "rate: expected 0.666667, the run has no such value",
        ];
        assert_eq!(told, expected);
        // Full and short runs have values of their own.
        assert_eq!(reference.compare(Size::Full, &headline()).len(), 3);
    }

    #[test]
    fn every_study_has_a_reference() {
        for study in STUDIES {
            let reference = Reference::load(*study).unwrap();
            let (short, full) = (reference.short.len(), reference.full.len());
            assert!(short > 0, "{}", study.name());
            assert!(short.max(full) <= 64, "{}", study.name());
        }
    }
}
