//! Two versions of the protocol: the listener says which one it speaks, to who holds the ticket.

use manyway_wire::{MAC2_LEN, OTHER_VERSION_LEN, OtherVersion, VERSION};

use super::*;

/// An INIT of another version: between the ids and `mac1` there may be anything.
fn foreign(init: &[u8], version: u8) -> Vec<u8> {
    let mut init = init.to_vec();
    init[1] = version;
    let rest = INIT_LEN - MAC2_LEN - MAC1_LEN;
    init[18..rest].fill(version);
    authenticate(init)
}

/// What a listener of this version answers to the initiator.
fn answer(initiator: &Initiator, number: u64, version: u8) -> Vec<u8> {
    let answer = OtherVersion {
        version,
        receiver_cid: cid(number),
    };
    let init_mac1 = &initiator.datagram()[INIT_LEN - MAC2_LEN - MAC1_LEN..INIT_LEN - MAC2_LEN];
    answer.seal(|bytes| initiator.mac1.sign(&[bytes, init_mac1].concat()))
}

#[test]
fn an_init_of_another_version_is_told_ours() {
    let (initiator, mut responder) = (initiator(7), responder());
    for version in [0, 1, 2, VERSION + 1, u8::MAX] {
        let init = foreign(initiator.datagram(), version);
        let outcome = responder.on_init(Time::ZERO, REMOTE, &init, || params(cid(1)));
        let Outcome::OtherVersion { datagram, theirs } = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!((theirs, datagram.len()), (version, OTHER_VERSION_LEN));
        let said = OtherVersion::decode(&datagram).unwrap();
        assert_eq!(said.version, VERSION);
        assert_eq!(said.receiver_cid, cid(1007));
        // It belongs to that INIT: another one of the same sender has another `mac1`.
        let mac1 = &init[INIT_LEN - MAC2_LEN - MAC1_LEN..INIT_LEN - MAC2_LEN];
        let signed = [&datagram[..OTHER_VERSION_LEN - MAC1_LEN], mac1].concat();
        assert!(initiator.mac1.verify(&signed, said.mac1));
        assert_eq!(
            initiator.on_other_version(&datagram),
            Err(HandshakeError::BadMac)
        );
    }
    assert!(responder.is_empty(), "nothing is kept for a VERSION");
}

#[test]
fn without_the_ticket_another_version_gets_no_answer() {
    let mut responder = responder();
    let init = foreign(initiator(7).datagram(), 9);
    let mut other_ticket = init.clone();
    other_ticket[10] ^= 1;
    let refused = ignored(&mut responder, Time::ZERO, &authenticate(other_ticket));
    assert!(matches!(refused, Ignored::OtherTicket(_)), "{refused}");
    for byte in 0..INIT_LEN - MAC2_LEN {
        ignored(&mut responder, Time::ZERO, &flipped(&init, byte * 8));
    }
    ignored(&mut responder, Time::ZERO, &init[..INIT_LEN - 1]);
}

#[test]
fn the_initiator_believes_the_listener_alone() {
    let (mut initiator, mut responder) = (initiator(7), responder());
    let genuine = answer(&initiator, 1007, 9);
    for bit in 0..genuine.len() * 8 {
        let error = initiator.on_other_version(&flipped(&genuine, bit));
        assert!(!error.unwrap_err().is_fatal());
    }
    let ours = answer(&initiator, 1007, VERSION);
    assert_eq!(
        initiator.on_other_version(&ours),
        Err(HandshakeError::SameVersion)
    );
    let other = answer(&initiator_with(&ticket(), Suite::default(), 8), 1008, 9);
    assert_eq!(
        initiator.on_other_version(&other),
        Err(HandshakeError::OtherAttempt)
    );
    assert_eq!(initiator.on_other_version(&genuine), Ok(9));
    let reply = reply(&mut responder, Time::ZERO, initiator.datagram(), 1);
    complete(&mut initiator, &mut responder, &reply);
    assert_eq!(
        initiator.on_other_version(&genuine),
        Err(HandshakeError::AlreadyComplete)
    );
}
