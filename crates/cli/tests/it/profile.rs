//! `--profile`: options from the configuration file.

use std::fs;

use crate::common::transfer::Transfer;
use crate::common::{Finished, Running, manyway, secret};

/// Runs the program with this configuration file and these variables.
fn run(transfer: &Transfer, config: &str, variables: &[(&str, &str)], line: &[&str]) -> Finished {
    let dir = transfer.path().join("config/manyway");
    fs::create_dir_all(&dir).unwrap();
    secret(&dir.join("config.toml"), config);
    let mut command = manyway(transfer.path(), line);
    command
        .env("XDG_CONFIG_HOME", transfer.path().join("config"))
        .envs(variables.iter().copied());
    Running(command.spawn().unwrap()).finish()
}

#[test]
fn a_profile_has_all_that_a_transfer_needs() {
    let transfer = Transfer::new(100_000);
    let receiver = transfer.receiver(&[]);
    let ticket = transfer.ticket();
    let config = format!(
        "[profile.nightly]\nsend = ['file']\nto = '{}'\npath = '127.0.0.1'\njson = true\n",
        ticket.trim()
    );
    let line = ["send", "--profile", "nightly"];
    let sent = run(&transfer, &config, &[], &line).ok();
    assert_eq!(sent.json()["files"][0]["name"], "file");
    transfer.check(receiver);
}

#[test]
fn the_command_line_wins_over_the_environment_and_that_over_the_profile() {
    let transfer = Transfer::new(1000);
    let config = "[profile.p]\ncc = 'libra'\njson = true\nto = '@missing'\n";
    let line = ["send", "file", "--profile", "p"];
    let wrong = run(&transfer, config, &[], &line);
    assert_eq!(wrong.code, 2);
    for words in [
        "invalid value 'libra' for '--cc <NAME>'",
        "[profile.p] of ",
        "config.toml sets cc",
    ] {
        assert!(wrong.stderr.contains(words), "{wrong:?}");
    }
    // Both get as far as the ticket, and say so in JSON.
    let reaches = |variables: &[(&str, &str)], more: &[&str]| {
        let missing = run(&transfer, config, variables, &[&line, more].concat());
        let message = missing.json()["error"]["message"].to_string();
        let words = "can't read missing";
        assert!(message.contains(words), "{missing:?}");
    };
    reaches(&[], &["--cc", "lia"]);
    reaches(&[("MANYWAY_CC", "lia")], &[]);
    let variables = [("MANYWAY_CC", "libra"), ("MANYWAY_PROFILE", "q")];
    reaches(&variables, &["--cc", "lia"]);
    // The variable names the profile, and turns its flag off.
    let variables = [
        ("MANYWAY_PROFILE", "p"),
        ("MANYWAY_CC", "lia"),
        ("MANYWAY_JSON", "0"),
    ];
    let missing = run(&transfer, config, &variables, &["send", "file"]);
    assert!(missing.stderr.contains("can't read missing"), "{missing:?}");
    assert_eq!(missing.stdout, "");
}

/// The rules of the command line hold for what comes from a profile.
#[test]
fn what_needs_another_option_needs_it_in_a_profile_too() {
    let transfer = Transfer::new(1000);
    let config = "[profile.p]\ndemand = '8Mbps'\n";
    let wrong = run(&transfer, config, &[], &["send", "file", "--profile", "p"]);
    assert_eq!(wrong.code, 2);
    let words = ["--pick <K>", "sets demand: correct it, or leave it out"];
    assert!(
        words.iter().all(|words| wrong.stderr.contains(words)),
        "{wrong:?}"
    );
    let unknown = run(&transfer, config, &[], &["recv", "--profile", "r"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown
            .stderr
            .contains("has no table [profile.r]: it has p"),
        "{unknown:?}"
    );
    let help = run(
        &transfer,
        "what?",
        &[],
        &["send", "--profile", "p", "--help"],
    );
    assert_eq!(help.code, 0, "{help:?}");
}

/// Who writes an option into the file expects an effect, also without a profile.
#[test]
fn mistakes_in_the_file_are_told_to_everybody() {
    let transfer = Transfer::new(1000);
    let line = ["send", "nothing"];
    for (config, told) in [
        (
            "limt = '1Mbps'",
            "config.toml: unknown key `limt`: options belong in tables called",
        ),
        ("what?", "config.toml, line 1: "),
        (
            "[profile.p]\nlimt = '1Mbps'",
            "[profile.p]: `limt` isn't an option: did you mean `limit`?",
        ),
    ] {
        let wrong = run(&transfer, config, &[], &line);
        assert_eq!(wrong.code, 2, "{wrong:?}");
        assert!(wrong.stderr.contains(told), "{wrong:?}");
    }
    let json = run(&transfer, "limt = 1", &[], &["send", "nothing", "--json"]);
    let message = json.json()["error"]["message"].to_string();
    assert!(message.contains("unknown key `limt`"), "{json:?}");
    // A variable names the file for all commands, those without a profile as well.
    let variables = [("MANYWAY_CONFIG", "missing")];
    let other = run(&transfer, "[profile.p]\ncc = 'lia'", &variables, &line);
    assert_eq!(other.code, 6, "{other:?}");
}
