//! Percentiles of round-trip times and of delays in queues, where the scenario measures them.

use manyway_report::{Column, Table};
use manyway_simulate::batch::{GroupReport, LinkReport, Percentiles};

use super::ROWS;
use super::styles::noted;
use crate::run::number::Style;

/// A row for each group's mean subflow over a path, and one for each link, below what `settings`
/// names the columns of.
pub(super) fn tables<'a>(
    settings: &[Column],
    groups: impl Iterator<Item = (Vec<String>, &'a GroupReport)>,
    links: impl Iterator<Item = (Vec<String>, &'a LinkReport)>,
) -> String {
    let rtts = groups.flat_map(|(settings, group)| {
        let subflows = group.subflows.iter().enumerate();
        subflows.filter_map(move |(n, subflow)| {
            // Its name once is enough.
            let name = if n == 0 {
                group.name.clone()
            } else {
                String::new()
            };
            let head = settings.iter().cloned().chain([name, subflow.path.clone()]);
            Some((head.collect(), subflow.rtt_percentiles_s?))
        })
    });
    let rtts: Vec<_> = rtts.take(ROWS).collect();
    let delays = links.filter_map(|(settings, link)| {
        let head = settings.into_iter().chain([link.name.clone()]);
        Some((head.collect(), link.queue_delay_percentiles_s?))
    });
    let delays: Vec<_> = delays.take(ROWS).collect();
    let of_subflows = "Round-trip times of each group's mean subflow.";
    let of_links = "Times that packets are in a link's queue, their own transmission included.";
    table(settings, &["rtt of", "over"], rtts, of_subflows)
        + &table(settings, &["delay of"], delays, of_links)
}

fn table(
    settings: &[Column],
    names: &[&str],
    rows: Vec<(Vec<String>, Percentiles)>,
    note: &str,
) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let all = |of: &Percentiles| [of.p50, of.p95, of.p99];
    let times = rows.iter().flat_map(|(_, of)| all(of));
    let style = Style::millis(times.map(|estimate| estimate.mean));
    let mut columns = settings.to_vec();
    columns.extend(names.iter().copied().map(Column::left));
    let shares = ["median", "95 %", "99 %"];
    columns.extend(shares.map(|share| Column::right(format!("{share} (ms)"))));
    let mut table = Table::new(columns);
    for (head, of) in rows {
        let cells = all(&of).map(|estimate| style.write(estimate));
        table.row(head.into_iter().chain(cells));
    }
    noted(table, Some(note))
}
