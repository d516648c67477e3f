//! What the papers say, and what our results are asked for: `claims/*.toml`, the single source of
//! the papers' numbers, of our tolerances and of recorded bounds. `claims/README.md` explains the
//! keys.

mod limits;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::LazyLock;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

pub use limits::{Known, Limits};

/// A paper, or the experiments of our own, with all its claims.
#[derive(Debug)]
pub struct Paper {
    /// Its name on the command line.
    pub name: &'static str,
    /// The paper's.
    pub title: String,
    /// In the paper's order.
    pub claims: Vec<Claim>,
}

/// What a paper says in one place.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name on the command line, after the paper's.
    pub item: String,
    /// Where it is in the paper.
    pub place: String,
    /// Whether there is something to reproduce.
    pub kind: Kind,
    /// What the paper says, in a sentence.
    pub claim: String,
    /// The study that measures it.
    pub study: Option<String>,
    /// The levels that it is run at.
    #[serde(default)]
    pub levels: Vec<Level>,
    /// The paper's numbers, by unit and by name.
    #[serde(default)]
    pub numbers: IndexMap<String, IndexMap<String, Number>>,
    /// Plots of the study that show it, by their files' names.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Gates of other claims that judge this one, too.
    #[serde(default)]
    pub also: Vec<String>,
    /// What must hold.
    #[serde(default, rename = "gate")]
    pub gates: Vec<Terms>,
}

/// What a claim is.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Something measured, computed or proved.
    Result,
    /// A drawing, a topology or settings.
    Illustration,
}

/// Where a claim is judged.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Differential equations, equilibria and optima.
    Fluid,
    /// Rates of application-limited flows.
    Flow,
    /// Packets.
    Packet,
    /// Complete sessions.
    Stack,
}

/// A number of the paper's, or its words where it has none.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Number {
    /// A number.
    Value(f64),
    /// Words.
    Words(String),
}

/// What a gate asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Unique in the paper's file.
    pub name: String,
    /// What it is about.
    #[serde(default)]
    pub kind: GateKind,
    /// What must hold, with the limits' names in braces.
    what: String,
    // Serde can't flatten where unknown fields are denied.
    at_least: Option<f64>,
    above: Option<f64>,
    at_most: Option<f64>,
    below: Option<f64>,
    /// Unit of the limits and of the values.
    pub unit: String,
    /// Where the limits come from.
    pub from: Origin,
    /// The reason for them.
    #[serde(default)]
    pub why: String,
    /// Only full runs measure it.
    #[serde(default)]
    pub full: bool,
    /// How far off values may be that miss the limits.
    #[serde(default)]
    pub known: Known,
    /// Why they miss them.
    pub cause: Option<String>,
    /// How that was tested.
    pub tested: Option<String>,
}

/// What a gate is about.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GateKind {
    /// Numbers.
    #[default]
    Value,
    /// Who has more.
    Order,
    /// A cause, tested by changing one thing, or a finding of our own; no claim's verdict.
    Control,
}

/// Where a tolerance comes from.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The paper.
    Paper,
    /// Us, before the first result.
    Ours,
    /// Us, set or changed after a result was seen.
    Later,
}

/// A file of claims.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    #[serde(rename = "claim")]
    claims: Vec<Claim>,
}

/// The names of the papers and of our own experiments, and their files.
const FILES: [(&str, &str); 6] = [
    ("balia", include_str!("../../claims/balia.toml")),
    ("wvegas", include_str!("../../claims/wvegas.toml")),
    ("bmc", include_str!("../../claims/bmc.toml")),
    ("mpath", include_str!("../../claims/mpath.toml")),
    ("overlay", include_str!("../../claims/overlay.toml")),
    ("manyway", include_str!("../../claims/manyway.toml")),
];

/// All files, the five papers first.
static ALL: LazyLock<Vec<Paper>> =
    LazyLock::new(|| FILES.map(|(name, text)| read(name, text)).into());

fn read(name: &'static str, text: &str) -> Paper {
    let file: File = toml::from_str(text).unwrap_or_else(|error| panic!("{name}.toml: {error}"));
    Paper {
        name,
        title: file.title,
        claims: file.claims,
    }
}

