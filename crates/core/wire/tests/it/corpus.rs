//! Replays the fuzz targets' corpus, so that whatever a fuzzer found once stays found, without a
//! fuzzer.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::BufMut;
use manyway_wire::relay::{
    Access, CallToken, Challenge, Consent, ConsentReply, ForwardHeader, Grant, Hello, Listen,
    ListenKey, ListenerName, Mac, Mint, Minted, Nonce, Peer, Proof, RateClass, Refusal, Refused,
    RelayId, RelayTicket, Stale, StaleReason, StreamAnswer, StreamConnect, StreamListen,
    StreamRefusal, StreamReply, StreamRequest, VoucherTerms,
};
use manyway_wire::{
    AckInfo, ConnectionId, Cookie, DataHeader, EcnCounts, Frame, INIT_LEN, Init, LentAccess,
    LentRegistry, MAC1_LEN, MAC2_LEN, OtherVersion, PathId, PeerId, Reply, StreamId, StreamKind,
    TAG_LEN, Ticket, TransportParameters, encode_ack, fuzzing, record_header, varint,
};

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 16] = [
    ("frames", fuzzing::frames),
    ("data_header", fuzzing::data_header),
    ("init", fuzzing::init),
    ("reply", fuzzing::reply),
    ("cookie", fuzzing::cookie),
    ("other_version", fuzzing::other_version),
    ("params", fuzzing::params),
    ("ticket", fuzzing::ticket),
    ("peer_id", fuzzing::peer_id),
    ("relay_request", fuzzing::relay_request),
    ("relay_reply", fuzzing::relay_reply),
    ("relay_stream_request", fuzzing::relay_stream_request),
    ("relay_stream_reply", fuzzing::relay_stream_reply),
    ("voucher", fuzzing::voucher),
    ("relay_ticket", fuzzing::relay_ticket),
    ("records", fuzzing::records),
];

#[test]
fn every_file_of_the_corpus_passes() {
    for (name, target) in TARGETS {
        let files = files(name);
        assert!(!files.is_empty(), "the corpus of {name} is empty");
        for file in files {
            let bytes = fs::read(&file).expect("a readable file");
            let outcome = std::panic::catch_unwind(|| target(&bytes));
            assert!(
                outcome.is_ok(),
                "{} breaks the parser: see the panic above",
                file.display()
            );
        }
    }
}

/// Every target is built by the fuzz crate, and has a corpus here.
#[test]
fn fuzz_targets_and_corpus_belong_together() {
    let mut expected: Vec<_> = TARGETS.map(|(name, _)| name.to_owned()).to_vec();
    expected.sort();
    let targets = entries(&root().join("fuzz_targets"));
    let targets: Vec<_> = targets
        .iter()
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    assert_eq!(targets, expected);
    let corpora = entries(&root().join("corpus"));
    let corpora: Vec<_> = corpora
        .iter()
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    assert_eq!(corpora, expected);
}

/// The seeds still are what the encoders write: a fuzzer that starts from them gets deep at once.
#[test]
fn seeds_are_up_to_date() {
    for (target, name, bytes) in seeds() {
        let file = seed_file(target, name);
        let found = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(
            found == bytes,
            "{} is out of date: see fuzz/README.md",
            file.display()
        );
    }
}

#[test]
#[ignore = "writes into the tree"]
fn write_seeds() {
    for (target, name, bytes) in seeds() {
        let file = seed_file(target, name);
        fs::create_dir_all(file.parent().expect("a directory")).expect("a writable tree");
        fs::write(file, bytes).expect("a writable tree");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

fn files(target: &str) -> Vec<PathBuf> {
    entries(&root().join("corpus").join(target))
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("a readable directory").path())
        .collect();
    paths.sort();
    paths
}

fn seed_file(target: &str, name: &str) -> PathBuf {
    root()
        .join("corpus")
        .join(target)
        .join(format!("seed-{name}"))
}

fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let mut seeds = frames();
    seeds.extend(acks());
    seeds.extend(datagrams());
    seeds.extend(parameters());
    seeds.extend(tickets());
    seeds.extend(relays());
    seeds.extend(relay_streams());
    seeds.extend(records());
    seeds
}

