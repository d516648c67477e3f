use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::fuzzing;

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn header(destination: SocketAddr) -> ForwardHeader {
    ForwardHeader {
        key: 0x4b,
        class: RateClass::new(7).unwrap(),
        expires: 0x0102_0304,
        tag: [0x11; 8],
        destination,
        check: [0x22; 4],
        mac: Mac([0x33; 8]),
    }
}

fn consent(address: SocketAddr) -> Consent {
    Consent {
        key: 0x4b,
        issued: 0x0102_0304,
        address,
        mac: Mac([0x5c; 8]),
    }
}

fn proof() -> Proof {
    Proof {
        key: 0x4b,
        issued: 0x0102_0304,
        mac: Mac([0x5d; 8]),
    }
}

fn voucher() -> Voucher {
    VoucherTerms {
        relay: RelayId([0xa1; 32]),
        signer: RelayId([0xa2; 32]),
        account: [0xa3; 8],
        class: RateClass::MAX,
        expires: 0x7000_0000,
        client: RelayId([0xa4; 32]),
    }
    .seal(|_| [0xa5; 64])
}

fn mint(peer: Peer) -> Mint {
    Mint {
        nonce: Nonce([9; 8]),
        proof: proof(),
        peer,
        voucher: voucher(),
    }
}

fn relay_ticket() -> RelayTicket {
    RelayTicket {
        relay: voucher().terms.relay,
        addresses: vec![addr("192.0.2.1:3470"), addr("[2001:db8::1]:3470")],
        tcp: false,
        access: Some(Access {
            voucher: voucher(),
            seed: [0x7e; 32],
        }),
    }
}

#[test]
fn a_forward_header_byte_by_byte() {
    let v4 = Grant::from(header(addr("192.0.2.1:4433")));
    let mut expected = vec![0x20, 0x4b, 7, 1, 2, 3, 4];
    expected.extend([0x11; 8]);
    expected.extend([192, 0, 2, 1, 0x11, 0x51]);
    expected.extend([0x22; 4]);
    expected.extend([0x33; 8]);
    assert_eq!(v4.as_bytes(), expected);
    assert_eq!(expected.len(), ForwardHeader::LEN_V4);
    let v6 = Grant::from(header(addr("[2001:db8::1]:4433")));
    assert_eq!(v6.as_bytes()[..1], [0x21]);
    assert_eq!(v6.as_bytes()[15..19], [0x20, 0x01, 0x0d, 0xb8]);
    assert_eq!(v6.as_bytes().len(), ForwardHeader::LEN_V6);
}

#[test]
fn lengths_are_those_of_the_document() {
    assert_eq!((ForwardHeader::LEN_V4, ForwardHeader::LEN_V6), (33, 45));
    assert_eq!((HELLO_LEN, LISTEN_LEN, CONSENT_LEN), (64, 70, 48));
    assert_eq!((MINT_LEN, MINTED_MAX_LEN, REFUSED_LEN), (291, 103, 14));
    assert_eq!((STALE_LEN, Consent::LEN, VOUCHER_LEN), (14, 31, 173));
}

#[test]
fn an_ipv4_address_has_one_form() {
    let mapped = addr("[::ffff:192.0.2.1]:4433");
    let plain = addr("192.0.2.1:4433");
    assert_eq!(Grant::from(header(mapped)), Grant::from(header(plain)));
    assert_eq!(consent(mapped).to_bytes(), consent(plain).to_bytes());
    assert_eq!(
        Consent::decode(&consent(mapped).to_bytes())
            .unwrap()
            .address,
        plain
    );
    let mut bytes = Vec::new();
    header(mapped).encode(&mut bytes);
    assert_eq!(bytes[0], 0x21);
    let error = ForwardHeader::decode(&bytes).unwrap_err();
    assert!(matches!(error, DecodeError::Malformed { .. }), "{error}");
}

#[test]
fn what_relays_speak_is_told_from_what_they_forward() {
    let grant = Grant::from(header(addr("192.0.2.1:1")));
    let datagrams: [&[u8]; 4] = [
        &Hello {
            nonce: Nonce([0; 8]),
            relay: RelayId([0; 32]),
        }
        .to_bytes(),
        grant.as_bytes(),
        &mint(Peer::Name(ListenerName([1; 16]))).seal(|_| [0; 64]),
        &[0x2f],
    ];
    for datagram in datagrams {
        assert!(is_relay_datagram(datagram));
        assert_eq!(crate::DatagramType::of(datagram), None);
    }
    for first in [0x01, 0x02, 0x10, 0x1f, 0x30, 0x00, 0xff] {
        assert!(!is_relay_datagram(&[first]));
        assert_eq!(RelayType::of(&[first]), None);
    }
    assert!(!is_relay_datagram(&[]));
}

