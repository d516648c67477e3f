//! The test vectors of `docs/protocol.md`: computed anew and compared, and the datagrams that stand
//! there accepted by both sides.

use std::collections::BTreeMap;
use std::fmt::Write;

use aws_lc_rs::hmac;
use manyway_relay::keys::{public_key, sign};
use manyway_relay::{Action, Keys, Relay};
use manyway_wire::relay::{
    Hello, Mint, Minted, Nonce, Peer, RateClass, RelayId, RelayReply, VoucherTerms,
};
use manyway_wire::{DataHeader, Frame, MAC1_LEN, MAC2_LEN, OtherVersion, StreamId, expand_pn};
use rand::Rng;
use snow::{Builder, HandshakeState};

use super::*;
use crate::crypto::{SplitInput, split};
use crate::handshake::cookie;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/protocol.md");
const UPDATE: &str = "MANYWAY_UPDATE_VECTORS=1 cargo test -p manyway-session vectors";
const SECTION: &str = "\n## Test vectors\n";
/// Where values stand in the page's blocks, and how wide they are.
const COLUMN: usize = 32;
const WIDTH: usize = 64;

const INITIATOR_SEED: u8 = 0x61;
const LISTENER_SEED: u8 = 0x62;
const LISTENER_CID: u64 = 0xb0b1_b2b3_b4b5_b6b7;
const INITIATOR_CID: u64 = 0xa0a1_a2a3_a4a5_a6a7;
/// The path and the number of the packet after the key update.
const LATER: (u32, u64) = (3, (1 << 32) + 5);
const COOKIE: [u8; 16] = bytes(0xc0);
const COOKIE_NONCE: [u8; 16] = bytes(0xd0);

const RELAY_KEYS: &str = "manyway relay keys 1\n\
    identity 101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f\n\
    codes 7 1800000000 303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f\n";
const RELAY_NOW: Duration = Duration::from_secs(1_800_000_060);
const CLIENT_SEED: [u8; 32] = bytes(0x50);
const INITIATOR_AT: &str = "198.51.100.7:4000";
const LISTENER_AT: &str = "192.0.2.1:4433";

/// `first`, and what comes after it.
const fn bytes<const N: usize>(first: u8) -> [u8; N] {
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        bytes[at] = first.wrapping_add(at as u8);
        at += 1;
    }
    bytes
}

/// Values by their names on the page.
#[derive(Default)]
struct Vectors(BTreeMap<&'static str, String>);

impl Vectors {
    fn put(&mut self, name: &'static str, value: impl AsRef<[u8]>) {
        self.text(name, hex(value.as_ref()));
    }

    fn text(&mut self, name: &'static str, value: String) {
        assert!(self.0.insert(name, value).is_none(), "{name} comes twice");
    }
}

/// The values on the page: a name, two spaces or more, a value; lines with a value alone go on with
/// the last one. `00*N` are N zero bytes.
fn read(section: &str) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    let mut last = String::new();
    let blocks = section.split("```").skip(1).step_by(2);
    for line in blocks.flat_map(|block| block.lines().skip(1)) {
        let (name, value) = line.split_at_checked(COLUMN).unwrap_or((line, ""));
        if !name.trim().is_empty() {
            last = name.trim().to_owned();
            let fresh = values.insert(last.clone(), String::new()).is_none();
            assert!(fresh, "{last} comes twice");
        }
        let entry = values.entry(last.clone()).or_default();
        for word in value.split_whitespace() {
            match word.strip_prefix("00*") {
                Some(zeros) => entry.push_str(&"00".repeat(zeros.parse().unwrap())),
                None => entry.push_str(word),
            }
        }
    }
    values.remove("");
    values
}

/// The section with other values in its blocks.
fn written(section: &str, vectors: &Vectors) -> String {
    let mut text = String::new();
    for (at, part) in section.split("```").enumerate() {
        if at > 0 {
            text += "```";
        }
        if at % 2 == 0 {
            text += part;
            continue;
        }
        let (language, block) = part.split_once('\n').unwrap();
        writeln!(text, "{language}").unwrap();
        for line in block.lines() {
            let name = line.get(..COLUMN).unwrap_or(line).trim();
            if let Some(value) = vectors.0.get(name) {
                text += &laid_out(name, value);
            } else if !name.is_empty() {
                panic!("nothing computes {name:?}");
            }
        }
    }
    text
}

