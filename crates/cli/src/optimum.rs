//! `manyway optimum`: the optimal rates in a scenario's network, and the prices of its links.

use std::time::Duration;

use anyhow::anyhow;
use manyway_fluid::optimum::{self, Allocation, Utility};
use manyway_fluid::{Network, epochs};
use manyway_report::{Column, Table};
use manyway_scenario::{Experiment, Point};
use manyway_units::{Time, format_duration};
use serde::Serialize;

use crate::args::OptimumArgs;
use crate::exit::usage;
use crate::scenario;
use crate::screen::Screen;
use crate::summary::print_json;

/// Most epochs to compute without `--at`.
const MAX_EPOCHS: usize = 200;

/// Epochs that fit on a screen.
const SHOWN: usize = 8;

pub(crate) fn run(screen: &Screen, args: &OptimumArgs) -> anyhow::Result<()> {
    let scenario = scenario::load(&args.file, &args.assignments);
    let scenario = scenario.map_err(|error| usage(error.to_string()))?;
    let points = scenario
        .points()
        .map_err(|error| usage(error.to_string()))?;
    let experiment = &only(&points, args.at)?.experiment;
    if let Some(group) = experiment.random_group() {
        return Err(usage(format!(
            "the flows of `{}` start at random times, so that nobody can say who shares the links \
             when: give them a fixed `stagger`",
            group.name
        )));
    }
    let solution = Solution::of(scenario.name(), experiment, args)?;
    if args.json {
        return print_json(&solution);
    }
    solution.show(screen);
    Ok(())
}

/// The point to solve. Any will do if the sweep changes only laws; otherwise there must be one.
fn only(points: &[Point], at: Option<Duration>) -> anyhow::Result<&Point> {
    let networks = |point: &Point| -> Vec<(Time, Network)> {
        moments(&point.experiment, at)
            .into_iter()
            .map(|now| (now, Network::at(&point.experiment, now)))
            .collect()
    };
    let (first, others) = points.split_first().ok_or_else(|| anyhow!("no point"))?;
    let network = networks(first);
    let Some(other) = others.iter().find(|other| networks(other) != network) else {
        return Ok(first);
    };
    let keys = first.set.iter().zip(&other.set);
    let keys = keys.filter(|(a, b)| a != b);
    let keys: Vec<String> = keys
        .map(|((key, value), _)| format!("--set '{key}={value}'"))
        .collect();
    Err(usage(format!(
        "the file sweeps its network, and each point has a different optimum: choose one, e.g. \
         with {}",
        keys.join(" ")
    )))
}

/// The times to solve at: one, or every time at which something changes.
fn moments(experiment: &Experiment, at: Option<Duration>) -> Vec<Time> {
    match at {
        Some(at) => vec![Time::ZERO + at],
        None => epochs(experiment, MAX_EPOCHS),
    }
}

/// The result. The epoch in which the scenario begins to measure is at the top level.
#[derive(Debug, Serialize)]
struct Solution {
    scenario: String,
    utility: String,
    /// Factor from a price to the one that the text shows, for a utility of rates in Mbps.
    #[serde(skip)]
    price_unit: f64,
    #[serde(flatten)]
    main: Epoch,
    epochs: Vec<Epoch>,
    remarks: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
struct Epoch {
    from_s: f64,
    until_s: f64,
    flows: Vec<Flow>,
    links: Vec<Link>,
    /// Relative: [`optimum::Certificate::gap`].
    gap: f64,
}

#[derive(Debug, Clone, Serialize)]
struct Flow {
    name: String,
    rate_bps: f64,
    subflows: Vec<Subflow>,
}

#[derive(Debug, Clone, Serialize)]
struct Subflow {
    path: String,
    rate_bps: f64,
}

#[derive(Debug, Clone, Serialize)]
struct Link {
    name: String,
    price: f64,
    load_bps: f64,
    capacity_bps: f64,
}

impl Solution {
    fn of(scenario: &str, experiment: &Experiment, args: &OptimumArgs) -> anyhow::Result<Self> {
        let end = Time::ZERO + experiment.duration;
        if let Some(at) = args.at.filter(|&at| at >= experiment.duration) {
            return Err(usage(format!(
                "`--at {}` is not before the scenario's end: choose less than {}",
                format_duration(at),
                format_duration(experiment.duration)
            )));
        }
        let moments = moments(experiment, args.at);
        let mut remarks = Vec::new();
        if args.at.is_none() && moments.len() == MAX_EPOCHS {
            remarks.push(format!(
                "manyway computed only {MAX_EPOCHS} epochs: choose later ones with `--at`."
            ));
        }
        let mut epochs = Vec::new();
        for (n, &now) in moments.iter().enumerate() {
            let until = match args.at {
                Some(_) => now,
                None => moments.get(n + 1).copied().unwrap_or(end),
            };
            let network = Network::at(experiment, now);
            let epoch = Epoch::of(&network, args.utility, (now, until))?;
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
            utility: args.utility.to_string(),
            price_unit: 1e6f64.powf(args.utility.exponent().unwrap_or(0.0)),
            main: main.unwrap_or(&epochs[0]).clone(),
            epochs,
            remarks,
        })
    }

