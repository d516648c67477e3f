//! Many runs: every point of a sweep, each repeated with other seeds, on all cores.
//!
//! A [`Plan`] is points × repetitions. Runs are independent, are started in order and are handed on
//! in order, so neither a report nor a file that is written on the way depends on the number of
//! threads. Memory is bounded by the runs under way: of a run that is over only its contribution to
//! the means ([`Report`]) remains.

mod control;
mod line;
mod overlay;
mod plan;
mod report;
mod tally;

#[cfg(test)]
mod tests;

use manyway_scenario::Experiment;

pub use control::{Control, Running};
pub use overlay::{
    ControlReport, OverlayDone, OverlayLevel, OverlayPlan, OverlayPointReport, OverlayReport,
    SearchReport,
};
pub use plan::{BatchError, Job, Plan, Shard};
pub use report::{
    FlowReport, GroupReport, Level, LinkReport, Measured, Object, Percentiles, PointReport, Report,
    Results, SpanReport, SubflowReport, schema,
};

use crate::packet::{RunResult, Simulation, SimulationError};

/// Carries out a run at the stack level.
///
/// # Errors
///
/// [`StackError`](crate::stack::StackError) if the experiment can't be run, or shows a fault of the
/// transport.
#[cfg(feature = "stack")]
pub fn stack(
    experiment: &Experiment,
    run: &Running<'_>,
) -> Result<RunResult, crate::stack::StackError> {
    let mut simulation = crate::stack::Simulation::new(experiment, run.seed())?;
    simulation.run_with(run.stop_flag(), |done| run.progress(done))
}

/// Carries out a run at the packet level.
///
/// # Errors
///
/// [`SimulationError`] if the experiment can't be run.
pub fn packet(experiment: &Experiment, run: &Running<'_>) -> Result<RunResult, SimulationError> {
    let mut simulation = Simulation::new(experiment, run.seed())?;
    Ok(simulation.run_with(run.stop_flag(), |done| run.progress(done)))
}
