//! `manyway run --level optimum,fluid,packet`: the rates of several levels for the same scenario,
//! side by side, epoch by epoch. This module asks each level for its rates and enters them into one
//! report; it computes none itself.

mod report;
mod text;

use anyhow::bail;
use manyway_fluid::optimum::{self, Utility};
use manyway_fluid::run::{self, FluidRun, RunOptions};
use manyway_fluid::{Network, epochs};
use manyway_scenario::{Experiment, Point, Span};
use manyway_simulate::batch::{self, BatchError, Control, Job, Plan};
use manyway_simulate::measure::Summary;
use manyway_simulate::packet::{RunResult, SimulationError};
use manyway_units::Time;

use self::report::{Comparison, Epoch, Levels, PointResult, Rates};
use super::fluid;
use super::folder::{Folder, Sheet};
use super::level::{self, Request};
use super::naming::setting;
use crate::args::Level;
use crate::exit::usage;

/// Epochs that are compared.
const MOST_EPOCHS: usize = 200;

/// Everything that is needed to start, checked.
#[derive(Debug)]
pub(super) struct SideBySide {
    name: String,
    seed: u64,
    repeat: u32,
    points: Vec<Point>,
    levels: Levels,
    options: RunOptions,
    threads: usize,
}

impl level::Level for SideBySide {
    type Report = Comparison;

    fn prepare(request: Request<'_>) -> anyhow::Result<Self> {
        let scenario = &request.scenario;
        if request.args.out.is_some() {
            return Err(usage(
                "--out goes with one --level: run each into a folder of its own, or take the \
                 comparison from --json",
            ));
        }
        let points = scenario.points();
        let points = points.map_err(|error| usage(error.to_string()))?;
        Ok(Self {
            name: scenario.name().to_owned(),
            seed: scenario.seed(),
            repeat: scenario.repeat(),
            points: points.into_iter().map(by_epochs).collect(),
            levels: Levels::of(&request.args.level),
            options: fluid::options(request.args),
            threads: request.threads(),
        })
    }

    fn sheets(&self) -> Vec<Sheet> {
        Vec::new()
    }

    fn run(self, control: &Control, _: Option<&mut Folder>) -> anyhow::Result<Comparison> {
        let mut results = Vec::new();
        for point in &self.points {
            if control.is_stopped() {
                bail!("{}", BatchError::<String>::Stopped);
            }
            results.push(self.computed(point)?);
        }
        if self.levels.packet {
            self.simulate(&mut results, control)?;
        }
        Ok(Comparison {
            scenario: self.name,
            levels: self.levels.names(),
            runs: self.repeat,
            points: results,
        })
    }
}

impl level::Report for Comparison {
    fn summary(&self) -> String {
        text::summary(self)
    }
}

/// The point with its epochs for spans, and nothing recorded over time.
fn by_epochs(mut point: Point) -> Point {
    let moments = epochs(&point.experiment, MOST_EPOCHS);
    let end = Time::ZERO + point.experiment.duration;
    let ends = moments[1..].iter().copied().chain([end]);
    let span = |(n, (&from, until)): (usize, (&Time, Time))| Span {
        name: n.to_string(),
        from,
        until,
    };
    point.experiment.measure.spans = moments.iter().zip(ends).enumerate().map(span).collect();
    point.experiment.measure.series = Vec::new();
    point
}

impl SideBySide {
    /// What needs no simulation.
    fn computed(&self, point: &Point) -> anyhow::Result<PointResult> {
        let experiment = &point.experiment;
        let mut result = PointResult::new(point);
        let fluid = match self.levels.fluid {
            true => run::run(experiment, &self.options),
            false => return self.optima(experiment, result),
        };
        match fluid {
            Ok(fluid) => enter_fluid(experiment, &fluid, &mut result),
            Err(error) => result
                .remarks
                .push(format!("{}no fluid: {error}.", setting(point))),
        }
        self.optima(experiment, result)
    }

    fn optima(
        &self,
        experiment: &Experiment,
        mut result: PointResult,
    ) -> anyhow::Result<PointResult> {
        if !self.levels.optimum {
            return Ok(result);
        }
        for epoch in &mut result.epochs {
            let network = Network::at(experiment, epoch.from);
            if network.flows.is_empty() {
                continue;
            }
            let best = optimum::solve(&network, Utility::Log)?;
            for ((flow, route), rate) in network.routes().zip(&best.rates) {
                let name = &network.flows[flow].name;
                epoch.set(name, &route.name, |rates, payload| {
                    rates.optimum_bps = Some(rate * payload);
                });
            }
            for (link, price) in epoch.links.iter_mut().zip(&best.prices) {
                link.optimum_price = Some(*price);
            }
        }
        Ok(result)
    }

