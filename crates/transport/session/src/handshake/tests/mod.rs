//! Whole handshakes, and what damage, forgery, replay and crowds do to them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use manyway_units::Time;
use manyway_wire::{ConnectionId, DataHeader, INIT_LEN, Ticket, TransportParameters};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use super::secrets::Mac1;
use super::*;
use crate::crypto::KeyLimits;

mod cookies;
mod damage;
mod identities;
mod vectors;
mod versions;

const MAC1_LEN: usize = Mac1::LEN;
const LIFETIME: Duration = Duration::from_secs(10);

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

fn cid(number: u64) -> ConnectionId {
    ConnectionId(number.to_be_bytes())
}

fn params(cid: ConnectionId) -> TransportParameters {
    TransportParameters::new(cid)
}

fn secrets() -> Secrets {
    Secrets::generate(&mut rng(1))
}

fn ticket() -> Ticket {
    secrets().ticket(vec!["192.0.2.1:4433".parse().unwrap()])
}

fn initiator_with(ticket: &Ticket, suite: Suite, seed: u8) -> Initiator {
    let config = InitiatorConfig {
        ticket,
        identity: None,
        params: params(cid(1000 + u64::from(seed))),
        suite,
        limits: KeyLimits::default(),
    };
    Initiator::new(config, &mut rng(seed)).unwrap()
}

fn initiator(seed: u8) -> Initiator {
    initiator_with(&ticket(), Suite::default(), seed)
}

const REMOTE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)), 4000);

/// Never under load.
fn config() -> ResponderConfig {
    let mut config = ResponderConfig::new(secrets(), [2; 32]);
    config.load = LoadLimits {
        unproven_half_open: usize::MAX,
        unproven_burst: 1e9,
        ..LoadLimits::default()
    };
    config
}

fn responder() -> Responder {
    Responder::new(config())
}

/// A listener with these secrets whose `mac1` is nevertheless that of the genuine ticket.
fn impostor(secrets: Secrets) -> Responder {
    let mut responder = Responder::new(ResponderConfig::new(secrets, [3; 32]));
    responder.mac1 = Mac1::new(&ticket().secret);
    responder
}

fn reply(responder: &mut Responder, now: Time, init: &[u8], ours: u64) -> Bytes {
    match responder.on_init(now, REMOTE, init, || params(cid(ours))) {
        Outcome::Reply {
            datagram, fresh, ..
        } => {
            assert!(fresh);
            datagram
        }
        other => panic!("no REPLY but {other:?}"),
    }
}

fn ignored(responder: &mut Responder, now: Time, init: &[u8]) -> Ignored {
    match responder.on_init(now, REMOTE, init, || params(cid(99))) {
        Outcome::Ignored(reason) => reason,
        other => panic!("answered: {other:?}"),
    }
}

/// A sealed packet of path 0 for the peer.
fn packet(established: &mut Established, pn: u32, payload: &[u8]) -> (DataHeader, Vec<u8>) {
    let header = DataHeader {
        cid: established.remote_cid,
        epoch: established.sealer.epoch(),
        pn_low: pn,
    };
    let mut bytes = Vec::new();
    header.encode(&mut bytes);
    bytes.extend_from_slice(payload);
    let sealed = established
        .sealer
        .seal(0, pn.into(), &mut bytes, 0, DataHeader::LEN);
    sealed.unwrap();
    (header, bytes)
}

fn open(established: &mut Established, pn: u32, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let header = DataHeader::decode(&bytes).unwrap();
    assert_eq!(header.cid, established.local_cid);
    established
        .opener
        .open(
            Time::ZERO,
            LIFETIME,
            0,
            pn.into(),
            header.epoch,
            &mut bytes,
            DataHeader::LEN,
        )
        .ok()
        .map(|plaintext| plaintext.to_vec())
}

/// Finishes the handshake and sees that packets pass both ways.
fn complete(initiator: &mut Initiator, responder: &mut Responder, reply: &[u8]) {
    let mut ours = initiator.on_reply(reply).unwrap();
    let (header, mut first) = packet(&mut ours, 5, b"first");
    let opened = responder
        .try_open(Time::ZERO, &header, &mut first)
        .expect("a genuine packet opens");
    assert_eq!(opened.packet_number, 5);
    assert_eq!(opened.payload, b"first");
    let mut theirs = opened.established;
    assert_eq!(
        (ours.local_cid, ours.remote_cid),
        (theirs.remote_cid, theirs.local_cid)
    );
    let (_, back) = packet(&mut theirs, 0, b"welcome");
    assert_eq!(open(&mut ours, 0, back).unwrap(), b"welcome");
    let (_, second) = packet(&mut ours, 6, b"second");
    assert_eq!(open(&mut theirs, 6, second).unwrap(), b"second");
}

