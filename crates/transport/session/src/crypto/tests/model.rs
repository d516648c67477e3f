//! Random interleavings against a model, and what must hold for any input.

use std::collections::HashSet;

use proptest::prelude::*;

use super::super::keys::nonce;
use super::*;

/// What the network, the peers and an attacker may do, in any order.
#[derive(Clone, Debug)]
enum Step {
    Send(u32),
    /// Deliver a packet sent earlier; it stays around, so that it may be delivered again.
    Deliver(prop::sample::Index),
    DeliverDamaged(prop::sample::Index, prop::sample::Index),
    Forge(u8),
    /// The peer's acknowledgement of the newest packet it has opened arrives.
    Acknowledge,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u32).prop_map(Step::Send),
        6 => any::<prop::sample::Index>().prop_map(Step::Deliver),
        2 => (any::<prop::sample::Index>(), any::<prop::sample::Index>())
            .prop_map(|(packet, bit)| Step::DeliverDamaged(packet, bit)),
        1 => any::<u8>().prop_map(Step::Forge),
        3 => Just(Step::Acknowledge),
        1 => (0..500_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Against a model with unbounded epochs: a genuine packet opens exactly if its keys are to be
    /// held, nothing else opens or moves an epoch, and the sender is never more than one ahead.
    #[test]
    fn any_interleaving_agrees_with_the_model(steps in prop::collection::vec(step(), 1..400)) {
        let (mut sealer, mut opener) = one_way(epochs_of(3));
        let mut now = Time::from_millis(1);
        let mut next_pn = [0_u64; 3];
        // Sent packets with their absolute epochs.
        let mut sent: Vec<(u64, Packet)> = Vec::new();
        let mut sender_epoch = 0_u64;
        let (mut receiver_epoch, mut previous_until) = (0_u64, Time::ZERO);
        let mut newest_opened = None;
        for step in steps {
            match step {
                Step::Send(path) => {
                    let pn = &mut next_pn[path as usize];
                    let packet = seal(&mut sealer, path, *pn);
                    *pn += 1;
                    if packet.epoch != sender_epoch as u8 {
                        sender_epoch += 1;
                        prop_assert_eq!(packet.epoch, sender_epoch as u8);
                    }
                    prop_assert!(sender_epoch <= receiver_epoch + 1);
                    sent.push((sender_epoch, packet));
                }
                Step::Deliver(which) if !sent.is_empty() => {
                    let (epoch, packet) = which.get(&sent);
                    let held = *epoch == receiver_epoch
                        || *epoch == receiver_epoch + 1
                        || (*epoch + 1 == receiver_epoch && now < previous_until);
                    prop_assert_eq!(open(&mut opener, now, packet).is_ok(), held);
                    if held {
                        newest_opened = newest_opened.max(Some(*epoch));
                    }
                    if *epoch == receiver_epoch + 1 {
                        receiver_epoch += 1;
                        previous_until = now + PTO * 3;
                    }
                }
                Step::DeliverDamaged(which, bit) if !sent.is_empty() => {
                    let (_, packet) = which.get(&sent);
                    let mut packet = packet.clone();
                    let bit = bit.index(packet.bytes.len() * 8);
                    packet.bytes[bit / 8] ^= 1 << (bit % 8);
                    prop_assert!(open(&mut opener, now, &packet).is_err());
                }
                Step::Forge(epoch) => {
                    prop_assert!(open(&mut opener, now, &forgery(epoch)).is_err());
                }
                Step::Acknowledge => {
                    if let Some(epoch) = newest_opened {
                        sealer.on_acked(epoch as u8);
                    }
                }
                Step::Wait(millis) => now += Duration::from_millis(millis),
                Step::Deliver(_) | Step::DeliverDamaged(..) => {}
            }
            prop_assert_eq!(opener.epoch(), receiver_epoch as u8);
        }
    }

    #[test]
    fn nonces_never_repeat(
        iv in any::<[u8; 12]>(),
        packets in prop::collection::hash_set(
            (prop_oneof![0..4_u32, any::<u32>()], prop_oneof![0..64_u64, any::<u64>()]),
            2..300,
        ),
    ) {
        let nonces: HashSet<[u8; 12]> =
            packets.iter().map(|&(path, pn)| nonce(&iv, path, pn)).collect();
        prop_assert_eq!(nonces.len(), packets.len());
    }

    #[test]
    fn any_bytes_are_refused_without_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        header_len in 0..300_usize,
        epoch in any::<u8>(),
        pn in any::<u64>(),
    ) {
        let (_, mut opener) = one_way(KeyLimits::default());
        let opened = opener.open(Time::MAX, Duration::MAX, 0, pn, epoch, &mut bytes, header_len);
        prop_assert!(opened.is_err());
    }
}
