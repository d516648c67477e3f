//! Sealing and opening, the key schedule, and epochs under loss, reordering, duplication and
//! forgery.

use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use manyway_units::Time;

use super::*;

mod epochs;
mod model;

const PTO: Duration = Duration::from_millis(100);
const HEADER: &[u8] = b"the header";

/// Both ends of a connection, with keys that `seed` decides.
struct Pair {
    initiator: (Sealer, Opener),
    responder: (Sealer, Opener),
}

fn pair(suite: Suite, limits: KeyLimits, seed: u8) -> Pair {
    let side = |is_initiator| {
        split(SplitInput {
            initiator_key: &[seed; 32],
            responder_key: &[seed ^ 0xff; 32],
            handshake_hash: &[7; 32],
            is_initiator,
            suite,
            limits,
        })
    };
    Pair {
        initiator: side(true),
        responder: side(false),
    }
}

/// One direction, from initiator to responder.
fn one_way(limits: KeyLimits) -> (Sealer, Opener) {
    let Pair {
        initiator: (sealer, _),
        responder: (_, opener),
    } = pair(Suite::Aes256Gcm, limits, 1);
    (sealer, opener)
}

fn epochs_of(packets: u64) -> KeyLimits {
    KeyLimits {
        epoch_packets: packets,
        ..KeyLimits::default()
    }
}

/// A packet on its way, with what its header would say in clear.
#[derive(Clone, Debug)]
struct Packet {
    path: u32,
    pn: u64,
    epoch: u8,
    bytes: Vec<u8>,
}

fn payload(path: u32, pn: u64) -> Vec<u8> {
    format!("payload of {path}/{pn}").into_bytes()
}

fn seal(sealer: &mut Sealer, path: u32, pn: u64) -> Packet {
    try_seal(sealer, path, pn).expect("within the key's limits")
}

fn try_seal(sealer: &mut Sealer, path: u32, pn: u64) -> Result<Packet, SealError> {
    let epoch = sealer.epoch();
    let mut bytes = HEADER.to_vec();
    bytes.push(epoch);
    bytes.extend(payload(path, pn));
    sealer.seal(path, pn, &mut bytes, 0, HEADER.len() + 1)?;
    Ok(Packet {
        path,
        pn,
        epoch,
        bytes,
    })
}

fn open(opener: &mut Opener, now: Time, packet: &Packet) -> Result<(), OpenError> {
    let mut bytes = packet.bytes.clone();
    let plaintext = opener.open(
        now,
        PTO,
        packet.path,
        packet.pn,
        packet.epoch,
        &mut bytes,
        HEADER.len() + 1,
    )?;
    assert_eq!(plaintext, payload(packet.path, packet.pn));
    Ok(())
}

/// A packet that claims to be of `epoch` but that nobody sealed.
fn forgery(epoch: u8) -> Packet {
    Packet {
        path: 0,
        pn: 1,
        epoch,
        bytes: vec![0x5a; 60],
    }
}

fn unknown(packet: u8, current: u8) -> Result<(), OpenError> {
    Err(OpenError::UnknownEpoch { packet, current })
}

#[test]
fn both_directions_round_trip_in_both_suites() {
    for suite in Suite::ALL {
        let mut pair = pair(suite, KeyLimits::default(), 3);
        for pn in 0..50 {
            let there = seal(&mut pair.initiator.0, 0, pn);
            assert_eq!(open(&mut pair.responder.1, Time::ZERO, &there), Ok(()));
            let back = seal(&mut pair.responder.0, 0, pn);
            assert_eq!(open(&mut pair.initiator.1, Time::ZERO, &back), Ok(()));
            // A reflected packet is not from the peer.
            assert_eq!(
                open(&mut pair.initiator.1, Time::ZERO, &there),
                Err(OpenError::Forged)
            );
        }
    }
}

