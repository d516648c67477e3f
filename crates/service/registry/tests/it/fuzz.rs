//! Replays the fuzz targets' corpus, and changes it at random, without a fuzzer.

use std::fs;
use std::path::Path;

use manyway_registry::fuzzing;
use proptest::prelude::*;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let files = fs::read_dir(dir).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

#[test]
fn every_file_of_the_corpus_passes() {
    assert_eq!((corpus("request").len(), corpus("text").len()), (8, 2));
    corpus("request")
        .iter()
        .for_each(|bytes| fuzzing::request(bytes));
    corpus("text").iter().for_each(|bytes| fuzzing::text(bytes));
}

proptest! {
    #[test]
    fn anything_is_safe(
        bytes: Vec<u8>,
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for (name, target) in [
            ("request", fuzzing::request as fn(&[u8])),
            ("text", fuzzing::text),
        ] {
            target(&bytes);
            let corpus = corpus(name);
            let mut seed = which.get(&corpus).clone();
            for (at, byte) in &changes {
                let at = at.index(seed.len());
                seed[at] = *byte;
            }
            target(&seed);
        }
    }
}
