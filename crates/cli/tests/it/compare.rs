//! `manyway compare` as its users run it.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{self, Finished, Running};

/// Two flows over one path and one over two, one of them for half of the time.
const SMALL: &str = r#"
name = "side by side"
duration = "20 s"
repeat = 3
[links.a]
rate = "10 Mbps"
delay = "20 ms"
queue = "60 packets"
[links.b]
rate = "5 Mbps"
delay = "20 ms"
[paths.a]
links = ["a"]
[paths.b]
links = ["b"]
[defaults]
law = "reno"
jitter = "1 ms"
ack_every = "1 packet"
headers = "66 B"
sealing = "checksum"
[flows.one]
paths = ["a"]
count = 2
[flows.two]
paths = ["a", "b"]
start = "10 s"
[measure]
from = "2 s"
spans = [
    { name = "before", from = "2 s", until = "10 s" },
    { name = "after", from = "12 s", until = "20 s" },
]
"#;

fn compare(arguments: &[&str]) -> (TempDir, Finished) {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("small.toml"), SMALL).unwrap();
    let arguments = [&["compare", "small.toml"], arguments].concat();
    let done = Running(common::manyway(place.path(), &arguments).spawn().unwrap()).finish();
    (place, done)
}

fn mean(levels: &Value, level: &str) -> f64 {
    levels[level]["goodput_bps"]["mean"]
        .as_f64()
        .unwrap_or(f64::NAN)
}

/// One flow that has a second path for the last third, beside one that comes and goes, and a link
/// that is at two rates in turn, for far more epochs than networks.
const COMING_AND_GOING: &str = r#"
name = "coming and going"
duration = "60 s"
[links.l]
rate = "10 Mbps"
delay = "10 ms"
[links.m]
rate = "20 Mbps"
delay = "10 ms"
[links.changing]
rate = "10 Mbps"
delay = "10 ms"
timetable = [{ at = "0 s", rate = "10 Mbps" }, { at = "50 ms", rate = "2 Mbps" }]
timetable_period = "100 ms"
[links.broken]
rate = "8 Mbps"
delay = "10 ms"
timetable = [{ at = "30 s", up = false }]
[paths.p]
links = ["l"]
[paths.q]
links = ["m"]
[paths.r]
links = ["changing"]
[paths.s]
links = ["broken"]
[defaults]
law = "lia"
headers = "0 B"
[flows.f]
paths = ["p", { path = "q", start = "40 s" }]
[flows.g]
paths = ["p", "q"]
start = "10 s"
stop = "50 s"
[flows.alone]
paths = ["r"]
[flows.cut]
paths = ["s"]
[measure]
from = "20 s"
"#;

#[test]
fn optima_are_means_over_the_time_in_which_a_flow_is_there() {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("going.toml"), COMING_AND_GOING).unwrap();
    let arguments = [
        "compare",
        "going.toml",
        "--levels",
        "optimum,packet",
        "--json",
    ];
    let done = Running(common::manyway(place.path(), &arguments).spawn().unwrap()).finish();
    let result = done.ok().json();
    assert_eq!(result["remarks"], json!([]));
    let groups = &result["points"][0]["parts"][0]["groups"];
    let best = |of: &Value| mean(&of["levels"], "optimum") / 1e6;
    // f: 10 Mbps from 20 to 40 s, 15 to 50 s, 30 to 60 s; g: 20, then 15, from 20 to 50 s. The two
    // rates in turn are 6 in the mean, and the broken link is gone for three quarters.
    let expected = [
        (10.0 * 20.0 + 15.0 * 10.0 + 30.0 * 10.0) / 40.0,
        (20.0 * 20.0 + 15.0 * 10.0) / 30.0,
        6.0,
        2.0,
    ];
    for (n, expected) in expected.into_iter().enumerate() {
        let group = &groups[n];
        assert!((best(group) / expected - 1.0).abs() < 1e-3, "{group}");
        // Flows that share links share them by another rule than the optimum's.
        let measured = mean(&group["levels"], "packet") / 1e6;
        assert!(n < 2 || measured < 1.01 * expected, "{group}");
        let paths = group["subflows"].as_array().unwrap();
        let sum: f64 = paths.iter().map(best).sum();
        let sum = if paths.is_empty() { best(group) } else { sum };
        assert!((sum / expected - 1.0).abs() < 1e-3, "{group}");
    }
}

#[test]
fn too_many_networks_have_no_optimum() {
    let place = TempDir::new().unwrap();
    let outage = "timetable = [{ at = \"30 s\", up = false }]";
    let varying = "varying = { interval = \"50 ms\", deviation = 0.5 }";
    let scenario = COMING_AND_GOING.replace(outage, varying);
    fs::write(place.path().join("varying.toml"), scenario).unwrap();
    let arguments = [
        "compare",
        "varying.toml",
        "--levels",
        "optimum,packet",
        "--json",
    ];
    let done = Running(common::manyway(place.path(), &arguments).spawn().unwrap()).finish();
    let result = done.ok().json();
    let remark = result["remarks"][0].as_str().unwrap();
    assert!(remark.contains("more than 200 different ones"), "{remark}");
    assert_eq!(result["levels"], json!(["packet"]));
}

