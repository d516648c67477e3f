//! Runs the experiments of the BMC thesis (`scenarios/bmc`) and writes tables with its numbers beside ours.
//!
//! `cargo run --release -p manyway-simulate --example bmc -- [--full] [--out DIR]`
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod papers;

use std::process::ExitCode;

use manyway_simulate::packet::{FlowResult, RunResult};
use papers::{Gate, Results, Table, goodput, show, subflow};

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
/// The numbers of flows for which the ratio must be D.
const JUDGED: [&str; 3] = ["8", "16", "32"];
const LAWS: [&str; 6] = [
    "reno",
    "bmc",
    "ideal",
    "bmc-proportion",
    "bmc-proportion:k=0.25",
    "bmc-balance",
];

fn main() -> ExitCode {
    show("bmc", (10, 3), page)
}

fn page(repeat: u32) -> Result<(String, Results), String> {
    let weighted_columns = [
        "weighted, Mbps",
        "TCP, Mbps",
        "ratio",
        "loss events of a packet, %",
        "timeouts per flow, weighted",
        "TCP",
    ];
    let weighted = Table::run(
        ("bmc/fig5-10", &[]),
        repeat,
        &weighted_columns,
        against_tcp("weighted"),
    )?;
    let bundle_columns = [
        "bundle, Mbps",
        "TCP, Mbps",
        "ratio",
        "loss events of a packet, %",
        "timeouts per flow, bundle",
        "TCP",
    ];
    let two = Table::run(
        ("bmc/fig5-12", &[]),
        repeat,
        &bundle_columns,
        against_tcp("bundle"),
    )?;
    let four = Table::run(
        ("bmc/fig5-16", &[]),
        repeat,
        &bundle_columns,
        against_tcp("bundle"),
    )?;
    let fig32 = Table::run(
        ("bmc/fig3-2", &[]),
        repeat,
        &["bundle", "over 4", "over 12", "TCP"],
        |run| {
            vec![
                goodput(run, "bundle"),
                subflow(run, "bundle", 0),
                subflow(run, "bundle", 1),
                goodput(run, "tcp"),
            ]
        },
    )?;
    let fig41 = Table::run(
        ("bmc/fig4-1", &[]),
        repeat,
        &["s1", "s2", "s3", "s2 over 8", "s2 over 10", "s1 from s3"],
        pooling,
    )?;
    let gates = [
        weighted_gate(&weighted),
        bundle_gate("Fig. 5.12 to 5.15", &two),
        bundle_gate("Fig. 5.16 and 5.17", &four),
        balance_gate(&fig32, "red"),
        balance_gate(&fig32, "drop-tail"),
        pooling_gate(&fig41, "red"),
        pooling_gate(&fig41, "drop-tail"),
    ];
    let text = include_str!("papers/bmc.md")
        .replace("{repeat}", &repeat.to_string())
        .replace("{ratios}", &ratios(&weighted))
        .replace("{weighted}", &weighted.markdown(&[]))
        .replace("{two}", &two.markdown(&[]))
        .replace("{four}", &four.markdown(&[]))
        .replace(
            "{fig32}",
            &fig32.markdown(&[
                ("ideal", &["15.0", "3.75", "11.25", "15.0"]),
                ("equal weights, on paper", &["12.67", "4", "8.67", "17.33"]),
            ]),
        )
        .replace(
            "{fig41}",
            &fig41.markdown(&[
                ("ideal", &["6", "6", "6", "2", "4", "0"]),
                (
                    "equal weights, on paper",
                    &["5.33", "6", "6.67", "2.67", "3.33", "1.33"],
                ),
            ]),
        );
    let results = Results {
        gates: gates.into(),
        tables: vec![weighted, two, four, fig32, fig41],
    };
    Ok((text, results))
}

