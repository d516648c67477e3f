use std::fmt::Write;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::relay::{self, ForwardHeader, Mac, RateClass};
use crate::{AckInfo, EcnCounts, MAX_ADDRESSES, encode_ack, fuzzing};

fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    assert_eq!(bytes.len(), frame.encoded_len(), "{frame:?}");
    bytes
}

fn decoded(bytes: &[u8]) -> Result<Vec<Frame<'_>>, DecodeError> {
    Frames::new(bytes).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

/// The format may not change by accident: two releases have to understand each other.
#[test]
fn every_frame_byte_by_byte() {
    let (stream, path) = (StreamId(5), PathId(300));
    let frames = [
        Frame::Padding { len: 3 },
        Frame::Ping,
        Frame::Filler,
        Frame::Stream {
            stream,
            offset: 0,
            fin: false,
            data: b"abc",
        },
        Frame::Stream {
            stream,
            offset: 0x1_0000_0000,
            fin: true,
            data: b"",
        },
        Frame::Datagram { data: b"packet" },
        Frame::ResetStream {
            stream,
            code: 64,
            final_size: 16_384,
        },
        Frame::StopSending { stream, code: 1 },
        Frame::MaxData { max: varint::MAX },
        Frame::MaxStreamData { stream, max: 63 },
        Frame::MaxStreams {
            kind: StreamKind::Bidirectional,
            count: 128,
        },
        Frame::MaxStreams {
            kind: StreamKind::Unidirectional,
            count: 128,
        },
        Frame::PathChallenge { data: *b"question" },
        Frame::PathResponse { data: *b"response" },
        Frame::PathId {
            path,
            cid: ConnectionId(*b"01234567"),
        },
        Frame::PathAbandon { path, code: 9 },
        Frame::Addresses {
            seq: 1,
            addresses: vec![
                "192.0.2.1:4433".parse().unwrap(),
                "[2001:db8::1]:4434".parse().unwrap(),
            ],
        },
        Frame::Relay {
            slot: 3,
            seq: 1,
            relay: Some(("192.0.2.9:443".parse().unwrap(), RelayId([0xaa; 32]))),
        },
        Frame::Relay {
            slot: 255,
            seq: 2,
            relay: None,
        },
        Frame::Consent {
            slot: 3,
            seq: 1,
            consent: consent("192.0.2.1:4433".parse().unwrap(), 7),
        },
        Frame::Grant {
            path,
            seq: 5,
            grant: grant("192.0.2.1:4433".parse().unwrap(), 7),
        },
        Frame::Grant {
            path,
            seq: 6,
            grant: grant("[2001:db8::1]:4433".parse().unwrap(), 7),
        },
        Frame::Close {
            code: 256,
            reason: "bye",
        },
    ];
    let mut table = String::new();
    for frame in &frames {
        let bytes = encoded(frame);
        assert_eq!(decoded(&bytes).as_deref(), Ok(std::slice::from_ref(frame)));
        writeln!(table, "{frame:?}\n    {}", hex(&bytes)).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn unknown_types_are_refused() {
    let known = [
        0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x10,
        0x11, 0x12, 0x14, 0x18, 0x19, 0x1a, 0x1b, 0x1c,
    ];
    for kind in 0..=u8::MAX {
        let unknown = decoded(&[kind, 0, 0, 0]) == Err(DecodeError::UnknownFrame { kind });
        assert_eq!(unknown, !known.contains(&kind), "{kind:#04x}");
    }
}

#[test]
fn an_error_ends_the_frames() {
    let mut frames = Frames::new(&[0x01, 0x20, 0x01]);
    assert_eq!(frames.next(), Some(Ok(Frame::Ping)));
    assert_eq!(
        frames.next(),
        Some(Err(DecodeError::UnknownFrame { kind: 0x20 }))
    );
    assert_eq!(frames.next(), None);
}

#[test]
fn a_run_of_padding_is_one_frame() {
    let bytes = [0, 0, 0, 1, 0];
    let expected = [
        Frame::Padding { len: 3 },
        Frame::Ping,
        Frame::Padding { len: 1 },
    ];
    assert_eq!(decoded(&bytes).as_deref(), Ok(&expected[..]));
}

#[test]
fn what_asks_for_an_ack() {
    let ack = [0x02, 0, 0, 0, 0, 0, 0];
    let mut quiet = vec![0];
    quiet.extend(ack);
    quiet.extend(encoded(&Frame::Close {
        code: 0,
        reason: "",
    }));
    assert!(
        decoded(&quiet)
            .unwrap()
            .iter()
            .all(|frame| !frame.is_ack_eliciting())
    );
    assert!(Frame::Ping.is_ack_eliciting());
    assert!(
        Frame::PathAbandon {
            path: PathId(0),
            code: 0
        }
        .is_ack_eliciting()
    );
}

/// Every limit: the last value that is allowed, and the first that isn't.
#[test]
fn limits() {
    let with = |kind: u8, fields: &[u64], tail: &[u8]| {
        let mut bytes = vec![kind];
        fields
            .iter()
            .for_each(|&field| varint::put(&mut bytes, field));
        bytes.extend(tail);
        decoded(&bytes).map(|frames| frames.len())
    };
    let path = u64::from(u32::MAX);
    for (fine, kind, fields, tail) in [
        (true, kind::MAX_STREAMS, &[MAX_STREAM_COUNT][..], &[][..]),
        (false, kind::MAX_STREAMS, &[MAX_STREAM_COUNT + 1], &[]),
        (true, kind::MAX_STREAMS_UNI, &[MAX_STREAM_COUNT], &[]),
        (false, kind::MAX_STREAMS_UNI, &[MAX_STREAM_COUNT + 1], &[]),
        (true, kind::PATH_ABANDON, &[path, 0], &[]),
        (false, kind::PATH_ABANDON, &[path + 1, 0], &[]),
        (false, kind::PATH_ID, &[path + 1], &[0; 8]),
        (false, kind::ACK, &[path + 1, 0, 0, 0, 0, 0], &[]),
        (true, kind::STREAM, &[0, varint::MAX - 1, 1], &[9]),
        (false, kind::STREAM, &[0, varint::MAX, 1], &[9]),
        (true, kind::STREAM_FIN, &[0, varint::MAX, 0], &[]),
        (true, kind::CLOSE, &[0, 1024], &[b'x'; 1024]),
        (false, kind::CLOSE, &[0, 1025], &[b'x'; 1025]),
        (false, kind::CLOSE, &[0, 1], &[0xff]),
        (true, kind::ADDRESSES, &[0, 1], &[4, 1, 2, 3, 4, 5, 6]),
        (false, kind::ADDRESSES, &[0, 1], &[5, 1, 2, 3, 4, 5, 6]),
        (false, kind::ADDRESSES, &[0, 1], &[6, 1, 2, 3, 4, 5, 6]),
        (true, kind::ADDRESSES, &[0, 32], &[4; 32 * 7]),
        (false, kind::ADDRESSES, &[0, 33], &[4; 33 * 7]),
        (false, kind::ADDRESSES, &[0, varint::MAX], &[4; 7]),
        (false, kind::STREAM, &[0, 0, varint::MAX], &[0; 100]),
        (true, kind::RELAY, &[255, 0], &[0]),
        (false, kind::RELAY, &[256, 0], &[0]),
        (false, kind::RELAY, &[0, 0], &[1]),
        (false, kind::RELAY, &[0, 0], &[4, 1, 2, 3, 4, 5]),
        (true, kind::CONSENT, &[255, 0], &[0; 31]),
        (false, kind::CONSENT, &[256, 0], &[0; 31]),
        (false, kind::CONSENT, &[0, 0], &[0; 30]),
        (true, kind::GRANT, &[path, 0], &grant_bytes(0)),
        (false, kind::GRANT, &[path + 1, 0], &grant_bytes(0)),
        // Its class.
        (false, kind::GRANT, &[0, 0], &grant_bytes(16)),
    ] {
        let result = with(kind, fields, tail);
        assert_eq!(result.is_ok(), fine, "{kind:#04x} {fields:?}: {result:?}");
    }
}

#[test]
fn what_is_too_long_to_send_is_cut() {
    let address: SocketAddr = "192.0.2.1:1".parse().unwrap();
    let bytes = encoded(&Frame::Addresses {
        seq: 0,
        addresses: vec![address; MAX_ADDRESSES + 1],
    });
    let expected = Frame::Addresses {
        seq: 0,
        addresses: vec![address; MAX_ADDRESSES],
    };
    assert_eq!(decoded(&bytes), Ok(vec![expected]));

    let reason = format!("x{}", "é".repeat(600));
    let bytes = encoded(&Frame::Close {
        code: 0,
        reason: &reason,
    });
    let Ok(Frame::Close { reason: cut, .. }) = Frame::decode(&mut &*bytes) else {
        panic!()
    };
    assert_eq!(
        cut.len(),
        1023,
        "one less than the limit, which is in the middle of a character"
    );
    assert!(reason.starts_with(cut));

    for kind in StreamKind::ALL {
        let max_streams = |count| Frame::MaxStreams { kind, count };
        let bytes = encoded(&max_streams(u64::MAX));
        assert_eq!(decoded(&bytes), Ok(vec![max_streams(MAX_STREAM_COUNT)]));
    }
    let bytes = encoded(&Frame::StopSending {
        stream: StreamId(0),
        code: u64::MAX,
    });
    assert_eq!(
        decoded(&bytes),
        Ok(vec![Frame::StopSending {
            stream: StreamId(0),
            code: varint::MAX
        }])
    );
}

/// The rooms around each size of the length field, against trying every length.
#[test]
fn stream_capacity_is_the_most_that_fits() {
    let (stream, offset) = (StreamId(70), 20_000);
    let fits = |len: usize, room| {
        count(|out| put(out, kind::STREAM, [stream.0, offset, len as u64])) + len <= room
    };
    for room in (0..200).chain(16_300..16_500) {
        let expected = (0..=room).rev().find(|&len| fits(len, room));
        assert_eq!(
            stream_frame_capacity(stream, offset, room),
            expected,
            "{room}"
        );
    }
    for around in [1usize << 30, 1 << 40] {
        for room in around - 40..around + 40 {
            let capacity = stream_frame_capacity(stream, offset, room).unwrap();
            assert!(fits(capacity, room) && !fits(capacity + 1, room), "{room}");
        }
    }
}

#[test]
fn a_datagrams_length_is_told_beforehand() {
    for len in [0, 1, 63, 64, 1284, 16_383, 16_384] {
        let frame = Frame::Datagram {
            data: &vec![7; len],
        };
        assert_eq!(datagram_frame_len(len), frame.encoded_len(), "{len}");
    }
}

#[test]
fn a_datagram_is_as_long_as_it_says() {
    let error = decoded(&[0x0c, 3, 1, 2]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "it ends in the middle of DATAGRAM's data"
    );
}

/// A frame that owns what it says, so that a strategy can make it.
#[derive(Clone, Debug)]
struct Owned(Vec<u8>);

fn number() -> impl Strategy<Value = u64> {
    (0..=varint::MAX, 0u32..62).prop_map(|(value, shift)| value >> shift)
}

fn socket_address() -> impl Strategy<Value = SocketAddr> {
    prop_oneof![
        any::<([u8; 4], u16)>().prop_map(|(ip, port)| SocketAddr::new(ip.into(), port)),
        any::<([u8; 16], u16)>().prop_map(|(ip, port)| SocketAddr::new(ip.into(), port)),
    ]
}

fn consent(address: SocketAddr, issued: u32) -> Consent {
    Consent {
        key: 1,
        issued,
        address,
        mac: Mac(*b"consents"),
    }
}

fn grant(destination: SocketAddr, expires: u32) -> Grant {
    Grant::from(ForwardHeader {
        key: 1,
        class: RateClass::new(2).unwrap(),
        expires,
        tag: *b"whosetag",
        destination,
        check: *b"chek",
        mac: Mac(*b"grantmac"),
    })
}

/// A grant of any class.
fn grant_bytes(class: u8) -> Vec<u8> {
    let mut bytes = grant("192.0.2.1:1".parse().unwrap(), 0).as_bytes().to_vec();
    bytes[2] = class;
    bytes
}

/// The bytes of any frame but ACK, checked to come back as they were.
fn frame() -> impl Strategy<Value = Owned> {
    let again = |frame: Frame<'_>| {
        let bytes = encoded(&frame);
        assert_eq!(decoded(&bytes), Ok(vec![frame]));
        Owned(bytes)
    };
    let stream = || number().prop_map(StreamId);
    let path = || any::<u32>().prop_map(PathId);
    prop_oneof![
        (1usize..50).prop_map(move |len| again(Frame::Padding { len })),
        Just(()).prop_map(move |()| again(Frame::Ping)),
        Just(()).prop_map(move |()| again(Frame::Filler)),
        (stream(), number(), any::<bool>(), any::<Vec<u8>>()).prop_map(
            move |(stream, offset, fin, data)| {
                let offset = offset.min(varint::MAX - data.len() as u64);
                again(Frame::Stream {
                    stream,
                    offset,
                    fin,
                    data: &data,
                })
            }
        ),
        any::<Vec<u8>>().prop_map(move |data| again(Frame::Datagram { data: &data })),
        (stream(), number(), number()).prop_map(move |(stream, code, final_size)| again(
            Frame::ResetStream {
                stream,
                code,
                final_size
            }
        )),
        (stream(), number())
            .prop_map(move |(stream, code)| again(Frame::StopSending { stream, code })),
        number().prop_map(move |max| again(Frame::MaxData { max })),
        (stream(), number())
            .prop_map(move |(stream, max)| again(Frame::MaxStreamData { stream, max })),
        (
            proptest::sample::select(&StreamKind::ALL),
            0..=MAX_STREAM_COUNT
        )
            .prop_map(move |(kind, count)| again(Frame::MaxStreams { kind, count })),
        any::<[u8; 8]>().prop_map(move |data| again(Frame::PathChallenge { data })),
        any::<[u8; 8]>().prop_map(move |data| again(Frame::PathResponse { data })),
        (path(), any::<[u8; 8]>()).prop_map(move |(path, cid)| again(Frame::PathId {
            path,
            cid: ConnectionId(cid)
        })),
        (path(), number()).prop_map(move |(path, code)| again(Frame::PathAbandon { path, code })),
        (
            number(),
            prop::collection::vec(socket_address(), 0..=MAX_ADDRESSES)
        )
            .prop_map(move |(seq, addresses)| again(Frame::Addresses { seq, addresses })),
        (
            0u16..256,
            number(),
            prop::option::of((socket_address(), any::<[u8; 32]>()))
        )
            .prop_map(move |(slot, seq, relay)| {
                let relay = relay.map(|(address, id)| (address, RelayId(id)));
                again(Frame::Relay { slot, seq, relay })
            }),
        (0u16..256, number(), socket_address(), any::<u32>()).prop_map(
            move |(slot, seq, address, issued)| {
                let consent = consent(relay::canonical(address), issued);
                again(Frame::Consent { slot, seq, consent })
            }
        ),
        (path(), number(), socket_address(), any::<u32>()).prop_map(
            move |(path, seq, address, expires)| {
                let grant = grant(address, expires);
                again(Frame::Grant { path, seq, grant })
            }
        ),
        (number(), "\\PC{0,40}").prop_map(move |(code, reason)| again(Frame::Close {
            code,
            reason: &reason
        })),
        ack(),
    ]
}

fn ack() -> impl Strategy<Value = Owned> {
    let steps = prop::collection::vec((number(), number()), 1..20);
    (
        any::<u32>(),
        steps,
        prop::option::of([number(), number(), number()]),
    )
        .prop_map(|(path, steps, ecn)| {
            let mut ranges = Vec::new();
            let mut below = Some(varint::MAX);
            for (gap, len) in steps {
                let Some(end) = below.and_then(|below| below.checked_sub(gap)) else {
                    break;
                };
                let start = end.saturating_sub(len);
                ranges.push(start..=end);
                below = start.checked_sub(2);
            }
            let ecn = ecn.map(|[ect0, ect1, ce]| EcnCounts { ect0, ect1, ce });
            let info = AckInfo {
                path: PathId(path),
                delay_us: 1,
                receive_time_us: 2,
                ecn,
            };
            let mut bytes = Vec::new();
            encode_ack(&mut bytes, &info, ranges.into_iter(), usize::MAX);
            Owned(bytes)
        })
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(frame(), 0..8)
        .prop_map(|frames| frames.into_iter().flat_map(|frame| frame.0).collect())
}

proptest! {
    #[test]
    fn payloads_round_trip(payload in payload()) {
        let frames = decoded(&payload);
        prop_assert!(frames.is_ok(), "{:?}", frames);
        let again: Vec<u8> = frames.unwrap().iter().flat_map(encoded).collect();
        prop_assert_eq!(again, payload);
    }

    /// A truncated payload is an error or a shorter list of the same frames, except that data may
    /// be shorter: never more.
    #[test]
    fn every_prefix_is_safe(payload in payload()) {
        let whole = decoded(&payload).unwrap();
        for cut in 0..payload.len() {
            fuzzing::frames(&payload[..cut]);
            let complete = Frames::new(&payload[..cut]).take_while(Result::is_ok).count();
            let frames = Frames::new(&payload[..cut]).flatten();
            for (frame, original) in frames.zip(&whole) {
                let shorter_padding = matches!(
                    (&frame, original),
                    (Frame::Padding { .. }, Frame::Padding { .. })
                );
                prop_assert!(shorter_padding || frame == *original);
            }
            prop_assert!(complete <= whole.len());
        }
    }

    #[test]
    fn a_damaged_payload_is_safe(
        payload in payload(),
        damage in prop::collection::vec(any::<(Index, u8)>(), 1..4),
    ) {
        let mut payload = payload;
        if !payload.is_empty() {
            for (at, byte) in damage {
                *at.get_mut(&mut payload) = byte;
            }
        }
        fuzzing::frames(&payload);
    }

    #[test]
    fn anything_is_safe(bytes: Vec<u8>, kind in 0u8..0x20) {
        fuzzing::frames(&bytes);
        let mut bytes = bytes;
        bytes.insert(0, kind);
        fuzzing::frames(&bytes);
    }
}
