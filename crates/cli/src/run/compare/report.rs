//! The comparison as programs read it: the object that `--json` prints. All rates are without
//! headers. This module holds what the levels enter and adds up subflows; it asks no level itself.

use indexmap::IndexMap;
use manyway_scenario::Point;
use manyway_simulate::measure::Estimate;
use manyway_units::Time;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(super) scenario: String,
    pub(super) levels: Vec<&'static str>,
    /// Repetitions of each point at the levels that simulate.
    pub(super) runs: u32,
    pub(super) points: Vec<PointResult>,
}

#[derive(Debug, Serialize)]
pub(super) struct PointResult {
    /// What the sweep sets here.
    pub(super) set: IndexMap<String, String>,
    pub(super) epochs: Vec<Epoch>,
    pub(super) remarks: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Epoch {
    #[serde(skip)]
    pub(super) from: Time,
    pub(super) from_s: f64,
    pub(super) until_s: f64,
    /// Whether the solver found the fluid's equilibrium.
    pub(super) fluid_converged: Option<bool>,
    pub(super) flows: Vec<Flow>,
    pub(super) links: Vec<Link>,
}

#[derive(Debug, Serialize)]
pub(super) struct Flow {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) law: String,
    /// The share of payload in its packets.
    #[serde(skip)]
    pub(super) payload: f64,
    #[serde(flatten)]
    pub(super) rates: Rates,
    pub(super) subflows: Vec<Subflow>,
}

#[derive(Debug, Serialize)]
pub(super) struct Subflow {
    pub(super) path: String,
    #[serde(flatten)]
    pub(super) rates: Rates,
}

/// A flow's or subflow's rates in bits/s; null where a level has none.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Rates {
    pub(super) optimum_bps: Option<f64>,
    /// The fluid's rate at the equilibrium.
    pub(super) fluid_rest_bps: Option<f64>,
    /// The fluid's mean over the epoch.
    pub(super) fluid_bps: Option<f64>,
    /// The packet level's mean over the epoch, estimated over the runs.
    pub(super) packet_bps: Option<Estimate>,
    /// The same of the stack level.
    pub(super) stack_bps: Option<Estimate>,
}

#[derive(Debug, Serialize)]
pub(super) struct Link {
    pub(super) name: String,
    /// Lagrange multiplier of the link's capacity: utility per bit/s.
    pub(super) optimum_price: Option<f64>,
    /// Price at the equilibrium: loss probability, or seconds of queueing delay for wVegas.
    pub(super) fluid_price: Option<f64>,
}

impl PointResult {
    /// A point whose spans are its epochs, nothing known yet.
    pub(super) fn new(point: &Point) -> Self {
        let experiment = &point.experiment;
        let seconds = |time: Time| time.since(Time::ZERO).as_secs_f64();
        let epochs = experiment.measure.spans.iter().map(|span| Epoch {
            from: span.from,
            from_s: seconds(span.from),
            until_s: seconds(span.until),
            fluid_converged: None,
            flows: experiment
                .flows
                .iter()
                .map(|flow| Flow::new(experiment, flow))
                .collect(),
            links: experiment
                .topology
                .links
                .iter()
                .map(|link| Link {
                    name: link.name.clone(),
                    optimum_price: None,
                    fluid_price: None,
                })
                .collect(),
        });
        PointResult {
            set: point.set.iter().cloned().collect(),
            epochs: epochs.collect(),
            remarks: Vec::new(),
        }
    }
}

impl Flow {
    fn new(experiment: &manyway_scenario::Experiment, flow: &manyway_scenario::Flow) -> Self {
        let size = f64::from(flow.sender.packet_size);
        let paths = flow.paths.iter().map(|&path| Subflow {
            path: experiment.topology.paths[path].name.clone(),
            rates: Rates::default(),
        });
        Flow {
            name: flow.name.clone(),
            group: experiment.groups[flow.group].name.clone(),
            law: flow.law.to_string(),
            payload: (size - f64::from(flow.headers)) / size,
            rates: Rates::default(),
            subflows: paths.collect(),
        }
    }

    /// Sums the computed rates of the subflows. Levels that simulate measure their own sums.
    pub(super) fn add_up(&mut self) {
        let sum = |of: fn(&Rates) -> Option<f64>| {
            let known: Vec<f64> = self.subflows.iter().filter_map(|s| of(&s.rates)).collect();
            (!known.is_empty()).then(|| known.iter().sum())
        };
        self.rates.optimum_bps = sum(|rates| rates.optimum_bps);
        self.rates.fluid_bps = sum(|rates| rates.fluid_bps);
        self.rates.fluid_rest_bps = sum(|rates| rates.fluid_rest_bps);
    }
}
