//! Runs the experiments that manyway is judged by, under the virtual clock, and writes a table and
//! the raw results.
//!
//! `cargo run --release -p manyway-simulate --features stack --example must_show -- [--full]
//! [--stateful] [--out DIR]`
//!
//! Without `--full` it is a short version (fewer seeds, shorter runs) that shows the same picture
//! with wider intervals. With `--stateful` it is the laws that keep a state of their own which run
//! (wVegas, BMC, mPath), and the results are called `must_show_stateful`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use manyway_simulate::measure::{Summary, in_parallel};
use manyway_simulate::stack::experiments::{
    AGGREGATION_NETWORKS, Aggregation, AggregationRun, Fairness, FairnessRun, PACKET_BYTES,
    ReturnPath, ReturnPathRun, payload_bytes,
};
use manyway_units::Rate;
use serde::Serialize;

struct Options {
    full: bool,
    stateful: bool,
    out: Option<PathBuf>,
}

/// How much is run.
#[derive(Serialize)]
struct Extent {
    aggregation_seeds: u64,
    aggregation_from: f64,
    aggregation_until: f64,
    fairness_seeds: u64,
    fairness_from: f64,
    fairness_until: f64,
}

#[derive(Serialize)]
struct Results {
    extent: Extent,
    packet_bytes: usize,
    payload_bytes: usize,
    aggregation: Vec<AggregationRow>,
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
    /// Reno flows over the first path's way back.
    against: usize,
    run: ReturnPathRun,
}

const FULL: Extent = Extent {
    aggregation_seeds: 5,
    aggregation_from: 15.0,
    aggregation_until: 75.0,
    fairness_seeds: 20,
    fairness_from: 30.0,
    fairness_until: 300.0,
};

const SHORT: Extent = Extent {
    aggregation_seeds: 3,
    aggregation_from: 15.0,
    aggregation_until: 35.0,
    fairness_seeds: 6,
    fairness_from: 30.0,
    fairness_until: 120.0,
};

/// What runs which experiment, and what the results are called.
struct Laws {
    name: &'static str,
    aggregation: &'static [&'static str],
    fairness: &'static [&'static str],
    return_path: &'static [&'static str],
}

const USUAL: Laws = Laws {
    name: "must_show",
    aggregation: &["lia", "balia", "cubic", "reno"],
    fairness: &["lia", "balia", "reno"],
    return_path: &[],
};

const STATEFUL: Laws = Laws {
    name: "must_show_stateful",
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
};

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\nusage: must_show [--full] [--stateful] [--out DIR]");
            return ExitCode::from(2);
        }
    };
    let laws = if options.stateful { STATEFUL } else { USUAL };
    let results = run(if options.full { FULL } else { SHORT }, &laws);
    let table = markdown(&results, &laws);
    println!("{table}");
    if let Some(dir) = options.out
        && let Err(error) = write(&dir, laws.name, &table, &results)
    {
        eprintln!("cannot write the results to {}: {error}", dir.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        full: false,
        stateful: false,
        out: None,
    };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--full" => options.full = true,
            "--stateful" => options.stateful = true,
            "--out" => options.out = Some(args.next().ok_or("--out needs a directory")?.into()),
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    Ok(options)
}

