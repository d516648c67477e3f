//! What must hold of our tables, and whether it does.

use super::paper::{self, Column};
use super::{Aggregation, Friendliness, Oscillation, Responsiveness};
use crate::gate::Gate;

/// The paper's own runs have intervals of 0.2 %, but it says little of queues and nothing of
/// headers and timers.
const MULTIPATH_TOLERANCE: f64 = 0.10;
/// Single-path flows have less, so the same difference in Mbps weighs more.
const SINGLE_TOLERANCE: f64 = 0.15;
/// The paper: 9.19 to 9.28 of 9.3 Mbps after headers.
const LEAST_UTILISATION: f64 = 0.98;
/// Times hang on queues and timers that the paper doesn't give.
const CONVERGENCE_FACTOR: f64 = 2.0;
/// "≪": the paper's Coupled takes 5.3 times as long as its Max.
const MUCH_LONGER: f64 = 3.0;

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
        worst(paper::COLUMNS.iter().map(|column| {
            let ours = of(column.law).map_or(f64::NAN, ours);
            (column.law, ours / theirs(column) - 1.0)
        }))
    };
    let (multipath_off, single_off) = (
        off(|row| row.multipath.mean, |column| column.multipath),
        off(|row| row.single.mean, |column| column.single),
    );
    vec![
        Gate::new(
            "Table III: multipath goodput falls from EWTCP over Semicoupled, Max and Balia to \
             Coupled",
            listed(&multipath, 3),
            falling(&multipath),
        ),
        Gate::new(
            "Table III: single-path goodput rises in the same order",
            listed(&single, 3),
            rising(&single),
        ),
        Gate::new(
            "Table III: multipath goodput within 10 % of the paper's, all six laws",
            furthest(&multipath_off),
            multipath_off.is_some_and(|(_, off)| off.abs() <= MULTIPATH_TOLERANCE),
        ),
        Gate::new(
            "Table III: single-path goodput within 15 % of the paper's, all six laws",
            furthest(&single_off),
            single_off.is_some_and(|(_, off)| off.abs() <= SINGLE_TOLERANCE),
        ),
    ]
}

/// Table IV: every law but OLIA uses both links.
pub(crate) fn aggregation(rows: &[Aggregation]) -> Vec<Gate> {
    let others = rows.iter().filter(|row| row.law != "olia");
    let used: Vec<(&str, f64)> = others
        .map(|row| (row.law.as_str(), row.utilisation.mean))
        .collect();
    vec![Gate::new(
        "Table IV: utilisation of both links together at least 0.98, all laws but OLIA",
        listed(&used, 3),
        !used.is_empty() && used.iter().all(|(_, used)| *used >= LEAST_UTILISATION),
    )]
}

/// Table V: the paper's order, and times close to the paper's, for all laws but OLIA.
pub(crate) fn responsiveness(rows: &[Responsiveness]) -> Vec<Gate> {
    let of = |law: &str| rows.iter().find(|row| row.law == law);
    // A run that hasn't converged took longer than any that has.
    let longest = |row: &Responsiveness| row.longest().unwrap_or(f64::INFINITY);
    let times = by(&BY_RESPONSIVENESS, |law| of(law).map(longest));
    let (max, coupled) = (of("lia").map(longest), of("coupled").map(longest));
    let factors = worst(times.iter().filter_map(|(law, time)| {
        let theirs = paper::of(law)?.convergence;
        Some((*law, (time / theirs).ln()))
    }));
    let mut singles: Vec<(&str, f64)> = rows
        .iter()
        .map(|row| (row.law.as_str(), row.single.mean))
        .collect();
    singles.sort_by(|a, b| a.1.total_cmp(&b.1));
    vec![
        Gate::new(
            "Table V: the longest convergence rises from EWTCP over Semicoupled, Balia and Max to \
             Coupled",
            listed(&times, 1),
            rising(&times),
        ),
        Gate::new(
            "Table V: Coupled takes at least three times as long as Max",
            listed(&by(&["lia", "coupled"], |law| of(law).map(longest)), 1),
            matches!((max, coupled), (Some(max), Some(coupled)) if coupled >= MUCH_LONGER * max),
        ),
        Gate::new(
            "Table V: the longest convergence within a factor of two of the paper's, all laws but \
             OLIA",
            factors.map_or_else(String::new, |(law, off)| {
                format!("furthest: {law}, {:.2} times", off.exp())
            }),
            factors.is_some_and(|(_, off)| off.abs() <= CONVERGENCE_FACTOR.ln()),
        ),
        Gate::new(
            "Table V: single-path flows get least beside EWTCP",
            listed(&singles, 2),
            singles.first().is_some_and(|(law, _)| *law == "ewtcp"),
        ),
    ]
}

/// Fig. 3: two subflows swing less in sum than one Reno flow, under every law.
pub(crate) fn oscillation(rows: &[Oscillation]) -> Vec<Gate> {
    let reno = rows.iter().find(|row| row.subflows == 1);
    let several = || rows.iter().filter(|row| row.subflows > 1);
    let less = |of: fn(&Oscillation) -> f64| {
        reno.is_some_and(|reno| several().count() > 0 && several().all(|row| of(row) < of(reno)))
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
        Gate::new(
            "Fig. 3: a cut takes less of the sum of two windows than of Reno's one, all laws",
            shown(cut),
            less(cut),
        ),
        Gate::new(
            "Fig. 3: the sum of two windows deviates less than Reno's one, all laws",
            shown(deviation),
            less(deviation),
        ),
    ]
}

/// The values of these laws, in this order; those without one are left out, and then no order
/// holds.
fn by<'a>(laws: &[&'a str], value: impl Fn(&str) -> Option<f64>) -> Vec<(&'a str, f64)> {
    let value = |law: &'a str| (law, value(law).unwrap_or(f64::NAN));
    laws.iter().copied().map(value).collect()
}

fn rising(values: &[(&str, f64)]) -> bool {
    values.windows(2).all(|pair| pair[0].1 < pair[1].1)
}

fn falling(values: &[(&str, f64)]) -> bool {
    values.windows(2).all(|pair| pair[0].1 > pair[1].1)
}

fn worst<'a>(off: impl Iterator<Item = (&'a str, f64)>) -> Option<(&'a str, f64)> {
    off.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
}

fn furthest(off: &Option<(&str, f64)>) -> String {
    off.map_or_else(String::new, |(law, off)| {
        format!("furthest: {law}, {:+.1} %", 100.0 * off)
    })
}

fn listed(values: &[(&str, f64)], digits: usize) -> String {
    let values: Vec<String> = values
        .iter()
        .map(|(law, value)| format!("{law} {value:.digits$}"))
        .collect();
    values.join(", ")
}
