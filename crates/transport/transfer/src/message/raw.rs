//! The bytes of a manifest's entry.

use super::{Body, ProtocolError, put};
use crate::entry::{Attribute, Cause, Entry, Kind, Owner, Target, Timestamp};
use crate::message::FrameKind;
use crate::name::SafeName;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

const MALFORMED: ProtocolError = ProtocolError::Malformed(FrameKind::Entries);

#[derive(Serialize, Deserialize)]
pub(super) struct RawEntry<'a> {
    name: &'a str,
    #[serde(borrow)]
    kind: RawKind<'a>,
    mode: u16,
    seconds: i64,
    nanos: u32,
    #[serde(borrow)]
    owner: Option<RawOwner<'a>>,
    /// Names and values, one after the other.
    #[serde(borrow)]
    attributes: Cow<'a, [u8]>,
}

/// The variants' numbers are the entry's type on the wire.
#[derive(Serialize, Deserialize)]
enum RawKind<'a> {
    File { size: u64, holes: u64, shared: bool },
    Directory,
    Symlink(&'a str),
    HardLink(u64),
    LeftOut(u8),
}

#[derive(Serialize, Deserialize)]
struct RawOwner<'a> {
    uid: u32,
    gid: u32,
    user: &'a str,
    group: &'a str,
}

impl<'a> From<&'a Entry> for RawEntry<'a> {
    fn from(entry: &'a Entry) -> Self {
        let mut attributes = Vec::new();
        for Attribute { name, value } in &entry.attributes {
            put(&mut attributes, &(name, value));
        }
        Self {
            name: entry.name.as_str(),
            kind: match &entry.kind {
                Kind::File => RawKind::File {
                    size: entry.size,
                    holes: entry.holes,
                    shared: entry.shared,
                },
                Kind::Directory => RawKind::Directory,
                Kind::Symlink(target) => RawKind::Symlink(target.as_str()),
                Kind::HardLink(number) => RawKind::HardLink(*number),
                Kind::LeftOut(cause) => RawKind::LeftOut(*cause as u8),
            },
            mode: entry.mode & Entry::MODE_MASK,
            seconds: entry.mtime.seconds,
            nanos: entry.mtime.nanos,
            owner: entry.owner.as_ref().map(|owner| RawOwner {
                uid: owner.uid,
                gid: owner.gid,
                user: &owner.user,
                group: &owner.group,
            }),
            attributes: attributes.into(),
        }
    }
}

impl RawEntry<'_> {
    pub(super) fn check(self) -> Result<Entry, ProtocolError> {
        let mut entry = Entry::new(SafeName::parse(self.name)?, Kind::File);
        match self.kind {
            RawKind::File {
                size,
                holes,
                shared,
            } if holes <= size => {
                (entry.size, entry.holes, entry.shared) = (size, holes, shared);
            }
            RawKind::File { .. } => return Err(MALFORMED),
            RawKind::Directory => entry.kind = Kind::Directory,
            RawKind::Symlink(target) => {
                entry.kind = Kind::Symlink(Target::parse(target).ok_or(MALFORMED)?);
            }
            RawKind::HardLink(number) => entry.kind = Kind::HardLink(number),
            RawKind::LeftOut(cause) => {
                entry.kind = Kind::LeftOut(Cause::from_number(cause).ok_or(MALFORMED)?);
            }
        }
        // A nanosecond field of 2^30 - 1 or - 2 would mean "now" or "leave" to utimensat.
        if self.nanos >= 1_000_000_000 {
            return Err(MALFORMED);
        }
        entry.mode = self.mode & Entry::MODE_MASK;
        entry.mtime = Timestamp {
            seconds: self.seconds,
            nanos: self.nanos,
        };
        entry.owner = self.owner.map(RawOwner::check).transpose()?;
        entry.attributes = attributes(&self.attributes)?;
        Ok(entry)
    }
}

impl RawOwner<'_> {
    fn check(self) -> Result<Owner, ProtocolError> {
        let owner = Owner {
            uid: self.uid,
            gid: self.gid,
            user: self.user.to_owned(),
            group: self.group.to_owned(),
        };
        owner.is_valid().then_some(owner).ok_or(MALFORMED)
    }
}

fn attributes(bytes: &[u8]) -> Result<Vec<Attribute>, ProtocolError> {
    // Before each becomes two allocations.
    if bytes.len() > Entry::MAX_ATTRIBUTES {
        return Err(MALFORMED);
    }
    let mut body = Body {
        kind: FrameKind::Entries,
        rest: bytes,
    };
    let list = body.take_all(|(name, value): (&str, &[u8])| {
        Ok(Attribute {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    })?;
    Attribute::are_valid(&list).then_some(list).ok_or(MALFORMED)
}
