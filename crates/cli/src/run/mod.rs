//! `manyway run`: a scenario's points and repetitions, their results on the screen, as JSON and in
//! files.

mod compare;
mod files;
mod fluid;
mod number;
mod overlay;
mod plots;
mod progress;
mod sheets;
mod text;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use manyway_scenario::{Experiment, Point, Scenario};
use manyway_simulate::batch::{self, BatchError, Control, Object, Plan, Report, Running};
use manyway_simulate::packet::RunResult;
use tracing::info;

use self::files::Folder;
use self::progress::Progress;
use crate::args::{Level, RunArgs};
use crate::exit::{Stop, usage};
use crate::scenario;
use crate::screen::Screen;
use crate::summary::{print_failure, print_json, print_pretty};

pub(crate) async fn run(screen: &Screen, args: RunArgs) -> anyhow::Result<()> {
    let file = match &args.file {
        Some(file) if !args.schema => file,
        _ => return print_pretty(&batch::schema()),
    };
    if args.floors && !args.level.contains(&Level::Fluid) {
        return Err(usage(
            "--floors is about fluids: add --level fluid, or leave it out",
        ));
    }
    if let Some(level) = overlay::level(file, &args)? {
        return overlay::run(screen, file, &args, level).await;
    }
    match args.level[..] {
        [Level::Packet] => {}
        [Level::Fluid] => return fluid::run(screen, file, &args),
        _ => return compare::run(screen, file, &args).await,
    }
    let batch = Batch::prepare(file, &args)?;
    match supervise(screen, move |control| batch.run(control)).await {
        Ok(done) => done.tell(screen, args.json),
        Err(error) => {
            if args.json {
                print_failure(&error)?;
            }
            Err(error)
        }
    }
}

/// Has work done beside, shows how far it is, and stops it when somebody asks for that.
async fn supervise<T: Send + 'static>(
    screen: &Screen,
    work: impl FnOnce(&Control) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let stop = Stop::listen(false);
    let control = Arc::new(Control::new());
    let worker = control.clone();
    let mut work = tokio::task::spawn_blocking(move || work(&worker));
    let outcome = tokio::select! {
        outcome = &mut work => outcome,
        () = stop.requested() => {
            control.stop();
            work.await
        }
        never = Progress::new(screen, &control).run() => match never {},
    };
    outcome.context("the runs came to a sudden end")?
}

/// Everything that is needed to start, checked.
#[derive(Debug)]
struct Batch {
    scenario: Scenario,
    points: Vec<Point>,
    level: batch::Level,
    threads: usize,
    keep_series: bool,
    folder: Option<Folder>,
}

impl Batch {
    /// Reads the file and makes the folder ready; nothing is written when either can't be used.
    fn prepare(file: &Path, args: &RunArgs) -> anyhow::Result<Self> {
        let (scenario, points) = read(file, args).map_err(|error| usage(error.to_string()))?;
        let folder = match &args.out {
            Some(dir) => Some(Folder::create(dir, &points)?),
            None => None,
        };
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            scenario,
            points,
            level: batch::Level::Packet,
            threads: args.threads.map_or_else(cores, usize::from),
            keep_series: args.keep_series,
            folder,
        })
    }

    /// Carries the runs out; blocks until they are done or stopped.
    fn run(mut self, control: &Control) -> anyhow::Result<Done> {
        let plan = Plan {
            scenario: self.scenario.name(),
            level: self.level,
            points: &self.points,
            seed: self.scenario.seed(),
            repeat: self.scenario.repeat(),
            threads: self.threads,
            keep_series: self.keep_series,
        };
        info!("{}", start_words(plan.jobs(), self.threads));
        let level = |experiment: &Experiment, run: &Running<'_>| match self.level {
            batch::Level::Packet => Ok(batch::packet(experiment, run)?),
        };
        let folder = &mut self.folder;
        let sink = |job: &batch::Job, run: &RunResult| {
            let point = &self.points[job.point];
            info!("{}seed {}: done", setting(point), job.seed);
            match folder {
                Some(folder) => folder.take(job, point, run),
                None => Ok(()),
            }
        };
        let report = plan
            .run(level, sink, control)
            .map_err(|error| match error {
                BatchError::Run { job, error } | BatchError::Result { job, error } => error
                    .context(format!(
                        "{}seed {}",
                        setting(&self.points[job.point]),
                        job.seed
                    )),
                BatchError::Stopped => anyhow::anyhow!("{}", BatchError::<String>::Stopped),
                BatchError::Threads(error) => error.into(),
            })?;
        Ok(Done {
            report,
            folder: self.folder,
        })
    }
}

fn read(
    file: &Path,
    args: &RunArgs,
) -> Result<(Scenario, Vec<Point>), manyway_scenario::ScenarioError> {
    let scenario = assigned(file, args)?;
    let points = scenario.points()?;
    Ok((scenario, points))
}

/// The file with all assignments made to it.
fn assigned(file: &Path, args: &RunArgs) -> Result<Scenario, manyway_scenario::ScenarioError> {
    let mut scenario = scenario::load(file, &args.assignments)?;
    if let Some(seed) = args.seed {
        scenario.set(&format!("seed={seed}"))?;
    }
    if let Some(repeat) = args.repeat {
        scenario.set(&format!("repeat={repeat}"))?;
    }
    Ok(scenario)
}

/// `07` for the seventh, counted from 0 as 6, of 40.
fn number_of(index: usize, of: usize) -> String {
    let width = of.to_string().len();
    format!("{:0width$}", index + 1)
}

/// What a point sets, to go before something else: `law = lia, `.
fn setting(point: &Point) -> String {
    let pairs = point.set.iter();
    pairs
        .map(|(key, value)| format!("{key} = {value}, "))
        .collect()
}

/// `40 runs on 2 threads`.
fn start_words(runs: u64, threads: usize) -> String {
    let runs = scenario::several(runs, "run");
    format!("{runs} on {}", scenario::several(threads as u64, "thread"))
}

/// What came of it.
#[derive(Debug)]
struct Done {
    report: Report,
    folder: Option<Folder>,
}

impl Done {
    /// The files, the summary, the object: the latter two even if the files fail, for they may have
    /// taken hours.
    fn tell(self, screen: &Screen, json: bool) -> anyhow::Result<()> {
        let written = self
            .folder
            .map(|folder| folder.finish(&self.report))
            .transpose();
        screen.say(&text::summary(&self.report));
        if json {
            print_json(&Object::new(&self.report))?;
        }
        if let Some(words) = written? {
            screen.say(&words);
        }
        match self.report.unfinished {
            0 => Ok(()),
            1 => bail!("stopped: one run is missing"),
            missing => bail!("stopped: {missing} runs are missing"),
        }
    }
}
