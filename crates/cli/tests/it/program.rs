//! The program as its users run it: processes, real sockets on loopback, real files.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use manyway_wire::Ticket;
use serde_json::Value;

use crate::common::place::Place;
use crate::common::{Running, eventually, script};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn files_and_directories_go_to_a_ticket() {
    let place = Place::new();
    fs::set_permissions(place.path("film.mkv"), fs::Permissions::from_mode(0o640)).unwrap();
    let receiver = place.start(&["recv", "--once", "--json", "--ticket-file", "ticket", "in"]);
    place.wait_for("ticket");
    assert_eq!(mode(&place.path("ticket")), 0o600);
    let sent = place
        .run(&["send", "film.mkv", "photos", "--to", "@ticket", "--json"])
        .ok();
    let received = receiver.finish().ok();

    place.same("film.mkv", "in/film.mkv");
    place.same("photos/sea/a b.txt", "in/photos/sea/a b.txt");
    place.same("photos/empty", "in/photos/empty");
    assert_eq!(mode(&place.path("in/film.mkv")), 0o640);
    let hash = blake3::hash(&fs::read(place.path("film.mkv")).unwrap()).to_string();
    for summary in [sent.json(), received.json()] {
        assert_eq!(summary["bytes"], 3_000_006);
        assert_eq!(summary["files"][0]["blake3"], hash.as_str());
        let seconds = summary["seconds"].as_f64().unwrap();
        let goodput = summary["goodput_bps"].as_f64().unwrap();
        assert!(
            (goodput * seconds / 8.0 - 3_000_006.0).abs() < 1.0,
            "{summary}"
        );
    }
    assert!(sent.json()["paths"][0]["bytes_sent"].as_u64().unwrap() >= 3_000_006);
    assert!(
        received.json()["paths"][0]["bytes_received"]
            .as_u64()
            .unwrap()
            >= 3_000_006
    );
    assert!(sent.stderr.contains("Sent 3 files") && received.stderr.contains("Received 3 files"));
}

#[test]
fn files_are_fetched_with_a_ticket_from_the_environment() {
    let place = Place::new();
    let sender = place.start(&[
        "send",
        "film.mkv",
        "-q",
        "--ticket-file",
        "ticket",
        "--cc",
        "balia",
    ]);
    let ticket = place.wait_for("ticket");
    let receiver = place
        .manyway(&["recv", "in", "-q"])
        .env("MANYWAY_TICKET", ticket.trim())
        .spawn()
        .unwrap();
    let received = Running(receiver).finish().ok();
    let sent = sender.finish().ok();
    place.same("film.mkv", "in/film.mkv");
    assert_eq!(
        (received.stderr.as_str(), received.stdout.as_str()),
        ("", "")
    );
    assert_eq!((sent.stderr.as_str(), sent.stdout.as_str()), ("", ""));
}

#[cfg(feature = "research")]
#[test]
fn variables_turn_flags_on_and_off() {
    let place = Place::new();
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/no/such.toml");
    for (value, on) in [("1", true), ("yes", true), ("0", false), ("no", false)] {
        let mut command = place.manyway(&["run", scenario]);
        let ended = Running(command.env("MANYWAY_SCHEMA", value).spawn().unwrap()).finish();
        assert_eq!(ended.stdout.contains("$schema"), on, "{value}: {ended:?}");
        assert_ne!(ended.stderr.contains("such.toml"), on, "{value}: {ended:?}");
    }
}

