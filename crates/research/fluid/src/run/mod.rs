//! Experiments as fluids: epoch by epoch over time, with the equilibrium of each.

use std::sync::atomic::AtomicBool;

use manyway_control::laws::Fluid;
use manyway_scenario::Experiment;
use manyway_units::Time;

use crate::dynamics::Stuck;
use crate::epochs;
use crate::equilibrium::Method;
use crate::law::{FluidLaw, NoFluid};
use crate::network::InvalidNetwork;
use crate::optimum::OptimumError;
use epoch_run::{EpochRun, Memory};
use network::Reduced;
use recorder::Recorder;
pub use recorder::{FluidFlow, FluidLink, FluidSubflow, Quantity, Series};
use remarks::{ambiguities, remarks, small_windows};

mod classes;
mod epoch_run;
mod network;
mod reading;
mod recorder;
mod remarks;

/// Epochs that an experiment may have at this level.
const MOST_EPOCHS: usize = 1000;

/// Kinds of subflows and links that an epoch may have at this level: each step solves as many
/// equations.
const MOST_EQUATIONS: usize = 1200;

/// What is left to choose of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunOptions {
    /// Relative, of the error of each step.
    pub tolerance: f64,
    /// Where a subflow begins.
    pub start: StartWindow,
    /// Windows don't fall below what the sender's controller keeps, 1 or 2 packets, and wVegas
    /// wants no fewer packets queued on a path than its `min_alpha`. The papers' models have no
    /// such floors, nor have the equilibria in [`Epoch::rest`].
    pub floors: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            tolerance: 1e-6,
            start: StartWindow::Share,
            floors: false,
        }
    }
}

/// The window from which a new subflow begins congestion avoidance, of which alone the model
/// speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartWindow {
    /// An equal share of the narrowest link on its path: about what slow start comes to, which
    /// takes no time here. Links that nobody has been on begin with about the loss that goes with
    /// it.
    Share,
    /// The sender's initial window, as without slow start.
    Initial,
}

/// An experiment's run as a fluid.
#[derive(Debug, Clone, PartialEq)]
pub struct FluidRun {
    /// All flows, in the experiment's order.
    pub flows: Vec<FluidFlow>,
    /// All named links, in the experiment's order.
    pub links: Vec<FluidLink>,
    /// What was recorded over time.
    pub series: Vec<Series>,
    /// The times between changes of the network.
    pub epochs: Vec<Epoch>,
    /// Prices are queueing delays in seconds, as of wVegas; otherwise loss probabilities.
    pub prices_are_delays: bool,
    /// What is to be known about the results.
    pub remarks: Vec<String>,
}

/// A time in which nothing comes, goes or changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Epoch {
    /// Its beginning and end.
    pub times: (Time, Time),
    /// The subflows that take part, as indices of flows in the experiment and of paths in the flow.
    pub subflows: Vec<(usize, usize)>,
    /// Mean rate of each of them over the epoch, bits/s with headers.
    pub mean_bps: Vec<f64>,
    /// The same at its end.
    pub end_bps: Vec<f64>,
    /// Price of each of [`FluidRun::links`] at its end.
    pub end_prices: Vec<f64>,
    /// Where it would come to rest; nothing if nobody is there.
    pub rest: Option<Rest>,
}

/// Where an epoch's network rests.
#[derive(Debug, Clone, PartialEq)]
pub struct Rest {
    /// Rate of each of [`Epoch::subflows`], bits/s with headers.
    pub rates_bps: Vec<f64>,
    /// The share of each that wires don't lose.
    pub kept: Vec<f64>,
    /// Price of each of [`FluidRun::links`].
    pub prices: Vec<f64>,
    /// How well the conditions for it hold: [`crate::Equilibrium::residual`], for wVegas
    /// [`crate::optimum::Certificate::residual`].
    pub residual: f64,
    /// Whether that is as well as asked for.
    pub converged: bool,
    /// How it was found: none for wVegas, whose equilibrium is the optimum of its utility.
    pub method: Option<Method>,
}

/// Why an experiment can't be run as a fluid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RunError {
    /// A flow's law has no fluid form.
    #[error("the flow `{flow}`: {error}")]
    NoFluid {
        /// The flow's name.
        flow: String,
        /// Why, and what can be computed instead.
        error: NoFluid,
    },
    /// Both kinds of prices are needed at once.
    #[error(
        "`{delay}` acts on queueing delay and `{loss}` on loss, and a fluid's prices are either: \
         run them with --level packet, or give both laws of one kind"
    )]
    Mixed {
        /// A flow whose law acts on delay.
        delay: String,
        /// A flow whose law acts on losses.
        loss: String,
    },
    /// Flows come at random.
    #[error(
        "the flows of `{group}` start at random times and end after what they send, for which a \
         fluid has no equation: run them with --level packet"
    )]
    Random {
        /// The group's name.
        group: String,
    },
    /// There are too many epochs.
    #[error("the network changes more than {MOST_EPOCHS} times: shorten the run or the timetables")]
    Epochs,
    /// There are too many equations.
    #[error(
        "{0} kinds of subflows and links make as many equations, and {MOST_EQUATIONS} is the most: \
         give flows that are alike one group with a `count`, or see `manyway optimum`"
    )]
    Equations(usize),
    /// The network of an epoch can't be computed with.
    #[error("at {at} s {error}")]
    Network {
        /// When, in seconds.
        at: f64,
        /// What is wrong.
        error: InvalidNetwork,
    },
    /// An optimum that is a law's equilibrium can't be found.
    #[error("at {at} s {error}")]
    Optimum {
        /// When, in seconds.
        at: f64,
        /// Why.
        error: OptimumError,
    },
    /// Somebody asked to stop.
    #[error("stopped")]
    Stopped,
    /// Integration came to a standstill.
    #[error("in the epoch from {at} s {error}")]
    Stuck {
        /// When that epoch begins, in seconds.
        at: f64,
        /// The error.
        error: Stuck,
    },
}

