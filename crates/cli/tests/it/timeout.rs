//! `--timeout`: a peer that hangs doesn't hold a transfer for ever.

use std::fs;

use serde_json::Value;

use crate::common::transfer::Transfer;
use crate::common::{Running, eventually, manyway};

/// A sender in the middle of its file.
fn sender(transfer: &Transfer, arguments: &[&str]) -> Running {
    transfer.ticket();
    let common = ["send", "file", "--to", "@ticket", "--limit", "4Mbps"];
    let mut command = manyway(transfer.path(), &common);
    command.args(["--path", "127.0.0.1"]).args(arguments);
    let sender = Running(command.spawn().unwrap());
    eventually("the file's first part", || {
        let mut names = fs::read_dir(transfer.path().join("in")).ok()?.flatten();
        names.find_map(|part| part.metadata().ok().filter(|part| part.len() > 100_000))
    });
    sender
}

#[test]
fn a_transfer_that_stands_still_ends_and_says_what_it_waited_for() {
    let transfer = Transfer::new(3_000_000);
    let receiver = transfer.receiver(&["--json"]);
    let sender = sender(&transfer, &["--timeout", "1500ms", "--json"]);
    receiver.signal("STOP");
    let sent = sender.finish();
    receiver.signal("CONT");
    assert_eq!(sent.code, 5, "{sent:?}");
    let error = &sent.json()["error"];
    assert_eq!(error["code"], "timeout");
    let message = error["message"].as_str().unwrap();
    for words in ["no progress for 1.5 s (`--timeout`)", "more of file, with"] {
        assert!(message.contains(words), "{message}");
    }
    assert!(sent.stderr.contains("The same commands resume"));
    // The receiver is told why.
    let received = receiver.finish();
    let json: Value = received.json();
    assert_eq!(
        (received.code, &json["error"]["code"]),
        (5, &"interrupted".into())
    );
    let message = json["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("no progress for 1.5 s"), "{message}");
}

/// Neither side gives up: the same transfer goes on over another connection.
#[test]
fn with_retry_both_sides_go_on() {
    let transfer = Transfer::new(1_000_000);
    let receiver = transfer.receiver(&["--retry", "1min"]);
    let sender = sender(&transfer, &["--timeout", "1s", "--retry", "1min", "--json"]);
    receiver.signal("STOP");
    // Long enough for a slow sender to give up, and shorter than it waits for a connection.
    std::thread::sleep(std::time::Duration::from_secs(5));
    receiver.signal("CONT");
    let sent = sender.finish().ok();
    let again = "(`--timeout`); manyway waited for the receiver";
    assert!(
        sent.stderr.contains(again) && sent.stderr.contains("; trying again in 1 s"),
        "{sent:?}"
    );
    assert!(sent.json()["kept"]["bytes"].as_u64().unwrap() > 0);
    transfer.check(receiver);
}
