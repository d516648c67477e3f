//! Many runs of an overlay scenario, and their results summed up. This module carries the plan out
//! and summarises; [`overlay`](crate::overlay) simulates, and the caller computes the optimum.

use std::sync::atomic::Ordering;

use indexmap::IndexMap;
use manyway_scenario::{OverlayExperiment, OverlayPoint};
use rayon::prelude::*;
use serde::Serialize;

use super::control::{Control, Running};
use super::plan::{BatchError, Job, Plan};
use crate::measure::Summary;
use crate::overlay::{self, OverlayError, OverlayRun, Setting};

/// Runs of an overlay scenario to do.
pub type OverlayPlan<'a> = Plan<'a, OverlayPoint, OverlayLevel>;

/// What carries runs of an overlay out.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OverlayLevel {
    /// Rates over shared links, interval by interval.
    Flow,
    /// Every packet of TCP connections.
    Packet,
}

/// One run and what it is compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct OverlayDone {
    /// Which run it was.
    pub job: Job,
    /// What it measured; without the series if that isn't to be kept.
    pub run: OverlayRun,
    /// The largest possible normalised rate with its selection; `None` of a search, which has many.
    pub optimum: Option<f64>,
}

/// The results of an overlay scenario, as `manyway run --json` has them. Every number is over the
/// finished repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverlayReport {
    /// The scenario's name.
    pub scenario: String,
    /// What carried the runs out.
    pub level: OverlayLevel,
    /// Seed of the first repetition; the next ones count up from it.
    pub seed: u64,
    /// Repetitions that were asked for.
    pub repeat: u32,
    /// Runs that are missing because they were stopped.
    pub unfinished: u64,
    /// Each point with a finished run, in the order of the sweep.
    pub points: Vec<OverlayPointReport>,
}

/// One point of an overlay scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverlayPointReport {
    /// Its number in the order of the sweep, from 1.
    pub point: usize,
    /// What the sweep sets here, by key.
    pub set: IndexMap<String, String>,
    /// Finished repetitions.
    pub runs: usize,
    /// Who loses on an overloaded link: `max-min`, `proportional` or `equal loss`; `null` at the
    /// packet level, where queues decide.
    pub sharing: Option<&'static str>,
    /// The normalised aggregate source rate `Σ x_s / Σ m_s` in the intervals that count; of a
    /// search, with the last selection.
    pub rate: Summary,
    /// Without a search: how it compares with the best, and how it gets there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlReport>,
    /// Of a search: how long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchReport>,
}

/// The rate controller on a selection that stays.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControlReport {
    /// The largest possible normalised rate: the linear programme's value.
    pub optimum: Summary,
    /// How far the rate is below it, as a share of it.
    pub below_optimum: Summary,
    /// The rate's standard deviation over the intervals that count.
    pub deviation: Summary,
    /// After so many intervals the rate stays within the band around its mean.
    pub settled_intervals: Summary,
}

/// A search for relays that satisfy everybody.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchReport {
    /// Iterations, the first selection being one; runs that found nothing count with all that they
    /// were allowed.
    pub iterations: Summary,
    /// Runs that found such relays.
    pub found: usize,
    /// The normalised rate with the first selection.
    pub first_rate: Summary,
}

