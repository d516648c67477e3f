pub(crate) mod kind;

use std::iter::FusedIterator;
use std::net::SocketAddr;

use bytes::BufMut;

use crate::reader::Reader;
use crate::relay::{Consent, Grant, RelayId};
use crate::sink::{Sink, count};
use crate::{AckFrame, ConnectionId, DecodeError, PathId, StreamId, StreamKind, address, varint};

/// Bytes of a path challenge and of its response.
pub const CHALLENGE_LEN: usize = 8;

/// The most bytes of a CLOSE frame's reason.
pub const MAX_REASON_LEN: usize = 1024;

/// The most streams of a kind that a side can open in the life of a connection: their ids have 62
/// bits, two of which name the side and the kind.
pub const MAX_STREAM_COUNT: u64 = 1 << 60;

/// The most relays that the initiator may name at a time: RELAY's slots are below this.
pub const MAX_RELAYS: usize = 256;

/// A frame: the payload of a packet is a sequence of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A run of zero bytes, which only takes up space. Decoding makes one frame of the whole run.
    Padding {
        /// Bytes of the run.
        len: usize,
    },
    /// Asks for an ACK.
    Ping,
    /// Asks for an ACK like data does: stands in for data if only the path matters.
    Filler,
    /// Says which packets of a path arrived. [`encode_ack`](crate::encode_ack) writes one.
    Ack(AckFrame<'a>),
    /// Bytes of a stream.
    Stream {
        /// The stream.
        stream: StreamId,
        /// The offset of the bytes in the stream.
        offset: u64,
        /// Whether the stream ends behind these bytes.
        fin: bool,
        /// The bytes, borrowed from the packet.
        data: &'a [u8],
    },
    /// Bytes that belong to no stream and aren't sent again (RFC 9221).
    Datagram {
        /// The bytes, borrowed from the packet.
        data: &'a [u8],
    },
    /// The sender ends its direction of a stream early.
    ResetStream {
        /// The stream.
        stream: StreamId,
        /// The application's reason.
        code: u64,
        /// How many bytes of the stream were sent.
        final_size: u64,
    },
    /// The sender wants no more bytes of a stream.
    StopSending {
        /// The stream.
        stream: StreamId,
        /// The application's reason.
        code: u64,
    },
    /// The receiver may send this many stream bytes in all.
    MaxData {
        /// The sum of all streams' highest offsets.
        max: u64,
    },
    /// The receiver may send on this stream up to an offset.
    MaxStreamData {
        /// The stream.
        stream: StreamId,
        /// The first offset that may not be sent.
        max: u64,
    },
    /// The receiver may open this many streams of a kind in the life of the connection.
    MaxStreams {
        /// The kind.
        kind: StreamKind,
        /// The number, at most [`MAX_STREAM_COUNT`].
        count: u64,
    },
    /// Asks whether the address can be reached. The answer takes the same path.
    PathChallenge {
        /// Random bytes.
        data: [u8; CHALLENGE_LEN],
    },
    /// Answers a challenge.
    PathResponse {
        /// The challenge's bytes.
        data: [u8; CHALLENGE_LEN],
    },
    /// Gives out a connection id for packets to the frame's sender on a path.
    PathId {
        /// The path.
        path: PathId,
        /// The id.
        cid: ConnectionId,
    },
    /// The frame's sender no longer uses a path, in either direction.
    PathAbandon {
        /// The path.
        path: PathId,
        /// The reason: 0 for none in particular.
        code: u64,
    },
    /// Addresses at which the frame's sender can also be reached.
    Addresses {
        /// Counts the sender's ADDRESSES frames. The highest one counts.
        seq: u64,
        /// The whole list. Only the first [`MAX_ADDRESSES`](crate::MAX_ADDRESSES) are encoded.
        addresses: Vec<SocketAddr>,
    },
    /// Asks the listener to let a relay forward to it, or withdraws the request.
    Relay {
        /// The number by which CONSENT names the relay, below [`MAX_RELAYS`].
        slot: u16,
        /// Counts the slot's RELAY frames. The highest one counts. Another one for the same relay
        /// asks for a new consent.
        seq: u64,
        /// The relay, with one of its addresses; `None` empties the slot.
        relay: Option<(SocketAddr, RelayId)>,
    },
    /// The listener's consent to a relay.
    Consent {
        /// The relay's slot.
        slot: u16,
        /// The `seq` of the slot's newest RELAY frame.
        seq: u64,
        /// The relay's consent.
        consent: Consent,
    },
    /// A grant, which the listener puts in front of its datagrams on a path through a relay.
    Grant {
        /// The path.
        path: PathId,
        /// Counts the path's GRANT frames. The highest one counts.
        seq: u64,
        /// The grant.
        grant: Grant,
    },
    /// The connection is over.
    Close {
        /// The reason: below 0x100 the session's codes, from there on the application's.
        code: u64,
        /// The reason for people, with any characters. Only the first [`MAX_REASON_LEN`] bytes are
        /// encoded.
        reason: &'a str,
    },
}