/// The datagram with its `mac1` made anew: what a holder of the ticket can forge.
fn authenticate(mut datagram: Vec<u8>) -> Vec<u8> {
    let behind = if datagram.len() == INIT_LEN {
        manyway_wire::MAC2_LEN
    } else {
        0
    };
    let at = datagram.len() - MAC1_LEN - behind;
    let mac = Mac1::new(&ticket().secret).sign(&datagram[..at]);
    datagram[at..at + MAC1_LEN].copy_from_slice(&mac);
    datagram
}

fn flipped(datagram: &[u8], bit: usize) -> Vec<u8> {
    let mut flipped = datagram.to_vec();
    flipped[bit / 8] ^= 1 << (bit % 8);
    flipped
}

#[test]
fn a_handshake_completes_in_both_suites() {
    for suite in Suite::ALL {
        let mut initiator = initiator_with(&ticket(), suite, 7);
        let mut config = ResponderConfig::new(secrets(), [2; 32]);
        config.suite = suite;
        let mut responder = Responder::new(config);
        assert_eq!(initiator.datagram().len(), INIT_LEN);
        let reply = reply(&mut responder, Time::ZERO, initiator.datagram(), 1);
        assert!(reply.len() <= INIT_LEN);
        assert_eq!((responder.len(), responder.stats().accepted), (1, 1));
        complete(&mut initiator, &mut responder, &reply);
        assert!(responder.is_empty());
        assert_eq!(responder.stats().established, 1);
        assert_eq!(responder.timeout(), None);
    }
}

#[test]
fn each_side_learns_the_others_parameters() {
    let mut theirs = params(cid(1));
    theirs.initial_max_data = 123_456;
    let mut ours = params(cid(2));
    ours.max_idle_ms = 4_321;
    let ticket = ticket();
    let config = InitiatorConfig {
        ticket: &ticket,
        identity: None,
        params: ours,
        suite: Suite::default(),
        limits: KeyLimits::default(),
    };
    let mut initiator = Initiator::new(config, &mut rng(9)).unwrap();
    let mut responder = responder();
    let Outcome::Reply { datagram, cid, .. } =
        responder.on_init(Time::ZERO, REMOTE, initiator.datagram(), || theirs)
    else {
        panic!("no reply")
    };
    assert_eq!(cid, theirs.cid);
    let mut established = initiator.on_reply(&datagram).unwrap();
    assert_eq!(established.peer, theirs);
    let (header, mut first) = packet(&mut established, 0, b"");
    let opened = responder.try_open(Time::ZERO, &header, &mut first).unwrap();
    assert_eq!(opened.established.peer, ours);
}

#[test]
fn only_a_packet_that_opens_promotes() {
    let (mut initiator, mut responder) = (initiator(7), responder());
    let reply = reply(&mut responder, Time::ZERO, initiator.datagram(), 1);
    let mut stranger = {
        // Another handshake's keys, put under this one's connection id.
        let mut other = super::tests::initiator(8);
        let answer = super::tests::reply(&mut responder, Time::ZERO, other.datagram(), 2);
        let mut established = other.on_reply(&answer).unwrap();
        established.remote_cid = cid(1);
        established
    };
    let (header, mut forged) = packet(&mut stranger, 0, b"let me in");
    assert!(
        responder
            .try_open(Time::ZERO, &header, &mut forged)
            .is_none()
    );
    let mut garbage = vec![0; 3];
    assert!(
        responder
            .try_open(Time::ZERO, &header, &mut garbage)
            .is_none()
    );
    assert_eq!((responder.len(), responder.stats().forged), (2, 2));

    let unknown = DataHeader {
        cid: cid(12345),
        ..header
    };
    let (_, mut anything) = packet(&mut stranger, 1, b"hello?");
    assert!(
        responder
            .try_open(Time::ZERO, &unknown, &mut anything)
            .is_none()
    );
    assert_eq!(responder.stats().forged, 2);

    complete(&mut initiator, &mut responder, &reply);
    assert_eq!(responder.len(), 1);
}

