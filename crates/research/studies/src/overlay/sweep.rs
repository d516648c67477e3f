//! The runs of a file of `scenarios/overlay`, and tables of them.

use manyway_fluid::optimum::over_relays;
use manyway_scenario::OverlayPoint;
use manyway_simulate::batch::{Control, OverlayDone, OverlayLevel, OverlayPlan, Shard};
use manyway_simulate::overlay::Setting;

use crate::failure::Failure;
use crate::progress::timed;
use crate::runs::{Runs, Source, threads};
use crate::statistics::summary;
use crate::table::{Row, Table};

/// Series of all repetitions are kept up to so many values in all.
const KEPT: usize = 2_000_000;

/// The runs of a scenario.
pub(crate) struct Sweep {
    scenario: String,
    pub(crate) points: Vec<OverlayPoint>,
    /// In the order of the points, then of the seeds.
    pub(crate) done: Vec<OverlayDone>,
    set: Vec<String>,
}

impl Sweep {
    /// Runs each point of a scenario as often as its file says, but no more often than `most`.
    pub(crate) fn run(
        source: Source<'_>,
        most: Runs,
        level: OverlayLevel,
    ) -> Result<Self, Failure> {
        let file = source.load()?;
        let points = file.overlay_points()?;
        let intervals = points.iter().map(|point| point.experiment.intervals);
        let repeat = file.repeat().min(most.repeat);
        let plan = OverlayPlan {
            scenario: file.name(),
            level,
            points: &points,
            seed: file.seed().wrapping_add(most.seed),
            repeat,
            threads: threads(),
            // Where they take little memory.
            keep_series: intervals.sum::<usize>() * repeat as usize <= KEPT,
            shard: Shard::default(),
        };
        let done = timed(source.scenario, || plan.run(optimum, &Control::new()))?;
        let set = source.set.iter().map(|&assignment| assignment.to_owned());
        Ok(Sweep {
            scenario: source.scenario.to_owned(),
            set: set.collect(),
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
                values: (0..columns.len())
                    .map(|n| summary(values.iter().map(|run| run[n])))
                    .collect(),
            }
        };
        Table {
            scenario: self.scenario.clone(),
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

/// Column headings.
pub(crate) fn headings<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}
