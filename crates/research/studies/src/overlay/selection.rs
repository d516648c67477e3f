//! Fig. 5 to 7: path selection, with AIAD-maxmin and ε = 0.01.

use manyway_simulate::batch::{OverlayDone, OverlayLevel};
use manyway_simulate::overlay::Setting;

use super::sweep::{Sweep, headings};
use super::{Part, REPEAT, figures};
use crate::claims::number;
use crate::extent::Extent;
use crate::failure::Failure;
use crate::gate::{Gate, GateRow, gate};
use crate::ours::Ours;
use crate::runs::{Runs, Source};
use crate::table::{Row, Table};

/// Iterations at most in a sample; the files have what a full run has.
const SAMPLE: usize = 100;

pub(crate) fn part(extent: Extent, runs: Runs) -> Result<Part, Failure> {
    let run = |scenario, set: &[&str], runs| {
        Sweep::run(Source::new(scenario, set), runs, OverlayLevel::Flow)
    };
    let full = extent.full();
    let all = extent.runs(REPEAT, REPEAT);
    let limit = format!("overlay.reselect.iterations={SAMPLE}");
    let limited: &[&str] = if full { &[] } else { &[&limit] };
    // Numbers of iterations scatter widely: thresholds that are judged have all runs in a sample,
    // too.
    let one: &[&str] = if full {
        &[]
    } else {
        &["sweep.\"overlay.reselect.satisfied\"=[0.92,0.93]"]
    };
    // Neither can two selections tell small gains apart.
    let fig5 = run("overlay/fig5", &[], all)?;
    let fig6 = run("overlay/fig6", &[], runs)?;
    let thresholds = run("overlay/fig7-thresholds", one, all)?;
    let fig7 = run("overlay/fig7", limited, runs)?;
    let baseline = run("overlay/fig7-baseline", limited, runs)?;
    let mut part = Part::default();
    let table = rates(&fig5, "k = ");
    let most = possible(&fig5);
    let equal = [
        gate("overlay/figure-5-second"),
        gate("overlay/figure-5-fifth"),
        gate("overlay/figure-5-diminishing"),
        gate("overlay/figure-5-four"),
    ];
    part.gates.extend(gates_5(equal, &table, &most));
    part.headline
        .extend(table.headline("Fig. 5", &["uniform", "b = 1"], 0..4));
    part.tables.extend([("fig5", table), ("fig5-most", most)]);
    if full {
        let mixed = run("overlay/fig5-heterogeneous", &[], runs)?;
        let (table, most) = (rates(&mixed, "k = "), possible(&mixed));
        let unequal = [
            gate("overlay/figure-5h-second"),
            gate("overlay/figure-5h-fifth"),
            gate("overlay/figure-5h-diminishing"),
            gate("overlay/figure-5h-four"),
        ];
        part.gates.extend(gates_5(unequal, &table, &most));
        part.tables.extend([("fig5h", table), ("fig5h-most", most)]);
    }
    let table = errors(&run("overlay/errors", &[], all)?);
    part.gates.push(gate_errors(&table));
    part.tables.push(("errors", table));
    let table = rates(&fig6, "f = ");
    part.gates.extend(gates_6(&table));
    part.ours.extend(["max-min", "proportional"].map(|rule| {
        let row = table.row(&[rule, "uniform", "b = 1"]);
        // Uniform choice by this rule: not the row of proportional choice.
        let name = format!("{rule}, uniform, b = 1, f = 1.6");
        Ours::mean("overlay/figure-6", name, &row.values[judged_column(&table)])
    }));
    let point = ["uniform", "b = 1"];
    part.headline
        .extend(table.headline("Fig. 6", &point, [judged_column(&table)]));
    part.tables.push(("fig6", table));
    let columns = headings(["k-reselection", "found", "1-reselection", "found"]);
    let table = thresholds.table(2, &columns, searches);
    part.gates.extend(gates_thresholds(&table));
    for rule in ["max-min", "proportional"] {
        let row = table.row(&[rule, "0.92"]);
        for (n, scheme) in [(0, "k-reselection"), (2, "1-reselection")] {
            let name = format!("{scheme}, {rule}");
            part.ours
                .push(Ours::mean("overlay/figure-7", name, &row.values[n]));
        }
    }
    part.headline
        .extend(table.headline("Fig. 7, satisfied with 0.92", &["0.92"], [0, 2]));
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
    part.gates.extend(gates_baseline(&table, limit));
    part.headline
        .extend(table.headline("Fig. 7, f = 1.8", &["b = 1"], [2, 4]));
    part.tables.push(("baseline", table));
    part.figures = [
        figures::fig5(&fig5),
        figures::fig6(&fig6),
        figures::fig7(&fig7),
    ]
    .concat();
    Ok(part)
}

