//! What `manyway top` sees of other processes, and what these may do to it.

#[cfg(feature = "top")]
use std::fs::File;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
#[cfg(feature = "top")]
use std::os::fd::OwnedFd;
#[cfg(feature = "top")]
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
#[cfg(feature = "top")]
use std::process::Stdio;
use std::thread;

use serde_json::Value;

use crate::common::transfer::Transfer;
use crate::common::{Finished, Running, eventually, manyway};

/// The program, for which this place has the runtime directory and that of temporary files.
fn here(place: &Path, arguments: &[&str]) -> Command {
    let mut command = manyway(place, arguments);
    command
        .env("XDG_RUNTIME_DIR", place)
        .env("TMPDIR", place)
        .env("MANYWAY_PATH", "127.0.0.1");
    command
}

fn run(place: &Path, arguments: &[&str]) -> Finished {
    Running(here(place, arguments).spawn().unwrap()).finish()
}

fn connections(place: &Path) -> Vec<Value> {
    let shown = run(place, &["top", "--json"]).ok().json();
    shown["connections"].as_array().unwrap().clone()
}

/// Where sockets are.
fn directory(place: &Path) -> PathBuf {
    let dir = place.join("manyway");
    fs::create_dir_all(&dir).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
    dir
}

fn sockets(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.join("manyway"));
    let entries = entries.into_iter().flatten();
    let all = entries.map(|entry| entry.unwrap().path());
    // One that isn't ready yet has another ending.
    all.filter(|path| path.extension().is_some_and(|ending| ending == "sock"))
        .collect()
}

/// A receiver and a slow sender that have begun.
fn under_way(transfer: &Transfer) -> [Running; 2] {
    let start = |arguments: &[&str]| Running(here(transfer.path(), arguments).spawn().unwrap());
    let receiver = start(&["recv", "in", "--once", "-q", "--ticket-file", "ticket"]);
    transfer.ticket();
    let sender = start(&["send", "file", "--to", "@ticket", "--limit", "8Mbps"]);
    eventually("both sockets", || {
        (sockets(transfer.path()).len() == 2).then_some(())
    });
    [receiver, sender]
}

#[test]
fn both_sides_of_a_transfer_are_seen_while_it_lasts() {
    let transfer = Transfer::new(50_000_000);
    let [receiver, sender] = under_way(&transfer);
    for socket in sockets(transfer.path()) {
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(&socket), mode(socket.parent().unwrap())),
            (0o600, 0o700)
        );
    }
    // Slow start is over then.
    let [ours, theirs] = eventually("its rate", || {
        let shown = connections(transfer.path());
        let by = |process: &Running| {
            let is_its = |it: &&Value| it["process"] == process.0.id();
            shown.iter().find(is_its).cloned()
        };
        let [ours, theirs] = [by(&sender)?, by(&receiver)?];
        let rate = ours["paths"][0]["sent_bps"].as_f64()?;
        (5e6..10e6).contains(&rate).then_some([ours, theirs])
    });
    assert_eq!(
        (&ours["doing"], &theirs["doing"]),
        (&"sending".into(), &"receiving".into())
    );
    assert_eq!(ours["bytes_total"], 50_000_000);
    assert!(ours["bytes"].as_u64().unwrap() > 0, "{ours}");
    // A ticket's listener is known by its key.
    assert!(ours["peer"].as_str().unwrap().starts_with("id1"), "{ours}");
    let [path, other] = [&ours["paths"][0], &theirs["paths"][0]];
    assert_eq!(path["label"], "127.0.0.1 → 127.0.0.1");
    assert_eq!(
        (&path["state"], &path["carrier"]),
        (&"active".into(), &"udp".into())
    );
    assert_eq!((&path["relay"], &path["group"]), (&false.into(), &0.into()));
    for number in [
        "rtt_ms",
        "min_rtt_ms",
        "window",
        "bytes_sent",
        "received_bps",
    ] {
        assert!(path[number].as_f64().unwrap() > 0.0, "{number}: {path}");
    }
    assert!(path["loss"].is_number(), "{path} {other}");
    assert!(other["received_bps"].as_f64().unwrap() > 4e6, "{other}");
    // Only a sender knows.
    for key in ["loss", "window", "group"] {
        assert_eq!(other.get(key), None, "{other}");
    }
    sender.interrupt();
    assert_eq!(sender.finish().code, 5);
    receiver.finish();
    assert!(sockets(transfer.path()).is_empty());
    assert_eq!(connections(transfer.path()), [Value::Null; 0]);
}

