//! `manyway optimum`: the optimal rates in a scenario's network, and the prices of its links.

use std::collections::HashMap;

use indexmap::{IndexMap, IndexSet};
use manyway_report::{Column, Table};
use manyway_results::optimum::{Epoch, Link, NoOptimum, Solution};

use crate::args::OptimumArgs;
use crate::exit::usage;
use crate::scenario;
use crate::screen::Screen;
use crate::summary::print_json;

/// Epochs that fit on a screen.
const SHOWN: usize = 8;

pub(crate) fn run(screen: &Screen, args: &OptimumArgs) -> anyhow::Result<()> {
    let scenario = scenario::load(&args.file, &args.assignments);
    let scenario = scenario.map_err(|error| usage(error.to_string()))?;
    let solution = Solution::of(&scenario, args.utility, args.at).map_err(|error| match error {
        NoOptimum::Unfit(message) => usage(message),
        NoOptimum::Solver(error) => error.into(),
    })?;
    if args.json {
        return print_json(&solution);
    }
    show(&solution, screen);
    Ok(())
}

fn show(solution: &Solution, screen: &Screen) {
    let Solution {
        scenario, utility, ..
    } = solution;
    screen.say(&format!(
        "{scenario}: optimum by {utility}, Mbps with headers\n"
    ));
    let shown = &solution.epochs[..solution.epochs.len().min(SHOWN)];
    screen.say(&rates(shown));
    screen.say(&links(shown, solution.price_unit));
    // The solver guarantees this bound; the JSON has the exact gap.
    let accuracy = "All rates are within a relative 1e-6 of the optimum.";
    screen.say(&match shown.len() {
        1 => format!("{accuracy} A price is the utility of one more Mbps, with rates in Mbps."),
        _ => format!("{accuracy} `--json` has the prices."),
    });
    if solution.epochs.len() > SHOWN {
        screen.say(&format!(
            "`--json` has {} more epochs.",
            solution.epochs.len() - SHOWN
        ));
    }
    for remark in &solution.remarks {
        screen.say(remark);
    }
}

/// `0-20 s`, or `5 s`.
fn heading(epoch: &Epoch) -> String {
    match epoch.from_s == epoch.until_s {
        true => format!("{} s", epoch.from_s),
        false => format!("{}-{} s", epoch.from_s, epoch.until_s),
    }
}

/// The rates of a flow and of its subflows, in Mbps, by their names; a flow's own has no path.
type Rates<'a> = HashMap<(&'a str, Option<&'a str>), f64>;

fn rates_of(epoch: &Epoch) -> Rates<'_> {
    let mut rates = Rates::new();
    for flow in &epoch.flows {
        rates.insert((&flow.name, None), flow.rate_bps / 1e6);
        for subflow in &flow.subflows {
            let key = (flow.name.as_str(), Some(subflow.path.as_str()));
            rates.entry(key).or_insert(subflow.rate_bps / 1e6);
        }
    }
    rates
}

/// A row for each flow, and for each subflow of those with several; one for members of a group that
/// have the same.
fn rates(epochs: &[Epoch]) -> String {
    let mut rows: IndexMap<&str, IndexSet<&str>> = IndexMap::new();
    for flow in epochs.iter().flat_map(|epoch| &epoch.flows) {
        let paths = flow.subflows.iter().map(|subflow| subflow.path.as_str());
        rows.entry(&flow.name).or_default().extend(paths);
    }
    let rates: Vec<Rates<'_>> = epochs.iter().map(rates_of).collect();
    let headings = ["flow", "path"].map(Column::left).into_iter();
    let columns = epochs.iter().map(|epoch| Column::right(heading(epoch)));
    let mut table = Table::new(headings.chain(columns));
    let cell = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.4}"));
    let cells = |flow, path| {
        let rates = rates.iter().map(move |rates| rates.get(&(flow, path)));
        rates.map(|rate| cell(rate.copied()))
    };
    let mut runs: Vec<Run<'_>> = Vec::new();
    for (flow, paths) in rows {
        let label = match paths.len() {
            1 => paths[0],
            _ => "",
        };
        let mut lines = vec![
            [label.to_owned()]
                .into_iter()
                .chain(cells(flow, None))
                .collect(),
        ];
        for &path in paths.iter().filter(|_| paths.len() > 1) {
            let rates = cells(flow, Some(path));
            lines.push([path.to_owned()].into_iter().chain(rates).collect());
        }
        match runs.last_mut().filter(|run| run.goes_on(flow, &lines)) {
            Some(run) => run.last = flow,
            None => runs.push(Run {
                first: flow,
                last: flow,
                lines,
            }),
        }
    }
    for run in runs {
        let mut name = run.name();
        for line in run.lines {
            table.row([std::mem::take(&mut name)].into_iter().chain(line));
        }
    }
    table.to_string()
}

/// Members of a group, one after the other, of which the table has the same to say.
struct Run<'a> {
    first: &'a str,
    last: &'a str,
    lines: Vec<Vec<String>>,
}

impl Run<'_> {
    fn goes_on(&self, flow: &str, lines: &[Vec<String>]) -> bool {
        let next = member(self.last).map(|(group, number)| (group, number + 1));
        next.is_some() && member(flow) == next && self.lines == lines
    }

    /// `web.1`, or `web.1-20`.
    fn name(&self) -> String {
        match member(self.last) {
            Some((_, number)) if self.first != self.last => format!("{}-{number}", self.first),
            _ => self.first.to_owned(),
        }
    }
}

/// A flow's group and its number there, if the group has several members.
fn member(flow: &str) -> Option<(&str, u64)> {
    let (group, number) = flow.rsplit_once('.')?;
    Some((group, number.parse().ok()?))
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
            .map(|epoch| format!("{}: load (%)", heading(epoch)));
        columns.extend(loads.map(Column::right));
    }
    let mut table = Table::new(columns);
    let load = |link: &Link| format!("{:.1}", 100.0 * link.load_bps / link.capacity_bps);
    let mut rows: IndexMap<&str, Vec<Option<&Link>>> = IndexMap::new();
    for (n, epoch) in epochs.iter().enumerate() {
        for link in &epoch.links {
            let row = rows.entry(&link.name);
            let row = row.or_insert_with(|| vec![None; epochs.len()]);
            row[n] = row[n].or(Some(link));
        }
    }
    for (name, links) in rows {
        let mut cells = vec![name.to_owned()];
        for link in links {
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