/// The first byte is how many bytes less one are read at a time.
fn records() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let stream = |read: u8, packets: &[usize]| {
        let mut bytes = vec![read];
        for (n, &len) in packets.iter().enumerate() {
            bytes.extend(record_header(len).expect("a record's length"));
            bytes.extend(vec![n as u8; len]);
        }
        bytes
    };
    vec![
        ("records", "bytewise", stream(0, &[1, 2, 300])),
        ("records", "at-once", stream(255, &[INIT_LEN, 30, 40])),
        ("records", "cut-short", stream(9, &[5, 6])[..12].to_vec()),
        ("records", "too-long", vec![255, 0x40, 0x01, 7]),
        ("records", "empty", vec![255, 0, 1, 9, 0, 0, 9]),
    ]
}

fn frames() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let (stream, path) = (
        StreamId::new(false, StreamKind::Bidirectional, 3),
        PathId(70_000),
    );
    let addresses = vec![
        "192.0.2.1:4433".parse().expect("an address"),
        "[2001:db8::1]:1".parse().expect("an address"),
    ];
    let payload = |frames: &[Frame<'_>]| {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        bytes
    };
    let data = payload(&[
        Frame::Stream {
            stream,
            offset: 1 << 40,
            fin: false,
            data: b"some bytes of a file",
        },
        Frame::Stream {
            stream: StreamId(0),
            offset: 0,
            fin: true,
            data: b"",
        },
        Frame::ResetStream {
            stream,
            code: 7,
            final_size: 1 << 20,
        },
        Frame::StopSending { stream, code: 7 },
    ]);
    let limits = payload(&[
        Frame::MaxData { max: 1 << 26 },
        Frame::MaxStreamData {
            stream,
            max: varint::MAX,
        },
        Frame::MaxStreams {
            kind: StreamKind::Unidirectional,
            count: 128,
        },
        Frame::Ping,
        Frame::Filler,
    ]);
    let paths = payload(&[
        Frame::PathChallenge { data: [1; 8] },
        Frame::PathResponse { data: [2; 8] },
        Frame::PathId {
            path,
            cid: ConnectionId([3; 8]),
        },
        Frame::PathAbandon {
            path: PathId(u32::MAX),
            code: 0,
        },
        Frame::Addresses { seq: 4, addresses },
        Frame::Padding { len: 30 },
    ]);
    let datagrams = payload(&[
        Frame::Datagram { data: b"a packet" },
        Frame::Datagram { data: b"" },
    ]);
    let close = payload(&[Frame::Close {
        code: 0x100,
        reason: "the disk is full: größer",
    }]);
    vec![
        ("frames", "data", data),
        ("frames", "limits", limits),
        ("frames", "paths", paths),
        ("frames", "datagrams", datagrams),
        ("frames", "close", close),
    ]
}

fn acks() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let ack = |ranges: u64, ecn| {
        let mut bytes = Vec::new();
        let info = AckInfo {
            path: PathId(1),
            delay_us: 10_000,
            receive_time_us: 1 << 33,
            ecn,
        };
        let ranges = (0..ranges).rev().map(|i| 100 * i..=100 * i + 97 - i % 3);
        encode_ack(&mut bytes, &info, ranges, 1000);
        bytes
    };
    let ecn = Some(EcnCounts {
        ect0: 100_000,
        ect1: 0,
        ce: 12,
    });
    vec![
        ("frames", "ack", ack(3, None)),
        ("frames", "ack-ecn-70-ranges", ack(70, ecn)),
    ]
}

