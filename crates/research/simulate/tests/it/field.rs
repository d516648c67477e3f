//! The field matrix: the scenarios in `scenarios/field`, and the table that `docs/field.md` has of
//! them.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use manyway_scenario::{Experiment, Point, Scenario};
use manyway_simulate::packet::{RunResult, Simulation};

/// Where `docs/field.md` has what the scenarios give.
const MARKS: [&str; 2] = [
    "<!-- field: MANYWAY_UPDATE_FIELD=1 cargo test -p manyway-simulate field writes what follows \
     -->\n",
    "<!-- /field -->",
];
const LAW: &str = "flows.main.law";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The 95th percentile of the queueing delay on the worst path of the only flow, in ms: of smoothed
/// round-trip times above those of the links.
fn queueing(experiment: &Experiment, result: &RunResult) -> f64 {
    let from = experiment.measure.from.as_secs_f64();
    let delays = experiment.flows[0].paths.iter().zip(&result.series);
    let delays = delays.map(|(&path, rtts)| {
        let path = &experiment.topology.paths[path];
        let links = path.links.iter().chain(&path.reverse);
        let there = links.map(|&link| experiment.topology.links[link].config.delay.as_secs_f64());
        let base = there.sum::<f64>() + path.return_delay.as_secs_f64();
        let mut measured = rtts.values[(from / rtts.interval_s) as usize..].to_vec();
        measured.sort_by(f64::total_cmp);
        (measured[measured.len() * 95 / 100] - base) * 1e3
    });
    delays.fold(0.0, f64::max)
}

/// What a table says of a point, means of all runs: the goodput in Mbps and the queueing delay in
/// ms of a flow that is alone, or the first of two flows' share in per cent.
fn measured(point: &Point, seeds: u64) -> String {
    let experiment = &point.experiment;
    let (mut first, mut second) = (0.0, 0.0);
    for seed in 0..seeds {
        let mut simulation = Simulation::new(experiment, seed).unwrap();
        let result = simulation.run(&AtomicBool::new(false));
        let (one, other) = match &result.flows[..] {
            [main] => (main.goodput_bps / 1e6, queueing(experiment, &result)),
            [main, other] => {
                let all = main.goodput_bps + other.goodput_bps;
                (100.0 * main.goodput_bps / all, 0.0)
            }
            _ => panic!("one flow, or two"),
        };
        first += one / seeds as f64;
        second += other / seeds as f64;
    }
    match experiment.flows.len() {
        1 if first >= 100.0 => format!("{first:.0}, {second:.0}"),
        1 => format!("{first:.1}, {second:.0}"),
        _ => format!("{first:.0}"),
    }
}

/// A row for each network, a column for each law.
fn table(name: &str) -> String {
    let file = root().join(format!("scenarios/field/{name}.toml"));
    let scenario = Scenario::load(&file).unwrap_or_else(|error| panic!("{error}"));
    let mut rows: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for point in scenario.points().unwrap() {
        let is_law = |(key, _): &&(String, String)| key == LAW;
        let law = point.set.iter().find(is_law).expect("the laws are swept");
        let network: Vec<_> = point.set.iter().filter(|set| !is_law(set)).collect();
        let network = network.iter().map(|(_, value)| value.as_str());
        let network = network.collect::<Vec<_>>().join(", ");
        let network = if network.is_empty() {
            "as it is".to_owned()
        } else {
            network
        };
        let cell = (law.1.clone(), measured(&point, scenario.repeat().into()));
        match rows.iter_mut().find(|row| row.0 == network) {
            Some(row) => row.1.push(cell),
            None => rows.push((network, vec![cell])),
        }
    }
    let mut text = format!(
        "\n`scenarios/field/{name}.toml`. {}:\n\n|",
        scenario.about()
    );
    for (law, _) in &rows[0].1 {
        write!(text, " | `{law}`").unwrap();
    }
    text += &format!(" |\n|---{}|\n", "|--:".repeat(rows[0].1.len()));
    for (network, cells) in &rows {
        write!(text, "| {network}").unwrap();
        for (_, cell) in cells {
            write!(text, " | {cell}").unwrap();
        }
        text += " |\n";
    }
    text
}

#[test]
fn the_field_page_says_what_the_scenarios_give() {
    let path = root().join("docs/field.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MARKS[0]).expect("the page has the marks");
    let (committed, after) = rest.split_once(MARKS[1]).expect("the page has the marks");
    let tables: String = ["apart", "long-fat", "together"].map(table).concat();
    if std::env::var_os("MANYWAY_UPDATE_FIELD").is_some() {
        let [begin, end] = MARKS;
        std::fs::write(path, format!("{before}{begin}{tables}\n{end}{after}")).unwrap();
        return;
    }
    assert!(
        committed.trim() == tables.trim(),
        "docs/field.md is not up to date: run MANYWAY_UPDATE_FIELD=1 cargo test -p \
         manyway-simulate field\n{tables}"
    );
}
