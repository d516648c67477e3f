//! The comparison as a picture: a bar for each level of each flow and path.

use manyway_report::{Bar, Bars, Group, PlotError};
use manyway_results::naming::heading;

use super::report::{Comparison, PartResult, PointResult, Row};
use crate::run::number::Style;

/// Bars beside each other that still have room.
const MOST_ROWS: usize = 16;

pub(super) fn of(comparison: &Comparison, point: &PointResult) -> Result<String, PlotError> {
    let parts = point.parts.iter();
    let rows = parts.flat_map(|part| part.rows().into_iter().map(move |row| (part, row)));
    let rows: Vec<(&PartResult, Row<'_>)> = rows.collect();
    let all = rows.iter().flat_map(|(_, row)| row.levels.values());
    let style = Style::rate(all.map(|value| value.goodput_bps.mean));
    let group = |(part, row): &(&PartResult, Row<'_>)| {
        let path = row.path.filter(|_| row.is_subflow);
        let names = [part.name.as_deref(), Some(row.group), path];
        let bar = |level: &&'static str| {
            row.levels.get(level).map(|value| Bar {
                value: value.goodput_bps.mean / style.unit,
                interval: value.goodput_bps.ci95.map(|ci95| ci95 / style.unit),
            })
        };
        Group {
            name: names.into_iter().flatten().collect::<Vec<_>>().join(" "),
            bars: comparison.levels.iter().map(bar).collect(),
        }
    };
    let shown = rows.len().min(MOST_ROWS);
    let some = match rows.len() > shown {
        true => format!(", {shown} of {}", rows.len()),
        false => String::new(),
    };
    let set = match heading(&point.set).as_str() {
        "" => String::new(),
        set => format!(", {set}"),
    };
    Bars {
        title: format!("Goodput by level{some}: {}{set}", comparison.scenario),
        y_label: format!("{}bps", style.prefix),
        series: comparison
            .levels
            .iter()
            .map(|&level| level.to_owned())
            .collect(),
        groups: rows.iter().take(shown).map(group).collect(),
    }
    .svg()
}
