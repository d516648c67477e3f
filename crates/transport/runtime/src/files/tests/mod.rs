//! Real senders and receivers, real directories, streams in memory.

mod basis;
mod changes;
mod conflicts;
mod disk;
mod holes;
mod hostile;
mod interruptions;
mod kinds;
mod limits;
mod links;
mod metadata;
mod parts;
mod resume;
mod round_trip;
mod sync;
mod targets;
mod updates;

use super::*;
use manyway_transfer::message::{HEADER_LEN, MAX_DATA};
use manyway_transfer::{
    Digest, Entry, FailureCode, FrameKind, GROUP, Header, Hello, Kind, Message, Policy, Role,
    SafeName, Timestamp,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};

type Ends = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

fn pair() -> (Ends, Ends) {
    let (a, b) = duplex(64 << 10);
    (split(a), split(b))
}

fn policy(policy: Policy) -> ReceiveOptions {
    ReceiveOptions {
        policy,
        ..ReceiveOptions::default()
    }
}

/// A transfer between a real sender and a real receiver.
async fn transfer<P: AsRef<Path>>(
    paths: impl IntoIterator<Item = P>,
    dir: &Path,
    options: ReceiveOptions,
) -> (
    Result<SendSummary, TransferError>,
    Result<ReceiveSummary, TransferError>,
) {
    let (ours, theirs) = pair();
    let sources = Sources::new(paths).unwrap();
    tokio::join!(
        send(ours, sources, Progress::new()),
        receive(theirs, dir, options, Progress::new())
    )
}

/// What is in a directory, by relative name: type, permissions, time and content (or a link's
/// target).
fn snapshot(dir: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for item in walkdir::WalkDir::new(dir).min_depth(1) {
        let item = item.unwrap();
        let metadata = item.metadata().unwrap();
        let content = if metadata.is_file() {
            format!(
                "file of {} {}",
                metadata.len(),
                blake3::hash(&fs::read(item.path()).unwrap())
            )
        } else if metadata.is_symlink() {
            format!("link to {}", fs::read_link(item.path()).unwrap().display())
        } else {
            "directory".to_owned()
        };
        let name = item
            .path()
            .strip_prefix(dir)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let stat = format!(
            "{:o} {}.{}",
            metadata.mode() & 0o7777,
            metadata.mtime(),
            metadata.mtime_nsec()
        );
        all.insert(name, format!("{stat} {content}"));
    }
    all
}

fn names(dir: &Path) -> Vec<String> {
    snapshot(dir).into_keys().collect()
}

/// The names that aren't of incomplete files and directories.
fn finals(dir: &Path) -> Vec<String> {
    let mut names = names(dir);
    names.retain(|name| !name.contains(".manyway-part-"));
    names
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn set_time(path: &Path, seconds: u64, nanos: u32) {
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(seconds, nanos);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

/// Bytes that differ from place to place.
fn content(len: usize) -> Vec<u8> {
    (0..len as u32)
        .flat_map(|i| (i.wrapping_mul(0x9e37_79b9) >> 8).to_le_bytes())
        .take(len)
        .collect()
}

fn entry(name: &str, kind: Kind, size: u64) -> Entry {
    Entry {
        size,
        mode: 0o644,
        mtime: Timestamp {
            seconds: 1_000_000_000,
            nanos: 0,
        },
        ..Entry::new(SafeName::parse(name).unwrap(), kind)
    }
}

/// A peer made by hand.
struct Puppet {
    reader: ReadHalf<DuplexStream>,
    writer: WriteHalf<DuplexStream>,
}

impl Puppet {
    /// One that has exchanged hellos.
    async fn greeted(ends: Ends, role: Role) -> Self {
        let mut puppet = Self::new(ends);
        puppet.say(&Message::Hello(Hello::new(role))).await;
        assert!(matches!(puppet.hear().await, Some(Message::Hello(_))));
        puppet
    }

    fn new((reader, writer): Ends) -> Self {
        Self { reader, writer }
    }

    async fn say(&mut self, message: &Message) {
        self.raw(&message.to_bytes()).await;
    }

    /// Says something that may find nobody listening.
    async fn raw(&mut self, bytes: &[u8]) {
        let _ = self.writer.write_all(bytes).await;
    }

    async fn data(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(MAX_DATA) {
            self.raw(&Header::new(FrameKind::Data, chunk.len()).encode())
                .await;
            self.raw(chunk).await;
        }
    }

    async fn trailer(&mut self, of: &[u8]) {
        self.say(&Message::Trailer(Digest(*blake3::hash(of).as_bytes())))
            .await;
    }

    /// Offers entries with the right totals.
    async fn offer(&mut self, entries: Vec<Entry>) {
        let mut totals = manyway_transfer::Totals::default();
        entries.iter().for_each(|entry| totals.add(entry));
        self.say(&Message::Entries(entries)).await;
        self.say(&Message::Offered(totals)).await;
    }

    /// The next message (data is skipped); `None` at the end of the stream.
    async fn hear(&mut self) -> Option<Message> {
        loop {
            let mut header = [0; HEADER_LEN];
            self.reader.read_exact(&mut header).await.ok()?;
            let header = Header::decode(header).unwrap();
            let mut body = vec![0; header.len];
            self.reader.read_exact(&mut body).await.ok()?;
            if header.kind != FrameKind::Data {
                return Some(Message::decode(header.kind, &body).unwrap());
            }
        }
    }

    /// The failure the other side ends with.
    async fn hear_failure(&mut self) -> manyway_transfer::Failure {
        loop {
            match self.hear().await {
                Some(Message::Failure(failure)) => return failure,
                Some(_) => {}
                None => panic!("the stream ended without a failure"),
            }
        }
    }
}

/// Carries frames from a sender to a receiver and back, and tells `hook` of each before it goes on.
async fn carry(from: Ends, to: Ends, mut hook: impl FnMut(FrameKind)) {
    let ((from_reader, from_writer), (to_reader, to_writer)) = (from, to);
    let (kinds, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let there = carry_one_way(from_reader, to_writer, kinds.clone());
    let back = carry_one_way(to_reader, from_writer, kinds);
    let watch = async {
        while let Some((kind, go_on)) = seen.recv().await {
            hook(kind);
            let _: Result<(), ()> = tokio::sync::oneshot::Sender::send(go_on, ());
        }
    };
    tokio::join!(there, back, watch);
}

async fn carry_one_way(
    mut reader: ReadHalf<DuplexStream>,
    mut writer: WriteHalf<DuplexStream>,
    kinds: tokio::sync::mpsc::UnboundedSender<(FrameKind, tokio::sync::oneshot::Sender<()>)>,
) {
    let mut header = [0; HEADER_LEN];
    while reader.read_exact(&mut header).await.is_ok() {
        let Header { kind, len } = Header::decode(header).unwrap();
        let mut body = vec![0; len];
        if reader.read_exact(&mut body).await.is_err() {
            break;
        }
        let (go_on, wait) = tokio::sync::oneshot::channel();
        kinds.send((kind, go_on)).unwrap();
        wait.await.unwrap();
        if writer.write_all(&header).await.is_err() || writer.write_all(&body).await.is_err() {
            break;
        }
    }
    let _ = writer.shutdown().await;
}
