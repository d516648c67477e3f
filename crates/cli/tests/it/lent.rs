//! Access to relays and a registry that comes with a ticket, on real sockets.

use std::fs::{self, File};
use std::io::Write;
use std::process::Stdio;

use crate::common::service::{Relay, Service};
use crate::common::transfer::{Transfer, bytes};
use crate::common::{Running, eventually, manyway};
use manyway_wire::Ticket;

/// The receiver's ticket, as of a host that nobody reaches.
fn hidden(transfer: &Transfer) -> Ticket {
    let ticket: Ticket = transfer.ticket().trim().parse().unwrap();
    Ticket {
        addresses: vec!["127.0.0.1:9".parse().unwrap()],
        ..ticket
    }
}

#[test]
fn a_ticket_is_all_that_the_other_side_needs_to_use_the_listeners_relay() {
    let transfer = Transfer::new(3 << 20);
    let relay = Relay::start(transfer.path(), "a");
    let receiver = transfer.receiver(&["--via", &relay.text]);
    let ticket = hidden(&transfer);
    let alone = ticket.without_access().to_string();
    let line = ["send", "file", "--path", "127.0.0.1", "--to", &alone];
    let alone = Running(manyway(transfer.path(), &line).spawn().unwrap()).finish();
    assert_ne!(alone.code, 0, "{alone:?}");
    let paths = transfer.send(&["--to", &ticket.to_string()]);
    assert!(bytes(&paths, true) > 3 << 20, "{paths:?}");
    transfer.check(receiver);
}

#[test]
fn a_listener_may_keep_its_access() {
    let transfer = Transfer::new(10);
    let relay = Relay::start(transfer.path(), "a");
    let receiver = transfer.receiver(&["--via", &relay.text, "--keep-access"]);
    let ticket = hidden(&transfer);
    assert_eq!(ticket, ticket.without_access());
    assert_eq!(ticket.relays.len(), 1);
    drop(receiver);
}

/// The sender has no token, and learns from the ticket where the registry is.
#[test]
fn a_ticket_leads_to_the_listeners_registry_and_its_relays() {
    let transfer = Transfer::new(3 << 20);
    let registry = Service::registry(transfer.path());
    let url = registry.url().to_string();
    let _relay = Service::relay(transfer.path(), &url, "relay.key");
    let options = ["--registry", &url, "--token-file", "tokens"];
    let receiver = transfer.receiver(&options);
    let ticket = hidden(&transfer);
    let lent = ticket.lent.registry.as_ref().unwrap();
    assert_eq!((lent.urls.len(), &lent.urls[0]), (1, &url));
    assert!(ticket.lent.relays.is_empty());
    let paths = transfer.send(&["--to", &ticket.to_string()]);
    // Through the relay, or directly, since they also meet at the registry.
    assert!(
        bytes(&paths, true) + bytes(&paths, false) > 3 << 20,
        "{paths:?}"
    );
    transfer.check(receiver);
}

/// What the registry lends ends after a day, and with the name of who lent it. A direct path
/// doesn't need it.
#[test]
fn access_that_is_over_ends_no_transfer() {
    let transfer = Transfer::new(10);
    let registry = Service::registry(transfer.path());
    let url = registry.url().to_string();
    let line = ["recv", "-", "-q", "--path", "127.0.0.1"];
    let mut receiver = manyway(transfer.path(), &line);
    let options = ["--ticket-file", "ticket", "--registry", &url];
    receiver.args(options).args(["--token-file", "tokens"]);
    let receiver = Running(receiver.spawn().unwrap());
    let mut ticket: Ticket = transfer.ticket().trim().parse().unwrap();
    let lent = ticket.lent.registry.as_mut().unwrap();
    // Random text: what replaces its first character has to differ from it.
    let other = if lent.credential.starts_with('A') {
        "B"
    } else {
        "A"
    };
    lent.credential.replace_range(..1, other);
    let ticket = ticket.to_string();
    let line = ["send", "-", "--path", "127.0.0.1", "--to", &ticket];
    let mut sender = manyway(transfer.path(), &line);
    let words = transfer.path().join("words");
    sender
        .stdin(Stdio::piped())
        .stderr(File::create(&words).unwrap());
    let mut sender = Running(sender.spawn().unwrap());
    let mut input = sender.0.stdin.take().unwrap();
    input.write_all(b"some").unwrap();
    // The stream goes on until the registry has answered.
    let refused = "no longer accepts the access that came with the ticket";
    eventually("a word on it", || {
        let words = fs::read_to_string(&words).unwrap();
        words.contains(refused).then_some(())
    });
    input.write_all(b" more").unwrap();
    drop(input);
    sender.finish().ok();
    assert_eq!(receiver.finish().ok().stdout, "some more");
}
