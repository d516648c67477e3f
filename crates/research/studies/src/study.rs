//! What a study is, and what it gives.

use manyway_report::Plot;
use serde_json::Value;

use crate::claims::{self, Number};
use crate::extent::{Extent, Size};
use crate::failure::Failure;
use crate::gate::{Fault, Gate};
use crate::headline::Headline;
use crate::ours::Ours;
use crate::table::Table;

/// The experiments of one paper, or of a question of our own.
pub trait Study: Sync {
    /// The name on the command line and of all files.
    fn name(&self) -> &'static str;

    /// What it reproduces, in one line.
    fn reproduces(&self) -> &'static str;

    /// About how many seconds of processor time it takes; for telling how far several of them are.
    fn cost(&self, size: Size) -> u32;

    /// Runs all of it.
    ///
    /// # Errors
    ///
    /// A scenario that can't be read or run. A gate that doesn't hold is no error.
    fn run(&self, extent: Extent) -> Result<Outcome, Failure>;
}

/// What a study gives.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// All of it for people, in Markdown; shows the plots by their files' names.
    pub page: String,
    /// What must hold.
    pub gates: Vec<Gate>,
    /// What stands beside the papers' numbers.
    pub ours: Vec<Ours>,
    /// Means of what was measured.
    pub tables: Vec<Table>,
    /// The few values that stand for the study. The same seeds must always give the same.
    pub headline: Vec<Headline>,
    /// The plots that the page shows.
    pub figures: Vec<Figure>,
    /// Results that don't fit into `tables`, in a form of the study's own; null without any.
    pub details: Value,
}

impl Outcome {
    /// Why a run of this study fails, in words: gates beyond their limits and bounds, bounds that
    /// aren't needed any more, and what differs between `claims/*.toml` and the study.
    pub fn faults(&self, study: &str, extent: Extent) -> Vec<String> {
        let gates = self.gates.iter().flat_map(|gate| {
            let faults = gate.faults(extent).into_iter();
            faults.map(move |fault: Fault| fault.words(gate, extent.size))
        });
        gates.chain(self.unknown(study, extent)).collect()
    }

    /// What only one of the claims and the study has.
    fn unknown(&self, study: &str, extent: Extent) -> Vec<String> {
        let mut words = Vec::new();
        for gate in &self.gates {
            if gate.row.claim.study.as_deref() != Some(study) {
                words.push(format!("{}: its claim names another study", gate.row.id()));
            }
        }
        let claims = claims::all().iter().flat_map(|paper| {
            let of_study = |claim: &&claims::Claim| claim.study.as_deref() == Some(study);
            let claims = paper.claims.iter().filter(of_study);
            claims.map(move |claim| (paper, claim))
        });
        let (mut numbers, mut full_only) = (Vec::new(), Vec::new());
        for (paper, claim) in claims {
            let measured = |name: &str| {
                let mut gates = self.gates.iter();
                gates.any(|gate| gate.row.paper.name == paper.name && gate.row.terms.name == name)
            };
            for terms in &claim.gates {
                if (extent.full() || !terms.full) && !measured(&terms.name) {
                    words.push(format!(
                        "{}/{}: the study {study} doesn't measure it",
                        paper.name, terms.name
                    ));
                }
            }
            let id = format!("{}/{}", paper.name, claim.item);
            for (_, name, number) in claim.numbers() {
                if matches!(number, Number::Value(_)) {
                    full_only.push((id.clone(), name));
                }
                numbers.push((id.clone(), name));
            }
        }
        for ours in &self.ours {
            let known = |(claim, name): &(String, &str)| *claim == ours.claim && *name == ours.name;
            if !numbers.iter().any(known) {
                words.push(format!("{}: it has no number {:?}", ours.claim, ours.name));
            }
        }
        if extent.full() {
            for (claim, name) in full_only {
                let known = |ours: &&Ours| ours.claim == claim && ours.name == name;
                if self.ours.iter().find(known).is_none() {
                    words.push(format!("{claim}: the study has nothing for {name:?}"));
                }
            }
        }
        words
    }
}

/// A plot, and what its file is called.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The file's name without `.svg`; begins with the study's name.
    pub name: String,
    /// The plot.
    pub plot: Plot,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, plot: Plot) -> Self {
        Figure {
            name: name.into(),
            plot,
        }
    }
}