fn laid_out(name: &str, value: &str) -> String {
    // The padding of an INIT, and nothing else, has so many zeros.
    let zeros = "00".repeat(64);
    let mut words = Vec::new();
    if let Some(at) = value.find(&zeros) {
        let at = at.next_multiple_of(2);
        let rest = value[at..].trim_start_matches("00");
        let run = (value.len() - at - rest.len()) / 2;
        words.extend(value.as_bytes()[..at].chunks(WIDTH).map(text_of));
        words.push(format!("00*{run}"));
        words.extend(rest.as_bytes().chunks(WIDTH).map(text_of));
    } else {
        words.extend(value.as_bytes().chunks(WIDTH).map(text_of));
    }
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        let name = if at == 0 { name } else { "" };
        writeln!(text, "{name:COLUMN$}{word}").unwrap();
    }
    text
}

fn text_of(chunk: &[u8]) -> String {
    String::from_utf8(chunk.to_vec()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .map(|c| (c as char).to_digit(16).unwrap() as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

fn page() -> (String, String) {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, section) = page.split_once(SECTION).expect("the page has the vectors");
    (before.to_owned(), section.to_owned())
}

fn the_secrets() -> Secrets {
    let stored = [&bytes::<8>(0)[..], &bytes::<32>(0x20), &bytes::<32>(0x80)].concat();
    Secrets::from_bytes(&stored).unwrap()
}

fn the_relay() -> Relay {
    let keys = Keys::from_text(RELAY_KEYS).unwrap();
    Relay::new(
        manyway_relay::Config {
            allow_private: true,
            ..Default::default()
        },
        keys,
        &mut rng(1),
    )
}

fn the_ticket() -> Ticket {
    let mut ticket = the_secrets().ticket(vec![LISTENER_AT.parse().unwrap()]);
    ticket.relays = vec![("203.0.113.9:45170".parse().unwrap(), the_relay().id())];
    ticket
}

fn the_initiator(suite: Suite) -> Initiator {
    let config = InitiatorConfig {
        ticket: &the_ticket(),
        identity: None,
        params: params(cid(INITIATOR_CID)),
        suite,
        limits: two_epochs(),
    };
    Initiator::new(config, &mut rng(INITIATOR_SEED)).unwrap()
}

fn the_responder(suite: Suite) -> Responder {
    let mut config = ResponderConfig::new(the_secrets(), [LISTENER_SEED; 32]);
    config.suite = suite;
    config.limits = two_epochs();
    Responder::new(config)
}

fn two_epochs() -> KeyLimits {
    KeyLimits {
        epoch_packets: 1,
        ..KeyLimits::default()
    }
}

/// The initiator's static and ephemeral private keys, and the listener's ephemeral one: the first
/// bytes of their generators.
fn private_keys() -> [[u8; 32]; 3] {
    let draw = |rng: &mut ChaCha20Rng| {
        let mut bytes = [0; 32];
        rng.fill_bytes(&mut bytes);
        bytes
    };
    let ephemeral = |seed| draw(&mut ChaCha20Rng::from_seed(seed));
    let (mut ours, mut theirs) = (rng(INITIATOR_SEED), rng(LISTENER_SEED));
    let static_key = draw(&mut ours);
    let ours = ephemeral(draw(&mut ours));
    // The secrets of cookies come first.
    let _ = (draw(&mut theirs), draw(&mut theirs));
    [static_key, ours, ephemeral(draw(&mut theirs))]
}

fn the_reply(responder: &mut Responder, init: &[u8]) -> Bytes {
    reply(responder, Time::ZERO, init, LISTENER_CID)
}

/// HMAC-SHA256.
fn code(key: &[u8], data: &[u8]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, data).as_ref().try_into().unwrap()
}

/// HKDF-Expand (RFC 5869) of at most one block.
fn expand(secret: &[u8], info: &str) -> [u8; 32] {
    code(secret, &[info.as_bytes(), &[1]].concat())
}

/// What the handshake comes to when `snow` does it with its own primitives from the keys that the
/// page names: both messages, the hash after each, and the two keys of Split().
struct Plain {
    messages: [Vec<u8>; 2],
    hashes: [Vec<u8>; 2],
    keys: ([u8; 32], [u8; 32]),
}

fn plainly(suite: Suite) -> Plain {
    let (secrets, [static_key, ours, theirs]) = (the_secrets(), private_keys());
    let prologue = prologue(&secrets.ticket_id(), suite);
    let builder = || -> Builder<'_> {
        Builder::new("Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s".parse().unwrap())
            .psk(2, secrets.psk())
            .unwrap()
            .prologue(&prologue)
            .unwrap()
    };
    let mut initiator = builder()
        .local_private_key(&static_key)
        .unwrap()
        .remote_public_key(&secrets.id().0)
        .unwrap()
        .fixed_ephemeral_key_for_testing_only(&ours)
        .build_initiator()
        .unwrap();
    let mut listener = builder()
        .local_private_key(secrets.private_key())
        .unwrap()
        .fixed_ephemeral_key_for_testing_only(&theirs)
        .build_responder()
        .unwrap();
    let first = passed(&mut initiator, &mut listener, INITIATOR_CID);
    let second = passed(&mut listener, &mut initiator, LISTENER_CID);
    Plain {
        messages: [first.0, second.0],
        hashes: [first.1, second.1],
        keys: initiator.dangerously_get_raw_split(),
    }
}

