//! The fluid's results as programs read them: the object that `--json` prints. This module copies
//! what the model found and gives it names and units; it solves nothing.

use indexmap::{IndexMap, IndexSet};
use manyway_fluid::Method;
use manyway_fluid::run::{Epoch as FluidEpoch, FluidRun};
use manyway_scenario::Experiment;
use manyway_units::Time;
use serde::Serialize;

use crate::naming::heading;

/// The fluid results of a scenario.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    level: &'static str,
    /// Each finished point, in the order of the sweep.
    pub points: Vec<PointResult>,
    /// Number of points of the sweep.
    #[serde(skip)]
    all: usize,
}

/// One point of the sweep.
#[derive(Debug, Serialize)]
pub struct PointResult {
    /// What the sweep sets here.
    pub set: IndexMap<String, String>,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of a point.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// What the model found.
    Done(Box<Measured>),
    /// Why the point has no fluid.
    Failed {
        /// The reason.
        error: String,
    },
}

/// What the model found at a point.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// Means are taken from here, seconds from the start …
    pub measured_from_s: f64,
    /// … to here.
    pub measured_until_s: f64,
    /// Prices are delays in seconds instead of loss probabilities.
    pub prices_are_delays: bool,
    /// Every flow, in the scenario's order.
    pub flows: Vec<Flow>,
    /// Every named link.
    pub links: Vec<Link>,
    /// The times between changes.
    pub epochs: Vec<Epoch>,
    /// What is to be known about the result.
    pub remarks: Vec<String>,
}

/// One flow over the measured time.
#[derive(Debug, Serialize)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// Its group's name.
    pub group: String,
    /// Its law with its parameters.
    pub law: String,
    /// Goodput, bits/s.
    pub goodput_bps: f64,
    /// Each subflow.
    pub subflows: Vec<Subflow>,
}

/// One subflow over the measured time.
#[derive(Debug, Serialize)]
pub struct Subflow {
    /// Its path's name.
    pub path: String,
    /// Goodput, bits/s.
    pub goodput_bps: f64,
    /// Time average of the window, packets.
    pub window_mean_packets: f64,
    /// Time average of the round-trip time, seconds.
    pub rtt_mean_s: f64,
    /// Time average of the price.
    pub price: f64,
    /// Goodput in each named span.
    pub spans_bps: IndexMap<String, f64>,
}

/// One link over the measured time.
#[derive(Debug, Serialize)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Carried load over rate.
    pub utilisation: f64,
    /// Carried load, bits/s.
    pub load_bps: f64,
    /// Time average of the price.
    pub price: f64,
}

/// A time in which no flow starts or stops and no link changes; rates count headers.
#[derive(Debug, Serialize)]
pub struct Epoch {
    /// Its beginning, seconds from the start.
    pub from_s: f64,
    /// Its end.
    pub until_s: f64,
    /// Whether the solver found the equilibrium; null if no flow is active.
    pub converged: Option<bool>,
    /// How it found it: `newton`, `trajectory` or, for wVegas, `optimum`.
    pub method: Option<&'static str>,
    /// How far the equilibrium's conditions are from holding, without dimension.
    pub residual: Option<f64>,
    /// Every active subflow.
    pub subflows: Vec<EpochSubflow>,
    /// Every named link.
    pub links: Vec<EpochLink>,
}

/// One subflow in an epoch.
#[derive(Debug, Serialize)]
pub struct EpochSubflow {
    /// Its flow's name.
    pub flow: String,
    /// Its path's name.
    pub path: String,
    /// Mean rate, bits/s.
    pub mean_bps: f64,
    /// Rate at the end of the epoch, bits/s.
    pub end_bps: f64,
    /// Rate in the equilibrium, bits/s.
    pub rest_bps: f64,
}

/// One link in an epoch.
#[derive(Debug, Serialize)]
pub struct EpochLink {
    /// Its name.
    pub name: String,
    /// Price at the end of the epoch.
    pub end_price: f64,
    /// Price in the equilibrium.
    pub rest_price: Option<f64>,
}

impl Report {
    /// The report of `all` points, none of them finished yet.
    pub(super) fn new(scenario: &str, all: usize) -> Self {
        Report {
            scenario: scenario.to_owned(),
            level: "fluid",
            points: Vec::new(),
            all,
        }
    }

    /// Number of points that never ran.
    pub fn missing(&self) -> usize {
        self.all - self.points.len()
    }

    /// The errors, each once, if no point has a result.
    pub(super) fn nothing_done(&self) -> Option<String> {
        let mut errors = IndexSet::new();
        for point in &self.points {
            match &point.outcome {
                Outcome::Done(_) => return None,
                Outcome::Failed { error } => errors.insert(error.as_str()),
            };
        }
        Some(errors.into_iter().collect::<Vec<_>>().join("\n"))
    }
}

