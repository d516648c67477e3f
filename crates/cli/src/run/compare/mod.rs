//! `manyway run --level optimum,fluid,packet,stack`: the rates of several levels for the same
//! scenario, side by side, epoch by epoch. This module asks each level for its rates and enters
//! them into one report; it computes none itself.

mod report;
mod text;

use std::fmt::Display;

use anyhow::bail;
use manyway_fluid::optimum::{self, Utility};
use manyway_fluid::run::{self, FluidRun, RunOptions};
use manyway_fluid::{Network, epochs};
use manyway_scenario::{Experiment, Point, ScenarioError, Span};
use manyway_simulate::batch::{self, BatchError, Control, Plan, Report, SpanReport};
use manyway_simulate::measure::Estimate;
use manyway_units::Time;

use self::report::{Comparison, Epoch, PointResult, Rates};
use super::fluid;
use super::folder::{Folder, Sheet};
use super::level::{self, Request};
use super::naming::setting;
use crate::args::Level;
use crate::exit::usage;

/// Largest number of epochs that are compared.
const MOST_EPOCHS: usize = 200;

/// A checked request.
#[derive(Debug)]
pub(super) struct SideBySide {
    name: String,
    seed: u64,
    repeat: u32,
    points: Vec<Point>,
    /// The same for the stack level, if that is asked for.
    session_points: Vec<Point>,
    levels: Vec<Level>,
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
        let by_epochs = |points: Result<Vec<Point>, ScenarioError>| match points {
            Ok(points) => Ok(points.into_iter().map(by_epochs).collect()),
            Err(error) => Err(usage(error.to_string())),
        };
        let session_points = match request.args.level.contains(&Level::Stack) {
            true => by_epochs(scenario.session_points())?,
            false => Vec::new(),
        };
        Ok(Self {
            name: scenario.name().to_owned(),
            seed: scenario.seed(),
            repeat: scenario.repeat(),
            points: by_epochs(scenario.points())?,
            session_points,
            levels: in_order(&request.args.level),
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
        if self.levels.contains(&Level::Packet) {
            let plan = self.plan(batch::Level::Packet, &self.points);
            let report = plan.run(batch::packet, |_, _| Ok(()), control);
            enter(report, &mut results, |rates, known| {
                rates.packet_bps = known
            })?;
        }
        if self.levels.contains(&Level::Stack) {
            let plan = self.plan(batch::Level::Stack, &self.session_points);
            let report = plan.run(batch::stack, |_, _| Ok(()), control);
            enter(report, &mut results, |rates, known| rates.stack_bps = known)?;
        }
        Ok(Comparison {
            scenario: self.name,
            levels: self.levels.iter().copied().map(name).collect(),
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

/// The point with its epochs as spans, recording nothing over time.
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
    /// The levels that need no simulation.
    fn computed(&self, point: &Point) -> anyhow::Result<PointResult> {
        let experiment = &point.experiment;
        let mut result = PointResult::new(point);
        let fluid = match self.levels.contains(&Level::Fluid) {
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
        if !self.levels.contains(&Level::Optimum) {
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

    /// The runs of a level that simulates.
    fn plan<'a>(&'a self, level: batch::Level, points: &'a [Point]) -> Plan<'a> {
        Plan {
            scenario: &self.name,
            level,
            points,
            seed: self.seed,
            repeat: self.repeat,
            threads: self.threads,
            keep_series: false,
        }
    }
}

/// Enters what a level has measured.
fn enter<E: Display>(
    report: Result<Report, BatchError<E>>,
    results: &mut [PointResult],
    enter: impl Fn(&mut Rates, Option<Estimate>),
) -> anyhow::Result<()> {
    let report = report.map_err(|error| anyhow::anyhow!("{error}"))?;
    if report.unfinished > 0 {
        bail!("stopped: {} runs are missing", report.unfinished);
    }
    for (result, (_, measured)) in results.iter_mut().zip(report.points()) {
        for (n, epoch) in result.epochs.iter_mut().enumerate() {
            let of = |spans: &[SpanReport]| spans.get(n).map(|span| span.goodput_bps);
            for (flow, known) in epoch.flows.iter_mut().zip(&measured.flows) {
                enter(&mut flow.rates, of(&known.spans));
                for (subflow, known) in flow.subflows.iter_mut().zip(&known.subflows) {
                    enter(&mut subflow.rates, of(&known.spans));
                }
            }
        }
    }
    Ok(())
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
    /// Enters a subflow's rate; `enter` gets the share of payload in its packets.
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

/// The level's name in the report.
fn name(level: Level) -> &'static str {
    match level {
        Level::Optimum => "optimum",
        Level::Fluid => "fluid",
        Level::Packet => "packet",
        Level::Stack => "stack",
        Level::Flow => "flow",
    }
}

/// The levels in the order of their columns.
fn in_order(asked: &[Level]) -> Vec<Level> {
    let mut levels = vec![Level::Optimum, Level::Fluid, Level::Packet, Level::Stack];
    levels.retain(|level| asked.contains(level));
    levels
}
