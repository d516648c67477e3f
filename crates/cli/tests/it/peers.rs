//! Identities, names for peers, and listeners that admit only some.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

use manyway::{PeerId, Ticket};
use nix::pty::{OpenptyResult, Winsize, openpty};
use tempfile::TempDir;

use crate::common::relay::{Relay, invitation};
use crate::common::{Finished, Running, eventually, manyway, secret};

/// A host with its own configuration, and a file to send.
struct Host {
    dir: TempDir,
}

impl Host {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("file"), "waves").unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn config(&self, name: &str) -> PathBuf {
        self.dir.path().join("config/manyway").join(name)
    }

    fn start(&self, line: &[&str]) -> Running {
        let mut command = manyway(self.dir.path(), line);
        command.env("MANYWAY_PATH", "127.0.0.1");
        Running(command.spawn().unwrap())
    }

    fn run(&self, line: &[&str]) -> Finished {
        let finished = self.start(line).finish();
        let loud = |c: char| c.is_control() && c != '\n';
        assert!(!finished.stderr.contains(loud), "{finished:?}");
        finished
    }

    /// Its id, as it prints it.
    fn id(&self) -> PeerId {
        self.run(&["id"]).ok().stdout.parse().unwrap()
    }

    /// A listener, once it has written its ticket.
    fn listen(&self, line: &[&str]) -> (Running, Ticket) {
        let file = self.path("ticket");
        fs::remove_file(&file).ok();
        let running = self.start(&[line, &["--ticket-file", "ticket"]].concat());
        let ticket = eventually("the ticket", || {
            fs::read_to_string(&file).ok()?.parse().ok()
        });
        (running, ticket)
    }
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().mode() & 0o777
}

fn says(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code, code, "{finished:?}");
    for words in words {
        assert!(finished.stderr.contains(words), "{words}: {finished:?}");
    }
}

#[test]
fn an_identity_is_made_once_and_is_its_owners_alone() {
    let host = Host::new();
    let made = host.run(&["id"]).ok();
    assert!(made.stderr.contains("a new identity, in "), "{made:?}");
    assert_eq!(mode(&host.config("identity")), 0o600);
    let again = host.run(&["id"]).ok();
    assert_eq!(
        (again.stdout, again.stderr.as_str()),
        (made.stdout.clone(), "")
    );
    let other = host.run(&["id", "--identity", "other"]).ok();
    assert_ne!(other.stdout, made.stdout);
    assert_eq!(mode(&host.path("other")), 0o600);

    // A listener's tickets have the same key, and else nothing in common.
    let (one, first) = host.listen(&["recv", "in"]);
    drop(one);
    let (two, second) = host.listen(&["recv", "in"]);
    drop(two);
    let id: PeerId = made.stdout.parse().unwrap();
    assert_eq!(
        [PeerId(first.public_key), PeerId(second.public_key)],
        [id; 2]
    );
    assert!(first.id != second.id && first.secret != second.secret);

    let missing = host.run(&["recv", "in", "--identity", "missing"]);
    says(
        &missing,
        2,
        &["missing doesn't exist: `manyway id --identity missing`"],
    );
    let mut readable = fs::metadata(host.path("other")).unwrap().permissions();
    readable.set_mode(0o640);
    fs::set_permissions(host.path("other"), readable).unwrap();
    let refused = host.run(&["recv", "in", "--identity", "other"]);
    says(&refused, 1, &["(mode 0640)", "chmod 600 other"]);
    secret(&host.config("identity"), "what?");
    says(&host.run(&["id"]), 1, &["holds no identity"]);
    assert_eq!(
        fs::read_to_string(host.config("identity")).unwrap(),
        "what?"
    );
}

#[test]
fn only_those_who_are_allowed_get_in() {
    let [office, ann, bob, carl] = [(); 4].map(|()| Host::new());
    let none = office.run(&["recv", "in", "--allow-peer", "ann"]);
    says(&none, 2, &["needs an identity: run `manyway id` once"]);
    let (own, ann_id, bob_id) = (office.id(), ann.id(), bob.id());
    office
        .run(&["peers", "add", "ann", &ann_id.to_string()])
        .ok();
    assert_eq!(mode(&office.config("peers")), 0o600);

    let allows = ["recv", "in", "--allow-peer", "ann"];
    let (receiver, ticket) = office.listen(&allows);
    assert_eq!(PeerId(ticket.public_key), own);
    let ticket_text = ticket.to_string();
    let refused = bob.run(&["send", "file", "--to", &ticket_text, "--retry", "1h"]);
    says(&refused, 4, &["only peers that its user has allowed"]);
    says(
        &refused,
        4,
        &[&format!("there, `--allow-peer {bob_id}` admits this host")],
    );
    let refused = carl.run(&["send", "file", "--to", &ticket_text, "--json"]);
    says(
        &refused,
        4,
        &["this host has no identity: run `manyway id` here"],
    );
    assert_eq!(refused.json()["error"]["code"], "refused");
    assert!(!office.path("in/file").exists());

    ann.run(&["peers", "add", "office", &ticket_text]).ok();
    assert_eq!(mode(&ann.config("peers")), 0o600);
    ann.run(&["send", "file", "--to", "office"]).ok();
    assert_eq!(fs::read_to_string(office.path("in/file")).unwrap(), "waves");
    receiver.interrupt();
    let ended = receiver.finish().ok();
    let told = format!("refused a peer: `--allow-peer {bob_id}` would admit it");
    assert_eq!(ended.stderr.matches(&told).count(), 1, "{ended:?}");
    assert!(
        ended.stderr.contains("refused a peer without an identity"),
        "{ended:?}"
    );

    // The ticket lasts; here its port doesn't.
    let (again, same) = office.listen(&allows);
    drop(again);
    assert_eq!((same.id, same.secret, same.public_key), {
        (ticket.id, ticket.secret, ticket.public_key)
    });
    let renewed = office.run(&["id", "--new-ticket"]).ok();
    assert_eq!(renewed.stdout.parse(), Ok(own));
    let (_receiver, other) = office.listen(&allows);
    assert_eq!(other.public_key, ticket.public_key);
    assert!(other.id != ticket.id && other.secret != ticket.secret);
    // Of the same peer, so it replaces the old one.
    ann.run(&["peers", "add", "office", &other.to_string()])
        .ok();
    ann.run(&[
        "send",
        "file",
        "--to",
        "office",
        "--identity",
        "config/manyway/identity",
    ])
    .ok();
}

