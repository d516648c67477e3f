//! `--hook`: a program of the user's after each transfer.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::transfer::Transfer;
use crate::common::{self, Finished, Running, eventually, manyway};

/// Writes a script, and returns the option's value.
fn script(transfer: &Transfer, text: &str) -> String {
    let path = transfer.path().join("a hook.sh");
    common::script(&path, text);
    format!("'{}'", path.display())
}

/// A receiver of many transfers.
fn receiver(transfer: &Transfer, arguments: &[&str]) -> Running {
    let common = [
        "recv",
        "in",
        "--path",
        "127.0.0.1",
        "--ticket-file",
        "ticket",
    ];
    let mut command = manyway(transfer.path(), &common);
    let receiver = Running(command.args(arguments).spawn().unwrap());
    transfer.ticket();
    receiver
}

fn send(transfer: &Transfer, name: &str) -> Finished {
    let common = ["send", name, "--to", "@ticket", "--path", "127.0.0.1"];
    Running(manyway(transfer.path(), &common).spawn().unwrap()).finish()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn it_gets_the_object_and_the_variables_well_or_not() {
    let transfer = Transfer::new(1000);
    let hook = script(
        &transfer,
        "env | grep ^TRANSFER_ | sort >> vars; cat >> objects; echo >> objects; echo noise",
    );
    let mut command = manyway(
        transfer.path(),
        &["recv", "in", "--path", "127.0.0.1", "--json"],
    );
    command.args(["--ticket-file", "ticket", "--hook", &hook]);
    let receiver = Running(command.spawn().unwrap());
    transfer.ticket();
    send(&transfer, "file").ok();
    eventually("the hook", || {
        text(&transfer.path().join("objects"))
            .ends_with('\n')
            .then_some(())
    });
    // Another file of that name.
    fs::write(transfer.path().join("file"), "another").unwrap();
    assert_eq!(send(&transfer, "file").code, 4);
    receiver.interrupt();
    let received = receiver.finish().ok();
    assert_eq!(text(&transfer.path().join("objects")), received.stdout);
    assert!(received.stderr.contains("noise"));
    let vars = text(&transfer.path().join("vars"));
    let dir = format!("TRANSFER_DIR={}", transfer.path().join("in").display());
    let objects: Vec<Value> = received
        .stdout
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let error = objects[1]["error"]["message"].as_str().unwrap();
    let seconds = &objects[0]["seconds"];
    let wanted = format!(
        "TRANSFER_BYTES=1000\n{dir}\nTRANSFER_DIRECTION=received\nTRANSFER_EVENT=done\n\
         TRANSFER_FILE=file\nTRANSFER_FILES=1\nTRANSFER_NUMBER=1\nTRANSFER_SECONDS={seconds}\n\
         TRANSFER_STATUS=0\n{dir}\nTRANSFER_ERROR={error}\nTRANSFER_ERROR_CODE=refused\n\
         TRANSFER_EVENT=error\nTRANSFER_NUMBER=2\nTRANSFER_STATUS=4\n"
    );
    assert_eq!(vars, wanted);
}

/// What the guide shows as safe is safe.
#[test]
fn a_name_is_no_command() {
    let transfer = Transfer::new(1000);
    let name = "-n $(touch x) `touch x`; touch x \"'";
    fs::rename(transfer.path().join("file"), transfer.path().join(name)).unwrap();
    let hook = script(
        &transfer,
        "mv \"$TRANSFER_DIR/$TRANSFER_FILE\" kept && touch done",
    );
    let receiver = receiver(&transfer, &["--hook", &hook]);
    send(&transfer, &format!("./{name}")).ok();
    eventually("the hook", || {
        transfer.path().join("done").exists().then_some(())
    });
    assert_eq!(
        fs::metadata(transfer.path().join("kept")).unwrap().len(),
        1000
    );
    assert!(!transfer.path().join("x").exists());
    drop(receiver);
}

#[test]
fn one_runs_at_a_time_and_its_failure_is_told_and_nothing_else() {
    let transfer = Transfer::new(1000);
    fs::copy(transfer.path().join("file"), transfer.path().join("other")).unwrap();
    let hook = script(
        &transfer,
        "echo begin >> log; sleep 0.4; echo end >> log; exit 3",
    );
    let receiver = receiver(&transfer, &["--hook", &hook]);
    std::thread::scope(|scope| {
        for name in ["file", "other"] {
            let transfer = &transfer;
            scope.spawn(move || send(transfer, name).ok());
        }
    });
    let log = transfer.path().join("log");
    eventually("both", || (text(&log).lines().count() == 4).then_some(()));
    assert_eq!(text(&log), "begin\nend\nbegin\nend\n");
    receiver.interrupt();
    let received = receiver.finish();
    assert_eq!(
        received
            .stderr
            .matches("a hook.sh\" failed: exit status: 3")
            .count(),
        2
    );
}

#[test]
fn who_takes_too_long_is_ended_with_all_that_it_started() {
    let transfer = Transfer::new(1000);
    let hook = script(
        &transfer,
        "trap '' TERM; sleep 1000 & echo $! > child; wait; wait",
    );
    let receiver = transfer.receiver(&["--hook", &hook, "--hook-timeout", "500ms"]);
    transfer.ticket();
    send(&transfer, "file").ok();
    let received = receiver.finish().ok();
    let told = "took longer than 500 ms (`--hook-timeout`) and was ended";
    assert!(received.stderr.contains(told), "{received:?}");
    gone(&transfer, "child");
}

/// Waits for the end of the process whose number is in that file.
fn gone(transfer: &Transfer, file: &str) {
    let process = text(&transfer.path().join(file));
    assert!(process.trim().parse::<u32>().is_ok(), "{process:?}");
    // Whoever reaps it may be slow.
    eventually("its end", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.trim()));
        stat.map_or(true, |stat| stat.contains(") Z "))
            .then_some(())
    });
}