#[test]
fn a_wrong_ticket_gets_no_answer_and_a_reason() {
    let mut responder = responder();
    let mut refuse = |ticket: &Ticket| {
        let initiator = initiator_with(ticket, Suite::default(), 7);
        ignored(&mut responder, Time::ZERO, initiator.datagram())
    };
    let mut wrong_id = ticket();
    wrong_id.id[3] ^= 1;
    let reason = refuse(&wrong_id);
    assert_eq!(reason, Ignored::OtherTicket(wrong_id.id));
    assert!(reason.to_string().contains("new ticket"), "{reason}");

    let mut wrong_secret = ticket();
    wrong_secret.secret[31] ^= 0x80;
    assert_eq!(refuse(&wrong_secret), Ignored::BadMac);

    let mut wrong_key = ticket();
    wrong_key.public_key = Secrets::generate(&mut rng(5)).id().0;
    let reason = refuse(&wrong_key);
    assert!(matches!(reason, Ignored::DoesNotDecrypt { .. }));
    assert!(reason.to_string().contains("a new ticket"), "{reason}");

    assert_eq!((responder.len(), responder.stats().ignored), (0, 3));
}

#[test]
fn different_suites_fail_with_a_message_that_says_so() {
    let mut responder = responder();
    let initiator = initiator_with(&ticket(), Suite::ChaCha20Poly1305, 7);
    let reason = ignored(&mut responder, Time::ZERO, initiator.datagram()).to_string();
    assert!(
        reason.contains("another suite than aes-256-gcm"),
        "{reason}"
    );
    let timeout = initiator.no_reply();
    assert!(timeout.is_fatal());
    let timeout = timeout.to_string();
    assert!(timeout.contains("chacha20-poly1305"), "{timeout}");
}

#[test]
fn nobody_but_the_listener_can_answer() {
    let genuine = secrets();
    let stored = genuine.to_bytes();
    // The right private key without the pre-shared one, and the other way round.
    let mut without_psk = *stored;
    without_psk[40..].fill(0x11);
    let mut without_key = *stored;
    without_key[8..40].fill(0x22);
    let mut initiator = initiator(7);

    let mut liar = impostor(Secrets::from_bytes(&without_psk).unwrap());
    // Message 1 of IKpsk2 doesn't prove the pre-shared key, so this one can read it.
    let forged = reply(&mut liar, Time::ZERO, initiator.datagram(), 1);
    assert_eq!(
        initiator.on_reply(&forged).unwrap_err(),
        HandshakeError::NotTheListener
    );
    let mut liar = impostor(Secrets::from_bytes(&without_key).unwrap());
    assert!(matches!(
        ignored(&mut liar, Time::ZERO, initiator.datagram()),
        Ignored::DoesNotDecrypt { .. }
    ));

    let mut responder = responder();
    let genuine = reply(&mut responder, Time::ZERO, initiator.datagram(), 1);
    complete(&mut initiator, &mut responder, &genuine);
}

#[test]
fn an_initiator_without_the_psk_is_never_promoted() {
    // It knows the public key and can make a mac1, but not the pre-shared key itself.
    let mut ticket = ticket();
    ticket.secret = [0x33; 32];
    let initiator = initiator_with(&ticket, Suite::default(), 7);
    let init = authenticate(initiator.datagram().to_vec());
    let mut responder = responder();
    let reply = reply(&mut responder, Time::ZERO, &init, 1);
    let mut initiator = initiator;
    initiator.mac1 = Mac1::new(&secrets().ticket(Vec::new()).secret);
    assert_eq!(
        initiator.on_reply(&reply).unwrap_err(),
        HandshakeError::NotTheListener
    );
    responder.expire(Time::ZERO + LIFETIME);
    assert_eq!((responder.len(), responder.stats().established), (0, 0));
}

#[test]
fn the_initiator_takes_one_reply() {
    let (mut initiator, mut responder) = (initiator(7), responder());
    let genuine = reply(&mut responder, Time::ZERO, initiator.datagram(), 1);
    complete(&mut initiator, &mut responder, &genuine);
    let error = initiator.on_reply(&genuine).unwrap_err();
    assert_eq!(error, HandshakeError::AlreadyComplete);
    assert!(!error.is_fatal());
}

#[test]
fn a_reply_for_another_attempt_is_left_alone() {
    let (mut one, mut two) = (initiator(7), initiator(8));
    let mut responder = responder();
    let for_one = reply(&mut responder, Time::ZERO, one.datagram(), 1);
    let for_two = reply(&mut responder, Time::ZERO, two.datagram(), 2);
    assert_eq!(
        one.on_reply(&for_two).unwrap_err(),
        HandshakeError::OtherAttempt
    );
    complete(&mut one, &mut responder, &for_one);
    complete(&mut two, &mut responder, &for_two);
}

