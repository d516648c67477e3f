//! The fluid level: a report of each point, and tables.

mod report;
mod tables;

use std::fmt;

use manyway_fluid::run::{self, FluidRun, RunError, RunOptions};
use manyway_scenario::{Point, Scenario};
use manyway_simulate::batch::{Control, Running};

pub use report::{
    Epoch, EpochLink, EpochSubflow, Flow, Link, Measured, Outcome, PointResult, Report, Subflow,
};
pub use tables::{add, as_recorded, sheets};

/// Why the fluid level has no report.
#[derive(Debug)]
pub enum NoReport<E> {
    /// It was stopped before the first point was over.
    Stopped,
    /// No point can be a fluid: the reasons, each once, a line each.
    Unfit(String),
    /// A point's result could not be handed on.
    Result(E),
}

impl<E: fmt::Display> fmt::Display for NoReport<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped before the first run was over"),
            Self::Unfit(reasons) => f.write_str(reasons),
            Self::Result(error) => error.fmt(f),
        }
    }
}

/// Computes every point as equations over time, and hands each on as it comes.
///
/// # Errors
/// [`NoReport`] if no point has a result.
pub fn carry_out<E>(
    scenario: &Scenario,
    points: &[Point],
    options: &RunOptions,
    control: &Control,
    mut sink: impl FnMut(usize, &Point, &FluidRun) -> Result<(), E>,
) -> Result<Report, NoReport<E>> {
    let mut report = Report::new(scenario.name(), points.len());
    control.expect(points.len() as u64);
    for (index, point) in points.iter().enumerate() {
        if control.is_stopped() {
            break;
        }
        let running = Running::new(scenario.seed(), control);
        let outcome = match run::run_until(&point.experiment, options, running.stop_flag()) {
            // As if it had not begun.
            Err(RunError::Stopped) => break,
            Ok(run) => {
                sink(index, point, &run).map_err(NoReport::Result)?;
                Outcome::Done(Box::new(Measured::of(&point.experiment, &run)))
            }
            Err(error) => Outcome::Failed {
                error: error.to_string(),
            },
        };
        report.points.push(PointResult {
            set: point.set.iter().cloned().collect(),
            outcome,
        });
    }
    match report.nothing_done() {
        _ if report.points.is_empty() => Err(NoReport::Stopped),
        Some(reasons) => Err(NoReport::Unfit(reasons)),
        None => Ok(report),
    }
}