fn run(extent: Extent, laws: &Laws) -> Results {
    let mut aggregation = Vec::new();
    for (network, paths) in AGGREGATION_NETWORKS {
        for (jitter_ms, law) in [0, 1]
            .into_iter()
            .flat_map(|ms| laws.aggregation.iter().map(move |&law| (ms, law)))
        {
            let experiments: Vec<_> = (1..=extent.aggregation_seeds)
                .map(|seed| Aggregation {
                    paths: paths
                        .iter()
                        .map(|(mbps, ms)| (Rate::from_mbps(*mbps), Duration::from_millis(*ms)))
                        .collect(),
                    law: law.parse().expect("a known law"),
                    jitter: Duration::from_millis(jitter_ms),
                    seed,
                    from: extent.aggregation_from,
                    until: extent.aggregation_until,
                })
                .collect();
            let runs = timed(&format!("{network}, jitter {jitter_ms} ms, {law}"), || {
                in_parallel(&experiments, threads(), Aggregation::run)
            });
            aggregation.push(AggregationRow {
                network: network.to_owned(),
                jitter_ms,
                law: law.to_owned(),
                after_headers: summary(runs.iter().map(|run| run.after_headers)),
                of_wire: summary(runs.iter().map(|run| run.of_wire)),
                ramp_up: Summary::of(
                    &runs
                        .iter()
                        .filter_map(|run| run.ramp_up)
                        .collect::<Vec<_>>(),
                ),
                runs,
            });
        }
    }
    let fairness = laws.fairness.iter().map(|&law| {
        let experiments: Vec<_> = (1..=extent.fairness_seeds)
            .map(|seed| Fairness {
                law: law.parse().expect("a known law"),
                seed,
                from: extent.fairness_from,
                until: extent.fairness_until,
            })
            .collect();
        let runs = timed(&format!("fairness, {law}"), || {
            in_parallel(&experiments, threads(), Fairness::run)
        });
        FairnessRow {
            law: law.to_owned(),
            share: summary(runs.iter().map(|run| run.share)),
            runs,
        }
    });
    let fairness = fairness.collect();
    Results {
        extent,
        packet_bytes: PACKET_BYTES,
        payload_bytes: payload_bytes(),
        aggregation,
        fairness,
        return_path: return_path(laws.return_path),
    }
}

/// Short runs without anything random but keys: one seed each.
fn return_path(laws: &[&str]) -> Vec<ReturnPathRow> {
    let experiments = laws.iter().flat_map(|&law| {
        [0, 1, 4].map(|against| ReturnPath {
            law: law.parse().expect("a known law"),
            against,
            seed: 1,
            from: 20.0,
            until: 80.0,
        })
    });
    let experiments: Vec<_> = experiments.collect();
    let runs = timed("return path", || {
        in_parallel(&experiments, threads(), ReturnPath::run)
    });
    let rows = experiments.into_iter().zip(runs);
    let rows = rows.map(|(experiment, run)| ReturnPathRow {
        law: experiment.law.to_string(),
        against: experiment.against,
        run,
    });
    rows.collect()
}

fn summary(values: impl Iterator<Item = f64>) -> Summary {
    Summary::of(&values.collect::<Vec<_>>()).expect("at least one seed")
}

/// The results don't depend on it.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn timed<R>(what: &str, job: impl FnOnce() -> R) -> R {
    let began = Instant::now();
    let result = job();
    eprintln!("{what}: {:.1} s", began.elapsed().as_secs_f64());
    result
}

