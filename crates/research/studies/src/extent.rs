//! How much of a study is run, and with which seeds.

use crate::runs::Runs;

/// How much of a study is run.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub enum Size {
    /// A few minutes at most: fewer and shorter runs, for CI.
    Short,
    /// What the pages in `docs/results` show.
    Full,
}

impl Size {
    /// `short` or `full`, as in files.
    pub fn name(self) -> &'static str {
        match self {
            Size::Short => "short",
            Size::Full => "full",
        }
    }
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
