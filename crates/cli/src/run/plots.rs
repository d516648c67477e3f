//! What was recorded over time, as pictures.

use manyway_report::{Kind, Plot, PlotError, Series};
use manyway_scenario::Experiment;
use manyway_simulate::packet;

use super::number::Style;

/// Pixels.
const SIZE: (u32, u32) = (1000, 400);

/// A picture and the name that its file has, without what tells points apart.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) name: &'static str,
    pub(super) svg: String,
}

/// What there is to draw of one kind of series.
struct Quantity {
    kind: &'static str,
    file: &'static str,
    title: &'static str,
    /// Of links; otherwise of subflows.
    of_links: bool,
    unit: &'static str,
    style: fn(&[f64]) -> Style,
}

const QUANTITIES: [Quantity; 6] = [
    Quantity {
        kind: "rate",
        file: "rates",
        title: "Goodput",
        of_links: false,
        unit: "bps",
        style: |values| Style::rate(values.iter().copied()),
    },
    Quantity {
        kind: "window",
        file: "windows",
        title: "Congestion window",
        of_links: false,
        unit: "packets",
        style: |_| Style::plain([], 0),
    },
    Quantity {
        kind: "rtt",
        file: "rtts",
        title: "Round-trip time",
        of_links: false,
        unit: "s",
        style: |_| Style::millis([]),
    },
    Quantity {
        kind: "queue",
        file: "queues",
        title: "Queue",
        of_links: true,
        unit: "packets",
        style: |_| Style::plain([], 0),
    },
    Quantity {
        kind: "load",
        file: "loads",
        title: "Load",
        of_links: true,
        unit: "bps",
        style: |values| Style::rate(values.iter().copied()),
    },
    Quantity {
        kind: "drops",
        file: "drops",
        title: "Drops per interval",
        of_links: true,
        unit: "packets",
        style: |_| Style::plain([], 0),
    },
];

/// A picture of each kind of series that was recorded; `of` tells in the title what run it is of.
pub(super) fn draw(
    experiment: &Experiment,
    series: &[packet::Series],
    of: &str,
) -> Result<Vec<Picture>, PlotError> {
    let mut pictures = Vec::new();
    for quantity in &QUANTITIES {
        let all: Vec<&packet::Series> = series
            .iter()
            .filter(|series| series.kind == quantity.kind)
            .collect();
        if !all.is_empty() {
            let name = quantity.file;
            let svg = quantity.plot(experiment, &all, of).svg()?;
            pictures.push(Picture { name, svg });
        }
    }
    Ok(pictures)
}

impl Quantity {
    fn plot(&self, experiment: &Experiment, all: &[&packet::Series], of: &str) -> Plot {
        let chosen = match self.of_links {
            true => (0..all.len().min(Plot::DISTINCT)).collect(),
            false => choice(experiment, all.len()),
        };
        let things = if self.of_links { "links" } else { "subflows" };
        let some = match chosen.len() == all.len() {
            true => String::new(),
            false => format!(", {} of {} {things}", chosen.len(), all.len()),
        };
        let chosen: Vec<&packet::Series> = chosen
            .into_iter()
            .filter_map(|n| all.get(n).copied())
            .collect();
        let values: Vec<f64> = chosen
            .iter()
            .flat_map(|series| series.values.iter().copied())
            .collect();
        let style = (self.style)(&values);
        let mut plot = Plot::new(format!("{}{some}: {of}", self.title), Kind::Lines);
        plot.size = SIZE;
        plot.x_label = "time (s)".to_owned();
        plot.y_label = format!("{}{}", style.prefix, self.unit);
        plot.series = chosen
            .iter()
            .map(|series| line(series, style.unit))
            .collect();
        plot
    }
}

fn line(series: &packet::Series, unit: f64) -> Series {
    let times = (1..).map(|n| f64::from(n) * series.interval_s);
    let points = times.zip(series.values.iter().map(|value| value / unit));
    let line = Series {
        name: series.of.join(" over "),
        points: points.filter(|(_, value)| value.is_finite()).collect(),
    };
    line.thinned(SIZE.0 as usize)
}

/// Which subflows are shown when there are too many: the first member of each group, then the second, …
fn choice(experiment: &Experiment, all: usize) -> Vec<usize> {
    let mut first_subflow = 0;
    let mut by_turn: Vec<(usize, usize)> = Vec::new();
    for (index, flow) in experiment.flows.iter().enumerate() {
        let group = experiment.groups.get(flow.group);
        let turn = group.map_or(index, |group| index.saturating_sub(group.members.start));
        let subflows = first_subflow..first_subflow + flow.paths.len();
        first_subflow = subflows.end;
        by_turn.extend(subflows.map(|subflow| (turn, subflow)));
    }
    by_turn.sort_unstable();
    let chosen = by_turn.into_iter().map(|(_, subflow)| subflow);
    let mut chosen: Vec<usize> = chosen.filter(|n| *n < all).take(Plot::DISTINCT).collect();
    chosen.sort_unstable();
    chosen
}