/// The values of the key that changes fastest, as columns.
fn across(study: &Sweep, prefix: &str) -> Vec<String> {
    let first = study.values(0);
    let outer = &first[..first.len() - 1];
    let same = |point: &usize| study.values(*point)[..outer.len()] == *outer;
    let points = (0..study.points.len()).take_while(same);
    points
        .map(|point| format!("{prefix}{}", study.values(point)[outer.len()]))
        .collect()
}

fn rates(study: &Sweep, prefix: &str) -> Table {
    let rate = |runs: &[&OverlayDone]| runs.iter().map(|done| done.run.rate).collect();
    study.table(3, &across(study, prefix), rate)
}

/// Rates of proportional choice with exact estimates and with wrong ones.
fn errors(study: &Sweep) -> Table {
    let columns = headings(["exact estimates", "wrong by up to 50 %"]);
    study.table(3, &columns, |runs| {
        runs.iter().map(|done| done.run.rate).collect()
    })
}

fn gate_errors(table: &Table) -> Gate {
    let cases = table.rows.iter().map(|row| {
        let [exact, wrong] = [0, 1].map(|n| row.values[n].mean);
        (row.point.join(", "), 100.0 * (wrong / exact - 1.0))
    });
    let cases: Vec<(String, f64)> = cases.collect();
    let most = cases.iter().map(|(_, off)| off.abs()).fold(0.0, f64::max);
    gate("overlay/errors").cases(cases, format!("at most {most:.1} %"))
}

fn figure_7(study: &Sweep) -> Table {
    let iterations = |done: &&OverlayDone| {
        done.run
            .search
            .map_or(f64::NAN, |search| search.iterations as f64)
    };
    study.table(3, &across(study, "f = "), |runs| {
        runs.iter().map(iterations).collect()
    })
}

/// Of each scheme: iterations until all sources are satisfied, those not found counting as the
/// limit, and the share of runs that found it.
fn searches(runs: &[&OverlayDone]) -> Vec<f64> {
    let search = |done: &&OverlayDone| {
        let search = done.run.search;
        search.map_or([f64::NAN; 2], |search| {
            [search.iterations as f64, f64::from(u8::from(search.found))]
        })
    };
    runs.iter().flat_map(search).collect()
}

/// What a selection allows, whoever controls the rates: the programme's value, and the bound on it
/// that is seen without one: a relay carries no more than the sources want that have chosen it.
fn possible(study: &Sweep) -> Table {
    let columns = across(study, "k = ");
    let best = |runs: &[&OverlayDone]| {
        let optimum = |done: &&OverlayDone| done.optimum.unwrap_or(f64::NAN);
        runs.iter().map(optimum).collect()
    };
    let wanted = |runs: &[&OverlayDone]| runs.iter().map(|done| wanted(study, done)).collect();
    let mut table = study.table(3, &columns, best);
    let mut bound = study.table(3, &columns, wanted);
    for (name, table) in [("programme", &mut table), ("relays alone", &mut bound)] {
        // Nobody shares here.
        table.rows.retain(|row| row.point[0] == "max-min");
        table
            .rows
            .iter_mut()
            .for_each(|row| row.point[0] = name.to_owned());
    }
    table.rows.append(&mut bound.rows);
    table
}

/// Over the demand: what all relays could carry if each source sent all it has over each of its
/// own.
fn wanted(study: &Sweep, done: &OverlayDone) -> f64 {
    let experiment = &study.points[done.job.point].experiment;
    let Ok(Setting { overlay, selection }) = Setting::draw(experiment, done.job.seed) else {
        return f64::NAN;
    };
    let mut wanted = vec![0.0; overlay.relays.len()];
    for (relays, demand) in selection.iter().zip(&overlay.demands) {
        relays.iter().for_each(|&relay| wanted[relay] += demand);
    }
    let carried = wanted.iter().zip(&overlay.relays);
    let carried = carried.map(|(wanted, bandwidth): (&f64, &f64)| wanted.min(*bandwidth));
    carried.sum::<f64>() / overlay.demand()
}

/// By how much the mean rises with the path at this index.
fn gain(row: &Row, path: usize) -> f64 {
    row.values[path].mean - row.values[path - 1].mean
}

