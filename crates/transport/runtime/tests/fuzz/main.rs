//! The messages of transfers under fuzzing: `fuzz/` runs the same. In a process of its own, because
//! it counts the process's memory.

#[path = "../../../session/tests/it/fuzz/choices.rs"]
mod choices;
mod memory;
mod transfer;

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use rand::rngs::ChaCha20Rng;
use rand::{Rng, RngExt, SeedableRng};

fn corpus_passes() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/transfer");
    let files = fs::read_dir(dir).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 5);
    for file in files {
        let bytes = fs::read(&file).unwrap();
        let passed = catch_unwind(|| transfer::transfer(&bytes));
        assert!(passed.is_ok(), "{}", file.display());
    }
}

/// Inputs that nobody has chosen. `MANYWAY_WALKS` says how many.
fn walks_find_nothing() {
    let walks = std::env::var("MANYWAY_WALKS").map_or(1000, |n| n.parse().unwrap());
    for seed in 0..walks {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut bytes = vec![0; rng.random_range(5..300)];
        rng.fill_bytes(&mut bytes);
        let passed = catch_unwind(|| transfer::transfer(&bytes));
        if passed.is_err() {
            let input = std::env::temp_dir().join(format!("walk-{seed}"));
            fs::write(&input, &bytes).unwrap();
            panic!("walk {seed}: the input is in {}", input.display());
        }
    }
}

/// One after the other: they count the process's memory.
#[test]
fn the_corpus_and_random_walks_find_nothing() {
    corpus_passes();
    walks_find_nothing();
}
