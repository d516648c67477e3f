//! The messages of a transfer and their bytes.
//!
//! Everything on the stream is a frame: a [`Header`] of four bytes and a body. Bodies are bounded
//! per kind before anything is allocated for them; lists in a body have no count, they end with it.
//! Fields are encoded as postcard does: unsigned integers as LEB128 varints, signed ones zigzag
//! first, text as its length and UTF-8.

mod raw;

use crate::entry::{Cause, Entry};
use crate::failure::{Failure, FailureCode};
use crate::filter::RuleError;
use crate::manifest::{ManifestError, Totals};
use crate::name::{NameError, SafeName};
use crate::scope::Scope;
use crate::verify::Digest;
use crate::wants::Wants;
use raw::RawEntry;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Length of a [`Header`] on the wire, in bytes.
pub const HEADER_LEN: usize = 4;
/// Longest body of every frame but [`FrameKind::Data`], in bytes.
pub const MAX_MESSAGE: usize = 64 << 10;
/// Longest body of a [`FrameKind::Data`] frame, in bytes.
pub const MAX_DATA: usize = 1 << 20;
/// Most hashes of groups, and ends of such lists, that a receiver may have told before the sender
/// has come to them.
pub const BASIS_WINDOW: usize = 4096;

/// Most groups of a [`FrameKind::Hole`] frame: both sides hash them, and could do nothing else
/// meanwhile.
pub const MAX_HOLE: u64 = 1024;

/// The first bytes of a stream that carries a pipe or a TCP connection (`docs/forward.md`).
const FORWARDING: [u8; HEADER_LEN] = *b"mwfw";

/// What a frame is. The numbers are the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// 1: version and role; the first frame each way.
    Hello = 1,
    /// 2: a run of manifest entries (sender).
    Entries = 2,
    /// 3: the end of the manifest (sender).
    Offered = 3,
    /// 4: the receiver wants all of it (receiver).
    Accept = 4,
    /// 5: the next bytes of the current file (sender).
    Data = 5,
    /// 6: the end of the current file: its BLAKE3 hash (sender).
    Trailer = 6,
    /// 7: files that are safely on disk under their final names (receiver).
    Saved = 7,
    /// 8: all is safely on disk (receiver).
    Done = 8,
    /// 9: the sender has seen `Done` (sender).
    Bye = 9,
    /// 10: the transfer is over without being done (either side).
    Failure = 10,
    /// 11: what is wanted of the files, before `Accept` (receiver).
    Wants = 11,
    /// 12: hashes of groups of the next file of which the difference is wanted (receiver).
    Basis = 12,
    /// 13: the next groups of the current file are as the receiver has them (sender).
    Kept = 13,
    /// 14: the next groups of the current file are zeros, in a hole (sender).
    Hole = 14,
    /// 15: what the manifest speaks for, before its first entry (sender).
    Scope = 15,
    /// 16: names that the receiver has deleted (receiver).
    Deleted = 16,
    /// 17: the rest of the current file doesn't come (sender).
    LeftOut = 17,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Hello,
            2 => Self::Entries,
            3 => Self::Offered,
            4 => Self::Accept,
            5 => Self::Data,
            6 => Self::Trailer,
            7 => Self::Saved,
            8 => Self::Done,
            9 => Self::Bye,
            10 => Self::Failure,
            11 => Self::Wants,
            12 => Self::Basis,
            13 => Self::Kept,
            14 => Self::Hole,
            15 => Self::Scope,
            16 => Self::Deleted,
            17 => Self::LeftOut,
            _ => return None,
        })
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The four bytes before every body: kind (1 byte), length of the body (3 bytes, big-endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What follows.
    pub kind: FrameKind,
    /// How many bytes follow: at most [`MAX_DATA`] or [`MAX_MESSAGE`].
    pub len: usize,
}

