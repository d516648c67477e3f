//! The optimal rates in a scenario's network and the prices of its links, epoch by epoch.

use std::time::Duration;

use manyway_fluid::optimum::{self, Allocation, OptimumError, Utility};
use manyway_fluid::{Network, epochs};
use manyway_scenario::{Experiment, Point, Scenario};
use manyway_units::{Time, format_duration};
use serde::Serialize;

/// Most epochs to compute where no time is given.
const MAX_EPOCHS: usize = 200;

/// Why there is no optimum.
#[derive(Debug, thiserror::Error)]
pub enum NoOptimum {
    /// The scenario has none, or not one: what to change.
    #[error("{0}")]
    Unfit(String),
    /// The solver failed.
    #[error(transparent)]
    Solver(#[from] OptimumError),
}

fn unfit(message: String) -> NoOptimum {
    NoOptimum::Unfit(message)
}

/// The result. The epoch in which the scenario begins to measure is at the top level.
#[derive(Debug, Serialize)]
pub struct Solution {
    /// The scenario's name.
    pub scenario: String,
    /// What was maximised.
    pub utility: String,
    /// Factor from a price to the one that the text shows, for a utility of rates in Mbps.
    #[serde(skip)]
    pub price_unit: f64,
    /// The epoch in which the scenario begins to measure.
    #[serde(flatten)]
    pub main: Epoch,
    /// All epochs, in order of time.
    pub epochs: Vec<Epoch>,
    /// What is to be known about the result.
    pub remarks: Vec<String>,
}

/// The optimum while nothing changes.
#[derive(Debug, Clone, Serialize)]
pub struct Epoch {
    /// Its beginning, seconds from the start.
    pub from_s: f64,
    /// Its end.
    pub until_s: f64,
    /// Every active flow.
    pub flows: Vec<Flow>,
    /// Every link.
    pub links: Vec<Link>,
    /// Relative: [`optimum::Certificate::gap`].
    pub gap: f64,
}

/// The optimal rate of a flow.
#[derive(Debug, Clone, Serialize)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// Rate with headers, bits/s.
    pub rate_bps: f64,
    /// Each subflow.
    pub subflows: Vec<Subflow>,
}

/// The optimal rate of a subflow.
#[derive(Debug, Clone, Serialize)]
pub struct Subflow {
    /// Its path's name.
    pub path: String,
    /// Rate with headers, bits/s.
    pub rate_bps: f64,
}

/// A link at the optimum.
#[derive(Debug, Clone, Serialize)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// What one bit/s more would add to the utility of rates in bits/s.
    pub price: f64,
    /// Its load, bits/s.
    pub load_bps: f64,
    /// Its rate, bits/s.
    pub capacity_bps: f64,
}

impl Solution {
    /// The optimum of a scenario by `utility`: at one time, or in each epoch.
    ///
    /// # Errors
    /// [`NoOptimum`] if the scenario can't be run, has a different network at each point of its
    /// sweep, or random flows; if `at` is too late; if the solver failed.
    pub fn of(
        scenario: &Scenario,
        utility: Utility,
        at: Option<Duration>,
    ) -> Result<Self, NoOptimum> {
        let points = scenario
            .points()
            .map_err(|error| unfit(error.to_string()))?;
        let experiment = &only(&points, at)?.experiment;
        if let Some(group) = experiment.random_group() {
            return Err(unfit(format!(
                "the flows of `{}` start at random times, so that nobody can say who shares the \
                 links when: give them a fixed `stagger`",
                group.name
            )));
        }
        Self::at(scenario.name(), experiment, utility, at)
    }