#[test]
fn copies_of_an_init_get_the_same_reply() {
    let (mut initiator, mut responder) = (initiator(7), responder());
    let first = reply(&mut responder, Time::ZERO, initiator.datagram(), 1);
    for millis in [0, 250, 9_999] {
        let now = Time::from_millis(millis);
        let outcome = responder.on_init(now, REMOTE, initiator.datagram(), || {
            panic!("a copy needs no new parameters")
        });
        let Outcome::Reply {
            datagram,
            cid: ours,
            fresh,
        } = outcome
        else {
            panic!("no reply to a copy")
        };
        assert_eq!((datagram, ours, fresh), (first.clone(), cid(1), false));
    }
    assert_eq!((responder.len(), responder.stats().copies), (1, 3));
    complete(&mut initiator, &mut responder, &first);
}

#[test]
fn half_open_handshakes_expire() {
    let (mut initiator, mut responder) = (initiator(7), responder());
    let start = Time::from_millis(1_000);
    let first = reply(&mut responder, start, initiator.datagram(), 1);
    assert_eq!(responder.timeout(), Some(start + LIFETIME));
    responder.expire(start + LIFETIME - Duration::from_nanos(1));
    assert!(responder.contains(&cid(1)));

    // Even if the timer is late, nothing opens after the deadline.
    let mut late = super::tests::initiator(7).on_reply(&first).unwrap();
    let (header, mut bytes) = packet(&mut late, 0, b"late");
    let opened = responder.try_open(start + LIFETIME, &header, &mut bytes);
    assert!(opened.is_none());
    assert_eq!((responder.len(), responder.stats().expired), (0, 1));
    assert_eq!(responder.timeout(), None);

    // The initiator is still trying: it gets a new handshake.
    let second = reply(&mut responder, start + LIFETIME, initiator.datagram(), 2);
    assert_ne!(first, second);
    let mut established = initiator.on_reply(&second).unwrap();
    let (header, mut bytes) = packet(&mut established, 0, b"");
    let now = start + LIFETIME + Duration::from_secs(1);
    assert!(responder.try_open(now, &header, &mut bytes).is_some());
}

#[test]
fn half_open_handshakes_are_bounded() {
    let mut config = config();
    config.max_half_open = 8;
    let mut responder = Responder::new(config);
    let mut initiators: Vec<Initiator> = (0..20).map(initiator).collect();
    let mut replies = Vec::new();
    for (i, initiator) in initiators.iter().enumerate() {
        let now = Time::from_millis(i as u64);
        if i < 8 {
            replies.push(reply(&mut responder, now, initiator.datagram(), i as u64));
        } else {
            // None of those inside has proven its address: who does so may take a place.
            let outcome = responder.on_init(now, REMOTE, initiator.datagram(), || params(cid(99)));
            assert!(matches!(outcome, Outcome::Cookie { .. }));
        }
    }
    assert_eq!((responder.len(), responder.stats().cookies), (8, 12));
    assert!(responder.is_consistent());
    // Those inside can finish, also when the table is full, and make room.
    complete(&mut initiators[3], &mut responder, &replies[3]);
    let now = Time::from_millis(8);
    reply(&mut responder, now, initiators[9].datagram(), 9);
    assert_eq!(responder.len(), 8);
    // As time does, without any timer having run.
    let later = Time::from_millis(2) + LIFETIME;
    for (i, initiator) in (10..).zip(&initiators[10..13]) {
        reply(&mut responder, later, initiator.datagram(), i);
    }
    assert_eq!((responder.len(), responder.stats().expired), (8, 3));
    assert!(responder.is_consistent());
}

