//! A sender made by hand: its words, and what they amount to.

use super::*;

/// What a name is offered as.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    File { size: u64, shared: bool },
    Directory,
    Symlink(&'static str),
    HardLink(u64),
    LeftOut(u8),
}

impl What {
    pub(super) fn size(&self) -> Option<u64> {
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
pub(super) struct Script {
    pub(super) bytes: Vec<u8>,
    /// Bytes that are never cut off again.
    pub(super) fixed: usize,
    /// What was offered, as offered.
    pub(super) entries: Vec<(String, What)>,
    /// The next file to be sent.
    pub(super) next: usize,
    /// Content since the last trailer.
    pub(super) content: Vec<u8>,
    /// Hashes of contents that were sent, or kept, with them.
    pub(super) whole: BTreeSet<[u8; 32]>,
    /// What the receiver has by a name: incomplete, or under the name itself.
    pub(super) there: BTreeMap<String, [Vec<u8>; 2]>,
}

pub(super) const PARTS: [&str; 17] = [
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

pub(super) fn name(choices: &mut Choices<'_>) -> String {
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
    pub(super) fn say(&mut self, message: &Message) {
        message.encode(&mut self.bytes);
    }

    pub(super) fn step(&mut self, choices: &mut Choices<'_>) {
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
                    byte @ 240.. => return self.leave_out(byte % 8),
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
    pub(super) fn offer(&mut self, choices: &mut Choices<'_>) {
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
                        1 => What::LeftOut(choices.byte() % 8),
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

    pub(super) fn data(&mut self, len: u64, version: u8) {
        // More than this is never sent, however much was promised.
        let content = self::version(len.min(2 << 20), version);
        self.data_of(&content);
    }

    pub(super) fn data_of(&mut self, content: &[u8]) {
        for piece in content.chunks(MAX_DATA) {
            self.bytes
                .extend(Header::new(FrameKind::Data, piece.len()).encode());
            self.bytes.extend_from_slice(piece);
        }
        self.content.extend_from_slice(content);
    }

    /// The next file, as it should be if the receiver has some of it.
    pub(super) fn difference(&mut self, choices: &mut Choices<'_>) {
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
    pub(super) fn keep(&mut self, of: u8, groups: u64) {
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

    /// Says that the rest of a file doesn't come.
    pub(super) fn leave_out(&mut self, cause: u8) {
        if let Some(cause) = Cause::from_number(cause) {
            self.say(&Message::LeftOut(cause));
            self.content.clear();
            self.next += 1;
        }
    }

    /// Says that groups are zeros.
    pub(super) fn hole(&mut self, groups: u64) {
        self.say(&Message::Hole(groups));
        let size = self.file().map_or(0, |(_, size)| size);
        let end = self.content.len() as u64 + groups * GROUP;
        let end = end.min(size).max(self.content.len() as u64);
        self.content.resize(end as usize, 0);
    }

    /// The file that comes next.
    pub(super) fn file(&self) -> Option<(&String, u64)> {
        let files = self.entries.iter();
        let mut files = files.filter_map(|(name, what)| Some((name, what.size()?)));
        files.nth(self.next)
    }

    pub(super) fn trailer(&mut self, damage: u8) {
        let mut hash = hash(&std::mem::take(&mut self.content));
        if damage == 0 {
            self.whole.insert(hash);
        }
        hash[0] ^= damage;
        self.say(&Message::Trailer(Digest(hash)));
    }

    /// What somebody else says, or says at another time.
    pub(super) fn out_of_place(&mut self, choices: &mut Choices<'_>) {
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
