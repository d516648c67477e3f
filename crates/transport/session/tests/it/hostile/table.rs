//! The table "What a peer may cost" of `docs/protocol.md` names a test in each row, and that test
//! is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names of all functions in the Rust files below a directory.
fn functions(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("text");
            let names = text.split("fn ").skip(1);
            let names = names.filter_map(|rest| rest.split(['(', '<']).next());
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_row_of_the_table_names_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let text = fs::read_to_string(root.join("docs/protocol.md")).expect("the page");
    let (_, section) = text
        .split_once("## What a peer may cost\n")
        .expect("the section");
    let section = section.split("\n## ").next().expect("some text");
    let rows: Vec<_> = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .collect();
    assert!(rows.len() > 20, "{}", rows.len());
    let mut known = BTreeSet::new();
    functions(&root.join("crates/transport"), &mut known);
    functions(&root.join("crates/research/simulate"), &mut known);
    for row in &rows[1..] {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
        let [_, _, _, tests] = cells[..] else {
            panic!("not four cells: {row}");
        };
        let names: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {row}");
        for name in names {
            assert!(known.contains(name), "no such test: {name}");
        }
    }
}
