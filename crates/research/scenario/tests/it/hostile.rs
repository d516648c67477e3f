//! Whatever is in a file: an answer, never a panic.

use std::path::PathBuf;

use manyway_scenario::Scenario;
use proptest::prelude::*;
use proptest::sample::{Index, select};

fn try_out(text: &str, assignments: &[String]) {
    let Ok(mut scenario) = Scenario::parse(text, "fuzz.toml") else {
        return;
    };
    for assignment in assignments {
        let _ = scenario.set(assignment);
    }
    let _ = (
        scenario.name(),
        scenario.about(),
        scenario.seed(),
        scenario.repeat(),
    );
    match scenario.points() {
        Ok(points) => assert!(
            points
                .iter()
                .all(|point| point.experiment.topology.validate().is_ok())
        ),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match scenario.overlay_points() {
        Ok(points) => assert!(
            points
                .iter()
                .all(|point| point.experiment.sources > 0 && !point.experiment.demands.is_empty())
        ),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn examples() -> Vec<String> {
    let scenarios = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let mut files: Vec<_> = std::fs::read_dir(scenarios.join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.extend(
        ["fig3", "fig7", "packets"].map(|name| scenarios.join(format!("overlay/{name}.toml"))),
    );
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect()
}

/// What somebody might write where something else is meant.
const WORDS: &[&str] = &[
    "",
    "0",
    "-1",
    "1e308",
    "nan",
    "-inf",
    "true",
    "\"\"",
    "\"0 s\"",
    "\"365 d\"",
    "\"1 ns\"",
    "\"0 Mbps\"",
    "\"1 bps\"",
    "\"0 packets\"",
    "\"4294967295 packets\"",
    "\"18446744073709551615 B\"",
    "[]",
    "{}",
    "[[]]",
    "[1, \"a\"]",
    "{ a = 1 }",
    "18446744073709551615",
    "2020-01-01T00:00:00Z",
    "\"ü\"",
    "\"wifi\"",
    "links",
    "[flows.x]",
    "[sweep]",
    "[[links]]",
    "\"links.*.rate\" = [\"1 bps\"]",
    "count = 40000",
    "=",
    ".",
    "\n",
    "#",
    "\u{feff}",
    "\u{0}",
];

/// Parts of a text that mean something on their own.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let length = match first {
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            c if word(c) => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token.to_owned());
        rest = after;
    }
    tokens
}

/// Values of the right kind in many places, though not of a good size.
const VALUES: &[&str] = &[
    "\"0 s\"",
    "\"1 ns\"",
    "\"30 s\"",
    "\"365 d\"",
    "\"0 bps\"",
    "\"1 bps\"",
    "\"1 Tbps\"",
    "\"0 B\"",
    "\"1 B\"",
    "\"60 kB\"",
    "\"0 packets\"",
    "\"1 packet\"",
    "\"4000000000 packets\"",
    "\"wifi\"",
    "\"cable\"",
    "\"a\"",
    "\"rate\"",
    "\"lia\"",
    "\"ewtcp:a=0.1\"",
    "0",
    "1",
    "3",
    "0.5",
    "40000",
    "4294967295",
];

#[derive(Debug, Clone)]
enum Change {
    /// Another value, among the quoted texts and the numbers.
    Value(Index, &'static str),
    Drop(Index),
    Put(Index, &'static str),
    Swap(Index, Index),
    Copy(Index, Index),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        12 => (any::<Index>(), select(VALUES)).prop_map(|(at, word)| Change::Value(at, word)),
        1 => any::<Index>().prop_map(Change::Drop),
        1 => (any::<Index>(), select(WORDS)).prop_map(|(at, word)| Change::Put(at, word)),
        1 => any::<(Index, Index)>().prop_map(|(a, b)| Change::Swap(a, b)),
        1 => any::<(Index, Index)>().prop_map(|(a, b)| Change::Copy(a, b)),
    ];
    prop::collection::vec(change, 1..5)
}

fn apply(tokens: &mut [String], change: &Change) {
    let length = tokens.len();
    match change {
        Change::Value(at, word) => {
            let starts =
                |token: &&mut String| token.starts_with(|c: char| c == '"' || c.is_ascii_digit());
            let mut values: Vec<_> = tokens.iter_mut().filter(starts).collect();
            let length = values.len();
            *values[at.index(length)] = (*word).to_owned();
        }
        Change::Drop(at) => tokens[at.index(length)].clear(),
        Change::Put(at, word) => tokens[at.index(length)] = (*word).to_owned(),
        Change::Swap(a, b) => tokens.swap(a.index(length), b.index(length)),
        Change::Copy(from, to) => tokens[to.index(length)] = tokens[from.index(length)].clone(),
    }
}

fn assignments() -> impl Strategy<Value = Vec<String>> {
    let key = select(vec![
        "law",
        "paths",
        "duration",
        "seed",
        "repeat",
        "sweep",
        "sweep.law",
        "links.*.rate",
        "*",
        "links.*",
        "flows.*.count",
        "flows.*.paths[0]",
        "measure.series",
        "defaults",
        "links.wifi.timetable[0].at",
        "flows.*.*",
        "sweep.cases[0]",
        "a.b.c",
        "[0]",
        "flows.server.access.queue",
    ]);
    let value = select(WORDS.to_vec());
    let assignment = (key, value).prop_map(|(key, value)| format!("{key}={value}"));
    prop::collection::vec(prop_oneof![4 => assignment, 1 => "\\PC{0,12}"], 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "(\\PC|\n){0,200}") {
        try_out(&text, &[]);
    }

    #[test]
    fn any_toml_like_text(parts in prop::collection::vec(select(WORDS), 0..30)) {
        try_out(&parts.join(" "), &[]);
    }

    #[test]
    fn good_files_with_something_changed(
        example in select(examples()),
        changes in changes(),
        assignments in assignments(),
    ) {
        let mut tokens = tokens(&example);
        for change in &changes {
            apply(&mut tokens, change);
        }
        try_out(&tokens.concat(), &assignments);
    }
}

#[test]
fn tokens_make_up_the_text() {
    for example in examples() {
        assert_eq!(tokens(&example).concat(), example);
    }
}

#[test]
fn depth_and_length_are_no_harm() {
    let deep = 200_000;
    let texts = [
        format!("a = {}", "[".repeat(deep)),
        format!("a = {}1{}", "[".repeat(deep), "]".repeat(deep)),
        format!("a = {}", "{ a = ".repeat(deep)),
        format!("{}a = 1", "a.".repeat(deep)),
        format!("[{}a]", "a.".repeat(deep)),
        format!("[sweep]\n{}a = [1]", "a.".repeat(deep)),
        format!("x = {{ {}a = 1 }}", "a.".repeat(deep)),
        format!("name = \"{}\"", "x".repeat(deep)),
        format!("{} = 1", "x".repeat(deep)),
        format!("links = [{}]", "1, ".repeat(deep)),
    ];
    for text in texts {
        try_out(&text, &[]);
    }
    let mut scenario = Scenario::parse("name = \"x\"", "x.toml").unwrap();
    assert!(
        scenario
            .set(&format!("{}=1", ["a"; 100_000].join(".")))
            .is_err()
    );
    assert!(scenario.set(&format!("a={}", "[".repeat(deep))).is_err());
}