fn passed(from: &mut HandshakeState, to: &mut HandshakeState, id: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut message, mut payload) = ([0; 1200], [0; 1200]);
    let len = from
        .write_message(&params(cid(id)).to_bytes(), &mut message)
        .unwrap();
    to.read_message(&message[..len], &mut payload).unwrap();
    assert_eq!(from.get_handshake_hash(), to.get_handshake_hash());
    (message[..len].to_vec(), from.get_handshake_hash().to_vec())
}

/// A sealed packet of the present epoch.
fn sealed(established: &mut Established, path: u32, pn: u64, payload: &[u8]) -> Vec<u8> {
    let header = DataHeader {
        cid: established.remote_cid,
        epoch: established.sealer.epoch(),
        pn_low: pn as u32,
    };
    let mut bytes = [&header.to_bytes()[..], payload].concat();
    let sealer = &mut established.sealer;
    sealer
        .seal(path, pn, &mut bytes, 0, DataHeader::LEN)
        .unwrap();
    sealer.on_acked(header.epoch);
    bytes
}

fn payloads() -> [Vec<u8>; 2] {
    let stream = |offset, fin, data| {
        let mut bytes = Vec::new();
        let stream = StreamId(0);
        Frame::Stream {
            stream,
            offset,
            fin,
            data,
        }
        .encode(&mut bytes);
        bytes
    };
    [stream(0, false, b"abc"), stream(3, true, b"")]
}

fn compute() -> Vectors {
    let mut all = Vectors::default();
    put_ticket(&mut all);
    put_handshake(&mut all);
    put_keys(&mut all);
    put_relay(&mut all);
    all
}

fn put_ticket(all: &mut Vectors) {
    let (secrets, relay) = (the_secrets(), the_relay().id());
    all.put("ticket id", secrets.ticket_id());
    all.put("listener's private key", secrets.private_key());
    all.put("listener's public key", secrets.id().0);
    all.text("listener's peer id", secrets.id().to_string());
    all.put("secret", secrets.psk());
    all.text("ticket", the_ticket().to_string());
    all.put("name at the relay, UDP", secrets.relay_name(&relay).0);
    all.put("key at the relay, TCP", secrets.listen_key(&relay).0);
    all.put(
        "name at the relay, TCP",
        listener_name(&secrets.listen_key(&relay)).0,
    );
}

