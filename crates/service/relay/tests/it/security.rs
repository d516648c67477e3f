//! What a relay must never do, attack by attack. `docs/relays.md` has the same list in words.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::common::*;
use manyway_relay::keys::{public_key, sign};
use manyway_relay::{AccountTag, Action, Config, Keys, Reason, Relay, Revoked};
use manyway_wire::relay::{
    ForwardHeader, Grant, Hello, ListenerName, Mac, Mint, Nonce, Peer, RateClass, Refusal, RelayId,
    RelayReply, StaleReason, VoucherTerms,
};
use proptest::prelude::*;

#[test]
fn forged_grants_are_dropped_in_silence() {
    let mut world = World::new();
    let genuine = *world.grants(S, R).there.header();
    for byte in 0..=255u8 {
        let forged = ForwardHeader {
            check: [byte; 4],
            mac: Mac([byte; 8]),
            ..genuine
        };
        assert_eq!(world.send(S, &forged.into()), Sent::Dropped(Reason::Forged));
    }
    // Another relay's grant, even with the same key id.
    let mut other = World::seeded(2, Config::default());
    let foreign = *other.grants(S, R).there.header();
    let foreign = ForwardHeader {
        key: genuine.key,
        ..foreign
    };
    assert_eq!(
        world.send(S, &foreign.into()),
        Sent::Dropped(Reason::Forged)
    );
    assert_eq!(world.relay.counters().forwarded, 0);
}

#[test]
fn bit_flipped_grants_forward_nothing() {
    for (from, to) in [(S, R), ("[2001:db8::1]:1", "[2001:db8::2]:2")] {
        let mut world = World::new();
        let grant = world.grants(from, to).there;
        let mac_from = grant.as_bytes().len() - 8;
        let mut stale = 0;
        for bit in 0..grant.as_bytes().len() * 8 {
            let mut datagram = [grant.as_bytes(), b"payload"].concat();
            datagram[bit / 8] ^= 1 << (bit % 8);
            match world.send_raw(from, &datagram) {
                Sent::Dropped(_) => {}
                // Its fields are genuine, so it looks as if minted for another source: its sender
                // may be told, within limits.
                Sent::Stale(_) if bit / 8 >= mac_from => stale += 1,
                other => panic!("bit {bit}: {other:?}"),
            }
        }
        assert!(stale > 0);
        assert_eq!(
            world.send(from, &grant),
            Sent::To(addr(to)),
            "the genuine one still works"
        );
    }
}

#[test]
fn expired_grants_get_one_stale_a_second_and_forward_nothing() {
    let mut world = World::new();
    let grant = world.grants(S, R).there;
    world.later(119.9);
    assert_eq!(world.send(S, &grant), Sent::To(addr(R)));
    world.later(0.1);
    let Sent::Stale(stale) = world.send(S, &grant) else {
        panic!("no STALE")
    };
    assert!(stale.concerns(&grant) && stale.reason == StaleReason::Expired);
    for _ in 0..100 {
        world.later(0.009);
        assert_eq!(world.send(S, &grant), Sent::Dropped(Reason::Stale));
    }
    world.later(0.2);
    assert!(matches!(world.send(S, &grant), Sent::Stale(_)));
}

#[test]
fn a_clock_that_is_set_back_prolongs_no_grant() {
    let mut world = World::new();
    let grant = world.grants(S, R).there;
    let (consent, _) = world.hello(R);
    let (_, proof) = world.hello(S);
    world.now -= Duration::from_secs(10);
    assert!(!matches!(world.send(S, &grant), Sent::To(_)));
    let voucher = world.voucher();
    let minted = world.mint_with(S, proof, Peer::Consent(consent), voucher);
    assert_eq!(minted, Err(Reason::Stale));
}

#[test]
fn misdirected_grants_forward_nothing() {
    let mut world = World::new();
    let minted = world.grants(S, R);
    let header = *minted.there.header();
    let elsewhere = [
        V,
        "203.0.113.2:2001",
        "203.0.113.3:2000",
        "[2001:db8::1]:2000",
    ];
    for destination in elsewhere.map(addr) {
        let misdirected = Grant::from(ForwardHeader {
            destination,
            ..header
        });
        assert_eq!(world.send(S, &misdirected), Sent::Dropped(Reason::Forged));
    }
    // Each grant is for one direction.
    assert_eq!(world.send(R, &minted.back), Sent::To(addr(S)));
    for (from, grant) in [(R, &minted.there), (S, &minted.back)] {
        assert!(!matches!(world.send(from, grant), Sent::To(_)));
    }
}

