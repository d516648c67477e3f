//! Experiments as fluids: epoch by epoch over time, with the equilibrium of each.

use std::collections::HashMap;

use manyway_control::{Growth, WindowLaw};
use manyway_scenario::Experiment;
use manyway_units::Time;
use nalgebra::DVector;

use crate::dynamics::{DelayModel, Integrator, LossModel, Stuck, System};
use crate::epochs;
use crate::equilibrium::{Method, Model};
use crate::law::{FluidLaw, NoFluid};
use crate::network::{InvalidNetwork, Network, Remark};
use crate::optimum::{self, OptimumError, Utility};
use classes::Class;
use network::Reduced;
use recorder::Recorder;
pub use recorder::{FluidFlow, FluidLink, FluidSubflow, Quantity, Series};

mod classes;
mod network;
mod recorder;

/// Epochs that an experiment may have at this level.
pub const MOST_EPOCHS: usize = 1000;

/// Kinds of subflows and links that an epoch may have at this level: each step solves as many equations.
pub const MOST_EQUATIONS: usize = 1200;

/// What is left to choose of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunOptions {
    /// Relative, of the error of each step.
    pub tolerance: f64,
    /// Where a subflow begins.
    pub start: StartWindow,
    /// Windows don't fall below what the sender's controller keeps, 1 or 2 packets, and wVegas wants no fewer packets queued on a path than its `min_alpha`. The papers'
    /// models have no such floors, nor have the equilibria in [`Epoch::rest`].
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

/// The window from which a new subflow begins congestion avoidance, of which alone the model speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartWindow {
    /// An equal share of the narrowest link on its path: about what slow start comes to, which takes no time here. Links that nobody has been on begin with about the loss
    /// that goes with it.
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
    /// Price of each of [`FluidRun::links`].
    pub prices: Vec<f64>,
    /// How well the conditions for it hold: [`crate::Equilibrium::residual`], for wVegas [`optimum::Certificate::residual`].
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
        "`{delay}` acts on queueing delay and `{loss}` on loss, and a fluid's prices are either: run them with --level packet, or give both laws of one kind"
    )]
    Mixed {
        /// A flow with wVegas.
        delay: String,
        /// A flow with a window law.
        loss: String,
    },
    /// There are too many epochs.
    #[error("the network changes more than {MOST_EPOCHS} times: shorten the run or the timetables")]
    Epochs,
    /// There are too many equations.
    #[error(
        "{0} kinds of subflows and links make as many equations, and {MOST_EQUATIONS} is the most: give flows that are alike one group with a `count`, or see `manyway optimum`"
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
/// * Each epoch's network is [`Network::at`] its beginning. Windows go on from one epoch to the next, prices too; what joins begins as of [`RunOptions::start`].
/// * Random loss of links is added to the prices of the routes over them. Loss on the way back isn't.
/// * An application's rate is a link of the flow's own, with that capacity.
/// * Queues have no length here, nor transfers a size: flows go on until they stop. Round-trip times are those without queues, except with wVegas, whose prices are
///   queueing delays.
///
/// # Errors
/// [`RunError`].
pub fn run(experiment: &Experiment, options: &RunOptions) -> Result<FluidRun, RunError> {
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
        let epoch = Part {
            experiment,
            classes: &classes,
            options,
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
    /// `α_s` in packets, by flow.
    Delay(Vec<f64>),
}

impl Laws {
    fn of(experiment: &Experiment) -> Result<Self, RunError> {
        let delay = |flow: &&manyway_scenario::Flow| flow.law.name() == "wvegas";
        let (by_delay, by_loss): (Vec<_>, Vec<_>) = experiment.flows.iter().partition(delay);
        for flow in &by_loss {
            FluidLaw::of(&flow.law).map_err(|error| RunError::NoFluid {
                flow: flow.name.clone(),
                error,
            })?;
        }
        if let (Some(delay), Some(loss)) = (by_delay.first(), by_loss.first()) {
            return Err(RunError::Mixed {
                delay: delay.name.clone(),
                loss: loss.name.clone(),
            });
        }
        if by_loss.is_empty() {
            let alpha = |flow| parameter(flow, "total_alpha");
            return Ok(Laws::Delay(experiment.flows.iter().map(alpha).collect()));
        }
        let laws = by_loss
            .iter()
            .filter_map(|flow| FluidLaw::of(&flow.law).ok());
        Ok(Laws::Loss(laws.collect()))
    }
}

/// A parameter of wVegas.
fn parameter(flow: &manyway_scenario::Flow, name: &str) -> f64 {
    let mut parameters = flow.law.parameters();
    let found = parameters.find(|(key, _)| *key == name);
    found.map_or(0.0, |(_, value)| value)
}

/// What goes on from one epoch to the next.
#[derive(Default)]
struct Memory {
    /// In packets, by class and path.
    windows: HashMap<(usize, usize), f64>,
    /// By link.
    prices: HashMap<String, f64>,
}

/// What a state says, of one member of each class.
pub(crate) struct Reading {
    /// Packets/s, by route.
    rates: Vec<f64>,
    /// Packets, by route.
    windows: Vec<f64>,
    /// Seconds, by route.
    rtts: Vec<f64>,
    /// By link.
    prices: Vec<f64>,
}

/// A system of this level.
trait Fluid: System {
    fn read(&self, state: &DVector<f64>) -> Reading;
}

impl Fluid for LossModel<'_> {
    fn read(&self, state: &DVector<f64>) -> Reading {
        let rates = self.rates(state);
        let rtts: Vec<f64> = self
            .network()
            .routes()
            .map(|(_, route)| route.rtt)
            .collect();
        Reading {
            windows: rates.iter().zip(&rtts).map(|(x, rtt)| x * rtt).collect(),
            rates,
            rtts,
            prices: self.prices(state),
        }
    }
}

