//! What must hold.

use super::{COUNTS, RATIO, Tables, WEIGHTS, find, has};
use crate::gate::Gate;
use crate::table::Table;

/// The numbers of flows for which the ratio must be D.
const JUDGED: [&str; 3] = ["8", "16", "32"];
/// Fig. 3.2's and Fig. 4.1's ideal weights.
const IDEAL: [&str; 2] = ["bmc:d1=0.25,d2=0.75", "bmc:d1=0.3333,d2=0.6667"];

pub(crate) fn gates(tables: &Tables) -> Vec<Gate> {
    let (up_to_48, last) = COUNTS.split_at(COUNTS.len() - 1);
    let mut gates = vec![
        weighted_gate(&tables.weighted),
        bundle_gate("Fig. 5.12 to 5.15", &tables.two, &COUNTS),
        bundle_gate("Fig. 5.16 and 5.17", &tables.four, up_to_48),
    ];
    if has(&tables.four, "64") {
        gates.push(Gate {
            explained: Some("a subflow's share is less than the smallest window"),
            ..bundle_gate("Fig. 5.16 and 5.17", &tables.four, last)
        });
    }
    gates.push(small_gate(&tables.small, "floor 1"));
    if has(&tables.small, "120 Mbps") {
        gates.push(small_gate(&tables.small, "120 Mbps"));
    }
    let cases = ["red", "drop-tail", "drop-tail-8ms"];
    let with = |table: &Table| {
        cases
            .into_iter()
            .filter(|case| has(table, case))
            .collect::<Vec<_>>()
    };
    gates.extend(
        with(&tables.fig32)
            .into_iter()
            .map(|case| balance_gate(&tables.fig32, case)),
    );
    gates.extend(
        with(&tables.fig41)
            .into_iter()
            .map(|case| pooling_gate(&tables.fig41, case)),
    );
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
        let rows = JUDGED
            .iter()
            .filter_map(move |count| find(&[table], law, count));
        rows.map(move |row| row.values[RATIO].mean / weight)
    });
    let (low, high) = range(cells);
    Gate::new(
        "Fig. 5.10: ratio to TCP within 10 % of D for 8 ≤ N ≤ 32 and D ≥ 1/4",
        format!("ratio/D {low:.3} to {high:.3}"),
        low >= 0.9 && high <= 1.1,
    )
}

fn bundle_gate(figure: &str, table: &Table, counts: &[&str]) -> Gate {
    let counts: Vec<&str> = counts
        .iter()
        .copied()
        .filter(|count| has(table, count))
        .collect();
    let judged = table.rows.iter().filter(|row| {
        let mut point = row.point.iter();
        point.any(|own| counts.contains(&own.as_str()))
    });
    let (low, high) = range(judged.map(|row| row.values[RATIO].mean));
    Gate::new(
        format!(
            "{figure}: bundles get 1.0 ± 0.2 of a TCP flow, N = {}",
            counts.join(", ")
        ),
        format!("{low:.2} to {high:.2}"),
        low >= 0.8 && high <= 1.2,
    )
}

fn small_gate(table: &Table, case: &str) -> Gate {
    let rows = table.rows.iter().filter(|row| row.has(&[case]));
    let (low, high) = range(rows.map(|row| row.values[RATIO].mean));
    Gate::new(
        format!(
            "the same at N = 64 with {}",
            match case {
                "floor 1" => "windows of bundles down to 1 packet",
                _ => "twice the capacity and twice the queue",
            }
        ),
        format!("{low:.2} to {high:.2}"),
        low >= 0.8 && high <= 1.2,
    )
}

fn balance_gate(table: &Table, case: &str) -> Gate {
    let [equal, ideal, published, balance] =
        ["bmc", IDEAL[0], "bmc-proportion", "bmc-balance"].map(|law| table.means(&[law, case])[0]);
    Gate::new(
        format!(
            "Fig. 3.2, {case}: the proportion manager that rests gets at least 95 % of what fixed \
             ideal weights get"
        ),
        format!(
            "{balance:.2} of {ideal:.2} Mbps, {:.1} % (equal weights {equal:.2}, as published \
             {published:.2})",
            100.0 * balance / ideal
        ),
        balance >= 0.95 * ideal,
    )
}

fn pooling_gate(table: &Table, case: &str) -> Gate {
    // The means' difference: of each run's it has the noise in it.
    let difference = |law: &str| {
        find(&[table], law, case).map(|row| (row.values[0].mean - row.values[2].mean).abs())
    };
    let [equal, balance, published, ideal] =
        ["bmc", "bmc-balance", "bmc-proportion", IDEAL[1]].map(difference);
    let shown = |found: Option<f64>| found.map_or("not run".to_owned(), |x| format!("{x:.2}"));
    Gate::new(
        format!("Fig. 4.1, {case}: it brings s1 and s3 closer together than equal weights do"),
        format!(
            "{} against {} Mbps (as published {}, fixed ideal weights {})",
            shown(balance),
            shown(equal),
            shown(published),
            shown(ideal)
        ),
        balance < equal,
    )
}
