//! `--metrics`: what Prometheus reads of a receiver and of a sender.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::common::transfer::Transfer;
use crate::common::{Finished, Running, eventually, manyway};

fn send(transfer: &Transfer, arguments: &[&str]) -> Running {
    let common = ["send", "file", "--to", "@ticket", "--path", "127.0.0.1"];
    let mut command = manyway(transfer.path(), &common);
    Running(command.args(arguments).spawn().unwrap())
}

/// The system chose it, and nobody has it any more.
fn free_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().to_string()
}

/// What a program serves there, once it does.
fn scrape(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    Some(text)
}

/// The value of a sample.
fn value(text: &str, sample: &str) -> f64 {
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    found.map_or(0.0, |value| value.parse().unwrap())
}

#[test]
fn transfers_are_counted_while_they_run_and_by_their_ends() {
    let transfer = Transfer::new(2_000_000);
    let [address, senders] = [(); 2].map(|()| free_address());
    let line = [
        "recv",
        "in",
        "--path",
        "127.0.0.1",
        "--ticket-file",
        "ticket",
        "--metrics",
        &address,
    ];
    let receiver = Running(manyway(transfer.path(), &line).spawn().unwrap());
    transfer.ticket();
    let get = || scrape(&address).expect("the receiver serves metrics");
    let idle = get();
    assert_eq!(value(&idle, "manyway_transfers_active"), 0.0);
    let sender = send(&transfer, &["--limit", "8Mbps", "--metrics", &senders]);
    let during = eventually("a transfer", || {
        let text = get();
        (value(&text, "manyway_transfer_bytes_total") > 0.0).then_some(text)
    });
    assert_eq!(value(&during, "manyway_transfers_active"), 1.0);
    assert_eq!(
        value(&during, "manyway_transfers_total{result=\"done\"}"),
        0.0
    );
    let received = "manyway_interface_received_bytes_total{interface=\"127.0.0.1\"}";
    assert!(value(&during, received) > 0.0, "{during}");
    let sent = "manyway_interface_sent_bytes_total{interface=\"127.0.0.1\"}";
    let theirs = eventually("the sender's metrics", || {
        let text = scrape(&senders)?;
        (value(&text, "manyway_transfer_bytes_total") > 0.0).then_some(text)
    });
    assert_eq!(value(&theirs, "manyway_transfers_active"), 1.0);
    assert!(value(&theirs, sent) > 0.0, "{theirs}");
    sender.finish().ok();
    fs::write(transfer.path().join("file"), "another").unwrap();
    let refused: Finished = send(&transfer, &[]).finish();
    assert_eq!(refused.code, 4);
    let after = eventually("both ends", || {
        let text = get();
        (value(&text, "manyway_transfer_duration_seconds_count") == 2.0).then_some(text)
    });
    for (sample, wanted) in [
        ("manyway_transfers_total{result=\"done\"}", 1.0),
        ("manyway_transfers_total{result=\"refused\"}", 1.0),
        ("manyway_transfers_active", 0.0),
        ("manyway_transfer_bytes_total", 2e6),
        ("manyway_transfer_files_total", 1.0),
        ("manyway_transfer_duration_seconds_bucket{le=\"60\"}", 2.0),
    ] {
        assert_eq!(value(&after, sample), wanted, "{sample}: {after}");
    }
    assert!(value(&after, received) > 2e6, "{after}");
    assert!(value(&after, "manyway_transfer_duration_seconds_sum") > 1.0);
    drop(receiver);
    // An address that is taken.
    let taken = std::net::TcpListener::bind(&address);
    let line = ["recv", "in", "--once", "--metrics", &address];
    let failed = Running(manyway(transfer.path(), &line).spawn().unwrap()).finish();
    assert_eq!(failed.code, 1);
    assert!(
        failed
            .stderr
            .contains(&format!("can't serve metrics on {address}")),
        "{failed:?}"
    );
    drop(taken);
}
