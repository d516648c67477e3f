//! The points of a sweep, a row for each.

use indexmap::IndexSet;
use manyway_report::{Column, Table};
use manyway_simulate::batch::{GroupReport, LinkReport, PointReport, SpanReport};

use super::noted;
use super::styles::{Transfers, estimate};
use crate::run::number::Style;

/// So many groups and links have columns.
const COLUMNS: usize = 4;

pub(super) fn sweep(points: &[PointReport]) -> String {
    let keys: IndexSet<&str> = points
        .iter()
        .flat_map(|point| point.set.keys().map(String::as_str))
        .collect();
    let all = (0..).map_while(|n| GroupColumn::of(points, n));
    let mut groups: Vec<GroupColumn<'_>> = all.collect();
    let mut links: Vec<&str> = Vec::new();
    for link in points.iter().flat_map(|point| &point.measured.links) {
        if !links.contains(&link.name.as_str()) {
            links.push(&link.name);
        }
    }
    let left_out = groups.len() > COLUMNS || links.len() > COLUMNS;
    groups.truncate(COLUMNS);
    links.truncate(COLUMNS);

    let mut text = overview(points, &keys, &groups, &links, left_out);
    text.push_str(&spans(points, &keys, &groups));
    text
}

/// A group at all points: of the same place in the file, so of the same name.
struct GroupColumn<'a> {
    index: usize,
    name: &'a str,
    /// If it has transfers that can be complete.
    transfers: Option<Transfers>,
}

impl<'a> GroupColumn<'a> {
    fn of(points: &'a [PointReport], index: usize) -> Option<Self> {
        let groups = || {
            points
                .iter()
                .filter_map(move |point| point.measured.groups.get(index))
        };
        let finite = groups().any(|group| group.completed.is_some());
        let times = groups().filter_map(|group| group.completion_s);
        Some(Self {
            index,
            name: &groups().next()?.name,
            transfers: finite.then(|| Transfers::of(times)),
        })
    }

    fn at(&self, point: &'a PointReport) -> Option<&'a GroupReport> {
        point.measured.groups.get(self.index)
    }
}

fn overview(
    points: &[PointReport],
    keys: &IndexSet<&str>,
    groups: &[GroupColumn<'_>],
    links: &[&str],
    left_out: bool,
) -> String {
    let shown = points
        .iter()
        .flat_map(|point| groups.iter().filter_map(|group| group.at(point)));
    let rate = Style::rate(shown.map(|group| group.goodput_bps));
    let several = points.iter().any(|point| point.measured.flows.len() > 1);

    let mut columns: Vec<Column> = keys.iter().copied().map(Column::left).collect();
    for group in groups {
        columns.push(Column::right(format!(
            "{} ({}bps)",
            group.name, rate.prefix
        )));
        let after = |transfers: Transfers| transfers.column(&format!("{} after", group.name));
        columns.extend(group.transfers.map(after));
    }
    columns.extend(
        links
            .iter()
            .map(|name| Column::right(format!("{name} (%)"))),
    );
    columns.extend(several.then(|| Column::right("Jain")));
    let mut table = Table::new(columns);
    for point in points {
        let mut row = settings(point, keys);
        for column in groups {
            let group = column.at(point);
            let goodput = group.map(|group| estimate(group.goodput_bps, group.goodput_ci95_bps));
            row.push(rate.write(goodput.unwrap_or_default()));
            row.extend(column.transfers.map(|transfers| after(transfers, group)));
        }
        let measured = &point.measured;
        for name in links {
            let link = measured.links.iter().find(|link| link.name == *name);
            let load = |link: &LinkReport| estimate(link.utilisation, link.utilisation_ci95);
            row.push(Style::percent(1).write(link.map(load).unwrap_or_default()));
        }
        row.push(Style::plain([1.0], 3).write(estimate(measured.jain, measured.jain_ci95)));
        table.row(row);
    }
    let more = if left_out {
        " There are more of them in --json."
    } else {
        ""
    };
    let note = format!("Goodput per flow of each group, utilisation of each link.{more}");
    noted(table, Some(&note))
}

/// How long a group's transfers took.
fn after(transfers: Transfers, group: Option<&GroupReport>) -> String {
    let completed = group.and_then(|group| Some((group, group.completed?)));
    completed.map_or_else(String::new, |(group, completed)| {
        let time = estimate(group.completion_s, group.completion_ci95_s);
        transfers.write(time, completed, group.count as f64)
    })
}

/// Goodput in the spans of time that the scenario names, if it does.
fn spans(points: &[PointReport], keys: &IndexSet<&str>, groups: &[GroupColumn<'_>]) -> String {
    let shown = || {
        points
            .iter()
            .flat_map(|point| groups.iter().filter_map(|group| group.at(point)))
    };
    let spans = || shown().flat_map(|group| &group.spans);
    let names: IndexSet<&str> = spans().map(|span| span.name.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    let rate = Style::rate(spans().map(|span| span.goodput_bps));
    let pairs = || {
        groups
            .iter()
            .flat_map(|group| names.iter().map(move |name| (group, *name)))
    };
    let mut columns: Vec<Column> = keys.iter().copied().map(Column::left).collect();
    columns.extend(pairs().map(|(group, span)| {
        Column::right(format!("{}, {span} ({}bps)", group.name, rate.prefix))
    }));
    let mut table = Table::new(columns);
    for point in points {
        let cell = |(column, name): (&GroupColumn<'_>, &str)| {
            let spans = column.at(point).map_or(&[][..], |group| &group.spans);
            let span = spans.iter().find(|span| span.name == name);
            let goodput = |span: &SpanReport| estimate(span.goodput_bps, span.goodput_ci95_bps);
            rate.write(span.map(goodput).unwrap_or_default())
        };
        table.row(settings(point, keys).into_iter().chain(pairs().map(cell)));
    }
    noted(
        table,
        Some("Goodput per flow in each span of time that the scenario names."),
    )
}

/// What a point sets of all that some point sets.
fn settings(point: &PointReport, keys: &IndexSet<&str>) -> Vec<String> {
    let value = |key: &&str| point.set.get(*key).cloned().unwrap_or_default();
    keys.iter().map(value).collect()
}