#[test]
fn grants_used_from_another_address_forward_nothing() {
    let mut world = World::new();
    let grant = world.grants(S, R).there;
    // Another host, another port, and the same address in IPv6's clothes, which is the same.
    for thief in [V, "198.51.100.1:1001"] {
        let Sent::Stale(stale) = world.send(thief, &grant) else {
            panic!("a rebinding NAT should be told")
        };
        assert_eq!(stale.reason, StaleReason::Moved);
        for _ in 0..1000 {
            assert_eq!(world.send(thief, &grant), Sent::Dropped(Reason::Stale));
        }
    }
    assert_eq!(
        world.send("[::ffff:198.51.100.1]:1000", &grant),
        Sent::To(addr(R))
    );
    assert_eq!(world.relay.counters().forwarded, 1);
    assert_eq!(world.relay.counters().stale, 2);
}

#[test]
fn a_sender_whose_nat_rebinds_gets_new_grants() {
    let mut world = World::new();
    let grant = world.grants(S, R).there;
    let moved = "198.51.100.1:5555";
    assert!(matches!(world.send(moved, &grant), Sent::Stale(_)));
    let minted = world.grants(moved, R);
    assert_eq!(world.send(moved, &minted.there), Sent::To(addr(R)));
    assert_eq!(world.send(R, &minted.back), Sent::To(addr(moved)));
}

#[test]
fn nothing_is_minted_for_a_destination_that_never_consented() {
    let mut world = World::new();
    let (_, own) = world.hello(S);
    let (genuine, passed_on) = world.hello(R);
    let voucher = world.voucher();
    let foreign = World::seeded(2, Config::default()).hello(V).0;
    let wrong = [
        // Another's consent with the victim's address in it.
        manyway_wire::relay::Consent {
            address: addr(V),
            ..genuine
        },
        // Guesses.
        manyway_wire::relay::Consent {
            mac: Mac([0; 8]),
            ..genuine
        },
        // A consent to another relay.
        foreign,
        manyway_wire::relay::Consent {
            key: genuine.key,
            ..foreign
        },
        // What was for the relay's eyes only is no consent.
        manyway_wire::relay::Consent {
            mac: passed_on.mac,
            ..genuine
        },
        // Later or earlier than it was given.
        manyway_wire::relay::Consent {
            issued: genuine.issued + 30,
            ..genuine
        },
    ];
    for consent in wrong {
        let minted = world.mint_with(S, own, Peer::Consent(consent), voucher);
        assert_eq!(minted, Ok(Err(Refusal::Consent)), "{consent:?}");
    }
    let minted = world.mint_with(S, own, Peer::Name(ListenerName([1; 16])), voucher);
    assert_eq!(minted, Ok(Err(Refusal::UnknownName)));
    assert!(
        world
            .mint_with(S, own, Peer::Consent(genuine), voucher)
            .unwrap()
            .is_ok()
    );
}

#[test]
fn consent_ends_and_with_it_all_that_was_minted_on_it() {
    let mut world = World::new();
    let (consent, _) = world.hello(R);
    let voucher = world.voucher();
    world.later(59.0);
    let (_, proof) = world.hello(S);
    let minted = world.mint_with(S, proof, Peer::Consent(consent), voucher);
    let minted = minted.unwrap().unwrap();
    world.later(2.0);
    let (_, proof) = world.hello(S);
    let late = world.mint_with(S, proof, Peer::Consent(consent), voucher);
    assert_eq!(late, Ok(Err(Refusal::Consent)));
    // 120 s after the receiver's last word, not after the minting.
    world.later(58.9);
    assert!(matches!(world.send(S, &minted.there), Sent::To(_)));
    world.later(0.2);
    assert!(matches!(world.send(S, &minted.there), Sent::Stale(_)));
    assert!(
        matches!(world.send(R, &minted.back), Sent::To(_)),
        "the sender's is younger"
    );
}

