//! Pictures of the rate over time, and of the results by the key that changes fastest. This module
//! chooses and labels the lines; [`Folder`] writes the files.

use indexmap::IndexMap;
use manyway_report::{Kind, Plot, Series};
use manyway_scenario::OverlayPoint;
use manyway_simulate::batch::{OverlayDone, OverlayPointReport, OverlayReport};

use crate::run::folder::Folder;

/// Pixels.
const SIZE: (u32, u32) = (1000, 400);
/// More pictures of one kind than this are not drawn.
const MOST: usize = 50;

/// Adds all pictures.
pub(super) fn draw(
    folder: &mut Folder,
    points: &[OverlayPoint],
    report: &OverlayReport,
    done: &[OverlayDone],
) -> anyhow::Result<()> {
    let lines = over_time(points, done);
    add(folder, "rates", "Rate", "interval", lines, report)?;
    if let Some(key) = numeric_axis(report) {
        let searched = report.points.iter().any(|point| point.search.is_some());
        let (name, title) = if searched {
            ("iterations", "Iterations")
        } else {
            ("sweep", "Rate")
        };
        add(folder, name, title, key, by(key, report), report)?;
    }
    Ok(())
}

/// Adds lines, as many in a picture as can be told apart.
fn add(
    folder: &mut Folder,
    name: &str,
    title: &str,
    x_label: &str,
    lines: Vec<Series>,
    report: &OverlayReport,
) -> anyhow::Result<()> {
    let parts: Vec<&[Series]> = lines.chunks(Plot::DISTINCT).take(MOST).collect();
    for (n, part) in parts.iter().enumerate() {
        let mut plot = Plot::new(format!("{title}: {}", report.scenario), Kind::Lines);
        plot.size = SIZE;
        plot.x_label = x_label.to_owned();
        plot.y_label = match title {
            "Rate" => "share of the demand".to_owned(),
            other => other.to_lowercase(),
        };
        plot.series = part.to_vec();
        folder.plot(name, n, parts.len(), &plot.svg()?)?;
    }
    Ok(())
}

/// The swept key that changes fastest, if its values are numbers everywhere and differ.
fn numeric_axis(report: &OverlayReport) -> Option<&str> {
    let key = report.points.first()?.set.keys().last()?;
    let number = |value: &String| value.parse::<f64>().is_ok();
    let all = report
        .points
        .iter()
        .all(|point| point.set.get(key).is_some_and(number));
    let first = &report.points.first()?.set[key];
    let several = report.points.iter().any(|point| &point.set[key] != first);
    (all && several).then_some(key.as_str())
}

/// The first repetition of each point.
fn over_time(points: &[OverlayPoint], done: &[OverlayDone]) -> Vec<Series> {
    let first = done.iter();
    let first = first.filter(|done| done.job.repetition == 0 && !done.run.series.is_empty());
    let line = |done: &OverlayDone| {
        let values = done.run.series.iter();
        let line = Series {
            name: label(
                points[done.job.point]
                    .set
                    .iter()
                    .map(|(key, value)| (key.as_str(), value.as_str())),
            ),
            points: (1_u32..).map(f64::from).zip(values.copied()).collect(),
        };
        line.thinned(SIZE.0 as usize)
    };
    first.map(line).collect()
}

/// Means by the values of `key`, a line for each combination of the others.
fn by(key: &str, report: &OverlayReport) -> Vec<Series> {
    let mut lines: IndexMap<String, Vec<(f64, f64)>> = IndexMap::new();
    for point in &report.points {
        let others = point.set.iter().filter(|(other, _)| *other != key);
        let name = label(others.map(|(key, value)| (key.as_str(), value.as_str())));
        let x = point.set.get(key).and_then(|value| value.parse().ok());
        lines
            .entry(name)
            .or_default()
            .extend(x.map(|x| (x, y(point))));
    }
    let line = |(name, points)| Series { name, points };
    lines.into_iter().map(line).collect()
}

fn y(point: &OverlayPointReport) -> f64 {
    match &point.search {
        Some(search) => search.iterations.mean,
        None => point.rate.mean,
    }
}

/// `max-min, k, skew 0.5`: words stand alone, numbers with their keys.
fn label<'a>(set: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let part = |(key, value): (&str, &str)| match value.parse::<f64>() {
        Ok(_) => format!("{} {value}", key.rsplit('.').next().unwrap_or(key)),
        Err(_) => value.to_owned(),
    };
    set.map(part).collect::<Vec<_>>().join(", ")
}
