//! Carries out runs and takes from them what is shown.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use manyway_scenario::Scenario;
use manyway_simulate::packet::{FlowResult, RunResult, Simulation};
use rayon::prelude::*;
use serde::Serialize;

use super::network::Network;
use super::scenario::{INTERVAL_S, Run};
use super::statistics::{Sample, settled_s};
use crate::failure::Failure;
use crate::progress::tell;

/// What one connection got.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Connection {
    /// Goodput over the run and over its second half, Mbps.
    pub(crate) goodput: f64,
    pub(crate) late: f64,
    /// Share of the second half's goodput that took proxied paths.
    pub(crate) proxied: f64,
    /// When it had settled, seconds, and how many proxied paths were open then: median over the
    /// second half. NaN without series.
    pub(crate) settled_s: f64,
    pub(crate) open: f64,
    /// Most proxied paths open at a time.
    pub(crate) most_open: f64,
}

/// Does all of `jobs` on all cores, telling how far it is; results are in the order of the jobs,
/// whatever order they end in.
pub(crate) fn all<J: Sync, R: Send>(
    what: &str,
    jobs: &[J],
    work: impl Fn(&J) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let (done, began) = (AtomicUsize::new(0), Instant::now());
    let step = jobs.len().div_ceil(10).max(1);
    let told = |job: &J| {
        let result = work(job);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(step) || done == jobs.len() {
            let seconds = began.elapsed().as_secs_f64();
            tell(&format!(
                "{what}: {done} of {} in {seconds:.0} s",
                jobs.len()
            ));
        }
        result
    };
    // One at a time: jobs differ, and the longest come first.
    jobs.par_iter().with_max_len(1).map(told).collect()
}

/// Runs it, and measures each of its connections.
pub(crate) fn connections(network: &Network, run: &Run) -> Result<Vec<Connection>, Failure> {
    let result = simulate(&network.scenario(run), &[])?;
    let of = |number| {
        let name = format!("c{number}");
        let flow = result.flows.iter().find(|flow| flow.name == name);
        flow.map(|flow| connection(flow, &result))
            .ok_or_else(|| format!("no flow {name} in the result").into())
    };
    (0..run.pairs.len()).map(of).collect()
}

/// The same as `manyway run` with the text in a file, and with these assignments.
pub(crate) fn simulate(text: &str, set: &[&str]) -> Result<RunResult, Failure> {
    let mut scenario = Scenario::parse(text, "planetlab.toml")?;
    for assignment in set {
        scenario.set(assignment)?;
    }
    let points = scenario.points()?;
    let mut simulation = Simulation::new(&points[0].experiment, scenario.seed())?;
    Ok(simulation.run(&AtomicBool::new(false)))
}

fn connection(flow: &FlowResult, run: &RunResult) -> Connection {
    let late = |n: usize| flow.subflows[n].spans_bps[0] / 1e6;
    let all: f64 = (0..flow.subflows.len()).map(late).sum();
    let rates = rates(flow, run);
    let open = open(flow, run);
    let half = Sample::new(open.iter().skip(open.len() / 2).copied());
    Connection {
        goodput: flow.goodput_bps / 1e6,
        late: all,
        proxied: if all > 0.0 {
            1.0 - late(0) / all
        } else {
            f64::NAN
        },
        settled_s: if rates.is_empty() {
            f64::NAN
        } else {
            settled_s(&rates, INTERVAL_S)
        },
        open: half.quantile(0.5),
        most_open: Sample::new(open).quantile(1.0),
    }
}

/// The flow's rate over all paths, interval by interval.
pub(crate) fn rates(flow: &FlowResult, run: &RunResult) -> Vec<f64> {
    let mut sum = Vec::new();
    for series in run
        .series
        .iter()
        .filter(|series| series.kind == "rate" && series.of[0] == flow.name)
    {
        sum.resize(series.values.len(), 0.0);
        let values = series
            .values
            .iter()
            .map(|value| if value.is_finite() { *value } else { 0.0 });
        sum.iter_mut()
            .zip(values)
            .for_each(|(sum, value)| *sum += value);
    }
    sum
}

/// How many proxied paths are open at the end of each interval: those that have a window (NaN
/// before the first opening, 0 after a closing).
pub(crate) fn open(flow: &FlowResult, run: &RunResult) -> Vec<f64> {
    let direct = &flow.subflows[0].path;
    let mut count = Vec::new();
    let windows = run
        .series
        .iter()
        .filter(|series| series.kind == "window" && series.of[0] == flow.name);
    for series in windows.filter(|series| series.of[1] != *direct) {
        count.resize(series.values.len(), 0.0);
        let values = series.values.iter();
        count
            .iter_mut()
            .zip(values)
            .for_each(|(count, value)| *count += f64::from(u8::from(*value > 0.0)));
    }
    count
}
