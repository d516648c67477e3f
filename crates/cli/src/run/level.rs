//! The one way from a level to its output: [`carry_out`] prepares a level, has it do its work,
//! and writes what it reports to the screen, to standard output and into the folder of `--out`.
//! This module never looks into a scenario's contents or a report's numbers.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use manyway_results::Sheet;
use manyway_scenario::Scenario;
use manyway_simulate::batch::{Control, Object, Shard};
use serde::Serialize;

use super::folder::Folder;
use super::goodput::Column;
use super::progress::Progress;
use crate::args::{ExperimentArgs, Level as Asked, PacketLog};
use crate::end::print_failure;
use crate::exit::{Stop, Usage};
use crate::screen::Screen;
use crate::summary::print_json;

/// What the command line asks for.
pub(crate) struct Request<'a> {
    pub(crate) file: &'a Path,
    pub(crate) args: &'a ExperimentArgs,
    /// One level, or those that are to be compared.
    pub(crate) levels: Vec<Asked>,
    /// Write the series of all repetitions.
    pub(crate) keep_series: bool,
    /// The part of the runs to carry out.
    pub(crate) shard: Shard,
    /// What is written down of each packet.
    pub(crate) log: PacketLog,
    /// The file with all assignments made to it.
    pub(crate) scenario: Scenario,
}

impl Request<'_> {
    /// Number of runs that go on at the same time.
    pub(crate) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.args.threads.map_or_else(cores, usize::from)
    }
}

/// A way to carry a scenario out, with everything that it needs to start.
pub(crate) trait Level: Sized + Send + 'static {
    /// What it makes of the runs.
    type Report: Report + Send;

    /// Whether it fills tables in the folder of `--out`, which gets the report, too.
    const TABLES: bool = true;

    /// Checks the request; nothing has been written at this time.
    ///
    /// # Errors
    ///
    /// Wrong usage if this level can't carry the scenario out.
    fn prepare(request: Request<'_>) -> anyhow::Result<Self>;

    /// The tables that it fills in the folder of `--out`.
    fn sheets(&self) -> Vec<Sheet>;

    /// Carries the runs out, on the calling thread and its own; `folder` takes rows and plots as
    /// they come. Ends early when `control` is told to stop.
    ///
    /// # Errors
    ///
    /// A run that failed, or a result that could not be written.
    fn run(self, control: &Control, folder: Option<&mut Folder>) -> anyhow::Result<Self::Report>;
}

/// What came of all runs. Serialised, this is the object of `--json`.
pub(crate) trait Report: Serialize {
    /// The text for people.
    fn summary(&self) -> String;

    /// What `manyway compare` puts beside other levels: a column, or several; none of a level that
    /// has nothing to compare.
    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    /// What is to be known about the columns.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Number of runs that are missing because somebody asked to stop.
    fn unfinished(&self) -> u64 {
        0
    }
}

/// Prepares a level, carries it out and tells what came of it.
pub(crate) async fn carry_out<L: Level>(
    screen: &Screen,
    request: Request<'_>,
) -> anyhow::Result<()> {
    let args = request.args;
    carry_on(screen, args, L::prepare(request)?).await
}

/// Carries a prepared level out and tells what came of it.
pub(crate) async fn carry_on<L: Level>(
    screen: &Screen,
    args: &ExperimentArgs,
    level: L,
) -> anyhow::Result<()> {
    let (json, out) = (args.json, args.out.as_deref());
    let mut folder = match out.filter(|_| L::TABLES) {
        Some(dir) => Some(Folder::create(dir, &level.sheets())?),
        None => None,
    };
    let work = move |control: &Control| {
        let report = level.run(control, folder.as_mut())?;
        Ok((report, folder))
    };
    match supervise(screen, work).await {
        Ok((report, folder)) => tell(screen, json, &report, folder),
        Err(error) => {
            if json && !error.is::<Usage>() {
                print_failure(&error)?;
            }
            Err(error)
        }
    }
}

/// Has blocking work done on another thread, shows its progress, and stops it when somebody asks
/// for that.
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
    outcome.context("the runs ended unexpectedly")?
}

/// Writes the files, the summary and the object; the latter two even if the files fail, for the
/// runs may have taken hours.
fn tell<R: Report>(
    screen: &Screen,
    json: bool,
    report: &R,
    folder: Option<Folder>,
) -> anyhow::Result<()> {
    let object = Object::new(report);
    let written = folder.map(|folder| folder.finish(&object)).transpose();
    screen.say(&report.summary());
    if json {
        print_json(&object)?;
    }
    if let Some(words) = written? {
        screen.say(&words);
    }
    match report.unfinished() {
        0 => Ok(()),
        1 => bail!("stopped: one run is missing"),
        missing => bail!("stopped: {missing} runs are missing"),
    }
}
