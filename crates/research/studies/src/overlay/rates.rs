//! Fig. 3 and 4: the rate controller with fixed paths.

use manyway_simulate::batch::{OverlayDone, OverlayLevel};
use manyway_simulate::measure::Summary;

use super::sweep::{Sweep, below, headings};
use super::{Part, figures, rounded};
use crate::extent::Extent;
use crate::failure::Failure;
use crate::gate::{Gate, gate};
use crate::ours::Ours;
use crate::runs::{Runs, Source};
use crate::statistics::{largest, mean, median};
use crate::table::Table;

/// The rules that sums are shown by. By equal loss they are those of proportional sharing: a
/// controller only sees whether its increment has succeeded, which by both rules it has on links
/// that aren't overloaded.
const RULES: [&str; 2] = ["max-min", "proportional"];

pub(crate) fn part(extent: Extent, runs: Runs) -> Result<Part, Failure> {
    let run = |scenario| Sweep::run(Source::new(scenario, &[]), runs, OverlayLevel::Flow);
    let fig3 = run("overlay/fig3")?;
    let fig4a = run("overlay/fig4a")?;
    let chosen = run("overlay/fig4a-080")?;
    let fig4b = run("overlay/fig4b")?;
    let fig4c = run("overlay/fig4c")?;
    let mut part = Part::default();
    let table = table_3(&fig3);
    part.gates.extend(gates_3(&table));
    part.ours.extend(ours_3(&table));
    part.headline.extend(table.headline("Fig. 3", &[], 0..1));
    part.tables.push(("fig3", table));
    for (name, what, study) in [
        ("fig4a", "Fig. 4(a)", &fig4a),
        ("fig4a080", "Fig. 4(a), 0.80", &chosen),
    ] {
        let table = table_4a(study);
        part.headline
            .extend(rounded(table.headline(what, &[], 0..4)));
        part.tables.push((name, table));
    }
    part.gates
        .extend(gates_4a(&part.tables[1].1, &part.tables[2].1));
    part.ours.push(Ours::mean(
        "overlay/figure-4a",
        "the programme, the selection with the paper's optimum",
        &part.tables[2].1.rows[0].values[0],
    ));
    let table = differences(&fig4b, 3);
    part.gates.push(gate_4b(&table));
    part.ours.extend(RULES.map(|rule| {
        let most = most(&table, rule, "");
        Ours::exact("overlay/figure-4b", rule, most)
    }));
    part.headline
        .extend(rounded(table.headline("Fig. 4(b)", &[], 0..1)));
    part.tables.push(("fig4b", table));
    let table = table_4c(&fig4c);
    part.gates.extend(gates_4c(&table));
    part.ours.extend(RULES.map(|rule| {
        let time = &table.row(&[rule, "AIAD-maxmin"]).values[0];
        Ours::mean("overlay/figure-4c", format!("AIAD-maxmin, {rule}"), time)
    }));
    part.headline.extend(table.headline("Fig. 4(c)", &[], 0..1));
    part.tables.push(("fig4c", table));
    if extent.full() {
        let mixed = run("overlay/fig4-heterogeneous")?;
        let table = differences(&mixed, 2);
        part.gates.push(gate_heterogeneous(&table));
        part.tables.push(("fig4h", table));
        let settings = run("overlay/fig4-settings")?;
        let table = table_settings(&settings);
        part.gates.extend(gates_settings(&settings, &table));
        part.tables.push(("fig4s", table));
    }
    part.figures = [
        figures::fig3(&fig3),
        figures::fig4a(&chosen),
        figures::fig4b(&fig4b),
        figures::fig4c(&fig4c),
    ]
    .concat();
    Ok(part)
}

/// Means, and the longest stretch in which the sum doesn't fall below 0.98.
fn table_3(study: &Sweep) -> Table {
    let columns = headings(["satisfaction", "longest stretch above 0.98, intervals"]);
    study.table(2, &columns, |runs| {
        let run = &runs[0].run;
        let late = &run.series[run.series.len() / 2..];
        let stretch = late.split(|&rate| rate < 0.98).map(<[f64]>::len).max();
        vec![run.rate, stretch.unwrap_or(0) as f64]
    })
}

/// The rules that Fig. 3 is run by.
const ALL_RULES: [&str; 3] = ["max-min", "proportional", "equal loss"];

