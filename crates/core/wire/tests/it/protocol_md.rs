//! Holds the tables of `docs/protocol.md` to the code.

use std::path::Path;

use manyway_wire::relay::{Consent, ForwardHeader, RelayId};
use manyway_wire::{
    AckInfo, COOKIE_LEN, ConnectionId, DATA_HEADER_LEN, DecodeError, EcnCounts, Frame, INIT_LEN,
    MAC2_LEN, MAX_ADDRESSES, MAX_INIT_NOISE, MAX_REASON_LEN, MAX_RECORD, MAX_RELAYS, MAX_REPLY_LEN,
    MAX_REPLY_NOISE, MIN_DATA_LEN, OTHER_VERSION_LEN, PathId, StreamId, TransportParameters,
    VERSION, encode_ack,
};

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/protocol.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cells of each row of the section's tables, heads included.
fn rows(section: &str) -> Vec<Vec<String>> {
    let document = document();
    let start = document
        .find(&format!("\n{section}\n"))
        .unwrap_or_else(|| panic!("no section {section}"))
        + 1;
    let body = &document[start + section.len()..];
    let body = &body[..body.find("\n## ").unwrap_or(body.len())];
    let lines = body
        .lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    lines
        .map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect()
        })
        .collect()
}

#[test]
fn the_examples_are_what_the_encoders_write() {
    let stream = StreamId(5);
    let addresses = vec![
        "192.0.2.1:4433".parse().unwrap(),
        "[2001:db8::1]:4434".parse().unwrap(),
    ];
    let frames = [
        Frame::Stream {
            stream,
            offset: 0,
            fin: false,
            data: b"abc",
        },
        Frame::Stream {
            stream,
            offset: 1 << 32,
            fin: true,
            data: b"",
        },
        Frame::Datagram { data: b"abc" },
        Frame::PathId {
            path: PathId(300),
            cid: ConnectionId(*b"01234567"),
        },
        Frame::Addresses { seq: 1, addresses },
        Frame::Relay {
            slot: 3,
            seq: 1,
            relay: Some(("192.0.2.9:443".parse().unwrap(), RelayId([0xaa; 32]))),
        },
        Frame::Close {
            code: 256,
            reason: "bye",
        },
    ];
    let mut expected: Vec<Vec<u8>> = frames
        .iter()
        .map(|frame| {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            bytes
        })
        .collect();
    let mut ack = Vec::new();
    let ecn = Some(EcnCounts {
        ect0: 9,
        ect1: 0,
        ce: 64,
    });
    let info = AckInfo {
        path: PathId(7),
        delay_us: 25,
        receive_time_us: 70_000,
        ecn,
    };
    encode_ack(
        &mut ack,
        &info,
        [90..=100, 88..=88, 2..=5].into_iter(),
        usize::MAX,
    );
    expected.insert(3, ack);

    let written: Vec<Vec<u8>> = rows("## Frames")
        .into_iter()
        .filter(|row| row.len() == 2 && row[0].starts_with('`'))
        .map(|row| unhex(&row[0]))
        .collect();
    assert_eq!(written, expected);
}

/// The table of frames has every type that decodes, and no other.
#[test]
fn every_frame_type_is_in_the_table() {
    let listed: Vec<(u8, String)> = rows("## Frames")
        .into_iter()
        .filter(|row| row.len() == 3 && row[0].starts_with("`0x"))
        .map(|row| (unhex(&row[0][3..])[0], row[1].clone()))
        .collect();
    for kind in 0..=u8::MAX {
        let known =
            Frame::decode(&mut &[kind, 0, 0, 0][..]) != Err(DecodeError::UnknownFrame { kind });
        let name = listed
            .iter()
            .find(|(listed, _)| *listed == kind)
            .map(|(_, name)| name.as_str());
        assert_eq!(
            name.is_some_and(|name| name != "HOLES"),
            known,
            "{kind:#04x}"
        );
    }
}

#[test]
fn the_newest_version_is_the_one_spoken() {
    let title = format!("# The manyway session protocol, version {VERSION}\n");
    assert!(document().starts_with(&title), "{title:?}");
    assert_eq!(rows("## Versions")[1][0], VERSION.to_string());
}

#[test]
fn defaults_of_the_parameters() {
    let params = TransportParameters::new(ConnectionId::default());
    let defaults = [
        params.initial_max_data,
        params.initial_max_stream_data,
        params.initial_max_streams,
        params.max_idle_ms,
        params.ack_delay_ms,
        params.ack_every,
        params.max_paths,
        params.max_datagram,
        params.max_datagram_data,
        u64::from(params.identity),
    ];
    let rows = rows("## Transport parameters");
    let written: Vec<u64> = rows
        .iter()
        .filter_map(|row| row[2].replace(',', "").parse().ok())
        .collect();
    assert_eq!(written, defaults);
    let ids: Vec<u64> = rows.iter().filter_map(|row| row[0].parse().ok()).collect();
    assert_eq!(ids, (1..=12).collect::<Vec<_>>());
}

#[test]
fn sizes() {
    let document = document().split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        format!("| version | 1 | `{VERSION:#04x}` |"),
        format!("Always exactly {INIT_LEN} bytes"),
        format!("At most {MAX_REPLY_LEN} bytes; exactly as long as its fields"),
        format!("at most {MAX_INIT_NOISE} |"),
        format!("| {MAX_INIT_NOISE} − noise_len |"),
        format!("at most {MAX_REPLY_NOISE} |"),
        format!("Always exactly {COOKIE_LEN} bytes."),
        format!("Always exactly {OTHER_VERSION_LEN} bytes."),
        format!("| mac2 | {MAC2_LEN} |"),
        format!("The first {DATA_HEADER_LEN} bytes are the header"),
        format!("The shortest DATA packet has {MIN_DATA_LEN} bytes"),
        format!("count (≤ {MAX_ADDRESSES})"),
        format!("of addresses, at most {MAX_ADDRESSES}"),
        format!("reason_len (≤ {MAX_REASON_LEN})"),
        format!("consent ({} bytes)", Consent::LEN),
        format!(
            "grant ({} or {} bytes)",
            ForwardHeader::LEN_V4,
            ForwardHeader::LEN_V6
        ),
        format!("slot (< {MAX_RELAYS})"),
        format!("of the packet, 1 to {},384", MAX_RECORD / 1000),
    ] {
        assert!(
            document.contains(&text),
            "docs/protocol.md doesn't say {text:?}"
        );
    }
}

/// Hexadecimal digits, whatever else is between them.
fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}
