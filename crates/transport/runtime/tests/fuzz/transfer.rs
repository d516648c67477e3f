//! One side of a transfer against a peer that says what it likes, in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use manyway_runtime::files::{Dotfiles, Links, Progress, ReceiveOptions, Sources, receive, send};
use manyway_transfer::message::MAX_DATA;
use manyway_transfer::{
    Digest, Failure, FailureCode, FrameKind, GROUP, Header, Hello, Message, Policy, Renamed, Role,
    SafeName, Saved, Scope, Target, Totals, group_hash, groups,
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
        0..=2 => receiver(choices),
        _ => sender(choices),
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

/// What a name is offered as.
#[derive(Clone, Debug, PartialEq)]
enum What {
    File { size: u64, shared: bool },
    Directory,
    Symlink(&'static str),
    HardLink(u64),
    LeftOut(u8),
}

impl What {
    fn size(&self) -> Option<u64> {
        match self {
            What::File { size, .. } => Some(*size),
            _ => None,
        }
    }
}

const TARGETS: [&str; 8] = [
    "a",
    "b/c",
    "../a",
    "../../outside",
    "/etc/passwd",
    "a/../../outside/secret",
    "",
    "..",
];

/// A sender's words, and what they amount to.
#[derive(Default)]
struct Script {
    bytes: Vec<u8>,
    /// Bytes that are never cut off again.
    fixed: usize,
    /// Of what was offered, so much came before the first end of a manifest.
    closed: Option<usize>,
    /// What was offered, as offered.
    entries: Vec<(String, What)>,
    /// The next file to be sent.
    next: usize,
    /// Content since the last trailer.
    content: Vec<u8>,
    /// Hashes of contents that were sent, or kept, with them.
    whole: BTreeSet<[u8; 32]>,
    /// What the receiver has by a name: incomplete, or under the name itself.
    there: BTreeMap<String, [Vec<u8>; 2]>,
}

const PARTS: [&str; 17] = [
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
    ".b.manyway-part-10e5cf3d",
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
        match choices.below(16) {
            0 | 1 => self.offer(choices),
            2 => {
                let lie = choices.number() / 250;
                let mut totals = Totals {
                    entries: (self.entries.len() as u64).wrapping_add(lie),
                    ..Totals::default()
                };
                for (_, what) in &self.entries {
                    match what {
                        What::File { size, .. } => {
                            totals.files += 1;
                            totals.bytes = totals.bytes.saturating_add(*size);
                        }
                        What::Directory => totals.directories += 1,
                        What::Symlink(_) => totals.symlinks += 1,
                        What::HardLink(_) => totals.hard_links += 1,
                        What::LeftOut(_) => {}
                    }
                }
                self.say(&Message::Offered(totals));
                self.closed.get_or_insert(self.entries.len());
            }
            3 => {
                let len = choices.number();
                self.data(len, choices.byte());
            }
            4 => self.trailer(choices.byte()),
            5..=8 => {
                // A file as it should be.
                let size = self.file().map_or(1, |(_, size)| size);
                self.next += 1;
                self.data(size, choices.byte());
                self.trailer(0);
            }
            9 => self.out_of_place(choices),
            10 => {
                let len = choices.below(16);
                self.bytes.extend((0..len).map(|_| choices.byte()));
            }
            11..=13 => self.difference(choices),
            14 if choices.byte() & 1 > 0 => self.hole(choices.below(10) as u64),
            14 => {
                let groups = match choices.byte() {
                    255 => u64::MAX,
                    byte => u64::from(byte % 8),
                };
                self.keep(choices.byte(), groups);
            }
            _ => {
                // A frame cut short.
                let less = self.bytes.len().saturating_sub(choices.below(16));
                self.bytes.truncate(less.max(self.fixed));
            }
        }
    }

    /// Entries as bytes, whatever their names; mostly in their right order.
    fn offer(&mut self, choices: &mut Choices<'_>) {
        let many = 1 + choices.below(6);
        let mut entries: Vec<_> = (0..many)
            .map(|_| {
                let how = choices.byte();
                let size = match how {
                    16.. if how & 16 > 0 => some_groups(choices),
                    _ if how & 1 > 0 => choices.number(),
                    _ => u64::from(how),
                };
                let what = match how {
                    _ if how & 6 > 0 => What::File {
                        size,
                        shared: how & 32 > 0,
                    },
                    _ if how & 8 == 0 => What::Directory,
                    _ => match choices.below(4) {
                        0 => What::HardLink(choices.number() % 3),
                        1 => What::LeftOut(choices.byte() % 5),
                        _ => What::Symlink(TARGETS[choices.below(TARGETS.len())]),
                    },
                };
                (name(choices), what)
            })
            .collect();
        if choices.byte() < 200 {
            entries.sort_by(|a, b| a.0.split('/').cmp(b.0.split('/')));
            entries.dedup_by(|a, b| a.0 == b.0);
        }
        let mut body = Vec::new();
        for (name, what) in &entries {
            varint(&mut body, name.len() as u64);
            body.extend_from_slice(name.as_bytes());
            match what {
                What::File { size, shared } => {
                    body.push(0);
                    varint(&mut body, *size);
                    // What should lie in holes is the sender's word only.
                    varint(&mut body, if *shared { *size } else { 0 });
                    body.push(u8::from(*shared));
                }
                What::Directory => body.push(1),
                What::Symlink(target) => {
                    body.extend_from_slice(&[2, target.len() as u8]);
                    body.extend_from_slice(target.as_bytes());
                }
                What::HardLink(number) => body.extend_from_slice(&[3, *number as u8]),
                What::LeftOut(cause) => body.extend_from_slice(&[4, *cause]),
            }
            varint(&mut body, 0o644);
            body.extend_from_slice(&[0, 0, 0, 0]);
        }
        self.bytes
            .extend(Header::new(FrameKind::Entries, body.len()).encode());
        self.bytes.extend_from_slice(&body);
        self.entries.extend(entries);
    }

    fn data(&mut self, len: u64, version: u8) {
        // More than this is never sent, however much was promised.
        let content = self::version(len.min(2 << 20), version);
        self.data_of(&content);
    }

    fn data_of(&mut self, content: &[u8]) {
        for piece in content.chunks(MAX_DATA) {
            self.bytes
                .extend(Header::new(FrameKind::Data, piece.len()).encode());
            self.bytes.extend_from_slice(piece);
        }
        self.content.extend_from_slice(content);
    }

    /// The next file, as it should be if the receiver has some of it.
    fn difference(&mut self, choices: &mut Choices<'_>) {
        let size = self.file().map_or(0, |(_, size)| size).min(4 * GROUP);
        let (of, version) = (choices.byte(), choices.byte());
        let content = self::version(size, version);
        for group in content.chunks(GROUP as usize) {
            match choices.byte() & 7 {
                0 | 1 => self.data_of(group),
                2 => self.hole(1),
                _ => self.keep(of, 1),
            }
        }
        self.next += 1;
        self.trailer(choices.byte() / 200);
    }

    /// Says that groups are as they are there, whether or not they are.
    fn keep(&mut self, of: u8, groups: u64) {
        self.say(&Message::Kept(groups));
        let Some((name, size)) = self.file() else {
            return;
        };
        let end = (size as usize).min(self.content.len() + groups.min(8) as usize * GROUP as usize);
        if let Some(there) = self
            .there
            .get(name)
            .map(|there| &there[usize::from(of & 1)])
        {
            let at = self.content.len();
            let kept = there
                .get(at..end.min(there.len()))
                .unwrap_or_default()
                .to_vec();
            self.content.extend(kept);
        }
    }

    /// Says that groups are zeros.
    fn hole(&mut self, groups: u64) {
        self.say(&Message::Hole(groups));
        let size = self.file().map_or(0, |(_, size)| size);
        let end = self.content.len() as u64 + groups * GROUP;
        let end = end.min(size).max(self.content.len() as u64);
        self.content.resize(end as usize, 0);
    }

    /// The file that comes next.
    fn file(&self) -> Option<(&String, u64)> {
        let files = self.entries.iter();
        let mut files = files.filter_map(|(name, what)| Some((name, what.size()?)));
        files.nth(self.next)
    }

    fn trailer(&mut self, damage: u8) {
        let mut hash = hash(&std::mem::take(&mut self.content));
        if damage == 0 {
            self.whole.insert(hash);
        }
        hash[0] ^= damage;
        self.say(&Message::Trailer(Digest(hash)));
    }

    /// What somebody else says, or says at another time.
    fn out_of_place(&mut self, choices: &mut Choices<'_>) {
        let number = choices.number();
        let totals = Totals {
            entries: number,
            files: number,
            bytes: number,
            ..Totals::default()
        };
        let message = match choices.below(10) {
            8 => Message::Wants(vec![number as u8 & 0x55]),
            9 => Message::Basis(vec![Digest([0; 32]); choices.below(3)]),
            0 => Message::Hello(Hello::new(Role::Sender)),
            1 => Message::Hello(Hello::new(Role::Receiver)),
            2 => Message::Accept,
            3 => Message::Saved(Saved {
                files: number,
                renamed: Vec::new(),
            }),
            4 => Message::Done { totals, altered: 0 },
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

/// What is in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Thing {
    File(Vec<u8>),
    Directory,
    Link(String),
    Other,
}

/// A thing with its mode and number of names.
type Item = (Thing, u32, u64);

/// Puts a file, or what transfers may have left of one, where the next one goes.
fn lay(choices: &mut Choices<'_>, dir: &Path, outside: &Path, script: &mut Script) {
    let name = PARTS[choices.below(6)];
    let above = ["", "", "a/", "b/"][choices.below(4)];
    let what = choices.byte() % 14;
    let size = some_groups(choices);
    let mut bytes = version(size, choices.byte());
    if what == 1 || what == 3 {
        let at = choices.below(4) * GROUP as usize;
        bytes
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|byte| *byte ^= 1);
    }
    let dir = dir.join(above);
    let path = match what {
        0 | 1 | 9 | 10 => dir.join(name),
        _ => dir.join(left_name(name)),
    };
    if fs::create_dir_all(&dir).is_err() || path.symlink_metadata().is_ok() {
        return;
    }
    if what == 4 {
        bytes.extend_from_slice(b"more");
    }
    let write = |path: &Path, mode: u32| {
        fs::write(path, &bytes).expect("room");
        mode_of(path, mode);
        let file = fs::File::open(path).expect("it is there");
        let time = UNIX_EPOCH + Duration::from_secs(u64::from(what));
        file.set_modified(time).expect("a time");
    };
    match what {
        0 | 1 => write(&path, 0o640),
        5 => symlink(outside.join("secret"), &path).expect("a link"),
        6 | 9 => {
            let twin = outside.join(left_name(name) + above.trim_end_matches('/'));
            if !twin.exists() {
                write(&twin, 0o600);
            }
            fs::hard_link(&twin, &path).expect("a link");
        }
        7 => write(&path, 0o644),
        8 => mkfifo(&path, Mode::S_IRWXU).expect("a pipe"),
        10 | 11 => fs::create_dir(&path).expect("a directory"),
        12 => {
            // A directory, and what says that it isn't complete.
            fs::write(&path, "").expect("room");
            mode_of(&path, 0o600);
            let _ = fs::create_dir(dir.join(name));
        }
        _ => write(&path, 0o600),
    }
    let there = script.there.entry(format!("{above}{name}")).or_default();
    there[usize::from(matches!(what, 0 | 1 | 9))] = bytes;
}

fn mode_of(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is there");
}

/// What a sender's manifest speaks for.
fn scope(choices: &mut Choices<'_>) -> Scope {
    let how = choices.byte();
    let mut scope = Scope {
        top: how & 1 > 0,
        dry_run: how & 6 == 6,
        ..Scope::default()
    };
    let rules: &[&str] = match how >> 5 {
        0 => &["- a"],
        1 => &["+ /b/***", "- *"],
        2 => &["- c/"],
        3 => &["- /a/b", "+ d", "- /link"],
        _ => &[],
    };
    for rule in rules {
        scope.filter.push(rule).expect("a rule");
    }
    scope
}

/// May a receiver that deletes have deleted what was there by that name?
fn may_go(
    name: &str,
    scope: &Scope,
    dotfiles: bool,
    before: &BTreeMap<String, Item>,
    is_offered: impl Fn(&str) -> bool,
) -> bool {
    if scope.dry_run || name.starts_with('.') && !dotfiles {
        return false;
    }
    // The first of the directories above it, or itself, that wasn't offered.
    let ends = name.match_indices('/').map(|(at, _)| at);
    let mut prefixes = ends.chain([name.len()]).map(|at| &name[..at]);
    let Some(first) = prefixes.find(|prefix| !is_offered(prefix)) else {
        return false;
    };
    let below = [first].into_iter().chain(prefixes);
    let takes = |prefix: &str| {
        let is_directory = matches!(before.get(prefix), Some((Thing::Directory, ..)));
        let name = SafeName::parse(prefix).expect("a name");
        scope.filter.takes(&name, is_directory)
    };
    (first.contains('/') || scope.top) && { below }.all(takes)
}

/// Our receiver. A file has its final name only if it was offered with this size, and its right
/// hash was sent, or if it was there before; nothing is changed elsewhere, and nothing incomplete
/// stays but what another transfer can go on with. What was there goes only if the sender could
/// have it and doesn't.
fn receiver(mut choices: Choices<'_>) {
    let flags = choices.byte();
    let around = directory();
    let dir = around.path().join("in");
    let outside = around.path().join("outside");
    fs::create_dir_all(&dir).expect("a directory");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("secret"), version(GROUP, 1)).expect("room");
    mode_of(&outside.join("secret"), 0o600);
    symlink(&outside, dir.join("link")).expect("a link");
    let mut script = Script::default();
    let more = choices.byte();
    let delete = more & 3 > 1;
    for _ in 0..choices.below(5) {
        lay(&mut choices, &dir, &outside, &mut script);
    }
    if flags & 3 > 0 {
        script.say(&Message::Hello(Hello::new(Role::Sender)));
    }
    let mut scope = Scope::default();
    if more & 12 > 0 {
        scope = self::scope(&mut choices);
        script.say(&Message::Scope(scope.clone()));
    }
    script.fixed = script.bytes.len();
    for _ in 0..MOST_STEPS {
        if choices.is_empty() {
            break;
        }
        script.step(&mut choices);
    }
    let keep = flags & 32 == 0;
    let default = ReceiveOptions::default();
    let options = ReceiveOptions {
        dotfiles: if flags & 4 > 0 {
            Dotfiles::Allow
        } else {
            Dotfiles::Refuse
        },
        links: match flags & 3 {
            1 => Links::Safe,
            2 => Links::All,
            _ => Links::None,
        },
        check_space: flags & 8 > 0,
        delete,
        checksum: flags & 16 > 0,
        keep_parts: if keep {
            default.keep_parts
        } else {
            Duration::ZERO
        },
        policy: match flags >> 6 {
            0 | 1 => Policy::Refuse,
            2 => Policy::Overwrite,
            _ => Policy::Rename,
        },
        ..default
    };
    let links = options.links;
    let (policy, before, beyond) = (options.policy, look_all(&dir), look_all(&outside));
    let (ours, theirs) = duplex(64 << 10);
    let receiving = receive(split(theirs), &dir, options, Progress::new());
    let (_, result) = run(receiving, ours, &script.bytes);
    let after = look_all(&dir);
    let offered = |name: &str, there: &Thing| {
        let name = unnumbered(name, policy);
        script.entries.iter().any(|(offer, what)| {
            let fits = match (there, what) {
                (Thing::File(content), What::File { size, .. }) => content.len() as u64 == *size,
                // Its content is that of an offered file, which is looked at below.
                (Thing::File(_), What::HardLink(_)) => true,
                (Thing::Directory, What::Directory) => true,
                (Thing::Link(target), What::Symlink(offered)) => {
                    let parsed = (SafeName::parse(offer), Target::parse(target));
                    let stays = |(name, target): (&SafeName, &Target)| {
                        target.stays_below_top(name, scope.top)
                    };
                    let safe = matches!(&parsed, (Ok(n), Some(t)) if stays((n, t)));
                    target == offered && (links == Links::All || links == Links::Safe && safe)
                }
                _ => false,
            };
            unnumbered(offer, policy) == name && fits
        })
    };
    let links_of = |name: &str| {
        let name = unnumbered(name, policy);
        let mut offers = script.entries.iter();
        let offer = offers.find(|(offer, _)| unnumbered(offer, policy) == name);
        offer.map(|(_, what)| what)
    };
    for (name, (there, mode, links)) in &after {
        let same = matches!(before.get(name), Some(old) if (&old.0, &old.1) == (there, mode));
        assert!(same || !scope.dry_run, "{name} has changed in a dry run");
        let is_part = name
            .rsplit('/')
            .next()
            .is_some_and(|name| name.contains(MARK));
        if same {
            continue;
        }
        let Thing::File(content) = there else {
            assert!(
                offered(name, there) && !is_part,
                "{name} is new: {result:?}"
            );
            if matches!(there, Thing::Link(_)) {
                let new = !before.contains_key(name) || policy == Policy::Overwrite;
                assert!(new, "{name} is replaced: {result:?}");
                continue;
            }
            let made = !before.contains_key(name) || before.contains_key(&mark_of(name));
            assert!(made, "{name} is another: {result:?}");
            continue;
        };
        if is_part {
            let stays = keep && policy != Policy::Rename;
            let useful = content.is_empty() || content.len() as u64 >= GROUP;
            assert!(stays && useful, "{name} is left: {result:?}");
            assert_eq!((mode & 0o077, *links), (0, 1), "{name}");
            continue;
        }
        assert!(
            offered(name, there),
            "{name} has {} bytes: {result:?}",
            content.len()
        );
        let linked = matches!(links_of(name), Some(What::HardLink(_)));
        let same_content = match before.get(name) {
            Some((old, ..)) if old == there => true,
            // Another name of a file that was there.
            _ => linked && before.values().any(|(old, ..)| old == there),
        };
        let known = same_content || script.whole.contains(&hash(content));
        assert!(known, "{name} is no content: {result:?}");
        let new = !before.contains_key(name) || policy == Policy::Overwrite;
        assert!(new, "{name} is replaced: {result:?}");
    }
    for (name, (there, ..)) in &before {
        let is_part = name.contains(MARK) && *there != Thing::Directory;
        let manifest = &script.entries[..script.closed.unwrap_or(script.entries.len())];
        let is_offered = |name: &str| manifest.iter().any(|(offer, _)| offer == name);
        let goes = delete
            && policy != Policy::Rename
            && result.is_ok()
            && may_go(name, &scope, flags & 4 > 0, &before, is_offered);
        assert!(
            is_part || goes || after.contains_key(name),
            "{name} is gone: {result:?}"
        );
    }
    if let Ok(summary) = &result
        && policy != Policy::Rename
        && !scope.dry_run
    {
        let files = script.entries.iter();
        let files = files.filter(|(_, what)| what.size().is_some());
        for (name, ..) in files.take(summary.file_count as usize) {
            let there = after.get(name).map(|(there, ..)| there);
            assert!(
                there.is_some_and(|there| offered(name, there)),
                "{name} isn't there"
            );
        }
    }
    let beside = fs::read_dir(around.path()).expect("it is there").count();
    assert_eq!(beside, 2, "something is outside");
    let mut now = look_all(&outside);
    for (name, item) in &mut now {
        // A name less is no harm, and neither is one more for what has a name inside already.
        item.2 = beyond.get(name).map_or(item.2, |before| before.2);
    }
    assert!(now == beyond, "what is outside has changed: {result:?}");
}

/// The name of the marker of a directory.
fn mark_of(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((above, name)) => format!("{above}/{}", left_name(name)),
        None => left_name(name),
    }
}

