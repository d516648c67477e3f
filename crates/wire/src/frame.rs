use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::BufMut;

use crate::ack::{ACK, ACK_ECN};
use crate::varint::{Reader, put_varint};
use crate::{AckFrame, ConnectionId, DecodeError, PathId, StreamId, varint_len};

/// Most addresses in an ADDRESSES frame and in a ticket.
pub const MAX_ADDRESSES: usize = 32;
/// Most bytes of a CLOSE frame's reason.
pub const MAX_REASON_LEN: usize = 1024;

/// What a packet carries. ACKs are written by [`encode_ack`](crate::encode_ack), which knows how much room is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Fills a packet up.
    Padding,
    /// Asks for an ACK at once.
    Ping,
    /// Acknowledges packets of one path.
    Ack(AckFrame<'a>),
    /// Bytes of a stream.
    Stream {
        /// The stream.
        stream: StreamId,
        /// Offset of the first byte.
        offset: u64,
        /// The stream ends behind these bytes.
        fin: bool,
        /// The bytes.
        data: &'a [u8],
    },
    /// The sender gives its side of a stream up.
    ResetStream {
        /// The stream.
        stream: StreamId,
        /// The application's reason.
        code: u64,
        /// Bytes it had sent.
        final_size: u64,
    },
    /// The sender of this frame wants no more of a stream.
    StopSending {
        /// The stream.
        stream: StreamId,
        /// The application's reason.
        code: u64,
    },
    /// Bytes that may be sent over all streams, from the beginning.
    MaxData {
        /// The new limit.
        max: u64,
    },
    /// The offset a stream may be sent up to.
    MaxStreamData {
        /// The stream.
        stream: StreamId,
        /// The new limit.
        max: u64,
    },
    /// Streams that may be opened, from the beginning.
    MaxStreams {
        /// The new limit.
        count: u64,
    },
    /// To be answered on the path it came by.
    PathChallenge {
        /// What the answer has to repeat.
        data: [u8; 8],
    },
    /// The answer.
    PathResponse {
        /// The challenge's bytes.
        data: [u8; 8],
    },
    /// The sender's connection id for a path.
    PathId {
        /// The path.
        path: PathId,
        /// What goes into the header of packets to the sender of this frame.
        cid: ConnectionId,
    },
    /// How the sender would like a path to be used.
    PathStatus {
        /// The path.
        path: PathId,
        /// The newest counts.
        seq: u64,
        /// Use it only when nothing else works.
        backup: bool,
    },
    /// A path is over.
    PathAbandon {
        /// The path.
        path: PathId,
        /// Why; 0 without further reason.
        code: u64,
    },
    /// Addresses the sender gained since it wrote the ticket, all of them.
    Addresses {
        /// The newest counts.
        seq: u64,
        /// At most [`MAX_ADDRESSES`].
        addresses: Vec<SocketAddr>,
    },
    /// The connection is over.
    Close {
        /// The application's or protocol's code.
        code: u64,
        /// For people; at most [`MAX_REASON_LEN`] bytes.
        reason: &'a str,
    },
}

mod kind {
    pub(super) const PADDING: u8 = 0x00;
    pub(super) const PING: u8 = 0x01;
    pub(super) const STREAM: u8 = 0x04;
    pub(super) const STREAM_FIN: u8 = 0x05;
    pub(super) const RESET_STREAM: u8 = 0x06;
    pub(super) const STOP_SENDING: u8 = 0x07;
    pub(super) const MAX_DATA: u8 = 0x08;
    pub(super) const MAX_STREAM_DATA: u8 = 0x09;
    pub(super) const MAX_STREAMS: u8 = 0x0a;
    pub(super) const PATH_CHALLENGE: u8 = 0x10;
    pub(super) const PATH_RESPONSE: u8 = 0x11;
    pub(super) const PATH_ID: u8 = 0x12;
    pub(super) const PATH_STATUS: u8 = 0x13;
    pub(super) const PATH_ABANDON: u8 = 0x14;
    pub(super) const ADDRESSES: u8 = 0x18;
    pub(super) const CLOSE: u8 = 0x1c;
}