fn datagrams() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let cid = ConnectionId(*b"12345678");
    let noise: Vec<u8> = (0..200).collect();
    let mut packet = DataHeader {
        cid,
        epoch: 255,
        pn_low: 0xffff_fffe,
    }
    .to_bytes()
    .to_vec();
    packet.put_bytes(0xcc, 40 + TAG_LEN);
    let mac1 = |authenticated: &[u8]| [authenticated.len() as u8; MAC1_LEN];
    let init = Init {
        sender_cid: cid,
        ticket_id: *b"ticketid",
        noise: &noise,
        mac2: [2; MAC2_LEN],
    }
    .seal(mac1);
    assert_eq!(init.len(), INIT_LEN);
    let reply = Reply {
        receiver_cid: cid,
        noise: &noise,
    }
    .seal(mac1);
    let cookie = Cookie {
        receiver_cid: cid,
        nonce: [5; 16],
        masked: [6; 16],
    }
    .seal(mac1);
    let answer = OtherVersion {
        version: 9,
        receiver_cid: cid,
    }
    .seal(mac1);
    let mut asked = init.clone();
    asked[1] = 9;
    vec![
        ("cookie", "cookie", cookie),
        ("other_version", "answer", answer),
        ("other_version", "asked", asked),
        ("data_header", "packet", packet),
        ("init", "init", init),
        ("reply", "reply", reply),
    ]
}

fn parameters() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let params = TransportParameters::new(ConnectionId([9; 8]));
    let with_identity = TransportParameters {
        identity: true,
        ..params
    };
    let defaults = params.to_bytes();
    let mut with_unknown = vec![0x20, 3, 1, 2, 3];
    with_unknown.extend(&defaults);
    vec![
        ("params", "defaults", defaults),
        ("params", "with-identity", with_identity.to_bytes()),
        ("params", "with-unknown", with_unknown),
    ]
}

fn tickets() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let ticket = |addresses: &[&str], lent: LentAccess| {
        let ticket = Ticket {
            version: Ticket::VERSION,
            id: [1; 8],
            public_key: [2; 32],
            secret: [3; 32],
            addresses: addresses
                .iter()
                .map(|address| address.parse().expect("an address"))
                .collect(),
            relays: Vec::new(),
            lent,
        };
        ticket.to_string().into_bytes()
    };
    let none = LentAccess::default();
    let two = ticket(&["203.0.113.9:40000", "[2001:db8::2]:40000"], none.clone());
    let lent = LentAccess {
        relays: Vec::new(),
        registry: Some(LentRegistry {
            urls: vec!["https://registry.example:45180".to_owned()],
            seed: [4; 32],
            credential: "credential".to_owned(),
        }),
    };
    vec![
        ("peer_id", "id", PeerId([2; 32]).to_string().into_bytes()),
        ("ticket", "no-address", ticket(&[], none)),
        ("ticket", "with-access", ticket(&[], lent)),
        ("ticket", "two-addresses", two),
    ]
}