/// Each type byte has one message, and a text for errors.
#[test]
fn type_bytes_are_those_of_the_document() {
    use RelayType::*;
    let types = [
        Forward4, Forward6, Hello, Consent, Mint, Minted, Stale, Listen, Refused,
    ];
    for (first, kind) in (0x20..).zip(types) {
        assert_eq!(RelayType::of(&[first]), Some(kind));
        assert_eq!(kind as u8, first);
    }
    let error = super::Hello::decode(&[0x22]).unwrap_err().to_string();
    assert!(error.contains("HELLO"), "{error}");
    // Over TCP, a relay also reads requests of the UDP protocol as a whole.
    let lengths = [
        (Forward4, Some(ForwardHeader::LEN_V4)),
        (Forward6, Some(ForwardHeader::LEN_V6)),
        (Hello, Some(HELLO_LEN)),
        (Consent, None),
        (Mint, Some(MINT_LEN)),
        (Minted, None),
        (Stale, None),
        (Listen, Some(LISTEN_LEN)),
        (Refused, None),
    ];
    for (kind, len) in lengths {
        assert_eq!(stream_request_len(kind as u8), len, "{kind:?}");
    }
}

#[test]
fn every_reason_comes_back() {
    use {Refusal as R, StaleReason as S};
    for reason in [
        R::Voucher,
        R::VoucherExpired,
        R::Consent,
        R::UnknownName,
        R::Address,
        R::Leaving,
        R::Busy,
        R::Revoked,
    ] {
        let (nonce, now) = (Nonce([1; 8]), 2);
        let refused = Refused { nonce, reason, now };
        assert_eq!(Refused::decode(&refused.to_bytes()), Ok(refused));
    }
    let grant = Grant::from(header(addr("192.0.2.1:1")));
    let others = Grant::from(ForwardHeader {
        mac: Mac([0x34; 8]),
        ..*grant.header()
    });
    for reason in [S::Expired, S::Moved, S::Leaving] {
        let (mac, now) = (grant.header().mac, 2);
        let stale = Stale { reason, now, mac };
        assert_eq!(Stale::decode(&stale.to_bytes()), Ok(stale));
        assert!(stale.concerns(&grant) && !stale.concerns(&others));
    }
    assert_eq!(grant.expires(), 0x0102_0304);
}

#[test]
fn a_listeners_name_is_the_hash_of_its_purpose_and_its_key() {
    let hashed = ListenKey([0x7e; 16]).hashed_bytes();
    assert_eq!(
        hashed,
        [&b"manyway relay listener 1"[..], &[0x7e; 16]].concat()
    );
}

#[test]
fn no_request_is_shorter_than_its_reply() {
    // Those with a constant length are compared when this crate is compiled.
    let mut minted = Vec::new();
    let grant = Grant::from(header(addr("[2001:db8::1]:1")));
    Minted {
        nonce: Nonce([0; 8]),
        now: 0,
        there: grant,
        back: grant,
    }
    .encode(&mut minted);
    assert_eq!(minted.len(), MINTED_MAX_LEN);
}

#[test]
fn debug_shows_no_secret() {
    let peer = Peer::Consent(consent(addr("192.0.2.1:1")));
    let text = format!(
        "{:?} {:?} {:?} {:?} {:?}",
        mint(peer),
        Grant::from(header(addr("192.0.2.1:1"))),
        relay_ticket(),
        ListenerName([0x7e; 16]),
        header(addr("192.0.2.1:1")).mac,
    );
    let hidden = format!("{:?} {:?}", ListenKey([0x7e; 16]), CallToken([0x7e; 16]));
    assert_eq!(hidden, "ListenKey(..) CallToken(..)");
    // What may be shown is.
    for shown in ["ListenerName(..)", "Access { voucher: Voucher { terms"] {
        assert!(text.contains(shown), "{shown} isn't in {text}");
    }
    // The MACs, the signature, the client's seed.
    for secret in ["92, 92", "51, 51", "165, 165", "126, 126"] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    assert!(text.contains("192.0.2.1:3470"));
    assert!(relay_ticket().without_access().access.is_none());
}

