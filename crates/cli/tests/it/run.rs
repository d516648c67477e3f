//! `manyway run` and `manyway scenario` as their users run them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{self, Finished, Running};

/// Two flows over two links, three seconds each.
const SMALL: &str = r#"name = "small"
duration = "3 s"

[links.wifi]
rate = "10 Mbps"
delay = "10 ms"
queue = "50 packets"

[links.5g]
rate = "20 Mbps"
delay = "20 ms"

[paths.wifi]
links = ["wifi"]

[paths.5g]
links = ["5g"]

[flows.multi]
law = "lia"
paths = ["wifi", "5g"]
jitter = "1 ms"

[flows.single]
law = "reno"
paths = ["5g"]
start = "500 ms"
start_spread = "100 ms"

[measure]
from = "1 s"
interval = "100 ms"
series = ["rate", "window", "rtt", "queue"]
"#;

const SWEEP: &str = "
[sweep]
law = [\"lia\", \"balia\"]
\"links.wifi.rate\" = [\"5 Mbps\", \"10 Mbps\"]
";

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(TempDir::new().unwrap());
        place.write("small.toml", SMALL);
        // The law of all flows is swept, so none has one of its own.
        let free = SMALL
            .replace("law = \"lia\"\n", "")
            .replace("law = \"reno\"\n", "");
        place.write("sweep.toml", &(free + SWEEP));
        place
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn start(&self, arguments: &[&str]) -> Running {
        Running(common::manyway(self.0.path(), arguments).spawn().unwrap())
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.start(arguments).finish()
    }

    /// Name and contents of all files in a folder.
    fn folder(&self, name: &str) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.0.path().join(name)).unwrap();
        let contents = |path: &Path| fs::read_to_string(path).unwrap();
        entries
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (
                    entry.file_name().into_string().unwrap(),
                    contents(&entry.path()),
                )
            })
            .collect()
    }

    fn exists(&self, name: &str) -> bool {
        self.0.path().join(name).exists()
    }
}

/// Rows of a table, each by the names of its columns.
fn rows(csv: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    reader.deserialize().map(|row| row.unwrap()).collect()
}