impl Header {
    /// A header for a body of `len` bytes.
    ///
    /// # Panics
    /// If `len` is over the kind's limit, which is a mistake of the caller.
    pub fn new(kind: FrameKind, len: usize) -> Self {
        assert!(len <= limit(kind), "a {kind} body of {len} bytes");
        Self { kind, len }
    }

    /// The bytes.
    pub fn encode(self) -> [u8; HEADER_LEN] {
        let [_, a, b, c] = (self.len as u32).to_be_bytes();
        [self.kind as u8, a, b, c]
    }

    /// Reads a header; a body within its bounds may then be allocated.
    ///
    /// # Errors
    /// Unknown kind, or a length over the kind's limit (or 0 for data).
    pub fn decode(bytes: [u8; HEADER_LEN]) -> Result<Self, ProtocolError> {
        if bytes == FORWARDING {
            return Err(ProtocolError::Forwarding);
        }
        let [kind, a, b, c] = bytes;
        let kind = FrameKind::from_byte(kind).ok_or(ProtocolError::UnknownFrame(kind))?;
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        if len > limit(kind) || (kind == FrameKind::Data && len == 0) {
            return Err(ProtocolError::Length { kind, len });
        }
        Ok(Self { kind, len })
    }
}

fn limit(kind: FrameKind) -> usize {
    match kind {
        FrameKind::Data => MAX_DATA,
        _ => MAX_MESSAGE,
    }
}

/// A frame other than [`FrameKind::Data`], decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// First frame each way.
    Hello(Hello),
    /// A run of the manifest.
    Entries(Vec<Entry>),
    /// End of the manifest.
    Offered(Totals),
    /// The receiver wants it.
    Accept,
    /// End of a file.
    Trailer(Digest),
    /// Files on disk.
    Saved(Saved),
    /// All on disk: the totals as the receiver counted them.
    Done {
        /// Of the manifest.
        totals: Totals,
        /// How many entries the receiver has left out or changed.
        altered: u64,
    },
    /// Farewell.
    Bye,
    /// The end without success.
    Failure(Failure),
    /// The next of [`Wants::bytes`].
    Wants(Vec<u8>),
    /// Hashes of the next groups of a file; none: there are no more of that file.
    Basis(Vec<Digest>),
    /// So many groups needn't be sent.
    Kept(u64),
    /// So many groups are zeros, and lie in a hole: 1 to [`MAX_HOLE`].
    Hole(u64),
    /// What the manifest speaks for.
    Scope(Scope),
    /// What the sender doesn't have and the receiver has deleted.
    Deleted(Vec<SafeName>),
    /// Why the rest of a file doesn't come.
    LeftOut(Cause),
}

/// The first message of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Highest version of the protocol this side speaks.
    pub version: u16,
    /// Features this side has, a bit each; those both have are in use.
    pub features: u64,
    /// What this side is going to do.
    pub role: Role,
}

impl Hello {
    /// The version this code speaks.
    pub const VERSION: u16 = 4;
    /// Feature: entries have their owners.
    pub const OWNERS: u64 = 1;
    /// Feature: entries have their extended attributes.
    pub const ATTRIBUTES: u64 = 2;
    /// Feature: entries have their ACLs.
    pub const ACLS: u64 = 4;
    const MAGIC: [u8; 4] = *b"mwft";

    /// Our hello.
    pub fn new(role: Role) -> Self {
        Self {
            version: Self::VERSION,
            features: 0,
            role,
        }
    }

    /// What both sides can do, from our hello and theirs.
    ///
    /// # Errors
    /// [`ProtocolError::SameRole`] or [`ProtocolError::Version`].
    pub fn agree(self, theirs: Hello) -> Result<Agreement, ProtocolError> {
        if self.role == theirs.role {
            return Err(ProtocolError::SameRole(self.role));
        }
        let version = self.version.min(theirs.version);
        if version < Self::VERSION {
            return Err(ProtocolError::Version {
                ours: self.version,
                theirs: theirs.version,
            });
        }
        Ok(Agreement {
            version,
            features: self.features & theirs.features,
        })
    }
}

