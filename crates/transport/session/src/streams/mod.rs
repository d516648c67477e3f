//! Streams: ordered bytes over a connection that delivers pieces in any order, or not at all.
//!
//! [`Streams`] holds a connection's streams: send buffers and what is to be sent again, reassembly,
//! flow control with auto-tuned receive windows, and each stream's life from open to the last
//! acknowledgement. It is sans-IO and knows neither packets nor paths: the connection asks for
//! [`Chunk`]s and control frames, remembers in which packet each went, and reports a
//! [`StreamRange`] as acked or lost, any number of times and in any order. The same range may be
//! under way on several paths.
//!
//! The rules are QUIC's (RFC 9000 §2-4), with one initial limit for both kinds of streams:
//! - *Life.* A stream's state is dropped when both directions are over: sent, finished and
//!   acknowledged (or reset) on one side, read to the end (or to the reset, or stopped) on the
//!   other. The application is told before state goes: an end or a reset waits until it was read.
//! - *STOP_SENDING* resets the sending side with the peer's code; the next write says so.
//! - *Flow control* counts the highest offset of each stream, and, over all streams, their sum. A
//!   new limit is told when half a window was consumed; a window doubles when that took less than
//!   two round trips.
//! - *Hostile peers.* Every frame is checked against the limits before anything is stored. Received
//!   bytes take memory as they arrive, some nine times their frames at most, and never more than
//!   9/8 of the window, whatever the sizes of the fragments, and two blocks of 64 KiB per stream.

mod assembler;
mod buffer;
mod error;
mod ranges;
mod receive;
mod recv;
mod send;
mod set;
mod stream;
mod transmit;
mod turns;
mod types;
mod window;

#[cfg(test)]
mod tests;

use manyway_wire::{StreamId, StreamKind};

pub use error::{OpenError, ReadError, StreamsError, WriteError};
pub use set::Streams;
pub(crate) use transmit::MAX_CONTROL_LEN;
pub use types::{Chunk, MAX_OFFSET, StreamEvent, StreamRange, StreamsConfig};