#[test]
fn one_object_on_standard_output() {
    let place = Place::new();
    let run = place
        .run(&[
            "run",
            "small.toml",
            "--json",
            "--repeat",
            "3",
            "--seed",
            "5",
        ])
        .ok();
    let result = run.json();
    assert_eq!(run.stdout.lines().count(), 1);
    assert_eq!(result["scenario"], "small");
    assert_eq!(
        (&result["level"], &result["seed"]),
        (&"packet".into(), &5.into())
    );
    assert_eq!(
        (&result["repeat"], &result["runs"], &result["unfinished"]),
        (&3.into(), &3.into(), &0.into())
    );
    let multi = &result["flows"][0];
    assert_eq!(multi["name"], "multi");
    let mean = |value: &Value| value["mean"].as_f64().unwrap();
    let sum: f64 = multi["subflows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|subflow| mean(&subflow["goodput_bps"]))
        .sum();
    assert!((mean(&multi["goodput_bps"]) - sum).abs() < 1.0, "{multi}");
    let subflow = &multi["subflows"][0];
    for key in [
        "goodput_bps",
        "window_mean_packets",
        "rtt_mean_s",
        "loss_events",
    ] {
        let estimate = &subflow[key];
        assert!(mean(estimate) >= 0.0, "{key}: {multi}");
        assert!(estimate["ci95"].as_f64().unwrap() >= 0.0, "{key}: {multi}");
        assert_eq!(estimate["n"], 3, "{key}: {multi}");
    }
    assert_eq!(
        (&subflow["path"], &result["version"]),
        (&"wifi".into(), &2.into())
    );
    let utilisation = mean(&result["links"][0]["utilisation"]);
    assert!((0.1..=1.0).contains(&utilisation), "{utilisation}");
    assert!((0.5..=1.0).contains(&mean(&result["jain"])));
    assert!(
        run.stderr.contains("small: 3 runs (seeds 5 to 7)"),
        "{}",
        run.stderr
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let place = Place::new();
    let run = |threads: &str, out: &str| {
        let mut arguments = vec![
            "run",
            "sweep.toml",
            "--json",
            "--repeat",
            "3",
            "--keep-series",
        ];
        arguments.extend(["--threads", threads, "--out", out]);
        (place.run(&arguments).ok().stdout, place.folder(out))
    };
    let one = run("1", "one");
    assert!(one == run("2", "two"), "1 and 2 threads differ");
    assert!(one == run("2", "again"), "two runs differ");
    let other = place
        .run(&["run", "sweep.toml", "--json", "--seed", "2"])
        .ok();
    assert_ne!(one.0, other.stdout);
}

#[test]
fn a_folder_with_all_points_and_repetitions() {
    let place = Place::new();
    place
        .run(&["run", "sweep.toml", "--out", "a/b", "--repeat", "2", "-q"])
        .ok();
    // Over older files of the same name.
    let run = place
        .run(&[
            "run",
            "sweep.toml",
            "--out",
            "a/b",
            "--repeat",
            "3",
            "--json",
        ])
        .ok();
    assert!(
        run.stderr.ends_with(
            "In a/b: result.json, flows.csv, subflows.csv, links.csv, series.csv and 16 plots\n"
        ),
        "{}",
        run.stderr
    );
    let files = place.folder("a/b");
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let kinds = ["queues", "rates", "rtts", "windows"];
    let plots = kinds.map(|kind| [1, 2, 3, 4].map(|point| format!("{kind}-{point}.svg")));
    let plots: Vec<&str> = plots.as_flattened().iter().map(String::as_str).collect();
    let sheets = [
        "flows.csv",
        "links.csv",
        "result.json",
        "series.csv",
        "subflows.csv",
    ];
    let mut expected = [&sheets[..], &plots[..]].concat();
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(files["result.json"], run.stdout);
    let result = run.json();
    assert!(result.get("flows").is_none());
    let points = result["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    assert_eq!(points[1]["set"]["law"], "lia");
    assert_eq!(points[1]["set"]["links.wifi.rate"], "10 Mbps");

    let flows = rows(&files["flows.csv"]);
    assert_eq!(flows.len(), 4 * 3 * 2);
    let row = &flows[7];
    assert_eq!(
        (
            row["point"].as_str(),
            row["repetition"].as_str(),
            row["seed"].as_str()
        ),
        ("2", "1", "1")
    );
    assert_eq!(
        (row["set.law"].as_str(), row["set.links.wifi.rate"].as_str()),
        ("lia", "10 Mbps")
    );
    assert_eq!(
        (row["group"].as_str(), row["flow"].as_str()),
        ("single", "single")
    );
    // The object's means are those of the rows.
    let of_point = flows
        .iter()
        .filter(|row| row["point"] == "2" && row["flow"] == "single");
    let goodputs: Vec<f64> = of_point
        .map(|row| row["goodput_bps"].parse().unwrap())
        .collect();
    let mean = goodputs.iter().sum::<f64>() / 3.0;
    let reported = points[1]["flows"][1]["goodput_bps"]["mean"]
        .as_f64()
        .unwrap();
    assert!((mean - reported).abs() < 1e-6 * mean, "{mean} {reported}");

    assert_eq!(rows(&files["subflows.csv"]).len(), 4 * 3 * 3);
    assert_eq!(rows(&files["links.csv"]).len(), 4 * 3 * 2);
    let series = rows(&files["series.csv"]);
    assert!(
        series.iter().all(|row| row["seed"] == "1"),
        "of the first repetition only"
    );
    // 30 samples of each of two links at four points.
    assert_eq!(
        series.iter().filter(|row| row["kind"] == "queue").count(),
        30 * 2 * 4
    );
    assert!(
        series
            .iter()
            .all(|row| row["value"].parse::<f64>().unwrap().is_finite())
    );
    assert!(files["rates-3.svg"].contains("law = balia, links.wifi.rate = 5 Mbps, seed 1"));
}

#[test]
fn assignments_change_the_file() {
    let place = Place::new();
    let json = |arguments: &[&str]| {
        let all = [
            &[
                "run",
                "sweep.toml",
                "--json",
                "--set",
                "duration=1 s",
                "--set",
                "measure.from=0 s",
            ],
            arguments,
        ]
        .concat();
        place.run(&all).ok().json()
    };
    let result = json(&["--set", "law=reno"]);
    assert_eq!(result["points"].as_array().unwrap().len(), 2);
    assert_eq!(result["points"][0]["groups"][0]["law"], "reno");
    let result = json(&["--set", "law=reno", "--set", "links.wifi.rate=7Mbps"]);
    assert_eq!(result["groups"][0]["law"], "reno");
    let environment = common::manyway(place.0.path(), &["run", "sweep.toml", "--json"])
        .env(
            "MANYWAY_SET",
            "law=reno;links.wifi.rate=7Mbps;duration=1 s;measure.from=0 s",
        )
        .spawn()
        .unwrap();
    assert_eq!(Running(environment).finish().ok().json(), result);
}

/// Every way to be told what is wrong: exit status 2, one message, nothing on standard output,
/// nothing on the disk.
#[test]
fn bad_input_is_told_and_nothing_is_written() {
    let place = Place::new();
    place.write("file", "");
    let mut transcript = String::new();
    let mut refused = |what: &str, text: &str, arguments: &[&str]| {
        place.write("bad.toml", text);
        let all = [&["run", "bad.toml", "--json"], arguments].concat();
        let out = if arguments.contains(&"--out") {
            vec![]
        } else {
            vec!["--out", "out"]
        };
        let run = place.run(&[all, out].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{what}: {run:?}");
        assert!(!place.exists("out"), "{what}");
        writeln!(transcript, "{what}\n{}", run.stderr).unwrap();
    };
    let changed = |from: &str, to: &str| {
        assert!(SMALL.contains(from), "{from}");
        SMALL.replacen(from, to, 1)
    };
    refused("an unknown law", &changed("\"lia\"", "\"ballia\""), &[]);
    refused(
        "a path over a missing link",
        &changed("[\"wifi\"]", "[\"wify\"]"),
        &[],
    );
    refused("a zero rate", &changed("10 Mbps", "0 Mbps"), &[]);
    refused("a unit missing", &changed("\"10 ms\"", "10"), &[]);
    refused(
        "a flow that stops before it starts",
        &changed("\"500 ms\"", "\"500 ms\"\nstop = \"200 ms\""),
        &[],
    );
    refused(
        "a billion flows",
        &changed("jitter", "count = 1_000_000_000\njitter"),
        &[],
    );
    refused(
        "a cyclic sweep",
        &format!("{SMALL}[sweep]\n\"sweep.seed\" = [1, 2]\n"),
        &[],
    );
    refused("not TOML", "name = small\n", &[]);
    refused("no such key", SMALL, &["--set", "links.wifi.rat=1 Mbps"]);
    refused("not an assignment", SMALL, &["--set", "law"]);
    refused("no repetitions", SMALL, &["--repeat", "0"]);
    refused("an unwritable folder", SMALL, &["--out", "file/out"]);
    refused("a folder that is a file", SMALL, &["--out", "file"]);
    let missing = place.run(&["run", "missing.toml", "--out", "out"]);
    assert_eq!(
        (missing.code, missing.stdout.as_str()),
        (2, ""),
        "{missing:?}"
    );
    assert!(!place.exists("out"));
    writeln!(transcript, "a missing file\n{}", missing.stderr).unwrap();
    // The list of all laws grows.
    let transcript = transcript
        .lines()
        .map(|line| match line.split_once("; known are ") {
            Some((line, _)) => format!("{line}; known are …\n"),
            None => format!("{line}\n"),
        });
    insta::assert_snapshot!(transcript.collect::<String>());
}

#[test]
fn scenario_files_are_checked() {
    let place = Place::new();
    place.write("bad.toml", &SMALL.replace("10 ms", "10"));
    let good = place
        .run(&["scenario", "check", "small.toml", "sweep.toml"])
        .ok();
    assert_eq!(good.stdout, "");
    assert_eq!(
        good.stderr,
        "small.toml: ok: 2 links, 2 paths, 2 flows, 1 point × 1 repetition\n\
         sweep.toml: ok: 2 links, 2 paths, 2 flows, 4 points × 1 repetition\n"
    );
    let set = [
        "--set",
        "repeat=20",
        "--set",
        "sweep.flows.multi.count=[1, 9]",
    ];
    let changed = place
        .run(&[&["scenario", "check", "small.toml"], &set[..]].concat())
        .ok();
    assert!(
        changed
            .stderr
            .contains("2 to 10 flows, 2 points × 20 repetitions"),
        "{changed:?}"
    );

    let bad = place.run(&[
        "scenario",
        "check",
        "bad.toml",
        "small.toml",
        "missing.toml",
    ]);
    assert_eq!((bad.code, bad.stdout.as_str()), (2, ""));
    let lines: Vec<&str> = bad.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{bad:?}");
    assert!(lines[0].starts_with("small.toml: ok"), "{bad:?}");
    assert!(lines[1].starts_with("manyway: bad.toml:6:"), "{bad:?}");
    assert!(lines[2].starts_with("missing.toml: "), "{bad:?}");
}

#[test]
fn schemas_are_printed() {
    let place = Place::new();
    let scenario = place.run(&["scenario", "schema"]).ok().json();
    assert!(scenario["properties"]["links"].is_object(), "{scenario}");
    let result = place.run(&["run", "--schema"]).ok();
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/run.schema.json");
    assert_eq!(result.stdout, fs::read_to_string(committed).unwrap());
}

/// Starts `arguments` with `-v`, waits for `words` on standard error and interrupts the program.
fn interrupted_after(place: &Place, words: &str, arguments: &[&str]) -> (Finished, String) {
    let mut running = place.start(&[arguments, &["-v", "--threads", "1"]].concat());
    let mut stderr = BufReader::new(running.0.stderr.take().unwrap());
    let mut told = String::new();
    while !told.contains(words) {
        assert_ne!(
            stderr.read_line(&mut told).unwrap(),
            0,
            "{words} isn't told: {told}"
        );
    }
    running.interrupt();
    while stderr.read_line(&mut told).unwrap() > 0 {}
    (running.finish(), told)
}

#[test]
fn an_interrupt_keeps_the_runs_that_are_over() {
    let place = Place::new();
    // The second point takes days.
    let cases = [
        "{ duration = \"3 s\" }",
        "{ duration = \"30000000 s\", \"measure.series\" = [] }",
    ];
    let cases = format!("[sweep]\ncases = [{}]\n", cases.join(", "));
    place.write("long.toml", &format!("{SMALL}{cases}"));
    let arguments = [
        "run",
        "long.toml",
        "--repeat",
        "2",
        "--json",
        "--out",
        "out",
    ];
    let (run, told) = interrupted_after(&place, "seed 2: done", &arguments);
    assert_eq!(run.code, 1, "{told}");
    let result: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["unfinished"], 2);
    assert_eq!(result["points"].as_array().unwrap().len(), 1);
    assert_eq!(result["points"][0]["runs"], 2);
    assert!(
        told.ends_with("manyway: stopped: 2 runs are missing\n"),
        "{told}"
    );
    let files = place.folder("out");
    assert_eq!(files["result.json"], run.stdout);
    assert_eq!(rows(&files["flows.csv"]).len(), 2 * 2);
    assert!(files.contains_key("rates-1.svg") && !files.contains_key("rates-2.svg"));
    assert!(
        files.keys().all(|name| !name.starts_with('.')),
        "{:?}",
        files.keys()
    );
}

#[test]
fn an_interrupt_before_any_run_is_over_leaves_nothing() {
    let place = Place::new();
    let days = ["--set", "duration=30000000 s", "--set", "measure.series=[]"];
    let arguments = [&["run", "small.toml", "--json", "--out", "out"], &days[..]].concat();
    let (run, told) = interrupted_after(&place, "1 run on 1 thread", &arguments);
    assert_eq!(run.code, 1, "{told}");
    assert_eq!(
        run.stdout,
        "{\"error\":{\"code\":\"failed\",\"message\":\"stopped before the first run was over\"}}\n"
    );
    assert!(!place.exists("out"));
}

#[test]
fn who_was_never_there_has_a_dash() {
    let place = Place::new();
    let late = [
        "--set",
        "flows.single.start=1 s",
        "--set",
        "measure.until=1 s",
    ];
    let words = ["run", "small.toml", "--set", "measure.from=500 ms"];
    let done = place.run(&[&words[..], &late].concat()).ok();
    let row = |name: &str| {
        let mut lines = done.stderr.lines();
        let row = lines.rfind(|line| line.starts_with(name));
        row.unwrap_or_default()
            .split_whitespace()
            .nth(3)
            .map(str::to_owned)
    };
    assert_eq!(row("single"), Some("-".to_owned()), "{}", done.stderr);
    assert!(
        done.stderr.contains("Jain's index of the 1 flows'"),
        "{}",
        done.stderr
    );
}

#[test]
fn seeds_end_with_the_largest() {
    let place = Place::new();
    let last = u64::MAX.to_string();
    let words = [
        "run",
        "small.toml",
        "--set",
        "duration=1100 ms",
        "--seed",
        &last,
    ];
    place.run(&words).ok();
    let refused = place.run(&[&words[..], &["--repeat", "2"]].concat());
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("would pass the largest one"),
        "{}",
        refused.stderr
    );
}

#[test]
fn what_is_generated_can_be_run() {
    let place = Place::new();
    for (option, value, message) in [
        ("--rate", "5 Tbps", "is too fast"),
        ("--delay", "400 d", "is too long"),
    ] {
        let done = place.run(&["scenario", "generate", "dumbbell", option, value]);
        assert_eq!((done.code, &done.stdout[..]), (2, ""));
        assert!(
            done.stderr.contains("a scenario that can't be run: "),
            "{}",
            done.stderr
        );
        assert!(done.stderr.contains(message), "{}", done.stderr);
    }
}

#[test]
fn nobody_waits_for_a_pipe_with_a_trace() {
    let place = Place::new();
    let pipe = place.0.path().join("pipe.csv");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let wifi = "rate = \"10 Mbps\"\ndelay = \"10 ms\"";
    let traced = SMALL.replace(wifi, "trace = \"pipe.csv\"\ndelay = \"10 ms\"");
    place.write("traced.toml", &traced);
    let done = place.run(&["scenario", "check", "traced.toml"]);
    assert_eq!(done.code, 2);
    assert!(
        done.stderr.contains("pipe.csv: is no file"),
        "{}",
        done.stderr
    );
}