/// The first Ctrl-C lets it finish.
#[test]
fn a_second_interrupt_ends_it_with_all_that_it_started() {
    let transfer = Transfer::new(1000);
    let hook = script(
        &transfer,
        "trap '' TERM INT; sleep 1000 & echo $! > child; echo $$ > hook; wait; wait",
    );
    let mut receiver = receiver(&transfer, &["--hook", &hook]);
    send(&transfer, "file").ok();
    let runs = || {
        text(&transfer.path().join("hook"))
            .ends_with('\n')
            .then_some(())
    };
    eventually("the hook", runs);
    // Two signals at once count as one.
    let ended = || {
        receiver.interrupt();
        std::thread::sleep(std::time::Duration::from_millis(500));
        receiver.0.try_wait().unwrap()
    };
    eventually("its end", ended);
    assert_eq!(receiver.finish().code, 5);
    gone(&transfer, "hook");
    gone(&transfer, "child");
}

/// A sender's, too, once, and without the options of the manyway that starts it.
#[test]
fn a_sender_that_reaches_nobody_runs_it_once() {
    let transfer = Transfer::new(1000);
    let hook = script(
        &transfer,
        "echo \"$TRANSFER_STATUS $TRANSFER_ERROR_CODE [$MANYWAY_HOOK]\" >> log",
    );
    drop(receiver(&transfer, &[]));
    let mut command = manyway(transfer.path(), &["send", "file", "--to", "@ticket"]);
    command
        .args(["--retry", "1500ms"])
        .env("MANYWAY_PATH", "127.0.0.1")
        .env("MANYWAY_HOOK", hook);
    assert_eq!(Running(command.spawn().unwrap()).finish().code, 3);
    assert_eq!(text(&transfer.path().join("log")), "3 unreachable []\n");
    let mut command = manyway(transfer.path(), &["recv", "in", "--json", "--hook", "'x"]);
    let wrong = Running(command.spawn().unwrap()).finish();
    assert_eq!(
        (wrong.code, &wrong.json()["error"]["code"]),
        (2, &"usage".into())
    );
}