/// Somebody with a voucher wants traffic to flow back to a victim, from a receiver that plays
/// along.
#[test]
fn a_spoofed_source_obtains_no_return_grant() {
    let mut world = World::new();
    let (accomplice, _) = world.hello(R);
    let (consent_s, proof_s) = world.hello(S);
    // The victim is a client too, and has passed its consent on to the attacker.
    let (passed_on, _) = world.hello(V);
    let voucher = world.voucher();
    let guess = manyway_wire::relay::Proof {
        mac: Mac([0; 8]),
        ..proof_s
    };
    let consent_as_proof = manyway_wire::relay::Proof {
        key: passed_on.key,
        issued: passed_on.issued,
        mac: passed_on.mac,
    };
    let before = *world.relay.counters();
    for proof in [guess, proof_s, consent_as_proof] {
        for peer in [accomplice, consent_s] {
            let minted = world.mint_with(V, proof, Peer::Consent(peer), voucher);
            assert_eq!(minted, Err(Reason::Forged), "silence");
        }
    }
    let after = world.relay.counters();
    assert_eq!(
        (after.minted, after.refused),
        (before.minted, before.refused)
    );
    assert_eq!(after.reply_bytes, before.reply_bytes);
    // An honest MINT names the victim as nobody's end, and is answered to its source alone.
    let minted = world.mint_with(S, proof_s, Peer::Consent(accomplice), voucher);
    assert_eq!(minted.unwrap().unwrap().back.destination(), addr(S));
}

#[test]
fn a_spoofed_source_takes_no_name() {
    let mut world = World::new();
    let name = ListenerName([5; 16]);
    let (consent, proof) = world.hello(R);
    world.listen(R, name, proof).unwrap();
    let (victims, _) = world.hello(V);
    let stolen = manyway_wire::relay::Proof {
        key: victims.key,
        issued: victims.issued,
        mac: victims.mac,
    };
    for spoofed in [proof, stolen] {
        assert_eq!(world.listen(V, name, spoofed), Err(Reason::Forged));
    }
    let (_, own) = world.hello(S);
    let voucher = world.voucher();
    let minted = world.mint_with(S, own, Peer::Name(name), voucher);
    let minted = minted.unwrap().unwrap();
    assert_eq!(minted.there.destination(), consent.address);
    assert_eq!(world.send(S, &minted.there), Sent::To(addr(R)));
    assert_eq!(world.send(R, &minted.back), Sent::To(addr(S)));
    // Silence ends it.
    world.later(61.0);
    let (_, own) = world.hello(S);
    let minted = world.mint_with(S, own, Peer::Name(name), voucher);
    assert_eq!(minted, Ok(Err(Refusal::UnknownName)));
}

#[test]
fn vouchers_that_are_not_good_here_mint_nothing() {
    let mut world = World::new();
    let (consent, _) = world.hello(R);
    let (_, proof) = world.hello(S);
    let good = world.voucher();
    let mut mint = |voucher| world.mint_with(S, proof, Peer::Consent(consent), voucher);
    let stranger = [9; 32];
    let resigned = |terms: VoucherTerms| terms.seal(|bytes| sign(&stranger, bytes));
    // Signed by nobody whom the relay trusts; signed by a stranger in the relay's name.
    let strangers = VoucherTerms {
        signer: public_key(&stranger),
        ..good.terms
    };
    assert_eq!(mint(resigned(strangers)), Ok(Err(Refusal::Voucher)));
    assert_eq!(mint(resigned(good.terms)), Ok(Err(Refusal::Voucher)));
    // Its terms altered.
    for terms in [
        VoucherTerms {
            class: RateClass::new(3).unwrap(),
            ..good.terms
        },
        VoucherTerms {
            account: [2; 8],
            ..good.terms
        },
        VoucherTerms {
            expires: u32::MAX - 1,
            ..good.terms
        },
    ] {
        let altered = manyway_wire::relay::Voucher { terms, ..good };
        assert_eq!(mint(altered), Ok(Err(Refusal::Voucher)));
    }
    // For another relay: silence, as for all that isn't meant for this one.
    let elsewhere = VoucherTerms {
        relay: RelayId([1; 32]),
        ..good.terms
    };
    assert_eq!(mint(resigned(elsewhere)), Err(Reason::OtherRelay));
    world.later(10.0);
    let client = good.terms.client;
    let over = world
        .relay
        .keys()
        .vouch([1; 8], RateClass::MAX, START.as_secs() as u32, client);
    let minted = world.mint_with(S, proof, Peer::Consent(consent), over);
    assert_eq!(minted, Ok(Err(Refusal::VoucherExpired)));
    assert_eq!(world.relay.counters().minted, 0);
}

