use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::args::Cli;

/// The command line after the profile `p` of this file.
fn expanded(text: &str, mode: u32, line: &[&str]) -> Result<Vec<String>, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    let line = ["manyway", "--config", file.to_str().unwrap()]
        .into_iter()
        .chain(line.iter().copied())
        .map(OsString::from);
    match expand(&Cli::definition(), line.collect()) {
        Ok(expanded) => {
            let words = expanded.line.iter().skip(3);
            Ok(words
                .map(|word| word.to_str().unwrap().to_owned())
                .collect())
        }
        Err(error) => Err(error.message.replace(file.to_str().unwrap(), "FILE")),
    }
}

fn taken(text: &str, line: &[&str]) -> String {
    let text = format!("[profile.p]\n{text}\n[profile.q]\ncc = 'reno'\n");
    expanded(&text, 0o600, line).unwrap().join(" ")
}

fn refused(text: &str, mode: u32, line: &[&str]) -> String {
    expanded(text, mode, line).unwrap_err()
}

#[test]
fn what_is_not_set_comes_from_the_profile() {
    let text = "cc = 'lia'\njson = true\nport = 4433\nquiet = false\nvia = ['@a', '@b']\n\
                verbose = 2\nlimit = '8Mbps'";
    assert_eq!(
        taken(text, &["send", "x", "--profile", "p"]),
        "send x --profile p --cc=lia --json --port=4433 --via=@a --via=@b --verbose --verbose \
         --limit=8Mbps"
    );
    assert_eq!(
        taken(
            text,
            &[
                "--profile=p",
                "send",
                "--cc",
                "balia",
                "--port=1",
                "-v",
                "--",
                "x"
            ]
        ),
        "--profile=p send --cc balia --port=1 -v --json --via=@a --via=@b --limit=8Mbps -- x"
    );
    // A command has that name, too.
    assert_eq!(
        taken("registry = 'https://r#k'", &["send", "x", "--profile", "p"]),
        "send x --profile p --registry=https://r#k"
    );
    // Other commands don't have `limit`.
    assert_eq!(
        taken(
            "limit = '8Mbps'\ndrain = '1 s'",
            &["recv", "--profile", "p"]
        ),
        "recv --profile p --limit=8Mbps"
    );
}

#[test]
fn what_is_set_drops_what_conflicts_with_it() {
    let line = ["recv", "--profile", "p", "--rename"];
    assert_eq!(
        taken("overwrite = true", &line),
        "recv --profile p --rename"
    );
    let line = ["recv", "--profile", "p", "--overwrite"];
    assert_eq!(
        taken("rename = true", &line),
        "recv --profile p --overwrite"
    );
    assert_eq!(
        taken("verbose = 1", &["-q", "recv", "--profile", "p"]),
        "-q recv --profile p"
    );
}

#[test]
fn switches_can_be_turned_off() {
    let text = "delete = true\njson = true\ncc = 'lia'";
    assert_eq!(
        taken(
            text,
            &["sync", "--no-delete", "--profile", "p", "--", "--no-json"]
        ),
        "sync --profile p --json --cc=lia -- --no-json"
    );
    // It is nothing for what isn't a switch.
    let kept = taken(text, &["sync", "--profile", "p", "--no-cc"]);
    assert!(kept.contains("--no-cc"), "{kept}");
    let text = format!("[profile.p]\n{text}");
    for (line, told) in [
        (
            ["sync", "--profile=p", "--no-delete", "--delete"],
            "sets --delete",
        ),
        (
            ["paths", "--profile=p", "--no-delete", "x"],
            "`manyway paths` has no --delete",
        ),
    ] {
        let wrong = refused(&text, 0o600, &line);
        assert!(wrong.contains(told), "{wrong}");
    }
}

#[test]
fn switches_are_turned_off_in_a_profile_alone() {
    let line = ["manyway", "recv", "--no-overwrite"].map(Into::into).into();
    let wrong = expand(&Cli::definition(), line).unwrap_err().message;
    assert!(wrong.contains("and you have named none"), "{wrong}");
}

#[test]
fn arguments_are_those_of_their_command() {
    let text = "send = ['/srv', 'host:in']\nrecv = '/in'\ncc = 'lia'";
    assert_eq!(
        taken(text, &["send", "--profile", "p"]),
        "send --profile p --cc=lia -- /srv host:in"
    );
    assert_eq!(
        taken(text, &["recv", "--profile=p"]),
        "recv --profile=p --cc=lia -- /in"
    );
    let given = taken(text, &["send", "--profile", "p", "a"]);
    assert_eq!(given, "send --profile p a --cc=lia");
}

