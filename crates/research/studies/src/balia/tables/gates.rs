//! What must hold of our tables, and whether it does.

use super::paper::{self, Column};
use super::{Aggregation, Friendliness, Oscillation, Responsiveness};
use crate::gate::{Gate, gate, not_falling, not_rising};

/// Laws by friendliness, the least friendly first. The paper's OLIA is within 0.01 Mbps of Max, so
/// its place among them isn't asked for.
const BY_FRIENDLINESS: [&str; 5] = ["ewtcp", "semicoupled", "lia", "balia", "coupled"];
/// Laws by responsiveness, the quickest first.
const BY_RESPONSIVENESS: [&str; 5] = ["ewtcp", "semicoupled", "balia", "lia", "coupled"];

/// Table III: the paper's order, and numbers close to the paper's.
pub(crate) fn friendliness(rows: &[Friendliness]) -> Vec<Gate> {
    let of = |law: &str| rows.iter().find(|row| row.law == law);
    let multipath = by(&BY_FRIENDLINESS, |law| {
        of(law).map(|row| row.multipath.mean)
    });
    let single = by(&BY_FRIENDLINESS, |law| of(law).map(|row| row.single.mean));
    let off = |ours: fn(&Friendliness) -> f64, theirs: fn(&Column) -> f64| {
        paper::columns().map(|column| {
            let ours = of(column.law).map_or(f64::NAN, ours);
            (column.law, 100.0 * (ours / theirs(&column) - 1.0))
        })
    };
    let multipath_off = off(|row| row.multipath.mean, |column| column.multipath);
    let single_off = off(|row| row.single.mean, |column| column.single);
    vec![
        gate("balia/table-3-multipath-order")
            .value(not_falling(&values(&multipath)), listed(&multipath, 3)),
        gate("balia/table-3-single-order").value(not_rising(&values(&single)), listed(&single, 3)),
        gate("balia/table-3-multipath").cases(multipath_off, furthest(&multipath_off)),
        gate("balia/table-3-single").cases(single_off, furthest(&single_off)),
    ]
}

/// Table III's order over WiFi and 3G.
pub(crate) fn unequal_rtts(rows: &[Friendliness]) -> Vec<Gate> {
    let single = by(&BY_FRIENDLINESS, |law| {
        let row = rows.iter().find(|row| row.law == law);
        row.map(|row| row.single.mean)
    });
    let (others, coupled) = single.split_at(single.len() - 1);
    let ratio = coupled[0].1 / others[others.len() - 1].1;
    vec![
        gate("balia/rtt-order").value(not_rising(&values(others)), listed(others, 3)),
        gate("balia/rtt-coupled").value(ratio, listed(&single[single.len() - 2..], 3)),
    ]
}

/// Table IV: every law but OLIA uses both links, and OLIA carries least.
pub(crate) fn aggregation(rows: &[Aggregation]) -> Vec<Gate> {
    let others = rows.iter().filter(|row| row.law != "olia");
    let used: Vec<(&str, f64)> = others
        .map(|row| (row.law.as_str(), row.utilisation.mean))
        .collect();
    let found = listed(&used, 3);
    let (olia, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.law == "olia");
    let olia = olia.first().map_or(f64::NAN, |row| row.goodput.mean);
    let others = others.iter().map(|row| row.goodput.mean);
    let least = others.fold(f64::INFINITY, f64::min);
    vec![
        gate("balia/table-4-utilisation").cases(used, found),
        gate("balia/table-4-olia").value(
            olia / least,
            format!("{olia:.2} Mbps, the least of the others {least:.2}"),
        ),
    ]
}

