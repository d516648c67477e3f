//! What a peer can do to the program's user, and what the user allows.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use manyway::{Endpoint, EndpointOptions, Ticket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::transfer::Transfer;
use crate::common::{Finished, Running, manyway};

/// A reason for CLOSE that clears the screen, forges a line and turns the rest around.
const REASON: &str = "\u{1b}[2J\rmanyway: all is well\nReceived film.mkv \u{202e}\u{200b}";

#[tokio::test]
async fn a_reason_for_closing_does_not_act_on_the_terminal() {
    let transfer = Transfer::new(0);
    let receiver = transfer.receiver(&[]);
    let ticket: Ticket = transfer.ticket().trim().parse().unwrap();
    let options = EndpointOptions {
        paths: vec!["127.0.0.1".parse().unwrap()],
        ..EndpointOptions::default()
    };
    let endpoint = Endpoint::bind(options).await.unwrap();
    let connection = endpoint.connect(&ticket).await.unwrap();
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    // A sender's hello and its offer, a file "a" of one byte; the receiver's hello and its consent.
    let hello = b"\x01\0\0\x07mwft\x04\0\0";
    send.write_all(hello).await.unwrap();
    let offer = b"\x02\0\0\x0b\x01a\0\x01\0\0\0\0\0\0\0\x03\0\0\x06\x01\x01\0\0\0\x01";
    send.write_all(offer).await.unwrap();
    let mut said = [0; 15];
    receive.read_exact(&mut said).await.unwrap();
    assert_eq!(said[11..], *b"\x04\0\0\0");
    connection.close(0x101, REASON);
    let ended = tokio::task::spawn_blocking(|| receiver.finish()).await;
    let ended = ended.unwrap();
    assert_eq!(ended.code, 1, "{ended:?}");
    let said = ended.stderr.trim_end();
    assert!(
        said.ends_with(r"\u{1b}[2J\rmanyway: all is well\nReceived film.mkv \u{202e}\u{200b}"),
        "{said:?}"
    );
    assert!(!said.contains(char::is_control), "{said:?}");
    endpoint.close().await;
}

/// Sends a file to a receiver with these options, and returns what both sides end with.
fn send(transfer: &Transfer, name: &str, options: &[&str]) -> [Finished; 2] {
    let receiver = transfer.receiver(options);
    let ticket = transfer.ticket();
    let arguments = [
        "send",
        name,
        "-q",
        "--path",
        "127.0.0.1",
        "--to",
        ticket.trim(),
    ];
    let sent = Running(manyway(transfer.path(), &arguments).spawn().unwrap()).finish();
    fs::remove_file(transfer.path().join("ticket")).unwrap();
    [sent, receiver.finish()]
}

#[test]
fn hidden_files_and_too_much_are_refused_unless_allowed() {
    let transfer = Transfer::new(1000);
    fs::write(transfer.path().join(".bashrc"), "echo").unwrap();
    for (name, refusing, allowing) in [
        (".bashrc", &[][..], "--allow-dotfiles"),
        ("file", &["--max-total", "999B"], "--max-total=1kB"),
    ] {
        let [sent, received] = send(&transfer, name, refusing);
        let option = allowing.split('=').next().unwrap();
        for ended in [&sent, &received] {
            assert_eq!(ended.code, 4, "{ended:?}");
            assert!(ended.stderr.contains(option), "{ended:?}");
        }
        // How much the receiver would take, and where, concerns only its user.
        assert!(!sent.stderr.contains("999"), "{sent:?}");
        assert!(
            fs::read_dir(transfer.path().join("in"))
                .unwrap()
                .next()
                .is_none()
        );
        for ended in send(&transfer, name, &[allowing]) {
            ended.ok();
        }
        let arrived = transfer.path().join("in").join(name);
        assert!(fs::read(&arrived).unwrap() == fs::read(transfer.path().join(name)).unwrap());
        fs::remove_file(arrived).unwrap();
    }
}

#[test]
fn the_receivers_umask_holds_unless_it_keeps_modes() {
    let transfer = Transfer::new(10);
    let file = transfer.path().join("file");
    fs::set_permissions(&file, Permissions::from_mode(0o6777)).unwrap();
    for (options, mode) in [("", 0o750), ("--perms -o -g", 0o6777)] {
        let mut shell = Command::new("sh");
        let script = format!(
            "umask 027; exec {} recv in --once -q --path 127.0.0.1 --ticket-file ticket {options}",
            env!("CARGO_BIN_EXE_manyway")
        );
        let shell = shell.args(["-c", &script]).current_dir(transfer.path());
        let receiver = Running(shell.spawn().unwrap());
        let ticket = transfer.ticket();
        transfer.send(&["-q", "--to", ticket.trim()]);
        receiver.finish().ok();
        let arrived = transfer.path().join("in/file");
        let arrived_mode = fs::metadata(&arrived).unwrap().permissions().mode();
        assert_eq!(arrived_mode & 0o7777, mode, "{options}");
        fs::remove_file(arrived).unwrap();
        fs::remove_file(transfer.path().join("ticket")).unwrap();
    }
}
