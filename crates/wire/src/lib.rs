//! Codecs of the manyway protocol, and nothing else: packets, frames, handshake datagrams, tickets.
//!
//! Every decoder takes hostile bytes: it never panics and never allocates by a length it was told.
//! Integers are big-endian; "varint" is RFC 9000, section 16. `docs/protocol.md` specifies it all.

mod ack;
mod error;
mod frame;
mod handshake;
mod packet;
mod params;
mod ticket;
mod types;
mod varint;

#[doc(hidden)]
pub mod fuzzing;

pub use ack::{AckFrame, AckInfo, AckRanges, EcnCounts, encode_ack};
pub use error::DecodeError;
pub use frame::{Frame, Frames, MAX_ADDRESSES, MAX_REASON_LEN, stream_frame_overhead};
pub use handshake::{INIT_LEN, Init, MAC1_LEN, Maced, Reply};
pub use packet::{DATA_HEADER_LEN, DataHeader, PacketType, TAG_LEN, expand_pn};
pub use params::TransportParameters;
pub use ticket::{Ticket, TicketError};
pub use types::{ConnectionId, PathId, StreamId};
pub use varint::{MAX_VARINT, varint_len};

/// The protocol's version, in every INIT and REPLY.
pub const VERSION: u8 = 1;
