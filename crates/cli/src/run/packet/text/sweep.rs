//! The points of a sweep, a row for each. This module shows the first few groups and links in
//! columns and leaves the others to `--json`.

use indexmap::IndexSet;
use manyway_report::{Column, Table};
use manyway_simulate::batch::{GroupReport, PointReport};

use super::styles::{Transfers, means, noted};
use super::{flows_of, percentiles, transfers};
use crate::run::number::Style;

/// Number of groups, and of links, that have columns.
const COLUMNS: usize = 4;

/// A row for each of the `points`; each should have `repeat` runs.
pub(super) fn sweep(points: &[PointReport], repeat: u32) -> String {
    let sweep = Sweep::of(points);
    sweep.overview(repeat) + &sweep.transfers() + &sweep.spans() + &sweep.percentiles()
}

struct Sweep<'a> {
    points: &'a [PointReport],
    /// The keys that some of the points set.
    keys: IndexSet<&'a str>,
    /// The groups and links with columns, and whether there are others.
    groups: Vec<GroupColumn<'a>>,
    links: Vec<&'a str>,
    left_out: bool,
}

impl<'a> Sweep<'a> {
    fn of(points: &'a [PointReport]) -> Self {
        let keys = points.iter().flat_map(|point| point.set.keys());
        let groups: Vec<GroupColumn<'_>> =
            (0..).map_while(|n| GroupColumn::of(points, n)).collect();
        let links = points.iter().flat_map(|point| &point.measured.links);
        let links: IndexSet<&str> = links.map(|link| link.name.as_str()).collect();
        Self {
            points,
            keys: keys.map(String::as_str).collect(),
            left_out: groups.len() > COLUMNS || links.len() > COLUMNS,
            groups: groups.into_iter().take(COLUMNS).collect(),
            links: links.into_iter().take(COLUMNS).collect(),
        }
    }

    fn overview(&self, repeat: u32) -> String {
        let shown = self.shown().map(|group| group.goodput_bps.mean);
        let rate = Style::rate(shown);
        let measured = || self.points.iter().map(|point| &point.measured);
        let several = measured().any(|measured| measured.flows.len() > 1);
        let partial = measured().any(|measured| measured.runs != repeat);

        let mut columns = self.setting_columns();
        columns.extend(partial.then(|| Column::right("runs")));
        for group in &self.groups {
            columns.push(Column::right(format!(
                "{} ({}bps)",
                group.name, rate.prefix
            )));
            let after = |transfers: Transfers| transfers.column(&format!("{} after", group.name));
            columns.extend(group.transfers.map(after));
        }
        columns.extend(
            self.links
                .iter()
                .map(|name| Column::right(format!("{name} (%)"))),
        );
        columns.extend(several.then(|| Column::right("Jain")));
        let mut table = Table::new(columns);
        for point in self.points {
            let measured = &point.measured;
            let mut row = self.settings(point);
            row.extend(partial.then(|| measured.runs.to_string()));
            for column in &self.groups {
                let group = column.at(point);
                row.push(rate.write(group.map(|group| group.goodput_bps)));
                row.extend(column.transfers.map(|transfers| after(transfers, group)));
            }
            for name in &self.links {
                let link = measured.links.iter().find(|link| link.name == *name);
                row.push(Style::percent(1).write(link.map(|link| link.utilisation)));
            }
            let jain = Style::plain([1.0], 3).write(measured.jain);
            row.extend(several.then_some(jain));
            table.row(row);
        }
        let more = match self.left_out {
            true => " --json has all groups and links.",
            false => "",
        };
        let note = format!("Goodput per flow of each group, utilisation of each link.{more}");
        noted(table, Some(&note))
    }

    /// Goodput in the spans of time that the scenario names, if it does.
    fn spans(&self) -> String {
        let spans = || self.shown().flat_map(|group| &group.spans);
        let names: IndexSet<&str> = spans().map(|span| span.name.as_str()).collect();
        if names.is_empty() {
            return String::new();
        }
        let rate = Style::rate(spans().map(|span| span.goodput_bps.mean));
        let pairs = || {
            let groups = self.groups.iter();
            groups.flat_map(|group| names.iter().map(move |name| (group, *name)))
        };
        let mut columns = self.setting_columns();
        columns.extend(pairs().map(|(group, span)| {
            Column::right(format!("{}, {span} ({}bps)", group.name, rate.prefix))
        }));
        let mut table = Table::new(columns);
        for point in self.points {
            let cell = |(column, name): (&GroupColumn<'a>, &str)| {
                let spans = column.at(point).map_or(&[][..], |group| &group.spans);
                let span = spans.iter().find(|span| span.name == name);
                rate.write(span.map(|span| span.goodput_bps))
            };
            table.row(self.settings(point).into_iter().chain(pairs().map(cell)));
        }
        let note = "Goodput per flow in each span of time that the scenario names.";
        noted(table, Some(note))
    }

    fn transfers(&self) -> String {
        let rows = self.points.iter().flat_map(|point| {
            let groups = self.groups.iter().filter_map(|group| group.at(point));
            groups.map(|group| (self.settings(point), group))
        });
        transfers::table(self.setting_columns(), rows)
    }

    fn percentiles(&self) -> String {
        let groups = self.points.iter().flat_map(|point| {
            let groups = self.groups.iter().filter_map(|group| group.at(point));
            groups.map(|group| (self.settings(point), group))
        });
        let links = self.points.iter().flat_map(|point| {
            let links = point.measured.links.iter();
            let shown = links.filter(|link| self.links.contains(&&link.name[..]));
            shown.map(|link| (self.settings(point), link))
        });
        percentiles::tables(&self.setting_columns(), groups, links)
    }

    /// The shown groups at all points.
    fn shown(&self) -> impl Iterator<Item = &'a GroupReport> {
        let points = self.points.iter();
        points.flat_map(|point| self.groups.iter().filter_map(|group| group.at(point)))
    }

    fn setting_columns(&self) -> Vec<Column> {
        self.keys.iter().copied().map(Column::left).collect()
    }

    /// A point's value for each key; blank where it sets none.
    fn settings(&self, point: &PointReport) -> Vec<String> {
        let value = |key: &&str| point.set.get(*key).cloned().unwrap_or_default();
        self.keys.iter().map(value).collect()
    }
}

/// A group at all points: the one at the same place in the file, so with the same name.
struct GroupColumn<'a> {
    index: usize,
    name: &'a str,
    /// Its completion times, if it has finite transfers.
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
        let times = means(groups().map(|group| group.completion_s));
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

/// The cell with a group's completion time.
fn after(transfers: Transfers, group: Option<&GroupReport>) -> String {
    let completed = group.and_then(|group| Some((group, group.completed?)));
    completed.map_or_else(String::new, |(group, completed)| {
        transfers.write(group.completion_s, completed.mean, flows_of(group))
    })
}
