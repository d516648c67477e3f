//! `--progress json`: what a script or a window around the program sees.

use serde_json::Value;

use crate::common::transfer::Transfer;
use crate::common::{Finished, Running, manyway};

fn objects(finished: &Finished) -> Vec<Value> {
    let lines = finished.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn events(objects: &[Value]) -> Vec<&str> {
    objects
        .iter()
        .map(|o| o["event"].as_str().unwrap())
        .collect()
}

fn named<'a>(objects: &'a [Value], event: &str) -> Vec<&'a Value> {
    objects.iter().filter(|o| o["event"] == event).collect()
}

fn keys(object: &Value) -> Vec<&String> {
    object.as_object().unwrap().keys().collect()
}

#[test]
fn a_transfer_is_told_from_its_ticket_to_its_end() {
    let transfer = Transfer::new(2_000_000);
    let receiver = {
        let common = ["recv", "in", "--once", "--ticket-file", "ticket"];
        let mut command = manyway(transfer.path(), &common);
        command.args(["--path", "127.0.0.1", "--progress", "json"]);
        Running(command.spawn().unwrap())
    };
    let ticket = transfer.ticket();
    let mut command = manyway(transfer.path(), &["send", "file", "--to", "@ticket"]);
    command
        .args(["--path", "127.0.0.1", "--limit", "4Mbps", "--json"])
        .env("MANYWAY_PROGRESS", "json");
    let sent = Running(command.spawn().unwrap()).finish().ok();
    let received = receiver.finish().ok();

    let (ours, theirs) = (objects(&sent), objects(&received));
    assert_eq!(theirs[0]["event"], "ticket");
    assert_eq!(theirs[0]["ticket"], ticket.trim());
    assert_eq!(theirs[0]["ticket_file"], "ticket");
    for (objects, direction) in [(&ours, "sending"), (&theirs[1..].to_vec(), "receiving")] {
        let told = events(objects);
        assert_eq!(
            (told[0], *told.last().unwrap()),
            ("connected", "done"),
            "{told:?}"
        );
        assert_eq!(objects[0]["direction"], direction);
        assert!(objects.iter().all(|object| object["transfer"] == 1));
        let up = named(objects, "path_up");
        assert_eq!(
            (up.len(), &up[0]["name"]),
            (1, &"127.0.0.1".into()),
            "{told:?}"
        );
        // Four seconds, and four a second.
        let progress = named(objects, "progress");
        assert!((8..40).contains(&progress.len()), "{told:?}");
        let bytes = progress.iter().map(|p| p["bytes"].as_u64().unwrap());
        assert!(bytes.clone().is_sorted(), "{progress:?}");
        // At first, nobody knows how long it takes.
        assert_eq!(progress[0].get("eta_seconds"), None);
        let known = |object: &&&Value| object.get("eta_seconds").is_some();
        let middle = *progress.iter().find(known).unwrap();
        assert_eq!(middle["phase"], "transferring");
        assert_eq!(middle["bytes_total"], 2_000_000);
        let left = 2_000_000 - middle["bytes"].as_u64().unwrap();
        let eta = middle["eta_seconds"].as_f64().unwrap();
        let rate = middle["rate_bps"].as_f64().unwrap();
        assert!((1e6..6e6).contains(&rate), "{middle}");
        assert!((eta - left as f64 * 8.0 / rate).abs() <= 1.0, "{middle}");
        let path = &middle["paths"][0];
        assert!(
            (1e6..6e6).contains(&path["rate_bps"].as_f64().unwrap()),
            "{path}"
        );
        assert_eq!(path["path"], up[0]["path"]);
    }

    // Without it, there is the last object alone.
    let mut command = manyway(transfer.path(), &["send", "nothing", "--json"]);
    let failed = objects(&Running(command.spawn().unwrap()).finish());
    assert_eq!(events(&failed), ["error"]);
    command.args(["--progress", "json"]);
    assert_eq!(objects(&Running(command.spawn().unwrap()).finish()), failed);
}

/// With `-q` and a file, the ticket appears nowhere else.
#[test]
fn a_hidden_ticket_stays_hidden() {
    let transfer = Transfer::new(1000);
    let receiver = transfer.receiver(&["--progress", "json"]);
    transfer.ticket();
    let sent = {
        let mut command = manyway(transfer.path(), &["send", "file", "--to", "@ticket"]);
        command.args(["--path", "127.0.0.1", "--json"]);
        Running(command.spawn().unwrap()).finish().ok()
    };
    let received = receiver.finish().ok();
    assert!(!received.stdout.contains("mw1"), "{received:?}");
    let (ours, theirs) = (sent.json(), objects(&received));
    assert_eq!(keys(&theirs[0]), ["event", "ticket_file"]);
    let last = theirs.last().unwrap();
    let both = ["bytes", "files", "kept", "paths", "transfer", "event"];
    assert!(
        both.iter()
            .all(|key| ours.get(key).is_some() && last.get(key).is_some())
    );
}

#[test]
fn attempts_are_told() {
    let transfer = Transfer::new(1000);
    let ticket = {
        let mut gone = manyway(transfer.path(), &["recv", "in", "--path", "127.0.0.1"]);
        gone.args(["-q", "--ticket-file", "ticket"]);
        let _gone = Running(gone.spawn().unwrap());
        transfer.ticket()
    };
    let mut command = manyway(transfer.path(), &["send", "file", "--to", ticket.trim()]);
    command.args([
        "--retry",
        "1500ms",
        "--progress",
        "json",
        "--path",
        "127.0.0.1",
    ]);
    let sent = Running(command.spawn().unwrap()).finish();
    assert_eq!(sent.code, 3, "{sent:?}");
    let told = objects(&sent);
    assert_eq!(events(&told), ["retry", "error"]);
    assert_eq!(told[0]["pause_seconds"], 1.0);
    for object in &told {
        assert_eq!(object["error"]["code"], "unreachable");
        assert_eq!(object.get("transfer"), None);
    }
}