fn relays() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let (nonce, relay) = (Nonce([1; 8]), RelayId([2; 32]));
    let consent = Consent {
        key: 3,
        issued: 1_800_000_000,
        address: "[2001:db8::1]:4433".parse().expect("an address"),
        mac: Mac([4; 8]),
    };
    let grant = |destination: &str| {
        Grant::from(ForwardHeader {
            key: 3,
            class: RateClass::MAX,
            expires: 1_800_000_120,
            tag: [5; 8],
            destination: destination.parse().expect("an address"),
            check: [6; 4],
            mac: Mac([7; 8]),
        })
    };
    let (v4, v6) = (grant("192.0.2.1:40000"), grant("[2001:db8::2]:4433"));
    let voucher = VoucherTerms {
        relay,
        signer: RelayId([8; 32]),
        account: [9; 8],
        class: RateClass::MAX,
        expires: u32::MAX,
        client: RelayId([10; 32]),
    }
    .seal(|_| [11; 64]);
    let name = ListenerName([12; 16]);
    let proof = Proof {
        key: 3,
        issued: 1_800_000_000,
        mac: Mac([15; 8]),
    };
    let forward = |grant: Grant| [grant.as_bytes(), b"a packet"].concat();
    let mint = |peer| {
        let mint = Mint {
            nonce,
            proof,
            peer,
            voucher,
        };
        mint.seal(|_| [13; 64]).to_vec()
    };
    let listen = Listen {
        nonce,
        relay,
        name,
        proof,
    };
    let now = 1_800_000_001;
    let mut minted = Vec::new();
    Minted {
        nonce,
        now,
        there: v4,
        back: v6,
    }
    .encode(&mut minted);
    let stale = Stale {
        reason: StaleReason::Moved,
        now,
        mac: v4.header().mac,
    };
    let refused = Refused {
        nonce,
        reason: Refusal::Consent,
        now,
    };
    let text = |tcp, access| {
        let addresses = vec![
            "192.0.2.1:3470".parse().expect("an address"),
            "[2001:db8::1]:3470".parse().expect("an address"),
        ];
        let ticket = RelayTicket {
            relay,
            addresses,
            tcp,
            access,
        };
        ticket.to_string().into_bytes()
    };
    let access = Access {
        voucher,
        seed: [14; 32],
    };
    let request = |name, bytes| ("relay_request", name, bytes);
    let reply = |name, bytes| ("relay_reply", name, bytes);
    vec![
        request("forward-4", forward(v4)),
        request("forward-6", forward(v6)),
        request("hello", Hello { nonce, relay }.to_bytes().to_vec()),
        request("listen", listen.to_bytes().to_vec()),
        request("mint-consent", mint(Peer::Consent(consent))),
        request("mint-name", mint(Peer::Name(name))),
        reply(
            "consent",
            ConsentReply {
                nonce,
                consent,
                proof,
            }
            .to_bytes()
            .to_vec(),
        ),
        reply("minted", minted),
        reply("stale", stale.to_bytes().to_vec()),
        reply("refused", refused.to_bytes().to_vec()),
        ("voucher", "voucher", voucher.to_bytes().to_vec()),
        ("relay_ticket", "without-access", text(false, None)),
        ("relay_ticket", "with-tcp", text(true, Some(access.clone()))),
        ("relay_ticket", "with-access", text(false, Some(access))),
    ]
}

fn relay_streams() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let relay = RelayId([2; 32]);
    let voucher = VoucherTerms {
        relay,
        signer: RelayId([8; 32]),
        account: [9; 8],
        class: RateClass::MAX,
        expires: u32::MAX,
        client: RelayId([10; 32]),
    }
    .seal(|_| [11; 64]);
    let connect = StreamConnect {
        peer: Peer::Name(ListenerName([12; 16])),
        voucher,
    };
    let listen = StreamListen {
        relay,
        key: ListenKey([13; 16]),
    };
    let answer = StreamAnswer {
        relay,
        token: CallToken([14; 16]),
    };
    let request = |name, request: StreamRequest| ("relay_stream_request", name, request.to_bytes());
    let reply = |name, reply: StreamReply| ("relay_stream_reply", name, reply.to_bytes());
    vec![
        request("hello", StreamRequest::Hello(relay)),
        request(
            "connect",
            StreamRequest::Connect(Box::new(connect), [15; 64]),
        ),
        request("listen", StreamRequest::Listen(listen)),
        request("answer", StreamRequest::Answer(answer)),
        request("ping", StreamRequest::Ping),
        reply("welcome", StreamReply::Welcome(Challenge([16; 16]))),
        reply("call", StreamReply::Call(CallToken([14; 16]))),
        reply("ok", StreamReply::Ok),
        reply("refused", StreamReply::Refused(StreamRefusal::ForUdp)),
        reply("leaving", StreamReply::Leaving),
    ]
}
