//! What a relay bears: floods, accounts that want more than their rate, years of keys, any number
//! of flows.

use std::net::{Ipv4Addr, SocketAddr};

use crate::common::*;
use manyway_relay::{Action, Config, Keys, Reason, Relay};
use manyway_wire::relay::{
    Hello, ListenerName, Nonce, Peer, RateClass, Refusal, RelayId, RelayReply, StaleReason,
};
use rand::RngExt;

#[test]
fn strangers_who_dont_know_the_relay_get_no_answer() {
    let mut world = World::new();
    let hello = Hello {
        nonce: Nonce([0; 8]),
        relay: RelayId([0; 32]),
    };
    assert_eq!(world.reply(S, &hello.to_bytes()), Err(Reason::OtherRelay));
    for len in 0..400 {
        let action = world.handle(addr(S), &vec![0x22; len]);
        assert!(matches!(action, Action::Drop(_)));
    }
    assert_eq!(world.relay.counters().reply_bytes, 0);
}

/// From a million spoofed sources and from one, for ten seconds.
#[test]
fn a_flood_of_hello_and_mint_is_bounded() {
    let mut world = World::new();
    let memory = world.relay.memory();
    let (consent, _) = world.hello(R);
    let (_, proof) = world.hello(S);
    let voucher = world.voucher();
    let hello = Hello {
        nonce: Nonce([0; 8]),
        relay: world.relay.id(),
    }
    .to_bytes();
    let mint = world.mint_datagram(proof, Peer::Consent(consent), voucher);
    let before = *world.relay.counters();
    let mut from_one = 0;
    for round in 0..100_000u32 {
        world.later(0.0001);
        // A new source each time, never seen again: no reply to the MINTs, and to HELLOs within the
        // total.
        let random: u32 = world.rng.random();
        let source = SocketAddr::new(
            Ipv4Addr::from_bits(random % 0xd000_0000).into(),
            1 + round as u16 % 60_000,
        );
        for _ in 0..5 {
            world.handle(source, &hello);
        }
        let silent = world.handle(source, &mint);
        assert!(matches!(silent, Action::Drop(_)));
        // One source that proves its address: its replies are limited, whatever it asks for.
        let mut one = addr(V);
        one.set_port(round as u16 | 1);
        from_one += u32::from(matches!(world.handle(one, &hello), Action::Reply(_)));
    }
    let after = world.relay.counters();
    assert!(world.bytes.1 <= world.bytes.0, "{:?}", world.bytes);
    // 10 s at the total's rate, and twice one second's worth at once.
    assert!(after.consents - before.consents <= 12 * 20_000, "{after:?}");
    assert!(from_one <= 12 * 100, "{from_one}");
    assert_eq!(after.minted, before.minted);
    assert_eq!(world.relay.memory(), memory);
    // And whoever is not part of it is served a second later.
    world.later(3.0);
    assert!(world.try_hello(S).is_ok());
}

/// With the victim's own address as the source, or with many.
#[test]
fn a_spoofed_flood_doesnt_shut_out_those_who_have_shown_their_address() {
    let mut world = World::new();
    let (_, proof) = world.hello(R);
    let mut proof_s = world.hello(S).1;
    let hello = Hello {
        nonce: Nonce([0; 8]),
        relay: world.relay.id(),
    }
    .to_bytes();
    for round in 0..50_000u32 {
        world.later(0.0001);
        let random: u32 = world.rng.random();
        let source = Ipv4Addr::from_bits(random % 0xd000_0000).into();
        for _ in 0..5 {
            world.handle(SocketAddr::new(source, 7), &hello);
        }
        world.handle(addr(R), &hello);
        if round % 10_000 == 9_999 {
            let hello = world.try_hello(R);
            assert_eq!(
                hello.unwrap_err(),
                Reason::RequestRate,
                "the flood has its share"
            );
            world.listen(R, ListenerName::NONE, proof).unwrap();
            world.listen(S, ListenerName([1; 16]), proof_s).unwrap();
            proof_s = world.renewed(S, proof_s);
        }
    }
    let voucher = world.voucher();
    let none = world.mint_with(S, proof_s, Peer::Name(ListenerName::NONE), voucher);
    assert_eq!(none, Ok(Err(Refusal::UnknownName)), "no name is nobody's");
    let minted = world.mint_with(R, proof, Peer::Name(ListenerName([1; 16])), voucher);
    assert!(minted.unwrap().is_ok());
}

#[test]
fn a_flood_of_mints_from_a_proved_source_is_limited() {
    let mut world = World::new();
    let (consent, _) = world.hello(R);
    let (_, proof) = world.hello(S);
    let voucher = world.voucher();
    let mint = world.mint_datagram(proof, Peer::Consent(consent), voucher);
    for _ in 0..1000 {
        world.later(0.01);
        world.handle(addr(S), &mint);
    }
    let counters = world.relay.counters();
    assert!(
        (200..=240).contains(&counters.minted),
        "20 a second, and 40 at once: {counters:?}"
    );
    assert!(world.bytes.1 <= world.bytes.0);
}