/// The most bytes of data that a STREAM frame of at most `room` bytes can carry; `None` if not even
/// an empty one fits.
pub fn stream_frame_capacity(stream: StreamId, offset: u64, room: usize) -> Option<usize> {
    let fixed = 1 + varint::len(stream.0) + varint::len(offset);
    // The largest number that a length field of each size can hold, as far as there is room.
    let sizes = [(1, 0x3f), (2, 0x3fff), (4, 0x3fff_ffff), (8, usize::MAX)];
    sizes
        .into_iter()
        .filter_map(|(size, most)| Some(room.checked_sub(fixed + size)?.min(most)))
        .max()
}

/// The bytes of a DATAGRAM frame with so many bytes of data.
pub fn datagram_frame_len(data: usize) -> usize {
    1 + varint::len(data as u64) + data
}

impl<'a> Frame<'a> {
    /// Whether the packet with this frame has to be acknowledged: all frames except PADDING, ACK
    /// and CLOSE.
    pub fn is_ack_eliciting(&self) -> bool {
        !matches!(
            self,
            Frame::Padding { .. } | Frame::Ack(_) | Frame::Close { .. }
        )
    }

    /// Takes a frame from the front of `bytes`. After an error, `bytes` is as before.
    ///
    /// # Errors
    /// `bytes` is empty, or doesn't begin with a frame.
    pub fn decode(bytes: &mut &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let frame = decode(&mut reader)?;
        *bytes = reader.rest();
        Ok(frame)
    }

    /// Writes the frame, [`encoded_len`](Self::encoded_len) bytes. Writes numbers above
    /// [`varint::MAX`] as that.
    pub fn encode(&self, buf: &mut impl BufMut) {
        self.write(buf);
    }

    /// The number of bytes that [`encode`](Self::encode) writes.
    pub fn encoded_len(&self) -> usize {
        count(|out| self.write(out))
    }

