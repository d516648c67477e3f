//! The comparison for people: a table for each point and epoch. This module chooses what is shown
//! and how it is rounded.

use manyway_report::{Column, Table};
use manyway_simulate::measure::Estimate;

use super::report::{Comparison, Epoch, Flow, PointResult, Rates};
use crate::run::naming::heading;
use crate::run::number::Style;

/// The text shows no more points, epochs and groups than these.
const POINTS: usize = 12;
const EPOCHS: usize = 12;
const GROUPS: usize = 20;

pub(super) fn summary(comparison: &Comparison) -> String {
    let levels = &comparison.levels;
    let mut text = format!("{}: {}, goodput", comparison.scenario, levels.join(", "));
    let simulated = |level: &&str| ["packet", "stack"].contains(level);
    if levels.iter().any(simulated) && comparison.runs > 1 {
        text += &format!(
            ", {} runs; ± is the 95 % confidence interval of the mean",
            comparison.runs
        );
    }
    text += "\n\n";
    for point in comparison.points.iter().take(POINTS) {
        let set = heading(&point.set);
        for epoch in point.epochs.iter().take(EPOCHS) {
            let epoch_heading = match set.as_str() {
                "" => epoch.heading(),
                set => format!("{set}, {}", epoch.heading()),
            };
            text += &format!("{epoch_heading}:\n{}\n", rates(epoch, levels));
        }
        text += &notes(point);
    }
    if comparison.points.len() > POINTS {
        let more = comparison.points.len() - POINTS;
        text += &format!("{more} more points are in --json.\n");
    }
    text.truncate(text.trim_end().len());
    text
}

fn notes(point: &PointResult) -> String {
    let mut text = String::new();
    if point.epochs.len() > EPOCHS {
        let more = point.epochs.len() - EPOCHS;
        text += &format!("{more} more epochs are in --json.\n");
    }
    for epoch in &point.epochs {
        if epoch.fluid_converged == Some(false) {
            let heading = epoch.heading();
            text += &format!(
                "{heading}: the solver found no equilibrium of the fluid; the table has the rates \
                 nearest to one.\n"
            );
        }
    }
    for remark in &point.remarks {
        text += &format!("{remark}\n");
    }
    match text.is_empty() {
        true => text,
        false => text + "\n",
    }
}

impl Epoch {
    fn heading(&self) -> String {
        format!("{}-{} s", self.from_s, self.until_s)
    }
}

/// A way to read a level's number.
type Read = fn(&Rates) -> Option<Estimate>;

/// A row for each group, and for each of its paths where there are several.
fn rates(epoch: &Epoch, levels: &[&str]) -> String {
    let all: [(&str, &str, Read); 5] = [
        ("optimum", "optimum", |rates| computed(rates.optimum_bps)),
        ("fluid", "fluid equilibrium", |rates| {
            computed(rates.fluid_rest_bps)
        }),
        ("fluid", "fluid", |rates| computed(rates.fluid_bps)),
        ("packet", "packet", |rates| rates.packet_bps),
        ("stack", "stack", |rates| rates.stack_bps),
    ];
    let shown: Vec<(&str, Read)> = all
        .into_iter()
        .filter(|(level, ..)| levels.contains(level))
        .map(|(_, name, read)| (name, read))
        .collect();
    let largest = epoch
        .flows
        .iter()
        .flat_map(|flow| shown.iter().filter_map(|(_, read)| read(&flow.rates)));
    let style = Style::rate(largest.map(|rate| rate.mean));
    let mut columns: Vec<Column> = ["flow", "law", "path"].map(Column::left).into();
    columns.extend(
        shown
            .iter()
            .map(|(name, _)| Column::right(format!("{name} ({}bps)", style.prefix))),
    );
    let mut table = Table::new(columns);
    let groups: Vec<&[Flow]> = epoch.flows.chunk_by(|a, b| a.group == b.group).collect();
    // A group without any rate has no row.
    let present = groups.iter().filter(|members| {
        let rates = members.iter().map(|flow| flow.rates);
        rates
            .flat_map(|rates| {
                let simulated = [rates.packet_bps, rates.stack_bps];
                let simulated = simulated.map(|rate| rate.map(|rate| rate.mean));
                [rates.optimum_bps, rates.fluid_bps]
                    .into_iter()
                    .chain(simulated)
            })
            .flatten()
            .any(|rate| rate > 0.0)
    });
    for members in present.take(GROUPS) {
        let first = &members[0];
        let label = match members.len() {
            1 => first.name.clone(),
            n => format!("{n} × {}", first.group),
        };
        let several = first.subflows.len() > 1;
        let path = if several {
            String::new()
        } else {
            first.subflows[0].path.clone()
        };
        let cells = |rates: &dyn Fn(&Flow) -> Rates| -> Vec<String> {
            shown
                .iter()
                .map(|(_, read)| style.write(mean(members.iter().map(|flow| read(&rates(flow))))))
                .collect()
        };
        let head = [label, first.law.clone(), path];
        table.row(head.into_iter().chain(cells(&|flow| flow.rates)));
        for n in (0..first.subflows.len()).filter(|_| several) {
            let head = [String::new(), String::new(), first.subflows[n].path.clone()];
            table.row(
                head.into_iter()
                    .chain(cells(&|flow| flow.subflows[n].rates)),
            );
        }
    }
    let note = match groups.len() > GROUPS {
        true => "More groups are in --json.\n",
        false => "",
    };
    format!("{table}{note}")
}

/// A number that a level computes instead of measuring it.
fn computed(mean: Option<f64>) -> Option<Estimate> {
    mean.map(|mean| Estimate {
        mean,
        ci95: None,
        n: 1,
    })
}

/// The mean of a group's members. Only a single member keeps its interval, which says nothing about
/// a mean over several.
fn mean(members: impl Iterator<Item = Option<Estimate>>) -> Option<Estimate> {
    let all: Vec<Option<Estimate>> = members.collect();
    if let [only] = all[..] {
        return only;
    }
    let known: Vec<f64> = all.iter().flatten().map(|rate| rate.mean).collect();
    computed((!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64))
}
