//! The rate over time, and results by the key that changes fastest, as pictures.

use indexmap::IndexMap;
use manyway_report::{Kind, Plot, PlotError, Series};
use manyway_scenario::OverlayPoint;
use manyway_simulate::batch::{OverlayDone, OverlayPointReport, OverlayReport};

use super::numeric_axis;
use crate::run::number_of;

/// Pixels.
const SIZE: (u32, u32) = (1000, 400);
/// More pictures of one kind than this are not drawn.
const MOST: usize = 50;

/// Names and contents.
pub(super) fn draw(
    points: &[OverlayPoint],
    report: &OverlayReport,
    done: &[OverlayDone],
) -> Result<Vec<(String, String)>, PlotError> {
    let mut pictures = numbered("rates", "Rate", "interval", over_time(points, done), report)?;
    if let Some(key) = numeric_axis(report) {
        let searched = report.points.iter().any(|point| point.search.is_some());
        let (name, title) = if searched {
            ("iterations", "Iterations")
        } else {
            ("sweep", "Rate")
        };
        pictures.extend(numbered(name, title, key, by(key, report), report)?);
    }
    Ok(pictures)
}

/// Lines, as many in a picture as can be told apart.
fn numbered(
    name: &str,
    title: &str,
    x_label: &str,
    lines: Vec<Series>,
    report: &OverlayReport,
) -> Result<Vec<(String, String)>, PlotError> {
    let parts: Vec<&[Series]> = lines.chunks(Plot::DISTINCT).take(MOST).collect();
    let picture = |(n, part): (usize, &&[Series])| {
        let mut plot = Plot::new(format!("{title}: {}", report.scenario), Kind::Lines);
        plot.size = SIZE;
        plot.x_label = x_label.to_owned();
        plot.y_label = match title {
            "Rate" => "share of the demand".to_owned(),
            other => other.to_lowercase(),
        };
        plot.series = part.to_vec();
        let file = match parts.len() {
            1 => format!("{name}.svg"),
            all => format!("{name}-{}.svg", number_of(n, all)),
        };
        Ok((file, plot.svg()?))
    };
    parts.iter().enumerate().map(picture).collect()
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
