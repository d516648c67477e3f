//! Fig. 5 to 7: path selection, with AIAD-maxmin and ε = 0.01.

use manyway_simulate::batch::{OverlayDone, OverlayLevel};

use super::papers::{Gate, Row, Table};
use super::study::{Study, headings};
use super::{Part, REPEAT};

/// Iterations at most in a sample; the files have what a full run has.
const SAMPLE: usize = 100;

pub(crate) fn part(full: bool, repeat: u32) -> Result<Part, String> {
    let run = |name| Study::run((name, &[]), repeat, OverlayLevel::Flow);
    let limit = format!("overlay.reselect.iterations={SAMPLE}");
    let limited: &[&str] = if full { &[] } else { &[&limit] };
    // Numbers of iterations scatter widely: the threshold that is judged has all runs in a sample, too.
    let one: &[&str] = if full {
        &[]
    } else {
        &["sweep.\"overlay.reselect.satisfied\"=[0.92]"]
    };
    let fig5 = run("fig5")?;
    let fig6 = run("fig6")?;
    let thresholds = Study::run(("fig7-thresholds", one), REPEAT.0, OverlayLevel::Flow)?;
    let fig7 = Study::run(("fig7", limited), repeat, OverlayLevel::Flow)?;
    let baseline = Study::run(("fig7-baseline", limited), repeat, OverlayLevel::Flow)?;
    let mut part = Part::default();
    let table = rates(&fig5, "k = ");
    part.gates.push(gate_5("Fig. 5", &table));
    part.tables.push(("fig5", table));
    if full {
        let mixed = run("fig5-heterogeneous")?;
        let table = rates(&mixed, "k = ");
        part.gates
            .push(gate_5("Fig. 5 with heterogeneous demands", &table));
        part.tables.push(("fig5h", table));
        part.studies.push(("fig5h", mixed));
    }
    let table = rates(&fig6, "f = ");
    part.gates.extend(gates_6(&table));
    part.tables.push(("fig6", table));
    let columns = headings(["k-reselection", "found", "1-reselection", "found"]);
    let table = thresholds.table(2, &columns, searches);
    part.gates.push(gate_thresholds(&table));
    part.tables.push(("thresholds", table));
    part.tables.push(("fig7", figure_7(&fig7)));
    let columns = headings([
        "everyone",
        "found",
        "k-reselection",
        "found",
        "1-reselection",
        "found",
    ]);
    let table = baseline.table(2, &columns, searches);
    let limit = baseline.points[0].experiment.iterations.unwrap_or(0);
    part.gates.push(gate_baseline(&table, limit));
    part.tables.push(("baseline", table));
    part.studies.extend([
        ("fig5", fig5),
        ("fig6", fig6),
        ("thresholds", thresholds),
        ("fig7", fig7),
    ]);
    Ok(part)
}

/// The values of the key that changes fastest, as columns.
fn across(study: &Study, prefix: &str) -> Vec<String> {
    let first = study.values(0);
    let outer = &first[..first.len() - 1];
    let same = |point: &usize| study.values(*point)[..outer.len()] == *outer;
    let points = (0..study.points.len()).take_while(same);
    points
        .map(|point| format!("{prefix}{}", study.values(point)[outer.len()]))
        .collect()
}

fn rates(study: &Study, prefix: &str) -> Table {
    let rate = |runs: &[&OverlayDone]| runs.iter().map(|done| done.run.rate).collect();
    study.table(3, &across(study, prefix), rate)
}

fn figure_7(study: &Study) -> Table {
    let iterations = |done: &&OverlayDone| {
        done.run
            .search
            .map_or(f64::NAN, |search| search.iterations as f64)
    };
    study.table(3, &across(study, "f = "), |runs| {
        runs.iter().map(iterations).collect()
    })
}

/// Of each scheme: iterations until all sources are satisfied, those not found counting as the limit, and the share of runs that found it.
fn searches(runs: &[&OverlayDone]) -> Vec<f64> {
    let search = |done: &&OverlayDone| {
        let search = done.run.search;
        search.map_or([f64::NAN; 2], |search| {
            [search.iterations as f64, f64::from(u8::from(search.found))]
        })
    };
    runs.iter().flat_map(search).collect()
}

