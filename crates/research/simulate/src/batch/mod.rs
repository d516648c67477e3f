//! Many runs: every point of a sweep, each repeated with other seeds, on all cores.
//!
//! A [`Plan`] is points × repetitions. Runs are independent, are started in order and are handed on
//! in order, so neither a report nor a file that is written on the way depends on the number of
//! threads. Memory is bounded by the runs under way: of a run that is over only its contribution to
//! the means ([`Report`]) remains.

mod control;
mod line;
mod overlay;
mod report;
mod tally;

#[cfg(test)]
mod tests;

use std::fmt;

use manyway_scenario::{Experiment, Point};

pub use control::{Control, Running};
pub use overlay::{
    ControlReport, OverlayDone, OverlayLevel, OverlayPlan, OverlayPointReport, OverlayReport,
    SearchReport,
};
pub use report::{
    FlowReport, GroupReport, Level, LinkReport, Measured, Object, PointReport, Report, Results,
    SpanReport, SubflowReport, VERSION, schema,
};

use crate::packet::{RunResult, Simulation, SimulationError};
use line::Line;

/// Runs to do.
#[derive(Debug, Copy, Clone)]
pub struct Plan<'a> {
    /// The scenario's name.
    pub scenario: &'a str,
    /// What carries the runs out; only named in the report.
    pub level: Level,
    /// The points of the sweep; without a sweep one that sets nothing.
    pub points: &'a [Point],
    /// Seed of each point's first repetition; the next ones count up from it.
    pub seed: u64,
    /// Repetitions of each point.
    pub repeat: u32,
    /// So many runs go on at the same time.
    pub threads: usize,
    /// Series of all repetitions are handed on; otherwise those of each point's first one, and the
    /// others' are dropped.
    pub keep_series: bool,
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

/// Carries out a run at the packet level.
///
/// # Errors
///
/// [`SimulationError`] if the experiment can't be run.
pub fn packet(experiment: &Experiment, run: &Running<'_>) -> Result<RunResult, SimulationError> {
    let mut simulation = Simulation::new(experiment, run.seed())?;
    Ok(simulation.run_with(run.stop_flag(), |done| run.progress(done)))
}

impl Plan<'_> {
    /// Number of runs.
    pub fn jobs(&self) -> u64 {
        self.points.len() as u64 * u64::from(self.repeat)
    }

    /// Carries out the runs by `level` and hands each result to `sink`, in the order of
    /// [`Plan::job`] whatever order they end in. It ends early when `control` is told to stop: then
    /// runs that are over count, the others are missing ([`Report::unfinished`]).
    ///
    /// `level` and `sink` may run on any of the threads, `sink` on one at a time.
    ///
    /// # Errors
    ///
    /// The first error of `level` or `sink`; no further runs are started and those under way are
    /// stopped. [`BatchError::Stopped`] if no run was over when it was stopped.
    pub fn run<E: Send>(
        &self,
        level: impl Fn(&Experiment, &Running<'_>) -> Result<RunResult, E> + Sync,
        sink: impl FnMut(&Job, &RunResult) -> Result<(), E> + Send,
        control: &Control,
    ) -> Result<Report, BatchError<E>> {
        let threads = self.threads.clamp(1, self.jobs().max(1) as usize);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(BatchError::Threads)?;
        control.expect(self.jobs());
        let line = Line::new(self, control, sink);
        pool.broadcast(|_| {
            while let Some(ticket) = line.take() {
                let job = ticket.job;
                let run = Running::new(job.seed, control);
                let result = level(&self.points[job.point].experiment, &run);
                drop(run);
                ticket.hand_in(result);
            }
        });
        line.report()
    }

    /// The run number `index`: all repetitions of the first point, then of the next.
    pub fn job(&self, index: u64) -> Job {
        let repeat = u64::from(self.repeat.max(1));
        let repetition = (index % repeat) as u32;
        Job {
            point: (index / repeat) as usize,
            repetition,
            seed: self.seed.wrapping_add(u64::from(repetition)),
        }
    }

    /// Whether a result's series are worth keeping.
    fn keeps_series(&self, job: &Job) -> bool {
        self.keep_series || job.repetition == 0
    }

    /// So many results may wait for their turn beside those under way: a slow run holds up the
    /// line, and memory must not fill meanwhile.
    fn room(&self) -> u64 {
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
