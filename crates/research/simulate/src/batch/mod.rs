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
    SearchReport, relays,
};
pub use plan::{BatchError, Job, Plan, Shard};
pub use report::{
    FlowReport, GroupReport, Level, LinkReport, Measured, Object, Percentiles, PointReport, Report,
    Results, SpanReport, SubflowReport, schema,
};

use crate::packet::{RunResult, Simulation, SimulationError};
use crate::trace::{ObservedError, Observer};

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

/// Carries out a run at the stack level, telling `observer` what happens to each packet at links,
/// and `ends` what happens at the ends of flows, which it gets by their index.
///
/// # Errors
///
/// As of [`stack`], and what keeps the observer from writing.
#[cfg(feature = "stack")]
pub fn observed_stack(
    experiment: &Experiment,
    run: &Running<'_>,
    observer: Box<dyn Observer>,
    ends: &dyn Fn(usize, crate::stack::End) -> Option<manyway_session::Observers>,
) -> Result<RunResult, ObservedError<crate::stack::StackError>> {
    let simulation = crate::stack::Simulation::with_observers(experiment, run.seed(), ends);
    let progress = |done| run.progress(done);
    simulation
        .map_err(ObservedError::Run)?
        .run_observed(run.stop_flag(), progress, observer)
}

/// Carries out a run at the packet level, telling `observer` what happens to each packet.
///
/// # Errors
///
/// As of [`packet`], and what keeps the observer from writing.
pub fn observed_packet(
    experiment: &Experiment,
    run: &Running<'_>,
    observer: Box<dyn Observer>,
) -> Result<RunResult, ObservedError<SimulationError>> {
    let simulation = Simulation::new(experiment, run.seed());
    let progress = |done| run.progress(done);
    simulation
        .map_err(ObservedError::Run)?
        .run_observed(run.stop_flag(), progress, observer)
        .map_err(ObservedError::Write)
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