impl<'a> Frame<'a> {
    /// Whether the peer has to acknowledge the packet that carries it.
    pub fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Frame::Padding | Frame::Ack(_) | Frame::Close { .. })
    }

    /// Appends the frame. Lists and reasons longer than allowed are cut.
    pub fn encode(&self, buf: &mut impl BufMut) {
        match self {
            Frame::Padding => buf.put_u8(kind::PADDING),
            Frame::Ping => buf.put_u8(kind::PING),
            Frame::Ack(ack) => buf.put_slice(&ack_bytes(ack)),
            Frame::Stream { stream, offset, fin, data } => {
                let kind = if *fin { kind::STREAM_FIN } else { kind::STREAM };
                fields(buf, kind, &[stream.0, *offset, data.len() as u64]);
                buf.put_slice(data);
            }
            Frame::ResetStream { stream, code, final_size } => {
                fields(buf, kind::RESET_STREAM, &[stream.0, *code, *final_size]);
            }
            Frame::StopSending { stream, code } => fields(buf, kind::STOP_SENDING, &[stream.0, *code]),
            Frame::MaxData { max } => fields(buf, kind::MAX_DATA, &[*max]),
            Frame::MaxStreamData { stream, max } => fields(buf, kind::MAX_STREAM_DATA, &[stream.0, *max]),
            Frame::MaxStreams { count } => fields(buf, kind::MAX_STREAMS, &[*count]),
            Frame::PathChallenge { data } => {
                buf.put_u8(kind::PATH_CHALLENGE);
                buf.put_slice(data);
            }
            Frame::PathResponse { data } => {
                buf.put_u8(kind::PATH_RESPONSE);
                buf.put_slice(data);
            }
            Frame::PathId { path, cid } => {
                fields(buf, kind::PATH_ID, &[path.0.into()]);
                buf.put_slice(&cid.0);
            }
            Frame::PathStatus { path, seq, backup } => {
                fields(buf, kind::PATH_STATUS, &[path.0.into(), *seq, u64::from(*backup)]);
            }
            Frame::PathAbandon { path, code } => fields(buf, kind::PATH_ABANDON, &[path.0.into(), *code]),
            Frame::Addresses { seq, addresses } => {
                let addresses = &addresses[..addresses.len().min(MAX_ADDRESSES)];
                fields(buf, kind::ADDRESSES, &[*seq, addresses.len() as u64]);
                for address in addresses {
                    put_address(buf, address);
                }
            }
            Frame::Close { code, reason } => {
                let reason = cut(reason);
                fields(buf, kind::CLOSE, &[*code, reason.len() as u64]);
                buf.put_slice(reason.as_bytes());
            }
        }
    }

    /// Bytes that [`Frame::encode`] appends.
    pub fn encoded_len(&self) -> usize {
        let fields = |values: &[u64]| 1 + values.iter().map(|v| varint_len(*v)).sum::<usize>();
        match self {
            Frame::Padding | Frame::Ping => 1,
            Frame::Ack(ack) => ack_bytes(ack).len(),
            Frame::Stream { stream, offset, data, .. } => {
                fields(&[stream.0, *offset, data.len() as u64]) + data.len()
            }
            Frame::ResetStream { stream, code, final_size } => fields(&[stream.0, *code, *final_size]),
            Frame::StopSending { stream, code } => fields(&[stream.0, *code]),
            Frame::MaxData { max } => fields(&[*max]),
            Frame::MaxStreamData { stream, max } => fields(&[stream.0, *max]),
            Frame::MaxStreams { count } => fields(&[*count]),
            Frame::PathChallenge { .. } | Frame::PathResponse { .. } => 9,
            Frame::PathId { path, .. } => fields(&[path.0.into()]) + 8,
            Frame::PathStatus { path, seq, .. } => fields(&[path.0.into(), *seq, 0]),
            Frame::PathAbandon { path, code } => fields(&[path.0.into(), *code]),
            Frame::Addresses { seq, addresses } => {
                let addresses = &addresses[..addresses.len().min(MAX_ADDRESSES)];
                fields(&[*seq, addresses.len() as u64]) + addresses.iter().map(address_len).sum::<usize>()
            }
            Frame::Close { code, reason } => {
                let len = cut(reason).len();
                fields(&[*code, len as u64]) + len
            }
        }
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match reader.u8("frame type")? {
            kind::PADDING => Frame::Padding,
            kind::PING => Frame::Ping,
            ACK => Frame::Ack(AckFrame::decode(reader, false)?),
            ACK_ECN => Frame::Ack(AckFrame::decode(reader, true)?),
            kind @ (kind::STREAM | kind::STREAM_FIN) => Frame::Stream {
                stream: StreamId(reader.varint("STREAM frame")?),
                offset: reader.varint("STREAM frame")?,
                fin: kind == kind::STREAM_FIN,
                data: reader.counted(usize::MAX, "STREAM frame")?,
            },
            kind::RESET_STREAM => Frame::ResetStream {
                stream: StreamId(reader.varint("RESET_STREAM frame")?),
                code: reader.varint("RESET_STREAM frame")?,
                final_size: reader.varint("RESET_STREAM frame")?,
            },
            kind::STOP_SENDING => Frame::StopSending {
                stream: StreamId(reader.varint("STOP_SENDING frame")?),
                code: reader.varint("STOP_SENDING frame")?,
            },
            kind::MAX_DATA => Frame::MaxData { max: reader.varint("MAX_DATA frame")? },
            kind::MAX_STREAM_DATA => Frame::MaxStreamData {
                stream: StreamId(reader.varint("MAX_STREAM_DATA frame")?),
                max: reader.varint("MAX_STREAM_DATA frame")?,
            },
            kind::MAX_STREAMS => Frame::MaxStreams { count: reader.varint("MAX_STREAMS frame")? },
            kind::PATH_CHALLENGE => Frame::PathChallenge { data: reader.array("PATH_CHALLENGE frame")? },
            kind::PATH_RESPONSE => Frame::PathResponse { data: reader.array("PATH_RESPONSE frame")? },
            kind::PATH_ID => Frame::PathId {
                path: PathId(reader.varint32("PATH_ID frame")?),
                cid: ConnectionId(reader.array("PATH_ID frame")?),
            },
            kind::PATH_STATUS => Frame::PathStatus {
                path: PathId(reader.varint32("PATH_STATUS frame")?),
                seq: reader.varint("PATH_STATUS frame")?,
                backup: match reader.varint("PATH_STATUS frame")? {
                    0 => false,
                    1 => true,
                    _ => return Err(DecodeError::Invalid { what: "PATH_STATUS frame" }),
                },
            },
            kind::PATH_ABANDON => Frame::PathAbandon {
                path: PathId(reader.varint32("PATH_ABANDON frame")?),
                code: reader.varint("PATH_ABANDON frame")?,
            },
            kind::ADDRESSES => decode_addresses(reader)?,
            kind::CLOSE => {
                let code = reader.varint("CLOSE frame")?;
                let reason = reader.counted(MAX_REASON_LEN, "CLOSE frame")?;
                let reason =
                    std::str::from_utf8(reason).map_err(|_| DecodeError::Invalid { what: "CLOSE frame" })?;
                Frame::Close { code, reason }
            }
            unknown => return Err(DecodeError::UnknownFrame(unknown)),
        })
    }
}