/// A name without the numbers that `--rename` gives.
fn unnumbered(name: &str, policy: Policy) -> String {
    if policy != Policy::Rename {
        return name.to_owned();
    }
    let part = |part: &str| match part.rsplit_once(" (") {
        Some((name, _)) => name.to_owned(),
        None => part.to_owned(),
    };
    name.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn look_all(dir: &Path) -> BTreeMap<String, Item> {
    let mut found = BTreeMap::new();
    look(dir, "", &mut found);
    found
}

/// All below a directory, by name.
fn look(dir: &Path, above: &str, found: &mut BTreeMap<String, Item>) {
    for item in fs::read_dir(dir).expect("it is there") {
        let item = item.expect("it is there");
        let name = format!("{above}{}", item.file_name().to_string_lossy());
        // Meanwhile, old parts may be removed.
        let Ok(metadata) = item.metadata() else {
            continue;
        };
        let kind = metadata.file_type();
        let thing = if kind.is_dir() {
            look(&item.path(), &format!("{name}/"), found);
            Thing::Directory
        } else if kind.is_file() {
            match fs::read(item.path()) {
                Ok(content) => Thing::File(content),
                Err(_) => continue,
            }
        } else {
            assert!(kind.is_symlink() || kind.is_fifo());
            match fs::read_link(item.path()) {
                Ok(target) => Thing::Link(target.to_string_lossy().into_owned()),
                Err(_) => Thing::Other,
            }
        };
        // A directory's number of names is that of the directories in it.
        let links = if kind.is_dir() { 0 } else { metadata.nlink() };
        found.insert(name, (thing, metadata.mode(), links));
    }
}

/// Our sender. It reports success only to a receiver that has said that all of it is there, and
/// leaves out nothing but what the receiver has.
fn sender(mut choices: Choices<'_>) {
    let around = directory();
    let file = around.path().join("f");
    let size = match choices.byte() {
        255 => some_groups(&mut choices),
        _ => choices.number().min(100_000),
    };
    let content = version(size, 7);
    fs::write(&file, &content).expect("room");
    let right = Totals {
        entries: 1,
        files: 1,
        bytes: size,
        ..Totals::default()
    };
    let group = |index: u64| match content.chunks(GROUP as usize).nth(index as usize) {
        Some(group) => group_hash(size, index, group),
        None => Digest([9; 32]),
    };
    let (mut bytes, mut done) = (Vec::new(), false);
    // Hashes told, and whether there are no more.
    let (mut told, mut ended) = (Vec::new(), false);
    let mut say = |message: Message| message.encode(&mut bytes);
    let how = choices.byte();
    let dry_run = how >= 240;
    if how & 7 > 0 {
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
        say(match choices.below(17) {
            16 => Message::Deleted({
                let names = (0..choices.below(3)).map(|_| name(&mut choices));
                names
                    .filter_map(|name| SafeName::parse(&name).ok())
                    .collect()
            }),
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
                Message::Done {
                    totals: right,
                    altered: 0,
                }
            }
            7 => {
                done |= totals == right;
                Message::Done { totals, altered: 0 }
            }
            8 => Message::Failure(Failure::new(FailureCode::Write, "no room")),
            9 => Message::Hello(Hello::new(Role::Sender)),
            10 | 11 => Message::Wants(match number {
                0..64 => vec![2],
                64..100 => vec![1],
                _ => vec![number as u8 & 0x55; choices.below(3)],
            }),
            12 => {
                ended = true;
                Message::Basis(Vec::new())
            }
            _ => {
                let next = told.len() as u64..told.len() as u64 + number % 2000;
                let mut hashes: Vec<_> = next.map(group).collect();
                if let Some(last) = hashes.last_mut().filter(|_| choices.byte() & 3 == 0) {
                    last.0[0] ^= 1;
                }
                ended |= hashes.is_empty();
                if !ended {
                    told.extend_from_slice(&hashes);
                }
                Message::Basis(hashes)
            }
        });
    }
    let mut sources = Sources::new([&file]).expect("it is there");
    if dry_run {
        sources = sources.dry_run();
    }
    let (ours, theirs) = duplex(64 << 10);
    let sending = send(split(theirs), sources, Progress::new());
    let (heard, result) = run(sending, ours, &bytes);
    assert!(result.is_err() || done, "nobody has said so: {result:?}");
    follow(&heard, &content, |index| {
        told.get(index as usize) == Some(&group(index))
    });
    if let Ok(summary) = &result {
        assert!(summary.kept.bytes <= size);
    }
}

/// Holds what a sender said of one file to its content.
fn follow(mut heard: &[u8], content: &[u8], is_there: impl Fn(u64) -> bool) {
    let mut at = 0;
    while let Some((header, rest)) = heard.split_first_chunk() {
        let header = Header::decode(*header).expect("a header");
        let Some((body, rest)) = rest.split_at_checked(header.len) else {
            return;
        };
        heard = rest;
        if header.kind == FrameKind::Data {
            let right = content.get(at..at + body.len());
            assert!(
                right.is_some_and(|right| right == body),
                "other content at {at}"
            );
            at += body.len();
            continue;
        }
        match Message::decode(header.kind, body).expect("a message") {
            Message::Kept(kept) => {
                for _ in 0..kept {
                    let index = at as u64 / GROUP;
                    assert!(
                        (at as u64).is_multiple_of(GROUP) && is_there(index),
                        "kept at {at}"
                    );
                    assert!(index < groups(content.len() as u64));
                    at = content.len().min(at + GROUP as usize);
                }
            }
            Message::Trailer(digest) => {
                assert_eq!((digest.0, at), (hash(content), content.len()));
            }
            _ => {}
        }
    }
}