/// The files' names and texts.
pub(crate) fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.into_iter()
}

/// The five papers, and last the experiments of our own.
pub fn all() -> &'static [Paper] {
    &ALL
}

/// The five papers.
pub fn papers() -> &'static [Paper] {
    &ALL[..FILES.len() - 1]
}

impl Paper {
    /// The claim and the terms of the gate with this name.
    pub fn gate(&self, name: &str) -> Option<(&Claim, &Terms)> {
        let gates = self.claims.iter();
        let mut gates = gates.flat_map(|claim| claim.gates.iter().map(move |gate| (claim, gate)));
        gates.find(|(_, gate)| gate.name == name)
    }

    /// The claim with this name.
    pub fn claim(&self, item: &str) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.item == item)
    }
}

impl Claim {
    /// The paper's numbers as they stand in the file: unit, name and number.
    pub fn numbers(&self) -> impl Iterator<Item = (&str, &str, &Number)> {
        self.numbers.iter().flat_map(|(unit, numbers)| {
            let numbers = numbers.iter();
            numbers.map(move |(name, number)| (unit.as_str(), name.as_str(), number))
        })
    }
}

impl Terms {
    /// The limits of each value.
    pub fn limits(&self) -> Limits {
        Limits {
            at_least: self.at_least,
            above: self.above,
            at_most: self.at_most,
            below: self.below,
        }
    }

    /// What must hold, for people.
    pub fn what(&self) -> String {
        let limits = self.limits().named();
        let mut text = self.what.clone();
        for (name, limit) in limits {
            text = text.replace(&format!("{{{name}}}"), &limit.to_string());
        }
        text
    }
}

/// The paper and the claim of `paper/item`.
///
/// # Panics
///
/// When there is none: names stand in our own code.
pub(crate) fn claim(id: &str) -> (&'static Paper, &'static Claim) {
    let found = split(id).and_then(|(paper, item)| Some((paper, paper.claim(item)?)));
    found.unwrap_or_else(|| panic!("no file of claims has {id}"))
}

/// The paper, claim and terms of the gate `paper/name`.
///
/// # Panics
///
/// When there is none: names stand in our own code.
pub(crate) fn terms(id: &str) -> (&'static Paper, &'static Claim, &'static Terms) {
    let found = split(id).and_then(|(paper, name)| {
        let (claim, terms) = paper.gate(name)?;
        Some((paper, claim, terms))
    });
    found.unwrap_or_else(|| panic!("no file of claims has a gate {id}"))
}

fn split(id: &str) -> Option<(&'static Paper, &str)> {
    let (paper, rest) = id.split_once('/')?;
    Some((ALL.iter().find(|known| known.name == paper)?, rest))
}

/// A number of the paper's.
///
/// # Panics
///
/// When the claim `paper/item` has no number of this name.
pub(crate) fn number(id: &str, name: &str) -> f64 {
    let (_, claim) = claim(id);
    let mut numbers = claim.numbers();
    match numbers.find(|(_, own, _)| *own == name) {
        Some((_, _, Number::Value(value))) => *value,
        _ => panic!("{id} has no number {name:?}"),
    }
}

/// The ends of a range that the paper has, such as `"0.126-0.133"`.
///
/// # Panics
///
/// When the claim has no such range.
pub(crate) fn number_range(id: &str, name: &str) -> (f64, f64) {
    let (_, claim) = claim(id);
    let mut numbers = claim.numbers();
    let range = numbers
        .find(|(_, own, _)| *own == name)
        .and_then(|(_, _, number)| {
            let words = number.to_string();
            let (low, high) = words.split_once('-')?;
            Some((low.parse().ok()?, high.parse().ok()?))
        });
    range.unwrap_or_else(|| panic!("{id} has no range {name:?}"))
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Value(value) => value.fmt(f),
            Number::Words(words) => words.fmt(f),
        }
    }
}

impl Level {
    /// Its name in `--level`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Fluid => "fluid",
            Level::Flow => "flow",
            Level::Packet => "packet",
            Level::Stack => "stack",
        }
    }
}

impl Origin {
    /// Its name in the files.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Paper => "paper",
            Origin::Ours => "ours",
            Origin::Later => "later",
        }
    }
}
