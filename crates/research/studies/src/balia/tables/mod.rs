//! The experiments of "Multipath TCP: Analysis, Design and Implementation" (Peng, Walid, Hwang and
//! Low), section V: what is measured in each run of `scenarios/balia`, and what must hold.

pub(crate) mod gates;
pub(crate) mod paper;

use manyway_scenario::Experiment;
use manyway_simulate::measure::Summary;
use manyway_simulate::packet::{FlowResult, RunResult, Series};
use serde::Serialize;

use crate::failure::Failure;
use crate::runs::{Runs, Source};
use crate::statistics::{self, mean, variation};

/// When the single-path flows of Table V leave, seconds.
const LEFT_AT: f64 = 80.0;
/// A window that has begun to come back, packets: twice the largest floor.
pub(crate) const STIRRING: f64 = 4.0;

/// How an experiment is run: the scenario's repetitions and keys, changed.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Variant {
    /// What is different, in words.
    pub(crate) name: String,
    /// `key=value`, as of `manyway run --set`.
    pub(crate) set: Vec<String>,
    /// Runs per law.
    #[serde(flatten)]
    pub(crate) runs: Runs,
}

impl Variant {
    /// The scenario as its file has it, but for the number of runs.
    pub(crate) fn plain(runs: Runs) -> Self {
        Variant::new("as in the file", [], runs)
    }

    /// With these keys changed.
    pub(crate) fn new<const N: usize>(name: &str, set: [&str; N], runs: Runs) -> Self {
        Variant {
            name: name.to_owned(),
            set: set.map(str::to_owned).into(),
            runs,
        }
    }

    /// With one more key changed.
    #[must_use]
    pub(crate) fn and(mut self, assignment: &str) -> Self {
        self.set.push(assignment.to_owned());
        self
    }
}

/// A row of Table III: goodput of a flow, Mbps.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Friendliness {
    pub(crate) law: String,
    pub(crate) multipath: Summary,
    pub(crate) single: Summary,
}

/// A column of Table IV.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Aggregation {
    pub(crate) law: String,
    /// Mbps.
    pub(crate) goodput: Summary,
    /// Load over rate of both links together.
    pub(crate) utilisation: Summary,
    /// The same of the 3G link.
    pub(crate) slow_link: Summary,
}

/// A column of Table V.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Responsiveness {
    pub(crate) law: String,
    /// Mean window on the second path while it is free, packets.
    pub(crate) average_window: f64,
    /// Window on it when the single-path flows leave, packets.
    pub(crate) window_then: f64,
    /// From then until it has [`STIRRING`] packets for the first time, seconds, by run; none when
    /// the run ended before.
    pub(crate) stirred: Vec<Option<f64>>,
    /// From then until it is back at its average, seconds, by run; none when the run ended before.
    pub(crate) converged: Vec<Option<f64>>,
    /// Goodput of all single-path flows together while they are there, Mbps.
    pub(crate) single: Summary,
}

/// How windows swing in Fig. 3; a single path's or the sum of two.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Oscillation {
    pub(crate) law: String,
    pub(crate) subflows: usize,
    /// Mean cut over the window before it.
    pub(crate) cut: Summary,
    /// Standard deviation over mean.
    pub(crate) deviation: Summary,
}

impl Responsiveness {
    /// The longest time to convergence; none when a run ended before.
    pub(crate) fn longest(&self) -> Option<f64> {
        let times: Option<Vec<f64>> = self.converged.iter().copied().collect();
        times?.into_iter().reduce(f64::max)
    }

    /// The mean time to convergence, under the same condition.
    pub(crate) fn mean(&self) -> Option<Summary> {
        let times: Option<Vec<f64>> = self.converged.iter().copied().collect();
        Summary::of(&times?)
    }
}

/// Table III for every law of the file.
pub(crate) fn friendliness(variant: &Variant) -> Result<Vec<Friendliness>, Failure> {
    beside_single_paths("balia/table3", variant)
}

/// The same with the round-trip times of WiFi and 3G.
pub(crate) fn unequal_rtts(variant: &Variant) -> Result<Vec<Friendliness>, Failure> {
    beside_single_paths("balia/rtt", variant)
}

fn beside_single_paths(scenario: &str, variant: &Variant) -> Result<Vec<Friendliness>, Failure> {
    let per_flow = |run: &RunResult, experiment: &Experiment, group: usize| {
        let members = &run.flows[experiment.groups[group].members.clone()];
        members.iter().map(|flow| flow.goodput_bps).sum::<f64>() / members.len() as f64 / 1e6
    };
    let laws = run(scenario, variant, |experiment, run| {
        [0, 1].map(|group| per_flow(run, experiment, group))
    })?;
    let rows = laws.into_iter().map(|(law, runs)| Friendliness {
        law,
        multipath: summary(&runs, |run| run[0]),
        single: summary(&runs, |run| run[1]),
    });
    Ok(rows.collect())
}