/// What two [`Hello`]s agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The lower of both versions.
    pub version: u16,
    /// The features both have.
    pub features: u64,
}

impl Agreement {
    /// Do both sides have that feature?
    pub fn has(self, feature: u64) -> bool {
        self.features & feature > 0
    }
}

/// Who sends the files; independent of who connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends files.
    Sender,
    /// Receives files.
    Receiver,
}

/// Progress report of the receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// How many of the files that weren't there before, in the manifest's order, are safely on disk
    /// under their final names.
    pub files: u64,
    /// Those among the new ones whose final name is not the manifest's, ascending.
    pub renamed: Vec<Renamed>,
}

/// A file that got another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Which file, counting those that weren't there before (not directories) from 0 in the
    /// manifest's order.
    pub file: u64,
    /// Its name below the receiving directory.
    pub name: SafeName,
}

impl Message {
    /// Appends the frame, header and body, to `out`.
    ///
    /// # Panics
    /// If the body is over [`MAX_MESSAGE`]: split long lists with [`Batch`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_LEN]);
        self.encode_body(out);
        let len = out.len() - start - HEADER_LEN;
        out[start..start + HEADER_LEN].copy_from_slice(&Header::new(self.kind(), len).encode());
    }

    /// The frame's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// The frame's kind.
    pub fn kind(&self) -> FrameKind {
        match self {
            Message::Hello(_) => FrameKind::Hello,
            Message::Entries(_) => FrameKind::Entries,
            Message::Offered(_) => FrameKind::Offered,
            Message::Accept => FrameKind::Accept,
            Message::Trailer(_) => FrameKind::Trailer,
            Message::Saved(_) => FrameKind::Saved,
            Message::Done { .. } => FrameKind::Done,
            Message::Bye => FrameKind::Bye,
            Message::Failure(_) => FrameKind::Failure,
            Message::Wants(_) => FrameKind::Wants,
            Message::Basis(_) => FrameKind::Basis,
            Message::Kept(_) => FrameKind::Kept,
            Message::Hole(_) => FrameKind::Hole,
            Message::Scope(_) => FrameKind::Scope,
            Message::Deleted(_) => FrameKind::Deleted,
            Message::LeftOut(_) => FrameKind::LeftOut,
        }
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Message::Hello(hello) => put(out, &RawHello::from(*hello)),
            Message::Entries(entries) => entries
                .iter()
                .for_each(|entry| put(out, &RawEntry::from(entry))),
            Message::Offered(totals) => put(out, totals),
            Message::Done { totals, altered } => put(out, &(totals, altered)),
            Message::Accept | Message::Bye => {}
            Message::Trailer(digest) => out.extend_from_slice(&digest.0),
            Message::Saved(saved) => {
                put(out, &saved.files);
                saved
                    .renamed
                    .iter()
                    .for_each(|r| put(out, &(r.file, r.name.as_str())));
            }
            Message::Failure(failure) => put(
                out,
                &(
                    failure.code.number(),
                    failure.name.as_deref(),
                    failure.reason.as_str(),
                ),
            ),
            Message::Wants(wants) => out.extend_from_slice(wants),
            Message::Basis(hashes) => hashes
                .iter()
                .for_each(|hash| out.extend_from_slice(&hash.0)),
            Message::Kept(groups) | Message::Hole(groups) => put(out, groups),
            Message::Scope(scope) => {
                put(out, &scope.flags());
                scope.filter.rules().for_each(|rule| put(out, &rule));
            }
            Message::Deleted(names) => names.iter().for_each(|name| put(out, &name.as_str())),
            Message::LeftOut(cause) => out.push(*cause as u8),
        }
    }

    /// Decodes the body of a frame of kind `kind`.
    ///
    /// # Errors
    /// Never panics; allocates no more than in proportion to `body`. Says what is wrong with it.
    pub fn decode(kind: FrameKind, body: &[u8]) -> Result<Self, ProtocolError> {
        let mut body = Body { kind, rest: body };
        let message = match kind {
            // What a later version adds to its Hello is skipped.
            FrameKind::Hello => return Ok(Message::Hello(body.take::<RawHello>()?.check()?)),
            FrameKind::Entries => Message::Entries(body.take_all(|raw: RawEntry<'_>| raw.check())?),
            FrameKind::Offered => Message::Offered(body.take()?),
            FrameKind::Accept => Message::Accept,
            FrameKind::Data => return Err(ProtocolError::Unexpected(kind)),
            FrameKind::Trailer => Message::Trailer(Digest(body.take()?)),
            FrameKind::Saved => Message::Saved(Saved {
                files: body.take()?,
                renamed: body.take_all(|(file, name): (u64, &str)| {
                    Ok(Renamed {
                        file,
                        name: SafeName::parse(name)?,
                    })
                })?,
            }),
            FrameKind::Done => {
                let (totals, altered) = body.take()?;
                Message::Done { totals, altered }
            }
            FrameKind::Bye => Message::Bye,
            FrameKind::Failure => {
                let (code, name, reason): (u16, Option<&str>, &str) = body.take()?;
                let failure = Failure::new(FailureCode::from_number(code), reason);
                Message::Failure(match name {
                    Some(name) => failure.of(name),
                    None => failure,
                })
            }
            FrameKind::Wants if Wants::are_valid(body.rest) => {
                Message::Wants(std::mem::take(&mut body.rest).to_vec())
            }
            FrameKind::Wants => return Err(ProtocolError::Malformed(kind)),
            FrameKind::Basis => Message::Basis(body.take_all(|hash| Ok(Digest(hash)))?),
            FrameKind::Kept => Message::Kept(body.take()?),
            FrameKind::Hole => match body.take()? {
                groups @ 1..=MAX_HOLE => Message::Hole(groups),
                _ => return Err(ProtocolError::Malformed(kind)),
            },
            FrameKind::Scope => {
                let scope = Scope::from_flags(body.take()?);
                let mut scope = scope.ok_or(ProtocolError::Malformed(kind))?;
                for rule in body.take_all(Ok::<&str, _>)? {
                    scope.filter.push(rule)?;
                }
                Message::Scope(scope)
            }
            FrameKind::Deleted => {
                Message::Deleted(body.take_all(|name: &str| Ok(SafeName::parse(name)?))?)
            }
            FrameKind::LeftOut => {
                let cause = Cause::from_number(body.take()?);
                Message::LeftOut(cause.ok_or(ProtocolError::Malformed(kind))?)
            }
        };
        body.end()?;
        Ok(message)
    }
}

/// Collects list items until they fill a message.
///
/// ```
/// # use manyway_transfer::message::Batch;
/// let mut batch = Batch::default();
/// assert!(batch.add("item".len()) && !batch.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct Batch {
    bytes: usize,
}

