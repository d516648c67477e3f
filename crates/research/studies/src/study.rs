//! What a study is, and what it gives.

use manyway_report::Plot;
use serde_json::Value;

use crate::failure::Failure;
use crate::gate::Gate;
use crate::headline::Headline;
use crate::runs::Runs;
use crate::table::Table;

/// The experiments of one paper, or of a question of our own.
pub trait Study: Sync {
    /// The name on the command line and of all files.
    fn name(&self) -> &'static str;

    /// What it reproduces, in one line.
    fn reproduces(&self) -> &'static str;

    /// Runs all of it.
    ///
    /// # Errors
    ///
    /// A scenario that can't be read or run. A gate that doesn't hold is no error.
    fn run(&self, extent: Extent) -> Result<Outcome, Failure>;
}

/// How much of a study is run.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub enum Size {
    /// A few minutes at most: fewer and shorter runs, for CI.
    Short,
    /// What the pages in `docs/results` show.
    Full,
}

/// How a study is run.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Extent {
    /// How much of it.
    pub size: Size,
    /// Added to every seed of the study; reference values are those of 0.
    pub seed: u64,
}

impl Extent {
    /// All of a study, or a sample of it, with the seeds of the reference.
    pub fn of(size: Size) -> Self {
        Extent { size, seed: 0 }
    }

    pub(crate) fn full(self) -> bool {
        self.size == Size::Full
    }

    /// So many repetitions in full or in short, with seeds of this extent.
    pub(crate) fn runs(self, full: u32, short: u32) -> Runs {
        Runs {
            repeat: if self.full() { full } else { short },
            seed: self.seed,
        }
    }
}

/// What a study gives.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// All of it for people, in Markdown; shows the plots by their files' names.
    pub page: String,
    /// What must hold.
    pub gates: Vec<Gate>,
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
    /// Whether every gate holds, or is known not to hold and says why.
    pub fn passes(&self) -> bool {
        self.gates.iter().all(Gate::passes)
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
