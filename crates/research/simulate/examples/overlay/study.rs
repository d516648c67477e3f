//! A file of `scenarios/overlay`, run, and tables of it.

use std::path::Path;
use std::time::Instant;

use manyway_fluid::optimum::over_relays;
use manyway_scenario::{OverlayPoint, Scenario};
use manyway_simulate::batch::{Control, OverlayDone, OverlayLevel, OverlayPlan};
use manyway_simulate::measure::Summary;
use manyway_simulate::overlay::Setting;

use super::papers::{Row, Table};

/// Series of all repetitions are kept up to so many values in all.
const KEPT: usize = 2_000_000;

/// The runs of a scenario.
pub(crate) struct Study {
    scenario: String,
    pub(crate) points: Vec<OverlayPoint>,
    /// In the order of the points, then of the seeds.
    pub(crate) done: Vec<OverlayDone>,
    set: Vec<String>,
}

impl Study {
    /// Runs `scenarios/overlay/{name}.toml` with keys set, each point as often as it says, but
    /// `most` times at most.
    pub(crate) fn run(
        (name, set): (&str, &[&str]),
        most: u32,
        level: OverlayLevel,
    ) -> Result<Self, String> {
        let began = Instant::now();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/overlay");
        let told = |error: manyway_scenario::ScenarioError| error.to_string();
        let mut file = Scenario::load(&folder.join(name).with_extension("toml")).map_err(told)?;
        for assignment in set {
            file.set(assignment).map_err(told)?;
        }
        let points = file.overlay_points().map_err(told)?;
        let intervals = points.iter().map(|point| point.experiment.intervals);
        let repeat = file.repeat().min(most);
        let plan = OverlayPlan {
            scenario: file.name(),
            level,
            points: &points,
            seed: file.seed(),
            repeat,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            // Where they take little memory.
            keep_series: intervals.sum::<usize>() * repeat as usize <= KEPT,
        };
        let done = plan.run(optimum, &Control::new());
        let done = done.map_err(|error| error.to_string())?;
        eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f64());
        Ok(Study {
            scenario: name.to_owned(),
            set: set
                .iter()
                .map(|&assignment| assignment.to_owned())
                .collect(),
            points,
            done,
        })
    }

    /// The runs of a point, by its index.
    pub(crate) fn runs(&self, point: usize) -> &[OverlayDone] {
        let repeat = self.done.len() / self.points.len();
        &self.done[point * repeat..(point + 1) * repeat]
    }

    /// The values of all swept keys at a point, as the file has them.
    pub(crate) fn values(&self, point: usize) -> Vec<&str> {
        let set = self.points[point].set.iter();
        set.map(|(_, value)| value.as_str()).collect()
    }

    /// The points that have these values among their own, in the order of the sweep.
    pub(crate) fn having(&self, values: &[&str]) -> Vec<usize> {
        let has = |point: &usize| {
            let own = self.values(*point);
            values.iter().all(|value| own.contains(value))
        };
        (0..self.points.len()).filter(has).collect()
    }

    /// A table with a row for each combination of the first `rows` swept keys. What the other keys
    /// go through belongs to the row: `measure` gets, for each repetition, the runs of these
    /// points, and has the row's values for it.
    pub(crate) fn table(
        &self,
        rows: usize,
        columns: &[String],
        measure: impl Fn(&[&OverlayDone]) -> Vec<f64>,
    ) -> Table {
        let heads: Vec<Vec<String>> = (0..self.points.len())
            .map(|point| self.labels(point).into_iter().take(rows).collect())
            .collect();
        let all: Vec<usize> = (0..self.points.len()).collect();
        let row = |points: &[usize]| {
            let repeat = self.runs(points[0]).len();
            let one = |n| {
                let runs: Vec<&OverlayDone> =
                    points.iter().map(|&point| &self.runs(point)[n]).collect();
                measure(&runs)
            };
            let values: Vec<Vec<f64>> = (0..repeat).map(one).collect();
            Row {
                point: heads[points[0]].clone(),
                values: (0..columns.len()).map(|n| summary(&values, n)).collect(),
            }
        };
        Table {
            scenario: format!("overlay/{}", self.scenario),
            set: self.set.clone(),
            columns: columns.to_vec(),
            rows: all
                .chunk_by(|a, b| heads[*a] == heads[*b])
                .map(row)
                .collect(),
        }
    }

    /// What a point is called in tables: words stand for themselves, numbers need their key.
    fn labels(&self, point: usize) -> Vec<String> {
        let label = |(key, value): &(String, String)| match key.rsplit('.').next() {
            Some("sharing") => value.replace("equal-loss", "equal loss"),
            Some("skew") => format!("b = {value}"),
            Some("ratio") => format!("f = {value}"),
            Some("paths") => format!("k = {value}"),
            Some("increment") => format!("ε = {value}"),
            Some("scheme") if value != "everyone" => format!("{value}-reselection"),
            _ => value.clone(),
        };
        self.points[point].set.iter().map(label).collect()
    }
}

fn summary(values: &[Vec<f64>], n: usize) -> Summary {
    let values: Vec<f64> = values.iter().map(|run| run[n]).collect();
    Summary::of(&values).expect("at least one run")
}

/// The linear programme's value, bits/s.
pub(crate) fn optimum(setting: &Setting) -> Result<f64, String> {
    let Setting { overlay, selection } = setting;
    let best = over_relays(&overlay.relays, &overlay.demands, selection);
    let best = best.map_err(|error| error.to_string())?;
    Ok(best.rates.iter().sum())
}

/// How far a run is below the best, as a share of it.
pub(crate) fn below(done: &OverlayDone) -> f64 {
    let best = done.optimum.unwrap_or(f64::NAN);
    (best - done.run.rate) / best
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(crate) fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(f64::NAN, |summary| summary.median)
}

pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Column headings.
pub(crate) fn headings<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}
