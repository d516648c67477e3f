//! The experiments of the BMC thesis (`scenarios/bmc`) and its proportion manager's curve, with its
//! numbers beside ours.
//!
//! In short it is a sample: fewer points and repetitions of the same scenarios.

mod cells;
mod gates;
mod manager;

use manyway_simulate::packet::{FlowResult, RunResult, SubflowResult};
use serde_json::Value;

use crate::extent::{Extent, Size};
use crate::failure::Failure;
use crate::gate::Gate;
use crate::measured::{goodput, subflow};
use crate::ours::Ours;
use crate::page::Page;
use crate::runs::{Runs, Source};
use crate::statistics::jain;
use crate::study::{Outcome, Study};
use crate::table::{Row, Table};
use cells::{begin, chosen, excess, explained, lost, matrix, normalised, plus_minus};

/// The study.
pub(crate) struct BmcThesis;

/// Fig. 5.2 to 5.9: the weights, as the scenario writes them.
const WEIGHTS: [(f64, &str); 8] = [
    (0.8, "bmc:p=0.8"),
    (0.75, "bmc:p=0.75"),
    (2.0 / 3.0, "bmc:p=0.6666667"),
    (0.6, "bmc:p=0.6"),
    (0.5, "bmc:p=0.5"),
    (1.0 / 3.0, "bmc:p=0.3333333"),
    (0.25, "bmc:p=0.25"),
    (0.2, "bmc:p=0.2"),
];
/// Fig. 5.12 to 5.17: the bundles, as the thesis and as the scenarios write them.
const BUNDLES: [(&str, &str); 6] = [
    ("3/5 + 2/5 (Fig. 5.12)", "bmc:d1=0.6,d2=0.4"),
    ("2/3 + 1/3 (Fig. 5.13)", "bmc:d1=0.6666667,d2=0.3333333"),
    ("3/4 + 1/4 (Fig. 5.14)", "bmc:d1=0.75,d2=0.25"),
    ("4/5 + 1/5 (Fig. 5.15)", "bmc:d1=0.8,d2=0.2"),
    (
        "3, 4, 5, 6 of 18 (Fig. 5.16)",
        "bmc:d1=0.1666667,d2=0.2222222,d3=0.2777778,d4=0.3333333",
    ),
    (
        "1, 3, 3, 3 of 10 (Fig. 5.17)",
        "bmc:d1=0.1,d2=0.3,d3=0.3,d4=0.3",
    ),
];
const COUNTS: [&str; 8] = ["1", "2", "4", "8", "16", "32", "48", "64"];

/// What is measured of a group of weighted flows or bundles against TCP.
const COLUMNS: [&str; 13] = [
    "weighted, Mbps",
    "TCP, Mbps",
    "ratio",
    "loss events of a packet, %",
    "loss events of a packet, weighted, %",
    "loss events of a packet, TCP, %",
    "packets lost, %",
    "timeouts per 1000 packets, weighted",
    "timeouts per 1000 packets, TCP",
    "window of a weighted subflow, packets",
    "window of TCP, packets",
    "Jain's index, weighted",
    "Jain's index, TCP",
];
const RATIO: usize = 2;
const EVENTS: usize = 3;
const EVENTS_WEIGHTED: usize = 4;
const EVENTS_TCP: usize = 5;
const LOST: usize = 6;

impl Study for BmcThesis {
    fn name(&self) -> &'static str {
        "bmc"
    }

    fn reproduces(&self) -> &'static str {
        "BMC (Honda 2009): Fig. 3.1 to 4.1, 5.2 to 5.18, and its proportion manager, packet level"
    }

    fn cost(&self, size: Size) -> u32 {
        match size {
            Size::Short => 13,
            Size::Full => 600,
        }
    }

    fn run(&self, extent: Extent) -> Result<Outcome, Failure> {
        let runs = extent.runs(10, 3);
        Ok(outcome(Tables::run(extent, runs)?, runs))
    }
}

/// All tables.
struct Tables {
    weighted: Table,
    begin: Table,
    /// The same of one weight, with RED averaging over four times as many packets; in the full
    /// version alone.
    averaged: Option<Table>,
    two: Table,
    four: Table,
    small: Table,
    fig32: Table,
    fig41: Table,
    slow_start: Table,
    restart: Table,
    rtt: Table,
    fig41_far: Table,
}