    fn write(&self, out: &mut impl Sink) {
        match self {
            Frame::Padding { len } => out.zeros(*len),
            Frame::Ping => out.byte(kind::PING),
            Frame::Filler => out.byte(kind::FILLER),
            Frame::Ack(ack) => ack.write(out),
            Frame::Stream {
                stream,
                offset,
                fin,
                data,
            } => {
                let kind = if *fin { kind::STREAM_FIN } else { kind::STREAM };
                put(out, kind, [stream.0, *offset, data.len() as u64]);
                out.slice(data);
            }
            Frame::Datagram { data } => {
                put(out, kind::DATAGRAM, [data.len() as u64]);
                out.slice(data);
            }
            Frame::ResetStream {
                stream,
                code,
                final_size,
            } => {
                put(out, kind::RESET_STREAM, [stream.0, *code, *final_size]);
            }
            Frame::StopSending { stream, code } => put(out, kind::STOP_SENDING, [stream.0, *code]),
            Frame::MaxData { max } => put(out, kind::MAX_DATA, [*max]),
            Frame::MaxStreamData { stream, max } => {
                put(out, kind::MAX_STREAM_DATA, [stream.0, *max])
            }
            Frame::MaxStreams { kind, count } => {
                let kind = match kind {
                    StreamKind::Bidirectional => kind::MAX_STREAMS,
                    StreamKind::Unidirectional => kind::MAX_STREAMS_UNI,
                };
                put(out, kind, [(*count).min(MAX_STREAM_COUNT)])
            }
            Frame::PathChallenge { data } => {
                put(out, kind::PATH_CHALLENGE, []);
                out.slice(data);
            }
            Frame::PathResponse { data } => {
                put(out, kind::PATH_RESPONSE, []);
                out.slice(data);
            }
            Frame::PathId { path, cid } => {
                put(out, kind::PATH_ID, [path.0.into()]);
                out.slice(&cid.0);
            }
            Frame::PathAbandon { path, code } => {
                put(out, kind::PATH_ABANDON, [path.0.into(), *code])
            }
            Frame::Addresses { seq, addresses } => {
                put(
                    out,
                    kind::ADDRESSES,
                    [*seq, address::sendable(addresses).len() as u64],
                );
                address::put_list(out, addresses);
            }
            Frame::Relay { slot, seq, relay } => {
                put(out, kind::RELAY, [(*slot).into(), *seq]);
                match relay {
                    Some((address, id)) => {
                        address::put_list(out, &[*address]);
                        out.slice(&id.0);
                    }
                    None => out.byte(0),
                }
            }
            Frame::Consent { slot, seq, consent } => {
                put(out, kind::CONSENT, [(*slot).into(), *seq]);
                out.slice(&consent.to_bytes());
            }
            Frame::Grant { path, seq, grant } => {
                put(out, kind::GRANT, [path.0.into(), *seq]);
                out.slice(grant.as_bytes());
            }
            Frame::Close { code, reason } => {
                let reason = sendable(reason);
                put(out, kind::CLOSE, [*code, reason.len() as u64]);
                out.slice(reason.as_bytes());
            }
        }
    }
}

/// The frames of a packet's payload, in order. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    /// The frames of `payload`, an opened packet's plaintext.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let frame = Frame::decode(&mut self.rest);
        if frame.is_err() {
            self.rest = &[];
        }
        Some(frame)
    }
}

impl FusedIterator for Frames<'_> {}

fn decode<'a>(reader: &mut Reader<'a>) -> Result<Frame<'a>, DecodeError> {
    Ok(match reader.u8("a frame's type")? {
        kind::PADDING => {
            let len = reader
                .rest()
                .iter()
                .take_while(|&&byte| byte == kind::PADDING)
                .count();
            reader.take(len, "PADDING")?;
            Frame::Padding { len: 1 + len }
        }
        kind::PING => Frame::Ping,
        kind::FILLER => Frame::Filler,
        kind::ACK => Frame::Ack(AckFrame::decode(reader, false)?),
        kind::ACK_ECN => Frame::Ack(AckFrame::decode(reader, true)?),
        kind::STREAM => stream(reader, false)?,
        kind::STREAM_FIN => stream(reader, true)?,
        kind::DATAGRAM => {
            let len = reader.count("DATAGRAM's data")?;
            let data = reader.take(len, "DATAGRAM's data")?;
            Frame::Datagram { data }
        }
        kind::RESET_STREAM => Frame::ResetStream {
            stream: StreamId(reader.varint("RESET_STREAM's stream")?),
            code: reader.varint("RESET_STREAM's code")?,
            final_size: reader.varint("RESET_STREAM's final size")?,
        },
        kind::STOP_SENDING => Frame::StopSending {
            stream: StreamId(reader.varint("STOP_SENDING's stream")?),
            code: reader.varint("STOP_SENDING's code")?,
        },
        kind::MAX_DATA => Frame::MaxData {
            max: reader.varint("MAX_DATA's limit")?,
        },
        kind::MAX_STREAM_DATA => Frame::MaxStreamData {
            stream: StreamId(reader.varint("MAX_STREAM_DATA's stream")?),
            max: reader.varint("MAX_STREAM_DATA's limit")?,
        },
        kind::MAX_STREAMS => max_streams(reader, StreamKind::Bidirectional)?,
        kind::MAX_STREAMS_UNI => max_streams(reader, StreamKind::Unidirectional)?,
        kind::PATH_CHALLENGE => Frame::PathChallenge {
            data: reader.array("PATH_CHALLENGE's data")?,
        },
        kind::PATH_RESPONSE => Frame::PathResponse {
            data: reader.array("PATH_RESPONSE's data")?,
        },
        kind::PATH_ID => Frame::PathId {
            path: path(reader, "PATH_ID's path")?,
            cid: ConnectionId(reader.array("PATH_ID's connection id")?),
        },
        kind::PATH_ABANDON => Frame::PathAbandon {
            path: path(reader, "PATH_ABANDON's path")?,
            code: reader.varint("PATH_ABANDON's code")?,
        },
        kind::ADDRESSES => {
            let seq = reader.varint("ADDRESSES's sequence number")?;
            let count = reader.varint("ADDRESSES's count")?;
            Frame::Addresses {
                seq,
                addresses: address::get_list(reader, count)?,
            }
        }
        kind::RELAY => Frame::Relay {
            slot: slot(reader, "RELAY's slot")?,
            seq: reader.varint("RELAY's sequence number")?,
            relay: match address::get_optional(reader)? {
                Some(address) => Some((address, RelayId(reader.array("RELAY's relay")?))),
                None => None,
            },
        },
        kind::CONSENT => Frame::Consent {
            slot: slot(reader, "CONSENT's slot")?,
            seq: reader.varint("CONSENT's sequence number")?,
            consent: Consent::get(reader)?,
        },
        kind::GRANT => Frame::Grant {
            path: path(reader, "GRANT's path")?,
            seq: reader.varint("GRANT's sequence number")?,
            grant: Grant::get(reader)?,
        },
        kind::CLOSE => close(reader)?,
        kind => return Err(DecodeError::UnknownFrame { kind }),
    })
}

