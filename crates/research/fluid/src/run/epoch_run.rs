//! One epoch: from the state at its beginning to the state at its end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use manyway_control::WindowLaw;
use manyway_scenario::Experiment;
use manyway_units::Time;
use nalgebra::DVector;

use super::classes::Class;
use super::network::Reduced;
use super::reading::Fluid;
use super::recorder::Recorder;
use super::{Epoch, Laws, MOST_EQUATIONS, Rest, RunError, RunOptions, StartWindow};
use crate::dynamics::{DelayModel, Integrator, LossModel};
use crate::model::Model;
use crate::network::{Link, Network};
use crate::optimum::{self, Utility};

/// What goes on from one epoch to the next.
#[derive(Default)]
pub(super) struct Memory {
    /// In packets, by class and path.
    windows: HashMap<(usize, usize), f64>,
    /// By link, with the capacity that it had, in bits/s.
    prices: HashMap<String, (f64, f64)>,
}

/// An epoch to be run.
pub(super) struct EpochRun<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) classes: &'a [Class],
    pub(super) options: &'a RunOptions,
    pub(super) stop: &'a AtomicBool,
    pub(super) reduced: &'a Reduced,
    pub(super) times: (Time, Time),
}

impl EpochRun<'_> {
    /// Seconds.
    fn begins(&self) -> f64 {
        self.times.0.since(Time::ZERO).as_secs_f64()
    }

    pub(super) fn run(
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
            recorder.idle(self.reduced, (self.begins(), until));
            return Ok(self.epoch((&[], &[]), vec![0.0; self.reduced.named], None));
        }
        let wrong = |error| RunError::Network {
            at: self.begins(),
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
                let fresh = (&model.rough_rates()[..], &model.rough_prices()[..]);
                let (windows, prices) = self.begin(memory, fresh, &model.full_prices());
                let rtts = network.routes().map(|(_, route)| route.rtt);
                let rates: Vec<f64> = windows.iter().zip(rtts).map(|(w, rtt)| w / rtt).collect();
                let start = system.state(&rates, &prices);
                self.follow(&system, start, self.loss_rest(&model), (memory, recorder))
            }
            Laws::Delay(backlogs) => {
                let backlog = |class: usize| &backlogs[self.classes[class].members[0]];
                let mut network = network.clone();
                for (flow, &class) in network.flows.iter_mut().zip(&self.reduced.classes) {
                    flow.weight = backlog(class).total;
                }
                let rest = self.delay_rest(&network)?;
                let mut system = DelayModel::new(network).map_err(wrong)?;
                if self.options.floors {
                    let least = self.reduced.subflows.iter();
                    let least = least.map(|&(class, _)| backlog(class).least);
                    system = system.with_least(least.collect());
                }
                let routes = self.reduced.network.routes();
                let shares = routes.zip(self.reduced.network.rough_parts(1.0));
                let shares: Vec<f64> = shares
                    .map(|((_, route), share)| share / route.packet)
                    .collect();
                let none = vec![0.0; self.reduced.network.links.len()];
                // Queues drain, however long they are.
                let most = vec![f64::INFINITY; none.len()];
                let (windows, prices) = self.begin(memory, (&shares, &none), &most);
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
        let from = self.begins();
        let length = self.times.1.since(self.times.0).as_secs_f64();
        let mut integrator = Integrator::new(system, start, self.options.tolerance);
        let mut packets = vec![0.0; self.reduced.subflows.len()];
        while integrator.time() < length {
            if self.stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
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
            let entry = (*price, link.capacity);
            memory.prices.insert(link.name.clone(), entry);
        }
        let mean: Vec<f64> = packets.iter().map(|packets| packets / length).collect();
        let rates = (&mean[..], &end.rates[..]);
        Ok(self.epoch(rates, self.reduced.named(&end.prices), Some(rest)))
    }

    /// Windows and prices to begin with; what is new has these rates, and links that nobody has
    /// been on these prices. The price of a link that has become faster begins at no more than
    /// `most`: prices move by what they are around in the new epoch, so from a far higher one they
    /// would take minutes to fall.
    fn begin(
        &self,
        memory: &Memory,
        (rates, prices): (&[f64], &[f64]),
        most: &[f64],
    ) -> (Vec<f64>, Vec<f64>) {
        let network = &self.reduced.network;
        let routes = network.routes().zip(&self.reduced.subflows).zip(rates);
        let windows = routes.map(|(((_, route), subflow), rate)| {
            let fresh = match self.options.start {
                StartWindow::Share => rate * route.rtt,
                StartWindow::Initial => self.flow(subflow.0).sender.initial_window,
            };
            memory.windows.get(subflow).copied().unwrap_or(fresh)
        });
        let price = |((link, fresh), most): ((&Link, &f64), &f64)| {
            let fresh = match self.options.start {
                StartWindow::Share => *fresh,
                StartWindow::Initial => 0.0,
            };
            match memory.prices.get(&link.name) {
                Some((price, capacity)) if link.capacity > *capacity => price.min(*most),
                Some((price, _)) => *price,
                None => fresh,
            }
        };
        let prices = network.links.iter().zip(prices).zip(most).map(price);
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

    fn loss_rest(&self, model: &Model) -> Rest {
        let found = model.equilibrium();
        let prices: Vec<f64> = found.prices.iter().map(|price| price.min(1.0)).collect();
        Rest {
            rates_bps: self.reduced.bits(&found.rates),
            kept: self.reduced.kept(),
            prices: self.reduced.named(&prices),
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
            at: self.begins(),
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
            kept: self.reduced.kept(),
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
                kept: each(&rest.kept),
                ..rest
            }),
            subflows: subflows
                .iter()
                .map(|&(flow, path, _)| (flow, path))
                .collect(),
        }
    }
}
