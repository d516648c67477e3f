//! `send -` and `recv -`: standard input of one process to standard output of another.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::spawn;

use tempfile::TempDir;

use crate::common::{Finished, Running, eventually, manyway};

const BYTES: usize = 5_000_001;

fn content() -> Vec<u8> {
    (0..BYTES as u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .take(BYTES)
        .collect()
}

fn start(dir: &Path, arguments: &[&str]) -> Running {
    let mut command = manyway(dir, arguments);
    command
        .env("MANYWAY_PATH", "127.0.0.1")
        .stdin(Stdio::piped());
    Running(command.spawn().unwrap())
}

/// What waits, with its ticket in a file.
fn waiting(dir: &Path, arguments: &[&str]) -> Running {
    let running = start(
        dir,
        &[arguments, &["-q", "--ticket-file", "ticket"]].concat(),
    );
    eventually("the ticket", || {
        fs::read_to_string(dir.join("ticket"))
            .ok()
            .filter(|text| text.starts_with("mw1"))
    });
    running
}

/// Writes to its standard input, and closes that.
fn feed(child: &mut Child, bytes: Vec<u8>) {
    let mut stdin = child.stdin.take().unwrap();
    spawn(move || stdin.write_all(&bytes).ok());
}

/// Its standard output as bytes, and the rest.
fn output(mut running: Running) -> (Vec<u8>, Finished) {
    let mut bytes = Vec::new();
    let mut stdout = running.0.stdout.take().unwrap();
    stdout.read_to_end(&mut bytes).unwrap();
    (bytes, running.finish())
}

#[test]
fn bytes_go_from_standard_input_to_standard_output() {
    // Either side may be the one that waits; `-o -` is what other programs call it.
    for (waits, dials, sender_waits) in [
        (["recv", "-"].as_slice(), ["send", "-"].as_slice(), false),
        (&["send", "-"], &["recv", "-o", "-"], true),
    ] {
        let dir = TempDir::new().unwrap();
        let mut waiting = waiting(dir.path(), waits);
        let flag = if sender_waits { "--from" } else { "--to" };
        let mut dialling = start(dir.path(), &[dials, &[flag, "@ticket"]].concat());
        let sender = if sender_waits {
            &mut waiting
        } else {
            &mut dialling
        };
        feed(&mut sender.0, content());
        let (sender, receiver) = match sender_waits {
            true => (waiting, dialling),
            false => (dialling, waiting),
        };
        let (bytes, received) = output(receiver);
        let sent = sender.finish().ok();
        received.ok();
        assert!(bytes == content(), "{} bytes", bytes.len());
        assert_eq!(sent.stdout, "");
    }
}

#[test]
fn nothing_is_a_stream_too_and_both_say_what_went() {
    let dir = TempDir::new().unwrap();
    let receiver = waiting(dir.path(), &["recv", "-"]);
    let mut sender = start(dir.path(), &["send", "-", "--to", "@ticket"]);
    feed(&mut sender.0, Vec::new());
    let (bytes, received) = output(receiver);
    assert!(bytes.is_empty());
    assert_eq!(received.ok().stderr, "");
    let said = sender.finish().ok().stderr;
    assert!(said.contains("Sent 0 B in "), "{said}");
}

/// The reader behind the receiver goes: both sides end, and say so.
#[test]
fn an_output_that_breaks_ends_both_sides() {
    let dir = TempDir::new().unwrap();
    let mut receiver = waiting(dir.path(), &["recv", "-"]);
    let mut sender = start(dir.path(), &["send", "-", "--to", "@ticket"]);
    let mut stdin = sender.0.stdin.take().unwrap();
    // Never ends by itself.
    let feeder = spawn(move || while stdin.write_all(&[7; 1 << 16]).is_ok() {});
    let mut some = [0; 1000];
    let mut stdout = receiver.0.stdout.take().unwrap();
    stdout.read_exact(&mut some).unwrap();
    drop(stdout);
    let received = receiver.finish();
    let sent = sender.finish();
    assert_eq!((received.code, sent.code), (1, 1), "{received:?} {sent:?}");
    for (said, words) in [
        (
            &received.stderr,
            "manyway: can't write to standard output: Broken pipe",
        ),
        (
            &sent.stderr,
            "manyway: the receiver can't write to standard output: Broken pipe",
        ),
    ] {
        assert!(said.starts_with(words), "{said}");
    }
    feeder.join().unwrap();
}

/// What stands behind the output is a disk, as it is for files.
#[test]
fn an_output_on_a_full_disk_has_the_status_of_one() {
    let dir = TempDir::new().unwrap();
    let Ok(full) = fs::File::options().write(true).open("/dev/full") else {
        return;
    };
    let arguments = ["recv", "-", "-q", "--ticket-file", "ticket"];
    let mut receiver = manyway(dir.path(), &arguments);
    receiver.env("MANYWAY_PATH", "127.0.0.1").stdout(full);
    let receiver = Running(receiver.spawn().unwrap());
    eventually("the ticket", || {
        fs::read_to_string(dir.path().join("ticket"))
            .ok()
            .filter(|text| text.starts_with("mw1"))
    });
    let mut sender = start(dir.path(), &["send", "-", "--to", "@ticket"]);
    feed(&mut sender.0, b"hello".to_vec());
    let (received, sent) = (receiver.finish(), sender.finish());
    assert_eq!((received.code, sent.code), (7, 1), "{received:?} {sent:?}");
    let words = "manyway: can't write to standard output: No space left on device";
    assert!(received.stderr.starts_with(words), "{received:?}");
}

#[test]
fn who_is_stopped_tells_the_other_side() {
    for sender_stops in [true, false] {
        let dir = TempDir::new().unwrap();
        let mut receiver = waiting(dir.path(), &["recv", "-"]);
        let mut sender = start(dir.path(), &["send", "-", "-q", "--to", "@ticket"]);
        let mut stdin = sender.0.stdin.take().unwrap();
        stdin.write_all(b"hello").unwrap();
        let mut heard = [0; 5];
        let stdout = receiver.0.stdout.as_mut().unwrap();
        stdout.read_exact(&mut heard).unwrap();
        if sender_stops {
            sender.interrupt();
        } else {
            receiver.interrupt();
        }
        let (sent, received) = (sender.finish(), receiver.finish());
        assert_eq!((sent.code, received.code), (5, 5), "{sent:?} {received:?}");
        let (stopped, other) = match sender_stops {
            true => (sent, received),
            false => (received, sent),
        };
        assert_eq!(
            stopped.stderr,
            "manyway: stopped before the transfer was complete\n"
        );
        let words = "manyway: the peer closed the connection: its user stopped it\n";
        assert_eq!(other.stderr, words);
    }
}

/// A ticket given to the wrong command: its holder reads why, and whoever waits goes on waiting.
#[test]
fn the_wrong_partner_is_told_and_the_right_one_still_served() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    let receiver = waiting(dir.path(), &["recv", "-"]);
    for (wrong, words) in [
        (
            &["send", "file", "--to"],
            "its ticket is for a pipe: give `-` in place of files",
        ),
        (
            &["recv", "-", "--from"],
            "both sides want to receive: on one of them, run `manyway send - --to` with the other",
        ),
    ] {
        let ended = start(dir.path(), &[wrong.as_slice(), &["@ticket"]].concat()).finish();
        assert_ne!(ended.code, 0, "{ended:?}");
        assert!(ended.stderr.contains(words), "{ended:?}");
    }
    let mut sender = start(dir.path(), &["send", "-", "--to", "@ticket"]);
    feed(&mut sender.0, b"right".to_vec());
    let (bytes, received) = output(receiver);
    received.ok();
    sender.finish().ok();
    assert_eq!(bytes, b"right");
}

