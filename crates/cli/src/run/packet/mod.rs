//! `manyway run --level packet` and `--level stack`: every packet over links with queues, sent by
//! bare senders or by complete sessions, all points and repetitions on all cores. This module hands
//! the runs to the simulator's [`Plan`] and the results to tables, plots and text; it computes no
//! result itself.

mod log;
mod qlog;
mod text;

use std::sync::{Mutex, PoisonError};

use manyway_results::Sheet;
use manyway_results::naming::setting;
use manyway_results::packet::Rows;
use manyway_scenario::{Experiment, Point, Scenario};
use manyway_simulate::batch::{self, BatchError, Control, Job, Plan, Report, Running, Shard};
use manyway_simulate::packet::RunResult;
use tracing::info;

use self::log::Logs;
use super::folder::Folder;
use super::goodput::Column;
use super::level::{self, Level, Request};
use super::plots;
use super::stored::Stored;
use crate::args;
use crate::exit::usage;
use crate::scenario::several;

/// A checked request.
#[derive(Debug)]
pub(crate) struct Packet {
    head: Head,
    level: batch::Level,
    points: Vec<Point>,
    threads: usize,
    keep_series: bool,
    shard: Shard,
    /// What is written down of each packet.
    log: Option<Logs>,
    /// Results that there are already, in the place of runs.
    stored: Option<Mutex<Stored>>,
}

/// What the runs need of the scenario, which is larger than all its points.
#[derive(Debug)]
struct Head {
    name: String,
    seed: u64,
    repeat: u32,
}

impl Head {
    fn of(scenario: &Scenario) -> Self {
        Self {
            name: scenario.name().to_owned(),
            seed: scenario.seed(),
            repeat: scenario.repeat(),
        }
    }
}

impl Level for Packet {
    type Report = Report;

    fn prepare(request: Request<'_>) -> anyhow::Result<Self> {
        Self::of(&request)
    }

    fn sheets(&self) -> Vec<Sheet> {
        Rows::of(&self.points).sheets()
    }

    fn run(mut self, control: &Control, mut folder: Option<&mut Folder>) -> anyhow::Result<Report> {
        let level = self.level;
        let points = self.points.len();
        let (stored, log) = (self.stored.take(), self.log.take());
        let report = self.run_by(control, folder.as_deref_mut(), |experiment, run| {
            match (&stored, &log) {
                (Some(stored), _) => stored.lock().unwrap_or_else(PoisonError::into_inner).next(),
                (None, Some(log)) => logged(level, experiment, run, log),
                (None, None) => simulated(level, experiment, run),
            }
        })?;
        if let Some(stored) = stored.filter(|_| report.unfinished == 0) {
            let stored = stored.into_inner();
            stored.unwrap_or_else(PoisonError::into_inner).finish()?;
        }
        if let (Some(log), Some(folder)) = (log, folder) {
            log.hand_over(folder, points);
        }
        Ok(report)
    }
}

impl Packet {
    /// What runs at the packet or the stack level.
    pub(super) fn of(request: &Request<'_>) -> anyhow::Result<Self> {
        let (level, points) = match request.levels[..] {
            [args::Level::Stack] => (batch::Level::Stack, request.scenario.session_points()),
            _ => (batch::Level::Packet, request.scenario.packet_points()),
        };
        let points = points.map_err(|error| usage(error.to_string()))?;
        Ok(Self {
            level,
            log: Logs::of(&request.log, request.args.out.as_deref(), level, &points)?,
            points,
            threads: request.threads(),
            keep_series: request.keep_series,
            shard: request.shard,
            stored: None,
            head: Head::of(&request.scenario),
        })
    }

    /// What runs at the live level.
    pub(crate) fn live(request: Request<'_>) -> anyhow::Result<Self> {
        let points = request.scenario.live_points();
        Ok(Self {
            level: batch::Level::Live,
            points: points.map_err(|error| usage(error.to_string()))?,
            // Runs side by side would take each other's time.
            threads: 1,
            keep_series: request.keep_series,
            shard: Shard::default(),
            log: None,
            stored: None,
            head: Head::of(&request.scenario),
        })
    }

    /// The same with results that there are already.
    pub(super) fn stored(self, stored: Stored) -> Self {
        Self {
            // They are read in the order of the runs.
            threads: 1,
            stored: Some(Mutex::new(stored)),
            ..self
        }
    }