impl Batch {
    /// Room left for what comes before the list.
    const TARGET: usize = MAX_MESSAGE - 64;

    /// Counts an item with that many bytes of text (and [`Batch::OVERHEAD`]); `false`: it does not
    /// fit, send the batch and start a new one.
    pub fn add(&mut self, text: usize) -> bool {
        let bytes = text + Self::OVERHEAD;
        if self.bytes > 0 && self.bytes + bytes > Self::TARGET {
            return false;
        }
        self.bytes += bytes;
        true
    }

    /// Upper bound of an item's encoding beside its text.
    pub const OVERHEAD: usize = 80;

    /// Has nothing been added?
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

/// A peer that doesn't keep to the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A frame kind that version 4 doesn't have.
    #[error("frame of unknown kind {0}; does the other side run a newer manyway?")]
    UnknownFrame(u8),
    /// A body longer than its kind allows.
    #[error("{kind} frame of {len} bytes")]
    Length {
        /// The kind.
        kind: FrameKind,
        /// The claimed length.
        len: usize,
    },
    /// A body that isn't what its kind has.
    #[error("malformed {0} frame")]
    Malformed(FrameKind),
    /// A frame that has no place here.
    #[error("unexpected {0} frame")]
    Unexpected(FrameKind),
    /// The stream doesn't begin like a transfer.
    #[error("one side wants to transfer files, and the other something else")]
    NotATransfer,
    /// The stream begins like a pipe or a forwarded TCP connection.
    #[error(
        "this ticket is for files (`manyway send` and `recv`), and not for a pipe (`-`), `forward` \
         or `connect`"
    )]
    Forwarding,
    /// No version in common.
    #[error(
        "no common version of the transfer protocol: {ours} here, {theirs} there; update the older \
         side"
    )]
    Version {
        /// Ours.
        ours: u16,
        /// Theirs.
        theirs: u16,
    },
    /// Both want to do the same.
    #[error(
        "both sides want to {}: on one of them, run `manyway {}` with the other one's ticket",
        match .0 { Role::Sender => "send", Role::Receiver => "receive" },
        match .0 { Role::Sender => "recv --from", Role::Receiver => "send PATH… --to" }
    )]
    SameRole(Role),
    /// A counter that went backwards or past its end.
    #[error("the {0} frame's numbers don't match what was sent")]
    Counts(FrameKind),
    /// A name that is not safe.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A rule that is none.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// A manifest that breaks the rules.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

