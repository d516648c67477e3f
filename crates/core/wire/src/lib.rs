//! The codecs of the manyway protocol: datagrams, frames, transport parameters, tickets, and the
//! messages of relays.
//!
//! This crate owns the bytes. It keeps no state, does no I/O and computes no cryptography.
//! Every decoder takes bytes that a hostile peer may have chosen: none panics, none allocates in
//! proportion to what the bytes claim, and frames borrow from the packet they arrived in.
//! `docs/protocol.md` and, for [`relay`], `docs/relays.md` say what the fields mean and when they
//! are sent.
//!
//! ```
//! use manyway_wire::{Frame, Frames, StreamId};
//!
//! let mut packet = Vec::new();
//! Frame::Stream { stream: StreamId(0), offset: 0, fin: true, data: b"hello" }.encode(&mut packet);
//! Frame::Ping.encode(&mut packet);
//!
//! let frames: Result<Vec<_>, _> = Frames::new(&packet).collect();
//! assert_eq!(frames.unwrap().len(), 2);
//! ```

mod ack;
mod address;
mod datagram;
mod error;
pub mod forward;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod id;
mod other_version;
mod params;
mod peer;
mod reader;
mod record;
pub mod relay;
mod sink;
mod text;
mod ticket;
pub mod varint;
mod version;

pub use ack::{AckFrame, AckInfo, AckRanges, EcnCounts, encode_ack};
pub use address::MAX_ADDRESSES;
pub use datagram::{
    DATA_HEADER_LEN, DataHeader, DatagramType, MIN_DATA_LEN, OPENING, TAG_LEN, expand_pn,
};
pub use error::DecodeError;
pub use frame::{
    CHALLENGE_LEN, Frame, Frames, MAX_REASON_LEN, MAX_RELAYS, MAX_STREAM_COUNT, datagram_frame_len,
    stream_frame_capacity,
};
pub use handshake::{
    COOKIE_LEN, COOKIE_NONCE_LEN, COOKIE_VALUE_LEN, Cookie, INIT_LEN, Init, MAC1_LEN, MAC2_LEN,
    MAX_INIT_NOISE, MAX_REPLY_LEN, MAX_REPLY_NOISE, Reply, Signed,
};
pub use id::{CID_LEN, ConnectionId, PathId, StreamId, StreamKind, TICKET_ID_LEN};
pub use other_version::{AnyInit, OTHER_VERSION_LEN, OtherVersion};
pub use params::TransportParameters;
pub use peer::PeerId;
pub use record::{MAX_RECORD, RECORD_HEADER_LEN, RecordError, RecordReader, record_header};
pub use text::TextError;
pub use ticket::{
    LentAccess, LentRegistry, LentRelay, MAX_CREDENTIAL_LEN, MAX_LENT_URLS, MAX_TICKET_RELAYS,
    MAX_URL_LEN, Ticket,
};
pub use version::VERSION;
