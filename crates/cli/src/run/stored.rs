//! The file of a shard: what was run, in a line of JSON, then the results, each with its length and
//! its hash. This module doesn't know who wants them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use manyway_simulate::packet::RunResult;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::folder::temporary;

/// What the name of a shard's file ends with.
pub(super) const EXTENSION: &str = "runs";
/// Bytes of the first line, at most.
const MOST_HEADER: u64 = 1 << 20;
/// Bytes of a result, at most.
const MOST_RESULT: u32 = 1 << 30;
/// Bytes of a result's BLAKE3 hash that are kept.
const HASH: usize = 16;

/// The first line of a shard's file: what was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// The program's version.
    pub(super) version: String,
    /// The scenario's file, as the command line named it.
    pub(super) scenario: PathBuf,
    pub(super) set: Vec<String>,
    pub(super) seed: Option<u64>,
    pub(super) repeat: Option<u32>,
    pub(super) level: String,
    pub(super) keep_series: bool,
    /// A hash of all points, which depends on the files that the scenario names, too, and of the
    /// seed and the number of repetitions.
    pub(super) points: String,
    pub(super) shard: u32,
    pub(super) of: u32,
}

/// Writes a shard's file.
pub(super) struct Writer {
    out: BufWriter<NamedTempFile>,
    pub(super) runs: u64,
}

impl Writer {
    pub(super) fn create(dir: &Path, header: &Header) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let mut out = BufWriter::new(temporary(dir)?);
        serde_json::to_writer(&mut out, header)?;
        out.write_all(b"\n")?;
        Ok(Self { out, runs: 0 })
    }

    pub(super) fn add(&mut self, run: &RunResult) -> anyhow::Result<()> {
        let bytes = postcard::to_stdvec(run)?;
        let len = u32::try_from(bytes.len())
            .ok()
            .filter(|len| *len <= MOST_RESULT);
        let len = len.context("a run's series are larger than a shard's file can keep")?;
        self.out.write_all(&len.to_le_bytes())?;
        self.out
            .write_all(&blake3::hash(&bytes).as_bytes()[..HASH])?;
        self.out.write_all(&bytes)?;
        self.runs += 1;
        Ok(())
    }

    pub(super) fn finish(self, file: &Path) -> io::Result<()> {
        let out = self
            .out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        out.persist(file).map(drop).map_err(|error| error.error)
    }
}

/// The results of all shards.
#[derive(Debug)]
pub(super) struct Stored {
    shards: Vec<Reader>,
    /// Number of the run whose result is the next one.
    next: usize,
}

/// Reads a shard's file.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) path: PathBuf,
    pub(super) header: Header,
    input: BufReader<File>,
}

impl Reader {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("can't open {shown}"))?;
        let mut input = BufReader::new(file);
        let mut line = Vec::new();
        input
            .by_ref()
            .take(MOST_HEADER)
            .read_until(b'\n', &mut line)
            .with_context(|| format!("can't read {shown}"))?;
        let header: Header = serde_json::from_slice(&line)
            .ok()
            .with_context(|| format!("{shown} isn't a shard's file"))?;
        Ok(Self {
            path: path.to_owned(),
            header,
            input,
        })
    }

    fn next(&mut self) -> anyhow::Result<RunResult> {
        let shown = self.path.display();
        let damaged = || format!("{shown} is damaged or cut off: run that shard again");
        let (mut len, mut hash) = ([0; 4], [0; HASH]);
        self.input.read_exact(&mut len).with_context(damaged)?;
        self.input.read_exact(&mut hash).with_context(damaged)?;
        let len = u32::from_le_bytes(len);
        ensure!(len <= MOST_RESULT, damaged());
        // What isn't there takes no memory.
        let mut bytes = Vec::new();
        self.input
            .by_ref()
            .take(len.into())
            .read_to_end(&mut bytes)
            .with_context(damaged)?;
        let is_whole = bytes.len() == len as usize;
        ensure!(
            is_whole && blake3::hash(&bytes).as_bytes()[..HASH] == hash,
            damaged()
        );
        postcard::from_bytes(&bytes).ok().with_context(damaged)
    }
}

impl Stored {
    /// Checks that no result is left, after the last run.
    ///
    /// # Errors
    /// If one is, as then results would belong to other runs.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        for shard in &mut self.shards {
            let shown = shard.path.display();
            let rest = shard.input.fill_buf();
            let rest = rest.with_context(|| format!("can't read {shown}"))?;
            let more =
                || format!("{shown} is damaged, it has more than its runs: run that shard again");
            ensure!(rest.is_empty(), more());
        }
        Ok(())
    }

    /// Of these shards, which are all that there are, in the order of their numbers.
    pub(super) fn of(shards: Vec<Reader>) -> Self {
        Self { shards, next: 0 }
    }

    /// The result of the next run, in the order of all.
    pub(super) fn next(&mut self) -> anyhow::Result<RunResult> {
        let shard = self.next % self.shards.len();
        self.next += 1;
        self.shards[shard].next()
    }
}
