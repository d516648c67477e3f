//! `manyway run --level fluid` as its users run it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::{self, Finished, Running};
use serde_json::Value;
use tempfile::TempDir;

fn run(arguments: &[&str]) -> Finished {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let arguments = [&["run"], arguments].concat();
    Running(common::manyway(&scenarios, &arguments).spawn().unwrap()).finish()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

#[test]
fn a_packet_level_scenario_runs_unchanged() {
    let law = ["--set", "law=wvegas"];
    let wvegas = run(&[&["wvegas/table2.toml", "--level", "fluid"], &law[..]].concat());
    insta::assert_snapshot!("wvegas", wvegas.ok().stderr);
    let balia = run(&["balia/fluid.toml", "--level", "fluid"]).ok();
    insta::assert_snapshot!("balia", balia.stderr);
}

/// Every scenario there is either runs, or what is in the way is told.
#[test]
fn all_scenarios_run_or_say_why_not() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut reasons = BTreeSet::new();
    for folder in ["balia", "bmc", "examples", "mpath", "wvegas", "speed"] {
        for file in fs::read_dir(scenarios.join(folder)).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let done = run(&[&format!("{folder}/{name}"), "--level", "fluid", "--json"]);
            if done.code == 0 {
                let points = done.json()["points"].as_array().unwrap().clone();
                assert!(
                    points.iter().any(|point| point["flows"].is_array()),
                    "{name}"
                );
                continue;
            }
            assert_eq!(
                (done.code, done.stdout.as_str()),
                (2, ""),
                "{name}: {done:?}"
            );
            assert!(done.stderr.contains("fluid"), "{name}: {}", done.stderr);
            reasons.insert(folder);
        }
    }
    // mPath opens and closes paths, BMC has flows of its own law beside each other, in every point.
    assert!(reasons.contains("mpath"), "{reasons:?}");
}

#[test]
fn a_law_without_fluid_form_takes_nothing_from_the_others() {
    let done = run(&["balia/table3.toml", "--level", "fluid", "--json"]).ok();
    assert_eq!(done.stdout.lines().count(), 1);
    let result = done.json();
    assert_eq!(
        (&result["scenario"], &result["level"]),
        (&"balia-table3".into(), &"fluid".into())
    );
    let points = result["points"].as_array().unwrap();
    assert_eq!(points.len(), 6);
    let error = points[5]["error"].as_str().unwrap();
    assert!(
        error.starts_with("the flow `multipath.1`: olia has no fluid form"),
        "{error}"
    );
    let coupled = &points[4];
    assert_eq!(coupled["flows"].as_array().unwrap().len(), 60);
    let epoch = &coupled["epochs"][0];
    assert_eq!(
        (&epoch["converged"], &epoch["method"]),
        (&true.into(), &"newton".into())
    );
    // At rest Coupled leaves the second link to the others, 2 Mbps each.
    let rest = number(&epoch["subflows"][119 - 30]["rest_bps"]);
    assert!((rest - 2e6).abs() < 1e4, "{rest}");
}

#[test]
fn results_go_into_a_folder() {
    let place = TempDir::new().unwrap();
    let out = place.path().join("results");
    let out = out.to_str().unwrap();
    let done = run(&[
        "wvegas/table2.toml",
        "--level",
        "fluid",
        "--set",
        "law=wvegas",
        "--out",
        out,
    ]);
    assert!(
        done.ok()
            .stderr
            .contains("result.json, subflows.csv, links.csv, series.csv and 4 plots")
    );
    let names: BTreeSet<String> = fs::read_dir(out)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = [
        "links.csv",
        "prices.svg",
        "rates.svg",
        "result.json",
        "rtts.svg",
        "series.csv",
        "subflows.csv",
        "windows.svg",
    ];
    assert_eq!(names, expected.map(str::to_owned).into());
    let series = fs::read_to_string(format!("{out}/series.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(series.as_bytes());
    let rows: Vec<[String; 6]> = reader.deserialize().map(Result::unwrap).collect();
    let last = rows
        .iter()
        .rfind(|row| row[1] == "price" && row[2] == "top")
        .unwrap();
    assert_eq!(last[4], "360");
    // 10 packets of flow one at 5 Mbps.
    let delay: f64 = last[5].parse().unwrap();
    assert!((delay - 0.016).abs() < 5e-4, "{delay}");
}

#[test]
fn what_cannot_be_done_is_said() {
    let errors = [
        &[
            "balia/fluid.toml",
            "--level",
            "fluid",
            "--set",
            "flows.multipath.law=olia",
        ][..],
        &[
            "wvegas/beside-reno.toml",
            "--level",
            "fluid",
            "--set",
            "flows.one.law=wvegas",
        ],
        &["balia/fluid.toml", "--floors"],
        &["mpath/alpha.toml", "--level", "fluid"],
    ];
    let told = errors.map(|arguments| {
        let run = run(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        format!("$ manyway run {}\n{}", arguments.join(" "), run.stderr)
    });
    insta::assert_snapshot!(told.join("\n"));
}