#[test]
fn every_listener_can_admit_only_some() {
    let [office, ann, bob] = [(); 3].map(|()| Host::new());
    office.id();
    let (ann_id, bob_id) = (ann.id().to_string(), bob.id().to_string());
    let allows = ["--allow-peer", &ann_id];
    let there = format!("--allow-peer {bob_id}");

    let (sender, ticket) = office.listen(&[&["send", "file"][..], &allows].concat());
    let ticket = ticket.to_string();
    says(&bob.run(&["recv", &ticket, "in"]), 4, &[&there]);
    ann.run(&["recv", &ticket, "in"]).ok();
    sender.finish().ok();

    office.run(&["peers", "add", "bob", &bob_id]).ok();
    let (receiver, ticket) = office.listen(&[&["recv", "-"][..], &allows].concat());
    let ticket = ticket.to_string();
    says(&bob.run(&["send", "-", "--to", &ticket]), 4, &[&there]);
    ann.run(&["send", "-", "--to", &ticket]).ok();
    let ended = receiver.finish().ok();
    says(
        &ended,
        0,
        &["refused bob: `--allow-peer bob` would admit it"],
    );

    let serve = ["serve", "--allow", "localhost:9"];
    let (server, ticket) = office.listen(&[&serve[..], &allows].concat());
    let ticket = ticket.to_string();
    says(&bob.run(&["connect", "--stdio", &ticket]), 4, &[&there]);
    let reached = ann.run(&["connect", "--stdio", &ticket]);
    says(&reached, 3, &["localhost:9"]);
    server.interrupt();
    server.finish().ok();
}

/// The way through a relay has a handshake of its own.
#[test]
fn a_peer_is_known_through_a_relay_too() {
    let (office, ann) = (Host::new(), Host::new());
    office.id();
    let ann_id = ann.id().to_string();
    let relay = Relay::start(office.dir.path(), &[]);
    let via = invitation(office.dir.path(), relay.address).to_string();
    let line = [
        "recv",
        "in",
        "--once",
        "--allow-peer",
        &ann_id,
        "--via",
        &via,
    ];
    let (receiver, ticket) = office.listen(&line);
    // It stays valid for longer than access does.
    assert_eq!(ticket, ticket.without_access());
    let hidden = Ticket {
        addresses: Vec::new(),
        ..ticket
    };
    let hidden = hidden.to_string();
    ann.run(&[
        "send",
        "file",
        "--to",
        &hidden,
        "--via",
        &via,
        "--carrier",
        "udp",
    ])
    .ok();
    receiver.finish().ok();
    relay.end();
}

