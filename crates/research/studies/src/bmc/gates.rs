//! What must hold.

use super::cells::{find, has};
use super::{BUNDLES, COUNTS, EVENTS, LOST, RATIO, Tables, WEIGHTS};
use crate::claims::{number, number_range};
use crate::gate::{Gate, GateRow, gate, not_rising};
use crate::table::Table;

/// The numbers of flows for which the ratio must be D.
const JUDGED: [&str; 3] = ["8", "16", "32"];
/// Fig. 3.2's and Fig. 4.1's ideal weights.
const IDEAL: [&str; 2] = ["bmc:d1=0.25,d2=0.75", "bmc:d1=0.3333,d2=0.6667"];

pub(crate) fn gates(tables: &Tables) -> Vec<Gate> {
    let (up_to_48, last) = COUNTS.split_at(COUNTS.len() - 1);
    let (two, four) = (gate("bmc/figure-5-12"), gate("bmc/figure-5-16"));
    let mut gates = vec![
        weighted_gate(&tables.weighted),
        bundle_gate(two, &tables.two, &COUNTS),
        bundle_gate(four, &tables.four, up_to_48),
    ];
    if has(&tables.four, "64") {
        let most = gate("bmc/figure-5-16-64");
        gates.push(bundle_gate(most, &tables.four, last));
    }
    gates.push(small_gate(&tables.small));
    gates.extend(example_gates(&tables.fig32));
    gates.extend(loss_gates(&tables.begin, tables.averaged.as_ref()));
    let cases = ["red", "drop-tail", "drop-tail-8ms"];
    let with = |table: &Table| {
        cases
            .into_iter()
            .filter(|case| has(table, case))
            .collect::<Vec<_>>()
    };
    gates.push(balance_gate(&tables.fig32, &with(&tables.fig32)));
    gates.push(pooling_gate(&tables.fig41, &with(&tables.fig41)));
    gates
}

/// The smallest and the largest.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0f64), |(low, high), x| {
        (low.min(x), high.max(x))
    })
}

fn weighted_gate(table: &Table) -> Gate {
    let cells = WEIGHTS.iter().filter(|(weight, _)| *weight >= 0.25);
    let cells = cells.flat_map(|&(weight, law)| {
        JUDGED.iter().filter_map(move |count| {
            let row = find(&[table], law, count)?;
            let case = format!("D = {weight:.2}, N = {count}");
            Some((case, row.values[RATIO].mean / weight))
        })
    });
    let cells: Vec<(String, f64)> = cells.collect();
    let (low, high) = range(cells.iter().map(|(_, ratio)| *ratio));
    gate("bmc/figure-5-10").cases(cells, format!("ratio/D {low:.3} to {high:.3}"))
}

/// Fig. 3.1: the worked example.
fn example_gates(table: &Table) -> Vec<Gate> {
    let row = table.means(&["bmc", "red"]);
    let (bundle, tcp) = (row[0], row[3]);
    let arithmetic = number("bmc/figure-3-1", "bundle, equal weights");
    vec![
        gate("bmc/figure-3-1").value(bundle / arithmetic, format!("{bundle:.1} Mbps")),
        gate("bmc/figure-3-1-less")
            .value(bundle / tcp, format!("{bundle:.1} against {tcp:.1} Mbps")),
    ]
}

/// Fig. 5.11's numbers of flows, and what the claim calls them.
const FEW: [(&str, &str); 3] = [("1", "1 flow"), ("2", "2 flows"), ("4", "4 flows")];

