//! `--qlog`: a file that qvis reads for each path.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::transfer::Transfer;

/// The records of the only file in a directory.
fn records(dir: &Path) -> Vec<Value> {
    let files: Vec<_> = fs::read_dir(dir).unwrap().flatten().collect();
    assert_eq!(files.len(), 1);
    let name = files[0].file_name();
    assert!(name.to_str().unwrap().ends_with("-0-path-0.sqlog"));
    let text = fs::read_to_string(files[0].path()).unwrap();
    let records = text.split('\x1e').skip(1);
    records
        .map(|record| serde_json::from_str(record).unwrap())
        .collect()
}

#[test]
fn both_sides_log_what_they_see_of_a_transfer() {
    let transfer = Transfer::new(300_000);
    let receiver = transfer.receiver(&["--qlog", "logs/theirs"]);
    transfer.ticket();
    let paths = transfer.send(&["--to", "@ticket", "--qlog", "logs/ours"]);
    transfer.check(receiver);
    let [ours, theirs] =
        ["ours", "theirs"].map(|name| records(&transfer.path().join("logs").join(name)));
    for (records, side) in [(&ours, "client"), (&theirs, "server")] {
        assert_eq!(records[0]["trace"]["vantage_point"]["type"], side);
        let times = records[1..]
            .iter()
            .map(|record| record["time"].as_f64().unwrap());
        assert!(times.is_sorted());
        let description = records[0]["description"].as_str().unwrap();
        assert!(description.starts_with("path 0: 127.0.0.1 → 127.0.0.1:"));
    }
    let lengths = |records: &[Value], name: &str| -> u64 {
        let found = records.iter().filter(|record| record["name"] == name);
        found
            .filter_map(|record| record["data"]["raw"]["length"].as_u64())
            .sum()
    };
    // A CLOSE may follow the summary.
    let sent = paths[0]["bytes_sent"].as_u64().unwrap();
    let logged = lengths(&ours, "transport:packet_sent");
    assert!(
        (sent..sent + 20_000).contains(&logged),
        "{logged} of {sent}"
    );
    assert!(lengths(&theirs, "transport:packet_received") > 300_000);
    // What one side calls a packet, the other does, too.
    let numbers = |records: &[Value], name: &str| -> BTreeSet<u64> {
        let found = records.iter().filter(|record| record["name"] == name);
        found
            .filter_map(|record| record["data"]["header"]["packet_number"].as_u64())
            .collect()
    };
    let received = numbers(&theirs, "transport:packet_received");
    assert!(received.is_subset(&numbers(&ours, "transport:packet_sent")));
    let windows = ours
        .iter()
        .filter_map(|record| record["data"]["congestion_window"].as_u64());
    assert!(windows.max().unwrap() > 10_000);
}