/// Hundreds of hosts that receive what is sent to them, and send signatures that have to be checked
/// to be refused.
#[test]
fn a_botnet_with_true_addresses_costs_a_bounded_number_of_signature_checks() {
    let mut world = World::new();
    let (consent, _) = world.hello(R);
    let good = world.voucher();
    let voucher = manyway_wire::relay::Voucher {
        signature: [1; 64],
        ..good
    };
    let mut refused = [0; 2];
    for bot in 0..300 {
        let from = format!("198.51.{}.{}:7", bot / 250, bot % 250);
        let (_, proof) = world.hello(&from);
        for _ in 0..40 {
            match world.mint_with(&from, proof, Peer::Consent(consent), voucher) {
                Ok(Err(Refusal::Voucher)) => refused[0] += 1,
                Ok(Err(Refusal::Busy)) => refused[1] += 1,
                Err(Reason::RequestRate) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    // Twice a second's worth at once; the rest costs no signature.
    assert_eq!(refused[0], 4000);
    assert!(refused[1] > 4000, "{refused:?}");
    world.later(3.0);
    let minted = world.grants(S, R);
    assert_eq!(world.send(S, &minted.there), Sent::To(addr(R)));
}

/// A network of 64 bits is one source: whoever has one has all of its addresses.
#[test]
fn the_addresses_of_one_network_share_a_budget() {
    let mut world = World::new();
    let mut answered = |network: u16| {
        let hosts = (0..1000).filter(|host| {
            let from = format!("[2001:db8:0:{network:x}::{host:x}]:7");
            world.try_hello(&from).is_ok()
        });
        hosts.count()
    };
    let first = answered(1);
    assert_eq!(first, 200, "two seconds' worth at once");
    assert_eq!(
        answered(2),
        first,
        "another network has a budget of its own"
    );
    let counters = world.relay.counters();
    assert_eq!(
        (counters.received, counters.received_bytes),
        (2000, world.bytes.0)
    );
}

/// Accounts, not grants or vouchers, have a rate.
#[test]
fn an_account_gets_its_rate_however_many_vouchers_and_grants_it_has() {
    let mut world = World::new();
    let class = RateClass::new(3).unwrap(); // 8 Mbit/s
    let mut grants = Vec::new();
    for source in 0..20 {
        let from = format!("198.51.100.{source}:1000");
        let voucher = world.voucher_of([1; 8], class);
        grants.push((from.clone(), world.grants_with(&from, R, voucher).there));
    }
    let other = world.voucher_of([2; 8], class);
    let other = world.grants_with(S, R, other).there;
    let payload = [0x10; 1000];
    let (mut bytes, mut others) = (0, 0);
    for ms in 0..10_000 {
        world.later(0.001);
        for (from, grant) in &grants {
            if let Sent::To(_) = world.send_payload(from, grant, &payload) {
                bytes += payload.len() + grant.as_bytes().len();
            }
        }
        if ms % 2 == 0 && matches!(world.send_payload(S, &other, &payload), Sent::To(_)) {
            others += 1;
        }
    }
    let expected = 10_000_000 + (128 << 10);
    assert!(
        (expected - 100_000..=expected + 100_000).contains(&bytes),
        "{bytes}"
    );
    assert_eq!(others, 5000, "another account doesn't notice");
}

#[test]
fn a_replaying_observer_gains_at_most_the_grants_rate() {
    let mut world = World::new();
    let voucher = world.voucher_of([1; 8], RateClass::new(0).unwrap()); // 1 Mbit/s
    let grant = world.grants_with(S, R, voucher).there;
    let packet = [grant.as_bytes(), &[0x10; 1000]].concat();
    let mut bytes = 0;
    for _ in 0..100_000 {
        world.later(0.0001);
        // With the true source's address on it, as an observer can send it.
        if let Sent::To(_) = world.send_raw(S, &packet) {
            bytes += packet.len();
        }
    }
    assert!(bytes <= 1_250_000 + (128 << 10), "{bytes} in 10 s");
    // After the grant, nothing.
    world.later(120.0);
    assert!(!matches!(world.send_raw(S, &packet), Sent::To(_)));
}

#[test]
fn keys_rotate_without_cutting_flows_and_lost_keys_forward_nothing() {
    let mut world = World::new();
    let old = world.grants(S, R).there;
    let rotate = |world: &mut World| {
        let mut keys = Keys::from_text(&world.relay.keys().to_text()).unwrap();
        let rotated = keys.rotate(world.now, &mut world.rng);
        world.relay.set_keys(keys);
        rotated
    };
    assert!(!rotate(&mut world), "too early");
    world.later(119.0);
    let old2 = world.grants(S, R).there;
    world.later(1.0);
    assert!(rotate(&mut world));
    assert_eq!(
        world.send(S, &old2),
        Sent::To(addr(R)),
        "of the previous key"
    );
    let new = world.grants(S, R).there;
    assert_ne!(new.header().key, old.header().key);
    assert_eq!(world.send(S, &new), Sent::To(addr(R)));
    // A relay that starts anew knows none of them, and says nothing.
    let fresh = Keys::generate(world.now, &mut world.rng);
    world.relay.set_keys(fresh);
    for grant in [old, old2, new] {
        assert_eq!(world.send(S, &grant), Sent::Dropped(Reason::Forged));
    }
}

#[test]
fn grants_survive_a_restart() {
    let mut world = World::new();
    let grant = world.grants(S, R).there;
    let text = world.relay.keys().to_text();
    world.relay = Relay::new(
        Config::default(),
        Keys::from_text(&text).unwrap(),
        &mut world.rng,
    );
    assert_eq!(world.send(S, &grant), Sent::To(addr(R)));
}

/// One check for a run, whatever is between the runs.
#[test]
fn only_equal_headers_from_the_same_source_go_unchecked() {
    let mut world = World::new();
    let one = world.grants(S, R).there;
    let two = world.grants(S, V).there;
    let checks = |world: &World| world.relay.counters().checks;
    for _ in 0..100 {
        world.send(S, &one);
    }
    assert_eq!(checks(&world), 1);
    for _ in 0..10 {
        world.send(S, &one);
        world.send(S, &two);
    }
    assert_eq!(checks(&world), 20);
    // The memory of the last grant helps nobody else.
    world.send(S, &one);
    assert!(matches!(world.send(R, &one), Sent::Stale(_)));
    assert_eq!(world.send(S, &one), Sent::To(addr(R)));
}

#[test]
fn a_leaving_relay_forwards_and_says_so_and_promises_nothing() {
    let mut world = World::new();
    let minted = world.grants(S, R);
    let (consent, _) = world.hello(R);
    let (_, proof) = world.hello(S);
    let voucher = world.voucher();
    world.relay.leave();
    let packet = [minted.there.as_bytes(), b"\x10x"].concat();
    let mut notices = 0;
    for _ in 0..100 {
        let Action::Forward { to, notice, .. } = world.handle(addr(S), &packet) else {
            panic!("not forwarded")
        };
        assert_eq!(to, addr(R));
        if let Some(notice) = notice {
            let RelayReply::Stale(stale) = RelayReply::decode(notice.as_bytes()).unwrap() else {
                panic!("{notice:?}")
            };
            assert!(stale.concerns(&minted.there) && stale.reason == StaleReason::Leaving);
            notices += 1;
        }
    }
    assert_eq!(notices, 1);
    assert_eq!(world.try_hello(R).unwrap_err(), Reason::Leaving);
    let minted = world.mint_with(S, proof, Peer::Consent(consent), voucher);
    assert_eq!(minted, Ok(Err(Refusal::Leaving)));
}

#[test]
fn memory_is_the_same_for_one_flow_and_for_a_hundred_thousand() {
    let mut world = World::new();
    let memory = world.relay.memory();
    let receiver = world.hello(R).0;
    let relay = world.relay.id();
    let mut forwarded = 0;
    for flow in 0..100_000u32 {
        world.later(0.0001);
        let from = format!(
            "198.{}.{}.{}:1000",
            20 + (flow >> 16),
            flow >> 8 & 255,
            flow & 255
        );
        let hello = Hello {
            nonce: Nonce([0; 8]),
            relay,
        };
        let Ok(RelayReply::Consent(reply)) = world.reply(&from, &hello.to_bytes()) else {
            panic!("flow {flow}")
        };
        // Every hundredth has it minted; signing is what takes time here.
        if flow % 100 == 0 {
            let voucher = world.voucher_of(u64::from(flow).to_be_bytes(), RateClass::MAX);
            let minted = world.mint_with(&from, reply.proof, Peer::Consent(receiver), voucher);
            let minted = minted.unwrap().unwrap();
            assert_eq!(world.send(&from, &minted.there), Sent::To(addr(R)));
            assert_eq!(world.send(R, &minted.back), Sent::To(addr(&from)));
            forwarded += 2;
        }
    }
    assert_eq!(world.relay.counters().forwarded, forwarded);
    assert_eq!(world.relay.memory(), memory);
    // docs/relays.md says so.
    assert_eq!(memory / 100_000, 18, "{memory} bytes");
}
