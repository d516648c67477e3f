//! The optimum and the criteria, as `manyway optimum` and `manyway criteria` have them.

use manyway_fluid::criteria::{Subject, evaluate_until, table_1_until, tradeoff};
use manyway_fluid::optimum::Utility;
use manyway_results::criteria::{Paths, domain, one_law, rtts, whole_table};
use manyway_results::optimum::{NoOptimum, Solution};
use manyway_simulate::batch::{Control, Running};
use manyway_units::parse_duration;
use pyo3::prelude::*;

use crate::scenario::Source;
use crate::work::supervised;
use crate::{failed, json, unfit, wrong};

/// The object of `manyway optimum --json`.
#[pyfunction]
pub(crate) fn optimum(
    py: Python<'_>,
    source: Source,
    utility: &str,
    at: Option<&str>,
) -> PyResult<String> {
    let utility: Utility = utility.parse().map_err(wrong)?;
    let at = at.map(parse_duration).transpose().map_err(wrong)?;
    let scenario = source.load()?;
    let solution = py.detach(|| Solution::of(&scenario, utility, at));
    let solution = solution.map_err(|error| match error {
        NoOptimum::Unfit(message) => unfit(message),
        NoOptimum::Solver(error) => failed(error),
    })?;
    json(&solution)
}

/// The object of `manyway criteria --json`.
#[pyfunction]
pub(crate) fn criteria(
    py: Python<'_>,
    law: Option<&str>,
    paths: Option<&str>,
    times: &str,
    samples: u32,
    seed: u64,
) -> PyResult<String> {
    let paths: Option<Paths> = paths.map(str::parse).transpose().map_err(wrong)?;
    let times = rtts(times).map_err(wrong)?;
    let domain = domain(paths.as_ref(), &times, samples as usize, seed).map_err(wrong)?;
    let control = Control::new();
    let running = Running::new(seed, &control);
    let stop = running.stop_flag();
    // Without a result, it was stopped, and `supervised` has said why.
    let stopped = || failed("stopped");
    let Some(law) = law else {
        let rows = supervised(py, &control, None, || table_1_until(&domain, stop))?;
        return json(&whole_table(&domain, &rows.ok_or_else(stopped)?));
    };
    let subject = Subject::law(law).map_err(wrong)?;
    let (found, tradeoff) = supervised(py, &control, None, || {
        let law = subject.laws().next();
        (
            evaluate_until(&subject, &domain, stop),
            law.and_then(|law| tradeoff(*law)),
        )
    })?;
    json(&one_law(&found.ok_or_else(stopped)?, tradeoff))
}
