//! Named links and the paths over them, by index.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use crate::{InvalidLink, LinkConfig};

/// Named links and the paths over them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Topology {
    /// One-way links.
    pub links: Vec<NamedLink>,
    /// Ways over them.
    pub paths: Vec<PathSpec>,
}

/// A link with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedLink {
    /// Unique among the links.
    pub name: String,
    /// What it is like.
    pub config: LinkConfig,
}

/// A way from a sender to a receiver, and back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PathSpec {
    /// Unique among the paths.
    pub name: String,
    /// Indices of the links that data packets pass, in order: at least one, none of them twice.
    pub links: Vec<usize>,
    /// Indices of the links that acknowledgements pass, in order; none of them twice.
    pub reverse: Vec<usize>,
    /// What an acknowledgement's way takes beside the reverse links: all of it where there are
    /// none.
    pub return_delay: Duration,
}

impl Topology {
    /// Checks every link and every path.
    ///
    /// # Errors
    /// The first link or path that can't work.
    pub fn validate(&self) -> Result<(), InvalidTopology> {
        check_names(Part::Link, self.links.iter().map(|link| &link.name))?;
        check_names(Part::Path, self.paths.iter().map(|path| &path.name))?;
        for (index, link) in self.links.iter().enumerate() {
            link.config.validate().map_err(|error| {
                let InvalidLink {
                    field,
                    value,
                    allowed,
                } = error;
                InvalidTopology {
                    part: Part::Link,
                    index,
                    name: link.name.clone(),
                    field,
                    problem: format!("is {value}: {allowed}"),
                }
            })?;
        }
        for (index, path) in self.paths.iter().enumerate() {
            let refuse = |(field, problem): (&str, String)| InvalidTopology {
                part: Part::Path,
                index,
                name: path.name.clone(),
                field: field.to_owned(),
                problem,
            };
            self.check_path(path).map_err(refuse)?;
        }
        Ok(())
    }

    fn check_path(&self, path: &PathSpec) -> Result<(), (&'static str, String)> {
        if path.links.is_empty() {
            let problem = "is empty: a path needs at least one link".to_owned();
            return Err(("links", problem));
        }
        for (field, way) in [("links", &path.links), ("reverse", &path.reverse)] {
            let mut passed = HashSet::new();
            for &link in way {
                let Some(named) = self.links.get(link) else {
                    let problem = format!(
                        "has link number {link} (counted from 0), but there are {} links",
                        self.links.len()
                    );
                    return Err((field, problem));
                };
                if !passed.insert(link) {
                    let problem =
                        format!("passes the link `{}` twice: leave the loop out", named.name);
                    return Err((field, problem));
                }
            }
        }
        Ok(())
    }
}

fn check_names<'a>(
    part: Part,
    names: impl Iterator<Item = &'a String>,
) -> Result<(), InvalidTopology> {
    let mut seen = HashMap::new();
    for (index, name) in names.enumerate() {
        let refuse = |problem| {
            Err(InvalidTopology {
                part,
                index,
                name: name.clone(),
                field: "name".to_owned(),
                problem,
            })
        };
        if name.is_empty() {
            return refuse("is empty: choose one".to_owned());
        }
        if let Some(first) = seen.insert(name, index) {
            let problem =
                format!("is that of {part} number {first} (counted from 0) too: choose another");
            return refuse(problem);
        }
    }
    Ok(())
}

/// A topology that can't work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part} number {index} (counted from 0), `{name}`: its `{field}` {problem}")]
pub struct InvalidTopology {
    /// Whether it is about a link or a path …
    pub part: Part,
    /// … which one of them, by its index …
    pub index: usize,
    /// … and by its name.
    pub name: String,
    /// The field within [`NamedLink`], [`LinkConfig`] or [`PathSpec`], as in
    /// [`InvalidLink::field`].
    pub field: String,
    /// What is wrong with it and what is allowed: goes on where "its `rate` …" begins.
    pub problem: String,
}

/// What a topology consists of.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub enum Part {
    /// An entry of [`Topology::links`].
    Link,
    /// An entry of [`Topology::paths`].
    Path,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Link => "link",
            Part::Path => "path",
        })
    }
}

#[cfg(test)]
mod tests;
