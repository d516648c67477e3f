//! One side of a transfer against a peer that says what it likes, in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use manyway_runtime::files::{Dotfiles, Progress, ReceiveOptions, Sources, receive, send};
use manyway_transfer::message::MAX_DATA;
use manyway_transfer::{
    Digest, Failure, FailureCode, FrameKind, Header, Hello, Message, Renamed, Role, SafeName,
    Saved, Totals,
};
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
    let before = memory::begin();
    let said = match choices.byte() % 4 {
        0..=2 => receiver(choices),
        _ => sender(choices),
    };
    let (took, most) = (memory::most() - before, MEMORY + PER_BYTE * said as isize);
    assert!(took <= most, "{took} bytes taken for {said}");
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
async fn play(stream: DuplexStream, script: &[u8]) {
    let (mut reader, mut writer) = split(stream);
    let speak = async {
        let _ = writer.write_all(script).await;
        let _ = writer.shutdown().await;
    };
    let hear = async {
        let mut void = vec![0; 16 << 10];
        while reader.read(&mut void).await.is_ok_and(|len| len > 0) {}
    };
    tokio::join!(speak, hear);
}

/// A sender's words, and what they amount to.
#[derive(Default)]
struct Script {
    bytes: Vec<u8>,
    /// What was offered, as offered: name, whether it is a file, size.
    entries: Vec<(String, bool, u64)>,
    /// The next file to be sent.
    next: usize,
    /// Content since the last trailer.
    content: Vec<u8>,
    /// Contents whose right hash was sent.
    whole: BTreeSet<Vec<u8>>,
}

const PARTS: [&str; 16] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "link",
    ".ssh",
    "..",
    ".",
    "",
    "a\\b",
    "a\0",
    "\u{1b}[2J",
    ".a.manyway-part-00000000",
    "\u{202e}",
];

fn name(choices: &mut Choices<'_>) -> String {
    let how = choices.byte();
    let depth = 1 + choices.below(3);
    let part = |choices: &mut Choices<'_>| match how {
        0..200 => PARTS[choices.below(8)].to_owned(),
        200..250 => PARTS[choices.below(PARTS.len())].to_owned(),
        _ => "n".repeat(usize::from(choices.byte()) * 2),
    };
    let parts: Vec<_> = (0..depth).map(|_| part(choices)).collect();
    match how {
        255 => format!("/{}", parts.join("/")),
        _ => parts.join("/"),
    }
}

impl Script {
    fn say(&mut self, message: &Message) {
        message.encode(&mut self.bytes);
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(12) {
            0 | 1 => self.offer(choices),
            2 => {
                let lie = choices.number() / 250;
                let files = self.entries.iter().filter(|(_, file, _)| *file).count() as u64;
                let sizes = self.entries.iter().map(|(.., size)| *size);
                self.say(&Message::Offered(Totals {
                    entries: (self.entries.len() as u64).wrapping_add(lie),
                    files,
                    bytes: sizes.fold(0, u64::saturating_add),
                }));
            }
            3 => {
                let len = choices.number();
                self.data(len, choices.byte());
            }
            4 => self.trailer(choices.byte()),
            5..=8 => {
                // A file as it should be.
                let files = self.entries.iter().filter(|(_, file, _)| *file);
                let size = files.map(|(.., size)| *size).nth(self.next).unwrap_or(1);
                self.next += 1;
                self.data(size, choices.byte());
                self.trailer(0);
            }
            9 => self.out_of_place(choices),
            10 => {
                let len = choices.below(16);
                self.bytes.extend((0..len).map(|_| choices.byte()));
            }
            _ => {
                // A frame cut short.
                let less = self.bytes.len().saturating_sub(choices.below(16));
                self.bytes.truncate(less);
            }
        }
    }

    /// Entries as bytes, whatever their names; mostly in their right order.
    fn offer(&mut self, choices: &mut Choices<'_>) {
        let many = 1 + choices.below(6);
        let mut entries: Vec<_> = (0..many)
            .map(|_| {
                let how = choices.byte();
                let size = if how & 1 > 0 {
                    choices.number()
                } else {
                    u64::from(how)
                };
                let file = how & 6 > 0;
                (
                    name(choices),
                    file,
                    if file || how & 8 > 0 { size } else { 0 },
                )
            })
            .collect();
        if choices.byte() < 200 {
            entries.sort_by(|a, b| a.0.split('/').cmp(b.0.split('/')));
            entries.dedup_by(|a, b| a.0 == b.0);
        }
        let mut body = Vec::new();
        for (name, file, size) in &entries {
            varint(&mut body, name.len() as u64);
            body.extend_from_slice(name.as_bytes());
            body.push(u8::from(!file));
            varint(&mut body, *size);
            varint(&mut body, 0o644);
            body.extend_from_slice(&[0, 0]);
        }
        self.bytes
            .extend(Header::new(FrameKind::Entries, body.len()).encode());
        self.bytes.extend_from_slice(&body);
        self.entries.extend(entries);
    }

    fn data(&mut self, len: u64, version: u8) {
        // More than this is never sent, however much was promised.
        let len = len.min(2 << 20) as usize;
        let content: Vec<u8> = (0..len).map(|at| (at / 3) as u8 ^ version).collect();
        for piece in content.chunks(MAX_DATA) {
            self.bytes
                .extend(Header::new(FrameKind::Data, piece.len()).encode());
            self.bytes.extend_from_slice(piece);
        }
        self.content.extend_from_slice(&content);
    }

    fn trailer(&mut self, damage: u8) {
        let mut hash = *blake3::hash(&self.content).as_bytes();
        hash[0] ^= damage;
        let content = std::mem::take(&mut self.content);
        if damage == 0 {
            self.whole.insert(content);
        }
        self.say(&Message::Trailer(Digest(hash)));
    }

