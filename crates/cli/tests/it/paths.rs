//! `manyway paths`: a dry run against a receiver that waits for its sender, on real sockets.

use crate::common::service::Relay;
use crate::common::transfer::Transfer;
use crate::common::{Running, manyway};
use serde_json::Value;

fn measured(transfer: &Transfer, options: &[&str]) -> Value {
    let common = ["paths", "--json", "--path", "127.0.0.1", "--time", "2 s"];
    let mut command = manyway(transfer.path(), &common);
    let run = Running(command.args(options).spawn().unwrap());
    run.finish().ok().json()
}

#[test]
fn paths_are_measured_and_the_receiver_goes_on_waiting() {
    let transfer = Transfer::new(100_000);
    let relay = Relay::start(transfer.path(), "a");
    // With --once: a dry run isn't the transfer that it waits for.
    let receiver = transfer.receiver(&[]);
    let ticket = transfer.ticket();
    let options = ["--to", &ticket, "--via", &relay.text, "--limit", "20Mbps"];
    let report = measured(&transfer, &options);
    let paths = report["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 2, "{report}");
    for path in paths {
        assert!(path["rate_bps"].as_f64().unwrap() > 0.0, "{report}");
        assert!(path["rtt_ms"].as_f64().unwrap() > 0.0, "{report}");
    }
    assert_eq!(paths.iter().filter(|path| path["relay"] == true).count(), 1);
    assert_eq!(report["unused_relays"].as_array().unwrap().len(), 0);
    let all = report["all_bps"].as_f64().unwrap();
    // What --limit leaves, with packets' headers, in whatever time a busy machine has for it.
    assert!(all > 1e5 && all < 22e6, "{report}");
    assert_eq!(report["ended"], "time");
    // Nothing was received, and the real sender is served.
    assert!(
        transfer
            .dir
            .path()
            .join("in")
            .read_dir()
            .unwrap()
            .next()
            .is_none()
    );
    transfer.send(&["--to", &ticket]);
    transfer.check(receiver);
}

/// Queues of two links of the same rate and delay rise and fall together.
#[cfg(all(feature = "research", target_os = "linux"))]
#[test]
fn alike_uplinks_are_told_apart() {
    use crate::common::uplinks::{HERE, Hosts, THERE, able};
    if !able() {
        return;
    }
    let hosts = Hosts::new("alike");
    let receiver = ["recv", "in", "--ticket-file", "ticket"];
    let _receiver = hosts.start(HERE, &receiver, "receiver");
    hosts.place.wait_for("ticket");
    let line = ["paths", "--to", "@ticket", "--time", "8 s"];
    hosts.start(THERE, &line, "paths").finish().ok();
    let said = std::fs::read_to_string(hosts.place.path("paths")).unwrap();
    assert!(said.contains("Several paths pay off"), "{said}");
}

#[test]
fn a_dry_run_sends_no_more_than_it_may() {
    let transfer = Transfer::new(10);
    let receiver = transfer.receiver(&[]);
    let ticket = transfer.ticket();
    let report = measured(&transfer, &["--to", &ticket, "--size", "300kB"]);
    assert_eq!(report["bytes"], 300_000, "{report}");
    assert_eq!(report["ended"], "size");
    // The warm-up would have time for all of it, and leaves most.
    assert!(report["all_bps"].as_f64().unwrap() > 0.0, "{report}");
    for (options, words) in [
        (["--time", "1 s"], "choose 2 s to"),
        (["--size", "0B"], "leaves nothing to measure with"),
    ] {
        let common = [&["paths", "--to", &ticket], &options[..]].concat();
        let ended = Running(manyway(transfer.path(), &common).spawn().unwrap()).finish();
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains(words), "{ended:?}");
    }
    drop(receiver);
}