impl Fluid for DelayModel {
    fn read(&self, state: &DVector<f64>) -> Reading {
        let prices = self.prices(state);
        let q = self.network().route_prices(&prices);
        let rtts = self
            .network()
            .routes()
            .zip(&q)
            .map(|((_, route), q)| route.rtt + q);
        let rtts: Vec<f64> = rtts.collect();
        Reading {
            windows: state.iter().take(rtts.len()).map(|z| z.exp()).collect(),
            rates: self.rates(state),
            rtts,
            prices,
        }
    }
}

/// An epoch to be run.
struct Part<'a> {
    experiment: &'a Experiment,
    classes: &'a [Class],
    options: &'a RunOptions,
    reduced: &'a Reduced,
    times: (Time, Time),
}

impl Part<'_> {
    fn from_s(&self) -> f64 {
        self.times.0.since(Time::ZERO).as_secs_f64()
    }

    fn run(
        &self,
        laws: &Laws,
        memory: &mut Memory,
        recorder: &mut Recorder<'_>,
    ) -> Result<Epoch, RunError> {
        let network = &self.reduced.network;
        let equations = network.routes().count() + network.links.len();
        if equations > MOST_EQUATIONS {
            return Err(RunError::Equations(equations));
        }
        if network.flows.is_empty() {
            *memory = Memory::default();
            let until = self.times.1.since(Time::ZERO).as_secs_f64();
            recorder.idle(self.reduced, (self.from_s(), until));
            return Ok(self.epoch((&[], &[]), vec![0.0; self.reduced.named], None));
        }
        let wrong = |error| RunError::Network {
            at: self.from_s(),
            error,
        };
        match laws {
            Laws::Loss(laws) => {
                let of = |&class: &usize| laws[self.classes[class].members[0]];
                let laws = self.reduced.classes.iter().map(of).collect();
                let model = Model::new(network.clone(), laws).map_err(wrong)?;
                let model = model.with_losses(self.reduced.losses.clone());
                let mut system = LossModel::new(&model);
                if self.options.floors {
                    system = system.with_floors(&self.floors());
                }
                let (windows, prices) = self.begin(memory, &model.rough_prices());
                let rtts = network.routes().map(|(_, route)| route.rtt);
                let rates: Vec<f64> = windows.iter().zip(rtts).map(|(w, rtt)| w / rtt).collect();
                let start = system.state(&rates, &prices);
                self.follow(&system, start, self.loss_rest(&model), (memory, recorder))
            }
            Laws::Delay(alphas) => {
                let mut network = network.clone();
                for (flow, &class) in network.flows.iter_mut().zip(&self.reduced.classes) {
                    flow.weight = alphas[self.classes[class].members[0]];
                }
                let rest = self.delay_rest(&network)?;
                let mut system = DelayModel::new(network).map_err(wrong)?;
                if self.options.floors {
                    system = system.with_least(self.least_alphas());
                }
                let none = vec![0.0; system.network().links.len()];
                let (windows, prices) = self.begin(memory, &none);
                let start = system.state(&windows, &prices);
                self.follow(&system, start, rest, (memory, recorder))
            }
        }
    }

    /// Integrates to the epoch's end.
    fn follow(
        &self,
        system: &impl Fluid,
        start: DVector<f64>,
        rest: Rest,
        (memory, recorder): (&mut Memory, &mut Recorder<'_>),
    ) -> Result<Epoch, RunError> {
        let from = self.from_s();
        let length = self.times.1.since(self.times.0).as_secs_f64();
        let mut integrator = Integrator::new(system, start, self.options.tolerance);
        let mut packets = vec![0.0; self.reduced.subflows.len()];
        while integrator.time() < length {
            let step = integrator.step(length);
            let step = step.map_err(|error| RunError::Stuck { at: from, error })?;
            let read = |time: f64| system.read(&step.at(time));
            let part = recorder.take(self.reduced, (&step, from), read);
            for (sum, part) in packets.iter_mut().zip(part) {
                *sum += part;
            }
        }
        let end = system.read(integrator.state());
        *memory = Memory::default();
        for (&subflow, window) in self.reduced.subflows.iter().zip(&end.windows) {
            memory.windows.insert(subflow, *window);
        }
        for (link, price) in self.reduced.network.links.iter().zip(&end.prices) {
            memory.prices.insert(link.name.clone(), *price);
        }
        let mean: Vec<f64> = packets.iter().map(|packets| packets / length).collect();
        let rates = (&mean[..], &end.rates[..]);
        Ok(self.epoch(rates, self.reduced.named(&end.prices), Some(rest)))
    }

    /// Windows and prices to begin with, those of links that nobody has been on being `fresh`.
    fn begin(&self, memory: &Memory, fresh: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let network = &self.reduced.network;
        let shares = network.rough_parts(1.0);
        let routes = network.routes().zip(&self.reduced.subflows).zip(shares);
        let windows = routes.map(|(((_, route), subflow), share)| {
            let fresh = match self.options.start {
                StartWindow::Share => share / route.packet * route.rtt,
                StartWindow::Initial => self.flow(subflow.0).sender.initial_window,
            };
            memory.windows.get(subflow).copied().unwrap_or(fresh)
        });
        let price = |(link, fresh): (&crate::Link, &f64)| {
            let fresh = match self.options.start {
                StartWindow::Share => *fresh,
                StartWindow::Initial => 0.0,
            };
            memory.prices.get(&link.name).copied().unwrap_or(fresh)
        };
        let prices = network.links.iter().zip(fresh).map(price);
        (windows.collect(), prices.collect())
    }

    /// The first flow of a class.
    fn flow(&self, class: usize) -> &manyway_scenario::Flow {
        &self.experiment.flows[self.classes[class].members[0]]
    }

    /// What the controllers let no window fall below, in packets.
    fn floors(&self) -> Vec<f64> {
        let floor = |&(class, _): &(usize, usize)| {
            let flow = self.flow(class);
            let of_law = flow
                .law
                .window_law()
                .map(|law| law.min_ssthresh(flow.paths.len()));
            flow.options.window_floor.or(of_law).unwrap_or(1.0).max(1.0)
        };
        self.reduced.subflows.iter().map(floor).collect()
    }

    fn least_alphas(&self) -> Vec<f64> {
        let least = |&(class, _): &(usize, usize)| parameter(self.flow(class), "min_alpha");
        self.reduced.subflows.iter().map(least).collect()
    }

    fn loss_rest(&self, model: &Model) -> Rest {
        let found = model.equilibrium();
        Rest {
            rates_bps: self.reduced.bits(&found.rates),
            prices: self.reduced.named(&found.prices),
            residual: found.residual,
            converged: found.converged,
            method: Some(found.method),
        }
    }

    fn delay_rest(&self, network: &Network) -> Result<Rest, RunError> {
        let mut weighted = network.clone();
        for flow in &mut weighted.flows {
            // α packets of each member, in bits.
            flow.weight *= flow.routes[0].packet;
        }
        let best = optimum::solve(&weighted, Utility::Log);
        let best = best.map_err(|error| RunError::Optimum {
            at: self.from_s(),
            error,
        })?;
        let sizes = self
            .reduced
            .subflows
            .iter()
            .map(|&(class, _)| self.classes[class].size());
        Ok(Rest {
            rates_bps: best
                .rates
                .iter()
                .zip(sizes)
                .map(|(rate, size)| rate / size)
                .collect(),
            prices: self.reduced.named(&best.prices),
            residual: best.certificate.residual,
            converged: true,
            method: None,
        })
    }

    /// With rates per member of a class, in packets/s, which all members have.
    fn epoch(
        &self,
        (mean, end): (&[f64], &[f64]),
        end_prices: Vec<f64>,
        rest: Option<Rest>,
    ) -> Epoch {
        let (mean, end) = (self.reduced.bits(mean), self.reduced.bits(end));
        let mut subflows = Vec::new();
        for (r, &(class, path)) in self.reduced.subflows.iter().enumerate() {
            subflows.extend(
                self.classes[class]
                    .members
                    .iter()
                    .map(|&flow| (flow, path, r)),
            );
        }
        subflows.sort_unstable();
        let each = |of: &[f64]| subflows.iter().map(|&(_, _, r)| of[r]).collect();
        Epoch {
            times: self.times,
            mean_bps: each(&mean),
            end_bps: each(&end),
            end_prices,
            rest: rest.map(|rest| Rest {
                rates_bps: each(&rest.rates_bps),
                ..rest
            }),
            subflows: subflows
                .iter()
                .map(|&(flow, path, _)| (flow, path))
                .collect(),
        }
    }
}