#[test]
fn a_packet_is_sealed_where_it_lies_in_a_batch() {
    let (mut sealer, mut opener) = one_way(KeyLimits::default());
    let mut batch = b"an earlier packet".to_vec();
    let start = batch.len();
    batch.extend_from_slice(b"headbody");
    sealer.seal(5, 9, &mut batch, start, 4).unwrap();
    assert_eq!(&batch[..start + 4], b"an earlier packethead");
    assert_ne!(&batch[start + 4..start + 8], b"body");
    assert_eq!(batch.len(), start + 8 + TAG_LEN);
    let plaintext = opener.open(Time::ZERO, PTO, 5, 9, 0, &mut batch[start..], 4);
    assert_eq!(plaintext.unwrap(), b"body");
}

#[test]
fn an_empty_payload_and_an_empty_header_are_fine() {
    let (mut sealer, mut opener) = one_way(KeyLimits::default());
    let mut bytes = Vec::new();
    sealer.seal(0, 0, &mut bytes, 0, 0).unwrap();
    assert_eq!(bytes.len(), TAG_LEN);
    let plaintext = opener.open(Time::ZERO, PTO, 0, 0, 0, &mut bytes, 0);
    assert_eq!(plaintext.unwrap(), b"");
}

#[test]
fn bounds_are_checked() {
    let (mut sealer, mut opener) = one_way(KeyLimits::default());
    for (start, header_len) in [(0, 9), (9, 0), (4, 5), (usize::MAX, 1), (1, usize::MAX)] {
        let mut buf = vec![0; 8];
        assert!(matches!(
            sealer.seal(0, 0, &mut buf, start, header_len),
            Err(SealError::HeaderOutOfBounds { .. })
        ));
        assert_eq!(buf, [0; 8]);
    }
    for (len, header_len) in [(0, 0), (15, 0), (20, 5), (20, 21), (20, usize::MAX)] {
        let mut packet = vec![0; len];
        assert_eq!(
            opener.open(Time::ZERO, PTO, 0, 0, 0, &mut packet, header_len),
            Err(OpenError::TooShort { len })
        );
    }
    assert_eq!(opener.forged(), 0, "nothing was tried on them");
}

#[test]
fn every_flipped_bit_and_every_wrong_coordinate_is_refused() {
    for suite in Suite::ALL {
        let mut pair = pair(suite, KeyLimits::default(), 4);
        let genuine = seal(&mut pair.initiator.0, 2, 77);
        let opener = &mut pair.responder.1;
        for bit in 0..genuine.bytes.len() * 8 {
            let mut forged = genuine.clone();
            forged.bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                open(opener, Time::ZERO, &forged),
                Err(OpenError::Forged),
                "bit {bit}"
            );
        }
        for (path, pn) in [
            (3, 77),
            (2, 78),
            (77, 2),
            (2, 77 + (1 << 32)),
            (2, 77 << 32),
        ] {
            let moved = Packet {
                path,
                pn,
                ..genuine.clone()
            };
            assert_eq!(open(opener, Time::ZERO, &moved), Err(OpenError::Forged));
        }
        assert_eq!(open(opener, Time::ZERO, &genuine), Ok(()));
    }
}

#[test]
fn connections_do_not_share_keys() {
    let genuine = |limits| pair(Suite::Aes256Gcm, limits, 1);
    let packet = seal(&mut genuine(KeyLimits::default()).initiator.0, 0, 0);
    let other = |initiator_key: u8, hash: u8, suite: Suite| {
        split(SplitInput {
            initiator_key: &[initiator_key; 32],
            responder_key: &[1 ^ 0xff; 32],
            handshake_hash: &[hash; 32],
            is_initiator: false,
            suite,
            limits: KeyLimits::default(),
        })
        .1
    };
    let mut same = other(1, 7, Suite::Aes256Gcm);
    assert_eq!(open(&mut same, Time::ZERO, &packet), Ok(()));
    for mut opener in [
        other(2, 7, Suite::Aes256Gcm),
        other(1, 8, Suite::Aes256Gcm),
        other(1, 7, Suite::ChaCha20Poly1305),
    ] {
        assert_eq!(
            open(&mut opener, Time::ZERO, &packet),
            Err(OpenError::Forged)
        );
    }
}