/// Table V: the paper's order, and times close to the paper's, for all laws but OLIA.
pub(crate) fn responsiveness(rows: &[Responsiveness]) -> Vec<Gate> {
    let of = |law: &str| rows.iter().find(|row| row.law == law);
    // A run that hasn't converged took longer than any that has.
    let longest = |row: &Responsiveness| row.longest().unwrap_or(f64::INFINITY);
    let times = by(&BY_RESPONSIVENESS, |law| of(law).map(longest));
    let two = by(&["lia", "coupled"], |law| of(law).map(longest));
    let factors = times.iter().map(|(law, time)| {
        let theirs = paper::of(law).map_or(f64::NAN, |column| column.convergence);
        (*law, time / theirs)
    });
    let factors: Vec<(&str, f64)> = factors.collect();
    let mut singles: Vec<(&str, f64)> = rows
        .iter()
        .map(|row| (row.law.as_str(), row.single.mean))
        .collect();
    singles.sort_by(|a, b| a.1.total_cmp(&b.1));
    let singles_off = paper::columns().map(|column| {
        let ours = of(column.law).map_or(f64::NAN, |row| row.single.mean);
        (column.law, 100.0 * (ours / column.singles - 1.0))
    });
    let named = ["olia", "coupled"];
    let most = named.map(|law| of(law).map_or(f64::NAN, |row| row.single.mean));
    let others = singles.iter().filter(|(law, _)| !named.contains(law));
    let above = others.filter(|(_, rate)| most.iter().any(|most| most <= rate));
    let above = match most.iter().any(|rate| rate.is_nan()) {
        true => f64::NAN,
        false => above.count() as f64,
    };
    let before_ewtcp = singles.iter().position(|(law, _)| *law == "ewtcp");
    let off = worst(factors.iter().map(|(law, factor)| (*law, factor.ln())));
    let olia = of("olia").map_or(f64::NAN, longest);
    let theirs = paper::of("olia").map_or(f64::NAN, |column| column.convergence);
    vec![
        gate("balia/table-5-order").value(not_rising(&values(&times)), listed(&times, 1)),
        gate("balia/table-5-coupled").value(two[1].1 / two[0].1, listed(&two, 1)),
        gate("balia/table-5-convergence").cases(
            factors,
            off.map_or_else(String::new, |(law, off)| {
                format!("furthest: {law}, {:.2} times", off.exp())
            }),
        ),
        gate("balia/table-5-olia").value(olia / theirs, format!("{olia:.1} s")),
        gate("balia/table-5-single").value(
            before_ewtcp.map_or(f64::NAN, |laws| laws as f64),
            listed(&singles, 2),
        ),
        gate("balia/table-5-single-most").value(above, listed(&singles, 2)),
        gate("balia/table-5-single-value").cases(singles_off, furthest(&singles_off)),
    ]
}

/// Fig. 3: two subflows swing less in sum than one Reno flow, under every law.
pub(crate) fn oscillation(rows: &[Oscillation]) -> Vec<Gate> {
    let reno = rows.iter().find(|row| row.subflows == 1);
    let of_renos = |of: fn(&Oscillation) -> f64| {
        let several = rows.iter().filter(|row| row.subflows > 1);
        let reno = reno.map_or(f64::NAN, of);
        several.map(move |row| (row.law.as_str(), of(row) / reno))
    };
    let shown = |of: fn(&Oscillation) -> f64| {
        let values: Vec<(&str, f64)> = rows.iter().map(|row| (row.law.as_str(), of(row))).collect();
        listed(&values, 3)
    };
    let (cut, deviation) = (
        |row: &Oscillation| row.cut.mean,
        |row: &Oscillation| row.deviation.mean,
    );
    vec![
        gate("balia/figure-3-cut").cases(of_renos(cut), shown(cut)),
        gate("balia/figure-3-deviation").cases(of_renos(deviation), shown(deviation)),
    ]
}

/// The values of these laws, in this order; those without one are left out, and then no order
/// holds.
fn by<'a>(laws: &[&'a str], value: impl Fn(&str) -> Option<f64>) -> Vec<(&'a str, f64)> {
    let value = |law: &'a str| (law, value(law).unwrap_or(f64::NAN));
    laws.iter().copied().map(value).collect()
}

fn values(named: &[(&str, f64)]) -> Vec<f64> {
    named.iter().map(|(_, value)| *value).collect()
}

fn worst<'a>(off: impl Iterator<Item = (&'a str, f64)>) -> Option<(&'a str, f64)> {
    off.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
}

fn furthest(off: &[(&str, f64)]) -> String {
    worst(off.iter().copied()).map_or_else(String::new, |(law, off)| {
        format!("furthest: {law}, {off:+.1} %")
    })
}

fn listed(values: &[(&str, f64)], digits: usize) -> String {
    let values: Vec<String> = values
        .iter()
        .map(|(law, value)| format!("{law} {value:.digits$}"))
        .collect();
    values.join(", ")
}
