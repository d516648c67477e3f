//! The units in `packaging/` use options that exist.

use std::fs;
use std::path::Path;

use clap::FromArgMatches;

use super::profile::expand;
use super::{Cli, Command};

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");

/// All files there, with their names.
fn files() -> Vec<(String, String)> {
    let entries = fs::read_dir(DIR).unwrap().flatten();
    let mut files: Vec<_> = entries
        .filter(|entry| entry.path().is_file())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// The command lines of a unit's ExecStart, for the instance `nightly`, with the unit's profile.
fn starts(unit: &str, config: &Path) -> Vec<Cli> {
    let lines = unit
        .lines()
        .filter_map(|line| line.strip_prefix("ExecStart="));
    lines
        .map(|line| {
            let line = line.replace("%i", "nightly").replace("%S", "/var/lib");
            assert!(!line.contains('%'), "{line}");
            let mut words = shlex::split(&line).unwrap();
            assert!(words[0].starts_with('/') && words[0].ends_with("/manyway"));
            if words.iter().any(|word| word.starts_with("--profile")) {
                words.push(format!("--config={}", config.display()));
            }
            let words = words.into_iter().map(Into::into).collect();
            let expanded = expand(&Cli::definition(), words).unwrap();
            let mut matches = Cli::definition()
                .try_get_matches_from(expanded.line)
                .unwrap_or_else(|error| panic!("{line}: {error}"));
            Cli::from_arg_matches_mut(&mut matches).unwrap()
        })
        .collect()
}

/// The profile that the comment at the top of a unit shows.
fn profile(unit: &str) -> String {
    let comments = unit.lines().filter_map(|line| line.strip_prefix("#   "));
    let lines: Vec<&str> = comments
        .skip_while(|line| !line.starts_with("[profile."))
        .collect();
    lines.join("\n")
}

#[test]
fn every_exec_start_is_a_command_line_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    let mut seen = Vec::new();
    for (name, text) in files() {
        fs::write(&config, profile(&text)).unwrap();
        for cli in starts(&text, &config) {
            seen.push(match cli.command {
                Command::Relay(_) => format!("{name}: relay"),
                Command::Registry(_) => format!("{name}: registry"),
                Command::Recv(args) => {
                    assert!(args.report.json && cli.output.quiet);
                    assert_eq!(args.what, ["/var/lib/manyway-recv/inbox"]);
                    format!("{name}: recv")
                }
                Command::Send(args) => {
                    assert_eq!(args.paths, ["/home/ann/photos", "server:backups"]);
                    assert!(args.arrival.overwrite && args.retry.retry.is_some());
                    format!("{name}: send")
                }
                other => panic!("{name}: {other:?}"),
            });
        }
    }
    let wanted = [
        "manyway-recv.service: recv",
        "manyway-registry.service: registry",
        "manyway-relay.service: relay",
        "manyway-send@.service: send",
    ];
    assert_eq!(seen, wanted);
}

/// Also those that the comments recommend.
#[test]
fn every_variable_is_an_options() {
    let mut known: Vec<String> = Vec::new();
    let mut commands = vec![Cli::definition()];
    while let Some(command) = commands.pop() {
        let variables = command.get_opts().filter_map(|option| option.get_env());
        known.extend(variables.map(|name| name.to_str().unwrap().to_owned()));
        commands.extend(command.get_subcommands().cloned());
    }
    let mut found = 0;
    // The check of the packages has a variable of its own.
    for (file, text) in files().into_iter().filter(|(file, _)| file != "check") {
        let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
        for word in text
            .split(|c| !is_part(c))
            .filter(|w| w.starts_with("MANYWAY_"))
        {
            assert!(known.iter().any(|name| name == word), "{file}: {word}");
            found += 1;
        }
    }
    assert!(found >= 8, "{found}");
}
