//! One side of a transfer against a peer that says what it likes, in any order.

mod receiver;
mod script;
mod sender;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use manyway_runtime::files::{
    Dotfiles, Links, Phase, Progress, ReceiveOptions, Sources, receive, send,
};
use manyway_transfer::message::MAX_DATA;
use manyway_transfer::{
    Cause, Digest, Failure, FailureCode, FrameKind, GROUP, Header, Hello, Message, Policy, Renamed,
    Role, SafeName, Saved, Scope, Target, Totals, group_hash, groups,
};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::runtime::{Builder, Runtime};

use super::choices::Choices;
use super::memory;

/// What an input may do.
const MOST_STEPS: usize = 60;
/// Buffers of both directions, and this much for each byte that came.
const MEMORY: isize = 8 << 20;
const PER_BYTE: isize = 4;

/// A transfer, whose other side the first choice names.
pub(crate) fn transfer(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    match choices.byte() % 4 {
        0..=2 => receiver::receiver(choices),
        _ => sender::sender(choices),
    }
}

/// Plays a transfer, whose result comes with what the hand-made side has heard.
fn run<T>(transfer: impl Future<Output = T>, ours: DuplexStream, said: &[u8]) -> (Vec<u8>, T) {
    let before = memory::begin();
    let (heard, result) = runtime().block_on(async { tokio::join!(play(ours, said), transfer) });
    let most = MEMORY + PER_BYTE * (said.len() + heard.len()) as isize;
    let took = memory::most() - before;
    assert!(took <= most, "{took} bytes taken for {}", said.len());
    (heard, result)
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let builder = &mut Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime")
    })
}

/// A directory in memory, if there is such a place.
fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).expect("a directory"),
        false => tempfile::tempdir().expect("a directory"),
    }
}

/// Says all of it, and hears whatever comes back.
async fn play(stream: DuplexStream, script: &[u8]) -> Vec<u8> {
    let (mut reader, mut writer) = split(stream);
    let speak = async {
        let _ = writer.write_all(script).await;
        let _ = writer.shutdown().await;
    };
    let hear = async {
        let mut heard = Vec::new();
        let _ = reader.read_to_end(&mut heard).await;
        heard
    };
    tokio::join!(speak, hear).1
}

/// A version of a file, of so many bytes.
fn version(len: u64, version: u8) -> Vec<u8> {
    (0..len).map(|at| (at / 3) as u8 ^ version).collect()
}

/// A few groups, and a little more or less.
fn some_groups(choices: &mut Choices<'_>) -> u64 {
    let whole = GROUP * choices.below(4) as u64;
    (whole + choices.below(3) as u64).saturating_sub(1)
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// The name of what interrupted transfers leave.
fn left_name(name: &str) -> String {
    let number = &blake3::hash(name.as_bytes()).to_hex()[..8];
    format!(".{name}.manyway-part-{number}")
}

const MARK: &str = ".manyway-part-";
