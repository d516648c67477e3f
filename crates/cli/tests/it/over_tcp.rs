//! `--carrier tcp` through relays that are named or that a registry knows, on real sockets.

use std::fs;
use std::net::SocketAddr;

use crate::common::service::{Relay, Service};
use crate::common::transfer::Transfer;
use crate::common::{Finished, Running, manyway};
use manyway_wire::Ticket;
use manyway_wire::relay::RelayTicket;
use serde_json::Value;

const TCP: [&str; 2] = ["--carrier", "tcp"];

/// The ticket as of a host that nobody reaches.
fn unreachable(transfer: &Transfer) -> Ticket {
    let mut ticket: Ticket = transfer.ticket().trim().parse().unwrap();
    ticket.addresses = vec!["127.0.0.1:9".parse().unwrap()];
    ticket
}

/// Sends to the ticket with these options, whatever comes of it.
fn send(transfer: &Transfer, ticket: &str, options: &[&str]) -> Finished {
    let common = [
        "send",
        "file",
        "--json",
        "--path",
        "127.0.0.1",
        "--to",
        ticket,
    ];
    let mut command = manyway(transfer.path(), &common);
    Running(command.args(options).spawn().unwrap()).finish()
}

/// That each path is a TCP connection to one of these.
fn over_tcp(paths: &[Value], relays: &[SocketAddr]) {
    assert!(!paths.is_empty());
    for path in paths {
        let remote: SocketAddr = path["remote"].as_str().unwrap().parse().unwrap();
        assert!(relays.contains(&remote), "{path}");
        assert_eq!(
            (&path["carrier"], &path["relay"]),
            (&"tcp".into(), &true.into())
        );
    }
}

fn paths(finished: &Finished) -> Vec<Value> {
    finished.json()["paths"].as_array().unwrap().clone()
}

/// What a relay's last words say of it: packets over UDP, and streams.
fn forwarded(said: &str) -> (u64, u64) {
    let count = |before: &str, after: &str| {
        let line = said.lines().rfind(|line| line.ends_with(after)).unwrap();
        let (_, rest) = line.rsplit_once(before).unwrap();
        rest.trim_end_matches(after).trim().parse().unwrap()
    };
    (count(" in ", " packets"), count(" in ", " streams"))
}

#[test]
fn a_named_relay_carries_everything_over_tcp_and_hears_nothing_over_udp() {
    let transfer = Transfer::new(8 << 20);
    let metrics = ["--tcp", "--metrics", "127.0.0.1:0"];
    let relay = Relay::start_with(transfer.path(), "a", &metrics);
    let text: RelayTicket = relay.text.parse().unwrap();
    assert!(text.tcp, "its operator said --tcp");
    let receiver = transfer.receiver(&[&["--via", &relay.text][..], &TCP].concat());
    let ticket = unreachable(&transfer);
    assert_eq!(ticket.relays, [(text.addresses[0], text.relay)]);
    let options = [&["--via", &relay.text][..], &TCP].concat();
    let sent = send(&transfer, &ticket.to_string(), &options).ok();
    over_tcp(&paths(&sent), &text.addresses);
    transfer.check(receiver);
    assert_eq!(relay.metric("manyway_relay_received_packets_total"), 0);
    let (packets, streams) = forwarded(&relay.end());
    assert!(packets == 0 && streams > 0);
}

/// Two that take TCP among five: both ends get by with these.
#[test]
fn relays_of_a_registry_that_take_tcp_carry_everything() {
    let transfer = Transfer::new(8 << 20);
    let registry = Service::registry(transfer.path());
    let url = registry.url().to_string();
    let relay = |n: usize| {
        let more: &[&str] = if n < 2 { &["--tcp"] } else { &[] };
        Service::relay_with(transfer.path(), &url, &format!("{n}.key"), more)
    };
    let relays: Vec<Service> = (0..5).map(relay).collect();
    let taking: Vec<SocketAddr> = relays[..2].iter().map(Service::address).collect();
    let source = [
        "--registry",
        &url,
        "--token-file",
        "tokens",
        "--relays",
        "4",
    ];
    let options = [&source[..], &TCP].concat();
    let receiver = transfer.receiver(&options);
    let ticket = unreachable(&transfer);
    let mut named: Vec<SocketAddr> = ticket.relays.iter().map(|(at, _)| *at).collect();
    named.sort_unstable();
    let mut both = taking.clone();
    both.sort_unstable();
    assert_eq!(named, both);
    // Slow enough that both are called long before the end, even if a first call is in vain.
    let options = [&options[..], &["--limit", "8Mbps"]].concat();
    let sent = send(&transfer, &ticket.to_string(), &options).ok();
    over_tcp(&paths(&sent), &taking);
    transfer.check(receiver);
    let mut streams = 0;
    for relay in relays {
        let forwarded = match taking.contains(&relay.address()) {
            true => forwarded(&relay.end()),
            false => (0, 0),
        };
        assert_eq!(forwarded.0, 0, "nothing over UDP");
        streams += forwarded.1;
    }
    assert!(streams >= 2, "one through each: {streams}");
}