#[test]
fn both_ends_of_a_forward_are_seen() {
    let transfer = Transfer::new(0);
    let start = |arguments: &[&str]| Running(here(transfer.path(), arguments).spawn().unwrap());
    let _server = start(&["serve", "--allow", "localhost:1", "--ticket-file", "ticket"]);
    transfer.ticket();
    let _client = start(&["forward", "@ticket", "-L", "0:localhost:1"]);
    let shown = eventually("both", || {
        let shown = connections(transfer.path());
        (shown.len() == 2).then_some(shown)
    });
    let mut doing: Vec<_> = shown.iter().map(|it| it["doing"].as_str()).collect();
    doing.sort_unstable();
    assert_eq!(doing, [Some("forwarding"), Some("serving")]);
}

#[test]
fn who_was_killed_is_forgotten() {
    let place = tempfile::tempdir().unwrap();
    let stale = directory(place.path()).join("4711.sock");
    drop(UnixListener::bind(&stale).unwrap());
    // What isn't ours to remove.
    let file = directory(place.path()).join("4712.sock");
    fs::write(&file, "").unwrap();
    assert_eq!(connections(place.path()), [Value::Null; 0]);
    assert!(!stale.exists() && file.exists());
}

#[test]
fn nonsense_hides_nobody() {
    let transfer = Transfer::new(50_000_000);
    let [_receiver, _sender] = under_way(&transfer);
    let good = r#"{"seconds":1,"connections":[{"connection":1,"doing":"\u001b[2Jx","seconds":1}]}"#;
    // What each says, whether again and again, and whether it stays connected.
    let says: [(u32, Vec<u8>, bool, bool); 6] = [
        (1, b"\xff\0{]\n".repeat(1000), true, true),
        // An endless line.
        (2, vec![b' '; 1 << 20], true, true),
        // One that ends in the middle.
        (3, good.as_bytes()[..20].to_vec(), false, false),
        // Nothing at all.
        (4, Vec::new(), false, true),
        (
            5,
            format!("{}\n", "[".repeat(10_000)).into_bytes(),
            true,
            true,
        ),
        (6, format!("{good}\n").into_bytes(), false, true),
    ];
    for (process, bytes, again, stays) in says {
        let socket = directory(transfer.path()).join(format!("{process}.sock"));
        let listener = UnixListener::bind(&socket).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                while stream.write_all(&bytes).is_ok() && again {}
                if stays {
                    stream.read_to_end(&mut Vec::new()).ok();
                }
            }
        });
    }
    let shown = connections(transfer.path());
    let doing: Vec<&str> = shown
        .iter()
        .map(|it| it["doing"].as_str().unwrap())
        .collect();
    // In the order of the processes' ids.
    assert_eq!(doing[0], r"\u{1b}[2Jx", "{doing:?}");
    let mut others = doing[1..].to_vec();
    others.sort_unstable();
    assert_eq!(others, ["receiving", "sending"]);
}

#[test]
fn a_directory_that_others_can_look_into_is_refused() {
    let transfer = Transfer::new(100_000);
    let user = nix::unistd::geteuid();
    let runtime = directory(transfer.path());
    let temporary = transfer.path().join(format!("manyway-{user}"));
    fs::create_dir(&temporary).unwrap();
    for dir in [&runtime, &temporary] {
        fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    }
    let refused = run(transfer.path(), &["top", "--json"]);
    assert_eq!(
        (refused.code, refused.stdout.as_str()),
        (1, ""),
        "{refused:?}"
    );
    let said = "manyway: other users can look into ";
    assert!(refused.stderr.starts_with(said), "{refused:?}");
    assert!(
        refused.stderr.contains("(mode 0755): run chmod 700 /"),
        "{refused:?}"
    );
    // Transfers go on without.
    let start = |arguments: &[&str]| Running(here(transfer.path(), arguments).spawn().unwrap());
    let receiver = start(&["recv", "in", "--once", "-q", "--ticket-file", "ticket"]);
    transfer.ticket();
    run(transfer.path(), &["send", "file", "--to", "@ticket"]).ok();
    transfer.check(receiver);
    // One good place is enough.
    fs::set_permissions(&temporary, Permissions::from_mode(0o700)).unwrap();
    assert_eq!(connections(transfer.path()), [Value::Null; 0]);
}

