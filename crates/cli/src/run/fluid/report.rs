//! The fluid's results as programs read them: the object that `--json` prints. This module copies
//! what the model found and gives it names and units; it solves nothing.

use indexmap::{IndexMap, IndexSet};
use manyway_fluid::Method;
use manyway_fluid::run::{Epoch as FluidEpoch, FluidRun, Rest};
use manyway_scenario::Experiment;
use manyway_units::Time;
use serde::Serialize;

use crate::run::goodput::{Column, over_time, parts};
use crate::run::naming::heading;

/// The fluid results of a scenario.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(super) scenario: String,
    level: &'static str,
    /// Each finished point, in the order of the sweep.
    pub(super) points: Vec<PointResult>,
    /// Number of points of the sweep.
    #[serde(skip)]
    all: usize,
    /// The fluid's equilibrium, and its means.
    #[serde(skip)]
    pub(super) columns: [Column; 2],
}

#[derive(Debug, Serialize)]
pub(super) struct PointResult {
    /// What the sweep sets here.
    pub(super) set: IndexMap<String, String>,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Outcome {
    Done(Box<Measured>),
    /// Why the point has no fluid.
    Failed {
        error: String,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct Measured {
    pub(super) measured_from_s: f64,
    pub(super) measured_until_s: f64,
    /// Prices are delays in seconds instead of loss probabilities.
    pub(super) prices_are_delays: bool,
    pub(super) flows: Vec<Flow>,
    pub(super) links: Vec<Link>,
    pub(super) epochs: Vec<Epoch>,
    pub(super) remarks: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Flow {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) law: String,
    pub(super) goodput_bps: f64,
    pub(super) subflows: Vec<Subflow>,
}

#[derive(Debug, Serialize)]
pub(super) struct Subflow {
    pub(super) path: String,
    pub(super) goodput_bps: f64,
    pub(super) window_mean_packets: f64,
    pub(super) rtt_mean_s: f64,
    pub(super) price: f64,
    /// Goodput in each named span.
    pub(super) spans_bps: IndexMap<String, f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) utilisation: f64,
    pub(super) load_bps: f64,
    pub(super) price: f64,
}

/// A time in which no flow starts or stops and no link changes; rates count headers.
#[derive(Debug, Serialize)]
pub(super) struct Epoch {
    pub(super) from_s: f64,
    pub(super) until_s: f64,
    /// Whether the solver found the equilibrium; null if no flow is active.
    pub(super) converged: Option<bool>,
    /// How it found it: `newton`, `trajectory` or, for wVegas, `optimum`.
    pub(super) method: Option<&'static str>,
    /// How far the equilibrium's conditions are from holding, without dimension.
    pub(super) residual: Option<f64>,
    pub(super) subflows: Vec<EpochSubflow>,
    pub(super) links: Vec<EpochLink>,
}

#[derive(Debug, Serialize)]
pub(super) struct EpochSubflow {
    pub(super) flow: String,
    pub(super) path: String,
    pub(super) mean_bps: f64,
    pub(super) end_bps: f64,
    pub(super) rest_bps: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct EpochLink {
    pub(super) name: String,
    pub(super) end_price: f64,
    pub(super) rest_price: Option<f64>,
}

impl Report {
    /// The report of `all` points, none of them finished yet.
    pub(super) fn new(scenario: &str, all: usize) -> Self {
        Report {
            scenario: scenario.to_owned(),
            level: "fluid",
            points: Vec::new(),
            all,
            columns: ["fluid equilibrium", "fluid"].map(|name| Column {
                name,
                ..Column::default()
            }),
        }
    }

    /// Enters a point's goodputs into the columns.
    pub(super) fn enter(&mut self, point: usize, experiment: &Experiment, run: &FluidRun) {
        let [rest, mean] = &mut self.columns;
        mean.enter_computed(point, experiment, |part, flow, path| {
            let subflow = &run.flows[flow].subflows[path];
            let rate = match subflow.spans_bps.as_slice() {
                [] => subflow.goodput_bps,
                spans => spans[part],
            };
            rate.is_finite().then_some(rate)
        });
        let parts = parts(experiment);
        rest.enter_computed(point, experiment, |part, flow, path| {
            let sender = &experiment.flows[flow];
            let size = f64::from(sender.sender.packet_size);
            let payload = (size - f64::from(sender.headers)) / size;
            let epochs = run.epochs.iter().map(|epoch| {
                let at = epoch.subflows.iter().position(|is| *is == (flow, path));
                let arriving =
                    |(at, rest): (usize, &Rest)| rest.rates_bps[at] * rest.kept[at] * payload;
                let rate = at.zip(epoch.rest.as_ref()).map(arriving);
                (epoch.times.0..epoch.times.1, rate)
            });
            over_time(&parts[part], epochs)
        });
    }

    /// Number of points that never ran.
    pub(super) fn missing(&self) -> usize {
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
    pub(super) fn remarks(&self) -> Vec<String> {
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
    pub(super) fn of(experiment: &Experiment, run: &FluidRun) -> Self {
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
    pub(super) fn unrest(&self, epoch: &Epoch) -> f64 {
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

    pub(super) fn heading(&self) -> String {
        format!("{}-{} s", self.from_s, self.until_s)
    }
}