/// Runs an experiment as a fluid: the same result at every call.
///
/// * Each epoch's network is [`Network::at`](crate::Network::at) its beginning. Windows go on from
///   one epoch to the next, prices too; what joins begins as of [`RunOptions::start`].
/// * Random loss of links is added to the prices of the routes over them. Loss on the return path
///   isn't.
/// * An application's rate is a link of the flow's own, with that capacity.
/// * Queues have no length here, nor transfers a size: flows go on until they stop. Round-trip
///   times are those without queues, except with wVegas, whose prices are queueing delays.
///
/// # Errors
/// [`RunError`].
pub fn run(experiment: &Experiment, options: &RunOptions) -> Result<FluidRun, RunError> {
    run_until(experiment, options, &AtomicBool::new(false))
}

/// [`run`], which ends within a step of the integrator once `stop` is set.
///
/// # Errors
/// [`RunError`]; [`RunError::Stopped`] if it was stopped before its end.
pub fn run_until(
    experiment: &Experiment,
    options: &RunOptions,
    stop: &AtomicBool,
) -> Result<FluidRun, RunError> {
    if let Some(group) = experiment.random_group() {
        let group = group.name.clone();
        return Err(RunError::Random { group });
    }
    let laws = Laws::of(experiment)?;
    let classes = classes::classes(experiment);
    let moments = epochs(experiment, MOST_EPOCHS + 1);
    if moments.len() > MOST_EPOCHS {
        return Err(RunError::Epochs);
    }
    let end = Time::ZERO + experiment.duration;
    let mut recorder = Recorder::new(experiment, &classes);
    let mut memory = Memory::default();
    let mut epochs = Vec::new();
    let mut remarks = remarks(experiment);
    for (n, &from) in moments.iter().enumerate() {
        let until = moments.get(n + 1).copied().unwrap_or(end);
        let network = Reduced::at(experiment, &classes, from);
        let epoch = EpochRun {
            experiment,
            classes: &classes,
            options,
            stop,
            reduced: &network,
            times: (from, until),
        };
        let epoch = epoch.run(&laws, &mut memory, &mut recorder)?;
        for remark in ambiguities(experiment, &epoch) {
            let remark = format!("{remark}.");
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
        epochs.push(epoch);
    }
    remarks.extend(small_windows(experiment, &epochs));
    let (flows, links, series) = recorder.finish();
    Ok(FluidRun {
        flows,
        links,
        series,
        epochs,
        prices_are_delays: matches!(laws, Laws::Delay(_)),
        remarks,
    })
}

/// The flows' laws; all of one kind.
enum Laws {
    /// By flow.
    Loss(Vec<FluidLaw>),
    /// By flow.
    Delay(Vec<Backlog>),
}

/// What a flow whose law acts on delay keeps queued, in packets.
struct Backlog {
    /// `α_s`: on all paths.
    total: f64,
    /// On each path at least.
    least: f64,
}

impl Laws {
    fn of(experiment: &Experiment) -> Result<Self, RunError> {
        let (mut by_delay, mut by_loss) = (Vec::new(), Vec::new());
        let (mut backlogs, mut laws) = (Vec::new(), Vec::new());
        for flow in &experiment.flows {
            if let Fluid::Delay {
                total_alpha,
                min_alpha,
            } = flow.law.fluid()
            {
                by_delay.push(flow);
                backlogs.push(Backlog {
                    total: total_alpha,
                    least: min_alpha,
                });
                continue;
            }
            by_loss.push(flow);
            laws.push(FluidLaw::of(&flow.law).map_err(|error| RunError::NoFluid {
                flow: flow.name.clone(),
                error,
            })?);
        }
        match (by_delay.first(), by_loss.first()) {
            (Some(delay), Some(loss)) => Err(RunError::Mixed {
                delay: delay.name.clone(),
                loss: loss.name.clone(),
            }),
            (Some(_), None) => Ok(Laws::Delay(backlogs)),
            _ => Ok(Laws::Loss(laws)),
        }
    }
}

#[cfg(test)]
mod tests;