    /// Enters what the packet level measures.
    fn simulate(&self, results: &mut [PointResult], control: &Control) -> anyhow::Result<()> {
        let plan = Plan {
            scenario: &self.name,
            level: batch::Level::Packet,
            points: &self.points,
            seed: self.seed,
            repeat: self.repeat,
            threads: self.threads,
            keep_series: false,
        };
        // By point, flow, subflow, epoch and run.
        let mut measured: Vec<Vec<Vec<Vec<Vec<f64>>>>> = vec![Vec::new(); self.points.len()];
        let sink = |job: &Job, run: &RunResult| {
            let flows = &mut measured[job.point];
            flows.resize(run.flows.len(), Vec::new());
            for (known, flow) in flows.iter_mut().zip(&run.flows) {
                known.resize(flow.subflows.len(), Vec::new());
                for (known, subflow) in known.iter_mut().zip(&flow.subflows) {
                    known.resize(subflow.spans_bps.len(), Vec::new());
                    for (known, rate) in known.iter_mut().zip(&subflow.spans_bps) {
                        known.push(*rate);
                    }
                }
            }
            Ok(())
        };
        let report = plan.run(batch::packet, sink, control);
        let report =
            report.map_err(|error: BatchError<SimulationError>| anyhow::anyhow!("{error}"))?;
        if report.unfinished > 0 {
            bail!("stopped: {} runs are missing", report.unfinished);
        }
        for (result, flows) in results.iter_mut().zip(&measured) {
            for (n, epoch) in result.epochs.iter_mut().enumerate() {
                for (flow, subflows) in epoch.flows.iter_mut().zip(flows) {
                    let mut totals = vec![0.0; subflows[0][n].len()];
                    for (subflow, spans) in flow.subflows.iter_mut().zip(subflows) {
                        enter(&mut subflow.rates, &spans[n]);
                        for (total, rate) in totals.iter_mut().zip(&spans[n]) {
                            *total += rate;
                        }
                    }
                    enter(&mut flow.rates, &totals);
                }
            }
        }
        Ok(())
    }
}

fn enter(rates: &mut Rates, runs: &[f64]) {
    rates.packet_bps = Summary::of(runs).map(|summary| summary.estimate());
}

fn enter_fluid(experiment: &Experiment, fluid: &FluidRun, result: &mut PointResult) {
    result.remarks.extend(fluid.remarks.iter().cloned());
    for (epoch, own) in result.epochs.iter_mut().zip(&fluid.epochs) {
        for (n, &(flow, path)) in own.subflows.iter().enumerate() {
            let spec = &experiment.flows[flow];
            let path = &experiment.topology.paths[spec.paths[path]].name;
            epoch.set(&spec.name, path, |rates, payload| {
                rates.fluid_bps = Some(own.mean_bps[n] * payload);
                rates.fluid_rest_bps = own.rest.as_ref().map(|rest| rest.rates_bps[n] * payload);
            });
        }
        epoch.fluid_converged = own.rest.as_ref().map(|rest| rest.converged);
        if let Some(rest) = &own.rest {
            for (link, price) in epoch.links.iter_mut().zip(&rest.prices) {
                link.fluid_price = Some(*price);
            }
        }
    }
}

impl Epoch {
    /// Enters what is known of a subflow; `enter` gets the part of its packets that is no header.
    fn set(&mut self, flow: &str, path: &str, enter: impl Fn(&mut Rates, f64)) {
        let Some(flow) = self.flows.iter_mut().find(|known| known.name == flow) else {
            return;
        };
        let payload = flow.payload;
        if let Some(subflow) = flow.subflows.iter_mut().find(|known| known.path == path) {
            enter(&mut subflow.rates, payload);
        }
        flow.add_up();
    }
}

impl Levels {
    fn of(levels: &[Level]) -> Self {
        let has = |level| levels.contains(&level);
        Levels {
            optimum: has(Level::Optimum),
            fluid: has(Level::Fluid),
            packet: has(Level::Packet),
        }
    }
}
