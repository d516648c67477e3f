//! The files of claims against themselves and against the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::*;
use crate::extent::Size;
use crate::registry::STUDIES;

/// Each paper's name with each of its claims.
fn claims() -> impl Iterator<Item = (&'static str, &'static Claim)> {
    let papers = all().iter();
    papers.flat_map(|paper| paper.claims.iter().map(|claim| (paper.name, claim)))
}

#[test]
fn names_are_unique_and_can_be_typed() {
    for paper in all() {
        let items: Vec<&str> = paper
            .claims
            .iter()
            .map(|claim| claim.item.as_str())
            .collect();
        let gates = paper.claims.iter().flat_map(|claim| &claim.gates);
        let gates: Vec<&str> = gates.map(|gate| gate.name.as_str()).collect();
        for names in [items, gates] {
            let different: BTreeSet<&str> = names.iter().copied().collect();
            assert_eq!(different.len(), names.len(), "{}", paper.name);
            let typed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(
                names.iter().all(|name| name.chars().all(typed)),
                "{names:?}"
            );
        }
    }
}

#[test]
fn each_result_is_judged() {
    for (paper, claim) in claims() {
        let id = format!("{paper}/{}", claim.item);
        let judged = !claim.gates.is_empty() || !claim.also.is_empty();
        match claim.kind {
            Kind::Illustration => {
                assert!(!judged, "{id}");
                assert!(claim.study.is_none() && claim.numbers.is_empty(), "{id}");
            }
            Kind::Result => assert!(judged, "{id}"),
        }
        assert!(claim.claim.ends_with('.'), "{id}: {}", claim.claim);
        let measured = judged || claim.numbers.iter().next().is_some() || !claim.figures.is_empty();
        assert!(claim.study.is_some() || !measured, "{id} names no study");
        assert_eq!(claim.study.is_some(), !claim.levels.is_empty(), "{id}");
        if let Some(study) = &claim.study {
            assert!(STUDIES.iter().any(|known| known.name() == study), "{id}");
        }
        for gate in &claim.also {
            let of_another = |own: &Terms| own.name != *gate;
            assert!(claim.gates.iter().all(of_another), "{id}");
            terms(&format!("{paper}/{gate}"));
        }
    }
}

#[test]
fn gates_have_limits_reasons_and_bounds_that_bind() {
    for (paper, claim) in claims() {
        for gate in &claim.gates {
            let id = format!("{paper}/{}", gate.name);
            let limits = gate.limits();
            assert!(limits.named().next().is_some(), "{id} has no limit");
            let lower = [gate.at_least, gate.above].iter().flatten().count();
            let upper = [gate.at_most, gate.below].iter().flatten().count();
            assert!(lower <= 1 && upper <= 1, "{id} has two limits on one side");
            assert!(!gate.what().contains('{'), "{id}: {}", gate.what());
            assert!(gate.from == Origin::Paper || !gate.why.is_empty(), "{id}");
            let bounds = [Size::Short, Size::Full].into_iter();
            let bounds: Vec<f64> = bounds
                .flat_map(|size| gate.known.all(size).map(|(_, bound)| bound))
                .collect();
            let holds = |bound: &f64| limits.hold(*bound);
            assert!(!bounds.iter().any(holds), "{id}: a bound within the limits");
            let explained = gate.cause.is_some() && gate.tested.is_some();
            assert!(bounds.is_empty() || explained, "{id} has bounds, no cause");
            let none_in_short = gate.known.all(Size::Short).next().is_none();
            assert!(!gate.full || none_in_short, "{id} is of full runs");
        }
    }
}

/// The names that the code asks for outside of its tests: `gate("…")`.
fn gates_of_the_code() -> BTreeSet<String> {
    fn read(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, names);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs")
            {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                let named = code.split("gate(").skip(1).filter_map(|rest| {
                    let name = rest.trim_start().strip_prefix('"')?;
                    Some(name.split('"').next()?.to_owned())
                });
                names.extend(named);
            }
        }
    }
    let mut names = BTreeSet::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    read(&sources, &mut names);
    names
}

/// That studies measure what they name is checked when they run, see `Outcome::faults`.
#[test]
fn every_gate_has_a_row_and_every_row_a_gate() {
    let rows: BTreeSet<String> = claims()
        .flat_map(|(paper, claim)| {
            let gates = claim.gates.iter();
            gates.map(move |gate| format!("{paper}/{}", gate.name))
        })
        .collect();
    let code = gates_of_the_code();
    let without_row: Vec<_> = code.difference(&rows).collect();
    let without_gate: Vec<_> = rows.difference(&code).collect();
    assert!(
        without_row.is_empty(),
        "not in claims/*.toml: {without_row:?}"
    );
    assert!(without_gate.is_empty(), "not in the code: {without_gate:?}");
}

#[test]
fn every_table_and_figure_has_a_row() {
    let last = [
        ("balia", "Table ", vec!["I", "II", "III", "IV", "V"]),
        ("balia", "Fig. ", vec!["1", "2", "3", "4"]),
        ("wvegas", "Table ", vec!["I", "II"]),
        ("wvegas", "Fig. ", "1 2 3 4 5 6 7 8".split(' ').collect()),
        (
            "bmc",
            "Fig. ",
            "1.1 1.2 2.1 3.1 3.2 3.3 4.1 5.1 5.2 5.10 5.11 5.12 5.16 5.18"
                .split(' ')
                .collect(),
        ),
        (
            "mpath",
            "Fig. ",
            "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27"
                .split(' ')
                .collect(),
        ),
        ("overlay", "Fig. ", "1 2 3 4 5 6 7".split(' ').collect()),
    ];
    for (name, what, numbers) in last {
        let paper = all().iter().find(|paper| paper.name == name).unwrap();
        for number in numbers {
            let place = format!("{what}{number}");
            let has = |claim: &Claim| {
                let rest = claim.place.strip_prefix(&place);
                rest.is_some_and(|rest| {
                    !rest.starts_with(|c: char| c.is_alphanumeric() || c == '.')
                })
            };
            assert!(paper.claims.iter().any(has), "{name}: {place}");
        }
    }
}