impl Tables {
    fn run(extent: Extent, runs: Runs) -> Result<Self, Failure> {
        let run =
            |scenario, always: &[&str], sample: &[&str], columns: &[&str], measure: Measure| {
                let set: Vec<_> = match extent.full() {
                    true => always.to_vec(),
                    false => [always, sample].concat(),
                };
                Table::run(Source::new(scenario, &set), runs, columns, measure)
            };
        let counts = |kept: &str| {
            format!("sweep.cases=[{kept}]")
                .replace(
                    "N/4",
                    "{ name = \"16\", \"flows.bundle.count\" = 4, \"flows.tcp.count\" = 16 }",
                )
                .replace(
                    "N/2",
                    "{ name = \"16\", \"flows.bundle.count\" = 8, \"flows.tcp.count\" = 16 }",
                )
        };
        let red = "sweep.cases=[{ name = \"red\" }]";
        Ok(Tables {
            weighted: run(
                "bmc/fig5-10",
                &[],
                &[
                    "sweep.\"flows.weighted.law\"=[\"bmc:p=0.8\", \"bmc:p=0.5\"]",
                    "sweep.\"flows.*.count\"=[8, 32]",
                ],
                &COLUMNS,
                |run| against_tcp(run, "weighted"),
            )?,
            begin: run(
                "bmc/fig5-10",
                &[
                    "measure.from=0 s",
                    "duration=100 s",
                    "sweep.\"flows.*.count\"=[1, 2, 4]",
                ],
                &["sweep.\"flows.weighted.law\"=[\"bmc:p=0.5\"]"],
                &COLUMNS,
                |run| against_tcp(run, "weighted"),
            )?,
            averaged: match extent.full() {
                false => None,
                true => Some(run(
                    "bmc/fig5-10",
                    &[
                        "measure.from=0 s",
                        "duration=100 s",
                        "sweep.\"flows.*.count\"=[1, 2, 4]",
                        "sweep.\"flows.weighted.law\"=[\"bmc:p=0.5\"]",
                        "links.bottleneck.queue={ red = { limit = \"300 packets\", \
                     min = \"50 packets\", max = \"150 packets\", max_p = 0.1, \
                     weight = 0.0005, mean_packet = \"1000 B\" } }",
                    ],
                    &[],
                    &COLUMNS,
                    |run| against_tcp(run, "weighted"),
                )?),
            },
            two: run("bmc/fig5-12", &[], &[&counts("N/2")], &COLUMNS, |run| {
                against_tcp(run, "bundle")
            })?,
            four: run("bmc/fig5-16", &[], &[&counts("N/4")], &COLUMNS, |run| {
                against_tcp(run, "bundle")
            })?,
            small: run(
                "bmc/small-windows",
                &[],
                &[
                    "sweep.\"flows.bundle.law\"=[\"bmc:d1=0.1,d2=0.3,d3=0.3,d4=0.3\"]",
                    "sweep.cases=[{ name = \"floor 2\" }, \
                     { name = \"floor 1\", \"flows.bundle.window_floor\" = \"1 packet\" }, \
                     { name = \"as in ns-2\", \"flows.bundle.window_floor\" = \"1 packet\", \
                     \"flows.bundle.threshold_floor\" = \"2 packets\", \
                     \"flows.tcp.window_floor\" = \"1 packet\", \
                     \"flows.tcp.threshold_floor\" = \"2 packets\" }]",
                ],
                &COLUMNS,
                |run| against_tcp(run, "bundle"),
            )?,
            fig32: run(
                "bmc/fig3-2",
                &[],
                &[
                    "sweep.\"flows.bundle.law\"=[\"bmc\", \"bmc:d1=0.25,d2=0.75\", \
                     \"bmc-proportion\", \"bmc-balance\"]",
                    red,
                ],
                &["bundle", "over 4", "over 12", "TCP"],
                |run| {
                    vec![
                        goodput(run, "bundle"),
                        subflow(run, "bundle", 0),
                        subflow(run, "bundle", 1),
                        goodput(run, "tcp"),
                    ]
                },
            )?,
            fig41: run(
                "bmc/fig4-1",
                &[],
                &[
                    "sweep.\"flows.s2.law\"=[\"bmc\", \"bmc-proportion\", \"bmc-balance\"]",
                    red,
                ],
                &POOLING,
                pooling,
            )?,
            slow_start: run("bmc/slow-start", &[], &[], &STARTED, started)?,
            restart: run("bmc/restart", &[], &[], &RESTARTED, restarted)?,
            rtt: run(
                "bmc/rtt",
                &[],
                &["sweep.\"flows.bundle.law\"=[\"bmc\"]", "duration=200 s"],
                &[
                    "bundle",
                    "near subflow",
                    "far subflow",
                    "near TCP",
                    "far TCP",
                    "loss events of a packet, %",
                    "R·T of the near subflow, packets",
                    "of the far one",
                    "of a near TCP flow",
                    "of a far one",
                ],
                |run| {
                    vec![
                        goodput(run, "bundle"),
                        subflow(run, "bundle", 0),
                        subflow(run, "bundle", 1),
                        mean(run, "near", rate),
                        mean(run, "far", rate),
                        events(run, ""),
                        mean(run, "bundle", |flow| in_flight(flow, 0)),
                        mean(run, "bundle", |flow| in_flight(flow, 1)),
                        mean(run, "near", |flow| in_flight(flow, 0)),
                        mean(run, "far", |flow| in_flight(flow, 0)),
                    ]
                },
            )?,
            fig41_far: run(
                "bmc/fig4-1",
                &[
                    red,
                    "links.ten.delay=80 ms",
                    "sweep.\"flows.s2.law\"=[\"bmc\", \"bmc-balance\"]",
                ],
                &["sweep.\"flows.s2.law\"=[\"bmc-balance\"]"],
                &POOLING,
                pooling,
            )?,
        })
    }