#[test]
fn errors_name_the_variable_that_a_value_is_from() {
    let place = Place::new();
    let words = |arguments: &[&str], variable: (&str, &str)| {
        let mut command = place.manyway(arguments);
        let ended = Running(command.env(variable.0, variable.1).spawn().unwrap()).finish();
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.stderr
    };
    let of_variable = words(&["recv", "in"], ("MANYWAY_CC", "nolaw"));
    assert!(
        of_variable.contains("'nolaw' for 'MANYWAY_CC'"),
        "{of_variable}"
    );
    let written = words(&["recv", "in", "--cc", "none"], ("MANYWAY_CC", "lia"));
    assert!(written.contains("'none' for '--cc <NAME>'"), "{written}");
    let written = words(&["recv", "in", "--cc=none"], ("MANYWAY_CC", "lia"));
    assert!(written.contains("'none' for '--cc <NAME>'"), "{written}");
    let twice = words(&["recv", "in", "--overwrite"], ("MANYWAY_RENAME", "1"));
    assert!(twice.contains("MANYWAY_RENAME"), "{twice}");
}

#[test]
fn an_empty_variable_sets_nothing() {
    let place = Place::new();
    let mut command = place.manyway(&["recv", "no/such/in"]);
    for variable in [
        "MANYWAY_TICKET",
        "MANYWAY_CC",
        "MANYWAY_PATH",
        "MANYWAY_PORT",
    ] {
        command.env(variable, "");
    }
    let ended = Running(command.spawn().unwrap()).finish();
    let wrong = "can't receive into no/such/in: create its parent directory first";
    assert!(ended.stderr.contains(wrong), "{ended:?}");
}

/// Where 0 turns something off, it needs no unit.
#[test]
fn never_is_written_as_0() {
    let place = Place::new();
    let line = [
        "recv",
        "in",
        "--timeout",
        "0",
        "--keep-parts",
        "0",
        "--retry",
        "0",
    ];
    let ended = place.run(&[&line[..], &["--expire", "1s"]].concat());
    assert_eq!(ended.code, 3, "{ended:?}");
}

#[test]
fn a_receiver_goes_on_until_it_is_stopped() {
    let place = Place::new();
    let receiver = place.start(&["recv", "in", "--json", "--ticket-file", "ticket"]);
    place.wait_for("ticket");
    place.run(&["send", "film.mkv", "--to", "@ticket"]).ok();
    // It is there now.
    let again = place
        .run(&["send", "film.mkv", "--to", "@ticket", "--json"])
        .ok();
    assert_eq!(again.json()["kept"]["files"], 1);
    // Another file of that name: refused by default, and the receiver lives on.
    fs::write(place.path("film.mkv"), "another").unwrap();
    let refused = place.run(&["send", "film.mkv", "--to", "@ticket", "--json"]);
    assert_eq!(refused.code, 4);
    assert!(refused.stderr.contains("--overwrite"), "{refused:?}");
    assert!(
        refused.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("film.mkv"),
        "{refused:?}"
    );
    place.run(&["send", "photos", "--to", "@ticket"]).ok();
    receiver.interrupt();
    let received = receiver.finish().ok();
    let lines: Vec<Value> = received
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 4, "{received:?}");
    assert_eq!(lines[3]["directories"], 2);
}

#[test]
fn a_stop_on_either_side_is_told_to_the_other_and_leaves_nothing_without_use() {
    for stop_sender in [true, false] {
        let place = Place::new();
        let receiver = place.start(&["recv", "in", "--once", "--ticket-file", "ticket"]);
        place.wait_for("ticket");
        // Far too slow to be done before it is stopped.
        let sender = place.start(&["send", "film.mkv", "--to", "@ticket", "--limit", "100kbps"]);
        let entries = || fs::read_dir(place.path("in")).unwrap().count();
        eventually("the file's first part", || (entries() > 0).then_some(()));
        if stop_sender { &sender } else { &receiver }.interrupt();
        let (sent, received) = (sender.finish(), receiver.finish());
        let (stopped, told) = if stop_sender {
            (sent, received)
        } else {
            (received, sent)
        };
        assert_eq!((stopped.code, told.code), (5, 5));
        assert!(
            stopped
                .stderr
                .contains("stopped before the transfer was complete"),
            "{stopped:?}"
        );
        assert!(told.stderr.contains("its user stopped it"), "{told:?}");
        assert_eq!(entries(), 0);
    }
}

