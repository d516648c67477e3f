//! `manyway run --packets`: what happens to each packet, as files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::common;

const SCENARIO: &str = r#"name = "small"
duration = "2 s"
repeat = 2
links.wifi = { rate = "10 Mbps", delay = "10 ms", queue = "20 packets", loss = 0.002 }
links.5g = { rate = "20 Mbps", delay = "20 ms" }
paths.wifi = { links = ["wifi"] }
paths.5g = { links = ["5g"] }
flows.multi = { law = "lia", paths = ["wifi", "5g"] }
measure.percentiles = ["rtt", "queue"]
"#;

fn place() -> TempDir {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("small.toml"), SCENARIO).unwrap();
    place
}

fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader.deserialize().map(|row| row.unwrap()).collect()
}

/// Each packet of one link comes, leaves or is lost, in the order of time, and the other files
/// count as many.
#[test]
fn a_table_of_what_happens_to_packets() {
    let place = place();
    for level in ["packet", "stack"] {
        let arguments = [
            "run",
            "small.toml",
            "--level",
            level,
            "--out",
            "out",
            "--seed",
            "7",
        ];
        let packets = [
            "--packets",
            "pcapng,csv",
            "--packets-on",
            "wifi",
            "--repeat",
            "2",
        ];
        let mut run = common::manyway(place.path(), &[&arguments[..], &packets[..]].concat());
        let run = common::Running(run.spawn().unwrap()).finish().ok();
        assert!(
            run.stderr
                .contains("series.csv, packets.csv, packets.pcapng"),
            "{}",
            run.stderr
        );
        let out = place.path().join("out");
        let events = rows(&out.join("packets.csv"));
        assert!(
            events
                .iter()
                .all(|row| row["link"] == "wifi" && row["path"] == "wifi")
        );
        let times = events
            .iter()
            .map(|row| row["time_s"].parse::<f64>().unwrap());
        assert!(times.is_sorted());
        let mut counts = HashMap::<(&str, &str), u64>::new();
        for row in &events {
            *counts.entry((&row["event"], &row["reason"])).or_default() += 1;
        }
        let offered = counts[&("enqueue", "")] + counts.get(&("drop", "full")).unwrap_or(&0);
        let links = rows(&out.join("links.csv"));
        let link = links.iter().find(|row| row["link"] == "wifi").unwrap();
        assert_eq!(link["seed"], "7");
        assert_eq!(offered.to_string(), link["packets"]);
        assert!(counts.contains_key(&("drop", "random")), "{counts:?}");
        let delay: f64 = link["queue_delay_p99_s"].parse().unwrap();
        // Twenty packets of 1500 bytes at 10 Mbps.
        assert!((0.001..=0.0242).contains(&delay), "{delay}");
        let subflows = rows(&out.join("subflows.csv"));
        let rtt: f64 = subflows[0]["rtt_p50_s"].parse().unwrap();
        assert!((0.02..0.06).contains(&rtt), "{rtt}");
        let capture = fs::read(out.join("packets.pcapng")).unwrap();
        assert_eq!(capture[..4], 0x0a0d_0d0a_u32.to_le_bytes());
    }
}