#[test]
fn levels_stand_side_by_side() {
    // Each once, in an order of their own.
    let levels = "stack,optimum,packet,fluid,stack";
    let (place, done) = compare(&["--levels", levels, "--json", "--out", "results"]);
    let done = done.ok();
    let result = done.json();
    let columns = ["optimum", "fluid equilibrium", "fluid", "packet", "stack"];
    assert_eq!(result["levels"], json!(columns));
    let parts = result["points"][0]["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 2);
    assert_eq!(parts[1]["name"], "after");
    let [one, two] = [0, 1].map(|n| &parts[1]["groups"][n]);
    // Proportional fairness: flow two has link b, and what link a's price leaves it. All levels
    // count without headers of 66 B in packets of 1500 B.
    let payload = 1434.0 / 1500.0;
    let expected = [(one, 5e6 * payload), (two, 5e6 * payload)];
    for (group, expected) in expected {
        let best = mean(&group["levels"], "optimum");
        assert!((best / expected - 1.0).abs() < 1e-3, "{best}: {group}");
    }
    for column in columns {
        let [one, two] = [one, two].map(|group| mean(&group["levels"], column));
        let all = (2.0 * one + two) / 1e6;
        assert!((13.0..14.4).contains(&all), "{column}: {all}");
        // A flow is the sum of its subflows.
        let paths = [0, 1].map(|n| mean(&parts[1]["groups"][1]["subflows"][n]["levels"], column));
        assert!(
            (paths[0] + paths[1] - two).abs() < 2.0,
            "{column}: {paths:?}"
        );
    }
    // The level before, by the means.
    let stack = &one["levels"]["stack"]["difference"];
    let relative = mean(&one["levels"], "stack") / mean(&one["levels"], "packet") - 1.0;
    assert!(
        (stack["relative"].as_f64().unwrap() - relative).abs() < 1e-9,
        "{stack}"
    );
    assert!(stack["ci95"].is_number(), "{stack}");
    assert!(one["levels"]["fluid"]["difference"]["ci95"].is_null());
    assert!(one["levels"]["optimum"]["difference"].is_null());
    // A flow that isn't there yet has no goodput, at any level.
    let early = &parts[0]["groups"][1];
    assert_eq!(early["levels"], json!({}));
    for text in [
        "packet (Mbps)",
        "stack (Mbps)",
        "3 runs",
        "before, 2 s to 10 s:",
        "2 × one",
    ] {
        assert!(done.stderr.contains(text), "{text}: {}", done.stderr);
    }
    let table = fs::read_to_string(place.path().join("results/comparison.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    // Five levels of group one in both spans; in the second, group two and its paths.
    assert_eq!(rows.len(), 5 * (1 + 1 + 3));
    let row = rows
        .iter()
        .find(|row| &row[1] == "after" && &row[4] == "one" && &row[7] == "stack");
    let written: f64 = row.unwrap()[8].parse().unwrap();
    assert!((written - mean(&one["levels"], "stack")).abs() < 1e-6);
    let svg = fs::read_to_string(place.path().join("results/comparison.svg")).unwrap();
    assert!(svg.contains("after two b") && svg.trim_end().ends_with("</svg>"));
}

#[test]
fn a_level_that_has_nothing_to_say_takes_nothing_from_the_others() {
    let (_, done) = compare(&["--levels", "fluid,packet", "--set", "law=olia"]);
    let done = done.ok();
    assert!(
        done.stderr.contains("olia has no fluid form"),
        "{}",
        done.stderr
    );
    assert!(done.stderr.contains("packet (Mbps)"), "{}", done.stderr);
}

#[test]
fn what_cannot_be_done_is_said() {
    let refused = |arguments: &[&str], expected: &str| {
        let (_, done) = compare(arguments);
        assert_eq!((done.code, done.stdout.as_str()), (2, ""), "{done:?}");
        assert!(done.stderr.contains(expected), "{}", done.stderr);
    };
    refused(
        &[
            "--levels",
            "packet,stack",
            "--set",
            "flows.one.loss_detection=fixed",
        ],
        "flows.one.loss_detection: sessions only support \"adaptive\"",
    );
    refused(&["--levels", "packet,flow"], "flow");
    refused(
        &["--levels", "packet", "--floors"],
        "--floors applies to the fluid level",
    );
    let overlay = "../../scenarios/overlay/fig3.toml";
    let place = env!("CARGO_MANIFEST_DIR");
    let arguments = ["compare", overlay];
    let child = common::manyway(place.as_ref(), &arguments).spawn().unwrap();
    let done = Running(child).finish();
    assert_eq!(done.code, 2);
    assert!(done.stderr.contains("has an [overlay]"), "{}", done.stderr);
}
