//! What the examples that reproduce papers have in common: running a scenario with every law and
//! parameter in it, tables, gates and files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use manyway_scenario::Scenario;
use manyway_simulate::batch::{self, BatchError, Control, Job, Level, Plan};
use manyway_simulate::measure::Summary;
use manyway_simulate::packet::{RunResult, SimulationError};
use serde::Serialize;

/// A table of means: what was measured of each point of a scenario.
#[derive(Serialize)]
pub(crate) struct Table {
    /// Scenario, and what was changed in it.
    pub(crate) scenario: String,
    pub(crate) set: Vec<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Serialize)]
pub(crate) struct Row {
    /// The point: the values of the swept keys.
    pub(crate) point: Vec<String>,
    /// One for each column.
    pub(crate) values: Vec<Summary>,
}

/// Something that must hold, and whether it does.
#[derive(Serialize)]
pub(crate) struct Gate {
    pub(crate) what: String,
    pub(crate) found: String,
    pub(crate) holds: bool,
    /// Why it doesn't hold, if that has been found out: it fails no run, and is shown all the same.
    pub(crate) explained: Option<&'static str>,
}

/// All that an example has to show.
#[derive(Serialize)]
pub(crate) struct Results {
    pub(crate) gates: Vec<Gate>,
    pub(crate) tables: Vec<Table>,
}

impl Gate {
    pub(crate) fn new(what: &str, found: String, holds: bool) -> Self {
        Gate {
            what: what.to_owned(),
            found,
            holds,
            explained: None,
        }
    }
}

