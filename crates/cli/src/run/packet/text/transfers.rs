//! Percentiles of the times of many transfers.

use manyway_report::{Column, Table};
use manyway_simulate::batch::{GroupReport, Percentiles};

use super::ROWS;
use super::styles::{Transfers, fractions, noted};
use crate::run::number::Style;

/// Percentiles say something about more transfers than these.
const MANY: f64 = 20.0;

/// A row for each group with many transfers, below what `settings` names the columns of.
pub(super) fn table<'a>(
    settings: Vec<Column>,
    groups: impl Iterator<Item = (Vec<String>, &'a GroupReport)>,
) -> String {
    let rows = groups.filter_map(|(settings, group)| {
        let completed = group.completed.filter(|completed| completed.mean > MANY)?;
        let percentiles = (group.completion_percentiles_s?, group.slowdown_percentiles?);
        Some((settings, group, completed.mean, percentiles))
    });
    let shown: Vec<_> = rows.take(ROWS).collect();
    if shown.is_empty() {
        return String::new();
    }
    let all = |of: &Percentiles| [of.p50, of.p95, of.p99].map(|estimate| estimate.mean);
    let times = Transfers::of(shown.iter().flat_map(|(.., (times, _))| all(times)));
    let slower = Style::plain(shown.iter().flat_map(|(.., (_, slower))| all(slower)), 2);
    let count = Style::plain(
        shown.iter().map(|(_, _, completed, _)| *completed),
        fractions(shown.iter().map(|(_, _, completed, _)| *completed)),
    );
    let mut columns = settings;
    columns.extend([Column::left("transfers of"), Column::right("complete")]);
    columns.extend(["median", "95 %", "99 %"].map(|name| times.column(name)));
    columns.extend(["slowdown", "median", "95 %", "99 %"].map(Column::right));
    let mut table = Table::new(columns);
    for (settings, group, completed, (took, slowdown)) in shown {
        let mut row = settings;
        row.extend([group.name.clone(), count.number(completed)]);
        row.extend(all(&took).map(|time| times.time(Some(time))));
        row.push(slower.write(group.slowdown));
        row.extend(all(&slowdown).map(|value| slower.number(value)));
        table.row(row);
    }
    let note = "The slowdown is the time of a transfer over the least that it takes alone.";
    noted(table, Some(note))
}