#[test]
fn a_pipe_to_a_receiver_of_files_is_told() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("in")).unwrap();
    let _receiver = waiting(dir.path(), &["recv", "in"]);
    let mut sender = start(dir.path(), &["send", "-", "--to", "@ticket"]);
    feed(&mut sender.0, b"x".to_vec());
    let ended = sender.finish();
    // By the receiver's first words, or by its reason for closing the connection.
    assert!([1, 5].contains(&ended.code), "{ended:?}");
    assert!(ended.stderr.contains("files"), "{ended:?}");
}

/// Whoever waits says so too, and goes on waiting.
#[test]
fn the_same_side_twice_is_told() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("in")).unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    for (waits, wrong, words, right) in [
        (
            &["recv", "in"],
            &["recv", "other", "--from", "@ticket"],
            "both sides want to receive: on one of them, run `manyway send PATH… --to` with the \
             other one's ticket",
            &["send", "file", "--to", "@ticket"],
        ),
        (
            &["send", "file"],
            &["send", "file", "--to", "@ticket"],
            "both sides want to send: on one of them, run `manyway recv --from` with the other \
             one's ticket",
            &["recv", "other", "--from", "@ticket"],
        ),
    ] {
        let _waiting = waiting(dir.path(), waits);
        let ended = start(dir.path(), wrong).finish();
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.stderr.contains(words), "{ended:?}");
        start(dir.path(), right).finish().ok();
        fs::remove_file(dir.path().join("ticket")).unwrap();
    }
}

#[test]
fn options_for_files_make_no_sense_with_a_pipe() {
    let dir = TempDir::new().unwrap();
    for (arguments, words) in [
        (
            &["send", "-", "--exclude", "x", "--json"],
            "leave out --exclude --json",
        ),
        (
            &["recv", "-", "--overwrite", "--retry", "1min"],
            "leave out --overwrite --retry",
        ),
        (
            &["send", "-", "file", "--to", "mw1x"],
            "`-` stands for standard input and goes alone",
        ),
    ] {
        let ended = start(dir.path(), arguments).finish();
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains(words), "{ended:?}");
    }
}
