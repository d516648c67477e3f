//! `manyway demo`: a real transfer over emulated links, on this host alone.

mod link;
mod result;
mod trial;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use manyway_units::{ByteSize, Rate};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tempfile::TempDir;

pub(crate) use self::link::LinkSpec;
use self::result::Demo;
use self::trial::{Setting, Trial};
use crate::args::DemoArgs;
use crate::exit::{Interrupted, Stop, usage};
use crate::screen::Screen;
use crate::summary::print_json;

/// The file takes this long over the best link alone: long enough that slow start doesn't count.
const SINGLE: Duration = Duration::from_secs(15);
/// With slower links or larger files the demo would not be a demo any more.
const LARGEST: u64 = 10_000_000_000;

pub(crate) async fn run(screen: &Screen, args: DemoArgs) -> anyhow::Result<()> {
    let stop = Stop::listen(false);
    let demo = tokio::select! {
        demo = play(screen, &args) => demo?,
        () = stop.requested() => return Err(Interrupted.into()),
    };
    // The picture first: what can fail comes before "done" is said.
    std::fs::write(&args.svg, demo.svg()?).with_context(|| {
        format!(
            "can't write the plot to {} (--svg FILE names another)",
            args.svg.display()
        )
    })?;
    screen.say(&demo.text());
    screen.say(&format!(
        "The rate of each path over time: {}",
        args.svg.display()
    ));
    if args.json {
        print_json(&demo.json())?;
    }
    ensure!(
        demo.verified(),
        "the received file differs from the sent one: please report this"
    );
    Ok(())
}

async fn play(screen: &Screen, args: &DemoArgs) -> anyhow::Result<Demo> {
    let links = args.links.clone();
    let best = link::best(&links).context("no links")?;
    let size = args
        .size
        .map_or_else(|| links[best].carries_in(SINGLE), ByteSize::bytes);
    if !(1..=LARGEST).contains(&size) {
        return Err(usage(format!(
            "--size must be 1 B to {}",
            ByteSize::new(LARGEST)
        )));
    }
    let scratch =
        TempDir::with_prefix("manyway-demo").context("can't make a temporary directory")?;
    let source = scratch.path().join("random.bin");
    let digest = create(source.clone(), size).await?;
    screen.say(&format!(
        "A file of {} random bytes, law {}.",
        ByteSize::new(size),
        args.cc
    ));

    let run = async |name: &'static str, links: &[LinkSpec]| {
        screen.say(&format!("{name}: {}", link::list(links)));
        let target = scratch.path().join(name.replace(' ', "-"));
        let setting = Setting {
            screen,
            links,
            cc: &args.cc,
            source: &source,
            target: &target,
        };
        Trial::run(&setting)
            .await
            .with_context(|| format!("the transfer over the {name} failed"))
    };
    let single = run("best link alone", &links[best..=best]).await?;
    let all = run("all links", &links).await?;
    Ok(Demo {
        size,
        digest,
        cc: args.cc.clone(),
        links,
        best,
        single,
        all,
    })
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