#[test]
fn names_stand_for_peers() {
    let host = Host::new();
    let (ann, other) = (Host::new().id().to_string(), Host::new().id().to_string());
    let peers = |line: &[&str]| host.run(&[&["peers"], line].concat());
    assert_eq!(peers(&["list"]).ok().stdout, "");
    says(
        &peers(&["remove", "ann"]),
        2,
        &["no peer is called ann (there are none yet)"],
    );
    for wrong in ["1st", "a b", "mw1x", "id1x", "a\u{1b}[31mn", ""] {
        says(&peers(&["add", wrong, &ann]), 2, &["can't name a peer"]);
    }
    fs::write(host.path("bytes"), [0xff; 9]).unwrap();
    for (wrong, told) in [
        ("id1abc", "the peer id has 6 characters"),
        ("mw1abc", "the ticket has 6 characters"),
        ("what", "this is not a ticket"),
        ("7-guitar-saddle-orbit", "a code works once"),
        ("@missing", "can't read missing: No such file"),
        ("@bytes", "bytes is no text, and so no ticket"),
        ("guitar-saddle-orbit", "a code works once"),
    ] {
        let refused = peers(&["add", "ann", wrong]);
        assert!(
            refused.code != 0 && refused.stderr.contains(told),
            "{refused:?}"
        );
    }
    assert!(!host.config("peers").exists());

    peers(&["add", "ann", &ann]).ok();
    peers(&["add", "ann", &ann]).ok();
    says(
        &peers(&["add", "ann", &other]),
        2,
        &["ann is another peer already"],
    );
    assert_eq!(peers(&["list"]).ok().stdout, format!("ann  {ann}\n"));
    let to = |name: &str| host.run(&["send", "file", "--to", name]);
    says(
        &to("ann"),
        2,
        &[
            "no ticket of ann is known",
            "`manyway peers add ann TICKET`",
        ],
    );
    says(&to("bob"), 2, &["no peer is called bob (known: ann)"]);

    // People may edit the file; a typing error names its line.
    let text = format!("# work\nann {ann}\nbob {}\n", &other[..other.len() - 1]);
    secret(&host.config("peers"), &text);
    says(
        &to("ann"),
        1,
        &["peers, line 3: bob: the peer id has 60 characters"],
    );
    says(&peers(&["add", "carl", &other]), 1, &["peers, line 3: "]);
    assert_eq!(fs::read_to_string(host.config("peers")).unwrap(), text);
    secret(&host.config("peers"), &format!("# work\nann {ann}\n"));
    peers(&["remove", "ann"]).ok();
    assert_eq!(
        fs::read_to_string(host.config("peers")).unwrap(),
        "# work\n"
    );
    let mut open = fs::metadata(host.config("peers")).unwrap().permissions();
    open.set_mode(0o644);
    fs::set_permissions(host.config("peers"), open).unwrap();
    says(&peers(&["list"]), 1, &["(mode 0644)"]);
}

/// Nobody's line gets lost.
#[test]
fn names_that_are_added_at_once_are_all_there() {
    let host = Host::new();
    let id = Host::new().id().to_string();
    let names: Vec<String> = (0..8).map(|n| format!("peer{n}")).collect();
    let adding: Vec<Running> = names
        .iter()
        .map(|name| host.start(&["peers", "add", name, &id]))
        .collect();
    for one in adding {
        one.finish().ok();
    }
    let list = host.run(&["peers", "list"]).ok().stdout;
    for name in &names {
        assert!(list.contains(&format!("{name}  ")), "{list}");
    }
}

#[test]
fn a_ticket_can_expire() {
    let host = Host::new();
    for line in [
        &["recv", "in"][..],
        &["recv", "in", "--once"],
        &["serve", "--allow", "localhost:9"],
    ] {
        let ended = host.run(&[line, &["--expire", "1s"]].concat());
        says(&ended, 3, &["nobody came within 1 s (`--expire`)"]);
    }
    // Somebody came.
    let (receiver, ticket) = host.listen(&["recv", "in", "--expire", "10s"]);
    fs::write(host.path("file"), "content").unwrap();
    let ticket = ticket.to_string();
    let sent = host.run(&["send", "file", "--to", &ticket]);
    says(&sent, 0, &["Sent file"]);
    says(
        &receiver.finish(),
        0,
        &["stopped: the ticket has expired (`--expire`)"],
    );
}

/// What a receiver with `--qr` shows on a terminal of this size, up to its ticket and more.
fn on_a_terminal(columns: u16, rows: u16, awaited: &str) -> String {
    let host = Host::new();
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let OpenptyResult { master, slave } = openpty(Some(&size), None).unwrap();
    let mut command = manyway(host.dir.path(), &["recv", "in", "--qr"]);
    command
        .env("MANYWAY_PATH", "127.0.0.1")
        .env("NO_COLOR", "1")
        .stdout(Stdio::null())
        .stderr(slave);
    let running = Running(command.spawn().unwrap());
    drop(command);
    let mut terminal = File::from(master);
    let awaited = awaited.to_owned();
    let reader = thread::spawn(move || {
        let (mut text, mut some) = (Vec::new(), [0; 4096]);
        while let Ok(bytes @ 1..) = terminal.read(&mut some) {
            text.extend_from_slice(&some[..bytes]);
            if String::from_utf8_lossy(&text).contains(&awaited) {
                break;
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let shown = reader.join().unwrap();
    drop(running);
    shown
}

#[test]
fn a_terminal_shows_the_ticket_as_a_qr_code_if_it_fits() {
    let shown = on_a_terminal(100, 60, "▀");
    assert!(shown.contains("manyway send PATH… --to mw1"), "{shown}");
    let narrow = on_a_terminal(40, 60, "and 60.");
    assert!(
        narrow.contains("This terminal is too small for the QR code") && !narrow.contains('▀'),
        "{narrow}"
    );
    // No terminal, no picture.
    let host = Host::new();
    let (running, _) = host.listen(&["recv", "in", "--qr"]);
    running.interrupt();
    let ended = running.finish().ok();
    assert!(!ended.stderr.contains(['▀', '█']), "{ended:?}");
    assert!(!ended.stderr.contains("too small"), "{ended:?}");
}