fn put_handshake(all: &mut Vectors) {
    let suite = Suite::Aes256Gcm;
    let (initiator, plain, secrets) = (the_initiator(suite), plainly(suite), the_secrets());
    let [static_key, ours, theirs] = private_keys();
    all.put("initiator's static key", static_key);
    all.put("initiator's ephemeral key", ours);
    all.put("listener's ephemeral key", theirs);
    all.put(
        "initiator's parameters",
        params(cid(INITIATOR_CID)).to_bytes(),
    );
    let identified = TransportParameters {
        identity: true,
        ..params(cid(INITIATOR_CID))
    };
    all.put("those of an identity", identified.to_bytes());
    all.put(
        "listener's parameters",
        params(cid(LISTENER_CID)).to_bytes(),
    );
    all.put("prologue", prologue(&secrets.ticket_id(), suite));
    let mac1_key = expand(&code(&[0; 32], secrets.psk()), "manyway mac1");
    all.put("mac1 key", mac1_key);

    let init = initiator.datagram();
    assert_eq!(init[20..][..plain.messages[0].len()], plain.messages[0]);
    let mac1_at = init.len() - MAC2_LEN - MAC1_LEN;
    assert_eq!(
        init[mac1_at..][..MAC1_LEN],
        code(&mac1_key, &init[..mac1_at])
    );
    all.put("INIT", init);
    all.put("h after message 1", &plain.hashes[0]);

    let init_mac1 = &init[mac1_at..][..MAC1_LEN];
    let asked = cookie::seal(
        &initiator.mac1,
        cid(INITIATOR_CID),
        init_mac1,
        COOKIE_NONCE,
        &COOKIE,
    );
    let mask_key = expand(&code(&[0; 32], secrets.psk()), "manyway cookie");
    let mask = code(&mask_key, &[&COOKIE_NONCE, init_mac1].concat());
    let masked: Vec<u8> = COOKIE.iter().zip(mask).map(|(a, b)| a ^ b).collect();
    assert_eq!(asked[26..42], masked);
    all.put("cookie", COOKIE);
    all.put("mask key", mask_key);
    all.put("COOKIE", &asked);
    let again = initiator.datagram_with(&COOKIE);
    let mac2 = &again[again.len() - MAC2_LEN..];
    assert_eq!(mac2, &code(&COOKIE, &init[..init.len() - MAC2_LEN])[..16]);
    all.put("mac2 with the cookie", mac2);
    let newer = OtherVersion {
        version: 200,
        receiver_cid: cid(INITIATOR_CID),
    };
    let newer = newer.seal(|bytes| initiator.mac1.sign(&[bytes, init_mac1].concat()));
    assert_eq!(
        newer[10..],
        code(&mac1_key, &[&newer[..10], init_mac1].concat())
    );
    all.put("VERSION", newer);

    let reply = the_reply(&mut the_responder(suite), init);
    assert_eq!(reply[12..][..plain.messages[1].len()], plain.messages[1]);
    all.put("REPLY", &reply);
    all.put("h after message 2", &plain.hashes[1]);
    all.put("k of the initiator", plain.keys.0);
    all.put("k of the listener", plain.keys.1);
}

