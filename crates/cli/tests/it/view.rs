//! The live view on a terminal.

use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::thread;

use nix::pty::{OpenptyResult, Winsize, openpty};

use crate::common::transfer::Transfer;
use crate::common::{Finished, Running, eventually, manyway};

/// A slow sender whose standard error is a terminal of this width, and the terminal's other end.
fn sender(
    transfer: &Transfer,
    columns: u16,
    limit: &str,
    variable: (&str, &str),
) -> (Running, File) {
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let OpenptyResult { master, slave } = openpty(Some(&size), None).unwrap();
    let arguments = ["send", "file", "--to", "@ticket", "--path", "127.0.0.1"];
    let mut command = manyway(transfer.path(), &arguments);
    command
        .args(["--limit", limit])
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR")
        .env("TERM", "xterm")
        .env(variable.0, variable.1)
        .stderr(slave);
    let sender = Running(command.spawn().unwrap());
    (sender, File::from(master))
}

/// What a terminal gets until a Ctrl-C has ended the sender, some time after it got `awaited`.
fn shown(columns: u16, variable: (&str, &str), awaited: &str) -> (Finished, String) {
    let transfer = Transfer::new(10_000_000);
    let _receiver = transfer.receiver(&[]);
    transfer.ticket();
    interrupted(sender(&transfer, columns, "1Mbps", variable), awaited)
}

/// What the terminal of a process gets until a Ctrl-C has ended it, some time after it got
/// `awaited`.
fn interrupted((running, mut terminal): (Running, File), awaited: &str) -> (Finished, String) {
    let text = Arc::new(Mutex::new(Vec::new()));
    let reader = {
        let text = text.clone();
        thread::spawn(move || {
            let mut some = [0; 4096];
            // Ends with an error when the sender has closed its end.
            while let Ok(bytes @ 1..) = terminal.read(&mut some) {
                text.lock().unwrap().extend_from_slice(&some[..bytes]);
            }
        })
    };
    let now = || String::from_utf8_lossy(&text.lock().unwrap()).into_owned();
    eventually(awaited, || now().contains(awaited).then_some(()));
    running.interrupt();
    let ended = running.finish();
    reader.join().unwrap();
    (ended, now())
}

const STOPPED: &str = "stopped before the transfer was complete";

#[test]
fn it_fits_and_goes_tidily() {
    let (ended, shown) = shown(30, ("LANG", "C.UTF-8"), "░");
    assert_eq!(ended.code, 5);
    assert!(shown.contains("\x1b[32m"), "{shown:?}");
    let lines = shown.split("\r\n").filter(|line| line.ends_with("\x1b[K"));
    for line in lines {
        let texts = line.split(['\x1b', '\r']);
        let texts = texts.map(|part| match part.strip_prefix('[') {
            Some(code) => code
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .get(1..)
                .unwrap(),
            None => part,
        });
        let columns = texts.map(|text| text.chars().count()).sum::<usize>();
        assert!(columns < 30, "{line:?}");
    }
    // The view is gone before the last words, which come once.
    let (view, rest) = shown.rsplit_once("\x1b[J").unwrap();
    assert!(!view.contains(STOPPED), "{shown:?}");
    assert_eq!(rest.matches(STOPPED).count(), 1, "{shown:?}");
    assert!(!rest.contains('\x1b'), "{shown:?}");
}

#[test]
fn colours_and_dumb_terminals_are_respected() {
    let (_, plain) = shown(80, ("NO_COLOR", "1"), "░");
    assert!(plain.contains("\x1b[K"), "{plain:?}");
    for code in ["\x1b[0m", "\x1b[2m", "\x1b[32m"] {
        assert!(!plain.contains(code), "{plain:?}");
    }
    let (_, dumb) = shown(80, ("TERM", "dumb"), " s: ");
    assert!(!dumb.contains('\x1b') && dumb.contains(STOPPED), "{dumb:?}");
}

/// Somebody who waits for an answer should know it.
#[test]
fn that_nobody_answers_is_shown() {
    let transfer = Transfer::new(1000);
    let receiver = transfer.receiver(&[]);
    transfer.ticket();
    receiver.signal("STOP");
    let sender = sender(&transfer, 80, "1Mbps", ("LANG", "C.UTF-8"));
    let (ended, shown) = interrupted(sender, "connecting: no answer yet");
    assert_eq!(ended.code, 5, "{shown:?}");
    let (_, rest) = shown.rsplit_once("\x1b[J").unwrap();
    assert!(!rest.contains("connecting"), "{shown:?}");
}

#[test]
fn a_terminal_that_goes_ends_no_transfer() {
    let transfer = Transfer::new(1_000_000);
    let receiver = transfer.receiver(&[]);
    transfer.ticket();
    let (sender, terminal) = sender(&transfer, 80, "8Mbps", ("LANG", "C.UTF-8"));
    drop(terminal);
    sender.finish().ok();
    transfer.check(receiver);
}
