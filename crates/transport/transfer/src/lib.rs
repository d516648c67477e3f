//! The file transfer protocol without files or sockets: names, manifests, messages, verification.
//!
//! `docs/transfer.md` specifies it; it runs over one reliable, ordered, bidirectional stream. This
//! crate owns the messages' bytes and the rules for what a peer may say. It never touches a disk, a
//! socket or a clock: the module `files` of `manyway-runtime` does.
//!
//! The life of a transfer, and the modules that hold its parts:
//!
//! 1. both sides say [`Hello`] ([`message`]);
//! 2. the sender offers [`Entry`] after [`Entry`]; a [`Manifest`] checks that they make a tree of
//!    [`SafeName`]s ([`name`], [`entry`], [`manifest`]);
//! 3. the receiver decides what to do with names that exist already ([`conflict`]), says what it
//!    wants of each file ([`wants`]), and accepts or fails;
//! 4. the sender sends the bytes of each file that the receiver doesn't have, and its BLAKE3 hash;
//!    a [`Verifier`] holds both to the manifest ([`verify`]);
//! 5. whatever goes wrong becomes a [`Failure`] that names the file and the cause, and both sides
//!    get to see it ([`failure`]).

pub mod conflict;
pub mod entry;
pub mod failure;
pub mod filter;
pub mod manifest;
pub mod message;
pub mod name;
pub mod scope;
pub mod verify;
pub mod wants;

pub use conflict::{Conflict, Decision, Existing, Policy, decide, numbered};
pub use entry::{Attribute, Cause, Entry, Kind, Owner, Target, Timestamp};
pub use failure::{Failure, FailureCode};
pub use filter::{Filter, RuleError};
pub use manifest::{Manifest, ManifestError, Totals};
pub use message::{
    Agreement, FrameKind, Header, Hello, Message, ProtocolError, Renamed, Role, Saved,
};
pub use name::{NameError, NameProblem, SafeName};
pub use scope::Scope;
pub use verify::{Digest, GROUP, Verifier, VerifyError, ZEROS, group_hash, groups};
pub use wants::{Want, Wants};
