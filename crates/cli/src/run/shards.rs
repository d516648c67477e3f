//! `--shard K/N` and `manyway merge`: the runs of a scenario on several machines. A shard carries
//! out every N-th run and keeps the results in a file; merging hands the results on in the order of
//! the runs, as if they had been carried out here. So both are the same to the last bit.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use manyway_results::Sheet;
use manyway_scenario::{Point, Scenario};
use manyway_simulate::batch::{Control, Shard};
use serde::Serialize;

use super::folder::Folder;
use super::level::{self, Level, Request};
use super::packet::Packet;
use super::stored::{EXTENSION, Header, Reader, Stored, Writer};
use crate::args::{Assignments, ExperimentArgs, Level as Asked, MergeArgs};
use crate::exit::usage;
use crate::summary::counted;

impl Header {
    fn of(request: &Request<'_>, shard: Shard, points: &[Point]) -> Self {
        let args = request.args;
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: request.file.to_owned(),
            set: args.assignments.set.clone(),
            seed: args.seed,
            repeat: args.repeat,
            level: name_of(request.levels.first().copied()).to_owned(),
            keep_series: request.keep_series,
            points: hash_of(&request.scenario, points),
            shard: shard.number(),
            of: shard.of(),
        }
    }

    /// What differs between shards that aren't of the same run, and how.
    fn difference(&self, other: &Self) -> Option<String> {
        let number = |number: Option<u64>| match number {
            Some(number) => number.to_string(),
            None => "none".to_owned(),
        };
        let texts = |header: &Self| {
            [
                ("the program's version", header.version.clone()),
                ("the scenario's file", header.scenario.display().to_string()),
                ("--set", header.set.join(";")),
                ("--seed", number(header.seed)),
                ("--repeat", number(header.repeat.map(u64::from))),
                ("--level", header.level.clone()),
                ("--keep-series", header.keep_series.to_string()),
                ("the number of shards", header.of.to_string()),
            ]
        };
        let mut both = texts(self).into_iter().zip(texts(other));
        let named = both.find(|(one, other)| one != other);
        let named = named.map(|((name, one), (_, other))| format!("{name} (`{one}`, `{other}`)"));
        let contents = || "the scenario's contents, or those of a file that it names".to_owned();
        named.or_else(|| (self.points != other.points).then(contents))
    }
}

fn name_of(level: Option<Asked>) -> &'static str {
    match level {
        Some(Asked::Stack) => "stack",
        _ => "packet",
    }
}

/// Of all that makes the runs: points, and of which seed and how often each is run.
fn hash_of(scenario: &Scenario, points: &[Point]) -> String {
    struct Hashed(blake3::Hasher);
    impl fmt::Write for Hashed {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }
    let mut hashed = Hashed(blake3::Hasher::new());
    // Writing into a hash doesn't fail.
    let (seed, repeat) = (scenario.seed(), scenario.repeat());
    let _ = write!(hashed, "{seed} {repeat} {points:?}");
    hashed.0.finalize().to_hex().to_string()
}

/// Reads `3/8`.
pub(crate) fn parse(text: &str) -> Result<Shard, String> {
    let shard = text.split_once('/').and_then(|(number, of)| {
        let (number, of) = (u32::from_str(number).ok()?, u32::from_str(of).ok()?);
        Shard::new(number, of)
    });
    shard.ok_or_else(|| "write the shard's number and how many there are, like 3/8".to_owned())
}

/// A shard of a scenario's runs.
pub(super) struct ShardOf {
    packet: Packet,
    header: Header,
    dir: PathBuf,
}

/// What a shard has done.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    scenario: String,
    shard: u32,
    of: u32,
    runs: u64,
    file: PathBuf,
}

impl Level for ShardOf {
    type Report = Done;
    const TABLES: bool = false;

    fn prepare(request: Request<'_>) -> anyhow::Result<Self> {
        let shard = request.shard;
        let Some(dir) = request.args.out.clone() else {
            return Err(usage(
                "--shard needs --out DIR, where the shard's file goes",
            ));
        };
        let header = |points: &[Point]| Header::of(&request, shard, points);
        let (header, packet) = match request.levels[..] {
            [Asked::Packet | Asked::Stack] => {
                let packet = Packet::of(&request)?;
                (header(packet.points()), packet)
            }
            _ => return Err(usage("--shard is for the packet and the stack level")),
        };
        Ok(Self {
            packet,
            header,
            dir,
        })
    }

    fn sheets(&self) -> Vec<Sheet> {
        Vec::new()
    }

