//! Failures as both sides report them: a class, the file and the cause, in the form that travels to
//! the other side.

use crate::conflict::{Conflict, cut};
use crate::manifest::ManifestError;
use crate::name::{NameError, SafeName};
use crate::verify::VerifyError;
use manyway_units::printable;
use std::fmt;
use std::io;

/// Why a transfer ends before it is done: which file, and the cause.
///
/// Both texts are safe to print: they are bounded and free of control characters, whichever side
/// they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The class of the failure, for programs.
    pub code: FailureCode,
    /// The file or directory concerned, if one is.
    pub name: Option<String>,
    /// What happened and how to mend it, for people.
    pub reason: String,
    /// What is nobody's business on the other side, such as where files are here. It doesn't
    /// travel.
    pub here: Option<String>,
}

impl Failure {
    /// Longest [`Failure::name`], in bytes.
    pub const MAX_NAME: usize = 512;
    /// Longest [`Failure::reason`], in bytes.
    pub const MAX_REASON: usize = 2048;

    /// A failure that concerns no file in particular.
    pub fn new(code: FailureCode, reason: impl fmt::Display) -> Self {
        Self {
            code,
            name: None,
            reason: tidy(&reason.to_string(), Self::MAX_REASON),
            here: None,
        }
    }

    /// The same failure, with what is only for people on this side.
    pub fn only_here(mut self, here: impl fmt::Display) -> Self {
        self.here = Some(tidy(&here.to_string(), Self::MAX_REASON));
        self
    }

    /// What the other side is told.
    pub fn for_peer(&self) -> Self {
        Self {
            here: None,
            ..self.clone()
        }
    }

    /// The same failure, said of a file.
    pub fn of(mut self, name: impl AsRef<str>) -> Self {
        self.name = Some(tidy(name.as_ref(), Self::MAX_NAME));
        self
    }

    /// A failed disk operation on `name` (`doing`: "reading", "writing", …), with its class and a
    /// remedy from the error.
    pub fn disk(side: Side, doing: &str, name: impl AsRef<str>, error: &io::Error) -> Self {
        let (code, remedy) = classify(side, doing, error);
        Self::new(
            code,
            format_args!("{doing} failed at the {side}: {error}{remedy}"),
        )
        .of(name)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}: ")?;
        }
        f.write_str(&self.reason)?;
        match &self.here {
            Some(here) => write!(f, " ({here})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// Whose disk a failure happened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that has the files.
    Sender,
    /// The side that gets them.
    Receiver,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Sender => "sender",
            Side::Receiver => "receiver",
        })
    }
}

/// The class of a [`Failure`]. The numbers are the wire's; unknown ones read as
/// [`FailureCode::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureCode {
    /// 0: none of the below.
    Other,
    /// 1: the other side broke the protocol.
    Protocol,
    /// 2: a name that is not a [`SafeName`].
    UnsafeName,
    /// 3: a name that exists already at the receiver.
    Conflict,
    /// 4: no room on the receiver's disk.
    DiskFull,
    /// 5: permission denied on either side.
    Permission,
    /// 6: another failure to read at the sender.
    Read,
    /// 7: another failure to write at the receiver.
    Write,
    /// 8: a file changed (shrank, grew, was rewritten) while it was sent.
    Changed,
    /// 9: a file vanished before or while it was sent.
    Vanished,
    /// 10: the content's hash is not the sender's.
    Mismatch,
    /// 11: whoever runs that side stopped it.
    Cancelled,
    /// 12: the receiver's user doesn't want what is offered, or not so much.
    Refused,
}

impl FailureCode {
    const ALL: [Self; 13] = [
        Self::Other,
        Self::Protocol,
        Self::UnsafeName,
        Self::Conflict,
        Self::DiskFull,
        Self::Permission,
        Self::Read,
        Self::Write,
        Self::Changed,
        Self::Vanished,
        Self::Mismatch,
        Self::Cancelled,
        Self::Refused,
    ];

    /// The number on the wire.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The class with that number, or [`FailureCode::Other`].
    pub fn from_number(number: u16) -> Self {
        Self::ALL
            .get(usize::from(number))
            .copied()
            .unwrap_or(Self::Other)
    }
}

impl From<NameError> for Failure {
    fn from(error: NameError) -> Self {
        Self::new(FailureCode::UnsafeName, &error)
    }
}

impl From<ManifestError> for Failure {
    fn from(error: ManifestError) -> Self {
        Self::new(FailureCode::Protocol, &error)
    }
}

impl Failure {
    /// A conflict over `name`.
    pub fn conflict(name: &SafeName, conflict: Conflict) -> Self {
        Self::new(FailureCode::Conflict, conflict).of(name)
    }

    /// Content of `name` that is not what was announced.
    pub fn content(name: &SafeName, error: VerifyError) -> Self {
        let code = match error {
            VerifyError::Mismatch { .. } => FailureCode::Mismatch,
            VerifyError::TooLong { .. } | VerifyError::TooShort { .. } => FailureCode::Protocol,
        };
        Self::new(code, error).of(name)
    }
}

