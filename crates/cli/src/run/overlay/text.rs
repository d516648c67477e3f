//! The results of an overlay for people: a row for each point. This module chooses what is shown
//! and how it is rounded.

use std::collections::BTreeSet;

use manyway_report::{Column, Table};
use manyway_simulate::batch::{OverlayLevel, OverlayPointReport, OverlayReport};
use manyway_simulate::measure::Summary;

/// The table shows no more points than these.
const POINTS: usize = 200;

pub(super) fn summary(report: &OverlayReport) -> String {
    let level = match report.level {
        OverlayLevel::Flow => "flow level",
        OverlayLevel::Packet => "packet level",
    };
    let mut text = format!("{}: {level}, {}\n\n", report.scenario, runs(report));
    let shown = &report.points[..report.points.len().min(POINTS)];
    text += &table(shown, report.repeat).to_string();
    if report.points.len() > shown.len() {
        text += &format!(
            "{} more points are in --json.\n",
            report.points.len() - shown.len()
        );
    }
    text += "Rates are sums over all sources, as a share of their total demand.";
    text += &sharing(report);
    if shown.iter().any(|point| point.control.is_some()) {
        text += " The optimum is that of the linear programme over the same paths.";
    }
    text
}

fn runs(report: &OverlayReport) -> String {
    let (seed, repeat) = (report.seed, report.repeat);
    let points = match report.points.len() {
        1 => String::new(),
        n => format!("{n} points, each "),
    };
    match repeat {
        1 => format!("{points}1 run (seed {seed})"),
        _ => format!(
            "{points}{repeat} runs (seeds {seed} to {}); ± is the 95 % confidence interval of the \
             mean",
            seed.wrapping_add(u64::from(repeat) - 1)
        ),
    }
}

/// The sharing rule, which results depend on: the text always names it.
fn sharing(report: &OverlayReport) -> String {
    let rules: BTreeSet<&str> = report
        .points
        .iter()
        .filter_map(|point| point.sharing)
        .collect();
    match rules.len() {
        0 => " On an overloaded link, its queue and TCP decide who loses.".to_owned(),
        1 => format!(
            " Sources share overloaded links by the rule {}.",
            rules.into_iter().collect::<String>()
        ),
        _ => " Sources share overloaded links by the rule in their row.".to_owned(),
    }
}

fn table(points: &[OverlayPointReport], repeat: u32) -> Table {
    let keys: Vec<&String> = points
        .first()
        .map_or(Vec::new(), |point| point.set.keys().collect());
    let controlled = points.iter().any(|point| point.control.is_some());
    let searched = points.iter().any(|point| point.search.is_some());
    let mut columns: Vec<Column> = keys.iter().map(|key| Column::left(short(key))).collect();
    columns.push(Column::right("rate"));
    if controlled {
        columns.extend(
            [
                "optimum",
                "gap (%)",
                "largest gap (%)",
                "settling time (intervals)",
            ]
            .map(Column::right),
        );
    }
    if searched {
        columns.extend(["first rate", "iterations", "median", "found"].map(Column::right));
    }
    let mut table = Table::new(columns);
    for point in points {
        let several = point.runs > 1;
        let write = |value: &Summary, decimals| estimate(value, several, decimals);
        let mut row: Vec<String> = point.set.values().cloned().collect();
        row.push(write(&point.rate, 4));
        if let Some(control) = &point.control {
            row.push(write(&control.optimum, 4));
            let percent = percent(&control.below_optimum);
            row.extend([write(&percent, 2), format!("{:.2}", percent.max)]);
            row.push(write(&control.settled_intervals, 0));
        } else if controlled {
            row.extend([const { String::new() }; 4]);
        }
        if let Some(search) = &point.search {
            row.extend([write(&search.first_rate, 4), write(&search.iterations, 1)]);
            row.push(format!("{:.1}", search.iterations.median));
            row.push(format!(
                "{} of {}",
                search.found,
                point.runs.max(repeat as usize)
            ));
        }
        table.row(row);
    }
    table
}

/// `overlay.control.increment` as `increment`.
fn short(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn estimate(value: &Summary, several: bool, decimals: usize) -> String {
    match value.ci95.filter(|_| several) {
        Some(ci95) => format!("{:.decimals$} ± {ci95:.decimals$}", value.mean),
        None => format!("{:.decimals$}", value.mean),
    }
}

/// In percent; a value that rounds to zero becomes zero, so that no `-0.00` shows.
fn percent(value: &Summary) -> Summary {
    let of = |share: f64| {
        let percent = 100.0 * share;
        if percent.abs() < 0.005 { 0.0 } else { percent }
    };
    Summary {
        mean: of(value.mean),
        max: of(value.max),
        ci95: value.ci95.map(of),
        ..*value
    }
}