/// The fifth path's gain over the second's: the largest of all rows.
fn fifth<'a>(rows: impl Iterator<Item = &'a Row>) -> f64 {
    rows.map(|row| gain(row, 4) / gain(row, 1))
        .fold(0.0, f64::max)
}

/// Two readings of one sentence: by numbers of ours, and by the paper's words.
fn gates_5(rows: [GateRow; 4], table: &Table, possible: &Table) -> [Gate; 4] {
    let second = table.rows.iter().map(|row| gain(row, 1));
    let least = second.fold(1.0, f64::min);
    let part = fifth(table.rows.iter());
    let programme = possible.rows.iter();
    let best = fifth(programme.filter(|row| row.point[0] == "programme"));
    let falling =
        |row: &Row| (2..row.values.len()).all(|path| gain(row, path) < gain(row, path - 1));
    let of_six = |row: &Row| {
        let [one, four, six] = [0, 3, 5].map(|path| row.values[path].mean);
        (four - one) / (six - one)
    };
    let most = table.rows.iter().map(of_six).fold(1.0, f64::min);
    let fewer = table.rows.iter().filter(|row| !falling(row)).count();
    let [of_second, of_fifth, diminishing, of_four] = rows;
    [
        of_second.value(least, format!("{least:.3} at least")),
        of_fifth.value(
            part,
            format!("{part:.2} of it at most; the programme's own gains: {best:.2}"),
        ),
        diminishing.value(
            fewer as f64,
            format!("{fewer} of {} rows don't", table.rows.len()),
        ),
        of_four.value(most, format!("{most:.2} of it at least")),
    ]
}

/// The paper has a number for one ratio.
fn judged_column(table: &Table) -> usize {
    let mut columns = table.columns.iter();
    columns
        .position(|known| known == "f = 1.6")
        .expect("one of them")
}

fn gates_6(table: &Table) -> Vec<Gate> {
    let column = judged_column(table);
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
    let skewed = ["max-min", "proportional"].map(|rule| (rule, at(rule)));
    vec![
        gate("overlay/figure-6-two").value(least, format!("{least:.3} at least")),
        gate("overlay/figure-6-skewed").cases(
            skewed,
            skewed
                .map(|(rule, value)| format!("{rule}: {value:.3}"))
                .join(", "),
        ),
    ]
}

fn gates_thresholds(table: &Table) -> Vec<Gate> {
    let means = ["max-min", "proportional", "equal loss"]
        .map(|sharing| (sharing, table.means(&[sharing, "0.92"])));
    let shown: Vec<String> = means
        .iter()
        .map(|(sharing, means)| format!("{sharing}: {:.1} and {:.1}", means[0], means[2]))
        .collect();
    let order = gate("overlay/figure-7-order").cases(
        means
            .iter()
            .map(|(sharing, means)| (*sharing, means[0] / means[2])),
        shown.join("; "),
    );
    let printed = |row: GateRow, sharings: &[&str], threshold| {
        let cases = sharings.iter().flat_map(|sharing| {
            let means = table.means(&[*sharing, threshold]);
            [(0, "k-reselection"), (2, "1-reselection")].map(|(n, scheme)| {
                let name = format!("{scheme}, {sharing}");
                let part = means[n] / number("overlay/figure-7", &name);
                (name, part)
            })
        });
        let cases: Vec<(String, f64)> = cases.collect();
        let shown: Vec<String> = cases
            .iter()
            .map(|(case, part)| format!("{case}: {part:.2}"))
            .collect();
        row.cases(cases, shown.join("; "))
    };
    let both = ["max-min", "proportional"];
    vec![
        order,
        printed(gate("overlay/figure-7-iterations"), &both, "0.92"),
        printed(gate("overlay/figure-7-threshold"), &both[..1], "0.93"),
    ]
}

fn gates_baseline(table: &Table, limit: usize) -> [Gate; 2] {
    let skewed = || table.rows.iter().filter(|row| row.point[1] == "b = 1");
    let everyone = skewed().map(|row| row.values[1].max).fold(0.0, f64::max);
    let others = skewed().flat_map(|row| [row.values[3].min, row.values[5].min]);
    let others = others.fold(1.0, f64::min);
    let found = |all: bool| if all { "one did" } else { "none did" };
    [
        gate("overlay/figure-7-baseline").value(
            everyone,
            format!("in {limit} iterations {}", found(everyone > 0.0)),
        ),
        gate("overlay/figure-7-others").value(
            others,
            match others == 1.0 {
                true => "all did",
                false => "not all did",
            },
        ),
    ]
}
