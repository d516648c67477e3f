//! `--pick`: relay selection, on real sockets.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;

use crate::common::service::{Relay, Service};
use crate::common::transfer::Transfer;
use crate::common::{Finished, Running, eventually, manyway};
use manyway_wire::Ticket;
use manyway_wire::relay::RelayTicket;
use serde_json::Value;

fn start(transfer: &Transfer, ticket: &str, options: &[&str]) -> Running {
    let common = [
        "send",
        "file",
        "--json",
        "-v",
        "--path",
        "127.0.0.1",
        "--to",
    ];
    let mut command = manyway(transfer.path(), &common);
    Running(command.arg(ticket).args(options).spawn().unwrap())
}

/// Relays in a file that `--via @relays` reads, and where they are.
fn relays(transfer: &Transfer, names: &[&str], more: &[&str]) -> (Vec<Relay>, Vec<SocketAddr>) {
    let start = |name: &&str| Relay::start_with(transfer.path(), name, more);
    let relays: Vec<Relay> = names.iter().map(start).collect();
    let texts: Vec<&str> = relays.iter().map(|relay| relay.text.as_str()).collect();
    fs::write(transfer.path().join("relays"), texts.join("\n")).unwrap();
    let address = |text: &&str| text.parse::<RelayTicket>().unwrap().addresses[0];
    let addresses = texts.iter().map(address).collect();
    (relays, addresses)
}

/// The relays that were picked at the end, which have to be different ones of these.
fn picked(sent: &Finished, relays: &[SocketAddr]) -> usize {
    let summary = sent.json();
    let picked = summary["selection"]["relays"].as_array().unwrap().clone();
    let address = |text: &Value| text.as_str().unwrap().parse().unwrap();
    let picked: Vec<SocketAddr> = picked.iter().map(address).collect();
    assert!(
        picked.iter().all(|relay| relays.contains(relay)),
        "{summary}"
    );
    let different: BTreeSet<_> = picked.iter().collect();
    assert_eq!(different.len(), picked.len(), "{summary}");
    // What carried data through relays led through these, and others only if they were replaced.
    let paths = summary["paths"].as_array().unwrap();
    let through = paths.iter().filter(|path| path["relay"] == true);
    let through: BTreeSet<SocketAddr> = through.map(|path| address(&path["remote"])).collect();
    assert!(through.iter().all(|relay| relays.contains(relay)));
    picked.len()
}

#[test]
fn no_more_relays_are_used_than_picked() {
    let transfer = Transfer::new(24 << 20);
    let (_relays, addresses) = relays(&transfer, &["a", "b", "c", "d"], &[]);
    let receiver = transfer.receiver(&[]);
    // Slow enough that the relays have answered long before the end.
    let options = ["--via", "@relays", "--pick", "2", "--limit", "40Mbps"];
    let sent = start(&transfer, &transfer.ticket(), &options).finish().ok();
    assert_eq!(picked(&sent, &addresses), 2);
    let selection = &sent.json()["selection"];
    assert_eq!(
        (&selection["pick"], &selection["demand_bps"]),
        (&2.into(), &40e6.into())
    );
    assert!(sent.stderr.contains("relays picked: "), "{}", sent.stderr);
    assert!(
        sent.stderr.contains("relays picked at the end: "),
        "{}",
        sent.stderr
    );
    transfer.check(receiver);
}

/// Nobody is where the ticket says, so everything goes through relays, over TCP.
#[test]
fn over_tcp_too() {
    let transfer = Transfer::new(12 << 20);
    let (_relays, addresses) = relays(&transfer, &["a", "b", "c"], &["--tcp"]);
    let receiver = transfer.receiver(&["--via", "@relays", "--carrier", "tcp"]);
    let mut ticket: Ticket = transfer.ticket().trim().parse().unwrap();
    assert_eq!(ticket.relays.len(), 3);
    ticket.addresses = vec!["127.0.0.1:9".parse().unwrap()];
    let options = ["--via", "@relays", "--carrier", "tcp", "--pick", "2"];
    // A first call that is in vain is repeated after 5 s.
    let more = ["--limit", "10Mbps", "--reselect", "slowest"];
    let options = [&options[..], &more].concat();
    let sent = start(&transfer, &ticket.to_string(), &options)
        .finish()
        .ok();
    assert_eq!(picked(&sent, &addresses), 2);
    let summary = sent.json();
    let paths = summary["paths"].as_array().unwrap();
    let over_tcp = |path: &Value| path["carrier"] == "tcp" && path["relay"] == true;
    assert!(!paths.is_empty() && paths.iter().all(over_tcp), "{summary}");
    transfer.check(receiver);
}

