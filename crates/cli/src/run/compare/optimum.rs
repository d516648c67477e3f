//! The optimum by proportional fairness as a level: epoch by epoch, as `manyway optimum` has it.

use std::collections::HashMap;
use std::ops::Range;

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

/// Largest number of epochs that are solved.
const MOST_EPOCHS: usize = 200;

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

/// When, and the goodput of each path of each flow then, bits/s.
type Epoch = (Range<Time>, Vec<Vec<Option<f64>>>);

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
                over_time(&parts[part], rates)
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

fn solve(experiment: &Experiment) -> anyhow::Result<Vec<Epoch>> {
    let moments = epochs(experiment, MOST_EPOCHS);
    let end = Time::ZERO + experiment.duration;
    let ends = moments[1..].iter().copied().chain([end]);
    let flows = experiment.flows.iter().enumerate();
    let numbers: HashMap<&str, usize> = flows.map(|(n, flow)| (flow.name.as_str(), n)).collect();
    let mut solved = Vec::new();
    for (&from, until) in moments.iter().zip(ends) {
        let empty = experiment
            .flows
            .iter()
            .map(|flow| vec![None; flow.paths.len()]);
        let mut rates: Vec<Vec<Option<f64>>> = empty.collect();
        let network = Network::at(experiment, from);
        if !network.flows.is_empty() {
            let best = optimum::solve(&network, Utility::Log)?;
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
                    rates[n][path] = Some(rate * payload);
                }
            }
        }
        solved.push((from..until, rates));
    }
    Ok(solved)
}
