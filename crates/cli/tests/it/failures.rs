//! Ends without success: what they say, their status, and their JSON object.

use std::fs;

use crate::common::Running;
use crate::common::place::Place;

#[test]
fn failures_name_the_thing() {
    let place = Place::new();
    let fails = |arguments: &[&str], words: &str, code: i32, name: &str| {
        let finished = place.run(&[arguments, &["--json"]].concat());
        assert_eq!(finished.code, code, "{finished:?}");
        assert!(finished.stderr.contains(words), "{finished:?}");
        let error = &finished.json()["error"];
        assert_eq!(error["code"], name);
        assert!(error["message"].as_str().unwrap().contains(words));
    };
    fails(&["send", "nothing"], "nothing", 6, "incomplete");
    for command in ["send", "sync"] {
        let words = "film.mkv/: cannot be sent: a part of it is a file";
        fails(&[command, "film.mkv/"], words, 2, "usage");
        fails(&[command, "/dev/null"], "neither a file nor", 2, "usage");
    }
    let no_ticket = ["send", "film.mkv", "--to", "@nowhere"];
    fails(&no_ticket, "nowhere", 1, "failed");
    fails(&["recv", "@nowhere"], "nowhere", 1, "failed");
    fails(&["recv", "film.mkv"], "not a directory", 2, "usage");
    fails(&["recv", "a/b/c"], "parent", 2, "usage");
    fails(&["recv", "a", "b"], "one directory", 2, "usage");
    fails(&["recv", "mw1x"], "ticket", 2, "usage");
    fails(&["recv", "7-guitar-sadle-orbit"], "sadle", 2, "usage");
    if cfg!(target_os = "linux") {
        let full = ["recv", "--once", "/sys"];
        fails(&full, "can't write into /sys: ", 7, "disk");
        let missing = ["recv", "--once", "/proc/none"];
        fails(&missing, "can't create /proc/none: ", 7, "disk");
    }
    let words = "can't write the ticket to none/t: No such file or directory";
    fails(&["recv", "--ticket-file", "none/t"], words, 1, "failed");
    let words = "`-` carries a stream and no files: leave out --json";
    fails(&["recv", "-"], words, 2, "usage");
    fails(&["send", "-"], "leave out --json", 2, "usage");
    fails(&["recv", "--path", "nosuch0"], "nosuch0", 2, "usage");
    // The command line can't be understood.
    fails(&["send"], "PATH", 2, "usage");
    fails(&["recv", "--limit", "fast"], "rate", 2, "usage");
    fails(
        &["recv", "--once", "--progress", "json", "--onc"],
        "--onc",
        2,
        "usage",
    );
    fails(
        &["send", "--profile", "none", "--config", "/none"],
        "/none",
        2,
        "usage",
    );
    // Variables ask for it, too, and a profile that stands before what is wrong.
    let profile = "[profile.p]\njson = true\n";
    fs::write(place.path("profile"), profile).unwrap();
    let typo = format!("{profile}limt = \"1Mbps\"\n");
    fs::write(place.path("typo"), typo).unwrap();
    let profile = ["--profile", "p", "--config", "profile"];
    let typo = ["--profile", "p", "--config", "typo"];
    for (variable, value, arguments, says) in [
        ("MANYWAY_JSON", "1", &[][..], true),
        ("MANYWAY_JSON", "0", &[], false),
        ("MANYWAY_PROGRESS", "json", &[], true),
        ("MANYWAY_QUIET", "1", &profile, true),
        ("MANYWAY_QUIET", "1", &typo, true),
    ] {
        let mut command = place.manyway(&[&["send"], arguments, &["--limit", "fast"]].concat());
        let ended = Running(command.env(variable, value).spawn().unwrap()).finish();
        assert_eq!(ended.code, 2, "{ended:?}");
        let said = ended.stdout.contains(r#""code":"usage""#);
        assert_eq!(said, says, "{variable}={value}: {ended:?}");
    }
}

/// A word that is neither on nor off turns nothing on.
#[test]
fn a_flags_variable_says_yes_or_no() {
    let place = Place::new();
    for (value, code) in [("never", 2), ("1", 0), ("no", 0), ("", 0)] {
        let mut command = place.manyway(&["laws"]);
        let run = command.env("MANYWAY_QUIET", value).spawn();
        let ended = Running(run.unwrap()).finish();
        let named = ended.stderr.contains("MANYWAY_QUIET");
        assert_eq!((ended.code, named), (code, code == 2), "{value}: {ended:?}");
    }
}

#[test]
fn names_reach_the_terminal_as_what_they_are() {
    let place = Place::new();
    for arguments in [&["recv", "a\u{1b}[2J/b"][..], &["recv", "@a\u{1b}[2J"]] {
        let failed = place.run(arguments);
        assert!(failed.stderr.contains(r"a\u{1b}[2J"), "{failed:?}");
        assert!(!failed.stderr.contains('\u{1b}'), "{failed:?}");
    }
}

/// What a user asks for is said only where nobody else would.
#[test]
fn a_receivers_options_are_named_where_it_cant_tell() {
    let place = Place::new();
    let _receiver = place.start(&["recv", "in", "--overwrite", "--ticket-file", "ticket"]);
    place.wait_for("ticket");
    let sync = |more: &[&str]| {
        let line = [&["sync", "film.mkv", "--to", "@ticket"], more].concat();
        place.run(&line).ok().stderr
    };
    assert!(!sync(&[]).contains("manyway recv"));
    let said = sync(&["--perms"]);
    assert!(
        said.contains("`manyway recv --overwrite --perms`"),
        "{said}"
    );
}

/// An ssh that can't reach its host is like a host that doesn't answer.
#[test]
fn an_ssh_that_fails_is_tried_again() {
    let place = Place::new();
    let ssh = "sh -c 'echo x >> tries; exit 255'";
    let to = ["send", "film.mkv", "server:in", "--ssh", ssh];
    let tries = || {
        fs::read_to_string(place.path("tries"))
            .unwrap()
            .lines()
            .count()
    };
    let failed = place.run(&to);
    assert_eq!((failed.code, tries()), (3, 1), "{failed:?}");
    assert!(
        failed.stderr.contains("ssh can't reach server"),
        "{failed:?}"
    );
    let failed = place.run(&[&to[..], &["--retry", "2s"]].concat());
    assert_eq!((failed.code, tries()), (3, 3), "{failed:?}");
    assert!(failed.stderr.contains("trying again in 1 s"), "{failed:?}");
}

/// What a user leaves out on purpose isn't missing on either side.
#[test]
fn files_above_a_limit_are_not_missing() {
    let place = Place::new();
    let receiver = place.start(&["recv", "in", "--once", "--ticket-file", "ticket"]);
    place.wait_for("ticket");
    let send = ["send", "photos", "--to", "@ticket", "--max-size", "1B"];
    place.run(&send).ok();
    let received = receiver.finish().ok();
    assert!(!received.stderr.contains("left out"), "{received:?}");
    assert!(place.path("in/photos/empty").exists());
    assert!(!place.path("in/photos/sea/a b.txt").exists());
}

/// What can't travel is listed even with `-q`, and the status tells of it.
#[test]
fn what_is_left_out_is_an_error_though_the_rest_arrives() {
    let place = Place::new();
    for (target, name) in [("sea", "safe"), ("/etc/passwd", "out")] {
        std::os::unix::fs::symlink(target, place.path("photos").join(name)).unwrap();
    }
    let _socket = std::os::unix::net::UnixListener::bind(place.path("photos/socket")).unwrap();
    let receiver = place.start(&["recv", "in", "--once", "-q", "--ticket-file", "ticket"]);
    place.wait_for("ticket");
    let sent = place.run(&["send", "photos", "--to", "@ticket", "-q", "--json"]);
    let received = receiver.finish();
    place.same("photos/sea/a b.txt", "in/photos/sea/a b.txt");
    let link = fs::read_link(place.path("in/photos/safe")).unwrap();
    assert_eq!(link.to_str(), Some("sea"));
    let there = fs::symlink_metadata(place.path("in/photos/out"));
    assert_eq!(there.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    let skipped = "manyway: 1 name left out:\n  photos/socket: a device, a pipe or a socket\n";
    let altered = "1 name left out or changed at the receiver";
    let told = format!("{skipped}{altered}; the other side lists them\n");
    assert_eq!((sent.code, sent.stderr.as_str()), (6, told.as_str()));
    let reason = "a symbolic link that leads out of the sent directory (`--links all`)";
    let told = format!("{skipped}{altered}:\n  photos/out: {reason}\n");
    assert_eq!((received.code, received.stderr), (6, told));
    let json = sent.json();
    assert_eq!(json["error"]["code"], "incomplete");
    assert_eq!(json["skipped"]["count"], 1);
    assert_eq!(json["altered"]["count"], 1);
    assert_eq!(json["symlinks"], 2);
    assert_eq!(json["direction"], "sent");
}
