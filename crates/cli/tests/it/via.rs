//! `--via`: files through a relay, on real sockets.

use std::fs;

use crate::common::service::{Relay, Service};
use crate::common::transfer::{Transfer, bytes};
use crate::common::{Running, manyway, secret};
use manyway_wire::Ticket;
use serde_json::Value;

#[test]
fn a_file_goes_over_the_direct_path_and_through_relays() {
    let transfer = Transfer::new(24 << 20);
    let relays = ["a", "b"].map(|name| Relay::start(transfer.path(), name));
    let list = format!("# two of them\n{}\n\n{}\n", relays[0].text, relays[1].text);
    secret(&transfer.path().join("relays"), &list);
    let receiver = transfer.receiver(&[]);
    let ticket = transfer.ticket();
    // Slow enough that the relays' paths are up long before the end.
    let paths = transfer.send(&["--to", &ticket, "--via", "@relays", "--limit", "60Mbps"]);
    assert_eq!(paths.iter().filter(|path| path["relay"] == true).count(), 2);
    // Who carries how much is up to round trips of less than a millisecond; but all are there,
    // heard and answered.
    let alive = |path: &Value| path["bytes_sent"] != 0 && path["bytes_received"] != 0;
    assert!(paths.iter().all(alive), "{paths:?}");
    let all = bytes(&paths, false) + bytes(&paths, true);
    assert!(all > 24 << 20, "{paths:?}");
    transfer.check(receiver);
}

#[test]
fn two_hosts_that_cant_reach_each_other_meet_at_a_relay() {
    let transfer = Transfer::new(3 << 20);
    let relay = Relay::start(transfer.path(), "a");
    let receiver = transfer.receiver(&["--via", &relay.text]);
    let mut ticket: Ticket = transfer.ticket().trim().parse().unwrap();
    assert_eq!(ticket.relays.len(), 1);
    // As if it were behind NAT: nobody is where the ticket says.
    ticket.addresses = vec!["127.0.0.1:9".parse().unwrap()];
    let paths = transfer.send(&["--to", &ticket.to_string(), "--via", &relay.text]);
    assert!(bytes(&paths, true) > 3 << 20, "{paths:?}");
    transfer.check(receiver);
}

/// The relay leads the sender to the receiver's IPv6 address first: under a name, the address that
/// was last heard of counts. Later grants are for the IPv4 address.
#[test]
fn a_sender_with_one_family_meets_a_receiver_with_both_at_a_relay_with_both() {
    let transfer = Transfer::new(24 << 20);
    let metrics = ["--metrics", "127.0.0.1:0"];
    let relay = Relay::start_at("127.0.0.1:0,[::1]:0", transfer.path(), "a", &metrics);
    let receiver = transfer.receiver(&["--path", "::1", "--via", &relay.text]);
    let mut ticket: Ticket = transfer.ticket().trim().parse().unwrap();
    ticket.addresses = vec!["127.0.0.1:9".parse().unwrap()];
    let (ticket, via) = (ticket.to_string(), ["--via", &relay.text]);
    let paths = transfer.send(&[&["--to", &ticket], &via[..]].concat());
    assert!(bytes(&paths, true) > 24 << 20, "{paths:?}");
    transfer.check(receiver);
    // The receiver's answers came from where the grants for them are valid.
    let stale = relay.metric("manyway_relay_dropped_packets_total{reason=\"stale\"}");
    assert!(stale < 50, "{stale} packets with a stale grant");
}

#[test]
fn what_is_wrong_with_a_relay_is_said_without_its_text() {
    let transfer = Transfer::new(10);
    let relay = Relay::start(transfer.path(), "a");
    let receiver = transfer.receiver(&[]);
    let ticket = transfer.ticket();
    let damaged = relay.text.replace('a', "b");
    let own: manyway_wire::relay::RelayTicket = relay.text.parse().unwrap();
    let without = own.without_access().to_string();
    fs::write(transfer.path().join("empty"), "# none yet\n\n").unwrap();
    for (via, words) in [
        (damaged.as_str(), "`--via` number 1"),
        (ticket.trim(), "`--via` number 1"),
        ("@missing", "can't read relays from missing"),
        ("@empty", "empty of `--via` names no relay"),
        (&without, "gives no access"),
    ] {
        let common = ["send", "file", "--to", ticket.trim(), "--via", via];
        let command = manyway(transfer.path(), &common).spawn().unwrap();
        let ended = Running(command).finish();
        assert_ne!(ended.code, 0);
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
        assert!(!ended.stderr.contains(&damaged[10..40]), "{}", ended.stderr);
    }
    drop(receiver);
}