    fn show(&self, screen: &Screen) {
        let Self {
            scenario, utility, ..
        } = self;
        screen.say(&format!(
            "{scenario}: optimum by {utility}, Mbps with headers\n"
        ));
        let shown = &self.epochs[..self.epochs.len().min(SHOWN)];
        screen.say(&rates(shown));
        screen.say(&links(shown, self.price_unit));
        // The solver guarantees this bound; the JSON has the exact gap.
        let accuracy = "All rates are within a relative 1e-6 of the optimum.";
        screen.say(&match shown.len() {
            1 => format!("{accuracy} A price is the utility of one more Mbps, with rates in Mbps."),
            _ => format!("{accuracy} `--json` has the prices."),
        });
        if self.epochs.len() > SHOWN {
            screen.say(&format!(
                "`--json` has {} more epochs.",
                self.epochs.len() - SHOWN
            ));
        }
        for remark in &self.remarks {
            screen.say(remark);
        }
    }
}

impl Epoch {
    fn of(
        network: &Network,
        utility: Utility,
        (from, until): (Time, Time),
    ) -> anyhow::Result<Self> {
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

    fn heading(&self) -> String {
        match self.from_s == self.until_s {
            true => format!("{} s", self.from_s),
            false => format!("{}-{} s", self.from_s, self.until_s),
        }
    }

    /// The rate of a flow's subflow, or of the whole flow, in Mbps.
    fn rate(&self, flow: &str, path: Option<&str>) -> Option<f64> {
        let flow = self.flows.iter().find(|own| own.name == flow)?;
        let rate = match path {
            None => flow.rate_bps,
            Some(path) => flow.subflows.iter().find(|own| own.path == path)?.rate_bps,
        };
        Some(rate / 1e6)
    }
}

/// A row for each flow, and for each subflow of those with several.
fn rates(epochs: &[Epoch]) -> String {
    let mut rows: Vec<(&str, Vec<&str>)> = Vec::new();
    for flow in epochs.iter().flat_map(|epoch| &epoch.flows) {
        let at = rows.iter().position(|(name, _)| *name == flow.name);
        let at = at.unwrap_or_else(|| {
            rows.push((&flow.name, Vec::new()));
            rows.len() - 1
        });
        for subflow in &flow.subflows {
            if !rows[at].1.contains(&subflow.path.as_str()) {
                rows[at].1.push(&subflow.path);
            }
        }
    }
    let headings = ["flow", "path"].map(Column::left).into_iter();
    let columns = epochs.iter().map(|epoch| Column::right(epoch.heading()));
    let mut table = Table::new(headings.chain(columns));
    let cell = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.4}"));
    for (flow, paths) in rows {
        let label = match paths[..] {
            [path] => path,
            _ => "",
        };
        let totals = epochs.iter().map(|epoch| cell(epoch.rate(flow, None)));
        table.row(
            [flow.to_owned(), label.to_owned()]
                .into_iter()
                .chain(totals),
        );
        for path in paths.iter().filter(|_| paths.len() > 1) {
            let rates = epochs
                .iter()
                .map(|epoch| cell(epoch.rate(flow, Some(path))));
            table.row([String::new(), (*path).to_owned()].into_iter().chain(rates));
        }
    }
    table.to_string()
}

/// Loads in percent; with only one epoch, prices too.
fn links(epochs: &[Epoch], price_unit: f64) -> String {
    let mut columns = vec![Column::left("link")];
    let single = epochs.len() == 1;
    if single {
        columns.extend(["load (%)", "price"].map(Column::right));
    } else {
        let loads = epochs
            .iter()
            .map(|epoch| format!("{}: load (%)", epoch.heading()));
        columns.extend(loads.map(Column::right));
    }
    let mut table = Table::new(columns);
    let load = |link: &Link| format!("{:.1}", 100.0 * link.load_bps / link.capacity_bps);
    let mut names: Vec<&str> = Vec::new();
    for link in epochs.iter().flat_map(|epoch| &epoch.links) {
        if !names.contains(&link.name.as_str()) {
            names.push(&link.name);
        }
    }
    for name in names {
        let mut cells = vec![name.to_owned()];
        for epoch in epochs {
            let link = epoch.links.iter().find(|link| link.name == name);
            cells.push(link.map_or_else(|| "-".to_owned(), load));
            if single {
                let price = link.map_or(0.0, |link| price_unit * link.price);
                cells.push(format!("{price:.4}"));
            }
        }
        table.row(cells);
    }
    table.to_string()
}