    fn run(self, control: &Control, _: Option<&mut Folder>) -> anyhow::Result<Done> {
        let Self {
            packet,
            header,
            dir,
        } = self;
        let name = format!("shard-{}-of-{}.{EXTENSION}", header.shard, header.of);
        let file = dir.join(name);
        let scenario = packet.name().to_owned();
        let mut writer = Writer::create(&dir, &header)
            .with_context(|| format!("can't write into {}", dir.display()))?;
        let report = packet.each(control, |run| writer.add(run))?;
        if report.unfinished > 0 {
            bail!("stopped: a shard is kept when all of its runs are over");
        }
        let runs = writer.runs;
        writer
            .finish(&file)
            .with_context(|| format!("can't write {}", file.display()))?;
        Ok(Done {
            scenario,
            shard: header.shard,
            of: header.of,
            runs,
            file,
        })
    }
}

impl level::Report for Done {
    fn summary(&self) -> String {
        let Self {
            scenario,
            shard,
            of,
            runs,
            file,
        } = self;
        let (runs, file) = (counted(*runs, "run", "runs"), file.display());
        format!("{scenario}: shard {shard} of {of}, with {runs}, is in {file}")
    }
}

/// The shards in these directories, with what they were asked for.
pub(super) struct Merge {
    header: Header,
    stored: Stored,
    out: Option<PathBuf>,
    json: bool,
}

impl Merge {
    pub(super) fn open(args: MergeArgs) -> anyhow::Result<Self> {
        let mut shards = Vec::new();
        for dir in &args.dirs {
            let shown = dir.display();
            let entries = std::fs::read_dir(dir)
                .map_err(|error| usage(format!("can't read the directory {shown}: {error}")))?;
            for entry in entries {
                let path = entry.with_context(|| format!("can't read {shown}"))?.path();
                if path
                    .extension()
                    .is_some_and(|extension| extension == EXTENSION)
                {
                    shards.push(Reader::open(&path)?);
                }
            }
        }
        shards.sort_by_key(|shard| shard.header.shard);
        let Some(first) = shards.first() else {
            return Err(usage(
                "there is no shard's file (.runs) in these directories: `manyway run --shard K/N \
                 --out DIR` writes one",
            ));
        };
        let header = first.header.clone();
        for other in &shards {
            if let Some(difference) = header.difference(&other.header) {
                return Err(usage(format!(
                    "{} and {} are not shards of the same runs: they differ in {difference}",
                    first.path.display(),
                    other.path.display()
                )));
            }
        }
        for number in 1..=header.of {
            let count = shards
                .iter()
                .filter(|shard| shard.header.shard == number)
                .count();
            match count {
                0 => {
                    let message = format!(
                        "shard {number} of {} is missing: run it with --shard {number}/{}",
                        header.of, header.of
                    );
                    return Err(usage(message));
                }
                1 => {}
                _ => return Err(usage(format!("shard {number} is there {count} times"))),
            }
        }
        Ok(Self {
            header,
            stored: Stored::of(shards),
            out: args.out,
            json: args.json,
        })
    }

    /// What the command line would have been for all runs at once.
    pub(super) fn args(&self) -> ExperimentArgs {
        ExperimentArgs {
            floors: false,
            seed: self.header.seed,
            repeat: self.header.repeat,
            assignments: Assignments {
                set: self.header.set.clone(),
            },
            threads: None,
            out: self.out.clone(),
            json: self.json,
        }
    }

    pub(super) fn file(&self) -> &Path {
        &self.header.scenario
    }

    pub(super) fn level(&self) -> Asked {
        match self.header.level.as_str() {
            "stack" => Asked::Stack,
            _ => Asked::Packet,
        }
    }

    pub(super) fn keeps_series(&self) -> bool {
        self.header.keep_series
    }

    pub(super) fn into_stored(self) -> Stored {
        self.stored
    }

    /// # Errors
    /// If the scenario isn't what the shards ran.
    pub(super) fn check(&self, scenario: &Scenario, points: &[Point]) -> anyhow::Result<()> {
        let file = self.header.scenario.display();
        if self.header.version != env!("CARGO_PKG_VERSION") {
            let version = &self.header.version;
            return Err(usage(format!(
                "manyway {version} ran these shards: merge with it"
            )));
        }
        if self.header.points != hash_of(scenario, points) {
            return Err(usage(format!(
                "{file} isn't what the shards ran any more, or is another file here: merge in the \
                 directory in which the shards ran, with the same file"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_written_with_its_number_and_theirs() {
        let shard = parse("3/8").unwrap();
        assert_eq!((shard.number(), shard.of()), (3, 8));
        assert_eq!(parse("1/1").unwrap(), Shard::default());
        for wrong in ["", "3", "0/8", "9/8", "1/0", "-1/8", "1/8/2", "a/b"] {
            assert!(parse(wrong).unwrap_err().contains("like 3/8"), "{wrong}");
        }
    }
}