fn loss_gates(table: &Table, averaged: Option<&Table>) -> Vec<Gate> {
    let rates =
        |table: &Table, column: usize| FEW.map(|(n, _)| table.means(&["bmc:p=0.5", n])[column]);
    let (events, lost) = (rates(table, EVENTS), rates(table, LOST));
    let of_the_thesis = |rates: [f64; 3]| {
        let pairs = FEW.into_iter().zip(rates);
        pairs.map(|((_, name), rate)| {
            let (low, high) = number_range("bmc/figure-5-11", name);
            (name, 2.0 * rate / (low + high))
        })
    };
    let shown =
        |rates: [f64; 3]| format!("{} %", rates.map(|rate| format!("{rate:.3}")).join(", "));
    let mut gates = vec![
        gate("bmc/figure-5-11").cases(of_the_thesis(events), shown(events)),
        gate("bmc/figure-5-11-packets").cases(of_the_thesis(lost), shown(lost)),
        gate("bmc/figure-5-11-grows").value(not_rising(&events), shown(events)),
    ];
    if let Some(averaged) = averaged {
        let lost = rates(averaged, LOST);
        gates.push(gate("bmc/figure-5-11-averaged").cases(of_the_thesis(lost), shown(lost)));
    }
    gates
}

/// What a bundle is called in the thesis' figures; its law if it is none of the thesis'.
pub(super) fn name(law: &str) -> &str {
    let known = BUNDLES.iter().find(|(_, known)| *known == law);
    match known {
        Some((name, _)) => name.split(" (").next().unwrap_or(name),
        None => law.strip_prefix("bmc:").unwrap_or(law),
    }
}

fn bundle_gate(row: GateRow, table: &Table, counts: &[&str]) -> Gate {
    let cells = table.rows.iter().filter_map(|row| {
        let (law, count) = (&row.point[0], &row.point[1]);
        // The only number of flows needs no name.
        let case = match counts {
            [_] => name(law).to_owned(),
            _ => format!("{}, N = {count}", name(law)),
        };
        let judged = counts.contains(&count.as_str());
        judged.then_some((case, row.values[RATIO].mean))
    });
    let cells: Vec<(String, f64)> = cells.collect();
    let (low, high) = range(cells.iter().map(|(_, ratio)| *ratio));
    row.cases(cells, format!("{low:.2} to {high:.2}"))
}

/// Bundles at N = 64 with other floors and capacities.
fn small_gate(table: &Table) -> Gate {
    let cells = table.rows.iter().filter_map(|row| {
        let (law, case) = (&row.point[0], &row.point[1]);
        let judged = ["floor 1", "120 Mbps"].contains(&case.as_str());
        judged.then(|| (format!("{}, {case}", name(law)), row.values[RATIO].mean))
    });
    let cells: Vec<(String, f64)> = cells.collect();
    let (low, high) = range(cells.iter().map(|(_, ratio)| *ratio));
    gate("bmc/figure-5-16-small").cases(cells, format!("{low:.2} to {high:.2}"))
}

fn balance_gate(table: &Table, cases: &[&str]) -> Gate {
    let mut found = Vec::new();
    let mut parts = Vec::new();
    for &case in cases {
        let [equal, ideal, published, balance] = ["bmc", IDEAL[0], "bmc-proportion", "bmc-balance"]
            .map(|law| table.means(&[law, case])[0]);
        found.push(format!(
            "{case}: {balance:.2} of {ideal:.2} Mbps, {:.1} % (equal weights {equal:.2}, as \
             published {published:.2})",
            100.0 * balance / ideal
        ));
        parts.push((case, balance / ideal));
    }
    gate("bmc/figure-3-2-balance").cases(parts, found.join("; "))
}

fn pooling_gate(table: &Table, cases: &[&str]) -> Gate {
    let mut found = Vec::new();
    let mut parts = Vec::new();
    for &case in cases {
        // The means' difference: of each run's it has the noise in it.
        let difference = |law: &str| {
            find(&[table], law, case).map(|row| (row.values[0].mean - row.values[2].mean).abs())
        };
        let [equal, balance, published, ideal] =
            ["bmc", "bmc-balance", "bmc-proportion", IDEAL[1]].map(difference);
        let shown = |found: Option<f64>| found.map_or("not run".to_owned(), |x| format!("{x:.2}"));
        found.push(format!(
            "{case}: {} against {} Mbps (as published {}, fixed ideal weights {})",
            shown(balance),
            shown(equal),
            shown(published),
            shown(ideal)
        ));
        let part = balance.zip(equal).map(|(balance, equal)| balance / equal);
        parts.push((case, part.unwrap_or(f64::NAN)));
    }
    gate("bmc/figure-4-1-pooling").cases(parts, found.join("; "))
}
