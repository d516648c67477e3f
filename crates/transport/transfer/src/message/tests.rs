use super::*;
use crate::entry::{Attribute, Cause, Kind, Owner, Target, Timestamp};
use crate::filter::Filter;
use crate::wants::Want;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = SafeName> {
    "[a-zé ]{1,20}(/[a-z.]{3,9}x){0,4}".prop_map(|n| SafeName::parse(&n).unwrap())
}

fn cause() -> impl Strategy<Value = Cause> {
    (0..7u8).prop_map(|cause| Cause::from_number(cause).unwrap())
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::File),
        Just(Kind::Directory),
        "[^\0]{1,40}".prop_map(|target| Kind::Symlink(Target::parse(&target).unwrap())),
        any::<u64>().prop_map(Kind::HardLink),
        cause().prop_map(Kind::LeftOut),
    ]
}

fn owner() -> impl Strategy<Value = Owner> {
    (any::<(u32, u32)>(), "[a-zé]{0,9}", "[a-zé]{0,9}").prop_map(|((uid, gid), user, group)| {
        Owner {
            uid,
            gid,
            user,
            group,
        }
    })
}

fn attributes() -> impl Strategy<Value = Vec<Attribute>> {
    let value = || prop::collection::vec(any::<u8>(), 0..20);
    let list = prop::collection::btree_map("user\\.[a-zé]{1,9}", value(), 0..4);
    list.prop_map(|list| {
        let each = list.into_iter();
        each.map(|(name, value)| Attribute { name, value })
            .collect()
    })
}

fn entry() -> impl Strategy<Value = Entry> {
    (
        name(),
        kind(),
        any::<(u64, u64, bool)>(),
        (0..=0o777u16, any::<i64>(), 0..1_000_000_000u32),
        prop::option::of(owner()),
        attributes(),
    )
        .prop_map(
            |(name, kind, size, (mode, seconds, nanos), owner, attributes)| {
                let (size, holes, shared) = match kind {
                    Kind::File => (size.0.max(size.1), size.0.min(size.1), size.2),
                    _ => (0, 0, false),
                };
                Entry {
                    name,
                    kind,
                    size,
                    holes,
                    shared,
                    mode,
                    mtime: Timestamp { seconds, nanos },
                    owner,
                    attributes,
                }
            },
        )
}

