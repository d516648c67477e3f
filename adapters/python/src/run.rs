//! `manyway run` for Python.

use std::sync::Arc;

use manyway_fluid::run::RunOptions;
use manyway_results::files;
use manyway_results::fluid::{self, NoReport};
use manyway_results::naming::setting;
use manyway_results::overlay;
use manyway_results::packet::Rows;
use manyway_scenario::{Experiment, Flow, OverlayExperiment, Scenario};
use manyway_simulate::batch::{
    self, BatchError, Control, Job, Level, Object, OverlayLevel, OverlayPlan, Plan, Running, Shard,
};
use manyway_simulate::packet::RunResult;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::own::{Watch, is_own};
use crate::scenario::Source;
use crate::tables::Memory;
use crate::work::supervised;
use crate::{failed, json, unfit, wrong};

/// The object of `--json`, and the tables of `--out`.
type Done = PyResult<(String, Memory)>;

/// What is the same at all levels.
struct Request<'a> {
    scenario: &'a Scenario,
    threads: usize,
    keep_series: bool,
    control: &'a Control,
}

/// Whether a file of this name, beside a `result.json`, belongs to that result.
#[pyfunction]
pub(crate) fn is_part(name: &str) -> bool {
    files::is_part(name)
}

/// Runs a scenario at a level: the object of `manyway run --json`, and the tables of `--out`, each
/// as its file has it.
#[pyfunction]
pub(crate) fn run<'py>(
    py: Python<'py>,
    source: Source,
    level: &str,
    threads: Option<usize>,
    keep_series: bool,
    floors: bool,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<(String, Bound<'py, PyDict>)> {
    if floors && level != "fluid" {
        return Err(wrong(
            "floors applies to the fluid level: leave it out, or use level=\"fluid\"",
        ));
    }
    let control = Arc::new(Control::new());
    let watch = Watch::new(&control);
    let loaded = watch.over(|| source.load());
    watch.error()?;
    let scenario = loaded?;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let request = Request {
        scenario: &scenario,
        threads: threads.unwrap_or_else(cores).max(1),
        keep_series,
        control: &control,
    };
    let shown = source.file();
    let work = || match (scenario.is_overlay(), level) {
        (true, "flow") => over_relays(&request, OverlayLevel::Flow, &watch),
        (true, "packet") => over_relays(&request, OverlayLevel::Packet, &watch),
        (true, _) => Err(unfit(format!(
            "{shown} has an [overlay], which runs with level=\"flow\" or level=\"packet\""
        ))),
        (false, "packet") => packets(&request, Level::Packet, &watch),
        (false, "stack") => packets(&request, Level::Stack, &watch),
        (false, "fluid") => fluids(&request, floors),
        (false, "flow") => Err(unfit(format!(
            "{shown} has no [overlay], and level=\"flow\" is for overlays: use packet, stack or \
             fluid"
        ))),
        (_, "live") => Err(wrong(
            "the live level takes root and processes of its own: use `manyway run --level live`",
        )),
        _ => Err(wrong(format!(
            "{level:?} is no level: use packet, stack, fluid or flow"
        ))),
    };
    let done = supervised(py, &control, progress.as_ref(), || watch.over(work));
    watch.error()?;
    let (report, tables) = done??;
    let files = PyDict::new(py);
    for (name, text) in tables.finish().map_err(failed)? {
        files.set_item(name, PyBytes::new(py, &text))?;
    }
    Ok((report, files))
}

fn packets(request: &Request<'_>, level: Level, watch: &Arc<Watch>) -> Done {
    let scenario = request.scenario;
    let points = match level {
        Level::Stack => scenario.session_points(),
        _ => scenario.packet_points(),
    };
    let points = points.map_err(unfit)?;
    let flows = points.iter().flat_map(|point| &point.experiment.flows);
    let threads = threads_for(flows, request);
    let plan = Plan {
        scenario: scenario.name(),
        level,
        points: &points,
        seed: scenario.seed(),
        repeat: scenario.repeat(),
        threads,
        keep_series: request.keep_series,
        shard: Shard::default(),
    };
    let rows = Rows::of(&points);
    let mut tables = Memory::new(&rows.sheets()).map_err(failed)?;
    let simulated = |experiment: &Experiment, run: &Running<'_>| {
        watch.over(|| match level {
            Level::Stack => batch::stack(experiment, run).map_err(|error| error.to_string()),
            _ => batch::packet(experiment, run).map_err(|error| error.to_string()),
        })
    };
    let sink = |job: &Job, run: &RunResult| {
        let added = rows.add(&mut tables, job, &points[job.point], run);
        added.map_err(|error| error.to_string())
    };
    let report = plan.run(simulated, sink, request.control);
    let report = report.map_err(|error| match error {
        BatchError::Run { job, error } | BatchError::Result { job, error } => {
            let setting = setting(&points[job.point]);
            failed(format!("{setting}seed {}: {error}", job.seed))
        }
        error => failed(error),
    })?;
    Ok((json(&Object::new(report))?, tables))
}

fn fluids(request: &Request<'_>, floors: bool) -> Done {
    let points = request.scenario.points().map_err(unfit)?;
    let options = RunOptions {
        floors,
        ..RunOptions::default()
    };
    let mut tables = Memory::new(&fluid::sheets()).map_err(failed)?;
    let report = fluid::carry_out(
        request.scenario,
        &points,
        &options,
        request.control,
        |index, _, run| fluid::add(&mut tables, index, run),
    );
    let report = report.map_err(|error| match error {
        NoReport::Unfit(reasons) => unfit(reasons),
        error => failed(error),
    })?;
    Ok((json(&Object::new(report))?, tables))
}

/// One Python at a time: more threads would only wait for its lock.
fn threads_for<'a>(mut flows: impl Iterator<Item = &'a Flow>, request: &Request<'_>) -> usize {
    match flows.any(|flow| is_own(flow.law.name())) {
        true => 1,
        false => request.threads,
    }
}

fn over_relays(request: &Request<'_>, level: OverlayLevel, watch: &Arc<Watch>) -> Done {
    let scenario = request.scenario;
    let points = scenario.overlay_points().map_err(unfit)?;
    let mut bare = points
        .iter()
        .filter(|point| point.experiment.packets.is_none());
    if level == OverlayLevel::Packet && bare.next().is_some() {
        return Err(unfit(format!(
            "{}: the packet level needs [overlay.packets] with the rtt: add it, or use \
             level=\"flow\"",
            scenario.file_name()
        )));
    }
    let networks = points
        .iter()
        .filter_map(|point| point.experiment.packets.as_ref());
    let connections = networks.map(|network| &network.connection);
    let plan = OverlayPlan {
        scenario: scenario.name(),
        level,
        points: &points,
        seed: scenario.seed(),
        repeat: scenario.repeat(),
        threads: threads_for(connections, request),
        keep_series: request.keep_series,
        shard: Shard::default(),
    };
    let simulated = |experiment: &OverlayExperiment, run: &Running<'_>| {
        watch.over(|| batch::relays(level, experiment, run))
    };
    let done = plan
        .run_by(simulated, overlay::optimum, request.control)
        .map_err(failed)?;
    let report = plan.report(&done);
    let mut tables = Memory::new(&overlay::sheets()).map_err(failed)?;
    overlay::add(&mut tables, &report, &done).map_err(failed)?;
    Ok((json(&Object::new(report))?, tables))
}
