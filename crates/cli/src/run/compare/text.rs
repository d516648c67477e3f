//! The comparison for people: a table for each point and part of the time. This module chooses what
//! is shown and how it is rounded.

use manyway_report::{Column, Table};
use manyway_results::naming::heading;

use super::report::{Comparison, PartResult, Value};
use crate::run::number::Style;

/// The text shows no more points, parts and rows than these.
const POINTS: usize = 12;
const PARTS: usize = 12;
const ROWS: usize = 30;

pub(super) fn summary(comparison: &Comparison) -> String {
    let levels = &comparison.levels;
    let mut text = format!(
        "{}: {}, goodput of each group's mean flow",
        comparison.scenario,
        levels.join(", ")
    );
    if comparison
        .points
        .iter()
        .any(|point| point.parts.iter().any(has_intervals))
    {
        text += &format!(
            ", {} runs; ± is the 95 % confidence interval of the mean",
            comparison.repeat
        );
    }
    text += "\n\n";
    for point in comparison.points.iter().take(POINTS) {
        let set = heading(&point.set);
        for part in point.parts.iter().take(PARTS) {
            let words = [set.clone(), part.heading()];
            let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
            text += &format!("{}:\n{}\n", words.join(", "), table(part, levels));
        }
        if point.parts.len() > PARTS {
            let more = point.parts.len() - PARTS;
            text += &format!("{more} more spans are in --json.\n");
        }
    }
    if comparison.points.len() > POINTS {
        let more = comparison.points.len() - POINTS;
        text += &format!("{more} more points are in --json.\n");
    }
    for remark in &comparison.remarks {
        text += &format!("{remark}\n");
    }
    text.truncate(text.trim_end().len());
    text
}

fn has_intervals(part: &PartResult) -> bool {
    let mut values = part.groups.iter().flat_map(|group| group.levels.values());
    values.any(|value| value.goodput_bps.ci95.is_some())
}

impl PartResult {
    pub(super) fn heading(&self) -> String {
        let times = format!("{} s to {} s", self.from_s, self.until_s);
        match &self.name {
            Some(name) => format!("{name}, {times}"),
            None => times,
        }
    }
}

fn table(part: &PartResult, levels: &[&'static str]) -> String {
    let rows = part.rows();
    let all = rows.iter().flat_map(|row| row.levels.values());
    let style = Style::rate(all.map(|value| value.goodput_bps.mean));
    let percent = Style::percent(1);
    let mut columns: Vec<Column> = ["flow", "law", "path"].map(Column::left).into();
    for (n, level) in levels.iter().enumerate() {
        columns.push(Column::right(format!("{level} ({}bps)", style.prefix)));
        if n > 0 {
            columns.push(Column::right("(%)"));
        }
    }
    let mut table = Table::new(columns);
    for row in rows.iter().take(ROWS) {
        let name = match (row.is_subflow, row.count) {
            (true, _) => String::new(),
            (false, 1) => row.group.to_owned(),
            (false, n) => format!("{n} × {}", row.group),
        };
        let law = if row.is_subflow { "" } else { row.law };
        let path = row.path.unwrap_or_default();
        let mut cells = vec![name, law.to_owned(), path.to_owned()];
        for (n, level) in levels.iter().enumerate() {
            let value = row.levels.get(level);
            cells.push(style.write(value.map(|value| value.goodput_bps)));
            if n > 0 {
                cells.push(difference(&percent, value));
            }
        }
        table.row(cells);
    }
    let note = match rows.len() > ROWS {
        true => "More groups are in --json.\n",
        false => "",
    };
    format!("{table}{note}")
}

/// `-1.3 ± 0.4`, `-1.3` without an interval, nothing for the first level.
fn difference(percent: &Style, value: Option<&Value>) -> String {
    let Some(difference) = value.and_then(|value| value.difference) else {
        return String::new();
    };
    let sign = if difference.relative > 0.0 { "+" } else { "" };
    let text = format!("{sign}{}", percent.number(difference.relative));
    match difference.ci95 {
        Some(ci95) => format!("{text} ± {}", percent.number(ci95)),
        None => text,
    }
}
