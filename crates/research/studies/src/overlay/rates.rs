//! Fig. 3 and 4: the rate controller with fixed paths.

use manyway_simulate::batch::{OverlayDone, OverlayLevel};

use super::sweep::{Sweep, below, headings};
use super::{Part, figures, rounded};
use crate::failure::Failure;
use crate::gate::Gate;
use crate::runs::{Runs, Source};
use crate::statistics::{largest, mean, median};
use crate::study::Extent;
use crate::table::Table;

/// The rules that sums are shown by. By equal loss they are those of proportional sharing: a
/// controller only sees whether its increment has succeeded, which by both rules it has on links
/// that aren't overloaded.
const RULES: [&str; 2] = ["max-min", "proportional"];

pub(crate) fn part(extent: Extent, runs: Runs) -> Result<Part, Failure> {
    let run = |scenario| Sweep::run(Source::new(scenario, &[]), runs, OverlayLevel::Flow);
    let fig3 = run("overlay/fig3")?;
    let fig4a = run("overlay/fig4a")?;
    let published = run("overlay/fig4a-published")?;
    let fig4b = run("overlay/fig4b")?;
    let fig4c = run("overlay/fig4c")?;
    let mut part = Part::default();
    let table = table_3(&fig3);
    part.gates.extend(gates_3(&table));
    part.headline.extend(table.headline("Fig. 3", &[], 0..1));
    part.tables.push(("fig3", table));
    for (name, what, study) in [
        ("fig4a", "Fig. 4(a)", &fig4a),
        ("published", "Fig. 4(a), published", &published),
    ] {
        let table = table_4a(study);
        part.headline
            .extend(rounded(table.headline(what, &[], 0..4)));
        part.tables.push((name, table));
    }
    part.gates
        .extend(gates_4a(&part.tables[1].1, &part.tables[2].1));
    let table = differences(&fig4b, 3);
    part.gates.extend(gates_4b(&table));
    part.headline
        .extend(rounded(table.headline("Fig. 4(b)", &[], 0..1)));
    part.tables.push(("fig4b", table));
    let table = table_4c(&fig4c);
    part.gates.extend(gates_4c(&table));
    part.headline.extend(table.headline("Fig. 4(c)", &[], 0..1));
    part.tables.push(("fig4c", table));
    if extent.full() {
        let mixed = run("overlay/fig4-heterogeneous")?;
        let table = differences(&mixed, 2);
        part.gates.extend(gates_heterogeneous(&table));
        part.tables.push(("fig4h", table));
    }
    part.figures = [
        figures::fig3(&fig3),
        figures::fig4a(&published),
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

fn gates_3(table: &Table) -> Vec<Gate> {
    let gate = |sharing: &str| {
        let small = table.row(&[sharing, "ε = 0.06 Mbps"]);
        let large = table.row(&[sharing, "ε = 1 Mbps"]);
        let (low, high, stretch) = (
            small.values[0].min,
            large.values[0].max,
            large.values[1].max,
        );
        Gate::new(
            format!(
                "Fig. 3, {sharing}: mean satisfaction ≥ 0.98 in every run with ε = 0.06 Mbps; with \
                 1 Mbps in none, and it never lasts (50 intervals)"
            ),
            format!("at least {low:.3}; at most {high:.3}, at most {stretch} intervals"),
            low >= 0.98 && high < 0.98 && stretch < 50.0,
        )
    };
    ["max-min", "proportional", "equal loss"].map(gate).into()
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

fn gates_4a(uniform: &Table, published: &Table) -> Vec<Gate> {
    let lp = &uniform.rows[0].values[0];
    let one = published.rows[0].values[0].mean;
    let mut gates = vec![
        Gate::new(
            "Fig. 4(a): LP optimum over uniform selections 0.75 ± 0.02",
            format!("{:.3}, from {:.3} to {:.3}", lp.mean, lp.min, lp.max),
            (lp.mean - 0.75).abs() <= 0.02,
        ),
        Gate::new(
            "Fig. 4(a): the published selection has the paper's LP optimum, 0.80",
            format!("{one:.4}"),
            (one - 0.80).abs() < 0.005,
        ),
    ];
    for (what, table) in [
        ("uniform selections", uniform),
        ("the published one", published),
    ] {
        for row in &table.rows {
            let [small, usual, large] = [1, 2, 3].map(|column| row.values[column].mean);
            gates.push(Gate::new(
                format!(
                    "Fig. 4(a), {}, {what}: ε = 0.001 and 0.01 within 2 % of the LP, 0.1 \
                    worse than both",
                    row.point[0]
                ),
                format!("{small:.3}, {usual:.3}, {large:.3} of it"),
                small >= 0.98 && usual >= 0.98 && large < small.min(usual) - 0.005,
            ));
        }
    }
    gates
}

/// How far below the programme's value runs end, over all skews and ratios of a selection.
pub(crate) fn differences(study: &Sweep, rows: usize) -> Table {
    let columns = headings(["mean difference, %", "largest difference, %"]);
    study.table(rows, &columns, |runs| {
        let percent: Vec<f64> = runs.iter().map(|done| 100.0 * below(done)).collect();
        vec![mean(&percent), largest(&percent)]
    })
}

/// The largest difference of all rows with this rule.
fn most(table: &Table, sharing: &str, but: &str) -> f64 {
    let rows = table.rows.iter();
    let rows =
        rows.filter(|row| row.point[0] == sharing && !row.point.iter().any(|word| word == but));
    largest(&rows.map(|row| row.values[1].max).collect::<Vec<_>>())
}

fn gates_4b(table: &Table) -> Vec<Gate> {
    let gate = |sharing: &str| {
        let most = most(table, sharing, "");
        Gate::new(
            format!("Fig. 4(b), {sharing}: all runs within 4 % of the LP"),
            format!("at most {most:.2} %"),
            most <= 4.0,
        )
    };
    RULES.map(gate).into()
}

/// Theorem 1 asks for perfect congestion detection, which only proportional sharing has: there the
/// gate is the controller's, by max-min it is the rule's.
fn gates_heterogeneous(table: &Table) -> [Gate; 2] {
    let gate = |sharing: &str| {
        let most = most(table, sharing, "ε = 0.1");
        Gate::new(
            format!("Heterogeneous demands, ε = 0.01, {sharing}: all runs within 4 % of the LP"),
            format!("at most {most:.2} %"),
            most <= 4.0,
        )
    };
    let [mut unheard, heard] = RULES.map(gate);
    unheard.explained = heard.holds.then_some(
        "small sources don't hear that they are in a large one's way, and stay where chance has \
         put them; when they are told, max-min has the sums of proportional sharing",
    );
    [unheard, heard]
}

fn table_4c(study: &Sweep) -> Table {
    let columns = headings(["median time, intervals", "longest time"]);
    study.table(2, &columns, |runs| {
        let times: Vec<f64> = runs.iter().map(|done| done.run.settled as f64).collect();
        vec![median(&times), largest(&times)]
    })
}

fn gates_4c(table: &Table) -> Vec<Gate> {
    let value = |sharing: &str, law: &str, column: usize| table.means(&[sharing, law])[column];
    let median = |sharing: &str, law: &str| value(sharing, law, 0);
    let fine = |sharing: &&str| {
        let of = |law| median(sharing, law);
        of("AIAD-maxmin") < 100.0 && of("AIAD-maxmin") <= of("AIAD") && of("MIMD") < of("AIAD")
    };
    let found = RULES.map(|sharing| {
        let times = ["AIAD", "MIMD", "AIAD-maxmin", "MIMD-maxmin"]
            .map(|law| format!("{:.0}", median(sharing, law)));
        format!("{sharing}: {}", times.join(", "))
    });
    let longest = RULES.map(|sharing| {
        let of = |law| value(sharing, law, 1);
        format!(
            "{sharing}: {:.0} and {:.0}",
            of("AIAD-maxmin"),
            of("MIMD-maxmin")
        )
    });
    let slower =
        |sharing: &&str| value(sharing, "AIAD-maxmin", 1) <= value(sharing, "MIMD-maxmin", 1);
    let mut order = Gate::new(
        "Fig. 4(c): AIAD-maxmin settles before MIMD-maxmin (longest times)",
        longest.join("; "),
        RULES.iter().all(slower),
    );
    order.explained = Some(
        "by max-min it does, by proportional sharing it doesn't: the paper's order depends on the \
         rule",
    );
    let medians = Gate::new(
        "Fig. 4(c): AIAD-maxmin converges in tens of intervals, AIAD later; from 0, MIMD before \
         AIAD (medians of AIAD, MIMD, AIAD-maxmin, MIMD-maxmin)",
        found.join("; "),
        RULES.iter().all(fine),
    );
    vec![medians, order]
}