    fn all(self) -> Vec<Table> {
        let always = [
            self.weighted,
            self.begin,
            self.two,
            self.four,
            self.small,
            self.fig32,
            self.fig41,
            self.slow_start,
            self.restart,
            self.rtt,
            self.fig41_far,
        ];
        always.into_iter().chain(self.averaged).collect()
    }
}

type Measure = fn(&RunResult) -> Vec<f64>;

fn outcome(tables: Tables, runs: Runs) -> Outcome {
    let gates = [gates::gates(&tables), manager::gates()].concat();
    let weights = WEIGHTS.map(|(d, law)| (format!("D = {d:.2}"), law));
    let bundles = BUNDLES.map(|(name, law)| (name.to_owned(), law));
    let of_d = |law: &str| {
        WEIGHTS
            .iter()
            .find(|(_, known)| *known == law)
            .map_or(1.0, |(d, _)| *d)
    };
    let ratio = |row: &Row, law: &str| plus_minus(&row.values[RATIO], of_d(law));
    let page = Page::new(include_str!("page.md"))
        .fill("repeat", &runs.repeat.to_string())
        .fill("gates", &Gate::markdown(&gates))
        .fill(
            "ratios",
            &matrix("ratio/D", &[&tables.weighted], &weights, ratio),
        )
        .fill(
            "throughput",
            &matrix("weighted / TCP", &[&tables.weighted], &weights, normalised),
        )
        .fill(
            "events",
            &matrix("%", &[&tables.weighted], &weights, |row, _| {
                format!("{:.3}", row.values[EVENTS].mean)
            }),
        )
        .fill(
            "excess",
            &matrix("weighted over TCP", &[&tables.weighted], &weights, excess),
        )
        .fill(
            "explained",
            &matrix(
                "measured ratio over eq. (3.2)'s",
                &[&tables.weighted],
                &weights,
                explained,
            ),
        )
        .fill(
            "begin",
            &matrix("events / packets, %", &[&tables.begin], &weights, begin),
        )
        .fill("averaged", &lost(tables.averaged.as_ref()))
        .fill(
            "begin-ratios",
            &matrix("ratio/D", &[&tables.begin], &weights, ratio),
        )
        .fill(
            "bundles",
            &matrix(
                "bundle over TCP",
                &[&tables.two, &tables.four],
                &bundles,
                ratio,
            ),
        )
        .fill("small", &chosen(&tables.small, &[RATIO, 9, 10, 4, 5, 7, 8]))
        .fill(
            "fig32",
            &tables.fig32.markdown(&[
                ("ideal", &["15.0", "3.75", "11.25", "15.0"]),
                ("equal weights, on paper", &["12.67", "4", "8.67", "17.33"]),
            ]),
        )
        .fill(
            "fig41",
            &tables.fig41.markdown(&[
                ("ideal", &["6", "6", "6", "2", "4", "0"]),
                (
                    "equal weights, on paper",
                    &["5.33", "6", "6.67", "2.67", "3.33", "1.33"],
                ),
            ]),
        )
        .fill("slow-start", &tables.slow_start.markdown(&[]))
        .fill("restart", &tables.restart.markdown(&[]))
        .fill("rtt", &tables.rtt.markdown(&[]))
        .fill("fig41-far", &tables.fig41_far.markdown(&[]))
        .text();
    let ratio = RATIO..RATIO + 1;
    let headline = [
        tables.weighted.headline("Fig. 5.10", &["8"], ratio.clone()),
        tables
            .weighted
            .headline("Fig. 5.10", &["16"], ratio.clone()),
        tables
            .weighted
            .headline("Fig. 5.10", &["32"], ratio.clone()),
        tables
            .two
            .headline("bundles of two", &["16"], ratio.clone()),
        tables
            .four
            .headline("bundles of four", &["16"], ratio.clone()),
        tables.small.headline("N = 64", &["floor 1"], ratio),
        tables.fig32.headline("Fig. 3.2", &["red"], 0..1),
        tables.fig41.headline("Fig. 4.1", &["red"], [0, 2]),
    ]
    .concat();
    Outcome {
        page,
        gates,
        ours: ours(&tables),
        tables: tables.all(),
        headline,
        figures: vec![manager::figure()],
        details: Value::Null,
    }
}