#[test]
fn a_listener_that_is_stopped_before_anybody_came_says_so() {
    let place = Place::new();
    for line in [&["recv", "in", "--once"][..], &["send", "film.mkv"]] {
        fs::remove_file(place.path("ticket")).ok();
        let listener = place.start(&[line, &["--ticket-file", "ticket"]].concat());
        place.wait_for("ticket");
        listener.interrupt();
        let stopped = listener.finish();
        assert_eq!(stopped.code, 5, "{stopped:?}");
        let words = "manyway: stopped before anybody came\n";
        assert!(stopped.stderr.ends_with(words), "{stopped:?}");
    }
}

#[test]
fn a_sender_that_is_offline_is_told_to_connect_its_host() {
    let place = Place::new();
    let receiver = place.start(&["recv", "in", "--once", "--ticket-file", "ticket"]);
    let mut ticket: Ticket = place.wait_for("ticket").trim().parse().unwrap();
    ticket.addresses = vec!["203.0.113.5:9".parse().unwrap()];
    let offline = place.run(&["send", "film.mkv", "--to", &ticket.to_string()]);
    assert_eq!(offline.code, 3, "{offline:?}");
    let words = "only loopback is bound here; connect this host to a network, or name an interface";
    assert!(offline.stderr.contains(words), "{offline:?}");
    drop(receiver);
}

/// Whatever ends a transfer, the same again goes on where it was, even with another ticket.
#[test]
fn an_interrupted_transfer_goes_on_where_it_was() {
    for (how, signal) in [("receiver", "KILL"), ("receiver", "INT"), ("sender", "INT")] {
        let place = Place::new();
        let receiver = place.start(&["recv", "in", "--once", "--ticket-file", "ticket"]);
        place.wait_for("ticket");
        let sender = place.start(&["send", "film.mkv", "--to", "@ticket", "--limit", "3Mbps"]);
        let part = || {
            let mut names = fs::read_dir(place.path("in")).ok()?.flatten();
            names
                .find_map(|part| part.metadata().ok())
                .map(|part| part.len())
        };
        eventually("half a megabyte", || part().filter(|&len| len > 500_000));
        let victim = if how == "sender" { &sender } else { &receiver };
        victim.signal(signal);
        if signal == "INT" {
            for ended in [sender.finish(), receiver.finish()] {
                let hint = "The same commands resume";
                assert!(ended.code == 5 && ended.stderr.contains(hint), "{ended:?}");
            }
        } else {
            drop((sender, receiver));
        }
        let left = part().expect("it stays");
        assert!(left < 2_900_000, "{left}");

        fs::remove_file(place.path("ticket")).unwrap();
        let receiver = place.start(&["recv", "in", "--once", "--ticket-file", "ticket"]);
        place.wait_for("ticket");
        let sent = place
            .run(&["send", "film.mkv", "--to", "@ticket", "--json"])
            .ok();
        receiver.finish().ok();
        place.same("film.mkv", "in/film.mkv");
        assert_eq!(fs::read_dir(place.path("in")).unwrap().count(), 1);
        let kept = sent.json()["kept"]["bytes"].as_u64().unwrap();
        assert!(kept + 65_536 > left, "{how} {signal}: {kept} of {left}");
        assert!(sent.stderr.contains("already there: "), "{sent:?}");
    }
}