fn max_streams<'a>(reader: &mut Reader<'a>, kind: StreamKind) -> Result<Frame<'a>, DecodeError> {
    let count = reader.varint_up_to(MAX_STREAM_COUNT, "MAX_STREAMS's limit")?;
    Ok(Frame::MaxStreams { kind, count })
}

fn stream<'a>(reader: &mut Reader<'a>, fin: bool) -> Result<Frame<'a>, DecodeError> {
    let stream = StreamId(reader.varint("STREAM's stream")?);
    let offset = reader.varint("STREAM's offset")?;
    let len = reader.count("STREAM's data")?;
    let data = reader.take(len, "STREAM's data")?;
    // Neither the end of a STREAM nor a count of bytes may exceed the largest varint (RFC 9000,
    // section 19.8).
    let (end, limit) = (offset + len as u64, varint::MAX);
    if end > limit {
        return Err(DecodeError::TooLarge {
            what: "the end of STREAM's data",
            value: end,
            limit,
        });
    }
    Ok(Frame::Stream {
        stream,
        offset,
        fin,
        data,
    })
}

fn close<'a>(reader: &mut Reader<'a>) -> Result<Frame<'a>, DecodeError> {
    const REASON: &str = "CLOSE's reason";
    let code = reader.varint("CLOSE's code")?;
    let len = reader.varint_up_to(MAX_REASON_LEN as u64, REASON)?;
    let reason = reader.take(len as usize, REASON)?;
    let reason = str::from_utf8(reason).map_err(|_| DecodeError::Malformed { what: REASON })?;
    Ok(Frame::Close { code, reason })
}

fn path(reader: &mut Reader<'_>, what: &'static str) -> Result<PathId, DecodeError> {
    Ok(PathId(reader.varint_up_to(u32::MAX.into(), what)? as u32))
}

fn slot(reader: &mut Reader<'_>, what: &'static str) -> Result<u16, DecodeError> {
    Ok(reader.varint_up_to(MAX_RELAYS as u64 - 1, what)? as u16)
}

fn put<const N: usize>(out: &mut impl Sink, kind: u8, fields: [u64; N]) {
    out.byte(kind);
    for field in fields {
        out.varint(field);
    }
}

/// The part of a reason that is encoded. It ends between two characters.
fn sendable(reason: &str) -> &str {
    let mut end = reason.len().min(MAX_REASON_LEN);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}

#[cfg(test)]
mod tests;
