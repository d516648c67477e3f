//! The optimum by proportional fairness as a level: epoch by epoch, as `manyway optimum` has it.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use manyway_fluid::optimum::{self, Utility};
use manyway_fluid::{Network, epochs};
use manyway_results::Sheet;
use manyway_scenario::{Experiment, Point};
use manyway_simulate::batch::{Control, Running};
use manyway_units::Time;
use serde::Serialize;

use crate::exit::usage;
use crate::run::folder::Folder;
use crate::run::goodput::{Column, over_time, parts};
use crate::run::level::{Level, Report, Request};

/// Most networks that are solved, and epochs that are looked at: timetables repeat.
const MOST_NETWORKS: usize = 200;
const MOST_EPOCHS: usize = 100_000;

/// A checked request.
#[derive(Debug)]
pub(super) struct Optimum {
    points: Vec<Point>,
}

/// The optimal rates.
#[derive(Debug, Serialize)]
pub(super) struct Best {
    #[serde(skip)]
    column: Column,
}

/// The goodput of each path of each flow, bits/s; 0 of those that aren't there.
type Rates = Rc<[Vec<f64>]>;

impl Level for Optimum {
    type Report = Best;

    fn prepare(request: Request<'_>) -> anyhow::Result<Self> {
        let points = request.scenario.points();
        let points = points.map_err(|error| usage(error.to_string()))?;
        Ok(Self { points })
    }

    fn sheets(&self) -> Vec<Sheet> {
        Vec::new()
    }

    fn run(self, control: &Control, _: Option<&mut Folder>) -> anyhow::Result<Best> {
        let mut column = Column {
            name: "optimum",
            ..Column::default()
        };
        control.expect(self.points.len() as u64);
        for (n, point) in self.points.iter().enumerate() {
            let _running = Running::new(0, control);
            let experiment = &point.experiment;
            let solved = solve(experiment)?;
            let parts = parts(experiment);
            column.enter_computed(n, experiment, |part, flow, path| {
                let epochs = solved.iter();
                let rates = epochs.map(|(when, rates)| (when.clone(), rates[flow][path]));
                over_time(&parts[part], &experiment.flows[flow], rates)
            });
        }
        Ok(Best { column })
    }
}

impl Report for Best {
    fn summary(&self) -> String {
        String::new()
    }

    fn columns(&self) -> Vec<Column> {
        vec![self.column.clone()]
    }
}

/// The rates from each moment at which something changes to the next.
fn solve(experiment: &Experiment) -> anyhow::Result<Vec<(Range<Time>, Rates)>> {
    let moments = epochs(experiment, MOST_EPOCHS + 1);
    let end = Time::ZERO + experiment.duration;
    let ends = moments[1..].iter().copied().chain([end]);
    let mut solved: Vec<(Network, Rates)> = Vec::new();
    let mut all = Vec::new();
    for (&from, until) in moments.iter().zip(ends) {
        let network = Network::at(experiment, from);
        let known = solved.iter().find(|(known, _)| *known == network);
        let rates = match known {
            Some((_, rates)) => Rc::clone(rates),
            None => {
                let rates = solve_one(experiment, &network)?;
                solved.push((network, Rc::clone(&rates)));
                rates
            }
        };
        if solved.len() > MOST_NETWORKS || all.len() == MOST_EPOCHS {
            return Err(usage(format!(
                "`optimum` has no value: the network changes more than {MOST_EPOCHS} times, or to \
                 more than {MOST_NETWORKS} different ones: choose a shorter `duration`, or fewer \
                 changes"
            )));
        }
        all.push((from..until, rates));
    }
    Ok(all)
}

fn solve_one(experiment: &Experiment, network: &Network) -> anyhow::Result<Rates> {
    let none = experiment
        .flows
        .iter()
        .map(|flow| vec![0.0; flow.paths.len()]);
    let mut rates: Vec<Vec<f64>> = none.collect();
    if network.flows.is_empty() {
        return Ok(rates.into());
    }
    let flows = experiment.flows.iter().enumerate();
    let numbers: HashMap<&str, usize> = flows.map(|(n, flow)| (flow.name.as_str(), n)).collect();
    let best = optimum::solve(network, Utility::Log)?;
    for ((flow, route), rate) in network.routes().zip(&best.rates) {
        let name = &network.flows[flow].name;
        let Some(&n) = numbers.get(name.as_str()) else {
            continue;
        };
        let flow = &experiment.flows[n];
        let names = flow
            .paths
            .iter()
            .map(|&path| &experiment.topology.paths[path].name);
        let size = f64::from(flow.sender.packet_size);
        let payload = (size - f64::from(flow.headers)) / size;
        for (path, _) in names.enumerate().filter(|(_, name)| **name == route.name) {
            rates[n][path] = rate * payload;
        }
    }
    Ok(rates.into())
}