/// What stands beside the thesis' numbers.
fn ours(tables: &Tables) -> Vec<Ours> {
    let red = |law| &tables.fig32.row(&[law, "red"]).values[0];
    let mut ours = vec![
        Ours::mean("bmc/figure-3-1", "bundle, equal weights", red("bmc")),
        Ours::mean(
            "bmc/figure-3-2",
            "bundle, weights 1/4 and 3/4",
            red("bmc:d1=0.25,d2=0.75"),
        ),
        Ours::mean("bmc/figure-3-2", "bundle, bmc-balance", red("bmc-balance")),
        Ours::mean(
            "bmc/figure-3-2",
            "bundle, the manager as printed",
            red("bmc-proportion"),
        ),
    ];
    let pooled = &tables.fig41.row(&["bmc-balance", "red"]).values;
    for (source, rate) in ["s1", "s2", "s3"].iter().zip(pooled) {
        let name = format!("{source}, bmc-balance");
        ours.push(Ours::mean("bmc/figure-4-1", name, rate));
    }
    for (weight, law) in [(0.8, "bmc:p=0.8"), (0.5, "bmc:p=0.5")] {
        for count in ["8", "32"] {
            let ratio = &tables.weighted.row(&[law, count]).values[RATIO];
            let name = format!("D = {weight}, N = {count}");
            ours.push(Ours::mean("bmc/figure-5-10", name, ratio));
        }
    }
    for (count, name) in [("1", "1 flow"), ("2", "2 flows"), ("4", "4 flows")] {
        let events = &tables.begin.row(&["bmc:p=0.5", count]).values[EVENTS];
        ours.push(Ours::mean("bmc/figure-5-11", name, events));
    }
    for (claim, table) in [
        ("bmc/figure-5-12", &tables.two),
        ("bmc/figure-5-16", &tables.four),
    ] {
        for row in table.rows.iter().filter(|row| row.has(&["16"])) {
            let name = format!("{}, N = 16", gates::name(&row.point[0]));
            ours.push(Ours::mean(claim, name, &row.values[RATIO]));
        }
    }
    ours.extend(manager::ours());
    ours
}