#[test]
fn a_relay_that_is_killed_ends_no_transfer() {
    let transfer = Transfer::new(12 << 20);
    let (mut relays, addresses) = relays(&transfer, &["a", "b"], &[]);
    let receiver = transfer.receiver(&[]);
    let options = ["--via", "@relays", "--pick", "1", "--limit", "20Mbps"];
    let sender = start(&transfer, &transfer.ticket(), &options);
    let incoming = transfer.path().join("in");
    eventually("a part of the file", || {
        let size = |entry: fs::DirEntry| entry.metadata().map_or(0, |data| data.len());
        let sizes = fs::read_dir(&incoming).ok()?.flatten().map(size);
        sizes.max().filter(|size| *size > 0)
    });
    drop(relays.remove(0));
    let sent = sender.finish().ok();
    assert_eq!(picked(&sent, &addresses), 1);
    transfer.check(receiver);
}

#[test]
fn a_registry_that_knows_too_few_is_told_with_the_numbers() {
    let transfer = Transfer::new(12 << 20);
    let registry = Service::registry(transfer.path());
    let url = registry.url().to_string();
    let relay = |n| Service::relay(transfer.path(), &url, &format!("{n}.key"));
    let relays: Vec<Service> = (0..2).map(relay).collect();
    let addresses: Vec<SocketAddr> = relays.iter().map(Service::address).collect();
    let receiver = transfer.receiver(&[]);
    let ticket = transfer.ticket();
    let source = [
        "--registry",
        &url,
        "--token-file",
        "tokens",
        "--relays",
        "4",
    ];
    let more = ["--pick", "5"];
    let sent = start(&transfer, &ticket, &[&source[..], &more].concat()).finish();
    assert_eq!(sent.code, 2, "{sent:?}");
    assert!(
        sent.stderr
            .contains("needs 5 relays, but `--relays 4` allows 4"),
        "{sent:?}"
    );
    let more = ["--pick", "3", "--limit", "20Mbps"];
    let sent = start(&transfer, &ticket, &[&source[..], &more].concat())
        .finish()
        .ok();
    let words = "found 2 of the 3 relays for `--pick 3`";
    assert!(sent.stderr.contains(words), "{}", sent.stderr);
    assert_eq!(picked(&sent, &addresses), 2);
    transfer.check(receiver);
}

#[test]
fn options_that_cant_be_met_are_told_how_to_mend() {
    let transfer = Transfer::new(10);
    let (_relays, _) = relays(&transfer, &["a"], &[]);
    let receiver = transfer.receiver(&[]);
    let ticket = transfer.ticket();
    let via = ["--via", "@relays"];
    for (options, words) in [
        (&["--pick", "1"][..], "`--pick` needs relays to choose from"),
        (&["--pick", "0"], "--pick"),
        (&["--choice", "uniform"], "--pick"),
        (&["--demand", "1Mbps"], "--pick"),
        (
            &[&via[..], &["--pick", "2"]].concat(),
            "needs 2 relays, but `--via` names 1",
        ),
        (
            &[&via[..], &["--pick", "1", "--demand", "0Mbps"]].concat(),
            "--demand",
        ),
        (
            &[&via[..], &["--pick", "1", "--reselect", "all"]].concat(),
            "--reselect",
        ),
        (
            &[
                &via[..],
                &["--pick", "1", "--demand", "9Mbps", "--limit", "8Mbps"],
            ]
            .concat(),
            "--limit 8",
        ),
        (
            &[&via[..], &["--pick", "1", "--choice", "best"]].concat(),
            "proportional",
        ),
    ] {
        let ended = start(&transfer, &ticket, options).finish();
        assert_eq!(ended.code, 2, "{options:?} {ended:?}");
        assert!(ended.stderr.contains(words), "{options:?} {ended:?}");
    }
    let mut command = manyway(transfer.path(), &["send", "file", "--pick", "1"]);
    let ended = Running(command.args(via).spawn().unwrap()).finish();
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("the side that connects"), "{ended:?}");
    drop(receiver);
}
