//! `--quota`.

use crate::common::Running;
use crate::common::manyway;
use crate::common::transfer::Transfer;

fn of(paths: &[serde_json::Value], local: &str) -> u64 {
    let of = |path: &&serde_json::Value| path["local"].as_str().unwrap().starts_with(local);
    let bytes = |path: &serde_json::Value, way: &str| path[way].as_u64().unwrap();
    let both = |path| bytes(path, "bytes_sent") + bytes(path, "bytes_received");
    paths.iter().filter(of).map(both).sum()
}

/// manyway looks ten times a second, and both paths together have 10 MB/s.
#[test]
fn an_interface_carries_its_quota_and_not_much_more() {
    for carrier in ["udp", "tcp"] {
        carries_its_quota(carrier);
    }
}

fn carries_its_quota(carrier: &str) {
    let transfer = Transfer::new(24_000_000);
    let receiver = transfer.receiver(&[]);
    let ticket = transfer.ticket();
    let quota = [
        "--path",
        "127.0.0.2",
        "--quota",
        "127.0.0.2=2MB",
        "--limit",
        "80Mbps",
        "--scheduler",
        "redundant",
        "--carrier",
        carrier,
    ];
    let paths = transfer.send(&[&["--to", &ticket], &quota[..]].concat());
    let carried = of(&paths, "127.0.0.2:");
    assert!((2_000_000..6_000_000).contains(&carried), "{paths:?}");
    transfer.check(receiver);
}

#[test]
fn nothing_is_sent_once_all_quotas_are_used_up() {
    let transfer = Transfer::new(12_000_000);
    let _receiver = transfer.receiver(&[]);
    let ticket = transfer.ticket();
    let mut command = manyway(transfer.path(), &["send", "file", "--path", "127.0.0.1"]);
    command.args([
        "--to",
        &ticket,
        "--quota",
        "127.0.0.1=1MB",
        "--limit",
        "40Mbps",
    ]);
    let sent = Running(command.spawn().unwrap()).finish();
    assert_eq!(sent.code, 5, "{sent:?}");
    assert!(
        sent.stderr.contains("its quota of 1 MB is used up"),
        "{sent:?}"
    );
    assert!(sent.stderr.contains("no path is left"), "{sent:?}");
}