/// Nothing new, whatever voucher it shows; what it has ends by itself, and others go on.
#[test]
fn a_revoked_account_gets_no_grants_and_keeps_those_it_has_for_two_minutes() {
    let mut world = World::new();
    let class = RateClass::MAX;
    let accounts = [[1; 8], [2; 8]].map(|account| world.voucher_of(account, class));
    let grants = accounts.map(|voucher| world.grants_with(S, R, voucher).there);
    let tag = AccountTag::in_voucher(&accounts[0].terms);
    world.relay.set_revoked(Revoked::from_iter([tag]));
    let (consent, _) = world.hello(R);
    let (_, proof) = world.hello(S);
    let peer = Peer::Consent(consent);
    let another = world.voucher_of([1; 8], RateClass::new(3).unwrap());
    for voucher in [accounts[0], another] {
        let minted = world.mint_with(S, proof, peer, voucher);
        assert_eq!(minted, Ok(Err(Refusal::Revoked)));
    }
    assert!(matches!(
        world.mint_with(S, proof, peer, accounts[1]),
        Ok(Ok(_))
    ));
    world.later(119.0);
    assert_eq!(world.send(S, &grants[0]), Sent::To(addr(R)));
    world.later(1.0);
    assert!(matches!(world.send(S, &grants[0]), Sent::Stale(_)));
    // Without the revocation it gets grants again.
    world.relay.set_revoked(Revoked::default());
    world.grants_with(S, R, accounts[0]);
}

#[test]
fn trusted_signers_vouch_too() {
    let registry = [8; 32];
    let mut world = World::with(Config {
        trusted: vec![public_key(&registry)],
        ..Config::default()
    });
    let terms = VoucherTerms {
        signer: public_key(&registry),
        ..world.voucher().terms
    };
    let voucher = terms.seal(|bytes| sign(&registry, bytes));
    let minted = world.grants_with(S, R, voucher);
    assert_eq!(world.send(S, &minted.there), Sent::To(addr(R)));
}

/// Whoever watches a MINT has the voucher, but not the key that it was given to.
#[test]
fn a_stolen_voucher_mints_nothing() {
    let mut world = World::new();
    let (consent, _) = world.hello(R);
    let (_, proof) = world.hello(V);
    let voucher = world.voucher();
    let theft = Mint {
        nonce: Nonce([0; 8]),
        proof,
        peer: Peer::Consent(consent),
        voucher,
    };
    let datagram = theft.seal(|bytes| sign(&[66; 32], bytes));
    let Ok(RelayReply::Refused(refused)) = world.reply(V, &datagram) else {
        panic!("no refusal")
    };
    assert_eq!(refused.reason, Refusal::Voucher);
    // A whole MINT, sent again from elsewhere, has the wrong proof.
    let (_, own) = world.hello(S);
    let watched = world.mint_datagram(own, Peer::Consent(consent), voucher);
    assert_eq!(world.reply(V, &watched), Err(Reason::Forged));
    // And so has one whose peer was replaced, from the right place: the signature covers it.
    let mut altered = watched.clone();
    altered[40] ^= 1;
    assert!(!matches!(
        world.reply(S, &altered),
        Ok(RelayReply::Minted(_))
    ));
    assert!(matches!(
        world.reply(S, &watched),
        Ok(RelayReply::Minted(_))
    ));
}

/// Nothing that leaves a relay makes a relay do anything, whatever grants somebody got hold of.
#[test]
fn loops_through_two_relays_are_impossible() {
    let (a_addr, b_addr) = ("192.0.2.100:3470", "192.0.2.200:3470");
    let mut a = World::seeded(1, Config::default());
    let mut b = World::seeded(2, Config::default());
    // As if each relay had consented at the other: worse than any attack.
    let to_b = a.grants(S, b_addr).there;
    let to_a = b.grants(S, a_addr).there;
    let relayed_to_b = a.grants(a_addr, b_addr).there;
    let hello = Hello {
        nonce: Nonce([0; 8]),
        relay: b.relay.id(),
    };
    let nested: [Vec<u8>; 4] = [
        // To b, with b's grant back to a inside, and so on.
        [to_a.as_bytes(), to_b.as_bytes(), b"x"].concat(),
        [relayed_to_b.as_bytes(), b"x"].concat(),
        hello.to_bytes().to_vec(),
        vec![0x2f],
    ];
    for payload in nested {
        assert_eq!(
            a.send_payload(S, &to_b, &payload),
            Sent::Dropped(Reason::Nested)
        );
    }
    // What does get through is nothing that the other relay acts on.
    for first in 0..=255u8 {
        let payload = [&[first], &to_a.as_bytes()[1..], b"x"].concat();
        match a.send_payload(S, &to_b, &payload) {
            Sent::To(to) => {
                assert_eq!(to, addr(b_addr));
                let echo = b.handle(addr(a_addr), &payload);
                assert_eq!(echo, Action::Drop(Reason::Malformed));
            }
            Sent::Dropped(reason) => assert_eq!(reason, Reason::Nested),
            other => panic!("{other:?}"),
        }
    }
    // Neither is any reply of it, to a request with the other's address as its source.
    let voucher = a.voucher();
    let (consent, proof) = a.hello(b_addr);
    let requests = [
        Hello {
            nonce: Nonce([0; 8]),
            relay: a.relay.id(),
        }
        .to_bytes()
        .to_vec(),
        a.mint_datagram(proof, Peer::Consent(consent), voucher),
        a.mint_datagram(proof, Peer::Name(ListenerName([0; 16])), voucher),
        [to_b.as_bytes(), b"x"].concat(),
    ];
    for request in requests {
        let Action::Reply(reply) = a.handle(addr(b_addr), &request) else {
            panic!("no reply")
        };
        assert_eq!(
            b.handle(addr(a_addr), reply.as_bytes()),
            Action::Drop(Reason::Malformed)
        );
    }
}