#[test]
fn what_is_signed_is_for_one_purpose() {
    let bytes = mint(Peer::Name(ListenerName([1; 16]))).seal(|signed| {
        assert!(signed.starts_with(b"manyway relay mint 1\x24"));
        assert_eq!(signed.len(), 20 + MINT_LEN - SIGNATURE_LEN);
        [0x99; 64]
    });
    assert_eq!(bytes[MINT_LEN - 64..], [0x99; 64]);
    assert!(
        Mint::signed_bytes(&bytes).ends_with(&[0xa5; 64]),
        "the voucher is covered"
    );
    assert!(
        voucher()
            .terms
            .signed_bytes()
            .starts_with(b"manyway relay voucher 1\xa1")
    );
}

#[test]
fn classes_are_powers_of_two_megabits() {
    assert_eq!(RateClass::new(0).unwrap().bytes_per_second() * 8, 1_000_000);
    assert_eq!(RateClass::MAX.bytes_per_second() * 8, 32_768_000_000);
    assert_eq!(RateClass::new(16), None);
    assert_eq!(RateClass::within(12_500_000), RateClass::new(6));
    assert_eq!(RateClass::within(124_999), None);
    assert_eq!(RateClass::within(u64::MAX), Some(RateClass::MAX));
    let mut bytes = voucher().to_bytes();
    bytes[72] = 16;
    let error = Voucher::decode(&bytes).unwrap_err();
    assert!(
        matches!(error, DecodeError::TooLarge { value: 16, .. }),
        "{error}"
    );
}

#[test]
fn the_relays_text_is_stable_and_checked() {
    insta::assert_snapshot!(relay_ticket());
    insta::assert_snapshot!(relay_ticket().without_access());
    let text = relay_ticket().to_string();
    assert_eq!(format!(" {text}\n").parse(), Ok(relay_ticket()));
    for access in [relay_ticket().access, None] {
        let over_tcp = RelayTicket {
            tcp: true,
            access,
            ..relay_ticket()
        };
        assert_eq!(over_tcp.to_string().parse(), Ok(over_tcp));
    }
    // Flags without a meaning.
    let mut bytes = vec![0; ticket::MIN_LEN];
    bytes[ticket::MIN_LEN - 1] = 4;
    ticket::TEXT
        .encode(bytes)
        .parse::<RelayTicket>()
        .unwrap_err();
    let mut bytes = ticket::TEXT.decode(&text).unwrap();
    let expected = bytes.len();
    bytes.push(0);
    let error = ticket::TEXT.encode(bytes).parse::<RelayTicket>();
    let too_long = DecodeError::WrongLength {
        what: "it",
        expected,
        found: expected + 1,
    };
    assert_eq!(error, Err(ticket::TEXT.malformed(too_long)));
    for at in 0..text.len() {
        let mut wrong = text.clone();
        let other = if &text[at..=at] == "a" { "b" } else { "a" };
        wrong.replace_range(at..=at, other);
        wrong.parse::<RelayTicket>().unwrap_err();
        text[..at].parse::<RelayTicket>().unwrap_err();
    }
    let mut stranger = relay_ticket();
    stranger.relay = RelayId([0; 32]);
    let error = stranger.to_string().parse::<RelayTicket>().unwrap_err();
    assert!(matches!(error, TextError::Malformed { .. }), "{error}");
    let error = "mw1abc".parse::<RelayTicket>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "this is not a relay: relays begin with \"mr1\""
    );
}

/// The proof that two wrong characters are found is made for session tickets, which are longer.
#[test]
fn relays_texts_are_no_longer_than_tickets() {
    let ticket = crate::Ticket {
        version: crate::Ticket::VERSION,
        id: [0; 8],
        public_key: [0; 32],
        secret: [0; 32],
        addresses: vec![addr("[::1]:1"); crate::MAX_ADDRESSES],
        relays: Vec::new(),
        lent: crate::LentAccess::default(),
    };
    let mut longest = relay_ticket();
    longest.addresses = vec![addr("[::1]:1"); MAX_RELAY_ADDRESSES];
    assert_eq!(
        longest.to_string().len(),
        3 + encoded_len(ticket::MAX_LEN + 4)
    );
    assert!(longest.to_string().len() < ticket.to_string().len());
    assert_eq!(longest.to_string().parse(), Ok(longest));
}

#[test]
fn ids_are_texts() {
    let id = RelayId([0xa1; 32]);
    assert_eq!(id.to_string().len(), 52);
    assert_eq!(id.to_string().parse(), Ok(id));
    assert!("a".parse::<RelayId>().is_err());
    assert!("1".repeat(52).parse::<RelayId>().is_err());
    assert!("é".repeat(26).parse::<RelayId>().is_err());
}

