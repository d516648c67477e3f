//! The file-transfer protocol as an application: production messages, manifests and hashes, over
//! files that nobody wrote to a disk.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use manyway_transfer::message::{Batch, HEADER_LEN};
use manyway_transfer::{
    Entry, FrameKind, Header, Hello, Kind, Manifest, Message, Role, SafeName, Saved, Totals,
    Verifier,
};
use manyway_units::Time;

use super::pattern::{self, PIECE};

/// Files that one side sends.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Files {
    /// How many; at least 1.
    pub count: u32,
    /// Bytes of all of them; each has about as many.
    pub bytes: u64,
}

/// The receiver says so often, at the most, which files it has. (The runtime does so after each
/// batch that the disk has taken.)
const SAVED_EVERY: Duration = Duration::from_millis(100);

/// One side of a transfer over a stream: bytes go in and come out.
#[derive(Debug)]
pub(super) struct FileTransfer {
    side: Side,
    /// Of a frame that isn't whole yet.
    input: Vec<u8>,
    /// To be written before anything else.
    output: VecDeque<Bytes>,
    done: bool,
}

#[derive(Debug)]
enum Side {
    Sender(Sender),
    Receiver(Receiver),
}

#[derive(Debug)]
struct Sender {
    entries: Vec<Entry>,
    totals: Totals,
    accepted: bool,
    /// The file under way, and what was hashed of it.
    file: usize,
    verifier: Option<Verifier>,
    /// Content of all files so far: where in the pattern it goes on.
    offset: u64,
}

#[derive(Debug, Default)]
struct Receiver {
    manifest: Manifest,
    /// Those that are still to come, in order.
    entries: VecDeque<Entry>,
    verifier: Option<Verifier>,
    totals: Totals,
    saved: u64,
    told: Option<Time>,
    /// Content that has arrived.
    bytes: u64,
}

impl FileTransfer {
    pub(super) fn sender(files: Files) -> Self {
        let each = |n: u64| {
            let count = u64::from(files.count.max(1));
            files.bytes / count + u64::from(n < files.bytes % count)
        };
        let entry = |n: u32| {
            // Names of equal length are in order.
            let name = SafeName::parse(&format!("file-{n:06}")).expect("a sound name");
            let mut entry = Entry::new(name, Kind::File);
            entry.size = each(u64::from(n));
            entry
        };
        let entries: Vec<Entry> = (0..files.count.max(1)).map(entry).collect();
        let mut totals = Totals::default();
        let mut transfer = Self::new(Role::Sender, Side::Receiver(Receiver::default()));
        let (mut batch, mut some) = (Batch::default(), Vec::new());
        for entry in &entries {
            totals.add(entry);
            if !batch.add(entry.text_len()) {
                transfer.say(&Message::Entries(std::mem::take(&mut some)));
                batch = Batch::default();
                batch.add(entry.text_len());
            }
            some.push(entry.clone());
        }
        transfer.say(&Message::Entries(some));
        transfer.say(&Message::Offered(totals));
        transfer.side = Side::Sender(Sender {
            entries,
            totals,
            accepted: false,
            file: 0,
            verifier: None,
            offset: 0,
        });
        transfer
    }

    pub(super) fn receiver() -> Self {
        Self::new(Role::Receiver, Side::Receiver(Receiver::default()))
    }

    fn new(role: Role, side: Side) -> Self {
        let mut transfer = Self {
            side,
            input: Vec::new(),
            output: VecDeque::new(),
            done: false,
        };
        transfer.say(&Message::Hello(Hello::new(role)));
        transfer
    }

    fn say(&mut self, message: &Message) {
        self.output.push_back(message.to_bytes().into());
    }

    /// Whether the receiver has everything, as far as this side knows.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Content that has arrived, bytes.
    pub(super) fn received(&self) -> u64 {
        match &self.side {
            Side::Sender(_) => 0,
            Side::Receiver(receiver) => receiver.bytes,
        }
    }

    /// The next bytes to write; empty if there are none yet.
    pub(super) fn next(&mut self) -> Bytes {
        if self.output.is_empty()
            && let Side::Sender(sender) = &mut self.side
        {
            self.output.extend(sender.content());
        }
        self.output.pop_front().unwrap_or_default()
    }

    /// Takes what has arrived.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn take(&mut self, now: Time, data: &[u8]) -> Result<(), String> {
        self.input.extend_from_slice(data);
        let mut at = 0;
        while let Some(&head) = self.input[at..].first_chunk::<HEADER_LEN>() {
            let header = Header::decode(head).map_err(|error| error.to_string())?;
            let body = at + HEADER_LEN..at + HEADER_LEN + header.len;
            if self.input.len() < body.end {
                break;
            }
            at = body.end;
            let answer = match &mut self.side {
                Side::Sender(sender) => sender.hear(header.kind, &self.input[body])?,
                Side::Receiver(receiver) => receiver.hear(now, header.kind, &self.input[body])?,
            };
            for message in answer {
                self.done |= matches!(message, Message::Done { .. } | Message::Bye);
                self.say(&message);
            }
        }
        self.input.drain(..at);
        Ok(())
    }
}

