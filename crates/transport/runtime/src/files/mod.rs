//! Files over streams: [`send`] and [`receive`] put the transfer protocol (`docs/transfer.md`) over
//! any pair of [`AsyncRead`](tokio::io::AsyncRead) and [`AsyncWrite`](tokio::io::AsyncWrite), and
//! real files at its ends.
//!
//! Who sends is independent of who connected. Disk work runs on blocking threads that exchange
//! buffers of 256 KiB with the async side through short queues, so that disks, hashing and network
//! overlap and memory stays at a few MiB whatever is transferred. (Summaries hold about 100 bytes
//! and the name of each file, up to [`FileSummary::MOST`] files and
//! [`FileSummary::MOST_BYTES`] of names.)
//!
//! **What the receiver guarantees.** Nothing is created outside its directory: names are
//! [`SafeName`](manyway_transfer::SafeName)s, and every directory below it is opened without
//! following symbolic links and used by descriptor. A file appears under its final name once,
//! complete, verified and synced to disk; until then it is `.NAME.manyway-part-XXXXXXXX` beside it.
//! If the transfer ends early, by error or by dropping the future, what has arrived of a file stays
//! under that name, and the next transfer of a file of that name goes on with it: it compares the
//! content, group by group. What nobody went on with is removed when a transfer begins after
//! [`ReceiveOptions::keep_parts`]. Success is reported after files and directories are synced. The
//! other side is told of a failure what concerns it: no path outside of what is transferred, no
//! free space.
//!
//! **What travels.** Regular files with their holes, directories, symbolic and hard links, the
//! permission bits (within the receiver's umask) and modification times; setuid, setgid and sticky
//! bits, owners, extended attributes and ACLs if [`ReceiveOptions`] ask for them. A path given to
//! [`Sources::new`] may be a symbolic link and is followed; links *inside* a directory are sent as
//! links, of which the receiver takes those that [`Links`] says. Special files are left out. What
//! is left out or changed is in the summaries.
//!
//! ```no_run
//! # async fn example() -> Result<(), manyway_runtime::files::TransferError> {
//! use manyway_runtime::files::{self, Progress, ReceiveOptions, Sources};
//! # let (ours, theirs) = tokio::io::duplex(1 << 16);
//! let sources = Sources::new(["photos", "notes.txt"])?; // checked before anything is connected
//! let sending = files::send(tokio::io::split(ours), sources, Progress::new());
//! let receiving = files::receive(
//!     tokio::io::split(theirs),
//!     "inbox",
//!     ReceiveOptions::default(),
//!     Progress::new(),
//! );
//! let (sent, received) = tokio::try_join!(sending, receiving)?;
//! assert_eq!(sent.files[0].blake3, received.files[0].blake3);
//! # Ok(())
//! # }
//! ```

mod attributes;
mod buffers;
mod error;
mod progress;
mod receive;
mod send;
mod spool;
mod summary;
mod talk;

pub use error::TransferError;
pub use manyway_transfer::{Filter, Hello, Role, RuleError};
pub use progress::{Phase, Progress};
pub use receive::{Allowance, AskDotfiles, Dotfiles, Links, ReceiveOptions, Transfers, receive};
pub use send::{Sources, send};
pub use summary::{
    Deleted, FileSummary, Kept, Planned, PlannedKind, ReceiveSummary, SendSummary, Skipped,
};
pub use talk::{Talk, begin};

#[cfg(test)]
mod tests;