/// The whole schedule once more, by hand from HMAC (RFC 5869), as another implementation would do
/// it.
#[test]
fn the_key_schedule_is_the_documented_one() {
    fn hmac_sha256(key: &[u8], data: &[u8]) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        hmac::sign(&key, data).as_ref().try_into().unwrap()
    }
    // HKDF-Expand of at most one block.
    fn expand(secret: &[u8], info: &str) -> [u8; 32] {
        hmac_sha256(secret, &[info.as_bytes(), &[1]].concat())
    }
    for (suite, algorithm) in [
        (Suite::Aes256Gcm, &AES_256_GCM),
        (Suite::ChaCha20Poly1305, &CHACHA20_POLY1305),
    ] {
        let mut pair = pair(suite, epochs_of(1), 1);
        let root = hmac_sha256(&[7; 32], &[1; 32]);
        let mut secret = expand(&root, &format!("manyway from initiator {suite}"));
        for epoch in 0..3 {
            let key = expand(&secret, "manyway key");
            let iv: [u8; 12] = expand(&secret, "manyway iv")[..12].try_into().unwrap();
            secret = expand(&secret, "manyway next");

            let packet = seal(&mut pair.initiator.0, 0x0102_0304, 0x1122_3344_5566_7788);
            pair.initiator.0.on_acked(epoch);
            assert_eq!(packet.epoch, epoch);
            let mut nonce = [
                0x01, 0x02, 0x03, 0x04, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
            ];
            nonce.iter_mut().zip(iv).for_each(|(n, i)| *n ^= i);
            let mut expected = payload(packet.path, packet.pn);
            LessSafeKey::new(UnboundKey::new(algorithm, &key).unwrap())
                .seal_in_place_append_tag(
                    Nonce::assume_unique_for_key(nonce),
                    Aad::from(&packet.bytes[..HEADER.len() + 1]),
                    &mut expected,
                )
                .unwrap();
            assert_eq!(&packet.bytes[HEADER.len() + 1..], expected);
        }
    }
}

#[test]
fn the_epoch_rolls_through_a_long_loss() {
    let (mut sealer, mut opener) = one_way(epochs_of(100));
    for pn in 0..50 {
        let packet = seal(&mut sealer, 0, pn);
        open(&mut opener, Time::ZERO, &packet).unwrap();
    }
    sealer.on_acked(0);
    // Everything around the roll is lost: the opener learns of it from a packet deep in epoch 1.
    for pn in 50..180 {
        seal(&mut sealer, 0, pn);
    }
    assert_eq!(opener.epoch(), 0);
    let packet = seal(&mut sealer, 0, 180);
    assert_eq!(packet.epoch, 1);
    assert_eq!(open(&mut opener, Time::ZERO, &packet), Ok(()));
    assert_eq!(opener.epoch(), 1);
}

#[test]
fn packets_are_counted_over_all_paths() {
    let (mut sealer, _) = one_way(epochs_of(30));
    sealer.on_acked(0);
    let epochs: Vec<u8> = (0..31)
        .map(|i| seal(&mut sealer, i % 3, u64::from(i / 3)).epoch)
        .collect();
    assert_eq!(epochs[..30], [0; 30]);
    assert_eq!(epochs[30], 1);
}

#[test]
fn reordering_across_a_roll_loses_nothing() {
    let (mut sealer, mut opener) = one_way(epochs_of(10));
    sealer.on_acked(0);
    let packets: Vec<Packet> = (0..20).map(|pn| seal(&mut sealer, 0, pn)).collect();
    assert_eq!((packets[9].epoch, packets[10].epoch), (0, 1));
    for packet in packets.iter().rev() {
        assert_eq!(open(&mut opener, Time::ZERO, packet), Ok(()));
    }
    assert_eq!(opener.epoch(), 1, "an old packet doesn't move it back");
}