#[cfg(feature = "top")]
#[test]
fn without_a_terminal_it_names_json() {
    let place = tempfile::tempdir().unwrap();
    let said = run(place.path(), &["top"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{said:?}");
    assert!(said.stderr.contains("needs a terminal") && said.stderr.contains("`--json`"));
}

/// `manyway top`, started by this command on a terminal of its own, and both ends of that. No other
/// process has them: a terminal is there for as long as one has its master.
#[cfg(feature = "top")]
fn on_terminal(place: &Path, columns: u16, command: &[&str]) -> (Running, File, File) {
    use nix::fcntl::OFlag;
    use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let mut options = File::options();
    let options = options
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOCTTY.bits());
    let slave = options.open(ptsname_r(&master).unwrap()).unwrap();
    set_size(&slave, columns);
    let there = here(place, &[]);
    let variables = there.get_envs();
    let started = Command::new("setsid")
        .arg("--ctty")
        .args(command)
        .args([env!("CARGO_BIN_EXE_manyway"), "top"])
        .current_dir(place)
        .envs(variables.filter_map(|(name, value)| Some((name, value?))))
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .stdin(slave.try_clone().unwrap())
        .stdout(slave.try_clone().unwrap())
        .stderr(Stdio::piped())
        .spawn();
    (
        Running(started.unwrap()),
        File::from(OwnedFd::from(master)),
        slave,
    )
}

#[cfg(feature = "top")]
fn set_size(slave: &File, columns: u16) {
    let mut stty = Command::new("stty");
    stty.args(["rows", "24", "cols", &columns.to_string()]);
    assert!(
        stty.stdin(slave.try_clone().unwrap())
            .status()
            .unwrap()
            .success()
    );
}

/// Reads from a terminal until it has shown a text.
#[cfg(feature = "top")]
fn await_text(master: &mut File, text: &str) {
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains(text) {
        let mut some = [0; 4096];
        let read = master.read(&mut some).unwrap();
        shown.extend_from_slice(&some[..read]);
    }
}

#[cfg(feature = "top")]
#[test]
fn it_draws_follows_the_size_and_goes_tidily() {
    use nix::sys::termios::{LocalFlags, tcgetattr};
    let transfer = Transfer::new(50_000_000);
    let [_receiver, _sender] = under_way(&transfer);
    let ways = [
        ("q", None),
        ("\x1b", None),
        ("\x03", None),
        ("", Some("TERM")),
    ];
    for (keys, signal) in ways {
        let (top, mut master, slave) = on_terminal(transfer.path(), 80, &[]);
        let is_raw = || {
            let flags = tcgetattr(&slave).unwrap().local_flags;
            !flags.intersects(LocalFlags::ICANON | LocalFlags::ECHO)
        };
        await_text(&mut master, "\x1b[?1049h");
        await_text(&mut master, "sending");
        assert!(is_raw());
        set_size(&slave, 30);
        // All of it is drawn anew.
        await_text(&mut master, "receiving");
        master.write_all(keys.as_bytes()).unwrap();
        if let Some(signal) = signal {
            top.signal(signal);
        }
        await_text(&mut master, "\x1b[?1049l");
        let ended = top.finish().ok();
        assert_eq!(ended.stderr, "");
        assert!(!is_raw());
    }
}

#[cfg(feature = "top")]
#[test]
fn a_terminal_that_goes_ends_it() {
    let place = tempfile::tempdir().unwrap();
    let deaf = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"];
    for command in [&[][..], &deaf] {
        let (top, mut master, slave) = on_terminal(place.path(), 30, command);
        await_text(&mut master, "manyway");
        drop((master, slave));
        let ended = top.finish().ok();
        assert_eq!(ended.stderr, "");
    }
}