fn gates_3(table: &Table) -> Vec<Gate> {
    let satisfied = |step: &str, of: fn(&Summary) -> f64| {
        ALL_RULES.map(|rule| (rule, of(&table.row(&[rule, step]).values[0])))
    };
    let small = satisfied("ε = 0.06 Mbps", |runs| runs.min);
    let large = satisfied("ε = 1 Mbps", |runs| runs.min);
    let found = |cases: &[(&str, f64)]| {
        let words = cases
            .iter()
            .map(|(rule, least)| format!("{rule}: {least:.3}"));
        words.collect::<Vec<_>>().join(", ")
    };
    let stretch = ALL_RULES.map(|rule| table.row(&[rule, "ε = 1 Mbps"]).values[1].max);
    vec![
        gate("overlay/figure-3-small").cases(small, found(&small)),
        gate("overlay/figure-3-large").cases(
            large,
            format!(
                "{}; it lasts for {} intervals at most",
                found(&large),
                largest(&stretch)
            ),
        ),
    ]
}

fn ours_3(table: &Table) -> [Ours; 2] {
    RULES.map(|rule| {
        let satisfaction = &table.row(&[rule, "ε = 1 Mbps"]).values[0];
        let name = format!("{rule}, steps of 1 Mbps");
        Ours::mean("overlay/figure-3", name, satisfaction)
    })
}

/// The programme, and what the controller comes to for each ε.
fn table_4a(study: &Sweep) -> Table {
    let columns = headings([
        "LP",
        "ε = 0.001, of the LP",
        "ε = 0.01, of the LP",
        "ε = 0.1, of the LP",
        "deviation in time, ε = 0.01",
        "ε = 0.1",
    ]);
    study.table(1, &columns, |runs| {
        let part = |done: &OverlayDone| 1.0 - below(done);
        vec![
            runs[0].optimum.unwrap_or(f64::NAN),
            part(runs[0]),
            part(runs[1]),
            part(runs[2]),
            runs[1].run.deviation,
            runs[2].run.deviation,
        ]
    })
}

