//! `manyway criteria` as its users run it.

use std::path::Path;

use crate::common::{self, Finished, Running};
use serde_json::Value;

fn criteria(arguments: &[&str]) -> Finished {
    let arguments = [&["criteria"], arguments].concat();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Running(common::manyway(here, &arguments).spawn().unwrap()).finish()
}

/// Few points: what is proved, and what two paths break, doesn't hang on them.
const FEW: [&str; 2] = ["--samples", "100"];

fn few(arguments: &[&str]) -> Finished {
    criteria(&[arguments, &FEW].concat()).ok()
}

#[test]
fn table_1() {
    insta::assert_snapshot!(few(&[]).stderr);
}

/// A witness' numbers come from a search: its form is what stays.
#[test]
fn one_law_has_its_evidence() {
    let shown = few(&["semicoupled"]).stderr;
    let lines: Vec<&str> = shown
        .lines()
        .map(|line| line.split(" at x = ").next().unwrap_or_default())
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

fn holds(result: &Value) -> Vec<Value> {
    let criteria = ["C0", "C1", "C2", "C3", "C4", "C5"];
    criteria
        .iter()
        .map(|name| result[name]["holds"].clone())
        .collect()
}

#[test]
fn json_is_one_object_with_every_criterion() {
    let run = few(&["coupled", "--json"]);
    assert_eq!(run.stdout.lines().count(), 1);
    let result = run.json();
    assert_eq!(
        holds(&result),
        [
            true.into(),
            true.into(),
            false.into(),
            false.into(),
            Value::Null,
            true.into()
        ]
    );
    let reason = result["C4"]["undefined"].as_str().unwrap();
    assert!(reason.contains("has no inverse"), "{reason}");
    let witness = &result["C2"]["witness"];
    assert_eq!(witness["rates"].as_array().unwrap().len(), 2);
    assert_eq!(witness["product"], 0.0);
    assert_eq!(result["C0"]["witness"], Value::Null);
    assert_eq!(result["domain"]["seed"], 1);
    let shared = result["tradeoff"]["shared"].as_f64().unwrap();
    assert!((shared - 1.0).abs() < 1e-6, "{shared}");

    let table = few(&["--json", "--seed", "3"]).json();
    assert_eq!(table["domain"]["seed"], 3);
    let laws = table["laws"].as_array().unwrap();
    assert_eq!(laws.len(), 8);
    assert_eq!(laws[1]["C4"]["paper"], true);
    assert_eq!(laws[7]["C4"]["paper"], Value::Null);
}

#[test]
fn domains_are_chosen() {
    let ten = few(&["max", "--paths", "10", "--json"]).json();
    assert_eq!(ten["C2"]["holds"], false);
    assert_eq!(ten["C2"]["witness"]["rates"].as_array().unwrap().len(), 10);
    let unequal = few(&["semicoupled", "--rtts", "20 ms,100 ms", "--json"]).json();
    assert_eq!(unequal["C2"]["holds"], false);
    assert_eq!(
        unequal["C2"]["witness"]["rtts"],
        serde_json::json!([0.02, 0.1])
    );
    let drawn = few(&["lia", "--rtts", "10 ms..300 ms"]).stderr;
    let first = drawn.lines().next().unwrap();
    assert_eq!(
        first,
        "lia: 2 to 8 paths with round-trip times between 10 and 300 ms, 100 points (seed 1) with \
         rates over 3 decades off ties"
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let json = || few(&["balia", "--json"]).stdout;
    assert_eq!(json(), json());
}

#[test]
fn what_cannot_be_done_is_said() {
    let errors = [
        &["olia"][..],
        &["cubic"],
        &["wvegas"],
        &["bmc"],
        &["mpath"],
        &["bali"],
        &["generalized:beta=-1"],
        &["balia", "--paths", "1"],
        &["balia", "--rtts", "0 ms"],
        &["balia", "--rtts", "20 ms,100 ms", "--paths", "3"],
        &["balia", "--samples", "0"],
    ];
    let told = errors.map(|arguments| {
        let run = criteria(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        // Laws come; what is said of a wrong name stays.
        let said = match run.stderr.split_once("; known are ") {
            Some((said, _)) => format!("{said}; known are …\n"),
            None => run.stderr,
        };
        format!("$ manyway criteria {}\n{said}", arguments.join(" "))
    });
    insta::assert_snapshot!(told.join("\n"));
}