/// What the packet level does and a fluid doesn't.
fn remarks(experiment: &Experiment) -> Vec<String> {
    let mut remarks = Vec::new();
    for group in &experiment.groups {
        let Some(flow) = experiment.flows.get(group.members.start) else {
            continue;
        };
        let name = &group.name;
        if flow.size.is_some() {
            remarks.push(format!(
                "`{name}` has a size, which a fluid hasn't: it goes on until it stops."
            ));
        }
        if flow.rate.is_some() {
            remarks.push(format!(
                "The application's rate of `{name}` is taken for a link of its own."
            ));
        }
        if flow.options.growth == Growth::Acks && flow.ack.every > 1 {
            remarks.push(format!(
                "Windows of `{name}` grow by acknowledgements at the packet level, of which there are fewer than packets: here by packets."
            ));
        }
    }
    remarks
}

/// What is not determined of where an epoch rests.
fn ambiguities(experiment: &Experiment, epoch: &Epoch) -> Vec<Remark> {
    let network = Network::at(experiment, epoch.times.0);
    let mut remarks = network.remarks();
    if let Some(rest) = &epoch.rest {
        remarks.extend(network.remarks_at(&network.loads(&rest.rates_bps)));
    }
    remarks
}

/// Where windows come to rest that no sender has.
fn small_windows(experiment: &Experiment, epochs: &[Epoch]) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for epoch in epochs {
        let Some(rest) = &epoch.rest else { continue };
        let network = Network::at(experiment, epoch.times.0);
        let rtts: Vec<f64> = network.routes().map(|(_, route)| route.rtt).collect();
        let subflows = epoch.subflows.iter().zip(&rest.rates_bps).zip(rtts);
        for ((&(flow, _), rate), rtt) in subflows {
            let flow = &experiment.flows[flow];
            let window = rate * rtt / (8.0 * f64::from(flow.sender.packet_size));
            let group = experiment.groups[flow.group].name.as_str();
            // What is left of a path that is given up is no window.
            if window > 1e-3 && window < 1.0 && !names.contains(&group) {
                names.push(group);
            }
        }
    }
    (!names.is_empty()).then(|| {
        format!(
            "Windows of {} come to rest below a packet, which no sender's do: round trips have no queueing in them here.",
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        )
    })
}

#[cfg(test)]
mod tests;
