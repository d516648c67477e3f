//! Damaged, truncated, forged and random datagrams.

use proptest::prelude::*;

use super::*;

#[test]
fn every_flipped_bit_of_the_init_is_noticed() {
    let (mut initiator, mut responder) = (initiator(7), responder());
    let init = initiator.datagram().to_vec();
    // What follows mac1 is of no interest without load.
    for bit in 0..(init.len() - manyway_wire::MAC2_LEN) * 8 {
        ignored(&mut responder, Time::ZERO, &flipped(&init, bit));
    }
    assert!(responder.is_empty());
    let reply = reply(&mut responder, Time::ZERO, &init, 1);
    complete(&mut initiator, &mut responder, &reply);
}

#[test]
fn an_init_forged_by_a_ticket_holder_does_not_hinder_the_genuine_one() {
    let (mut initiator, mut responder) = (initiator(7), responder());
    let init = initiator.datagram().to_vec();
    for byte in 0..INIT_LEN - MAC1_LEN - manyway_wire::MAC2_LEN {
        // The version has an answer of its own.
        if byte == 1 {
            continue;
        }
        let forged = authenticate(flipped(&init, byte * 8 + byte % 8));
        ignored(&mut responder, Time::ZERO, &forged);
    }
    assert!(responder.is_empty());
    let datagram = reply(&mut responder, Time::ZERO, &init, 1);
    complete(&mut initiator, &mut responder, &datagram);
}

#[test]
fn a_stolen_ephemeral_key_does_not_get_the_cached_reply() {
    let (mut initiator, mut responder) = (initiator(7), responder());
    let init = initiator.datagram().to_vec();
    let genuine = reply(&mut responder, Time::ZERO, &init, 1);
    let ephemeral = 20..52;
    for byte in ephemeral.end..ephemeral.end + 100 {
        let forged = authenticate(flipped(&init, byte * 8));
        assert_eq!(
            ignored(&mut responder, Time::ZERO, &forged),
            Ignored::ReusedEphemeral
        );
    }
    assert_eq!(responder.len(), 1);
    complete(&mut initiator, &mut responder, &genuine);
}

#[test]
fn every_flipped_bit_of_the_reply_is_noticed_and_survived() {
    let (mut initiator, mut responder) = (initiator(7), responder());
    let genuine = reply(&mut responder, Time::ZERO, initiator.datagram(), 1);
    for bit in 0..genuine.len() * 8 {
        let error = initiator.on_reply(&flipped(&genuine, bit)).unwrap_err();
        assert!(!error.is_fatal(), "bit {bit}: {error}");
    }
    // The same by somebody who can make mac1 anew.
    for bit in 0..(genuine.len() - MAC1_LEN) * 8 {
        let forged = authenticate(flipped(&genuine, bit));
        let error = initiator.on_reply(&forged).unwrap_err();
        assert!(!error.is_fatal(), "bit {bit}: {error}");
    }
    complete(&mut initiator, &mut responder, &genuine);
}

#[test]
fn truncated_and_extended_datagrams_are_refused() {
    let (mut initiator, mut responder) = (initiator(7), responder());
    let init = initiator.datagram().to_vec();
    let genuine = reply(&mut responder, Time::ZERO, &init, 1);
    let mut other = super::tests::responder();
    for len in 0..INIT_LEN {
        ignored(&mut other, Time::ZERO, &init[..len]);
        if len >= MAC1_LEN {
            ignored(&mut other, Time::ZERO, &authenticate(init[..len].to_vec()));
        }
    }
    ignored(&mut other, Time::ZERO, &[&init[..], &[0]].concat());
    for len in 0..genuine.len() {
        assert!(!initiator.on_reply(&genuine[..len]).unwrap_err().is_fatal());
        if len >= MAC1_LEN {
            let forged = authenticate(genuine[..len].to_vec());
            assert!(!initiator.on_reply(&forged).unwrap_err().is_fatal());
        }
    }
    let long = [&genuine[..], &[0]].concat();
    assert!(!initiator.on_reply(&long).unwrap_err().is_fatal());
    complete(&mut initiator, &mut responder, &genuine);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_datagram_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..1300)) {
        let (mut initiator, mut responder) = (initiator(7), responder());
        ignored(&mut responder, Time::ZERO, &bytes);
        prop_assert!(!initiator.on_reply(&bytes).unwrap_err().is_fatal());
    }

    /// Garbage with the right frame around it and the right `mac1`: what a ticket holder can send.
    #[test]
    fn any_noise_message_is_survived(
        noise in prop::collection::vec(any::<u8>(), 0..1100),
        keep in any::<bool>(),
    ) {
        let (mut initiator, mut responder) = (initiator(7), responder());
        let genuine = initiator.datagram().to_vec();
        let at = 1 + 1 + 8 + 8 + 2;
        let mut forged = genuine.clone();
        if !keep {
            forged[at - 2..at].copy_from_slice(&(noise.len() as u16).to_be_bytes());
        }
        // With `keep`, the genuine ephemeral key stays in front.
        let start = if keep { at + 32 } else { at };
        let len = noise.len().min(INIT_LEN - MAC1_LEN - start);
        forged[start..start + len].copy_from_slice(&noise[..len]);
        let forged = authenticate(forged);
        if forged != genuine {
            ignored(&mut responder, Time::ZERO, &forged);
        }
        let reply = reply(&mut responder, Time::ZERO, &genuine, 1);
        let at = 1 + 1 + 8 + 2;
        let mut forged = reply[..at].to_vec();
        forged[at - 2..].copy_from_slice(&(noise.len() as u16).to_be_bytes());
        forged.extend_from_slice(&noise);
        forged.extend_from_slice(&[0; MAC1_LEN]);
        prop_assert!(!initiator.on_reply(&authenticate(forged)).unwrap_err().is_fatal());
        complete(&mut initiator, &mut responder, &reply);
    }
}