/// The frames of a packet's plaintext, in order; ends after the first error.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    reader: Reader<'a>,
}

impl<'a> Frames<'a> {
    /// Frames of `plain`.
    pub fn new(plain: &'a [u8]) -> Self {
        Self { reader: Reader::new(plain) }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let frame = Frame::decode(&mut self.reader);
        match &frame {
            Ok(Frame::Padding) => {
                // A run of padding is one frame to whoever listens: 1200 bytes of it are common.
                let rest = self.reader.rest();
                let padding = rest.iter().take_while(|byte| **byte == kind::PADDING).count();
                self.reader = Reader::new(&rest[padding..]);
            }
            Ok(_) => {}
            Err(_) => self.reader = Reader::new(&[]),
        }
        Some(frame)
    }
}

/// Bytes of a STREAM frame before its data, when the data has `len` bytes.
pub fn stream_frame_overhead(stream: StreamId, offset: u64, len: usize) -> usize {
    1 + varint_len(stream.0) + varint_len(offset) + varint_len(len as u64)
}

fn fields(buf: &mut impl BufMut, kind: u8, values: &[u64]) {
    buf.put_u8(kind);
    for value in values {
        put_varint(buf, *value);
    }
}

/// An ACK that was decoded, encoded again; only tests and fuzzing do that.
fn ack_bytes(ack: &AckFrame<'_>) -> Vec<u8> {
    let info =
        crate::AckInfo { path: ack.path, delay_us: ack.delay_us, receive_time_us: ack.receive_time_us, ecn: ack.ecn };
    let mut bytes = Vec::new();
    crate::encode_ack(&mut bytes, &info, ack.ranges(), usize::MAX);
    bytes
}

fn cut(reason: &str) -> &str {
    let mut end = reason.len().min(MAX_REASON_LEN);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}

/// Appends a socket address: family (4 or 6), address, port.
pub(crate) fn put_address(buf: &mut impl BufMut, address: &SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            buf.put_u8(4);
            buf.put_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            buf.put_u8(6);
            buf.put_slice(&ip.octets());
        }
    }
    buf.put_u16(address.port());
}

pub(crate) fn address_len(address: &SocketAddr) -> usize {
    if address.is_ipv4() { 7 } else { 19 }
}

pub(crate) fn read_address(reader: &mut Reader<'_>, what: &'static str) -> Result<SocketAddr, DecodeError> {
    let ip = match reader.u8(what)? {
        4 => IpAddr::V4(Ipv4Addr::from(reader.array::<4>(what)?)),
        6 => IpAddr::V6(Ipv6Addr::from(reader.array::<16>(what)?)),
        _ => return Err(DecodeError::Invalid { what }),
    };
    Ok(SocketAddr::new(ip, reader.u16(what)?))
}

