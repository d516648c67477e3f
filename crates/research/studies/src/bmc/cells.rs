//! The cells of the page's tables, and the tables.

use manyway_simulate::measure::Summary;

use super::{COUNTS, EVENTS, EVENTS_TCP, EVENTS_WEIGHTED, LOST, RATIO, WEIGHTS};
use crate::table::{Row, Table, markdown};

/// The row of a law and a case, if the table has it.
pub(super) fn find<'a>(tables: &[&'a Table], law: &str, case: &str) -> Option<&'a Row> {
    let mut rows = tables.iter().flat_map(|table| &table.rows);
    rows.find(|row| row.has(&[law, case]))
}

pub(super) fn has(table: &Table, value: &str) -> bool {
    table.rows.iter().any(|row| row.has(&[value]))
}

/// A table of laws by numbers of flows, as far as there are any.
pub(super) fn matrix(
    what: &str,
    tables: &[&Table],
    laws: &[(String, &str)],
    cell: impl Fn(&Row, &str) -> String,
) -> String {
    let there = |count: &&str| {
        laws.iter()
            .any(|(_, law)| find(tables, law, count).is_some())
    };
    let counts: Vec<_> = COUNTS.into_iter().filter(|count| there(count)).collect();
    let mut rows = Vec::new();
    for (name, law) in laws {
        let cells = counts
            .iter()
            .map(|count| find(tables, law, count).map_or(String::new(), |row| cell(row, law)));
        let cells: Vec<_> = cells.collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            rows.push(std::iter::once(name.clone()).chain(cells).collect());
        }
    }
    let first = format!("N = {}", counts[0]);
    let columns = [&[what, &first], &counts[1..]].concat();
    markdown(&columns, &rows)
}

pub(super) fn plus_minus(value: &Summary, over: f64) -> String {
    format!(
        "{:.2} ± {:.2}",
        value.mean / over,
        value.ci95.unwrap_or(0.0) / over
    )
}

/// Throughput over what the mean flow has, and in brackets Jain's index of each group.
pub(super) fn normalised(row: &Row, _: &str) -> String {
    let value = |n: usize| row.values[n].mean;
    let half = (value(0) + value(1)) / 2.0;
    format!(
        "{:.2} / {:.2} ({:.2}, {:.2})",
        value(0) / half,
        value(1) / half,
        value(11),
        value(12)
    )
}

pub(super) fn excess(row: &Row, _: &str) -> String {
    format!(
        "{:.2}",
        row.values[EVENTS_WEIGHTED].mean / row.values[EVENTS_TCP].mean
    )
}

/// Eq. (3.2) with the loss-event rates that each group has: `D·sqrt(p_TCP/p_weighted)`.
pub(super) fn explained(row: &Row, law: &str) -> String {
    let d = WEIGHTS
        .iter()
        .find(|(_, known)| *known == law)
        .map_or(1.0, |(d, _)| *d);
    let value = |n: usize| row.values[n].mean;
    let expected = d * (value(EVENTS_TCP) / value(EVENTS_WEIGHTED)).sqrt();
    format!("{:.2}", value(RATIO) / expected)
}

/// Packets lost by numbers of flows, %.
pub(super) fn lost(table: Option<&Table>) -> String {
    let Some(table) = table else {
        return "(the full version alone has this)".to_owned();
    };
    let rates = table.rows.iter().map(|row| row.values[LOST].mean);
    let rates = rates.map(|rate| format!("{rate:.3}"));
    rates.collect::<Vec<_>>().join(", ")
}

pub(super) fn begin(row: &Row, _: &str) -> String {
    format!(
        "{:.3} / {:.3}",
        row.values[EVENTS].mean, row.values[LOST].mean
    )
}

/// Some columns of a table.
pub(super) fn chosen(table: &Table, columns: &[usize]) -> String {
    let narrow = Table {
        scenario: table.scenario.clone(),
        set: table.set.clone(),
        columns: columns.iter().map(|&n| table.columns[n].clone()).collect(),
        rows: table
            .rows
            .iter()
            .map(|row| Row {
                point: row.point.clone(),
                values: columns.iter().map(|&n| row.values[n]).collect(),
            })
            .collect(),
    };
    narrow.markdown(&[])
}