/// Keys by hand, packets by the code; [`the_datagrams_are_accepted`] opens these.
fn put_keys(all: &mut Vectors) {
    let suite = Suite::Aes256Gcm;
    let plain = plainly(suite);
    let root = |k: &[u8; 32]| code(&plain.hashes[1], k);
    let secret = |k: &[u8; 32], who: &str, suite: Suite| {
        expand(&root(k), &format!("manyway from {who} {suite}"))
    };
    let first = secret(&plain.keys.0, "initiator", suite);
    all.put("initiator's root", root(&plain.keys.0));
    all.put("initiator's secret[0]", first);
    all.put("initiator's key[0]", expand(&first, "manyway key"));
    all.put("initiator's iv[0]", &expand(&first, "manyway iv")[..12]);
    let second = expand(&first, "manyway next");
    all.put("initiator's secret[1]", second);
    all.put("initiator's key[1]", expand(&second, "manyway key"));
    all.put("initiator's iv[1]", &expand(&second, "manyway iv")[..12]);
    let back = secret(&plain.keys.1, "responder", suite);
    all.put("listener's secret[0]", back);
    all.put("listener's key[0]", expand(&back, "manyway key"));
    all.put("listener's iv[0]", &expand(&back, "manyway iv")[..12]);

    let (mut initiator, mut responder) = (the_initiator(suite), the_responder(suite));
    let reply = the_reply(&mut responder, initiator.datagram());
    let mut ours = initiator.on_reply(&reply).unwrap();
    let [stream, end] = payloads();
    all.put("payload of packet 0", &stream);
    let mut packet = sealed(&mut ours, 0, 0, &stream);
    all.put("packet 0", &packet);
    all.put("payload of packet 4294967301", &end);
    all.put(
        "packet 4294967301",
        sealed(&mut ours, LATER.0, LATER.1, &end),
    );
    let header = DataHeader::decode(&packet).unwrap();
    let opened = responder
        .try_open(Time::ZERO, &header, &mut packet)
        .unwrap();
    let mut theirs = opened.established;
    all.put(
        "the listener's packet 0",
        sealed(&mut theirs, 0, 0, &stream),
    );

    let suite = Suite::ChaCha20Poly1305;
    let first = secret(&plain.keys.0, "initiator", suite);
    all.put("secret[0], ChaCha20", first);
    all.put("key[0], ChaCha20", expand(&first, "manyway key"));
    all.put("iv[0], ChaCha20", &expand(&first, "manyway iv")[..12]);
    (ours.sealer, ours.opener) = keys_of(&plain.keys, &plain.hashes[1], true, suite);
    all.put("packet 0, ChaCha20", sealed(&mut ours, 0, 0, &stream));
}

fn keys_of(
    (initiator_key, responder_key): &([u8; 32], [u8; 32]),
    handshake_hash: &[u8],
    is_initiator: bool,
    suite: Suite,
) -> (crate::crypto::Sealer, crate::crypto::Opener) {
    split(SplitInput {
        initiator_key,
        responder_key,
        handshake_hash,
        is_initiator,
        suite,
        limits: two_epochs(),
    })
}

fn answer(relay: &mut Relay, from: &str, request: &[u8]) -> Vec<u8> {
    match relay.handle(RELAY_NOW, from.parse().unwrap(), request) {
        Action::Reply(reply) => reply.as_bytes().to_vec(),
        other => panic!("{other:?}"),
    }
}

fn hello(relay: RelayId, nonce: u8) -> [u8; 64] {
    let nonce = Nonce(bytes(nonce));
    Hello { nonce, relay }.to_bytes()
}

fn consented(datagram: &[u8]) -> manyway_wire::relay::ConsentReply {
    match RelayReply::decode(datagram).unwrap() {
        RelayReply::Consent(consent) => consent,
        other => panic!("{other:?}"),
    }
}

fn minted(datagram: &[u8]) -> Minted {
    match RelayReply::decode(datagram).unwrap() {
        RelayReply::Minted(minted) => minted,
        other => panic!("{other:?}"),
    }
}

fn put_relay(all: &mut Vectors) {
    let mut relay = the_relay();
    all.put("relay's private key", bytes::<32>(0x10));
    all.put("relay's id", relay.id().0);
    all.put("secret of code key 7", bytes::<32>(0x30));
    all.put("client's private key", CLIENT_SEED);
    all.put("client's public key", public_key(&CLIENT_SEED).0);
    let terms = VoucherTerms {
        relay: relay.id(),
        signer: relay.id(),
        account: bytes(0xe0),
        class: RateClass::new(7).unwrap(),
        expires: 1_900_000_000,
        client: public_key(&CLIENT_SEED),
    };
    let voucher = terms.seal(|signed| sign(&bytes(0x10), signed));
    all.put("voucher", voucher.to_bytes());
    let asked = hello(relay.id(), 0x70);
    all.put("the initiator's HELLO", asked);
    let ours = answer(&mut relay, INITIATOR_AT, &asked);
    all.put("CONSENT to the initiator", &ours);
    let theirs = answer(&mut relay, LISTENER_AT, &hello(terms.relay, 0x78));
    all.put("CONSENT to the listener", &theirs);
    let mint = Mint {
        nonce: Nonce(bytes(0x88)),
        proof: consented(&ours).proof,
        peer: Peer::Consent(consented(&theirs).consent),
        voucher,
    };
    let mint = mint.seal(|signed| sign(&CLIENT_SEED, signed));
    all.put("MINT", mint);
    let answer = answer(&mut relay, INITIATOR_AT, &mint);
    all.put("MINTED", &answer);
    let mut forward = minted(&answer).there.as_bytes().to_vec();
    forward.extend_from_slice(&unhex(&all.0["packet 0"]));
    all.put("FORWARD of packet 0", forward);
}