    /// The scenario's name.
    pub(super) fn name(&self) -> &str {
        &self.head.name
    }

    /// All points.
    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Carries each run out, and hands the results to `sink`, in the order of the runs.
    pub(super) fn each(
        &self,
        control: &Control,
        mut sink: impl FnMut(&RunResult) -> anyhow::Result<()> + Send,
    ) -> anyhow::Result<Report> {
        self.plan(
            control,
            |experiment, run| simulated(self.level, experiment, run),
            |_, run| sink(run),
        )
    }

    /// Has `level` carry each run out.
    pub(crate) fn run_by(
        self,
        control: &Control,
        mut folder: Option<&mut Folder>,
        level: impl Fn(&Experiment, &Running<'_>) -> anyhow::Result<RunResult> + Sync,
    ) -> anyhow::Result<Report> {
        let rows = Rows::of(&self.points);
        self.plan(control, level, |job, run| match folder.as_deref_mut() {
            Some(folder) => {
                rows.add(folder, job, &self.points[job.point], run)?;
                draw(folder, job, &self.points, run)
            }
            None => Ok(()),
        })
    }

    fn plan(
        &self,
        control: &Control,
        level: impl Fn(&Experiment, &Running<'_>) -> anyhow::Result<RunResult> + Sync,
        mut sink: impl FnMut(&Job, &RunResult) -> anyhow::Result<()> + Send,
    ) -> anyhow::Result<Report> {
        let plan = Plan {
            scenario: &self.head.name,
            level: self.level,
            points: &self.points,
            seed: self.head.seed,
            repeat: self.head.repeat,
            threads: self.threads,
            keep_series: self.keep_series,
            shard: self.shard,
        };
        info!("{}", start_words(plan.jobs(), self.threads));
        let sink = |job: &Job, run: &RunResult| {
            let setting = setting(&self.points[job.point]);
            info!("{setting}seed {}: done", job.seed);
            sink(job, run)
        };
        plan.run(level, sink, control).map_err(|error| match error {
            BatchError::Run { job, error } | BatchError::Result { job, error } => {
                let setting = setting(&self.points[job.point]);
                error.context(format!("{setting}seed {}", job.seed))
            }
            BatchError::Stopped => anyhow::anyhow!("{}", BatchError::<String>::Stopped),
            BatchError::Threads(error) => error.into(),
        })
    }
}

fn simulated(
    level: batch::Level,
    experiment: &Experiment,
    run: &Running<'_>,
) -> anyhow::Result<RunResult> {
    match level {
        batch::Level::Stack => Ok(batch::stack(experiment, run)?),
        _ => Ok(batch::packet(experiment, run)?),
    }
}

/// The same, and what happens to each packet.
fn logged(
    level: batch::Level,
    experiment: &Experiment,
    run: &Running<'_>,
    log: &Logs,
) -> anyhow::Result<RunResult> {
    let begun = run.job().map(|job| log.begin(job, experiment));
    let Some((open, observer)) = begun.transpose()?.flatten() else {
        return simulated(level, experiment, run);
    };
    let result = match level {
        batch::Level::Stack => {
            batch::observed_stack(experiment, run, observer, &|flow, end| open.end(flow, end))?
        }
        _ => batch::observed_packet(experiment, run, observer)?,
    };
    if result.complete {
        log.complete(open)?;
    }
    Ok(result)
}

impl level::Report for Report {
    fn summary(&self) -> String {
        text::summary(self)
    }

    fn columns(&self) -> Vec<Column> {
        vec![Column::measured(self)]
    }

    fn unfinished(&self) -> u64 {
        self.unfinished
    }
}

/// Adds the plots of a run if it is the first of its point.
fn draw(folder: &mut Folder, job: &Job, points: &[Point], run: &RunResult) -> anyhow::Result<()> {
    if job.repetition > 0 {
        return Ok(());
    }
    let point = &points[job.point];
    let name = &point.experiment.name;
    let of = format!("{name}, {}seed {}", setting(point), job.seed);
    for picture in plots::draw(&point.experiment, &run.series, &of)? {
        folder.plot(picture.name, job.point, points.len(), &picture.svg)?;
    }
    Ok(())
}

/// `40 runs on 2 threads`.
fn start_words(runs: u64, threads: usize) -> String {
    let runs = several(runs, "run");
    format!("{runs} on {}", several(threads as u64, "thread"))
}