/// A name that somebody else takes meanwhile isn't there the next time either, unless its user
/// makes room. What has come is kept for that.
#[test]
fn a_conflict_in_the_course_of_a_transfer_is_no_interruption() {
    let place = Place::new();
    let receiver = place.start(&["recv", "in", "--once", "--ticket-file", "ticket"]);
    place.wait_for("ticket");
    let sender = place.start(&["send", "film.mkv", "--to", "@ticket", "--limit", "20Mbps"]);
    eventually("half a megabyte", || {
        let mut names = fs::read_dir(place.path("in")).ok()?.flatten();
        names.find(|part| part.metadata().is_ok_and(|part| part.len() > 500_000))
    });
    fs::write(place.path("in/film.mkv"), "mine").unwrap();
    for ended in [sender.finish(), receiver.finish()] {
        assert_eq!(ended.code, 4, "{ended:?}");
        assert!(!ended.stderr.contains("The same commands"), "{ended:?}");
    }
    assert_eq!(fs::read(place.path("in/film.mkv")).unwrap(), b"mine");

    fs::remove_file(place.path("in/film.mkv")).unwrap();
    fs::remove_file(place.path("ticket")).unwrap();
    let receiver = place.start(&["recv", "in", "--once", "--ticket-file", "ticket"]);
    place.wait_for("ticket");
    let sent = place.run(&["send", "film.mkv", "--to", "@ticket", "--json"]);
    receiver.finish().ok();
    assert_eq!(sent.ok().json()["kept"]["bytes"], 3_000_001);
    place.same("film.mkv", "in/film.mkv");
    assert_eq!(fs::read_dir(place.path("in")).unwrap().count(), 1);
}

#[test]
fn the_far_side_is_started_over_ssh() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_manyway");
    let ssh = fake_ssh(&place);
    let send = |destination: &str, program: &str| {
        place.run(&[
            "send",
            "film.mkv",
            destination,
            "--ssh",
            &ssh,
            "--remote-bin",
            program,
        ])
    };
    let dir = "it's; $(touch x) `touch x` \"in\"";
    let sent = send(&format!("ann@server:{dir}"), program).ok();
    let banner = "ann@server: Gr\u{fffd}\u{fffd}e";
    assert!(sent.stderr.contains(banner), "{sent:?}");
    place.same("film.mkv", &format!("{dir}/film.mkv"));
    assert!(!place.path("x").exists());
    assert_eq!(place.wait_for("host").trim(), "ann@server");

    // What the far side says is passed on with its host's name; its own reason comes first.
    fs::write(place.path("film.mkv"), "another").unwrap();
    let refused = send(&format!("server:{dir}"), program);
    assert_eq!(refused.code, 4);
    assert!(
        refused
            .stderr
            .contains("film.mkv: it exists already at the receiver"),
        "{refused:?}"
    );
    let missing = send("server:in", "/no/such/manyway");
    assert_eq!(missing.code, 1);
    assert!(
        missing.stderr.contains("isn't installed on server"),
        "{missing:?}"
    );
    assert!(missing.stderr.contains("--remote-bin"), "{missing:?}");
}

