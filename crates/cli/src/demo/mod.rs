//! `manyway demo`: real transfers over emulated links, on this host alone.

mod link;
mod plain;
mod relays;
mod result;
mod trial;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use manyway_report::PlotError;
use manyway_units::{ByteSize, Rate};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tempfile::TempDir;

pub(crate) use self::link::LinkSpec;
use self::trial::Sample;
use crate::args::DemoArgs;
use crate::exit::{Interrupted, Stop, usage};
use crate::screen::Screen;
use crate::summary::print_json;

/// With slower links or larger files the demo would not be a demo any more.
const LARGEST: u64 = 10_000_000_000;

pub(crate) async fn run(screen: &Screen, args: DemoArgs) -> anyhow::Result<()> {
    let stop = Stop::listen(false);
    let play = async {
        anyhow::Ok(match args.relays {
            true => Played::of(&relays::play(screen, &args).await?)?,
            false => Played::of(&plain::play(screen, &args).await?)?,
        })
    };
    let played = tokio::select! {
        played = play => played?,
        () = stop.requested() => return Err(Interrupted.into()),
    };
    // The picture first: what can fail comes before "done" is said.
    std::fs::write(&args.svg, &played.svg).with_context(|| {
        format!(
            "can't write the plot to {} (--svg FILE names another)",
            args.svg.display()
        )
    })?;
    screen.say(&played.text);
    screen.say(&format!(
        "The rate of each path over time: {}",
        args.svg.display()
    ));
    if args.json {
        print_json(&played.json)?;
    }
    ensure!(
        played.verified,
        "the received file differs from the sent one: please report this"
    );
    Ok(())
}

/// What a demo has to show.
trait Show {
    type Json: serde::Serialize;

    fn text(&self) -> String;
    fn json(&self) -> Self::Json;
    fn svg(&self) -> Result<String, PlotError>;
    /// Whether all copies equal the originals.
    fn verified(&self) -> bool;
}

#[derive(Debug)]
struct Played {
    text: String,
    json: serde_json::Value,
    svg: String,
    verified: bool,
}

impl Played {
    fn of(demo: &impl Show) -> anyhow::Result<Self> {
        Ok(Self {
            text: demo.text(),
            json: serde_json::to_value(demo.json())?,
            svg: demo.svg()?,
            verified: demo.verified(),
        })
    }
}

fn check_size(size: u64) -> anyhow::Result<()> {
    if (1..=LARGEST).contains(&size) {
        return Ok(());
    }
    Err(usage(format!(
        "--size must be 1 B to {}",
        ByteSize::new(LARGEST)
    )))
}

/// The temporary directory with the files that are sent and what arrives.
#[derive(Debug)]
struct Copies(TempDir);

/// A file of random bytes.
#[derive(Debug)]
struct Original {
    path: PathBuf,
    /// As it was written.
    digest: blake3::Hash,
}

impl Copies {
    fn new() -> anyhow::Result<Self> {
        let dir = TempDir::with_prefix("manyway-demo");
        Ok(Self(dir.context("can't make a temporary directory")?))
    }

    /// Where a transfer's copy goes.
    fn target(&self, transfer: &str) -> PathBuf {
        self.0.path().join(transfer.replace(' ', "-"))
    }

    async fn create(&self, name: &str, size: u64) -> anyhow::Result<Original> {
        let path = self.0.path().join(name);
        Ok(Original {
            digest: create(path.clone(), size).await?,
            path,
        })
    }
}
/// Writes `size` random bytes and returns their BLAKE3 hash.
async fn create(file: std::path::PathBuf, size: u64) -> anyhow::Result<blake3::Hash> {
    let write = move || -> io::Result<blake3::Hash> {
        // Incompressible is all that is asked of the bytes.
        let mut random = Pcg64Mcg::seed_from_u64(size);
        let mut out = BufWriter::new(File::create(&file)?);
        let mut hash = blake3::Hasher::new();
        let mut block = vec![0; 1 << 20];
        let mut left = size;
        while left > 0 {
            let part = &mut block[..left.min(1 << 20) as usize];
            random.fill_bytes(part);
            hash.update(part);
            out.write_all(part)?;
            left -= part.len() as u64;
        }
        out.into_inner()?.sync_all()?;
        Ok(hash.finalize())
    };
    let written = tokio::task::spawn_blocking(write).await?;
    written.with_context(|| {
        format!(
            "can't write a temporary file of {} (TMPDIR names another place)",
            ByteSize::new(size)
        )
    })
}

/// The hash of what is on the disk now.
fn hash_of(file: &Path) -> anyhow::Result<blake3::Hash> {
    let mut hash = blake3::Hasher::new();
    hash.update_reader(File::open(file)?)?;
    Ok(hash.finalize())
}

/// What a rate amounts to in a plot.
fn mbps(rate: Rate) -> f64 {
    rate.bits_per_sec() / 1e6
}

/// The rate over each way in Mbps, at the middle of each span between samples a few apart.
fn rates(samples: &[Sample]) -> Vec<(f64, Vec<f64>)> {
    /// Two samples, half a second: evens out the bursts but not the windows' sawtooth.
    const SPAN: usize = 2;
    let spans = samples.iter().zip(samples.iter().skip(SPAN));
    spans
        .map(|(before, after)| {
            let span = after.at.saturating_sub(before.at);
            let each = after.bytes.iter().zip(&before.bytes);
            let rate =
                |(after, before): (&u64, &u64)| mbps(Rate::of(after.saturating_sub(*before), span));
            (
                before.at.as_secs_f64() + span.as_secs_f64() / 2.0,
                each.map(rate).collect(),
            )
        })
        .collect()
}
