//! `--registry`: files through relays that a registry knows, on real sockets.

use std::fs;

use crate::common;
use crate::common::service::Service;
use crate::common::transfer::{Transfer, bytes};
use crate::common::{Running, eventually, manyway};
use manyway_wire::Ticket;
use serde_json::Value;

struct Network {
    registry: Service,
    url: String,
    relays: Vec<Service>,
}

impl Network {
    fn start(transfer: &Transfer, relays: usize) -> Self {
        let registry = Service::registry(transfer.path());
        let url = registry.url().to_string();
        let relay = |n| Service::relay(transfer.path(), &url, &format!("{n}.key"));
        Self {
            relays: (0..relays).map(relay).collect(),
            registry,
            url,
        }
    }

    fn options(&self) -> [&str; 4] {
        ["--registry", &self.url, "--token-file", "tokens"]
    }
}

#[test]
fn a_file_goes_through_relays_from_the_registry() {
    let transfer = Transfer::new(24 << 20);
    let network = Network::start(&transfer, 3);
    let receiver = transfer.receiver(&[]);
    let ticket = transfer.ticket();
    let options = ["--to", &ticket, "--relays", "2", "--limit", "60Mbps"];
    let paths = transfer.send(&[&options[..], &network.options()].concat());
    // Two of the three.
    assert_eq!(paths.iter().filter(|path| path["relay"] == true).count(), 2);
    // How much each carries is up to round trips of less than a millisecond.
    let alive = |path: &Value| path["bytes_sent"] != 0 && path["bytes_received"] != 0;
    assert!(paths.iter().all(alive), "{paths:?}");
    let all = bytes(&paths, false) + bytes(&paths, true);
    assert!(all > 24 << 20, "{paths:?}");
    transfer.check(receiver);
}

/// Both find each other at a relay that neither had to name; the law that asks for more relays does
/// so in vain, quietly.
#[test]
fn a_receiver_that_cant_be_reached_is_found_through_the_registry_and_a_dead_one_ends_no_transfer() {
    let transfer = Transfer::new(6 << 20);
    let mut network = Network::start(&transfer, 2);
    let receiver = transfer.receiver(&network.options());
    let mut ticket: Ticket = transfer.ticket().trim().parse().unwrap();
    assert_eq!(ticket.relays.len(), 2);
    ticket.addresses = vec!["127.0.0.1:9".parse().unwrap()];
    let ticket = ticket.to_string();
    let common = ["send", "file", "--json", "--path", "127.0.0.1", "-v"];
    let mut command = manyway(transfer.path(), &common);
    command.args(["--to", &ticket, "--cc", "mpath", "--limit", "20Mbps"]);
    let sender = Running(command.args(network.options()).spawn().unwrap());
    // Half of it is there: from now on there is no registry.
    let incoming = transfer.path().join("in");
    eventually("half of the file", || {
        let size = |entry: fs::DirEntry| entry.metadata().map_or(0, |data| data.len());
        let sizes = fs::read_dir(&incoming).ok()?.flatten().map(size);
        sizes.max().filter(|size| *size > 0)
    });
    drop(network.registry.process);
    let sent = sender.finish().ok();
    let paths = sent.json()["paths"].as_array().unwrap().clone();
    // They meet at the registry as well, so a direct path may come up and take its share, or all of
    // it if it is there first; none leads to where the ticket says.
    assert!(bytes(&paths, true) + bytes(&paths, false) > 6 << 20);
    let nowhere = paths.iter().find(|path| path["remote"] == "127.0.0.1:9");
    assert!(
        nowhere.is_none_or(|path| path["bytes_received"] == 0),
        "{paths:?}"
    );
    assert!(sent.stderr.matches("no registry answers").count() <= 1);
    transfer.check(receiver);
    for relay in network.relays.drain(..) {
        assert!(relay.said.contains("Enrolled"));
    }
}

#[test]
fn a_registry_that_is_away_is_told_once_and_a_wrong_token_ends_it() {
    let transfer = Transfer::new(100_000);
    let network = Network::start(&transfer, 1);
    let receiver = transfer.receiver(&[]);
    let ticket = transfer.ticket();
    let send = |options: &[&str]| {
        let common = ["send", "file", "--path", "127.0.0.1", "--to", &ticket];
        let mut command = manyway(transfer.path(), &common);
        Running(command.args(options).spawn().unwrap()).finish()
    };
    let token = fs::read_to_string(transfer.path().join("tokens")).unwrap();
    let wrong = token.replace(|c: char| c.is_ascii_digit(), "7");
    common::secret(&transfer.path().join("wrong"), &wrong);
    let ended = send(&["--registry", &network.url, "--token-file", "wrong"]);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(ended.stderr.contains("the registry says"), "{ended:?}");
    let ended = send(&["--relays", "3"]);
    assert!(ended.code == 2 && ended.stderr.contains("--registry"));
    let key = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let nobody = format!("https://127.0.0.1:9#{key}");
    let ended = send(&["--registry", &nobody, "--token-file", "tokens"]).ok();
    let told = ended.stderr.matches("no registry answers").count();
    assert_eq!(told, 1, "{ended:?}");
    transfer.check(receiver);
}