fn decode_addresses<'a>(reader: &mut Reader<'_>) -> Result<Frame<'a>, DecodeError> {
    const WHAT: &str = "ADDRESSES frame";
    let seq = reader.varint(WHAT)?;
    let count = reader.varint(WHAT)?;
    if count > MAX_ADDRESSES as u64 {
        return Err(DecodeError::Invalid { what: WHAT });
    }
    let addresses = (0..count).map(|_| read_address(reader, WHAT)).collect::<Result<_, _>>()?;
    Ok(Frame::Addresses { seq, addresses })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address() -> impl Strategy<Value = SocketAddr> {
        prop_oneof![
            any::<([u8; 4], u16)>().prop_map(|(ip, port)| SocketAddr::new(ip.into(), port)),
            any::<([u8; 16], u16)>().prop_map(|(ip, port)| SocketAddr::new(ip.into(), port)),
        ]
    }

    fn number() -> impl Strategy<Value = u64> {
        (0u64..1 << 62, 0u32..62).prop_map(|(value, shift)| value >> shift)
    }

    /// Every frame that owns its content, but PADDING.
    fn frame() -> impl Strategy<Value = Frame<'static>> {
        let path = any::<u32>().prop_map(PathId).boxed();
        let stream = number().prop_map(StreamId).boxed();
        prop_oneof![
            Just(Frame::Ping),
            (stream.clone(), number(), number())
                .prop_map(|(stream, code, final_size)| Frame::ResetStream { stream, code, final_size }),
            (stream.clone(), number()).prop_map(|(stream, code)| Frame::StopSending { stream, code }),
            number().prop_map(|max| Frame::MaxData { max }),
            (stream.clone(), number()).prop_map(|(stream, max)| Frame::MaxStreamData { stream, max }),
            number().prop_map(|count| Frame::MaxStreams { count }),
            any::<[u8; 8]>().prop_map(|data| Frame::PathChallenge { data }),
            any::<[u8; 8]>().prop_map(|data| Frame::PathResponse { data }),
            (path.clone(), any::<[u8; 8]>()).prop_map(|(path, cid)| Frame::PathId { path, cid: ConnectionId(cid) }),
            (path.clone(), number(), any::<bool>())
                .prop_map(|(path, seq, backup)| Frame::PathStatus { path, seq, backup }),
            (path, number()).prop_map(|(path, code)| Frame::PathAbandon { path, code }),
            (number(), prop::collection::vec(address(), 0..=MAX_ADDRESSES))
                .prop_map(|(seq, addresses)| Frame::Addresses { seq, addresses }),
            number().prop_map(|code| Frame::Close { code, reason: "the disk is full" }),
            (stream, number(), any::<bool>())
                .prop_map(|(stream, offset, fin)| Frame::Stream { stream, offset, fin, data: b"some bytes" }),
        ]
    }

    proptest! {
        #[test]
        fn frames_round_trip(frames in prop::collection::vec(frame(), 0..8)) {
            let mut buf = Vec::new();
            for frame in &frames {
                let before = buf.len();
                frame.encode(&mut buf);
                prop_assert_eq!(buf.len() - before, frame.encoded_len());
            }
            let decoded: Result<Vec<_>, _> = Frames::new(&buf).collect();
            prop_assert_eq!(decoded, Ok(frames));
        }

        #[test]
        fn a_cut_off_frame_is_an_error(frame in frame()) {
            let mut buf = Vec::new();
            frame.encode(&mut buf);
            for end in 1..buf.len() {
                prop_assert!(Frames::new(&buf[..end]).any(|f| f.is_err()));
            }
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            crate::fuzzing::frames(&bytes);
        }
    }

    #[test]
    fn padding_is_skipped_in_one_step() {
        let bytes = [0, 0, 0, 1, 0, 0];
        let frames: Vec<_> = Frames::new(&bytes).map(|f| f.expect("valid")).collect();
        assert_eq!(frames, [Frame::Padding, Frame::Ping, Frame::Padding]);
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let reason = "ä".repeat(1000);
        let mut buf = Vec::new();
        Frame::Close { code: 1, reason: &reason }.encode(&mut buf);
        let Some(Ok(Frame::Close { reason, .. })) = Frames::new(&buf).next() else { panic!("no CLOSE") };
        assert_eq!(reason.len(), 1024);
    }

    #[test]
    fn overhead_is_what_the_header_takes() {
        for (stream, offset, len) in [(0, 0, 0), (200, 1 << 20, 1000), (1, 1 << 40, 63)] {
            let data = vec![0; len];
            let frame = Frame::Stream { stream: StreamId(stream), offset, fin: false, data: &data };
            assert_eq!(frame.encoded_len() - len, stream_frame_overhead(StreamId(stream), offset, len));
        }
    }
}