fn gates_4a(uniform: &Table, chosen: &Table) -> Vec<Gate> {
    let lp = &uniform.rows[0].values[0];
    let one = chosen.rows[0].values[0].mean;
    let (mut close, mut coarse, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for (what, table) in [
        ("uniform selections", uniform),
        ("the one with the paper's optimum", chosen),
    ] {
        for row in &table.rows {
            let [small, usual, large] = [1, 2, 3].map(|column| row.values[column].mean);
            let case = format!("{}, {what}", row.point[0]);
            found.push(format!("{case}: {small:.3}, {usual:.3}, {large:.3}"));
            close.push((case.clone(), small.min(usual)));
            coarse.push((case, small.min(usual) - large));
        }
    }
    let found = found.join("; ");
    vec![
        gate("overlay/figure-4a-programme").value(
            lp.mean,
            format!("{:.3}, from {:.3} to {:.3}", lp.mean, lp.min, lp.max),
        ),
        gate("overlay/figure-4a-selection").value(one, format!("{one:.4}")),
        gate("overlay/figure-4a-close").cases(close, found.clone()),
        gate("overlay/figure-4a-coarse").cases(coarse, found),
    ]
}

/// How far below the programme's value runs end, over all skews and ratios of a selection.
pub(crate) fn differences(study: &Sweep, rows: usize) -> Table {
    let columns = headings(["mean difference, %", "largest difference, %"]);
    study.table(rows, &columns, |runs| {
        let percent: Vec<f64> = runs.iter().map(|done| 100.0 * below(done)).collect();
        vec![mean(&percent), largest(&percent)]
    })
}

/// The same, and how much rates vary in time.
fn table_settings(study: &Sweep) -> Table {
    let columns = headings([
        "mean difference, %",
        "largest difference, %",
        "mean deviation in time",
    ]);
    study.table(2, &columns, |runs| {
        let percent: Vec<f64> = runs.iter().map(|done| 100.0 * below(done)).collect();
        let deviations: Vec<f64> = runs.iter().map(|done| done.run.deviation).collect();
        vec![mean(&percent), largest(&percent), mean(&deviations)]
    })
}

/// What the paper says of demands, of numbers of paths, and of α and γ.
fn gates_settings(study: &Sweep, table: &Table) -> Vec<Gate> {
    const CONTROLS: [&str; 2] = ["AIAD", "MIMD"];
    let cases = || {
        let rules = RULES.into_iter();
        rules.flat_map(|rule| CONTROLS.map(|control| (rule, control, format!("{control}, {rule}"))))
    };
    // The same skews, ratios and selections in the same order.
    let runs = |rule: &str, case: &str| -> Vec<f64> {
        let points = study.having(&[rule, case]).into_iter();
        points
            .flat_map(|point| study.runs(point).iter().map(|done| done.run.rate))
            .collect()
    };
    let demands = cases().map(|(rule, control, case)| {
        let low = runs(rule, control);
        let high = runs(rule, &format!("{control}, 120 Mbps"));
        let pairs = high.iter().zip(&low);
        let off: Vec<f64> = pairs
            .map(|(high, low)| 100.0 * (high / low - 1.0).abs())
            .collect();
        (case, largest(&off))
    });
    let paths = cases().map(|(rule, control, case)| {
        let row = table.row(&[rule, &format!("{control}, k = 3")]);
        (case, row.values[1].max)
    });
    let variance = RULES.map(|rule| {
        let deviation = |case: &str| table.means(&[rule, case])[2];
        (
            rule.to_owned(),
            deviation("MIMD, γ = 1.1") / deviation("MIMD"),
        )
    });
    let found = |cases: &[(String, f64)], unit: &str| {
        let words = cases
            .iter()
            .map(|(case, value)| format!("{case}: {value:.2}{unit}"));
        words.collect::<Vec<_>>().join("; ")
    };
    let (demands, paths): (Vec<_>, Vec<_>) = (demands.collect(), paths.collect());
    let words = [
        found(&demands, " %"),
        found(&paths, " %"),
        found(&variance, " times"),
    ];
    let [demands_found, paths_found, variance_found] = words;
    vec![
        gate("overlay/settings-demand").cases(demands, demands_found),
        gate("overlay/settings-paths").cases(paths, paths_found),
        gate("overlay/settings-variance").cases(variance, variance_found),
    ]
}

/// The largest difference of all rows with this rule.
fn most(table: &Table, sharing: &str, but: &str) -> f64 {
    let rows = table.rows.iter();
    let rows =
        rows.filter(|row| row.point[0] == sharing && !row.point.iter().any(|word| word == but));
    largest(&rows.map(|row| row.values[1].max).collect::<Vec<_>>())
}

fn gate_4b(table: &Table) -> Gate {
    let most = RULES.map(|rule| (rule, most(table, rule, "")));
    gate("overlay/figure-4b").cases(most, at_most(&most))
}

/// Theorem 1 asks for perfect congestion detection, which only proportional sharing has: there the
/// gate is the controller's, by max-min it is the rule's.
fn gate_heterogeneous(table: &Table) -> Gate {
    let most = RULES.map(|rule| (rule, most(table, rule, "ε = 0.1")));
    gate("overlay/heterogeneous").cases(most, at_most(&most))
}

fn at_most(cases: &[(&str, f64)]) -> String {
    let words = cases
        .iter()
        .map(|(rule, most)| format!("{rule}: at most {most:.2} %"));
    words.collect::<Vec<_>>().join(", ")
}

fn table_4c(study: &Sweep) -> Table {
    let columns = headings(["median time, intervals", "longest time"]);
    study.table(2, &columns, |runs| {
        let times: Vec<f64> = runs.iter().map(|done| done.run.settled as f64).collect();
        vec![median(&times), largest(&times)]
    })
}

fn gates_4c(table: &Table) -> Vec<Gate> {
    let value = |rule: &str, law: &str, column: usize| table.means(&[rule, law])[column];
    let median = |rule: &str, law: &str| value(rule, law, 0);
    let later = RULES.into_iter().flat_map(|rule| {
        ["MIMD", "AIAD-maxmin"].map(|law| {
            let case = format!("{law}, {rule}");
            (case, median(rule, law) / median(rule, "AIAD"))
        })
    });
    let found = RULES.map(|rule| {
        let times = ["AIAD", "MIMD", "AIAD-maxmin", "MIMD-maxmin"]
            .map(|law| format!("{:.0}", median(rule, law)));
        format!("{rule}: {}", times.join(", "))
    });
    let found = format!(
        "AIAD, MIMD, AIAD-maxmin and MIMD-maxmin, {}",
        found.join("; ")
    );
    let longest = RULES.map(|rule| {
        let of = |law| value(rule, law, 1);
        format!(
            "{rule}: {:.0} and {:.0}",
            of("AIAD-maxmin"),
            of("MIMD-maxmin")
        )
    });
    let both = RULES.map(|rule| {
        let of = |law| value(rule, law, 1);
        (rule, of("AIAD-maxmin") / of("MIMD-maxmin"))
    });
    let tens = RULES.map(|rule| (rule, median(rule, "AIAD-maxmin")));
    vec![
        gate("overlay/figure-4c-tens").cases(tens, found.clone()),
        gate("overlay/figure-4c-order").cases(later, found),
        gate("overlay/figure-4c-mimd").cases(both, longest.join("; ")),
    ]
}
