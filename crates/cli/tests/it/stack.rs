//! `manyway run --level stack` as its users run it.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{self, Finished, Running};

const SMALL: &str = r#"name = "small"
duration = "8 s"
repeat = 2

[links.wifi]
rate = "10 Mbps"
delay = "10 ms"

[links.5g]
rate = "20 Mbps"
delay = "20 ms"

[paths.wifi]
links = ["wifi"]

[paths.5g]
links = ["5g"]

[flows.phone]
law = "reno"
paths = ["wifi", "5g"]

[flows.file]
law = "reno"
paths = ["5g"]
size = "1 MB"
start_spread = "100 ms"

[measure]
from = "3 s"
series = ["rate", "queue"]
"#;

fn run(arguments: &[&str]) -> (TempDir, Finished) {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("small.toml"), SMALL).unwrap();
    let arguments = [&["run", "small.toml"], arguments].concat();
    let done = Running(common::manyway(place.path(), &arguments).spawn().unwrap()).finish();
    (place, done)
}

fn mean(value: &Value) -> f64 {
    value["mean"].as_f64().unwrap_or(f64::NAN)
}

#[test]
fn sessions_have_the_same_tables_as_packets() {
    let (place, done) = run(&["--level", "stack", "--json", "--out", "results"]);
    let done = done.ok();
    assert!(
        done.stderr
            .contains("small: stack level, 2 runs (seeds 1 to 2)"),
        "{}",
        done.stderr
    );
    let result = done.json();
    assert_eq!(result["level"], "stack");
    let [phone, file] = [0, 1].map(|n| &result["flows"][n]);
    let all = mean(&phone["goodput_bps"]);
    assert!((26e6..28.7e6).contains(&all), "{phone}");
    let paths = [0, 1].map(|n| mean(&phone["subflows"][n]["goodput_bps"]));
    assert!((paths[0] + paths[1] - all).abs() < 1.0, "{phone}");
    assert_eq!(file["completed"], 2);
    assert!(mean(&file["completion_s"]) < 2.0, "{file}");
    let mut files: Vec<_> = fs::read_dir(place.path().join("results"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let expected = [
        "flows.csv",
        "links.csv",
        "queues.svg",
        "rates.svg",
        "result.json",
        "series.csv",
        "subflows.csv",
        "transfers.csv",
    ];
    assert_eq!(files, expected);
}

#[test]
fn the_number_of_threads_makes_no_difference() {
    let with = |threads| {
        run(&["--level", "stack", "--json", "--threads", threads])
            .1
            .ok()
    };
    assert_eq!(with("1").stdout, with("2").stdout);
}

#[test]
fn what_sessions_do_not_take_is_told() {
    let assignment = "flows.phone.loss_detection=fixed";
    let (_, done) = run(&["--level", "stack", "--set", assignment]);
    assert_eq!((done.code, done.stdout.as_str()), (2, ""), "{done:?}");
    let expected = "flows.phone.loss_detection: sessions only support \"adaptive\": write that, \
                    leave it out, or run the packet level";
    assert!(done.stderr.contains(expected), "{}", done.stderr);
}