fn gate_5(what: &str, table: &Table) -> Gate {
    let gains = |from: usize, to: usize| {
        let gain = |row: &Row| row.values[to].mean - row.values[from].mean;
        table.rows.iter().map(gain).collect::<Vec<f64>>()
    };
    let (second, fifth) = (gains(0, 1), gains(3, 4));
    let least = second.iter().copied().fold(1.0, f64::min);
    let parts = second
        .iter()
        .zip(&fifth)
        .map(|(second, fifth)| fifth / second);
    let part = parts.fold(0.0, f64::max);
    let mut gate = Gate::new(
        &format!(
            "{what}: from k = 1 to 2 the gain is large (0.1 of the demand at least), from 4 to 5 it is small (less than a quarter of that)"
        ),
        format!("{least:.3} at least, {part:.2} of it at most"),
        least >= 0.1 && part < 0.25,
    );
    let skewed = |row: &Row| row.point[1..] == ["uniform", "b = 1"];
    let mut parts = table.rows.iter().zip(second.iter().zip(&fifth));
    let elsewhere = parts.all(|(row, (second, fifth))| skewed(row) || fifth / second < 0.25);
    gate.explained = (elsewhere && least >= 0.1).then_some("only with b = 1 and uniform choice it isn't: each further path still helps to reach the few relays that have most of the bandwidth");
    gate
}

fn gates_6(table: &Table) -> Vec<Gate> {
    let column = table
        .columns
        .iter()
        .position(|known| known == "f = 1.6")
        .expect("one of them");
    let at = |sharing: &str| {
        let mut rows = table.rows.iter();
        let row = rows.find(|row| row.point == [sharing, "uniform", "b = 1"]);
        row.map_or(f64::NAN, |row| row.values[column].mean)
    };
    let others = table
        .rows
        .iter()
        .filter(|row| row.point[1..] != ["uniform", "b = 1"]);
    let least = others
        .map(|row| row.values[row.values.len() - 1].mean)
        .fold(1.0, f64::min);
    let skewed = ["max-min", "proportional"].map(at);
    vec![
        Gate::new(
            "Fig. 6: near 1 at f = 2, but for uniform choice with b = 1 (0.95 at least)",
            format!("{least:.3} at least"),
            least >= 0.95,
        ),
        Gate::new(
            "Fig. 6: 0.71 ± 0.03 at b = 1, uniform, f = 1.6 (max-min, proportional)",
            skewed.map(|value| format!("{value:.3}")).join(", "),
            skewed.iter().all(|value| (value - 0.71).abs() <= 0.03),
        ),
    ]
}

fn gate_thresholds(table: &Table) -> Gate {
    let means =
        ["max-min", "proportional", "equal loss"].map(|sharing| table.means(&[sharing, "0.92"]));
    let shown = means
        .clone()
        .map(|means| format!("{:.1} and {:.1}", means[0], means[2]));
    Gate::new(
        "Fig. 7 at b = 1, uniform, f = 1.6, satisfied with 0.92: k-reselection is faster than 1-reselection (paper 24.3 and 36.8; max-min, proportional, equal loss)",
        shown.join("; "),
        means.iter().all(|means| means[0] < means[2]),
    )
}

fn gate_baseline(table: &Table, limit: usize) -> Gate {
    let skewed = || table.rows.iter().filter(|row| row.point[1] == "b = 1");
    let everyone = skewed().map(|row| row.values[1].max).fold(0.0, f64::max);
    let others = skewed().flat_map(|row| [row.values[3].min, row.values[5].min]);
    let others = others.fold(1.0, f64::min);
    let found = |all: bool| if all { "one did" } else { "none did" };
    Gate::new(
        &format!(
            "Fig. 7 at f = 1.8, b = 1: where everyone reselects, no run of {limit} iterations succeeds; with k- and 1-reselection all do"
        ),
        format!(
            "everyone: {}; k and 1: {}",
            found(everyone > 0.0),
            if others == 1.0 {
                "all did"
            } else {
                "not all did"
            }
        ),
        everyone == 0.0 && others == 1.0,
    )
}