#[test]
fn a_replayed_init_does_no_harm() {
    let mut config = config();
    config.max_half_open = 3;
    let mut responder = Responder::new(config);
    let mut initiator = initiator(7);
    let init = initiator.datagram().to_vec();
    let first = reply(&mut responder, Time::ZERO, &init, 1);
    let mut ours = initiator.on_reply(&first).unwrap();
    let (header, bytes) = packet(&mut ours, 0, b"first");
    assert!(
        responder
            .try_open(Time::ZERO, &header, &mut bytes.clone())
            .is_some()
    );

    // Remembered: no second handshake, and its first packet promotes nothing again.
    assert_eq!(
        ignored(&mut responder, Time::ZERO, &init),
        Ignored::AlreadyEstablished
    );
    assert!(
        responder
            .try_open(Time::ZERO, &header, &mut bytes.clone())
            .is_none()
    );

    // Forgotten after three further connections: the replay makes a half-open handshake with new
    // keys, to which nothing recorded earlier belongs.
    for seed in 10..13 {
        let mut other = super::tests::initiator(seed);
        let answer = reply(
            &mut responder,
            Time::ZERO,
            other.datagram(),
            u64::from(seed),
        );
        complete(&mut other, &mut responder, &answer);
    }
    let again = reply(&mut responder, Time::ZERO, &init, 2);
    assert_ne!(first, again);
    let redirected = DataHeader {
        cid: cid(2),
        ..header
    };
    for header in [header, redirected] {
        assert!(
            responder
                .try_open(Time::ZERO, &header, &mut bytes.clone())
                .is_none()
        );
    }
    responder.expire(Time::ZERO + LIFETIME);
    assert!(responder.is_empty());
}

#[test]
fn connection_ids_are_checked() {
    let mut responder = responder();
    let (one, two) = (initiator(7), initiator(8));
    reply(&mut responder, Time::ZERO, one.datagram(), 1);
    let outcome = responder.on_init(Time::ZERO, REMOTE, two.datagram(), || params(cid(1)));
    assert!(matches!(
        outcome,
        Outcome::Ignored(Ignored::ConnectionIdTaken)
    ));
    assert_eq!(responder.len(), 1);

    // The header's connection id (after type and version) against the sealed one.
    let forged = authenticate(flipped(two.datagram(), 2 * 8));
    assert_eq!(
        ignored(&mut responder, Time::ZERO, &forged),
        Ignored::ConnectionIdMismatch
    );
}

#[test]
fn the_prologue_is_the_documented_one() {
    let id = *b"ticketid";
    assert_eq!(prologue(&id, Suite::Aes256Gcm), b"manyway\x03ticketid\x01");
    assert_eq!(
        prologue(&id, Suite::ChaCha20Poly1305),
        b"manyway\x03ticketid\x02"
    );
}

#[test]
fn the_same_seeds_give_the_same_bytes() {
    let run = |seed| {
        let (mut initiator, mut responder) = (initiator(seed), responder());
        let reply = reply(&mut responder, Time::ZERO, initiator.datagram(), 1);
        let mut established = initiator.on_reply(&reply).unwrap();
        let (_, sealed) = packet(&mut established, 0, b"payload");
        (initiator.datagram().to_vec(), reply, sealed)
    };
    assert_eq!(run(7), run(7));
    let (one, two) = (run(7), run(8));
    assert!(one.0 != two.0 && one.1 != two.1 && one.2 != two.2);
}

#[test]
fn a_ticket_with_a_low_order_key_is_refused() {
    for first in [0, 1] {
        let mut ticket = ticket();
        ticket.public_key = [0; 32];
        ticket.public_key[0] = first;
        let config = InitiatorConfig {
            ticket: &ticket,
            identity: None,
            params: params(cid(1)),
            suite: Suite::default(),
            limits: KeyLimits::default(),
        };
        let error = Initiator::new(config, &mut rng(7)).unwrap_err();
        assert_eq!(error, HandshakeError::UnusableTicket);
        assert!(error.is_fatal());
    }
}

#[test]
fn secrets_can_be_stored() {
    let secrets = secrets();
    let again = Secrets::from_bytes(&*secrets.to_bytes()).unwrap();
    assert_eq!(again.to_bytes(), secrets.to_bytes());
    assert_eq!(again.id(), secrets.id());
    let error = Secrets::from_bytes(&[0; 71]).unwrap_err().to_string();
    assert!(error.contains("71") && error.contains("72"), "{error}");
    assert_ne!(
        Secrets::generate(&mut rng(1)).to_bytes(),
        Secrets::generate(&mut rng(2)).to_bytes()
    );
}

#[test]
fn debug_output_shows_no_secrets() {
    let secrets = secrets();
    let (initiator, responder) = (initiator(7), responder());
    let shown = format!("{secrets:?} {initiator:?} {responder:?}");
    let bytes = secrets.to_bytes();
    for secret in [&bytes[8..40], &bytes[40..]] {
        // As a list of numbers or in hexadecimal, four bytes are enough to tell.
        let list = format!("{:?}", &secret[..4]);
        assert!(!shown.contains(list.trim_matches(['[', ']'])));
        let hex: String = secret[..4].iter().map(|b| format!("{b:02x}")).collect();
        assert!(!shown.contains(&hex));
    }
}