#[test]
fn a_relays_own_address_is_nobodys_destination() {
    let own = "192.0.2.100:3470";
    let mut world = World::with(Config {
        own: vec![addr("[::ffff:192.0.2.100]:3470")],
        ..Config::default()
    });
    assert_eq!(world.try_hello(own).unwrap_err(), Reason::Address);
    assert!(world.try_hello("192.0.2.100:3471").is_ok());
}

#[test]
fn private_addresses_are_refused_unless_allowed() {
    let private = [
        "10.0.0.1:1",
        "127.0.0.1:1",
        "[fd00::1]:1",
        "192.168.1.1:1",
        "100.64.0.1:1",
    ];
    let never = [
        "224.0.0.1:1",
        "255.255.255.255:1",
        "0.0.0.0:1",
        "8.8.8.8:0",
        "[fe80::1]:1",
    ];
    let mut strict = World::new();
    let mut allowing = World::with(Config {
        allow_private: true,
        ..Config::default()
    });
    for address in private {
        assert_eq!(strict.try_hello(address).unwrap_err(), Reason::Address);
        assert!(allowing.try_hello(address).is_ok());
    }
    for address in never {
        assert_eq!(strict.try_hello(address).unwrap_err(), Reason::Address);
        assert_eq!(allowing.try_hello(address).unwrap_err(), Reason::Address);
    }
    // A consent from the time when it was allowed mints nothing any more.
    let consent = allowing.hello("10.0.0.1:1").0;
    let keys = Keys::from_text(&allowing.relay.keys().to_text()).unwrap();
    allowing.relay = Relay::new(Config::default(), keys, &mut allowing.rng);
    let (_, proof) = allowing.hello(S);
    let voucher = allowing.voucher();
    let minted = allowing.mint_with(S, proof, Peer::Consent(consent), voucher);
    assert_eq!(minted, Ok(Err(Refusal::Address)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever arrives, from wherever: nothing is forwarded without a grant and no reply is longer
    /// than the request.
    #[test]
    fn nothing_is_forwarded_without_a_grant(datagrams in prop::collection::vec(
        (any::<u32>(), any::<u16>(), 0x20u8..0x29, prop::collection::vec(any::<u8>(), 0..400),
         prop::sample::select(vec![33usize, 45, 64, 70, 291, 0])), 1..50)) {
        let mut world = World::new();
        for (ip, port, kind, mut bytes, len) in datagrams {
            bytes.insert(0, kind);
            if len > 0 {
                bytes.resize(len, 0);
            }
            let from = SocketAddr::new(Ipv4Addr::from_bits(ip).into(), port);
            let action = world.handle(from, &bytes);
            let dropped = matches!(action, Action::Drop(_));
            prop_assert!(dropped, "{:?}", action);
        }
    }

    /// Mutations of a genuine conversation: only packets with the grant as it was minted, from
    /// where it was minted for, get through, and only to where it was minted for.
    #[test]
    fn altered_packets_dont_get_through(at: prop::sample::Index, change in 1u8..=255, port: u16) {
        let mut world = World::new();
        let grant = world.grants(S, R).there;
        let mut packet = [grant.as_bytes(), b"\x10 payload"].concat();
        let at = at.index(grant.as_bytes().len());
        packet[at] ^= change;
        let through = matches!(world.send_raw(S, &packet), Sent::To(_));
        prop_assert!(!through);
        let mut from = addr(S);
        from.set_port(port);
        let through = matches!(world.send(&from.to_string(), &grant), Sent::To(_));
        prop_assert_eq!(through, port == 1000);
    }
}