/// The events of a qlog file by name, after its first record.
fn qlog(path: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(path).unwrap();
    let mut records = text.split('\x1e').skip(1).map(|record| {
        let record: serde_json::Value = serde_json::from_str(record).unwrap();
        record
    });
    let first = records.next().unwrap();
    assert!(first["description"].as_str().unwrap().starts_with("path "));
    let mut counts = BTreeMap::new();
    for record in records {
        *counts
            .entry(record["name"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    counts
}

/// Both ends of each path have a file, which agree with what the links saw, and which are the same
/// when the run is made again.
#[test]
fn what_sessions_see() {
    let place = place();
    let run = |out: &str| {
        let arguments = ["run", "small.toml", "--level", "stack", "--repeat", "1"];
        let packets = ["--out", out, "--packets", "qlog,csv", "--json"];
        let mut run = common::manyway(place.path(), &[&arguments[..], &packets[..]].concat());
        let run = common::Running(run.spawn().unwrap()).finish().ok();
        assert!(run.stderr.contains("5 logs of packets"), "{}", run.stderr);
        place.path().join(out)
    };
    let (out, again) = (run("out"), run("again"));
    let subflows = rows(&out.join("subflows.csv"));
    let mut events = rows(&out.join("packets.csv"));
    // Handshakes have no number.
    events.retain(|row| row["kind"] == "data" && !row["number"].is_empty());
    for (n, name) in ["wifi", "5g"].into_iter().enumerate() {
        let file = |end: &str| format!("qlog-0-multi-{end}-0-path-{n}.sqlog");
        let [sender, receiver] = ["sender", "receiver"].map(|end| qlog(&out.join(file(end))));
        let count = |key: &str, value: &str| {
            let some = |row: &&BTreeMap<_, _>| row["path"] == name && row[key] == value;
            events.iter().filter(some).count() as u64
        };
        let offered = count("event", "enqueue") + count("reason", "full");
        assert_eq!(sender["transport:packet_sent"], offered);
        assert_eq!(
            receiver["transport:packet_received"],
            count("event", "deliver")
        );
        assert_eq!(subflows[n]["path"], name);
        for end in ["sender", "receiver"] {
            let [one, other] = [&out, &again].map(|dir| fs::read(dir.join(file(end))).unwrap());
            assert!(one == other, "{end} of {name}");
        }
    }
    let mut names = fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(!names.any(|name| name.to_string_lossy().starts_with('.')));
}

#[test]
fn only_sessions_have_qlog() {
    let place = place();
    let refused = |more: &[&str]| {
        let arguments = ["run", "small.toml", "--out", "out", "--packets", "qlog"];
        let mut run = common::manyway(place.path(), &[&arguments[..], more].concat());
        let run = common::Running(run.spawn().unwrap()).finish();
        assert_eq!(run.code, 2);
        assert!(!place.path().join("out").exists());
        run.stderr
    };
    assert_eq!(
        refused(&[]).trim_end(),
        "manyway: --packets qlog: this level has no sessions; add --level stack"
    );
    let links = ["--level", "stack", "--packets-on", "wifi"];
    assert_eq!(
        refused(&links).trim_end(),
        "manyway: --packets-on: qlog isn't of links; add csv or pcapng to --packets"
    );
}

#[test]
fn each_point_has_its_own_file() {
    let place = place();
    let set = "sweep.law=[\"lia\", \"balia\"]";
    let free = SCENARIO.replace("law = \"lia\", ", "");
    fs::write(place.path().join("small.toml"), free).unwrap();
    let arguments = [
        "run",
        "small.toml",
        "--set",
        set,
        "--out",
        "out",
        "--packets",
        "csv",
    ];
    let mut run = common::manyway(place.path(), &arguments);
    common::Running(run.spawn().unwrap()).finish().ok();
    let out = place.path().join("out");
    for name in ["packets-1.csv", "packets-2.csv"] {
        assert!(rows(&out.join(name)).len() > 1000);
    }
}

#[test]
fn nothing_is_written_where_that_makes_no_sense() {
    let place = place();
    for (arguments, words) in [
        (&["--packets", "csv"][..], "--out"),
        (
            &["--packets", "csv", "--out", "out", "--level", "fluid"],
            "packet and the stack level",
        ),
        (
            &["--packets", "csv", "--out", "out", "--shard", "1/2"],
            "--shard",
        ),
        (&["--packets-on", "wifi", "--out", "out"], "--packets"),
        (&["--packets", "pcap", "--out", "out"], "pcapng"),
        (
            &["--packets", "csv", "--packets-on", "wi-fi", "--out", "out"],
            "no link \"wi-fi\"; it has wifi, 5g",
        ),
    ] {
        let arguments = [&["run", "small.toml"], arguments].concat();
        let mut run = common::manyway(place.path(), &arguments);
        let run = common::Running(run.spawn().unwrap()).finish();
        assert_eq!(run.code, 2, "{arguments:?}");
        assert!(run.stderr.contains(words), "{}", run.stderr);
        assert!(!place.path().join("out").exists(), "{arguments:?}");
    }
}