impl Sender {
    /// The frames that come next: a piece of the file under way, or its end.
    fn content(&mut self) -> Vec<Bytes> {
        let Some(entry) = self.entries.get(self.file).filter(|_| self.accepted) else {
            return Vec::new();
        };
        let verifier = self.verifier.get_or_insert_with(|| Verifier::new(entry));
        let len = verifier.remaining().min(PIECE as u64) as usize;
        if len > 0 {
            let piece = pattern::piece(0, self.offset, len);
            verifier.update(piece).expect("no more than the size");
            self.offset += len as u64;
            let header = Header::new(FrameKind::Data, len).encode();
            return vec![Bytes::copy_from_slice(&header), Bytes::from_static(piece)];
        }
        let digest = verifier.digest().expect("all of it is there");
        self.verifier = None;
        self.file += 1;
        vec![Message::Trailer(digest).to_bytes().into()]
    }

    fn hear(&mut self, kind: FrameKind, body: &[u8]) -> Result<Vec<Message>, String> {
        match Message::decode(kind, body).map_err(|error| error.to_string())? {
            Message::Accept => self.accepted = true,
            Message::Done { totals, altered } => {
                return match totals == self.totals && altered == 0 {
                    true => Ok(vec![Message::Bye]),
                    false => Err(format!("the receiver has {totals:?}")),
                };
            }
            Message::Hello(_) | Message::Saved(_) => {}
            other => return Err(format!("{other:?} is out of place")),
        }
        Ok(Vec::new())
    }
}

impl Receiver {
    fn hear(&mut self, now: Time, kind: FrameKind, body: &[u8]) -> Result<Vec<Message>, String> {
        if kind == FrameKind::Data {
            let verifier = self.verifier.as_mut().ok_or("data of no file")?;
            verifier.update(body).map_err(|error| error.to_string())?;
            self.bytes += body.len() as u64;
            return Ok(Vec::new());
        }
        match Message::decode(kind, body).map_err(|error| error.to_string())? {
            Message::Entries(entries) => {
                for entry in &entries {
                    let taken = self.manifest.push(entry);
                    taken.map_err(|error| error.to_string())?;
                }
                self.entries.extend(entries);
                Ok(Vec::new())
            }
            Message::Offered(totals) => {
                let totals = self.manifest.finish(totals);
                self.totals = totals.map_err(|error| error.to_string())?;
                self.begin();
                Ok(vec![Message::Accept])
            }
            Message::Trailer(digest) => {
                let verifier = self.verifier.take().ok_or("the end of no file")?;
                verifier.verify(digest).map_err(|error| error.to_string())?;
                self.saved += 1;
                self.begin();
                Ok(self.progress(now))
            }
            Message::Hello(_) | Message::Bye => Ok(Vec::new()),
            other => Err(format!("{other:?} is out of place")),
        }
    }

    fn begin(&mut self) {
        self.verifier = self.entries.pop_front().map(|entry| Verifier::new(&entry));
    }

    /// What is to be said when a file is there.
    fn progress(&mut self, now: Time) -> Vec<Message> {
        let all = self.verifier.is_none();
        let is_due = |told: Time| now.since(told) >= SAVED_EVERY;
        let mut said = Vec::new();
        if all || self.told.is_none_or(is_due) {
            self.told = Some(now);
            said.push(Message::Saved(Saved {
                files: self.saved,
                renamed: Vec::new(),
            }));
        }
        if all {
            said.push(Message::Done {
                totals: self.totals,
                altered: 0,
            });
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves what both have to say, in pieces of `size`; the number of exchanges until it is over.
    fn exchange(files: Files, size: usize, damage: bool) -> Result<(u64, u32), String> {
        let (mut sender, mut receiver) = (FileTransfer::sender(files), FileTransfer::receiver());
        for turn in 1..1000 {
            for (from, to) in [(0, 1), (1, 0)] {
                let ends = [&mut sender, &mut receiver];
                let mut bytes = Vec::new();
                while let Some(next) = Some(ends[from].next()).filter(|next| !next.is_empty()) {
                    bytes.extend_from_slice(&next);
                }
                if damage && from == 0 && bytes.len() > 1000 {
                    bytes[900] ^= 1;
                }
                for piece in bytes.chunks(size) {
                    ends[to].take(Time::ZERO, piece)?;
                }
            }
            if sender.is_done() && receiver.is_done() {
                return Ok((receiver.received(), turn));
            }
        }
        Err("it doesn't end".to_owned())
    }

    #[test]
    fn every_file_arrives_however_it_is_cut() {
        for (count, bytes) in [(1, 1), (1, 70_000), (7, 100), (3, 300_001), (5000, 50_000)] {
            for size in [1, 7, 1434, 1 << 20] {
                let (received, turns) = exchange(Files { count, bytes }, size, false).unwrap();
                assert_eq!(received, bytes, "{count} files in pieces of {size}");
                // The manifest, its acceptance; content and the end.
                assert_eq!(turns, 2);
            }
        }
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let files = Files {
            count: 1,
            bytes: 10_000,
        };
        let error = exchange(files, 1434, true).unwrap_err();
        assert!(
            error.contains("hash") || error.contains("differ"),
            "{error}"
        );
    }
}
