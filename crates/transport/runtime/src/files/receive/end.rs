use super::tree::{Dir, RECEIVING_DIR};
use manyway_transfer::failure::Side;
use manyway_transfer::{Failure, SafeName};
use std::io;

/// Why the consumer ends early.
#[derive(Debug)]
pub(super) enum End {
    /// Something is wrong here.
    Here(Failure),
    /// The sender says that something is wrong there.
    There(Failure),
    /// The stream is at its end, or the committer has failed.
    Gone,
}

impl<T: Into<Failure>> From<T> for End {
    fn from(failure: T) -> Self {
        End::Here(failure.into())
    }
}

pub(super) fn write_failure(doing: &str, name: &SafeName, error: io::Error) -> Failure {
    Failure::disk(Side::Receiver, doing, name, &error)
}

pub(super) fn sync_failure(dir: &Dir, error: &io::Error) -> Failure {
    let name = dir.local().map_or(RECEIVING_DIR, |name| name.as_str());
    Failure::disk(Side::Receiver, "syncing", name, error)
}

pub(super) fn spool_failure(error: io::Error) -> Failure {
    Failure::disk(
        Side::Receiver,
        "storing the list of files",
        RECEIVING_DIR,
        &error,
    )
}