fn classify(side: Side, doing: &str, error: &io::Error) -> (FailureCode, &'static str) {
    use io::ErrorKind::{
        FileTooLarge, InvalidFilename, InvalidInput, NotFound, PermissionDenied, QuotaExceeded,
        ReadOnlyFilesystem, ResourceBusy, StorageFull,
    };
    match (error.kind(), side) {
        (StorageFull | QuotaExceeded, _) => (
            FailureCode::DiskFull,
            "; make room there, or receive into a directory on another disk",
        ),
        (FileTooLarge, Side::Receiver) => (
            FailureCode::DiskFull,
            "; that file system or a limit (`ulimit -f`) does not allow files of this size",
        ),
        (ReadOnlyFilesystem, Side::Receiver) => (
            FailureCode::Permission,
            "; receive into a directory that can be written to",
        ),
        (PermissionDenied, Side::Sender) => (
            FailureCode::Permission,
            "; make it readable, or leave it out",
        ),
        (PermissionDenied, Side::Receiver) => (
            FailureCode::Permission,
            "; receive into a directory that can be written to",
        ),
        (ResourceBusy, Side::Receiver) => (
            FailureCode::Write,
            "; something is mounted there: unmount it, or leave it out",
        ),
        (InvalidInput | InvalidFilename, Side::Receiver) if doing.starts_with("creating") => (
            FailureCode::Write,
            "; that file system may not allow the name: rename it, or leave it out (`--exclude`)",
        ),
        (NotFound, Side::Sender) => (
            FailureCode::Vanished,
            "; it existed when the transfer began: send again",
        ),
        (_, Side::Sender) => (FailureCode::Read, ""),
        (_, Side::Receiver) => (FailureCode::Write, ""),
    }
}

fn tidy(text: &str, max_bytes: usize) -> String {
    let escaped = printable(text, max_bytes);
    cut(&escaped, max_bytes).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    #[test]
    fn numbers_round_trip_and_unknown_ones_read_as_other() {
        for (n, code) in FailureCode::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(code.number()), n);
            assert_eq!(FailureCode::from_number(code.number()), code);
        }
        assert_eq!(FailureCode::from_number(9999), FailureCode::Other);
    }

    #[test]
    fn texts_are_bounded_and_printable() {
        let failure =
            Failure::new(FailureCode::Other, "\u{1b}é".repeat(5000)).of("\0".repeat(5000));
        assert!(failure.reason.len() <= Failure::MAX_REASON);
        assert!(failure.name.as_ref().unwrap().len() <= Failure::MAX_NAME);
        assert!(!failure.to_string().chars().any(char::is_control));
    }

    #[test]
    fn what_is_only_for_this_side_does_not_travel() {
        let failure = Failure::new(FailureCode::DiskFull, "no room").only_here("/home/ann: 7\n");
        assert_eq!(failure.to_string(), r"no room (/home/ann: 7\n)");
        assert_eq!(failure.for_peer().to_string(), "no room");
        let bytes = Message::Failure(failure).to_bytes();
        assert!(!bytes.windows(4).any(|four| four == b"home"));
    }

    #[test]
    fn conflicts_and_damage_name_the_file() {
        let name = SafeName::parse("d/f").unwrap();
        let failure = Failure::conflict(&name, Conflict::IsSpecial);
        assert_eq!(failure.code, FailureCode::Conflict);
        assert!(failure.to_string().starts_with("d/f: at the receiver"));
        let failure = Failure::content(&name, VerifyError::TooLong { announced: 1 });
        assert_eq!(failure.code, FailureCode::Protocol);
        assert_eq!(failure.name.as_deref(), Some("d/f"));
    }

    #[test]
    fn disk_errors_name_file_side_cause_and_remedy() {
        let full = io::Error::from_raw_os_error(28);
        let failure = Failure::disk(Side::Receiver, "writing", "big.iso", &full);
        assert_eq!(failure.code, FailureCode::DiskFull);
        assert_eq!(
            failure.to_string(),
            "big.iso: writing failed at the receiver: No space left on device (os error 28); make \
             room there, or receive into a directory on another disk"
        );
        // FAT has no colons in names.
        let name = io::Error::from_raw_os_error(22);
        let failure = Failure::disk(Side::Receiver, "creating", "10:30", &name);
        assert!(
            failure
                .to_string()
                .ends_with("rename it, or leave it out (`--exclude`)")
        );
        let other = Failure::disk(Side::Receiver, "syncing", "10:30", &name);
        assert!(other.to_string().ends_with("(os error 22)"));
        let gone = Failure::disk(
            Side::Sender,
            "opening",
            "a",
            &io::Error::from(io::ErrorKind::NotFound),
        );
        assert_eq!(gone.code, FailureCode::Vanished);
    }
}