/// Means per flow of a group and of TCP, and how they lose.
fn against_tcp(group: &'static str) -> impl Fn(&RunResult) -> Vec<f64> + Sync {
    move |run| {
        let members = |name: &'static str| {
            run.flows
                .iter()
                .filter(move |flow| flow.name.starts_with(name))
        };
        let mean = |name, of: fn(&FlowResult) -> f64| {
            members(name).map(of).sum::<f64>() / members(name).count() as f64
        };
        let rate = |flow: &FlowResult| flow.goodput_bps / 1e6;
        let timeouts = |flow: &FlowResult| {
            flow.subflows
                .iter()
                .map(|subflow| subflow.timeouts as f64)
                .sum()
        };
        let subflows = || run.flows.iter().flat_map(|flow| &flow.subflows);
        let losses: u64 = subflows().map(|subflow| subflow.loss_events).sum();
        let packets: u64 = subflows().map(|subflow| subflow.packets_sent).sum();
        let (ours, tcp) = (mean(group, rate), mean("tcp", rate));
        vec![
            ours,
            tcp,
            ours / tcp,
            100.0 * losses as f64 / packets as f64,
            mean(group, timeouts),
            mean("tcp", timeouts),
        ]
    }
}

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

/// Fig. 5.10 as a table: ratio over weight.
fn ratios(table: &Table) -> String {
    let counts = ["1", "2", "4", "8", "16", "32", "48", "64"];
    let mut page = format!(
        "| ratio/D | N = {} |\n|---|{}\n",
        counts.join(" | "),
        "--:|".repeat(counts.len())
    );
    for (weight, law) in WEIGHTS {
        let cells = counts.map(|count| {
            let ratio = &table.row(&[law, count]).values[2];
            format!("{:.2} ± {:.2}", ratio.mean / weight, ratio.ci95 / weight)
        });
        page += &format!("| D = {weight:.2} | {} |\n", cells.join(" | "));
    }
    page
}

fn weighted_gate(table: &Table) -> Gate {
    let cells = WEIGHTS.iter().filter(|(weight, _)| *weight >= 0.25);
    let cells =
        cells.flat_map(|&(weight, law)| JUDGED.map(|count| table.means(&[law, count])[2] / weight));
    let (low, high) = cells.fold((f64::INFINITY, 0.0f64), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    Gate::new(
        "Fig. 5.10: ratio to TCP within 10 % of D for 8 ≤ N ≤ 32 and D ≥ 1/4",
        format!("ratio/D {low:.3} to {high:.3}"),
        low >= 0.9 && high <= 1.1,
    )
}

fn bundle_gate(figure: &str, table: &Table) -> Gate {
    let ratios = table.rows.iter().map(|row| row.values[2].mean);
    let (low, high) = ratios.fold((f64::INFINITY, 0.0f64), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    Gate::new(
        &format!("{figure}: bundles get 1.0 ± 0.2 of a TCP flow, all N"),
        format!("{low:.2} to {high:.2}"),
        low >= 0.8 && high <= 1.2,
    )
}

/// The name of the fixed ideal weights in a scenario.
fn spelled(law: &'static str, ideal: &'static str) -> &'static str {
    if law == "ideal" { ideal } else { law }
}

fn balance_gate(table: &Table, case: &str) -> Gate {
    let [equal, ideal, published, balance] = [LAWS[1], LAWS[2], LAWS[3], LAWS[5]]
        .map(|law| table.means(&[spelled(law, "bmc:d1=0.25,d2=0.75"), case])[0]);
    Gate::new(
        &format!(
            "Fig. 3.2, {case}: the proportion manager that rests gets at least 95 % of what fixed ideal weights get"
        ),
        format!(
            "{balance:.2} of {ideal:.2} Mbps, {:.1} % (equal weights {equal:.2}, as published {published:.2})",
            100.0 * balance / ideal
        ),
        balance >= 0.95 * ideal,
    )
}

fn pooling_gate(table: &Table, case: &str) -> Gate {
    // The means' difference: of each run's it has the noise in it.
    let difference = |law: &str| {
        let row = table.means(&[law, case]);
        (row[0] - row[2]).abs()
    };
    let [equal, balance, published] = [LAWS[1], LAWS[5], LAWS[3]].map(difference);
    Gate::new(
        &format!("Fig. 4.1, {case}: it brings s1 and s3 closer together than equal weights do"),
        format!("{balance:.2} against {equal:.2} Mbps (as published {published:.2})"),
        balance < equal,
    )
}
