//! The paper's figures, from one run each, and what must hold of Fig. 4's rates.

use std::sync::atomic::AtomicBool;

use manyway_report::{Kind, Mark, Plot, Series};
use manyway_simulate::packet::{RunResult, Simulation};

use super::tables::window_series;
use crate::extent::Extent;
use crate::failure::Failure;
use crate::gate::{Gate, gate};
use crate::runs::Source;
use crate::statistics::mean;
use crate::study::Figure;

/// As many as a line has distinct pixels.
const COLUMNS: usize = 600;
/// Seconds shown of Fig. 3.
const OSCILLATION: (f64, f64) = (60.0, 90.0);
/// Seconds shown of Fig. 4.
const TRAJECTORIES: (f64, f64) = (20.0, 200.0);

/// When Fig. 4's single-path flows come and leave, seconds.
const SHARED: (f64, f64) = (40.0, 80.0);
/// Seconds over which Fig. 4's rates are averaged to be drawn.
const SMOOTH: f64 = 1.0;
/// Seconds after that in which the multipath flow's rate is compared.
const RETURN: f64 = 20.0;
/// The laws that take "an excessively long time to recover", and the others.
const SLOW: [&str; 2] = ["coupled", "olia"];
const QUICK: [&str; 4] = ["ewtcp", "semicoupled", "lia", "balia"];
/// Fig. 4's laws, and what they are called.
const LAWS: [&str; 6] = ["ewtcp", "semicoupled", "lia", "balia", "coupled", "olia"];
const NAMES: [&str; 6] = [
    "EWTCP",
    "Semicoupled",
    "Max (LIA)",
    "Balia",
    "Coupled",
    "OLIA",
];

/// All figures, of each scenario's first run, and the gates on them.
pub(crate) fn all(extent: Extent) -> Result<(Vec<Figure>, Vec<Gate>), Failure> {
    let fig4 = run("balia/fig4", &LAWS, extent)?;
    let rates: Vec<Rates> = fig4.iter().map(|(_, run)| Rates::of(run)).collect();
    let figures = vec![
        Figure::new("balia-fig3", oscillation(extent)?),
        Figure::new("balia-fig4", trajectories(&fig4)),
        Figure::new(
            "balia-fig4-multipath",
            throughput(
                "Throughput of the multipath flow, both paths",
                &rates,
                |of| &of.multipath,
            ),
        ),
        Figure::new(
            "balia-fig4-single",
            throughput("Throughput of the five single-path flows", &rates, |of| {
                &of.single
            }),
        ),
    ];
    Ok((figures, throughput_gates(&rates)))
}

/// Rates of a run of Fig. 4 over time, Mbps.
struct Rates {
    interval: f64,
    /// On both paths.
    multipath: Vec<f64>,
    /// Of all single-path flows together.
    single: Vec<f64>,
}

impl Rates {
    fn of(run: &RunResult) -> Self {
        let multipath = run.flows[0].name.as_str();
        let of_rates = || run.series.iter().filter(|series| series.kind == "rate");
        let sum = |is_multipath: bool| {
            let mut sum: Vec<f64> = Vec::new();
            let own = of_rates().filter(|series| (series.of[0] == multipath) == is_multipath);
            for series in own {
                sum.resize(sum.len().max(series.values.len()), 0.0);
                // A flow that isn't there has no rate.
                let rates = series.values.iter().map(|rate| rate.max(0.0) / 1e6);
                sum.iter_mut()
                    .zip(rates)
                    .for_each(|(sum, rate)| *sum += rate);
            }
            sum
        };
        Rates {
            interval: of_rates()
                .next()
                .map_or(f64::NAN, |series| series.interval_s),
            multipath: sum(true),
            single: sum(false),
        }
    }

    /// The mean of one of them between two times.
    fn mean(&self, rates: &[f64], (from, until): (f64, f64)) -> f64 {
        let index = |at: f64| ((at / self.interval).round() as usize).min(rates.len());
        mean(&rates[index(from)..index(until)])
    }
}

/// Fig. 4, right column: one of the rates, for each law.
fn throughput(title: &str, rates: &[Rates], of: impl Fn(&Rates) -> &[f64]) -> Plot {
    let mut plot = over_time(title, "throughput, Mbps");
    let one = |(own, name): (&Rates, &str)| {
        let samples = (SMOOTH / own.interval).round() as usize;
        let smooth: Vec<f64> = of(own).chunks(samples).map(mean).collect();
        line(name, &smooth, SMOOTH, TRAJECTORIES)
    };
    plot.series = rates.iter().zip(NAMES).map(one).collect();
    plot
}

/// What the paper says of who has how much, and who has it back when.
fn throughput_gates(rates: &[Rates]) -> Vec<Gate> {
    let (_, left) = SHARED;
    let single = |law: &str| {
        let of = |own: &Rates| own.mean(&own.single, SHARED);
        by_law(rates, law, of)
    };
    let back = |law: &str| {
        let of = |own: &Rates| {
            let before = own.mean(&own.multipath, (TRAJECTORIES.0, SHARED.0));
            own.mean(&own.multipath, (left, left + RETURN)) / before
        };
        by_law(rates, law, of)
    };
    let listed = |of: &dyn Fn(&str) -> f64, digits: usize| {
        let values = LAWS.map(|law| format!("{law} {:.digits$}", of(law)));
        values.join(", ")
    };
    let slowest_of_the_quick = QUICK.map(back).into_iter().fold(f64::INFINITY, f64::min);
    let slow = SLOW.map(|law| (law, back(law) / slowest_of_the_quick));
    vec![
        gate("balia/figure-4-single").value(
            single("balia") / single("ewtcp"),
            format!("{} Mbps", listed(&single, 2)),
        ),
        gate("balia/figure-4-back").cases(slow, listed(&back, 3)),
    ]
}

fn by_law(rates: &[Rates], law: &str, of: impl Fn(&Rates) -> f64) -> f64 {
    let mut laws = LAWS.iter().zip(rates);
    laws.find(|(known, _)| **known == law)
        .map_or(f64::NAN, |(_, own)| of(own))
}

/// A plot of Fig. 4.
fn over_time(title: &str, y_label: &str) -> Plot {
    let mut plot = Plot::new(title, Kind::Lines);
    plot.x_label = "time, s".to_owned();
    plot.y_label = y_label.to_owned();
    plot.size = (1000, 480);
    plot.marks = [(SHARED.0, "five flows come"), (SHARED.1, "they leave")]
        .map(|(x, label)| Mark {
            x,
            label: label.to_owned(),
        })
        .into();
    plot
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

/// Fig. 4, left column: the window on the second path, which five single-path flows share for a
/// while, for each law.
fn trajectories(runs: &[(&str, RunResult)]) -> Plot {
    let mut plot = over_time("Window on the second path", "window, packets");
    plot.series = runs
        .iter()
        .zip(NAMES)
        .map(|((_, run), name)| line(name, &windows(run, 1), 0.1, TRAJECTORIES))
        .collect();
    plot
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