/// Table IV for every law of the file.
pub(crate) fn aggregation(variant: &Variant) -> Result<Vec<Aggregation>, Failure> {
    let laws = run("balia/table4", variant, |experiment, run| {
        let links = &experiment.topology.links;
        let rate: f64 = links
            .iter()
            .map(|link| link.config.rate.bits_per_sec())
            .sum();
        let load: f64 = run.links.iter().map(|link| link.load_bps).sum();
        [
            run.flows[0].goodput_bps / 1e6,
            load / rate,
            run.links[1].utilisation,
        ]
    })?;
    let rows = laws.into_iter().map(|(law, runs)| Aggregation {
        law,
        goodput: summary(&runs, |run| run[0]),
        utilisation: summary(&runs, |run| run[1]),
        slow_link: summary(&runs, |run| run[2]),
    });
    Ok(rows.collect())
}

/// Table V for every law of the file.
pub(crate) fn responsiveness(variant: &Variant) -> Result<Vec<Responsiveness>, Failure> {
    let laws = run("balia/table5", variant, |_, run| {
        let second = window_series(run, 1).expect("the scenario records windows");
        let average = run.flows[0].subflows[1].window_mean_packets;
        let single = run.flows[1..]
            .iter()
            .map(|flow| flow.subflows[0].spans_bps[0]);
        Recovery {
            average,
            then: second.values[index(second, LEFT_AT)],
            stirred: first_reaching(second, STIRRING),
            converged: first_reaching(second, average),
            single: single.sum::<f64>() / 1e6,
        }
    })?;
    let rows = laws.into_iter().map(|(law, runs)| Responsiveness {
        law,
        average_window: summary(&runs, |run| run.average).mean,
        window_then: summary(&runs, |run| run.then).mean,
        stirred: runs.iter().map(|run| run.stirred).collect(),
        converged: runs.iter().map(|run| run.converged).collect(),
        single: summary(&runs, |run| run.single),
    });
    Ok(rows.collect())
}

/// What a run of Table V comes to.
struct Recovery {
    average: f64,
    then: f64,
    stirred: Option<f64>,
    converged: Option<f64>,
    single: f64,
}

/// Fig. 3's windows for every law of the file, Reno on a single path first.
pub(crate) fn oscillation(variant: &Variant) -> Result<Vec<Oscillation>, Failure> {
    let laws = run("balia/fig3", variant, |experiment, run| {
        let subflows = run.flows[0].subflows.len();
        let from = experiment.measure.from.as_secs_f64();
        let windows: Vec<&Series> = (0..subflows)
            .filter_map(|n| window_series(run, n))
            .collect();
        let samples = index(windows[0], from)..windows[0].values.len();
        let sum: Vec<f64> = samples
            .map(|at| windows.iter().map(|series| series.values[at]).sum())
            .collect();
        (subflows, mean_cut(&sum), variation(&sum))
    })?;
    let rows = laws.into_iter().map(|(law, runs)| Oscillation {
        law,
        subflows: runs[0].0,
        cut: summary(&runs, |run| run.1),
        deviation: summary(&runs, |run| run.2),
    });
    Ok(rows.collect())
}

/// Runs every point of a scenario and takes from each run what `measure` makes of it, by law.
fn run<T: Send>(
    scenario: &str,
    variant: &Variant,
    measure: impl Fn(&Experiment, &RunResult) -> T + Sync,
) -> Result<Vec<(String, Vec<T>)>, Failure> {
    let set: Vec<&str> = variant.set.iter().map(String::as_str).collect();
    let measured = Source::new(scenario, &set).measure(variant.runs, measure)?;
    let by_law = measured.into_iter().map(|(point, values)| {
        let law = point.experiment.flows[0].law.name().to_owned();
        (law, values)
    });
    Ok(by_law.collect())
}

/// The windows over time of the first flow's subflow number `n`.
pub(crate) fn window_series(run: &RunResult, n: usize) -> Option<&Series> {
    let FlowResult { name, subflows, .. } = &run.flows[0];
    let of = [name.clone(), subflows.get(n)?.path.clone()];
    run.series
        .iter()
        .find(|series| series.kind == "window" && series.of == of)
}

/// The sample at a time in seconds; the first one is at the first interval's end.
fn index(series: &Series, at: f64) -> usize {
    ((at / series.interval_s).round() as usize).saturating_sub(1)
}

/// From when the single-path flows leave until the first sample of at least `window`, seconds.
fn first_reaching(series: &Series, window: f64) -> Option<f64> {
    let after = &series.values[index(series, LEFT_AT)..];
    let samples = after.iter().position(|value| *value >= window)?;
    Some(samples as f64 * series.interval_s)
}

/// The mean of all falls from one sample to the next, each over what was there before. A packet
/// less is no cut: OLIA takes that much now and then.
fn mean_cut(windows: &[f64]) -> f64 {
    let falls = windows.windows(2).filter(|pair| pair[1] < pair[0] - 1.0);
    let cuts: Vec<f64> = falls.map(|pair| (pair[0] - pair[1]) / pair[0]).collect();
    mean(&cuts)
}

fn summary<T>(runs: &[T], of: impl Fn(&T) -> f64) -> Summary {
    statistics::summary(runs.iter().map(of))
}
