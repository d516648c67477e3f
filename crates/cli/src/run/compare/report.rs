//! The comparison as programs read it: the object that `--json` prints. All rates are without
//! headers. This module holds what the levels enter and adds up subflows; it asks no level itself.

use indexmap::IndexMap;
use manyway_scenario::Point;
use manyway_simulate::measure::Estimate;
use manyway_units::Time;
use serde::Serialize;

/// Which levels were asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Levels {
    pub(super) optimum: bool,
    pub(super) fluid: bool,
    pub(super) packet: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(super) scenario: String,
    pub(super) levels: Vec<&'static str>,
    /// Of the packet level, at each point.
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
    /// Whether the fluid's equilibrium was found.
    pub(super) fluid_converged: Option<bool>,
    pub(super) flows: Vec<Flow>,
    pub(super) links: Vec<Link>,
}

#[derive(Debug, Serialize)]
pub(super) struct Flow {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) law: String,
    /// The part of its packets that is no header.
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

/// A flow's or subflow's, in bits/s; nothing where a level has nothing to say.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Rates {
    pub(super) optimum_bps: Option<f64>,
    /// At the equilibrium.
    pub(super) fluid_rest_bps: Option<f64>,
    /// The epoch's mean.
    pub(super) fluid_bps: Option<f64>,
    /// The epoch's mean, of all runs.
    pub(super) packet_bps: Option<Estimate>,
}

#[derive(Debug, Serialize)]
pub(super) struct Link {
    pub(super) name: String,
    /// Of the utility, per bit/s.
    pub(super) optimum_price: Option<f64>,
    /// At the equilibrium: loss probability, with wVegas seconds of delay.
    pub(super) fluid_price: Option<f64>,
}

impl Levels {
    pub(super) fn names(self) -> Vec<&'static str> {
        let all = [
            (self.optimum, "optimum"),
            (self.fluid, "fluid"),
            (self.packet, "packet"),
        ];
        all.into_iter()
            .filter(|(there, _)| *there)
            .map(|(_, name)| name)
            .collect()
    }
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

    /// Sums of what is known of the subflows, except for the packet level.
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
