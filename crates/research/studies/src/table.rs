//! Tables of means, and tables of anything, in Markdown.

use std::ops::Range;

use manyway_report::Column;
use manyway_simulate::measure::Summary;
use manyway_simulate::packet::RunResult;
use serde::Serialize;

use crate::failure::Failure;
use crate::headline::Headline;
use crate::runs::{Runs, Source};
use crate::statistics::summary;

/// Means of what was measured at each point of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// The scenario, by its name below `scenarios`.
    pub scenario: String,
    /// What was changed in it, as `key=value`.
    pub set: Vec<String>,
    /// What was measured.
    pub columns: Vec<String>,
    /// A row for each point.
    pub rows: Vec<Row>,
}

/// What was measured at one point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The point: the values of the swept keys.
    pub point: Vec<String>,
    /// One for each column.
    pub values: Vec<Summary>,
}

impl Row {
    /// Whether all these values are among those of the point.
    pub(crate) fn has(&self, point: &[&str]) -> bool {
        point
            .iter()
            .all(|value| self.point.iter().any(|own| own == value))
    }
}

impl Table {
    /// Runs every point of a scenario and takes from each run the numbers that belong under
    /// `columns`.
    pub(crate) fn run(
        source: Source<'_>,
        runs: Runs,
        columns: &[&str],
        measure: impl Fn(&RunResult) -> Vec<f64> + Sync,
    ) -> Result<Self, Failure> {
        let measured = source.measure(runs, |_, run| measure(run))?;
        let rows = measured.iter().map(|(point, runs)| Row {
            point: point.set.iter().map(|(_, value)| value.clone()).collect(),
            values: (0..columns.len())
                .map(|n| summary(runs.iter().map(|run| run[n])))
                .collect(),
        });
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Ok(Table {
            scenario: source.scenario.to_owned(),
            set: owned(source.set),
            columns: owned(columns),
            rows: rows.collect(),
        })
    }

    /// The same with these columns alone.
    pub(crate) fn part(&self, columns: Range<usize>) -> Self {
        let rows = self.rows.iter().map(|row| Row {
            point: row.point.clone(),
            values: row.values[columns.clone()].to_vec(),
        });
        Table {
            rows: rows.collect(),
            columns: self.columns[columns.clone()].to_vec(),
            ..self.clone()
        }
    }

    /// The row of the point with these values among its own.
    pub(crate) fn row(&self, point: &[&str]) -> &Row {
        let found = self.rows.iter().find(|row| row.has(point));
        found.unwrap_or_else(|| panic!("{} has no point {point:?}", self.scenario))
    }

    /// The means of a row.
    pub(crate) fn means(&self, point: &[&str]) -> Vec<f64> {
        let values = self.row(point).values.iter();
        values.map(|value| value.mean).collect()
    }

    /// Means of these columns as headline values: of all rows that have `point` among their values.
    pub(crate) fn headline(
        &self,
        what: &str,
        point: &[&str],
        columns: impl IntoIterator<Item = usize> + Clone,
    ) -> Vec<Headline> {
        let rows = self.rows.iter().filter(|row| row.has(point));
        let values = rows.flat_map(|row| {
            columns.clone().into_iter().map(|n| {
                let at = std::iter::once(what).chain(row.point.iter().map(String::as_str));
                let name = at.collect::<Vec<_>>().join(", ");
                let name = format!("{name}: {}", self.columns[n]);
                Headline::exact(name, row.values[n].mean)
            })
        });
        values.collect()
    }

    /// As Markdown; `others` are rows to compare with, put before ours.
    pub(crate) fn markdown(&self, others: &[(&str, &[&str])]) -> String {
        let others = others.iter().map(|(name, cells)| {
            let cells = cells.iter().map(|&cell| cell.to_owned());
            std::iter::once(format!("*{name}*")).chain(cells).collect()
        });
        let ours = self.rows.iter().map(|row| {
            let cells = row.values.iter().map(with_interval);
            std::iter::once(row.point.join(", ")).chain(cells).collect()
        });
        let columns = self.columns.iter().map(String::as_str);
        let columns: Vec<&str> = std::iter::once("").chain(columns).collect();
        markdown(&columns, &others.chain(ours).collect::<Vec<_>>())
    }
}

/// A table of cells as Markdown; all columns but the first are numbers.
pub(crate) fn markdown(columns: &[&str], rows: &[Vec<String>]) -> String {
    let (first, rest) = columns.split_first().expect("a table has columns");
    let space = if first.is_empty() { "" } else { " " };
    let mut page = format!("| {first}{space}| {} |\n|---|", rest.join(" | "));
    page += &"--:|".repeat(rest.len());
    page.push('\n');
    for row in rows {
        page += &format!("| {} |\n", row.join(" | "));
    }
    page
}

/// A table of texts, of which all columns but the first are numbers.
pub(crate) fn texts(columns: &[&str]) -> manyway_report::Table {
    let rest = columns[1..].iter().map(|&name| Column::right(name));
    manyway_report::Table::new(std::iter::once(Column::left(columns[0])).chain(rest))
}

/// A mean with its 95 % interval, in as many digits as it deserves.
pub(crate) fn with_interval(value: &Summary) -> String {
    let digits = match value.mean.abs() {
        0.0 => return "0".to_owned(),
        mean if mean < 0.1 => 4,
        mean if mean < 10.0 => 2,
        _ => 1,
    };
    let (mean, ci95) = (value.mean, value.ci95.unwrap_or(0.0));
    format!("{mean:.digits$} ± {ci95:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |law: &str, queue: &str, runs: [f64; 2]| Row {
            point: vec![law.to_owned(), queue.to_owned()],
            values: vec![summary(runs.into_iter()), summary([0.0].into_iter())],
        };
        Table {
            scenario: "test".to_owned(),
            set: Vec::new(),
            columns: vec!["Mbps".to_owned(), "losses".to_owned()],
            rows: vec![
                row("lia", "10 packets", [1.0, 3.0]),
                row("lia", "20 packets", [20.0, 20.0]),
                row("reno", "10 packets", [0.01, 0.01]),
            ],
        }
    }

    #[test]
    fn means_are_shown_with_their_intervals() {
        let expected = "| | Mbps | losses |\n|---|--:|--:|\n\
                        | *paper* | 2.1 |  |\n\
                        | lia, 10 packets | 2.00 ± 12.71 | 0 |\n\
                        | lia, 20 packets | 20.0 ± 0.0 | 0 |\n\
                        | reno, 10 packets | 0.0100 ± 0.0000 | 0 |\n";
        assert_eq!(table().markdown(&[("paper", &["2.1", ""])]), expected);
    }

    #[test]
    fn headline_values_are_those_of_the_rows_asked_for() {
        let found = table().headline("Fig. 1", &["lia"], 0..1);
        let expected = [
            Headline::exact("Fig. 1, lia, 10 packets: Mbps", 2.0),
            Headline::exact("Fig. 1, lia, 20 packets: Mbps", 20.0),
        ];
        assert_eq!(found, expected);
    }
}
