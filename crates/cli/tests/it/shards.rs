//! `manyway run --shard` and `manyway merge` as a cluster's users run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::{self, Finished, Running};

/// Three points of two repetitions each, with everything that a run can have.
const SWEEP: &str = r#"
name = "in parts"
duration = "4 s"
repeat = 2
[links.a]
rate = "10 Mbps"
delay = "10 ms"
[links.b]
rate = "5 Mbps"
delay = "10 ms"
[paths.a]
links = ["a"]
[paths.b]
links = ["b"]
[defaults]
law = "lia"
jitter = "1 ms"
[flows.bulk]
paths = ["a", "b"]
[flows.short]
paths = ["a"]
size = { exponential = "50 kB" }
stagger = { exponential = "200 ms" }
[measure]
from = "1 s"
interval = "500 ms"
series = ["rate", "queue"]
spans = [{ name = "end", from = "3 s", until = "4 s" }]
[sweep]
law = ["lia", "balia", "reno"]
"#;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(TempDir::new().unwrap());
        fs::write(place.path("sweep.toml"), SWEEP).unwrap();
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        Running(common::manyway(self.0.path(), arguments).spawn().unwrap()).finish()
    }

    fn shard(&self, shard: &str, more: &[&str]) -> Finished {
        let arguments = ["run", "sweep.toml", "--shard", shard, "--out", "shards"];
        self.run(&[&arguments, more].concat())
    }

    fn refused(&self, arguments: &[&str], message: &str) {
        let done = self.run(arguments);
        assert_ne!(done.code, 0);
        assert!(done.stderr.contains(message), "{}", done.stderr);
    }
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, fs::read(entry.path()).unwrap())
    });
    let mut files: Vec<_> = entries.collect();
    files.sort();
    files
}

#[test]
fn merged_shards_are_the_whole_bit_for_bit() {
    for level in ["packet", "stack"] {
        let place = Place::new();
        let options = ["--level", level, "--keep-series", "--seed", "7"];
        let whole = ["run", "sweep.toml", "--out", "whole", "--json"];
        let whole = place.run(&[&whole[..], &options].concat()).ok();
        // Seven shards of six runs: one has none.
        for k in 1..=7 {
            let done = place.shard(&format!("{k}/7"), &options).ok();
            assert!(
                done.stderr.contains(&format!("shard {k} of 7")) && !done.stderr.contains("1 runs"),
                "{}",
                done.stderr
            );
        }
        let merged = place
            .run(&["merge", "shards", "--out", "merged", "--json"])
            .ok();
        assert_eq!(merged.stdout, whole.stdout);
        let (whole, merged) = (files(&place.path("whole")), files(&place.path("merged")));
        assert!(whole.len() > 10, "{}", whole.len());
        assert!(whole == merged, "{level}");
        assert_eq!(files(&place.path("shards")).len(), 7);
    }
}

/// The directory of the templates for clusters.
fn templates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/cluster")
}

