//! Production sessions under the virtual clock: how much of several paths one connection uses, what
//! share it takes beside another one, and what a congested return path does to it.
//!
//! Everywhere one-way delays, DropTail of one bandwidth-delay product (rate × round trip) and outer
//! packets of 1500 bytes.

mod aggregation;
mod fairness;
mod page;
mod return_path;
mod setup;
#[cfg(test)]
mod tests;

use std::time::Duration;

use manyway_simulate::measure::{Summary, in_parallel};
use manyway_units::Rate;
use serde::Serialize;

use self::aggregation::{Aggregation, AggregationRun, NETWORKS};
use self::fairness::{Fairness, FairnessRun};
use self::return_path::{ReturnPath, ReturnPathRun};
use crate::extent::{Extent, Size};
use crate::failure::Failure;
use crate::gate::{Gate, gate, not_rising};
use crate::headline::Headline;
use crate::progress::timed;
use crate::runs::threads;
use crate::statistics::summary;
use crate::study::{Outcome, Study};

/// A study of sessions with some laws.
pub(crate) struct Sessions {
    name: &'static str,
    reproduces: &'static str,
    aggregation: &'static [&'static str],
    fairness: &'static [&'static str],
    return_path: &'static [&'static str],
    gates: fn(&Results) -> Vec<Gate>,
    short_cost: u32,
    full_cost: u32,
}

/// Laws that are a pair of formulas, and CUBIC.
pub(crate) static USUAL: Sessions = Sessions {
    name: "sessions",
    reproduces: "production sessions with LIA, Balia, CUBIC and Reno: aggregation and fairness",
    aggregation: &["lia", "balia", "cubic", "reno"],
    fairness: &["lia", "balia", "reno"],
    return_path: &[],
    gates: usual_gates,
    short_cost: 60,
    full_cost: 960,
};

/// Laws that keep a state of their own.
pub(crate) static STATEFUL: Sessions = Sessions {
    name: "sessions-stateful",
    reproduces: "production sessions with wVegas, BMC and mPath, and congested return paths",
    aggregation: &[
        "wvegas",
        "wvegas:least=1",
        "wvegas:total_alpha=50",
        "bmc",
        "bmc-balance",
        "mpath",
    ],
    fairness: &["wvegas", "bmc", "bmc-balance", "mpath"],
    return_path: &["wvegas", "wvegas:forward=1", "lia"],
    gates: |_| Vec::new(),
    short_cost: 90,
    full_cost: 1800,
};

impl Study for Sessions {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reproduces(&self) -> &'static str {
        self.reproduces
    }

    fn cost(&self, size: Size) -> u32 {
        match size {
            Size::Short => self.short_cost,
            Size::Full => self.full_cost,
        }
    }

    fn run(&self, extent: Extent) -> Result<Outcome, Failure> {
        let results = self.measure(extent);
        let gates = (self.gates)(&results);
        Ok(Outcome {
            page: page::markdown(self.name, &results, &gates),
            gates,
            ours: Vec::new(),
            tables: Vec::new(),
            headline: headline(&results),
            figures: Vec::new(),
            details: serde_json::to_value(&results)?,
        })
    }
}

/// How long it is measured, and with how many seeds.
#[derive(Copy, Clone, Serialize)]
struct Measurement {
    seeds: u64,
    /// Seconds.
    from: f64,
    until: f64,
}

#[derive(Serialize)]
struct Results {
    packet_bytes: usize,
    payload_bytes: usize,
    aggregation_measurement: Measurement,
    aggregation: Vec<AggregationRow>,
    fairness_measurement: Measurement,
    fairness: Vec<FairnessRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    return_path: Vec<ReturnPathRow>,
}

#[derive(Serialize)]
struct AggregationRow {
    network: String,
    jitter_ms: u64,
    law: String,
    after_headers: Summary,
    of_wire: Summary,
    /// Of the runs that got there.
    ramp_up: Option<Summary>,
    runs: Vec<AggregationRun>,
}

#[derive(Serialize)]
struct FairnessRow {
    law: String,
    share: Summary,
    runs: Vec<FairnessRun>,
}

#[derive(Serialize)]
struct ReturnPathRow {
    law: String,
    /// Reno flows over the first return path.
    against: usize,
    run: ReturnPathRun,
}

impl Sessions {
    fn measure(&self, extent: Extent) -> Results {
        let measurement = |seeds, from, until| Measurement { seeds, from, until };
        let (aggregation, fairness) = match extent.full() {
            true => (measurement(5, 15.0, 75.0), measurement(20, 30.0, 300.0)),
            false => (measurement(3, 15.0, 35.0), measurement(6, 30.0, 120.0)),
        };
        let fairness_rows = self.fairness.iter();
        Results {
            packet_bytes: setup::PACKET_BYTES,
            payload_bytes: setup::payload_bytes(),
            aggregation_measurement: aggregation,
            aggregation: self.aggregate(aggregation, extent.seed),
            fairness_measurement: fairness,
            fairness: fairness_rows
                .map(|law| FairnessRow::measure(law, fairness, extent.seed))
                .collect(),
            return_path: self.congest_return_paths(extent.seed),
        }
    }