#[test]
fn a_sender_whose_relay_is_down_says_so_and_goes_on() {
    let transfer = Transfer::new(1 << 20);
    let relays = ["a", "b"].map(|name| Relay::start(transfer.path(), name));
    let texts = relays.each_ref().map(|relay| relay.text.clone());
    let [down, _up] = relays;
    let own: manyway_wire::relay::RelayTicket = down.text.parse().unwrap();
    let at = own.addresses[0];
    down.end();
    let receiver = transfer.receiver(&[]);
    let ticket = transfer.ticket().trim().to_owned();
    let via = ["--via", &texts[0], "--via", &texts[1]];
    let line = [
        "send",
        "file",
        "--to",
        &ticket,
        "--path",
        "127.0.0.1",
        "--limit",
        "1Mbps",
    ];
    let mut sender = manyway(transfer.path(), &[&line[..], &via].concat());
    let said = Running(sender.spawn().unwrap()).finish().ok().stderr;
    let sentence = format!("the relay {at} doesn't answer. Check that it runs");
    assert!(said.contains(&sentence), "{said}");
    assert_eq!(said.matches("doesn't answer").count(), 1, "{said}");
    transfer.check(receiver);
}

/// Otherwise nobody learns of it before somebody has tried to reach the listener.
#[test]
fn a_listener_whose_relay_is_down_says_so_once() {
    let transfer = Transfer::new(10);
    let relays = ["a", "b"].map(|name| Relay::start(transfer.path(), name));
    let texts = relays.each_ref().map(|relay| relay.text.clone());
    let [down, _up] = relays;
    down.end();
    let common = ["recv", "in", "--path", "127.0.0.1"];
    let via = ["--via", &texts[0], "--via", &texts[1]];
    let mut listener = Service::start(transfer.path(), &[&common[..], &via].concat());
    listener.hear("doesn't answer. Check that it runs");
    std::thread::sleep(std::time::Duration::from_secs(1));
    let said = listener.end();
    assert_eq!(said.matches("doesn't answer").count(), 1, "{said}");
}

#[test]
fn a_file_with_a_secret_that_others_can_read_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let transfer = Transfer::new(10);
    let relay = Relay::start(transfer.path(), "a");
    let own: manyway_wire::relay::RelayTicket = relay.text.parse().unwrap();
    let receiver = transfer.receiver(&[]);
    transfer.ticket();
    let without = own.without_access().to_string();
    for (name, text) in [("relay", &relay.text), ("open-relay", &without)] {
        fs::write(transfer.path().join(name), text).unwrap();
    }
    let mode = |name, mode| {
        let file = transfer.path().join(name);
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("relay", 0o640);
    mode("open-relay", 0o644);
    mode("ticket", 0o604);
    let doctor = |line: &[&str]| {
        let common = ["doctor", "--path", "127.0.0.1"];
        let command = manyway(transfer.path(), &[&common, line].concat()).spawn();
        Running(command.unwrap()).finish().stderr
    };
    let said = doctor(&["@ticket", "--via", "@relay", "--via", "@open-relay"]);
    for name in ["relay", "ticket"] {
        let words = format!("can read {name}, which is a secret: run chmod 600 {name}\n");
        assert_eq!(said.matches(&words).count(), 1, "{said}");
    }
    assert_eq!(said.matches("chmod").count(), 2, "{said}");
    mode("relay", 0o600);
    mode("ticket", 0o600);
    let said = doctor(&["@ticket", "--via", "@relay"]);
    assert!(!said.contains("chmod"), "{said}");
    drop(receiver);
}
