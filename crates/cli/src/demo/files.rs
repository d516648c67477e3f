//! The demo's temporary files: random bytes to send, and the copies that arrive.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use manyway_units::ByteSize;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tempfile::TempDir;

use crate::exit::usage;

/// With slower links or larger files the demo would not be a demo any more.
const LARGEST: u64 = 10_000_000_000;

pub(super) fn check_size(size: u64) -> anyhow::Result<()> {
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
pub(super) struct Copies(TempDir);

/// A file of random bytes.
#[derive(Debug)]
pub(super) struct Original {
    pub(super) path: PathBuf,
    /// As it was written.
    pub(super) digest: blake3::Hash,
}

impl Copies {
    pub(super) fn new() -> anyhow::Result<Self> {
        let dir = TempDir::with_prefix("manyway-demo");
        Ok(Self(dir.context("can't make a temporary directory")?))
    }

    /// Where a transfer's copy goes.
    pub(super) fn target(&self, transfer: &str) -> PathBuf {
        self.0.path().join(transfer.replace(' ', "-"))
    }

    pub(super) async fn create(&self, name: &str, size: u64) -> anyhow::Result<Original> {
        let path = self.0.path().join(name);
        Ok(Original {
            digest: create(path.clone(), size).await?,
            path,
        })
    }
}

/// Writes `size` random bytes and returns their BLAKE3 hash.
async fn create(file: PathBuf, size: u64) -> anyhow::Result<blake3::Hash> {
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
pub(super) fn hash_of(file: &Path) -> anyhow::Result<blake3::Hash> {
    let mut hash = blake3::Hasher::new();
    hash.update_reader(File::open(file)?)?;
    Ok(hash.finalize())
}