    fn aggregate(&self, measurement: Measurement, seed: u64) -> Vec<AggregationRow> {
        let mut rows = Vec::new();
        for network in NETWORKS {
            for jitter_ms in [0, 1] {
                let laws = self.aggregation.iter();
                rows.extend(laws.map(|law| {
                    AggregationRow::measure(network, (law, jitter_ms), measurement, seed)
                }));
            }
        }
        rows
    }

    /// Short runs in which only the keys are random: one seed each.
    fn congest_return_paths(&self, seed: u64) -> Vec<ReturnPathRow> {
        let experiments = self.return_path.iter().flat_map(|&law| {
            [0, 1, 4].map(|against| ReturnPath {
                law: law.parse().expect("a known law"),
                against,
                seed: seed + 1,
                from: 20.0,
                until: 80.0,
            })
        });
        let experiments: Vec<_> = experiments.collect();
        let runs = timed("return path", || {
            in_parallel(&experiments, threads(), ReturnPath::run)
        });
        let rows = experiments.into_iter().zip(runs);
        rows.map(|(experiment, run)| ReturnPathRow {
            law: experiment.law.to_string(),
            against: experiment.against,
            run,
        })
        .collect()
    }
}

impl AggregationRow {
    fn measure(
        (network, paths): (&str, &[(f64, u64)]),
        (law, jitter_ms): (&str, u64),
        Measurement { seeds, from, until }: Measurement,
        seed: u64,
    ) -> Self {
        let paths = paths
            .iter()
            .map(|(mbps, ms)| (Rate::from_mbps(*mbps), Duration::from_millis(*ms)));
        let paths: Vec<_> = paths.collect();
        let experiments = (1..=seeds).map(|n| Aggregation {
            paths: paths.clone(),
            law: law.parse().expect("a known law"),
            jitter: Duration::from_millis(jitter_ms),
            seed: seed + n,
            from,
            until,
        });
        let experiments: Vec<_> = experiments.collect();
        let runs = timed(&format!("{network}, jitter {jitter_ms} ms, {law}"), || {
            in_parallel(&experiments, threads(), Aggregation::run)
        });
        let ramp_up: Vec<f64> = runs.iter().filter_map(|run| run.ramp_up).collect();
        AggregationRow {
            network: network.to_owned(),
            jitter_ms,
            law: law.to_owned(),
            after_headers: summary(runs.iter().map(|run| run.after_headers)),
            of_wire: summary(runs.iter().map(|run| run.of_wire)),
            ramp_up: Summary::of(&ramp_up),
            runs,
        }
    }
}

impl FairnessRow {
    fn measure(law: &str, Measurement { seeds, from, until }: Measurement, seed: u64) -> Self {
        let experiments = (1..=seeds).map(|n| Fairness {
            law: law.parse().expect("a known law"),
            seed: seed + n,
            from,
            until,
        });
        let experiments: Vec<_> = experiments.collect();
        let runs = timed(&format!("fairness, {law}"), || {
            in_parallel(&experiments, threads(), Fairness::run)
        });
        FairnessRow {
            law: law.to_owned(),
            share: summary(runs.iter().map(|run| run.share)),
            runs,
        }
    }
}

fn usual_gates(results: &Results) -> Vec<Gate> {
    let coupled = |law: &str| law == "lia" || law == "balia";
    let rows = results.aggregation.iter().filter(|row| coupled(&row.law));
    let least = rows
        .map(|row| row.after_headers.median)
        .fold(f64::INFINITY, f64::min);
    let share = |law: &str| {
        let row = results.fairness.iter().find(|row| row.law == law);
        row.map_or(f64::NAN, |row| row.share.mean)
    };
    let [lia, balia, reno] = ["lia", "balia", "reno"].map(share);
    let order = not_rising(&[lia, reno]) + f64::from(u8::from(balia > lia));
    vec![
        gate("manyway/aggregation").value(least, format!("{least:.3} at least")),
        gate("manyway/fairness-lia").value(lia, format!("{lia:.3}")),
        gate("manyway/fairness-balia").value(balia, format!("{balia:.3}")),
        gate("manyway/fairness-order").value(order, format!("{balia:.3}, {lia:.3}, {reno:.3}")),
    ]
}

fn headline(results: &Results) -> Vec<Headline> {
    let aggregation = results.aggregation.iter().map(|row| {
        let AggregationRow {
            network,
            jitter_ms,
            law,
            ..
        } = row;
        Headline::exact(
            format!("{network}, jitter {jitter_ms} ms, {law}: after headers"),
            row.after_headers.median,
        )
    });
    let fairness = results
        .fairness
        .iter()
        .map(|row| Headline::exact(format!("fairness, {}: share", row.law), row.share.mean));
    let return_path = results.return_path.iter().map(|row| {
        Headline::exact(
            format!(
                "{} flows on the return path, {}: use of path 1",
                row.against, row.law
            ),
            row.run.utilisation[0],
        )
    });
    aggregation.chain(fairness).chain(return_path).collect()
}