impl OverlayPlan<'_> {
    /// Carries out the runs; they are in the order of the points, then of the repetitions, whatever
    /// the number of threads. It ends early when `control` is told to stop: then runs that are over
    /// are there, the others are missing. `optimum` has the largest sum of rates for a setting,
    /// bits/s.
    ///
    /// # Errors
    ///
    /// The first run that can't be carried out, or has no optimum. [`BatchError::Stopped`] if no
    /// run was over when it was stopped.
    pub fn run(
        &self,
        optimum: impl Fn(&Setting) -> Result<f64, String> + Sync,
        control: &Control,
    ) -> Result<Vec<OverlayDone>, BatchError<String>> {
        let simulated = |experiment: &OverlayExperiment, running: &Running<'_>| {
            relays(self.level, experiment, running)
        };
        self.run_by(simulated, optimum, control)
    }

    /// The same with runs that `simulated` carries out, such as by [`relays`] with something around
    /// it; `None` of one that was stopped.
    ///
    /// # Errors
    ///
    /// As of [`OverlayPlan::run`].
    pub fn run_by(
        &self,
        simulated: impl Fn(&OverlayExperiment, &Running<'_>) -> Result<Option<OverlayRun>, String>
        + Sync,
        optimum: impl Fn(&Setting) -> Result<f64, String> + Sync,
        control: &Control,
    ) -> Result<Vec<OverlayDone>, BatchError<String>> {
        let jobs: Vec<Job> = (0..self.jobs()).map(|index| self.job(index)).collect();
        let pool = self.pool()?;
        control.expect(self.jobs());
        let one = |job: &Job| {
            let done = self.one(job, &simulated, &optimum, control);
            done.map_err(|error| BatchError::Run { job: *job, error })
        };
        let done: Vec<Option<OverlayDone>> =
            pool.install(|| jobs.par_iter().map(one).collect::<Result<_, _>>())?;
        let done: Vec<OverlayDone> = done.into_iter().flatten().collect();
        match done.is_empty() {
            true => Err(BatchError::Stopped),
            false => Ok(done),
        }
    }

    fn one(
        &self,
        job: &Job,
        simulated: impl Fn(&OverlayExperiment, &Running<'_>) -> Result<Option<OverlayRun>, String>,
        optimum: impl Fn(&Setting) -> Result<f64, String>,
        control: &Control,
    ) -> Result<Option<OverlayDone>, String> {
        let running = Running::new(job.seed, control);
        if running.stop_flag().load(Ordering::Relaxed) {
            return Ok(None);
        }
        let experiment = &self.points[job.point].experiment;
        let Some(mut run) = simulated(experiment, &running)? else {
            return Ok(None);
        };
        if !self.keeps_series(job) {
            run.series = Vec::new();
        }
        let optimum = match run.search {
            Some(_) => None,
            None => {
                let setting =
                    Setting::draw(experiment, job.seed).map_err(|error| error.to_string())?;
                Some(optimum(&setting)? / setting.overlay.demand())
            }
        };
        Ok(Some(OverlayDone {
            job: *job,
            run,
            optimum,
        }))
    }

    /// Sums up what came of the runs.
    pub fn report(&self, done: &[OverlayDone]) -> OverlayReport {
        let points = done.chunk_by(|a, b| a.job.point == b.job.point);
        OverlayReport {
            scenario: self.scenario.to_owned(),
            level: self.level,
            seed: self.seed,
            repeat: self.repeat,
            unfinished: self.jobs() - done.len() as u64,
            points: points.map(|runs| self.point(runs)).collect(),
        }
    }

    fn point(&self, done: &[OverlayDone]) -> OverlayPointReport {
        let index = done[0].job.point;
        let OverlayPoint { set, experiment } = &self.points[index];
        OverlayPointReport {
            point: index + 1,
            set: set.iter().cloned().collect(),
            runs: done.len(),
            sharing: (self.level == OverlayLevel::Flow).then(|| sharing(experiment)),
            rate: summary(done, |done| done.run.rate),
            control: done[0].optimum.map(|_| ControlReport {
                optimum: summary(done, |done| done.optimum.unwrap_or(f64::NAN)),
                below_optimum: summary(done, |done| {
                    done.optimum
                        .map_or(f64::NAN, |best| (best - done.run.rate) / best)
                }),
                deviation: summary(done, |done| done.run.deviation),
                settled_intervals: summary(done, |done| done.run.settled as f64),
            }),
            search: done[0].run.search.map(|_| {
                let search = || done.iter().filter_map(|done| done.run.search);
                let iterations: Vec<f64> =
                    search().map(|search| search.iterations as f64).collect();
                let first: Vec<f64> = search().map(|search| search.first).collect();
                SearchReport {
                    iterations: Summary::of(&iterations).expect("at least one run"),
                    found: search().filter(|search| search.found).count(),
                    first_rate: Summary::of(&first).expect("at least one run"),
                }
            }),
        }
    }
}

/// One run of an overlay; `None` if it was stopped.
///
/// # Errors
///
/// If it can't be carried out.
pub fn relays(
    level: OverlayLevel,
    experiment: &OverlayExperiment,
    running: &Running<'_>,
) -> Result<Option<OverlayRun>, String> {
    let (seed, stop) = (running.seed(), running.stop_flag());
    let progress = |done| running.progress(done);
    let run = match level {
        OverlayLevel::Flow => overlay::flow(experiment, seed, stop, progress),
        OverlayLevel::Packet => overlay::packet(experiment, seed, stop, progress),
    };
    run.map_err(|error: OverlayError| error.to_string())
}

fn sharing(experiment: &OverlayExperiment) -> &'static str {
    experiment.sharing.name()
}

fn summary(done: &[OverlayDone], of: impl Fn(&OverlayDone) -> f64) -> Summary {
    let values: Vec<f64> = done.iter().map(of).collect();
    Summary::of(&values).expect("at least one run")
}