fn totals() -> impl Strategy<Value = Totals> {
    any::<[u64; 6]>().prop_map(
        |[entries, files, directories, symlinks, hard_links, bytes]| Totals {
            entries,
            files,
            directories,
            symlinks,
            hard_links,
            bytes,
        },
    )
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
        (totals(), any::<u64>()).prop_map(|(totals, altered)| Message::Done { totals, altered }),
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
        (1..=MAX_HOLE).prop_map(Message::Hole),
        (
            any::<bool>(),
            any::<bool>(),
            prop::collection::vec("[+-] /?[a-c]{1,5}/?", 0..4)
        )
            .prop_map(|(top, dry_run, rules)| {
                let mut filter = Filter::default();
                rules.iter().for_each(|rule| filter.push(rule).unwrap());
                Message::Scope(Scope {
                    top,
                    dry_run,
                    filter,
                })
            }),
        prop::collection::vec(name(), 0..4).prop_map(Message::Deleted),
        cause().prop_map(Message::LeftOut),
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
        kind in 0u8..16,
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
    assert_eq!(hello, b"\x01\x00\x00\x07mwft\x04\x00\x01");
    let entry = Entry {
        size: 300,
        holes: 1,
        shared: true,
        mode: 0o644,
        mtime: Timestamp {
            seconds: -1,
            nanos: 5,
        },
        ..Entry::new(SafeName::parse("d/f").unwrap(), Kind::File)
    };
    let entries = |entry: Entry| Message::Entries(vec![entry]).to_bytes();
    assert_eq!(
        entries(entry.clone()),
        b"\x02\x00\x00\x0f\x03d/f\x00\xac\x02\x01\x01\xa4\x03\x01\x05\x00\x00"
    );
    let owned = Entry {
        kind: Kind::Symlink(Target::parse("../g").unwrap()),
        size: 0,
        holes: 0,
        shared: false,
        owner: Some(Owner {
            uid: 1000,
            gid: 0,
            user: "ann".to_owned(),
            group: String::new(),
        }),
        attributes: vec![Attribute {
            name: "user.a".to_owned(),
            value: b"v".to_vec(),
        }],
        ..entry.clone()
    };
    assert_eq!(
        entries(owned),
        b"\x02\x00\x00\x21\x03d/f\x02\x04../g\xa4\x03\x01\x05\
          \x01\xe8\x07\x00\x03ann\x00\x09\x06user.a\x01v"
    );
    let link = Entry {
        kind: Kind::HardLink(2),
        ..Entry::new(entry.name.clone(), Kind::File)
    };
    assert_eq!(entries(link)[4..], *b"\x03d/f\x03\x02\x00\x00\x00\x00\x00");
    let left_out = Entry::new(entry.name, Kind::LeftOut(Cause::TooLarge));
    assert_eq!(
        entries(left_out)[4..],
        *b"\x03d/f\x04\x03\x00\x00\x00\x00\x00"
    );
    let done = Message::Done {
        totals: Totals {
            entries: 6,
            files: 1,
            directories: 2,
            symlinks: 0,
            hard_links: 3,
            bytes: 300,
        },
        altered: 4,
    };
    let done = done.to_bytes();
    assert_eq!(done, b"\x08\x00\x00\x08\x06\x01\x02\x00\x03\xac\x02\x04");
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
    let hole = Message::Hole(300).to_bytes();
    assert_eq!(hole, b"\x0e\x00\x00\x02\xac\x02");
    let mut scope = Scope {
        top: true,
        ..Scope::default()
    };
    scope.filter.push("- *.o").unwrap();
    let scope = Message::Scope(scope).to_bytes();
    assert_eq!(scope, b"\x0f\x00\x00\x07\x01\x05- *.o");
    let name = |name| SafeName::parse(name).unwrap();
    let deleted = Message::Deleted(vec![name("d/f"), name("d")]).to_bytes();
    assert_eq!(deleted, b"\x10\x00\x00\x06\x03d/f\x01d");
    let left_out = Message::LeftOut(Cause::Changed).to_bytes();
    assert_eq!(left_out, b"\x11\x00\x00\x01\x05");
    assert_eq!(
        decode(b"\x11\x00\x00\x01\x07"),
        Err(ProtocolError::Malformed(FrameKind::LeftOut))
    );
    for wrong in [0, MAX_HOLE + 1, u64::MAX] {
        let wrong = Message::Hole(wrong).to_bytes();
        assert_eq!(
            decode(&wrong),
            Err(ProtocolError::Malformed(FrameKind::Hole))
        );
    }
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
            version: 4,
            features: 0
        }
    );
}

#[test]
fn a_feature_needs_its_bit() {
    let agreed = Agreement {
        version: 4,
        features: 0b110,
    };
    let has = [1, 2, 4, 8].map(|feature| agreed.has(feature));
    assert_eq!(has, [false, true, true, false]);
}