#[test]
fn the_page_has_the_vectors() {
    let (before, section) = page();
    let vectors = compute();
    if std::env::var_os("MANYWAY_UPDATE_VECTORS").is_some() {
        let text = format!("{before}{SECTION}{}", written(&section, &vectors));
        std::fs::write(PAGE, text).unwrap();
        return;
    }
    let listed = read(&section);
    for (name, value) in &listed {
        assert_eq!(
            vectors.0.get(name.as_str()),
            Some(value),
            "{name}: {UPDATE}"
        );
    }
    let missing: Vec<_> = vectors
        .0
        .keys()
        .filter(|it| !listed.contains_key(**it))
        .collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
}

/// What stands on the page, as another implementation would send it.
#[test]
fn the_datagrams_are_accepted() {
    let values = read(&page().1);
    let get = |name: &str| unhex(&values[name]);
    let suite = Suite::Aes256Gcm;

    let ticket: Ticket = values["ticket"].parse().unwrap();
    assert_eq!(ticket, the_ticket());
    let mut listener = the_responder(suite);
    let reply = the_reply(&mut listener, &get("INIT"));
    assert_eq!(*reply, get("REPLY"));
    let mut initiator = the_initiator(suite);
    assert_eq!(
        initiator.on_cookie(&get("COOKIE")).unwrap(),
        get("cookie")[..]
    );
    assert_eq!(initiator.on_other_version(&get("VERSION")), Ok(200));
    let mut ours = initiator.on_reply(&get("REPLY")).unwrap();
    assert_eq!(
        (ours.local_cid, ours.remote_cid),
        (cid(INITIATOR_CID), cid(LISTENER_CID))
    );

    let [stream, end] = payloads();
    let mut packet = get("packet 0");
    let header = DataHeader::decode(&packet).unwrap();
    let opened = listener.try_open(Time::ZERO, &header, &mut packet).unwrap();
    assert_eq!((opened.packet_number, &*opened.payload), (0, &*stream));
    let mut theirs = opened.established;
    let opens = |end: &mut Established, name: &str, path, before| {
        let mut packet = get(name);
        let header = DataHeader::decode(&packet).unwrap();
        assert_eq!(header.cid, end.local_cid, "{name}");
        let pn = expand_pn(header.pn_low, before);
        let (now, pto, len) = (Time::ZERO, LIFETIME, DataHeader::LEN);
        end.opener
            .open(now, pto, path, pn, header.epoch, &mut packet, len)
            .unwrap()
            .to_vec()
    };
    let before = Some(LATER.1 - 2);
    assert_eq!(
        opens(&mut theirs, "packet 4294967301", LATER.0, before),
        end
    );
    assert_eq!(theirs.opener.epoch(), 1);
    assert_eq!(opens(&mut ours, "the listener's packet 0", 0, None), stream);
    let keys = plainly(suite);
    (_, theirs.opener) = keys_of(
        &keys.keys,
        &get("h after message 2"),
        false,
        Suite::ChaCha20Poly1305,
    );
    assert_eq!(opens(&mut theirs, "packet 0, ChaCha20", 0, None), stream);

    let mut relay = the_relay();
    assert_eq!(
        answer(&mut relay, INITIATOR_AT, &get("MINT")),
        get("MINTED")
    );
    let forward = get("FORWARD of packet 0");
    let grant = minted(&get("MINTED")).there;
    let action = relay.handle(RELAY_NOW, INITIATOR_AT.parse().unwrap(), &forward);
    let header_len = grant.as_bytes().len();
    let to = LISTENER_AT.parse().unwrap();
    assert_eq!(
        action,
        Action::Forward {
            to,
            header_len,
            notice: None
        }
    );
    assert_eq!(forward[header_len..], get("packet 0"));
}
