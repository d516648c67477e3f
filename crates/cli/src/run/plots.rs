//! Pictures of what a run recorded over time, a plot for each quantity. Every level that records
//! series draws them here; this module never writes a file.

use manyway_report::{Kind, Plot, PlotError, Series};
use manyway_scenario::Experiment;
use manyway_simulate::packet;

use super::number::Style;

/// Pixels.
const SIZE: (u32, u32) = (1000, 400);

/// A picture and its file's name, without extension and number of the point.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) name: &'static str,
    pub(super) svg: String,
}

/// How one kind of series is drawn.
struct Quantity {
    kind: &'static str,
    file: &'static str,
    title: &'static str,
    /// Of links; otherwise of subflows.
    of_links: bool,
    unit: &'static str,
    style: fn(&[f64]) -> Style,
}

const QUANTITIES: [Quantity; 8] = [
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
    // The fluid level's prices, which are one of the two.
    Quantity {
        kind: "loss",
        file: "prices",
        title: "Loss",
        of_links: true,
        unit: "%",
        style: |_| Style::percent(4),
    },
    Quantity {
        kind: "delay",
        file: "prices",
        title: "Queueing delay",
        of_links: true,
        unit: "s",
        style: |_| Style::millis([]),
    },
];

/// A picture of each kind of series that was recorded; `of` names the run in the title.
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

/// Which subflows are shown when there are too many: the first member of each group, then the
/// second, …
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

#[cfg(test)]
mod tests {
    use manyway_scenario::Scenario;

    use super::*;

    /// Twelve flows over two paths and two over one.
    fn experiment() -> Experiment {
        let text = r#"
            name = "many"
            duration = "4 s"
            [links.a]
            rate = "10 Mbps"
            delay = "10 ms"
            [links.b]
            rate = "10 Mbps"
            delay = "10 ms"
            [paths.a]
            links = ["a"]
            [paths.b]
            links = ["b"]
            [flows.multi]
            law = "lia"
            paths = ["a", "b"]
            count = 12
            [flows.single]
            law = "reno"
            paths = ["b"]
            count = 2
        "#;
        let scenario = Scenario::parse(text, "many.toml").unwrap();
        scenario.points().unwrap().remove(0).experiment
    }

    fn series(kind: &str, of: &[&str], values: &[f64]) -> packet::Series {
        packet::Series {
            kind: kind.to_owned(),
            of: of.iter().map(|&name| name.to_owned()).collect(),
            interval_s: 0.5,
            values: values.to_vec(),
        }
    }

    #[test]
    fn every_kind_has_a_picture_in_its_unit() {
        let recorded = [
            series("rate", &["multi.1", "a"], &[f64::NAN, 4e6, 5e6]),
            series("rtt", &["multi.1", "a"], &[f64::NAN, 0.02, 0.03]),
            series("queue", &["a"], &[0.0, 10.0, 20.0]),
        ];
        let pictures = draw(&experiment(), &recorded, "many, seed 1").unwrap();
        let names: Vec<&str> = pictures.iter().map(|picture| picture.name).collect();
        assert_eq!(names, ["rates", "rtts", "queues"]);
        for (picture, words) in pictures.iter().zip([
            ["Goodput: many, seed 1", "Mbps", "multi.1 over a"],
            ["Round-trip time: many, seed 1", "ms", "multi.1 over a"],
            ["Queue: many, seed 1", "packets", "time (s)"],
        ]) {
            for word in words {
                assert!(picture.svg.contains(word), "{word}: {}", picture.svg);
            }
        }
    }

    #[test]
    fn values_stand_at_the_end_of_their_interval_and_gaps_are_left_out() {
        let line = line(&series("rtt", &["f", "p"], &[f64::NAN, 0.02, 0.03]), 1e-3);
        assert_eq!(line.points, [(1.0, 20.0), (1.5, 30.0)]);
    }

    #[test]
    fn each_group_is_shown_before_any_has_many() {
        let experiment = experiment();
        // Subflows 0 to 23 are the multipath flows', 24 and 25 the others'.
        assert_eq!(choice(&experiment, 26), [0, 1, 2, 3, 4, 5, 24, 25]);
        let windows: Vec<packet::Series> = (0..26)
            .map(|n| series("window", &[&format!("flow {n}"), "p"], &[1.0, 2.0]))
            .collect();
        let pictures = draw(&experiment, &windows, "many").unwrap();
        let svg = &pictures[0].svg;
        assert!(svg.contains("Congestion window, 8 of 26 subflows: many"));
        assert!(svg.contains("flow 24 over p") && !svg.contains("flow 7 over p"));
    }
}