fn seconds(time: Time) -> f64 {
    time.since(Time::ZERO).as_secs_f64()
}

impl PointResult {
    /// What is to be known about the point, named by what its sweep sets.
    pub fn remarks(&self) -> Vec<String> {
        let set = match heading(&self.set).as_str() {
            "" => String::new(),
            set => format!("{set}: "),
        };
        let measured = match &self.outcome {
            Outcome::Failed { error } => return vec![format!("{set}no fluid: {error}.")],
            Outcome::Done(measured) => measured,
        };
        let lost = measured
            .epochs
            .iter()
            .filter(|epoch| epoch.converged == Some(false));
        let lost = lost.map(|epoch| {
            format!(
                "{set}{}: the solver found no equilibrium of the fluid; the table has the rates \
                 nearest to one.",
                epoch.heading()
            )
        });
        lost.chain(measured.remarks.iter().cloned()).collect()
    }
}

impl Measured {
    /// What `run` found at the point of this experiment.
    pub fn of(experiment: &Experiment, run: &FluidRun) -> Self {
        let group = |flow: usize| &experiment.groups[experiment.flows[flow].group].name;
        let spans = &experiment.measure.spans;
        let flows = run.flows.iter().enumerate().map(|(index, flow)| Flow {
            name: flow.name.clone(),
            group: group(index).clone(),
            law: experiment.flows[index].law.to_string(),
            goodput_bps: flow.goodput_bps,
            subflows: flow
                .subflows
                .iter()
                .map(|subflow| Subflow {
                    path: subflow.path.clone(),
                    goodput_bps: subflow.goodput_bps,
                    window_mean_packets: subflow.window_mean_packets,
                    rtt_mean_s: subflow.rtt_mean_s,
                    price: subflow.price_mean,
                    spans_bps: spans
                        .iter()
                        .zip(&subflow.spans_bps)
                        .map(|(span, rate)| (span.name.clone(), *rate))
                        .collect(),
                })
                .collect(),
        });
        let links = run.links.iter().map(|link| Link {
            name: link.name.clone(),
            utilisation: link.utilisation,
            load_bps: link.load_bps,
            price: link.price_mean,
        });
        Measured {
            measured_from_s: seconds(experiment.measure.from),
            measured_until_s: seconds(experiment.measure.until),
            prices_are_delays: run.prices_are_delays,
            flows: flows.collect(),
            links: links.collect(),
            epochs: run
                .epochs
                .iter()
                .map(|epoch| Epoch::of(experiment, run, epoch))
                .collect(),
            remarks: run.remarks.clone(),
        }
    }

    /// The largest relative difference, over all flows, between the rate at the end of an epoch and
    /// the equilibrium rate.
    pub fn unrest(&self, epoch: &Epoch) -> f64 {
        let mut totals: IndexMap<&str, (f64, f64)> = IndexMap::new();
        for subflow in &epoch.subflows {
            let total = totals.entry(&subflow.flow).or_default();
            total.0 += subflow.end_bps;
            total.1 += subflow.rest_bps;
        }
        let off = totals.values().map(|(end, rest)| (end / rest - 1.0).abs());
        off.fold(0.0, f64::max)
    }
}

impl Epoch {
    fn of(experiment: &Experiment, run: &FluidRun, epoch: &FluidEpoch) -> Self {
        let rest = epoch.rest.as_ref();
        let subflows = epoch
            .subflows
            .iter()
            .enumerate()
            .map(|(n, &(flow, path))| EpochSubflow {
                flow: experiment.flows[flow].name.clone(),
                path: experiment.topology.paths[experiment.flows[flow].paths[path]]
                    .name
                    .clone(),
                mean_bps: epoch.mean_bps[n],
                end_bps: epoch.end_bps[n],
                rest_bps: rest.map_or(f64::NAN, |rest| rest.rates_bps[n]),
            });
        let links = run.links.iter().enumerate().map(|(n, link)| EpochLink {
            name: link.name.clone(),
            end_price: epoch.end_prices[n],
            rest_price: rest.map(|rest| rest.prices[n]),
        });
        Epoch {
            from_s: seconds(epoch.times.0),
            until_s: seconds(epoch.times.1),
            converged: rest.map(|rest| rest.converged),
            method: rest.map(|rest| match rest.method {
                Some(Method::Newton) => "newton",
                Some(Method::Trajectory) => "trajectory",
                None => "optimum",
            }),
            residual: rest.map(|rest| rest.residual),
            subflows: subflows.collect(),
            links: links.collect(),
        }
    }

    /// Its time, for headings: `0-20 s`.
    pub fn heading(&self) -> String {
        format!("{}-{} s", self.from_s, self.until_s)
    }
}
