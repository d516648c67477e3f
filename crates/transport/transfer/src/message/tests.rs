use super::*;
use crate::wants::Want;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = SafeName> {
    "[a-zé ]{1,20}(/[a-z.]{3,9}x){0,4}".prop_map(|n| SafeName::parse(&n).unwrap())
}

fn entry() -> impl Strategy<Value = Entry> {
    (
        name(),
        any::<bool>(),
        any::<u64>(),
        0..=0o777u16,
        any::<i64>(),
        0..1_000_000_000u32,
    )
        .prop_map(|(name, file, size, mode, seconds, nanos)| Entry {
            name,
            kind: if file { Kind::File } else { Kind::Directory },
            size: if file { size } else { 0 },
            mode,
            mtime: Timestamp { seconds, nanos },
        })
}

fn totals() -> impl Strategy<Value = Totals> {
    any::<(u64, u64, u64)>().prop_map(|(entries, files, bytes)| Totals {
        entries,
        files,
        bytes,
    })
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (any::<u16>(), any::<u64>(), any::<bool>()).prop_map(|(version, features, sends)| {
            Message::Hello(Hello {
                version,
                features,
                role: if sends { Role::Sender } else { Role::Receiver },
            })
        }),
        prop::collection::vec(entry(), 0..20).prop_map(Message::Entries),
        totals().prop_map(Message::Offered),
        Just(Message::Accept),
        any::<[u8; 32]>().prop_map(|d| Message::Trailer(Digest(d))),
        (
            any::<u64>(),
            prop::collection::vec((any::<u64>(), name()), 0..9)
        )
            .prop_map(|(files, list)| {
                let renamed = list
                    .into_iter()
                    .map(|(file, name)| Renamed { file, name })
                    .collect();
                Message::Saved(Saved { files, renamed })
            }),
        totals().prop_map(Message::Done),
        Just(Message::Bye),
        (
            any::<u16>(),
            prop::option::of(any::<String>()),
            any::<String>()
        )
            .prop_map(|(code, name, reason)| {
                let failure = Failure::new(FailureCode::from_number(code), reason);
                Message::Failure(match name {
                    Some(name) => failure.of(name),
                    None => failure,
                })
            }),
        prop::collection::vec(0u8..3, 0..200).prop_map(Message::Wants),
        prop::collection::vec(any::<[u8; 32]>(), 0..9)
            .prop_map(|list| Message::Basis(list.into_iter().map(Digest).collect())),
        any::<u64>().prop_map(Message::Kept),
    ]
}

fn decode(bytes: &[u8]) -> Result<Message, ProtocolError> {
    let (header, body) = bytes.split_first_chunk().expect("four bytes");
    let header = Header::decode(*header)?;
    assert_eq!(header.len, body.len());
    Message::decode(header.kind, body)
}

proptest! {
    #[test]
    fn messages_round_trip(message in message()) {
        prop_assert_eq!(decode(&message.to_bytes()).unwrap(), message);
    }

    #[test]
    fn any_bytes_decode_or_fail_without_panic(
        kind in 0u8..15,
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        if let Some(kind) = FrameKind::from_byte(kind)
            && let Ok(message) = Message::decode(kind, &body)
        {
            let again = message.to_bytes();
            prop_assert_eq!(decode(&again).unwrap(), message);
        }
    }

    #[test]
    fn damaged_messages_never_panic(
        message in message(),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = message.to_bytes().split_off(HEADER_LEN);
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = to;
            if cut {
                bytes.truncate(at);
            }
        }
        let _ = Message::decode(message.kind(), &bytes);
    }

    #[test]
    fn headers_round_trip_or_are_refused(bytes in any::<[u8; 4]>()) {
        match Header::decode(bytes) {
            Ok(header) => prop_assert_eq!(header.encode(), bytes),
            Err(ProtocolError::UnknownFrame(kind)) => {
                prop_assert!(FrameKind::from_byte(kind).is_none())
            }
            Err(error) => {
                let length = matches!(error, ProtocolError::Length { .. });
                prop_assert!(length);
            }
        }
    }
}

#[test]
fn a_claimed_length_is_bounded_before_anything_is_allocated() {
    assert!(matches!(
        Header::decode([2, 1, 0, 1]),
        Err(ProtocolError::Length { len: 65537, .. })
    ));
    assert!(Header::decode([2, 1, 0, 0]).is_ok());
    assert!(matches!(
        Header::decode([5, 16, 0, 1]),
        Err(ProtocolError::Length { .. })
    ));
    assert!(Header::decode([5, 16, 0, 0]).is_ok());
    assert!(matches!(
        Header::decode([5, 0, 0, 0]),
        Err(ProtocolError::Length { len: 0, .. })
    ));
    // A text that claims to be longer than its frame.
    let claims = [0xff, 0xff, 0xff, 0xff, 0x0f, b'a'];
    assert_eq!(
        Message::decode(FrameKind::Entries, &claims),
        Err(ProtocolError::Malformed(FrameKind::Entries))
    );
}