    fn at(
        scenario: &str,
        experiment: &Experiment,
        utility: Utility,
        only: Option<Duration>,
    ) -> Result<Self, NoOptimum> {
        if let Some(at) = only.filter(|&at| at >= experiment.duration) {
            return Err(unfit(format!(
                "`--at {}` is not before the scenario's end: choose less than {}",
                format_duration(at),
                format_duration(experiment.duration)
            )));
        }
        let mut moments = moments(experiment, only);
        let mut remarks = Vec::new();
        let mut end = Time::ZERO + experiment.duration;
        if moments.len() > MAX_EPOCHS {
            end = moments[MAX_EPOCHS];
            moments.truncate(MAX_EPOCHS);
            remarks.push(format!(
                "manyway computed only {MAX_EPOCHS} epochs: choose later ones with `--at`."
            ));
        }
        let mut epochs = Vec::new();
        for (n, &now) in moments.iter().enumerate() {
            let until = match only {
                Some(_) => now,
                None => moments.get(n + 1).copied().unwrap_or(end),
            };
            let network = Network::at(experiment, now);
            let epoch = Epoch::of(&network, utility, (now, until))?;
            let loads: Vec<f64> = epoch.links.iter().map(|link| link.load_bps).collect();
            for remark in [network.remarks(), network.remarks_at(&loads)].concat() {
                let remark = format!("{remark}.");
                if !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
            epochs.push(epoch);
        }
        let from = experiment.measure.from.since(Time::ZERO).as_secs_f64();
        let main = epochs.iter().rev().find(|epoch| epoch.from_s <= from);
        Ok(Self {
            scenario: scenario.to_owned(),
            utility: utility.to_string(),
            price_unit: 1e6f64.powf(utility.exponent().unwrap_or(0.0)),
            main: main.unwrap_or(&epochs[0]).clone(),
            epochs,
            remarks,
        })
    }
}

impl Epoch {
    fn of(
        network: &Network,
        utility: Utility,
        (from, until): (Time, Time),
    ) -> Result<Self, NoOptimum> {
        let empty = network.flows.is_empty();
        let best = match empty {
            // No flows: a valid state with nothing to share.
            true => Allocation {
                rates: Vec::new(),
                prices: vec![0.0; network.links.len()],
                certificate: optimum::Certificate {
                    gap: 0.0,
                    residual: 0.0,
                },
            },
            false => optimum::solve(network, utility)?,
        };
        let totals = network.totals(&best.rates);
        let mut rates = best.rates.iter();
        let flows = network.flows.iter().zip(totals).map(|(flow, rate_bps)| {
            let subflows = flow.routes.iter().zip(rates.by_ref());
            Flow {
                name: flow.name.clone(),
                rate_bps,
                subflows: subflows
                    .map(|(route, &rate_bps)| Subflow {
                        path: route.name.clone(),
                        rate_bps,
                    })
                    .collect(),
            }
        });
        let flows = flows.collect();
        let loads = network.loads(&best.rates);
        let links = network.links.iter().zip(loads).zip(&best.prices);
        Ok(Self {
            from_s: from.since(Time::ZERO).as_secs_f64(),
            until_s: until.since(Time::ZERO).as_secs_f64(),
            flows,
            links: links
                .map(|((link, load_bps), &price)| Link {
                    name: link.name.clone(),
                    price,
                    load_bps,
                    capacity_bps: link.capacity,
                })
                .collect(),
            gap: best.certificate.gap,
        })
    }
}

/// The point to solve. Any will do if the sweep changes only laws; otherwise there must be one.
fn only(points: &[Point], at: Option<Duration>) -> Result<&Point, NoOptimum> {
    let networks = |point: &Point| -> Vec<(Time, Network)> {
        moments(&point.experiment, at)
            .into_iter()
            .map(|now| (now, Network::at(&point.experiment, now)))
            .collect()
    };
    let (first, others) = points
        .split_first()
        .ok_or_else(|| unfit("no point".to_owned()))?;
    let network = networks(first);
    let Some(other) = others.iter().find(|other| networks(other) != network) else {
        return Ok(first);
    };
    let keys = first.set.iter().zip(&other.set);
    let keys = keys.filter(|(a, b)| a != b);
    let keys: Vec<String> = keys
        .map(|((key, value), _)| format!("--set '{key}={value}'"))
        .collect();
    Err(unfit(format!(
        "the file sweeps its network, and each point has a different optimum: choose one, e.g. \
         with {}",
        keys.join(" ")
    )))
}

/// The times to solve at: one, or every time at which something changes.
fn moments(experiment: &Experiment, at: Option<Duration>) -> Vec<Time> {
    match at {
        Some(at) => vec![Time::ZERO + at],
        None => epochs(experiment, MAX_EPOCHS + 1),
    }
}