/// Who takes either puts half of each into its ticket, as far as there are such; who then comes by
/// TCP alone gets there.
#[test]
fn a_receiver_for_both_is_found_by_who_has_tcp_alone() {
    let transfer = Transfer::new(2 << 20);
    let registry = Service::registry(transfer.path());
    let url = registry.url().to_string();
    let mut relays: Vec<Service> = (0..8)
        .map(|n| Service::relay(transfer.path(), &url, &format!("{n}.key")))
        .collect();
    let last = Service::relay_with(transfer.path(), &url, "tcp.key", &["--tcp"]);
    let source = ["--registry", &url, "--token-file", "tokens"];
    let receiver = transfer.receiver(&[&source[..], &["--relays", "2"]].concat());
    let ticket = unreachable(&transfer);
    let named: Vec<SocketAddr> = ticket.relays.iter().map(|(at, _)| *at).collect();
    assert_eq!((named.len(), named[0]), (2, last.address()));
    let sent = send(
        &transfer,
        &ticket.to_string(),
        &[&source[..], &TCP].concat(),
    )
    .ok();
    over_tcp(&paths(&sent), &[last.address()]);
    transfer.check(receiver);
    relays.clear();
}

#[test]
fn where_none_takes_tcp_it_is_said() {
    let transfer = Transfer::new(100_000);
    let registry = Service::registry(transfer.path());
    let url = registry.url().to_string();
    let relay = Service::relay(transfer.path(), &url, "a.key");
    let source = ["--registry", &url, "--token-file", "tokens"];
    // The listener says so, and is there for those who reach it directly.
    let common = [
        "recv",
        "in",
        "--once",
        "--path",
        "127.0.0.1",
        "--ticket-file",
        "ticket",
    ];
    let mut command = manyway(transfer.path(), &common);
    let receiver = Running(command.args(source).args(TCP).spawn().unwrap());
    let ticket: Ticket = transfer.ticket().trim().parse().unwrap();
    assert!(ticket.relays.is_empty());
    let sent = send(
        &transfer,
        &ticket.to_string(),
        &[&source[..], &TCP].concat(),
    )
    .ok();
    assert!(
        sent.stderr
            .contains("names no relay that is known to accept TCP"),
        "{}",
        sent.stderr
    );
    let received = receiver.finish().ok();
    assert!(
        received.stderr.contains("lists no relay that accepts TCP"),
        "{}",
        received.stderr
    );

    // And who can reach it no other way gets an error that names each try.
    fs::remove_file(transfer.path().join("ticket")).unwrap();
    let receiver = transfer.receiver(&source);
    let ticket = unreachable(&transfer);
    assert_eq!(ticket.relays.len(), 1);
    let failed = send(
        &transfer,
        &ticket.to_string(),
        &[&source[..], &TCP, &["-v"]].concat(),
    );
    assert_eq!(failed.code, 3, "{failed:?}");
    for words in [
        "names no relay that is known to accept TCP",
        "TCP to 127.0.0.1:9",
    ] {
        assert!(failed.stderr.contains(words), "{words}: {}", failed.stderr);
    }
    drop(receiver);
    drop(relay);
}

#[test]
fn a_named_relay_without_tcp_is_named_in_the_error() {
    let transfer = Transfer::new(100_000);
    let relay = Relay::start(transfer.path(), "a");
    let text: RelayTicket = relay.text.parse().unwrap();
    assert!(!text.tcp);
    let receiver = transfer.receiver(&["--via", &relay.text]);
    let ticket = unreachable(&transfer).to_string();
    let options = [&["--via", &relay.text][..], &TCP, &["-v"]].concat();
    let failed = send(&transfer, &ticket, &options);
    assert_eq!(failed.code, 3, "{failed:?}");
    let words = format!("TCP to the relay at {}: ", text.addresses[0]);
    assert!(failed.stderr.contains(&words), "{}", failed.stderr);
    drop(receiver);
}