/// The members of a group; of all with an empty name.
fn members<'a>(run: &'a RunResult, group: &'a str) -> impl Iterator<Item = &'a FlowResult> {
    run.flows.iter().filter(move |flow| {
        flow.name
            .split('.')
            .next()
            .is_some_and(|name| group.is_empty() || name == group)
    })
}

fn mean(run: &RunResult, group: &str, of: fn(&FlowResult) -> f64) -> f64 {
    members(run, group).map(of).sum::<f64>() / members(run, group).count() as f64
}

/// Rate times round-trip time of subflow `n`, in packets of 1000 B.
fn in_flight(flow: &FlowResult, n: usize) -> f64 {
    let subflow = &flow.subflows[n];
    subflow.goodput_bps / 8000.0 * subflow.rtt_mean_s
}

fn rate(flow: &FlowResult) -> f64 {
    flow.goodput_bps / 1e6
}

fn total(run: &RunResult, group: &str, of: fn(&SubflowResult) -> u64) -> f64 {
    let subflows = members(run, group).flat_map(|flow| &flow.subflows);
    subflows.map(of).sum::<u64>() as f64
}

/// Loss events per 100 packets.
fn events(run: &RunResult, group: &str) -> f64 {
    100.0 * total(run, group, |s| s.loss_events) / total(run, group, |s| s.packets_sent)
}

/// What [`COLUMNS`] say.
fn against_tcp(run: &RunResult, group: &'static str) -> Vec<f64> {
    let timeouts =
        |group| 1000.0 * total(run, group, |s| s.timeouts) / total(run, group, |s| s.packets_sent);
    let window = |group| {
        let subflows = || members(run, group).flat_map(|flow| &flow.subflows);
        subflows().map(|s| s.window_mean_packets).sum::<f64>() / subflows().count() as f64
    };
    let jain = |group| jain(&members(run, group).map(rate).collect::<Vec<_>>());
    let (ours, tcp) = (mean(run, group, rate), mean(run, "tcp", rate));
    vec![
        ours,
        tcp,
        ours / tcp,
        events(run, ""),
        events(run, group),
        events(run, "tcp"),
        100.0 * total(run, "", |s| s.packets_lost) / total(run, "", |s| s.packets_sent),
        timeouts(group),
        timeouts("tcp"),
        window(group),
        window("tcp"),
        jain(group),
        jain("tcp"),
    ]
}

const POOLING: [&str; 6] = ["s1", "s2", "s3", "s2 over 8", "s2 over 10", "s1 from s3"];

fn pooling(run: &RunResult) -> Vec<f64> {
    let [s1, s2, s3] = ["s1", "s2", "s3"].map(|flow| goodput(run, flow));
    vec![
        s1,
        s2,
        s3,
        subflow(run, "s2", 0),
        subflow(run, "s2", 1),
        (s1 - s3).abs(),
    ]
}

/// Goodput of a group's mean member in a span, Mbps; NaN if there is none.
fn in_span(run: &RunResult, group: &str, span: usize) -> f64 {
    let count = members(run, group).count() as f64;
    let subflows = members(run, group).flat_map(|flow| &flow.subflows);
    subflows.map(|s| s.spans_bps[span]).sum::<f64>() / 1e6 / count
}

const STARTED: [&str; 5] = [
    "its Mbps in 4 s",
    "its Mbps in 10 s",
    "packets it loses",
    "packets others lose, in sum",
    "its timeouts",
];

fn started(run: &RunResult) -> Vec<f64> {
    vec![
        in_span(run, "new", 0),
        goodput(run, "new"),
        total(run, "new", |s| s.packets_lost),
        total(run, "old", |s| s.packets_lost),
        total(run, "new", |s| s.timeouts),
    ]
}

const RESTARTED: [&str; 4] = [
    "over a TCP flow, before",
    "over a TCP flow, in the 8 s after",
    "its Mbps in the 8 s after",
    "a TCP flow's",
];

fn restarted(run: &RunResult) -> Vec<f64> {
    let over = |span| in_span(run, "new", span) / in_span(run, "old", span);
    vec![
        over(0),
        over(1),
        in_span(run, "new", 1),
        in_span(run, "old", 1),
    ]
}