impl Table {
    /// Runs every point of `scenarios/{scenario}.toml`, with keys set, `repeat` times, and takes
    /// from each run the numbers that belong under `columns`.
    pub(crate) fn run(
        (scenario, set): (&str, &[&str]),
        repeat: u32,
        columns: &[&str],
        measure: impl Fn(&RunResult) -> Vec<f64> + Sync,
    ) -> Result<Self, String> {
        let began = Instant::now();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
        let told = |error: manyway_scenario::ScenarioError| error.to_string();
        let mut file =
            Scenario::load(&folder.join(scenario).with_extension("toml")).map_err(told)?;
        for assignment in set {
            file.set(assignment).map_err(told)?;
        }
        let points = file.points().map_err(told)?;
        let plan = Plan {
            scenario: file.name(),
            level: Level::Packet,
            points: &points,
            seed: file.seed(),
            repeat,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            keep_series: true,
        };
        let mut runs: Vec<Vec<Vec<f64>>> = points.iter().map(|_| Vec::new()).collect();
        let sink = |job: &Job, run: &RunResult| {
            runs[job.point].push(measure(run));
            Ok(())
        };
        plan.run(batch::packet, sink, &Control::new())
            .map_err(|error: BatchError<SimulationError>| error.to_string())?;
        let rows = points.iter().zip(&runs).map(|(point, runs)| Row {
            point: point.set.iter().map(|(_, value)| value.clone()).collect(),
            values: (0..columns.len()).map(|n| summary(runs, n)).collect(),
        });
        eprintln!("{scenario}: {:.1} s", began.elapsed().as_secs_f64());
        Ok(Table {
            scenario: scenario.to_owned(),
            set: set
                .iter()
                .map(|&assignment| assignment.to_owned())
                .collect(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: rows.collect(),
        })
    }

    /// The row of the point with these values among its own.
    pub(crate) fn row(&self, point: &[&str]) -> &Row {
        let is = |row: &&Row| {
            point
                .iter()
                .all(|value| row.point.iter().any(|own| own == value))
        };
        let found = self.rows.iter().find(is);
        found.unwrap_or_else(|| panic!("{} has no point {point:?}", self.scenario))
    }

    /// The means of a row.
    pub(crate) fn means(&self, point: &[&str]) -> Vec<f64> {
        self.row(point)
            .values
            .iter()
            .map(|value| value.mean)
            .collect()
    }

    /// As Markdown; `others` are rows to compare with, put before ours.
    pub(crate) fn markdown(&self, others: &[(&str, &[&str])]) -> String {
        let mut page = format!("| | {} |\n|---|", self.columns.join(" | "));
        page += &"--:|".repeat(self.columns.len());
        page.push('\n');
        for (name, cells) in others {
            page += &format!("| *{name}* | {} |\n", cells.join(" | "));
        }
        for row in &self.rows {
            let cells: Vec<String> = row.values.iter().map(cell).collect();
            page += &format!("| {} | {} |\n", row.point.join(", "), cells.join(" | "));
        }
        page
    }
}

fn summary(runs: &[Vec<f64>], n: usize) -> Summary {
    let values: Vec<f64> = runs.iter().map(|run| run[n]).collect();
    Summary::of(&values).expect("at least one run")
}

/// A mean with its 95 % interval, in as many digits as it deserves.
pub(crate) fn cell(value: &Summary) -> String {
    let digits = match value.mean.abs() {
        0.0 => return "0".to_owned(),
        mean if mean < 0.1 => 4,
        mean if mean < 10.0 => 2,
        _ => 1,
    };
    let (mean, ci95) = (value.mean, value.ci95);
    format!("{mean:.digits$} ± {ci95:.digits$}")
}

/// Goodput of the flows with these names in sum, Mbps.
pub(crate) fn goodput(run: &RunResult, flow: &str) -> f64 {
    let flows = run.flows.iter().filter(|known| known.name == flow);
    flows.map(|known| known.goodput_bps).sum::<f64>() / 1e6
}

/// Goodput of subflow `n` of a flow, Mbps.
pub(crate) fn subflow(run: &RunResult, flow: &str, n: usize) -> f64 {
    let flow = run.flows.iter().find(|known| known.name == flow);
    flow.map_or(f64::NAN, |flow| flow.subflows[n].goodput_bps / 1e6)
}

/// Prints the page and writes it to `--out` beside the results as JSON. `page` gets the number of
/// repetitions, which is `full` with `--full` and `short` without.
pub(crate) fn show(
    name: &str,
    (full, short): (u32, u32),
    page: impl Fn(u32) -> Result<(String, Results), String>,
) -> ExitCode {
    match try_show(name, (full, short), page) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("some gates don't hold");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn try_show(
    name: &str,
    (full, short): (u32, u32),
    page: impl Fn(u32) -> Result<(String, Results), String>,
) -> Result<bool, String> {
    let (mut repeat, mut out) = (short, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--full" => repeat = full,
            "--out" => out = Some(PathBuf::from(args.next().ok_or("--out needs a directory")?)),
            other => {
                return Err(format!(
                    "unknown argument {other:?}\nusage: {name} [--full] [--out DIR]"
                ));
            }
        }
    }
    let (text, results) = page(repeat)?;
    let text = text.replace("{gates}", &gates(&results.gates));
    println!("{text}");
    if let Some(dir) = out {
        let told = |error: std::io::Error| format!("can't write to {}: {error}", dir.display());
        fs::create_dir_all(&dir).map_err(told)?;
        fs::write(dir.join(name).with_extension("md"), text).map_err(told)?;
        let json = serde_json::to_string_pretty(&results).map_err(|error| error.to_string())?;
        fs::write(dir.join(name).with_extension("json"), json + "\n").map_err(told)?;
    }
    let fine = |gate: &Gate| gate.holds || gate.explained.is_some();
    Ok(results.gates.iter().all(fine))
}

pub(crate) fn gates(gates: &[Gate]) -> String {
    let rows = gates.iter().map(|gate| {
        let holds = match (gate.holds, gate.explained) {
            (true, _) => "yes".to_owned(),
            (false, Some(reason)) => format!("**no**: {reason}"),
            (false, None) => "**no**".to_owned(),
        };
        format!("| {} | {} | {holds} |\n", gate.what, gate.found)
    });
    format!(
        "| what | found | holds |\n|---|---|---|\n{}",
        rows.collect::<String>()
    )
}