#[test]
fn two_rolls_leave_the_first_epoch_behind() {
    let (mut sealer, mut opener) = one_way(epochs_of(10));
    let mut packets = Vec::new();
    for pn in 0..30 {
        let packet = seal(&mut sealer, 0, pn);
        sealer.on_acked(packet.epoch);
        packets.push(packet);
    }
    for pn in [0, 10, 9, 20, 19, 21] {
        assert_eq!(open(&mut opener, Time::ZERO, &packets[pn]), Ok(()));
    }
    assert_eq!(open(&mut opener, Time::ZERO, &packets[8]), unknown(0, 2));
}

#[test]
fn a_packet_two_epochs_ahead_has_no_key() {
    let (mut sealer, mut opener) = one_way(epochs_of(1));
    for pn in 0..2 {
        seal(&mut sealer, 0, pn);
        sealer.on_acked(pn as u8);
    }
    let packet = seal(&mut sealer, 0, 2);
    assert_eq!(open(&mut opener, Time::ZERO, &packet), unknown(2, 0));
    assert_eq!(opener.forged(), 0);
}

#[test]
fn epochs_wrap_at_256() {
    let (mut sealer, mut opener) = one_way(epochs_of(1));
    for pn in 0..700_u64 {
        let packet = seal(&mut sealer, 0, pn);
        assert_eq!(packet.epoch, pn as u8);
        assert_eq!(open(&mut opener, Time::ZERO, &packet), Ok(()));
        sealer.on_acked(packet.epoch);
    }
    assert_eq!(opener.epoch(), 699_u64 as u8);
}

#[test]
fn forged_packets_of_the_next_epoch_do_not_commit_it() {
    let (mut sealer, mut opener) = one_way(epochs_of(10));
    let first = seal(&mut sealer, 0, 0);
    for epoch in [1, 1, 0, 1] {
        assert_eq!(
            open(&mut opener, Time::ZERO, &forgery(epoch)),
            Err(OpenError::Forged)
        );
    }
    assert_eq!((opener.epoch(), opener.forged()), (0, 4));
    assert_eq!(open(&mut opener, Time::ZERO, &first), Ok(()));
    // A genuine packet whose epoch byte was changed on the way opens with neither key.
    let relabelled = Packet {
        epoch: 1,
        ..seal(&mut sealer, 0, 1)
    };
    assert_eq!(
        open(&mut opener, Time::ZERO, &relabelled),
        Err(OpenError::Forged)
    );
    assert_eq!(opener.epoch(), 0);
}

#[test]
fn old_keys_go_after_three_probe_timeouts() {
    let (mut sealer, mut opener) = one_way(epochs_of(4));
    sealer.on_acked(0);
    let packets: Vec<Packet> = (0..6).map(|pn| seal(&mut sealer, 0, pn)).collect();
    let roll = Time::from_millis(5_000);
    open(&mut opener, Time::ZERO, &packets[0]).unwrap();
    open(&mut opener, roll, &packets[4]).unwrap();
    // Later packets of the new epoch don't extend the old one's life.
    open(&mut opener, roll + PTO, &packets[5]).unwrap();
    let last_moment = roll + PTO * 3 - Duration::from_nanos(1);
    assert_eq!(open(&mut opener, last_moment, &packets[1]), Ok(()));
    assert_eq!(
        open(&mut opener, roll + PTO * 3, &packets[2]),
        unknown(0, 1)
    );
    // Gone is gone, even for a clock that steps back.
    assert_eq!(open(&mut opener, roll, &packets[3]), unknown(0, 1));
}

#[test]
fn there_is_no_roll_before_an_acknowledgement_of_the_present_epoch() {
    let (mut sealer, _) = one_way(epochs_of(5));
    for pn in 0..20 {
        assert_eq!(seal(&mut sealer, 0, pn).epoch, 0);
    }
    sealer.on_acked(0);
    for pn in 20..40 {
        assert_eq!(seal(&mut sealer, 0, pn).epoch, 1);
        // A late acknowledgement of the old epoch says nothing about the new keys.
        sealer.on_acked(0);
    }
    sealer.on_acked(1);
    assert_eq!(sealer.epoch(), 2);
}