/// Every prefix of every message is refused, and so is one byte more.
#[test]
fn lengths_are_exact() {
    let grant = Grant::from(header(addr("[2001:db8::1]:1")));
    let nonce = Nonce([0; 8]);
    let consent = consent(addr("192.0.2.1:1"));
    let mut minted = Vec::new();
    Minted {
        nonce,
        now: 0,
        there: grant,
        back: Grant::from(header(addr("192.0.2.1:1"))),
    }
    .encode(&mut minted);
    let reply = |bytes: &[u8]| RelayReply::decode(bytes).is_ok();
    type Check<'a> = (Vec<u8>, &'a dyn Fn(&[u8]) -> bool);
    let stale = Stale {
        reason: StaleReason::Expired,
        now: 0,
        mac: Mac([0; 8]),
    };
    let refused = Refused {
        nonce,
        reason: Refusal::Voucher,
        now: 0,
    };
    let relay = RelayId([0; 32]);
    let listen = Listen {
        nonce,
        relay,
        name: ListenerName([0; 16]),
        proof: proof(),
    };
    let mint = mint(Peer::Consent(consent)).seal(|_| [0; 64]);
    let checks: [Check<'_>; 9] = [
        (minted, &reply),
        (
            ConsentReply {
                nonce,
                consent,
                proof: proof(),
            }
            .to_bytes()
            .to_vec(),
            &reply,
        ),
        (stale.to_bytes().to_vec(), &reply),
        (refused.to_bytes().to_vec(), &reply),
        (Hello { nonce, relay }.to_bytes().to_vec(), &|bytes| {
            Hello::decode(bytes).is_ok()
        }),
        (listen.to_bytes().to_vec(), &|bytes| {
            Listen::decode(bytes).is_ok()
        }),
        (mint.to_vec(), &|bytes| Mint::decode(bytes).is_ok()),
        (grant.as_bytes().to_vec(), &|bytes| {
            Grant::decode(bytes).is_ok()
        }),
        (voucher().to_bytes().to_vec(), &|bytes| {
            Voucher::decode(bytes).is_ok()
        }),
    ];
    for (index, (mut bytes, accepts)) in checks.into_iter().enumerate() {
        assert!(accepts(&bytes), "message {index}");
        for cut in 0..bytes.len() {
            assert!(!accepts(&bytes[..cut]), "message {index} cut at {cut}");
        }
        bytes.push(0);
        assert!(!accepts(&bytes), "message {index} with a byte more");
    }
    // Errors name the right length, where the contents give it, too.
    let mut minted = Vec::new();
    Minted {
        nonce,
        now: 0,
        there: grant,
        back: grant,
    }
    .encode(&mut minted);
    minted.push(0);
    let error = DecodeError::WrongLength {
        what: "a MINTED",
        expected: MINTED_MAX_LEN,
        found: MINTED_MAX_LEN + 1,
    };
    assert_eq!(Minted::decode(&minted), Err(error));
}

proptest! {
    #[test]
    fn grants_round_trip(v6: bool, ip: [u8; 16], port: u16, key: u8, class in 0u8..16, expires: u32,
                         tag: [u8; 8], check: [u8; 4], mac: [u8; 8], payload: Vec<u8>) {
        let ip = match v6 {
            true => std::net::IpAddr::from(ip).to_canonical(),
            false => [ip[0], ip[1], ip[2], ip[3]].into(),
        };
        let header = ForwardHeader {
            key,
            class: RateClass::new(class).unwrap(),
            expires,
            tag,
            destination: SocketAddr::new(ip, port),
            check,
            mac: Mac(mac),
        };
        let grant = Grant::from(header);
        prop_assert_eq!(Grant::decode(grant.as_bytes()), Ok(grant));
        let packet = [grant.as_bytes(), &payload].concat();
        prop_assert_eq!(ForwardHeader::decode(&packet), Ok(header));
        fuzzing::relay_request(&packet);
    }

    #[test]
    fn anything_is_safe(
        kind in 0x20u8..0x30,
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        text in "(mr1)?\\PC{0,300}",
        digits in "mr1[a-z2-7]{60,620}",
    ) {
        fuzzing::voucher(&bytes);
        fuzzing::relay_ticket(text.as_bytes());
        fuzzing::relay_ticket(digits.as_bytes());
        bytes.insert(0, kind);
        fuzzing::relay_request(&bytes);
        fuzzing::relay_reply(&bytes);
        for len in [HELLO_LEN, LISTEN_LEN, CONSENT_LEN, MINT_LEN, STALE_LEN, REFUSED_LEN] {
            bytes.resize(len, 0);
            fuzzing::relay_request(&bytes);
            fuzzing::relay_reply(&bytes);
        }
    }
}