#[test]
fn a_directory_is_made_like_another() {
    let place = Place::new();
    let ssh = fake_ssh(&place);
    fs::create_dir_all(place.path("there/raw")).unwrap();
    for name in ["old.jpg", "x.tmp", "raw/old"] {
        fs::write(place.path("there").join(name), "was here before").unwrap();
    }
    fs::write(place.path("photos/y.tmp"), "").unwrap();
    let sync = |arguments: &[&str]| {
        let bin = ["--remote-bin", env!("CARGO_BIN_EXE_manyway")];
        let common = [
            "sync",
            "--ssh",
            &ssh,
            "--exclude",
            "*.tmp",
            "--max-size",
            "1kB",
        ];
        place.run(&[&common[..], &bin, arguments].concat())
    };
    let tree = |of: &str| {
        let mut names = Vec::new();
        let mut dirs = vec![place.path(of)];
        while let Some(dir) = dirs.pop() {
            for item in fs::read_dir(dir).unwrap() {
                let path = item.unwrap().path();
                names.push(path.strip_prefix(place.path(of)).unwrap().to_owned());
                dirs.extend(path.is_dir().then_some(path));
            }
        }
        names.sort();
        names
    };

    let before = tree("there");
    let dry = sync(&["--delete", "--dry-run", "photos/", "server:there"]).ok();
    let expected = "\
send   empty  0 B
make   sea/
send   sea/a b.txt  5 B
delete old.jpg
delete raw/old
delete raw
";
    assert_eq!(dry.stdout, expected);
    assert!(
        dry.stderr
            .contains("Dry run: would send 2 files, 5 B, make 1 directory and 0 links"),
        "{dry:?}"
    );
    assert_eq!(tree("there"), before);

    let done = sync(&["--delete", "--json", "photos/", "server:there"]).ok();
    assert_eq!(
        done.json()["deleted"]["names"],
        serde_json::json!(["old.jpg", "raw/old", "raw"])
    );
    let expected = ["empty", "sea", "sea/a b.txt", "x.tmp"].map(PathBuf::from);
    assert_eq!(tree("there"), expected);
    place.same("photos/sea/a b.txt", "there/sea/a b.txt");

    // A file that differs is replaced; what is gone here stays there without `--delete`.
    fs::write(place.path("photos/sea/a b.txt"), "more waves").unwrap();
    fs::remove_file(place.path("photos/empty")).unwrap();
    sync(&["photos/", "server:there"]).ok();
    place.same("photos/sea/a b.txt", "there/sea/a b.txt");
    assert_eq!(tree("there"), expected);

    let alone = sync(&["photos/", "film.mkv", "server:there"]);
    assert_eq!(alone.code, 2, "{alone:?}");
    // The far side knows its home directory by whatever path.
    fs::create_dir_all(place.path("home/ann/in")).unwrap();
    std::os::unix::fs::symlink("home/ann", place.path("link")).unwrap();
    let at_home = |source: &str, dir: &str, options: &[&str], home: &str| {
        let bin = ["--remote-bin", env!("CARGO_BIN_EXE_manyway")];
        let words = ["sync", "--ssh", &ssh, source, dir];
        let mut command = place.manyway(&[&words[..], &bin, options].concat());
        command.env("HOME", place.path(home));
        Running(command.spawn().unwrap()).finish()
    };
    let home = |source: &str, dir: &str, options: &[&str]| {
        let dir = format!("server:{}", place.path(dir).display());
        at_home(source, &dir, options, "home/ann")
    };
    // This is where our ssh begins.
    for dir in ["", ".", "~", "./", "there/.."] {
        let all = at_home("photos/", &format!("server:{dir}"), &["--delete"], "");
        assert_eq!(all.code, 2, "{dir}: {all:?}");
        assert!(all.stderr.contains("in the home directory:"), "{all:?}");
    }
    for (dir, which) in [
        ("home/ann", "in the home directory:"),
        ("link/", "in the home directory:"),
        ("home/ann/in/..", "in the home directory:"),
        ("home", "in a directory above the home directory:"),
        ("", "in a directory above the home directory:"),
    ] {
        for options in [&["--delete"][..], &["--delete", "--dry-run"]] {
            let all = home("photos/", dir, options);
            assert_eq!(all.code, 2, "{dir}: {all:?}");
            assert!(all.stderr.contains(which), "{dir}: {all:?}");
        }
    }
    home("photos/", "home/ann/in", &["--delete"]).ok();
    home("photos", "home/ann", &["--delete"]).ok();
    home("photos/", "home/ann", &[]).ok();
    place.same("photos/sea/a b.txt", "home/ann/sea/a b.txt");
    let numbered = sync(&["--rename", "photos", "server:there"]);
    assert_eq!(numbered.code, 2, "{numbered:?}");
}

/// Does what ssh does with its arguments: the first is the host, a shell gets the rest. A space in
/// its name shows that `--ssh` minds quotes, and its banner in Latin-1 that encodings don't matter.
fn fake_ssh(place: &Place) -> String {
    let path = place.path("fake ssh.sh");
    let banner = r"printf 'Gr\374\337e\n' >&2";
    let text = format!("{banner}\necho \"$1\" > host\nshift\nexec sh -c \"$*\"");
    script(&path, &text);
    format!("'{}'", path.display())
}