#[test]
fn sealing_stops_at_the_confidentiality_limit() {
    let limits = KeyLimits {
        epoch_packets: 4,
        confidentiality: 10,
        ..KeyLimits::default()
    };
    let (mut sealer, mut opener) = one_way(limits);
    for pn in 0..10 {
        seal(&mut sealer, 0, pn);
    }
    let mut buf = b"headpayload".to_vec();
    assert_eq!(
        sealer.seal(0, 10, &mut buf, 0, 4),
        Err(SealError::ConfidentialityLimit { packets: 10 })
    );
    assert_eq!(buf, b"headpayload", "nothing left in clear looks sealed");
    // The acknowledgement comes at last, and with it the next key.
    sealer.on_acked(0);
    let packet = seal(&mut sealer, 0, 11);
    assert_eq!(packet.epoch, 1);
    assert_eq!(open(&mut opener, Time::ZERO, &packet), Ok(()));
}

#[test]
fn opening_stops_at_the_integrity_limit() {
    let limits = KeyLimits {
        integrity: 3,
        epoch_packets: 1,
        ..KeyLimits::default()
    };
    let (mut sealer, mut opener) = one_way(limits);
    let packets = [0, 1, 2].map(|pn| {
        let packet = seal(&mut sealer, 0, pn);
        sealer.on_acked(packet.epoch);
        packet
    });
    // Over all epochs: one forgery in each of epochs 0, 1 and 2.
    open(&mut opener, Time::ZERO, &packets[0]).unwrap();
    assert_eq!(
        open(&mut opener, Time::ZERO, &forgery(0)),
        Err(OpenError::Forged)
    );
    open(&mut opener, Time::ZERO, &packets[1]).unwrap();
    assert_eq!(
        open(&mut opener, Time::ZERO, &forgery(1)),
        Err(OpenError::Forged)
    );
    open(&mut opener, Time::ZERO, &packets[2]).unwrap();
    let limit = Err(OpenError::IntegrityLimit { forged: 3 });
    assert_eq!(open(&mut opener, Time::ZERO, &forgery(2)), limit);
    assert_eq!(open(&mut opener, Time::ZERO, &packets[2]), limit);
}

#[test]
fn limits_never_exceed_the_suite() {
    // RFC 9001, section 6.6, and its appendix B.
    for (suite, seals, forgeries) in [
        (Suite::Aes256Gcm, 1 << 23, 1 << 52),
        (Suite::ChaCha20Poly1305, 1 << 62, 1 << 36),
    ] {
        let lavish = KeyLimits {
            epoch_packets: u64::MAX,
            confidentiality: u64::MAX,
            integrity: u64::MAX,
        };
        let limits = lavish.within(suite);
        assert_eq!(limits.confidentiality, seals);
        assert_eq!(limits.integrity, forgeries);
        assert_eq!(limits.epoch_packets, seals / 2);
        assert_eq!(KeyLimits::default().within(suite).epoch_packets, 1 << 22);
    }
    let mut key = pair(Suite::Aes256Gcm, epochs_of(0), 1).initiator.0;
    key.on_acked(0);
    assert_eq!(key.epoch(), 0, "an epoch has at least one packet");
}

#[test]
fn debug_output_shows_no_keys() {
    let Pair {
        initiator: (sealer, opener),
        ..
    } = pair(Suite::Aes256Gcm, KeyLimits::default(), 0x42);
    assert_eq!(
        format!("{sealer:?} {opener:?}"),
        "Sealer { epoch: 0, sealed: 0, acknowledged: false, .. } \
         Opener { epoch: 0, previous_held: false, forged: 0, .. }"
    );
}

#[test]
fn suites_have_names() {
    for suite in Suite::ALL {
        assert_eq!(suite.to_string().parse(), Ok(suite));
        assert_eq!(suite.to_string().to_uppercase().parse(), Ok(suite));
    }
    let error = "rot13".parse::<Suite>().unwrap_err().to_string();
    assert!(
        error.contains("\"rot13\"") && error.contains("aes-256-gcm"),
        "{error}"
    );
}