#[test]
fn hellos_must_fit() {
    let us = Hello::new(Role::Sender);
    assert_eq!(
        us.agree(Hello::new(Role::Sender)),
        Err(ProtocolError::SameRole(Role::Sender))
    );
    let ancient = Hello {
        version: 3,
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
    assert_eq!(Header::decode(*b"mwfw"), Err(ProtocolError::Forwarding));
}

#[test]
fn modes_lose_what_is_no_permission_and_times_their_magic() {
    let raw = |mode: u16, nanos: u32| {
        let mut body = Vec::new();
        put(&mut body, &("f", 0u8, 0u64, 0u64, false, mode, 0i64, nanos));
        put(&mut body, &(None::<u8>, ""));
        Message::decode(FrameKind::Entries, &body)
    };
    let Ok(Message::Entries(entries)) = raw(0o17755, 0) else {
        panic!("not entries");
    };
    assert_eq!(entries[0].mode, 0o7755);
    const UTIME_NOW: u32 = (1 << 30) - 1;
    assert_eq!(
        raw(0o644, UTIME_NOW),
        Err(ProtocolError::Malformed(FrameKind::Entries))
    );
}

/// Each rule of an entry, broken alone.
#[test]
fn entries_that_break_a_rule_are_malformed() {
    fn body<K: Serialize, O: Serialize>(kind: K, owner: O, attributes: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        put(
            &mut body,
            &("f", kind, (0u16, 0i64, 0u32), owner, attributes),
        );
        body
    }
    let decode = |body: Vec<u8>| Message::decode(FrameKind::Entries, &body);
    let nobody = None::<u8>;
    let file = |size: u64, holes: u64| body((0u8, size, holes, false), nobody, &[]);
    let link = |target: &str| body((2u8, target), nobody, &[]);
    let owned = |user: &str| body(1u8, Some((0u32, 0u32, user, "")), &[]);
    let attribute = |name: &str, value: &[u8]| {
        let mut list = Vec::new();
        put(&mut list, &(name, value));
        body(1u8, nobody, &list)
    };
    for good in [
        file(2, 2),
        link("a"),
        owned("ann"),
        attribute("user.a", b"v"),
        attribute("system.posix_acl_default", b""),
        body((4u8, 6u8), nobody, &[]),
    ] {
        assert!(matches!(decode(good), Ok(Message::Entries(list)) if list.len() == 1));
    }
    let twice = [b"\x06user.a\x00".as_slice(); 2].concat();
    for bad in [
        file(1, 2),
        link(""),
        link("a\0"),
        link(&"a".repeat(4096)),
        owned("a\n"),
        owned(&"a".repeat(129)),
        attribute("security.capability", b"v"),
        attribute("user.a", &vec![0; Entry::MAX_ATTRIBUTES]),
        body(1u8, nobody, &twice),
        body(1u8, nobody, b"\x06user"),
        body((4u8, 7u8), nobody, &[]),
        body(5u8, nobody, &[]),
    ] {
        assert_eq!(
            decode(bad),
            Err(ProtocolError::Malformed(FrameKind::Entries))
        );
    }
}

#[test]
fn wants_that_mean_nothing_are_malformed() {
    let decode = |bytes: &[u8]| Message::decode(FrameKind::Wants, bytes);
    assert!(decode(&[0b10]).is_ok());
    let malformed = ProtocolError::Malformed(FrameKind::Wants);
    assert_eq!(decode(&[0b11]), Err(malformed));
}

#[test]
fn a_body_ends_where_its_fields_end() {
    for message in [
        Message::Accept,
        Message::Trailer(Digest([1; 32])),
        Message::Done {
            totals: Totals::default(),
            altered: 0,
        },
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
    let text = |items: usize| Batch::TARGET / items - Batch::OVERHEAD;
    let mut batch = Batch::default();
    assert!(batch.is_empty());
    assert!(batch.add(text(2)) && !batch.is_empty());
    assert!(batch.add(text(2)));
    assert!(!batch.add(0));
    assert!(Batch::default().add(MAX_MESSAGE));
    // There is room for what comes before the list.
    let half = MAX_MESSAGE / 2 - Batch::OVERHEAD;
    let mut batch = Batch::default();
    assert!(batch.add(half) && !batch.add(half));
}

#[test]
fn a_full_batch_fits_a_message() {
    let longest = SafeName::parse(&[&"n".repeat(255); 16].map(String::as_str).join("/")).unwrap();
    let file = |name: &SafeName| Entry {
        size: u64::MAX,
        holes: u64::MAX,
        shared: true,
        mode: 0o777,
        mtime: Timestamp {
            seconds: i64::MIN,
            nanos: 999_999_999,
        },
        owner: Some(Owner {
            uid: u32::MAX,
            gid: u32::MAX,
            user: "u".repeat(Owner::MAX_NAME),
            group: String::new(),
        }),
        ..Entry::new(name.clone(), Kind::File)
    };
    let target = Target::parse(&"t".repeat(Target::MAX_LEN)).unwrap();
    let link = |name: &SafeName| Entry {
        kind: Kind::Symlink(target.clone()),
        size: 0,
        holes: 0,
        shared: false,
        ..file(name)
    };
    let short = SafeName::parse("n").unwrap();
    for entry in [file(&longest), file(&short), link(&longest), link(&short)] {
        let (mut batch, mut entries) = (Batch::default(), Vec::new());
        while batch.add(entry.text_len()) {
            entries.push(entry.clone());
        }
        assert!(entries.len() > 5);
        Message::Entries(entries).to_bytes();
    }
    // The largest of all fits by itself.
    let value = vec![0; Entry::MAX_ATTRIBUTES - "user.a".len() - 5];
    let largest = Entry {
        attributes: vec![Attribute {
            name: "user.a".to_owned(),
            value,
        }],
        ..link(&longest)
    };
    assert!(Attribute::are_valid(&largest.attributes));
    let message = Message::Entries(vec![largest]);
    assert_eq!(decode(&message.to_bytes()), Ok(message));
}
