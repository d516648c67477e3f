//! Commands that nobody runs here, because they take root, another host or minutes: whether the
//! program and the tree know what they name.

use std::fs;
use std::path::{Path, PathBuf};

use super::pages::top;
use crate::common::{Running, manyway};

/// Programs of the system.
const SYSTEM: [&str; 20] = [
    "apt",
    "chromium",
    "curl",
    "dnf",
    "export",
    "install",
    "ip",
    "mdbook",
    "mptcpize",
    "pg_dump",
    "pip",
    "podman",
    "rsync",
    "rustup",
    "sbatch",
    "sha256sum",
    "sysctl",
    "tar",
    "tshark",
    "umask",
];

/// What the pages show of a registry's key, and the length of one.
const KEY: (&str, usize) = ("#7xkq…", 52);

/// The law that a chapter adds, which this program doesn't have, and the one that it varies.
const ADDED: (&str, &str) = ("wvegas-step", "wvegas");

/// What is wrong with a command, if anything is.
pub(super) fn fault(command: &str) -> Option<String> {
    let command = command.strip_prefix("sudo ").unwrap_or(command);
    let Some(words) = shlex::split(command) else {
        return Some("its quotes don't match".to_owned());
    };
    // What other programs do with the output is no matter of ours.
    let joins = ["|", ">", "&", "&&", ";"];
    let own = words
        .iter()
        .take_while(|word| !joins.contains(&word.as_str()));
    let words: Vec<String> = own.cloned().collect();
    let missing = words
        .iter()
        .filter(|word| word.starts_with("scenarios/") && word.ends_with(".toml"))
        .find(|word| !top().join(word).exists());
    if let Some(file) = missing {
        return Some(format!("{file} doesn't exist"));
    }
    // NAME=VALUE before a program is its environment.
    let mut rest = words.iter().map(String::as_str);
    let program = rest.find(|word| !is_assignment(word))?;
    let rest: Vec<&str> = rest.collect();
    match program {
        "manyway" | "target/release/manyway" => of_the_program(&rest),
        "cargo" => of_cargo(&rest),
        script if script.starts_with(".ci/") || script.starts_with("packaging/") => {
            of_a_script(script, &rest)
        }
        other => (!SYSTEM.contains(&other)).then(|| format!("{other} is no command known here")),
    }
}

fn is_assignment(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    let capital = |it: char| it.is_ascii_uppercase() || it == '_';
    word.contains('=') && name.chars().all(capital)
}

/// The program takes every option before it comes to `--help`, and refuses those it doesn't know.
fn of_the_program(words: &[&str]) -> Option<String> {
    let own = words.iter().take_while(|word| **word != "--");
    let own: Vec<String> = own
        .map(|word| word.replace("mw1…", "@ticket").replace("mr1…", "@relay"))
        .map(|word| word.replace(ADDED.0, ADDED.1))
        .map(|word| word.replace(KEY.0, &format!("#{}", "a".repeat(KEY.1))))
        .collect();
    // `kernel` hands its words on to a program of `adapters`.
    if own.first().is_some_and(|command| command == "kernel") {
        return None;
    }
    let mut words: Vec<&str> = own.iter().map(String::as_str).collect();
    words.push("--help");
    let told = Running(manyway(Path::new("."), &words).spawn().unwrap()).finish();
    (told.code != 0).then_some(told.stderr)
}

fn of_cargo(words: &[&str]) -> Option<String> {
    let own: Vec<&str> = words.iter().copied().take_while(|it| *it != "--").collect();
    let after = |option: &'static str| {
        let pairs = own.windows(2);
        pairs.filter_map(move |pair| (pair[0] == option).then_some(pair[1]))
    };
    for package in after("-p") {
        let manifest = format!("name = \"{package}\"");
        let mut all = manifests(&top()).into_iter();
        let is_it = |file: &PathBuf| fs::read_to_string(file).unwrap().contains(&manifest);
        let Some(found) = all.find(is_it) else {
            return Some(format!("no package {package}"));
        };
        let folder = found.parent().unwrap();
        let targets = [("--example", "examples"), ("--bench", "benches")];
        for (option, place) in targets {
            for name in after(option) {
                let file = folder.join(place).join(name);
                if !file.exists() && !file.with_extension("rs").exists() {
                    return Some(format!("{package} has no {place}/{name}"));
                }
            }
        }
    }
    for path in after("--manifest-path").chain(after("--path")) {
        if !top().join(path).exists() {
            return Some(format!("{path} doesn't exist"));
        }
    }
    let argument = words.get(own.len() + 1);
    if own.contains(&"manyway-studies")
        && let Some(study) = argument
    {
        let reference = format!("crates/research/studies/reference/{study}.toml");
        let known = ["list", "all"].contains(study) || top().join(reference).exists();
        return (!known).then(|| format!("no study {study}"));
    }
    None
}

/// All `Cargo.toml` of packages.
fn manifests(folder: &Path) -> Vec<PathBuf> {
    let below = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let mut found = Vec::new();
    for path in below {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == "Cargo.toml" {
            found.push(path);
        } else if path.is_dir() && name != "target" && name != "src" && !name.starts_with('.') {
            found.extend(manifests(&path));
        }
    }
    found
}

/// A script's options stand in it.
fn of_a_script(script: &str, words: &[&str]) -> Option<String> {
    let Ok(text) = fs::read_to_string(top().join(script)) else {
        return Some(format!("{script} doesn't exist"));
    };
    let options = words.iter().filter(|word| word.starts_with("--"));
    let unknown: Vec<&&str> = options.filter(|option| !text.contains(**option)).collect();
    (!unknown.is_empty()).then(|| format!("{script} has no {unknown:?}"))
}

#[test]
fn what_isnt_there_is_a_fault() {
    for right in [
        "manyway send x --to mw1… --cc lia",
        "sudo manyway testbed run scenarios/examples/two-isps.toml -- bash --no-such-option",
        "cargo bench -p manyway-simulate --bench packet",
        "MANYWAY_UPDATE_LAWS=1 cargo test -p manyway-control",
        "cargo run --release -p manyway-studies -- wvegas --full --out docs/results",
        "sudo .ci/field --quick",
        "packaging/build deb --target x86_64-unknown-linux-musl",
    ] {
        assert_eq!(fault(right), None, "{right}");
    }
    for wrong in [
        "manyway send x --to mw1… --ccc lia",
        "manyway sendd x",
        "manyway run scenarios/no-such-file.toml",
        "cargo test -p manyway-nothing",
        "cargo bench -p manyway-simulate --bench no-such-bench",
        "cargo run --release -p manyway-studies -- no-such-study",
        "sudo .ci/field --no-such-option",
        ".ci/no-such-script",
        "packaging/build --no-such-option",
        "no-such-program",
        "manyway send 'x",
    ] {
        assert!(fault(wrong).is_some(), "{wrong}");
    }
}