#[test]
fn the_bytes_are_those_of_the_specification() {
    let hello = Message::Hello(Hello::new(Role::Receiver)).to_bytes();
    assert_eq!(hello, b"\x01\x00\x00\x07mwft\x02\x00\x01");
    let entry = Entry {
        name: SafeName::parse("d/f").unwrap(),
        kind: Kind::File,
        size: 300,
        mode: 0o644,
        mtime: Timestamp {
            seconds: -1,
            nanos: 5,
        },
    };
    let entries = Message::Entries(vec![entry]).to_bytes();
    assert_eq!(
        entries,
        b"\x02\x00\x00\x0b\x03d/f\x00\xac\x02\xa4\x03\x01\x05"
    );
    let failure = Message::Failure(Failure::new(FailureCode::Conflict, "no").of("f")).to_bytes();
    assert_eq!(failure, b"\x0a\x00\x00\x07\x03\x01\x01f\x02no");
    let mut wants = Wants::default();
    wants.set(4, Want::Nothing);
    wants.set(5, Want::Difference);
    let wants = Message::Wants(wants.bytes().to_vec()).to_bytes();
    assert_eq!(wants, b"\x0b\x00\x00\x02\x00\x09");
    let basis = Message::Basis(vec![Digest([7; 32])]).to_bytes();
    assert_eq!(basis, [&b"\x0c\x00\x00\x20"[..], &[7; 32]].concat());
    let kept = Message::Kept(300).to_bytes();
    assert_eq!(kept, b"\x0d\x00\x00\x02\xac\x02");
}

#[test]
fn a_later_hello_may_say_more() {
    let mut body = Message::Hello(Hello {
        version: 9,
        features: 5,
        role: Role::Sender,
    })
    .to_bytes()
    .split_off(HEADER_LEN);
    body.extend_from_slice(b"more");
    let Ok(Message::Hello(theirs)) = Message::decode(FrameKind::Hello, &body) else {
        panic!("not a hello");
    };
    let agreed = Hello::new(Role::Receiver).agree(theirs).unwrap();
    assert_eq!(
        agreed,
        Agreement {
            version: 2,
            features: 0
        }
    );
}

#[test]
fn hellos_must_fit() {
    let us = Hello::new(Role::Sender);
    assert_eq!(
        us.agree(Hello::new(Role::Sender)),
        Err(ProtocolError::SameRole(Role::Sender))
    );
    let ancient = Hello {
        version: 1,
        ..Hello::new(Role::Receiver)
    };
    assert!(matches!(
        us.agree(ancient),
        Err(ProtocolError::Version { .. })
    ));
    assert_eq!(
        Message::decode(FrameKind::Hello, b"HTTP/1.1 "),
        Err(ProtocolError::NotATransfer)
    );
}

#[test]
fn modes_lose_their_special_bits_and_times_their_magic() {
    let raw = |mode: u16, nanos: u32| {
        let mut body = Vec::new();
        put(
            &mut body,
            &RawEntry {
                name: "f",
                kind: 0,
                size: 0,
                mode,
                seconds: 0,
                nanos,
            },
        );
        Message::decode(FrameKind::Entries, &body)
    };
    let Ok(Message::Entries(entries)) = raw(0o7755, 0) else {
        panic!("not entries");
    };
    assert_eq!(entries[0].mode, 0o755);
    const UTIME_NOW: u32 = (1 << 30) - 1;
    assert_eq!(
        raw(0o644, UTIME_NOW),
        Err(ProtocolError::Malformed(FrameKind::Entries))
    );
}

#[test]
fn a_body_ends_where_its_fields_end() {
    for message in [
        Message::Accept,
        Message::Trailer(Digest([1; 32])),
        Message::Done(Totals::default()),
        Message::Failure(Failure::new(FailureCode::Other, "no")),
    ] {
        let kind = message.kind();
        let mut body = message.to_bytes().split_off(HEADER_LEN);
        body.push(0);
        let error = Message::decode(kind, &body).unwrap_err();
        assert_eq!(error, ProtocolError::Malformed(kind));
        assert_eq!(error.to_string(), format!("malformed {kind:?} frame"));
    }
}

#[test]
fn frames_follow_each_other() {
    let mut bytes = Message::Accept.to_bytes();
    Message::Trailer(Digest([7; 32])).encode(&mut bytes);
    let trailer = bytes.split_off(HEADER_LEN);
    assert_eq!(decode(&trailer), Ok(Message::Trailer(Digest([7; 32]))));
}

/// What doesn't fit into a message by itself still makes a batch; a batch takes all that fits.
#[test]
fn batches_take_as_much_as_fits() {
    let text = |items: usize| vec![b'n'; Batch::TARGET / items - Batch::OVERHEAD];
    let mut batch = Batch::default();
    assert!(batch.is_empty());
    assert!(batch.add(text(2)) && !batch.is_empty());
    assert!(batch.add(text(2)));
    assert!(!batch.add(""));
    assert!(Batch::default().add(vec![b'n'; MAX_MESSAGE]));
}

#[test]
fn a_full_batch_fits_a_message() {
    let longest = SafeName::parse(&[&"n".repeat(255); 16].map(String::as_str).join("/")).unwrap();
    let entry = |name: &SafeName| Entry {
        name: name.clone(),
        kind: Kind::File,
        size: u64::MAX,
        mode: 0o777,
        mtime: Timestamp {
            seconds: i64::MIN,
            nanos: 999_999_999,
        },
    };
    for name in [longest, SafeName::parse("n").unwrap()] {
        let (mut batch, mut entries) = (Batch::default(), Vec::new());
        while batch.add(name.as_str()) {
            entries.push(entry(&name));
        }
        assert!(entries.len() > 10);
        Message::Entries(entries).to_bytes();
    }
}