#[test]
fn the_doctor_tells_a_registry_that_answers_from_one_that_is_dead() {
    let transfer = Transfer::new(1);
    let network = Network::start(&transfer, 0);
    let doctor = |more: &[&str]| {
        let line = ["doctor", "--path", "127.0.0.1"];
        let mut command = manyway(transfer.path(), &line);
        command.args(network.options()).args(more);
        Running(command.spawn().unwrap()).finish()
    };
    let found = |report: &Value| -> Vec<(bool, String)> {
        let checks = report["checks"].as_array().unwrap().iter();
        let checks = checks.filter(|check| check["kind"] == "registry");
        let words = |check: &Value| check["message"].as_str().unwrap().to_owned();
        checks
            .map(|check| (check["ok"] == true, words(check)))
            .collect()
    };
    let alive = found(&doctor(&["--json"]).json());
    let fine = (true, "the registry answers and knows you".to_owned());
    assert_eq!(alive, [fine]);
    network.registry.process.signal("KILL");
    let dead = eventually("a dead registry", || {
        let report = doctor(&["--json"]);
        let found = found(&report.json());
        (found != alive).then_some((report, found))
    });
    let (report, found) = dead;
    assert_ne!(report.code, 0);
    assert!(!report.stderr.contains("registry"), "{report:?}");
    let [(false, words)] = &found[..] else {
        panic!("{found:?}")
    };
    assert!(
        words.contains("no registry answers") && words.contains("Check its URL"),
        "{words}"
    );
    let told = doctor(&[]).stderr;
    assert_eq!(told.matches("no registry answers").count(), 1, "{told}");
    assert!(!told.contains("knows you"), "{told}");
}

/// So does a connection after a lost one.
#[test]
fn a_connection_after_a_lost_one_has_relays_again() {
    let transfer = Transfer::new(1);
    let network = Network::start(&transfer, 1);
    let run = |arguments: &[&str]| {
        let mut command = manyway(transfer.path(), arguments);
        command.env("XDG_RUNTIME_DIR", transfer.path());
        command.env("MANYWAY_PATH", "127.0.0.1");
        command
    };
    let id = Running(run(&["id"]).spawn().unwrap()).finish().ok().stdout;
    let serve = || {
        let mut command = run(&["serve", "--allow", "127.0.0.1:9", "--ticket-file", "ticket"]);
        command.args(["--allow-peer", id.trim()]);
        command.args(network.options());
        let mut service = Service::run(command);
        service.hear("On the other host");
        service
    };
    let mut service = serve();
    let mut command = run(&["forward", "-L", "0:127.0.0.1:9", "@ticket"]);
    command.args(network.options());
    let mut forward = Service::run(command);
    let relayed = |connection: u64| {
        eventually("a path through the relay", || {
            let top = Running(run(&["top", "--json"]).spawn().unwrap()).finish();
            let all = top.ok().json()["connections"].as_array()?.clone();
            let is_it = |it: &&Value| it["doing"] == "forwarding" && it["connection"] == connection;
            let paths = all.iter().find(is_it)?["paths"].as_array()?.clone();
            paths.iter().any(|path| path["relay"] == true).then_some(())
        });
    };
    forward.hear("Forwarding ");
    relayed(1);
    service.process.0.kill().unwrap();
    service.process.0.wait().unwrap();
    let service = serve();
    forward.hear("trying again in 1 s");
    relayed(2);
    forward.end();
    service.end();
}

#[test]
fn a_registry_without_relays_is_told_at_both_ends() {
    let transfer = Transfer::new(1);
    let network = Network::start(&transfer, 0);
    let common = ["recv", "in", "--once", "--path", "127.0.0.1"];
    let mut receiver = manyway(transfer.path(), &common);
    receiver.args(["--ticket-file", "ticket"]);
    let receiver = Running(receiver.args(network.options()).spawn().unwrap());
    let ticket = transfer.ticket();
    let common = ["send", "file", "--path", "127.0.0.1", "--to", &ticket];
    let mut sender = manyway(transfer.path(), &common);
    let sent = Running(sender.args(network.options()).spawn().unwrap())
        .finish()
        .ok();
    let told = "The registry lists no relay: manyway uses direct paths";
    assert!(sent.stderr.contains(told), "{sent:?}");
    let received = receiver.finish().ok();
    let told = "The registry lists no relay, so the ticket names none";
    assert!(received.stderr.contains(told), "{received:?}");
}
