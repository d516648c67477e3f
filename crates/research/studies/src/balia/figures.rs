//! The paper's figures, from one run each.

use std::sync::atomic::AtomicBool;

use manyway_report::{Kind, Mark, Plot, Series};
use manyway_simulate::packet::{RunResult, Simulation};

use super::tables::window_series;
use crate::extent::Extent;
use crate::failure::Failure;
use crate::runs::Source;
use crate::study::Figure;

/// As many as a line has distinct pixels.
const COLUMNS: usize = 600;
/// Seconds shown of Fig. 3.
const OSCILLATION: (f64, f64) = (60.0, 90.0);
/// Seconds shown of Fig. 4.
const TRAJECTORIES: (f64, f64) = (20.0, 200.0);

/// Both figures, of each scenario's first run.
pub(crate) fn all(extent: Extent) -> Result<Vec<Figure>, Failure> {
    Ok(vec![
        Figure::new("balia-fig3", oscillation(extent)?),
        Figure::new("balia-fig4", trajectories(extent)?),
    ])
}

/// Fig. 3: windows of two Balia subflows through one link, their sum, and the window of a Reno flow
/// in their place.
fn oscillation(extent: Extent) -> Result<Plot, Failure> {
    let runs = run("balia/fig3", &["reno", "balia"], extent)?;
    let (reno, balia) = (
        windows(&runs[0].1, 0),
        [0, 1].map(|n| windows(&runs[1].1, n)),
    );
    let sum: Vec<f64> = balia[0].iter().zip(&balia[1]).map(|(a, b)| a + b).collect();
    let [first, second] = balia;
    let mut plot = Plot::new(
        "Windows on one link of 20 Mbps: two subflows of Balia, or Reno",
        Kind::Lines,
    );
    plot.x_label = "time, s".to_owned();
    plot.y_label = "window, packets".to_owned();
    plot.size = (1000, 480);
    plot.series = vec![
        line("Balia, both", &sum, 0.01, OSCILLATION),
        line("Reno", &reno, 0.01, OSCILLATION),
        line("Balia, first subflow", &first, 0.01, OSCILLATION),
        line("Balia, second subflow", &second, 0.01, OSCILLATION),
    ];
    Ok(plot)
}

/// Fig. 4: the window on the second path, which five single-path flows share from 40 s to 80 s, for
/// each law.
fn trajectories(extent: Extent) -> Result<Plot, Failure> {
    let laws = ["ewtcp", "semicoupled", "lia", "balia", "coupled", "olia"];
    let names = [
        "EWTCP",
        "Semicoupled",
        "Max (LIA)",
        "Balia",
        "Coupled",
        "OLIA",
    ];
    let mut plot = Plot::new("Window on the second path", Kind::Lines);
    plot.x_label = "time, s".to_owned();
    plot.y_label = "window, packets".to_owned();
    plot.size = (1000, 480);
    plot.marks = [(40.0, "five flows come"), (80.0, "they leave")]
        .map(|(x, label)| Mark {
            x,
            label: label.to_owned(),
        })
        .into();
    let runs = run("balia/fig4", &laws, extent)?;
    plot.series = runs
        .iter()
        .zip(names)
        .map(|((_, run), name)| line(name, &windows(run, 1), 0.1, TRAJECTORIES))
        .collect();
    Ok(plot)
}

/// The first repetition of a scenario's points with these laws, in this order.
fn run<'a>(
    name: &str,
    laws: &[&'a str],
    extent: Extent,
) -> Result<Vec<(&'a str, RunResult)>, Failure> {
    let scenario = Source::new(name, &[]).load()?;
    let points = scenario.points()?;
    let seed = scenario.seed().wrapping_add(extent.seed);
    let runs = laws.iter().map(|&law| {
        let point = points
            .iter()
            .find(|point| point.experiment.flows[0].law.name() == law)
            .ok_or_else(|| format!("{name} has no point with {law}"))?;
        let mut simulation = Simulation::new(&point.experiment, seed)?;
        Ok((law, simulation.run(&AtomicBool::new(false))))
    });
    runs.collect()
}

fn windows(run: &RunResult, n: usize) -> Vec<f64> {
    window_series(run, n).map_or_else(Vec::new, |series| series.values.clone())
}

/// The part of a series between two times.
fn line(name: &str, values: &[f64], interval: f64, (from, until): (f64, f64)) -> Series {
    let points = values
        .iter()
        .enumerate()
        .map(|(n, value)| ((n + 1) as f64 * interval, *value));
    Series {
        name: name.to_owned(),
        points: points
            .filter(|(at, value)| (from..=until).contains(at) && value.is_finite())
            .collect(),
    }
    .thinned(COLUMNS)
}
