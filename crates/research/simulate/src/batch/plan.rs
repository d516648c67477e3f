//! What a batch has to do: points times repetitions, numbered, each with its seed. This module
//! plans and never runs anything; [`Plan::run`] is in [`line`](super::line).

use std::fmt;

use manyway_scenario::Point;

use super::report::Level;

/// Runs to do: of points `P` at a level `L`.
#[derive(Debug)]
pub struct Plan<'a, P = Point, L = Level> {
    /// The scenario's name.
    pub scenario: &'a str,
    /// What carries the runs out; only named in the report.
    pub level: L,
    /// The points of the sweep; without a sweep one that sets nothing.
    pub points: &'a [P],
    /// Seed of each point's first repetition; the next ones count up from it.
    pub seed: u64,
    /// Repetitions of each point.
    pub repeat: u32,
    /// Number of runs that go on at the same time.
    pub threads: usize,
    /// Series of all repetitions are handed on; otherwise those of each point's first one, and the
    /// others' are dropped.
    pub keep_series: bool,
    /// The part of the runs to carry out.
    pub shard: Shard,
}

/// A part of a plan's runs: every N-th one. All N parts together are the whole plan.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Shard {
    /// Counted from 0.
    index: u32,
    of: u32,
}

impl Default for Shard {
    /// The whole plan.
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

impl Shard {
    /// Shard `number`, counted from 1, of so many; `None` if there is no such shard.
    pub fn new(number: u32, of: u32) -> Option<Self> {
        let index = number.checked_sub(1).filter(|index| *index < of)?;
        Some(Self { index, of })
    }

    /// Its number, counted from 1.
    pub fn number(self) -> u32 {
        self.index + 1
    }

    /// How many shards there are.
    pub fn of(self) -> u32 {
        self.of
    }
}

/// One run of a plan.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Job {
    /// Index in [`Plan::points`].
    pub point: usize,
    /// Counted from 0.
    pub repetition: u32,
    /// Seed of the run.
    pub seed: u64,
}

/// Why there is no report.
#[derive(Debug)]
pub enum BatchError<E> {
    /// A run could not be carried out.
    Run {
        /// The run.
        job: Job,
        /// The reason.
        error: E,
    },
    /// A run's result could not be handed on.
    Result {
        /// The run.
        job: Job,
        /// The reason.
        error: E,
    },
    /// It was stopped before any run was over.
    Stopped,
    /// The operating system gave us no threads.
    Threads(rayon::ThreadPoolBuildError),
}

impl<E: fmt::Display> fmt::Display for BatchError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { job, error } => write!(f, "the run with seed {}: {error}", job.seed),
            Self::Result { job, error } => {
                write!(f, "the result of the run with seed {}: {error}", job.seed)
            }
            Self::Stopped => f.write_str("stopped before the first run was over"),
            Self::Threads(error) => write!(f, "can't start threads: {error}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for BatchError<E> {}

impl<P, L> Plan<'_, P, L> {
    /// Number of runs, of the shard alone.
    pub fn jobs(&self) -> u64 {
        let all = self.points.len() as u64 * u64::from(self.repeat);
        let others = all.saturating_sub(self.shard.index.into());
        others.div_ceil(self.shard.of.into())
    }

    /// The run number `index`: all repetitions of the first point, then of the next.
    pub(super) fn job(&self, index: u64) -> Job {
        let index = u64::from(self.shard.index) + index * u64::from(self.shard.of);
        let repeat = u64::from(self.repeat.max(1));
        let repetition = (index % repeat) as u32;
        Job {
            point: (index / repeat) as usize,
            repetition,
            seed: self.seed.wrapping_add(u64::from(repetition)),
        }
    }

    /// Whether a result's series are worth keeping.
    pub(super) fn keeps_series(&self, job: &Job) -> bool {
        self.keep_series || job.repetition == 0
    }

    /// Threads for the runs, no more than there are runs.
    pub(super) fn pool<E>(&self) -> Result<rayon::ThreadPool, BatchError<E>> {
        let threads = self.threads.clamp(1, self.jobs().max(1) as usize);
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(BatchError::Threads)
    }
}

impl Plan<'_> {
    /// Number of results that may wait for their turn beside those under way: a slow run holds up
    /// the line, and memory must not fill meanwhile.
    pub(super) fn room(&self) -> u64 {
        /// Subflows, flows and links, at some 200 bytes each.
        const ENTRIES: usize = 200_000;
        let entries = |point: &Point| {
            let experiment = &point.experiment;
            let subflows: usize = experiment.flows.iter().map(|flow| flow.paths.len()).sum();
            subflows + experiment.flows.len() + experiment.topology.links.len() + 1
        };
        let largest = self.points.iter().map(entries).max().unwrap_or(1);
        (ENTRIES / largest) as u64
    }
}