fn markdown(results: &Results, laws: &Laws) -> String {
    let Extent {
        aggregation_seeds,
        aggregation_from,
        aggregation_until,
        fairness_seeds,
        fairness_from,
        fairness_until,
    } = results.extent;
    let (payload, packet) = (results.payload_bytes, results.packet_bytes);
    let mut out = String::new();
    let (aggregation_gate, fairness_gate) = match laws.name == USUAL.name {
        true => (
            " Gate: LIA and Balia at least 0.93 after headers.",
            " Gate: LIA 0.45-0.59, Balia 0.45-0.56, Balia ≤ LIA < uncoupled Reno (near 0.67).",
        ),
        false => ("", ""),
    };
    let _ = write!(
        out,
        "# Aggregation and fairness under the virtual clock\n\n\
         Production sessions (handshake, sealing, streams, scheduler, congestion control) over \
         virtual links: one-way delays, DropTail of one bandwidth-delay product (rate × round \
         trip), outer packets of {packet} bytes. Made by `cargo run --release -p manyway-simulate \
         --features stack --example must_show -- --full{stateful} --out docs/results`; every run \
         repeats bit for bit.\n\n\
         ## Aggregation\n\n\
         One connection alone, mean goodput (stream bytes read in order) over \
         {aggregation_from}-{aggregation_until} s, median of {aggregation_seeds} seeds. Without \
         sender jitter nothing in such a run is random but keys, so seeds hardly matter; with it \
         they do. *After headers* is the fraction of Σ rate × {payload}/{packet}: {payload} stream \
         bytes in a packet of {packet} (28 IPv4 and UDP, 14 header, 16 tag, {frame} frame header); \
         *of the wire* is the fraction of Σ rate. Ramp-up: from the first handshake packet to the \
         begin of the first second in which 90 % of the sum after headers \
         arrived.{aggregation_gate}\n\n\
         | network | sender jitter | law | after headers | min - max | of the wire | ramp-up, s \
         |\n|---|---|---|---|---|---|---|\n",
        frame = packet - 28 - 14 - 16 - payload,
        stateful = if laws.name == USUAL.name {
            ""
        } else {
            " --stateful"
        },
    );
    for row in &results.aggregation {
        let ramp_up = match row.ramp_up {
            Some(ramp_up) if ramp_up.runs == row.runs.len() => format!("{:.1}", ramp_up.median),
            Some(ramp_up) => format!(
                "{:.1} ({} of {} runs)",
                ramp_up.median,
                ramp_up.runs,
                row.runs.len()
            ),
            None => "never".to_owned(),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.3} | {:.3} - {:.3} | {:.3} | {ramp_up} |",
            row.network,
            if row.jitter_ms == 0 {
                "none".to_owned()
            } else {
                format!("0-{} ms", row.jitter_ms)
            },
            row.law,
            row.after_headers.median,
            row.after_headers.min,
            row.after_headers.max,
            row.of_wire.median,
        );
    }
    let _ = write!(
        out,
        "\n## Fairness\n\n\
         Two subflows of one connection against one single-path Reno connection through a \
         bottleneck of 20 Mbps and 10 ms one way; {fairness_seeds} seeds, \
         {fairness_from}-{fairness_until} s, staggered starts, sender jitter uniform in 0-1 ms per \
         packet without reordering, no pacing. Share of the connection with two subflows, mean and \
         95 % interval.{fairness_gate}\n\n\
         | law | share | 95 % interval | min - max | multipath, Mbps | single path, Mbps | \
         windows, packets |\n|---|---|---|---|---|---|---|\n",
    );
    for row in &results.fairness {
        let mean = |of: fn(&FairnessRun) -> f64| summary(row.runs.iter().map(of)).mean;
        let share = row.share;
        let _ = writeln!(
            out,
            "| {} | {:.3} | ± {:.3} | {:.3} - {:.3} | {:.2} | {:.2} | {:.1} + {:.1}, {:.1} |",
            row.law,
            share.mean,
            share.ci95,
            share.min,
            share.max,
            mean(|run| run.multipath_mbps),
            mean(|run| run.single_mbps),
            mean(|run| run.windows[0]),
            mean(|run| run.windows[1]),
            mean(|run| run.windows[2]),
        );
    }
    out += &return_path_markdown(&results.return_path);
    out
}

fn return_path_markdown(rows: &[ReturnPathRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out = "\n## A congested way back\n\n\
        One connection over two paths of 10 Mbps, 25 ms one way; acknowledgements of the first one \
        come back through a DropTail queue of 100 packets, 120 ms, that so many Reno flows fill. \
        20 to 80 s: both paths' links there, used of their capacity.\n\n\
        | law | Reno flows on the way back | path 1 | path 2 | goodput, Mbps | path 1's round trip \
        at the end, ms |\n|---|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for ReturnPathRow { law, against, run } in rows {
        let ([one, two], goodput, [rtt, _]) = (run.utilisation, run.goodput_mbps, run.rtt_ms);
        let _ = writeln!(
            out,
            "| {law} | {against} | {one:.3} | {two:.3} | {goodput:.2} | {rtt:.0} |"
        );
    }
    out
}

fn write(dir: &Path, name: &str, table: &str, results: &Results) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let file = dir.join(name);
    std::fs::write(file.with_extension("md"), table)?;
    let mut json = serde_json::to_string_pretty(results)?;
    json.push('\n');
    std::fs::write(file.with_extension("json"), json)
}
