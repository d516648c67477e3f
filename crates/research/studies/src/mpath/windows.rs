//! Windows over time: Fig. 8 in the network of Fig. 7, and Fig. 11 in that of Fig. 10.

use manyway_report::{Kind, Plot, Series};
use manyway_simulate::packet::RunResult;

use super::window;
use crate::extent::Extent;
use crate::failure::Failure;
use crate::gate::{Gate, gate};
use crate::runs::Source;
use crate::statistics::mean;
use crate::study::Figure;
use crate::table::Table;

/// Mean windows in Fig. 8; a path that isn't open has none, 0.
pub(super) const FIG8: [&str; 5] = [
    "direct, minutes 1 to 3",
    "direct, from minute 20",
    "path 1",
    "path 2",
    "path 3",
];
/// Mean windows in Fig. 11, over the second half.
pub(super) const FIG11: [&str; 2] = ["direct, packets", "proxied"];
/// Queues of the plots, in the middle of those that are tried.
const DRAWN: &str = "[\"20 packets\"]";

/// A row of [`FIG8`].
pub(super) fn fig8(run: &RunResult) -> Vec<f64> {
    let late = |path| open(window(run, "source", path), 20);
    let early = window(run, "source", "direct");
    let mut row = vec![mean(&early[60..180])];
    row.extend(["direct", "one", "two", "three"].map(late));
    row
}

/// A row of [`FIG11`].
pub(super) fn fig11(run: &RunResult) -> Vec<f64> {
    ["direct", "proxy"]
        .map(|path| open(window(run, "source", path), 5))
        .into()
}

/// The mean of a window over the time from this minute on in which it is 0 while it isn't open.
fn open(window: &[f64], minute: usize) -> f64 {
    let late = window.iter().skip(60 * minute);
    let late: Vec<f64> = late.map(|value| value.max(0.0)).collect();
    match late.is_empty() {
        true => 0.0,
        false => mean(&late),
    }
}

/// Gates on tables of which these are the columns.
pub(super) fn gates(fig8: &Table, fig11: &Table, queues: &[&str]) -> Vec<Gate> {
    let each = |table: &Table, of: &dyn Fn(&Table, &str) -> f64| -> Vec<(String, f64)> {
        let queues = queues.iter();
        let queues = queues.map(|queue| (super::queues(queue), of(table, queue)));
        queues.collect()
    };
    let mpath = |table: &Table, queue: &str| table.means(&[queue, "mpath"]);
    let shown = |cases: &[(String, f64)]| super::listed(cases.iter().map(|case| case.1), 2);
    let grown = each(fig8, &|table, queue| {
        let row = mpath(table, queue);
        row[0] / row[1]
    });
    let order = each(fig8, &|table, queue| {
        let row = mpath(table, queue);
        row[3] / row[4]
    });
    let direct = each(fig11, &|table, queue| {
        mpath(table, queue)[0] / table.means(&[queue, "tcp"])[0]
    });
    let proxied = each(fig11, &|table, queue| {
        let row = mpath(table, queue);
        row[1] / row[0]
    });
    [
        (gate("mpath/figure-8-direct"), grown),
        (gate("mpath/figure-8-order"), order),
        (gate("mpath/figure-11-direct"), direct),
        (gate("mpath/figure-11-proxied"), proxied),
    ]
    .map(|(gate, cases)| {
        let found = shown(&cases);
        gate.cases(cases, found)
    })
    .into()
}

/// The plots, of each scenario's first run with queues of 20 packets.
pub(super) fn figures(extent: Extent) -> Result<Vec<Figure>, Failure> {
    let fig8 = [
        ("direct", "direct path"),
        ("one", "path 1"),
        ("two", "path 2"),
        ("three", "path 3"),
    ];
    let fig11 = [("direct", "direct path"), ("proxy", "proxied path")];
    Ok(vec![
        Figure::new(
            "mpath-fig8",
            plot(
                "Fig. 8: windows in Fig. 7's network",
                "mpath/fig7",
                "*",
                &fig8,
                extent,
            )?,
        ),
        Figure::new(
            "mpath-fig11",
            plot(
                "Fig. 11: windows in Fig. 10's network",
                "mpath/fig10",
                "access",
                &fig11,
                extent,
            )?,
        ),
    ])
}

/// Windows of mPath's paths, and TCP's, in a run of `scenario`, whose sweep has queues of `links`.
fn plot(
    title: &str,
    scenario: &str,
    links: &str,
    paths: &[(&str, &str)],
    extent: Extent,
) -> Result<Plot, Failure> {
    let set = format!("sweep.\"links.{links}.queue\"={DRAWN}");
    let set = [set.as_str()];
    let lines = |_: &_, run: &RunResult| -> Vec<Vec<f64>> {
        let paths = paths.iter();
        paths
            .map(|(path, _)| window(run, "source", path).to_vec())
            .collect()
    };
    let runs = Source::new(scenario, &set).measure(extent.runs(1, 1), lines)?;
    let mut plot = Plot::new(title, Kind::Lines);
    plot.x_label = "time, minutes".to_owned();
    plot.y_label = "window, packets".to_owned();
    plot.size = (1000, 480);
    for (point, of_runs) in &runs {
        let tcp = point.set.iter().any(|(_, value)| value == "tcp");
        for ((path, name), values) in paths.iter().zip(&of_runs[0]) {
            let name = match (tcp, *path) {
                (false, _) => name,
                (true, "direct") => "TCP",
                (true, _) => continue,
            };
            plot.series.push(line(name, values));
        }
    }
    Ok(plot)
}

/// A value for each second, where there is one; as means of ten.
fn line(name: &str, values: &[f64]) -> Series {
    let spans = values.chunks(10).enumerate();
    let points = spans.map(|(n, span)| ((n + 1) as f64 / 6.0, mean(span)));
    Series {
        name: name.to_owned(),
        points: points.filter(|(_, value)| value.is_finite()).collect(),
    }
}
