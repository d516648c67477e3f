//! `--carrier` and `--tcp-cc`, as users run them.

use std::fs;

use tempfile::TempDir;

use crate::common::{self, Finished, Running, eventually};

/// Sends a file of so many bytes with these options on either side; what both said.
fn transfer(bytes: usize, recv: &[&str], send: &[&str]) -> (Finished, Finished) {
    let dir = TempDir::new().unwrap();
    let contents: Vec<u8> = (0..bytes).map(|n| (n * 7 + n / 251) as u8).collect();
    fs::write(dir.path().join("film.mkv"), &contents).unwrap();
    let start = |base: &[&str], more: &[&str]| {
        let arguments = [base, more].concat();
        Running(common::manyway(dir.path(), &arguments).spawn().unwrap())
    };
    let listening = [
        "recv",
        "--once",
        "--json",
        "--path",
        "127.0.0.1",
        "--ticket-file",
        "ticket",
        "in",
    ];
    let receiver = start(&listening, recv);
    eventually("the ticket", || {
        let text = fs::read_to_string(dir.path().join("ticket")).ok()?;
        (!text.is_empty()).then_some(())
    });
    let sending = [
        "send",
        "film.mkv",
        "--to",
        "@ticket",
        "--json",
        "--path",
        "127.0.0.2",
    ];
    let sent = start(&sending, send).finish();
    if sent.code != 0 {
        receiver.interrupt();
        return (sent, receiver.finish());
    }
    let received = receiver.finish().ok();
    assert!(fs::read(dir.path().join("in/film.mkv")).unwrap() == contents);
    (sent, received)
}

#[test]
fn a_file_goes_by_tcp_with_the_congestion_control_that_was_asked_for() {
    let send = ["--carrier", "tcp", "--tcp-cc", "reno"];
    let (sent, received) = transfer(3_000_000, &[], &send);
    for summary in [sent.ok().json(), received.json()] {
        let paths = summary["paths"].as_array().unwrap();
        assert!(!paths.is_empty());
        assert!(paths.iter().all(|p| p["carrier"] == "tcp"), "{summary}");
    }
}

#[test]
fn a_file_goes_by_udp_where_it_works() {
    let (sent, _) = transfer(300_000, &[], &[]);
    let summary = sent.ok().json();
    let udp =
        |p: &serde_json::Value| p["carrier"] == "udp" && p["bytes_sent"].as_u64() > Some(300_000);
    assert!(
        summary["paths"].as_array().unwrap().iter().any(udp),
        "{summary}"
    );
}

#[test]
fn wrong_names_are_told_what_there_is() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    let run = |arguments: &[&str]| {
        let base = ["send", "file", "--path", "127.0.0.1"];
        let all = [&base[..], arguments].concat();
        Running(common::manyway(dir.path(), &all).spawn().unwrap()).finish()
    };
    let wrong = run(&["--carrier", "sctp"]);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.stderr.contains("choose tcp, udp or auto"),
        "{}",
        wrong.stderr
    );
    let wrong = run(&["--tcp-cc", "nosuchcc"]);
    assert_ne!(wrong.code, 0);
    assert!(
        wrong.stderr.contains("nosuchcc") && wrong.stderr.contains("it has: "),
        "{}",
        wrong.stderr
    );
    let wrong = run(&["--tcp-cc", "no such"]);
    assert_eq!(wrong.code, 2);
}
