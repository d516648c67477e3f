//! What the ends of all transfers share. A receiver prints `ready`, followed by what its sender
//! needs to know (a ticket, a certificate); at the end both print how many datagrams they sent.

use std::net::SocketAddr;

/// A way from an address of the sender's to one of the receiver's.
pub(crate) type Way = (SocketAddr, SocketAddr);

/// What is written at once.
pub(crate) const CHUNK: usize = 1 << 20;

/// The receiver listens.
pub(crate) fn ready(text: &str) {
    println!("ready {text}");
}

/// All is sent or received, in so many datagrams of our own.
pub(crate) fn done(sent: u64) {
    println!("done {sent}");
}

/// The parts in which so many bytes are written.
pub(crate) fn parts(bytes: usize) -> impl Iterator<Item = usize> {
    (0..bytes)
        .step_by(CHUNK)
        .map(move |at| CHUNK.min(bytes - at))
}