    /// What somebody else says, or says at another time.
    fn out_of_place(&mut self, choices: &mut Choices<'_>) {
        let number = choices.number();
        let totals = Totals {
            entries: number,
            files: number,
            bytes: number,
        };
        let message = match choices.below(8) {
            0 => Message::Hello(Hello::new(Role::Sender)),
            1 => Message::Hello(Hello::new(Role::Receiver)),
            2 => Message::Accept,
            3 => Message::Saved(Saved {
                files: number,
                renamed: Vec::new(),
            }),
            4 => Message::Done(totals),
            5 => Message::Bye,
            6 => Message::Offered(totals),
            _ => Message::Failure(Failure::new(FailureCode::Write, "no \u{1b}[2J room").of("x")),
        };
        self.say(&message);
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Our receiver. A file has its final name only if it was offered with this size, and its right
/// hash was sent; nothing is created elsewhere, and nothing incomplete stays.
fn receiver(mut choices: Choices<'_>) -> usize {
    let flags = choices.byte();
    let mut script = Script::default();
    if flags & 3 > 0 {
        script.say(&Message::Hello(Hello::new(Role::Sender)));
    }
    for _ in 0..MOST_STEPS {
        if choices.is_empty() {
            break;
        }
        script.step(&mut choices);
    }
    let around = directory();
    let dir = around.path().join("in");
    let outside = around.path().join("outside");
    fs::create_dir_all(&dir).expect("a directory");
    fs::create_dir(&outside).expect("a directory");
    std::os::unix::fs::symlink(&outside, dir.join("link")).expect("a link");
    let options = ReceiveOptions {
        dotfiles: if flags & 4 > 0 {
            Dotfiles::Allow
        } else {
            Dotfiles::Refuse
        },
        check_space: flags & 8 > 0,
        ..ReceiveOptions::default()
    };
    let (ours, theirs) = duplex(64 << 10);
    let result = runtime().block_on(async {
        let receiving = receive(split(theirs), &dir, options, Progress::new());
        tokio::join!(play(ours, &script.bytes), receiving).1
    });
    let mut found = BTreeMap::new();
    look(&dir, "", &mut found);
    let link = found.remove("link");
    assert!(
        link.is_none_or(|link| link.is_none()),
        "the link is replaced"
    );
    for (name, content) in &found {
        let is_file = content.is_some();
        let size = content.as_ref().map_or(0, Vec::len) as u64;
        let offered = script.entries.iter().any(|(offer, file, bytes)| {
            offer == name && *file == is_file && (!is_file || *bytes == size)
        });
        assert!(offered, "{name} of {size} bytes: {result:?}");
        if let Some(content) = content {
            assert!(script.whole.contains(content), "{name} is no content");
        }
    }
    if let Ok(summary) = &result {
        let files = found.values().flatten().count() as u64;
        assert_eq!(files, summary.file_count);
    }
    let beside = fs::read_dir(around.path()).expect("it is there").count();
    let within = fs::read_dir(&outside).expect("it is there").count();
    assert_eq!((beside, within), (2, 0), "something is outside");
    script.bytes.len()
}

/// All files and directories below one, by name; files with their content.
fn look(dir: &Path, above: &str, found: &mut BTreeMap<String, Option<Vec<u8>>>) {
    for item in fs::read_dir(dir).expect("it is there") {
        let item = item.expect("it is there");
        let name = format!("{above}{}", item.file_name().to_string_lossy());
        let kind = item.file_type().expect("it is there");
        if kind.is_dir() {
            look(&item.path(), &format!("{name}/"), found);
        }
        let content = kind
            .is_file()
            .then(|| fs::read(item.path()).expect("readable"));
        found.insert(name, content);
    }
}

/// Our sender. It reports success only to a receiver that has said that all of it is there.
fn sender(mut choices: Choices<'_>) -> usize {
    let around = directory();
    let file = around.path().join("f");
    let size = choices.number().min(100_000);
    fs::write(&file, vec![7; size as usize]).expect("room");
    let right = Totals {
        entries: 1,
        files: 1,
        bytes: size,
    };
    let (mut bytes, mut done) = (Vec::new(), false);
    let mut say = |message: Message| message.encode(&mut bytes);
    if choices.byte() & 7 > 0 {
        say(Message::Hello(Hello::new(Role::Receiver)));
    }
    for _ in 0..MOST_STEPS {
        if choices.is_empty() {
            break;
        }
        let number = choices.number();
        let totals = Totals {
            bytes: number,
            ..right
        };
        say(match choices.below(10) {
            0 | 1 => Message::Accept,
            2 | 3 => Message::Saved(Saved {
                files: number,
                renamed: Vec::new(),
            }),
            4 => Message::Saved(Saved {
                files: 1,
                renamed: SafeName::parse(&name(&mut choices))
                    .map(|name| Renamed { file: number, name })
                    .into_iter()
                    .collect(),
            }),
            5 | 6 => {
                done = true;
                Message::Done(right)
            }
            7 => {
                done |= totals == right;
                Message::Done(totals)
            }
            8 => Message::Failure(Failure::new(FailureCode::Write, "no room")),
            _ => Message::Hello(Hello::new(Role::Sender)),
        });
    }
    let sources = Sources::new([&file]).expect("it is there");
    let (ours, theirs) = duplex(64 << 10);
    let result = runtime().block_on(async {
        let sending = send(split(theirs), sources, Progress::new());
        tokio::join!(play(ours, &bytes), sending).1
    });
    assert!(result.is_err() || done, "nobody has said so: {result:?}");
    bytes.len() + size as usize
}