/// A shell that runs these words as a scheduler would, with the program in its path.
fn job(place: &Place, words: &[&str], environment: &[(&str, &str)]) {
    let bin = Path::new(env!("CARGO_BIN_EXE_manyway")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut job = Command::new("sh");
    job.args(words)
        .current_dir(place.0.path())
        .env("PATH", path);
    job.envs(environment.iter().copied());
    let done = job.output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn jobs_of_clusters_run_all_shards() {
    let place = Place::new();
    let whole = place
        .run(&["run", "sweep.toml", "--seed", "7", "--json"])
        .ok();

    let slurm = templates().join("slurm.sh");
    let script = [
        slurm.to_str().unwrap(),
        "sweep.toml",
        "--seed",
        "7",
        "--out",
        "slurm",
    ];
    let text = fs::read_to_string(&slurm).unwrap();
    assert!(
        text.contains("#SBATCH --array=1-8\n") && text.contains("\nof=8\n"),
        "{text}"
    );
    for task in 1..=8 {
        job(
            &place,
            &script,
            &[("SLURM_ARRAY_TASK_ID", &task.to_string())],
        );
    }
    assert_eq!(
        place.run(&["merge", "slurm", "--json"]).ok().stdout,
        whole.stdout
    );

    // The command of the pods, which is folded over two lines.
    let text = fs::read_to_string(templates().join("kubernetes.yaml")).unwrap();
    assert!(
        text.contains("completions: 8\n") && text.contains("value: \"8\"\n"),
        "{text}"
    );
    let command = text
        .split_once(">-\n")
        .unwrap()
        .1
        .lines()
        .take(2)
        .map(str::trim);
    let command = command.collect::<Vec<_>>().join(" ");
    fs::copy(place.path("sweep.toml"), place.path("scenario.toml")).unwrap();
    for index in 0..8 {
        let index = index.to_string();
        let environment = [("JOB_COMPLETION_INDEX", index.as_str()), ("SHARDS", "8")];
        job(&place, &["-c", &command], &environment);
    }
    let whole = place.run(&["run", "scenario.toml", "--json"]).ok();
    assert_eq!(
        place.run(&["merge", "shards", "--json"]).ok().stdout,
        whole.stdout
    );
}

#[test]
fn shards_that_dont_belong_together_are_refused() {
    let place = Place::new();
    place.refused(&["merge", "."], "there is no shard's file");
    place.refused(&["merge", "nowhere"], "can't read the directory nowhere");
    place.refused(
        &["run", "sweep.toml", "--shard", "1/2"],
        "--shard needs --out DIR",
    );
    let live = [
        "run",
        "sweep.toml",
        "--shard",
        "1/2",
        "--out",
        "x",
        "--level",
        "fluid",
    ];
    place.refused(&live, "for the packet and the stack level");
    place.shard("1/2", &[]).ok();
    place.refused(
        &["merge", "shards"],
        "shard 2 of 2 is missing: run it with --shard 2/2",
    );
    for (options, difference) in [
        (["--seed", "9"], "--seed (`none`, `9`)"),
        (["--repeat", "2"], "--repeat (`none`, `2`)"),
        (["--set", "repeat=2"], "--set (``, `repeat=2`)"),
        (["--level", "stack"], "--level (`packet`, `stack`)"),
    ] {
        place.shard("2/2", &options).ok();
        let message = format!("are not shards of the same runs: they differ in {difference}");
        place.refused(&["merge", "shards"], &message);
    }
    let other = ["run", "./sweep.toml", "--shard", "2/2", "--out", "shards"];
    place.run(&other).ok();
    let message = "they differ in the scenario's file (`sweep.toml`, `./sweep.toml`)";
    place.refused(&["merge", "shards"], message);
    place.shard("2/2", &[]).ok();
    place.run(&["merge", "shards"]).ok();
    place.refused(&["merge", "shards", "shards"], "shard 1 is there 2 times");
    for (before, after) in [
        ("10 Mbps", "11 Mbps"),
        ("repeat = 2", "repeat = 1"),
        ("repeat = 2", "repeat = 3"),
        ("repeat = 2", "repeat = 2\nseed = 2"),
    ] {
        fs::write(place.path("sweep.toml"), SWEEP.replace(before, after)).unwrap();
        place.refused(&["merge", "shards"], "isn't what the shards ran any more");
    }
    place.shard("2/2", &[]).ok();
    place.refused(
        &["merge", "shards"],
        "they differ in the scenario's contents",
    );
}

#[test]
fn a_damaged_shard_is_told() {
    let place = Place::new();
    place.shard("1/1", &[]).ok();
    let file = place.path("shards/shard-1-of-1.runs");
    let whole = fs::read(&file).unwrap();
    let merge = ["merge", "shards", "--out", "merged"];
    let longer = [&whole[..], b"x"].concat();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in [
        &flipped,
        &whole[..whole.len() - 1],
        &whole[..whole.len() / 2],
    ] {
        fs::write(&file, damaged).unwrap();
        place.refused(&merge, "is damaged or cut off: run that shard again");
        assert!(!place.path("merged").exists());
    }
    fs::write(&file, longer).unwrap();
    place.refused(&merge, "it has more than its runs: run that shard again");
    assert!(!place.path("merged").exists());
    fs::write(&file, b"{}\n").unwrap();
    place.refused(&merge, "isn't a shard's file");
    fs::write(&file, &whole).unwrap();
    place.run(&merge).ok();
}