#[derive(Serialize, Deserialize)]
struct RawHello {
    magic: [u8; 4],
    version: u16,
    features: u64,
    role: u8,
}

impl From<Hello> for RawHello {
    fn from(hello: Hello) -> Self {
        Self {
            magic: Hello::MAGIC,
            version: hello.version,
            features: hello.features,
            role: match hello.role {
                Role::Sender => 0,
                Role::Receiver => 1,
            },
        }
    }
}

impl RawHello {
    fn check(self) -> Result<Hello, ProtocolError> {
        let role = match self.role {
            _ if self.magic != Hello::MAGIC => return Err(ProtocolError::NotATransfer),
            0 => Role::Sender,
            1 => Role::Receiver,
            _ => return Err(ProtocolError::Malformed(FrameKind::Hello)),
        };
        Ok(Hello {
            version: self.version,
            features: self.features,
            role,
        })
    }
}

struct Body<'a> {
    kind: FrameKind,
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    fn take<T: Deserialize<'a>>(&mut self) -> Result<T, ProtocolError> {
        let (value, rest) = postcard::take_from_bytes(self.rest)
            .map_err(|_| ProtocolError::Malformed(self.kind))?;
        self.rest = rest;
        Ok(value)
    }

    fn take_all<R: Deserialize<'a>, T>(
        &mut self,
        check: impl Fn(R) -> Result<T, ProtocolError>,
    ) -> Result<Vec<T>, ProtocolError> {
        let mut all = Vec::new();
        while !self.rest.is_empty() {
            all.push(check(self.take()?)?);
        }
        Ok(all)
    }

    fn end(&self) -> Result<(), ProtocolError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ProtocolError::Malformed(self.kind))
        }
    }
}

fn put<T: Serialize>(out: &mut Vec<u8>, value: &T) {
    postcard::to_io(value, out).expect("these types serialize, and writing to a Vec succeeds");
}

impl From<ProtocolError> for Failure {
    fn from(error: ProtocolError) -> Self {
        match error {
            ProtocolError::Name(error) => error.into(),
            ProtocolError::Manifest(error) => error.into(),
            other => Self::new(FailureCode::Protocol, other),
        }
    }
}

#[cfg(test)]
mod tests;