#[test]
fn wrong_usage_has_a_status_of_its_own() {
    let place = Place::new();
    let receiver = place.start(&["recv", "in", "-q", "--ticket-file", "ticket"]);
    let ticket = place.wait_for("ticket");
    let flipped = ticket.trim().replacen(
        &ticket[9..10],
        if &ticket[9..10] == "a" { "b" } else { "a" },
        1,
    );
    let wrong = |arguments: &[&str], words: &str| {
        let finished = place.run(arguments);
        assert_eq!(finished.code, 2, "{finished:?}");
        assert!(finished.stderr.contains(words), "{finished:?}");
        assert_eq!(finished.stdout, "");
    };
    wrong(&["send"], "PATH");
    wrong(&["send", "film.mkv", "--to", &flipped], "ticket");
    wrong(
        &["send", "film.mkv", "--to", "hello"],
        "no peer is called hello",
    );
    wrong(
        &["send", "film.mkv", "server:in", "--to", &ticket],
        "both a ticket",
    );
    wrong(&["recv", "--cc", "libra"], "lia");
    wrong(&["recv", "--limit", "fast"], "rate");
    wrong(&["recv", "--receive-window", "1"], "--receive-window");
    wrong(&["recv", "a", "b"], "one directory");
    wrong(&["demo", "--link", "fast"], "RATE/DELAY");
    wrong(&["demo", "--relays", "--link", "1Mbps/1ms"], "--relays");
    drop(receiver);
}

#[test]
fn a_small_demo_with_relays_verifies_and_draws() {
    let place = Place::new();
    let demo = place
        .run(&[
            "demo", "--relays", "--json", "--size", "3MB", "--svg", "demo.svg",
        ])
        .ok();
    for words in [
        "over a core link of 5 Mbps",
        "a round trip takes 10 ms over the core link",
        "law reno",
        "law mpath",
        "BLAKE3 of both copies verified",
    ] {
        assert!(demo.stderr.contains(words), "{}", demo.stderr);
    }
    let result = demo.json();
    assert_eq!(result["verified"], Value::Bool(true));
    assert_eq!(result["with_relays"]["bytes"], Value::from(3_000_000));
    for part in ["single", "with_relays"] {
        assert!(result[part]["goodput_bps"].as_f64().unwrap() > 0.0);
    }
    let paths = result["paths"].as_array().unwrap();
    let names: Vec<&Value> = paths.iter().map(|path| &path["name"]).collect();
    assert_eq!(names, ["direct", "relay 1 (useless)", "relay 2", "relay 3"]);
    let sent: u64 = paths
        .iter()
        .map(|path| path["bytes_sent"].as_u64().unwrap())
        .sum();
    assert!(sent >= 3_000_000);
    let share: f64 = paths
        .iter()
        .map(|path| path["share"].as_f64().unwrap())
        .sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    let svg = fs::read_to_string(place.path("demo.svg")).unwrap();
    assert!(svg.contains("relay 3") && svg.trim_end().ends_with("</svg>"));
}

#[test]
fn a_small_demo_verifies_and_draws() {
    let place = Place::new();
    let links = "80Mbps/2ms,40Mbps/5ms";
    let demo = place
        .run(&[
            "demo", "--json", "--size", "2MB", "--link", links, "--svg", "demo.svg",
        ])
        .ok();
    let result = demo.json();
    assert_eq!(
        (&result["verified"], &result["bytes"]),
        (&Value::Bool(true), &Value::from(2_000_000))
    );
    assert!(result["best_single_bps"].as_f64().unwrap() > 0.0);
    assert!(result["all_paths_bps"].as_f64().unwrap() > 0.0);
    let paths = result["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 2);
    let sent: u64 = paths
        .iter()
        .map(|path| path["bytes_sent"].as_u64().unwrap())
        .sum();
    assert!(sent >= 2_000_000);
    let svg = fs::read_to_string(place.path("demo.svg")).unwrap();
    assert!(svg.contains("80 Mbps/2 ms") && svg.trim_end().ends_with("</svg>"));
}