#[test]
fn the_guides_profiles_are_right() {
    let guide = include_str!("../../../../../docs/guide.md");
    let begin = guide.find("[profile.").unwrap();
    let text = &guide[begin..begin + guide[begin..].find("```").unwrap()];
    for line in [["send", "--profile=nightly"], ["recv", "--profile=inbox"]] {
        let words = expanded(text, 0o644, &line).unwrap();
        assert!(words.len() > 4, "{words:?}");
        let line = ["manyway".to_owned()].into_iter().chain(words);
        Cli::definition().try_get_matches_from(line).unwrap();
    }
}

#[test]
fn a_file_without_a_chosen_profile_is_read_for_mistakes() {
    let unused = refused("", 0o600, &["send", "x"]);
    assert_eq!(
        unused,
        "`--config` has no effect without a profile: name a table [profile.NAME] of the \
         file with `--profile NAME`"
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    let mut root = Cli::definition();
    root.build();
    let check = |text: &[u8]| {
        fs::write(&file, text).unwrap();
        let checked = check_unused(&root, &file);
        checked.map_err(|error| error.replace(file.to_str().unwrap(), "FILE"))
    };
    let wrong: [&[u8]; 8] = [
        b"limt = '1Mbps'",
        b"limit = '1Mbps'",
        b"[send]\nlimit = '1Mbps'",
        b"[profile]\nlimit = '1Mbps'",
        b"profile = 3",
        b"[profile.p]\nlimit = '1Mbps'\n[profile.q]\nlimt = '1Mbps'",
        b"[profile.p\nlimit = '1Mbps'",
        b"[profile.p]\nsend = '\xff'",
    ];
    let said = wrong.map(|text| check(text).unwrap_err());
    insta::assert_snapshot!("unused_mistakes", said.join("\n"));
    let right = b"[profile.p]\nlimit = '1Mbps'\nrecv = '.'\n[profile.q]\nonce = true";
    assert_eq!(check(right), Ok(()));
    // An option of `testbed up`.
    #[cfg(feature = "research")]
    assert_eq!(check(b"[profile.p]\nname = 'x'"), Ok(()));
    assert_eq!(check_unused(&root, &dir.path().join("missing")), Ok(()));
    assert_eq!(check_unused(&root, dir.path()), Ok(()));
    assert_eq!(check_unused(&root, Path::new("/dev/null")), Ok(()));
}

#[test]
fn mistakes_are_named_with_file_and_key() {
    let line = ["send", "x", "--profile", "p"];
    let all = [
        "[profile.q]\n[profile.r]",
        "",
        "profile = 3",
        "cc = 'lia'",
        "[profile.p]\ncolour = 'red'",
        "[profile.p]\nallowpeer = 'x'",
        "[profile.p]\nprofile = 'q'",
        "[profile.p]\nwhile-stdin = true",
        "[profile.p]\njson = 'yes'",
        "[profile.p]\ncc = true",
        "[profile.p]\ncc = ['lia', 'reno']",
        "[profile.p]\nvia = [['a']]",
        "[profile.p]\nverbose = 'very'",
        "[profile.p]\nsend = true",
        "[profile.p]\n\nto = 'mw1secret' x",
    ];
    let said = all.map(|text| refused(text, 0o600, &line));
    insta::assert_snapshot!("mistakes", said.join("\n"));
    assert!(said.iter().all(|text| !text.contains("secret")));
}

#[test]
fn secrets_and_programs_are_their_owners_matter() {
    let line = ["send", "x", "--profile", "p"];
    for secret in [
        "to = 'mw1abc'",
        "to = '7-guitar-saddle-orbit'",
        "via = ['@a', 'mr1abc']",
        "via = '@a,mr1abc'",
    ] {
        let text = format!("[profile.p]\n{secret}");
        assert!(expanded(&text, 0o600, &line).is_ok());
        let error = refused(&text, 0o640, &line);
        assert!(
            error.contains(
                "is a secret, and other users can read it (mode 0640): run chmod 600 FILE"
            ),
            "{error}"
        );
        assert!(!error.contains("abc"));
    }
    // One that isn't used is no matter here.
    let text = "[profile.q]\nto = 'mw1abc'\n[profile.p]\nto = '@ticket'";
    assert!(expanded(text, 0o644, &line).is_ok());
    let error = refused(text, 0o664, &line);
    assert_eq!(
        error,
        "other users can change FILE: make it yours, and run chmod go-w FILE"
    );
}
