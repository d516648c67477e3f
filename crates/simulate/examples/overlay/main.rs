//! The overlay paper's numerical study (Fig. 3 to 7) on the flow level, and tables with its numbers beside ours.
//!
//! `cargo run --release -p manyway-simulate --example overlay -- [--full] [--out DIR]`
//!
//! Without `--full` it is a sample: fewer selections, and fewer iterations at most.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../papers/mod.rs"]
#[allow(dead_code, reason = "shared with other examples")]
mod papers;
mod rates;
mod selection;

use std::process::ExitCode;

use manyway_control::overlay::{RateConfig, SelectConfig};
use manyway_simulate::flow::{InvalidFlows, Overlay, Rules, Sharing, Start};
use manyway_simulate::measure::{Summary, in_parallel};
use papers::{Gate, Results, Row, Table, show};

/// Selections of each point with and without `--full`.
const REPEAT: (u32, u32) = (30, 2);
/// Section 5: so many sources and relays, with 1.2 Mbps each.
const SOURCES: usize = 100;
const DEMAND: f64 = 1.2e6;
const SKEWS: [f64; 3] = [0.0, 0.5, 1.0];
/// Of equal loss the sums of rates are those of proportional sharing: a controller only sees whether its increment has succeeded, which by both rules it has on links that aren't
/// overloaded. So sums are shown by two rules; who is satisfied, and reselects, by all three.
const RULES: [Sharing; 2] = [Sharing::MaxMin, Sharing::Proportional];

fn main() -> ExitCode {
    show("overlay", REPEAT, page)
}

/// A part of the page: its tables by their names in the text, and what must hold.
struct Part {
    tables: Vec<(&'static str, Table)>,
    gates: Vec<Gate>,
}

fn page(repeat: u32) -> Result<(String, Results), String> {
    let parts = [rates::part(repeat), selection::part(repeat)];
    let mut text = include_str!("../papers/overlay.md").replace("{repeat}", &repeat.to_string());
    let (mut gates, mut tables) = (Vec::new(), Vec::new());
    for part in parts {
        let part = part?;
        gates.extend(part.gates);
        for (name, table) in part.tables {
            text = text.replace(&format!("{{{name}}}"), &table.markdown(&[]));
            tables.push(table);
        }
    }
    Ok((text, Results { gates, tables }))
}

/// The setting of section 5, for a skew b and a ratio f.
fn overlay(skew: f64, ratio: f64) -> Overlay {
    Overlay::skewed(vec![DEMAND; SOURCES], skew, ratio)
}

/// A uniform selection of k relays by each source.
fn uniform(overlay: &Overlay, paths: usize, seed: u64) -> Result<Vec<Vec<usize>>, InvalidFlows> {
    overlay.select(SelectConfig::new(paths), seed)
}

/// δ = 0, as rates are exact here.
fn rules(control: RateConfig, start: Start, sharing: Sharing) -> Rules {
    Rules {
        control: control.with_tolerance(0.0),
        start,
        sharing,
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// One row per point, from `repeat` runs of each with seeds from 1 on.
fn tabulate<P: Sync>(
    name: &str,
    columns: &[&str],
    (points, repeat): (&[(Vec<String>, P)], u32),
    run: impl Fn(&P, u64) -> Result<Vec<f64>, String> + Send + Sync,
) -> Result<Table, String> {
    let began = std::time::Instant::now();
    let jobs: Vec<(usize, u64)> = (0..points.len())
        .flat_map(|point| (1..=u64::from(repeat)).map(move |seed| (point, seed)))
        .collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let done = in_parallel(&jobs, threads, |&(point, seed)| run(&points[point].1, seed));
    let done: Vec<Vec<f64>> = done.into_iter().collect::<Result<_, _>>()?;
    let row = |((point, _), runs): (&(Vec<String>, P), &[Vec<f64>])| Row {
        point: point.clone(),
        values: (0..columns.len())
            .map(|column| {
                let values: Vec<f64> = runs.iter().map(|run| run[column]).collect();
                Summary::of(&values).expect("at least one run")
            })
            .collect(),
    };
    eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f64());
    Ok(Table {
        scenario: name.to_owned(),
        set: Vec::new(),
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
        rows: points
            .iter()
            .zip(done.chunks(repeat as usize))
            .map(row)
            .collect(),
    })
}

fn told(error: InvalidFlows) -> String {
    error.to_string()
}
