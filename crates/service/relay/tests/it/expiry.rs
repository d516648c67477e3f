//! Everything that a relay issues or accepts is valid until just before its end.

use std::time::Duration;

use crate::common::{R, S, START, Sent, World, addr};
use manyway_relay::keys::public_key;
use manyway_wire::relay::{ListenerName, Peer, RateClass, Refusal};

const NS: Duration = Duration::from_nanos(1);
const SECOND: Duration = Duration::from_secs(1);

fn after(seconds: u64) -> Duration {
    START + Duration::from_secs(seconds)
}

/// A receiver's consent, in the second in which it is 60 s old and in the next one.
#[test]
fn a_consent_ends_to_the_tick() {
    for (at, good) in [(after(61) - NS, true), (after(61), false)] {
        let mut world = World::new();
        let (consent, _) = world.hello(R);
        world.now = at;
        let (_, proof) = world.hello(S);
        let voucher = world.voucher();
        let minted = world.mint_with(S, proof, Peer::Consent(consent), voucher);
        let refusal = minted.unwrap().err();
        assert_eq!(refusal, (!good).then_some(Refusal::Consent), "{at:?}");
    }
}

/// A sender's proof, for a grant and for another proof.
#[test]
fn a_proof_ends_to_the_tick() {
    for (at, good) in [(after(61) - NS, true), (after(61), false)] {
        let mut world = World::new();
        let (_, proof) = world.hello(S);
        world.now = at;
        let (consent, _) = world.hello(R);
        let voucher = world.voucher();
        let minted = world.mint_with(S, proof, Peer::Consent(consent), voucher);
        assert_eq!(minted.is_ok(), good, "{at:?}");
        let listened = world.listen(S, ListenerName::NONE, proof);
        assert_eq!(listened.is_ok(), good, "{at:?}");
    }
}

/// If the relay's clock was set back, neither is valid before it was issued.
#[test]
fn nothing_is_good_before_it_was_issued() {
    let mut world = World::new();
    let (consent, proof) = world.hello(S);
    for (at, good) in [(START, true), (START - NS, false)] {
        world.now = at;
        let listened = world.listen(S, ListenerName::NONE, proof);
        assert_eq!(listened.is_ok(), good);
        let (_, fresh) = world.hello(R);
        let voucher = world.voucher();
        let minted = world.mint_with(R, fresh, Peer::Consent(consent), voucher);
        assert_eq!(minted.unwrap().is_ok(), good);
    }
}

#[test]
fn a_listeners_name_ends_to_the_tick() {
    let name = ListenerName([9; 16]);
    for (at, good) in [(after(61) - NS, true), (after(61), false)] {
        let mut world = World::new();
        let (_, proof) = world.hello(R);
        world.listen(R, name, proof).unwrap();
        world.now = at;
        let (_, proof) = world.hello(S);
        let voucher = world.voucher();
        let minted = world.mint_with(S, proof, Peer::Name(name), voucher);
        let refusal = minted.unwrap().err();
        assert_eq!(refusal, (!good).then_some(Refusal::UnknownName), "{at:?}");
    }
}

/// Each direction 120 s after its destination's last word, however late it was minted.
#[test]
fn a_grant_ends_to_the_tick() {
    let mut world = World::new();
    let (consent, _) = world.hello(R);
    world.now = after(60);
    let (_, proof) = world.hello(S);
    let voucher = world.voucher();
    let minted = world.mint_with(S, proof, Peer::Consent(consent), voucher);
    let minted = minted.unwrap().unwrap();
    // One that ends later than one can was made before the clock was set back.
    world.now = after(60) - NS;
    assert!(matches!(world.send(R, &minted.back), Sent::Stale(_)));
    world.now = after(60);
    assert_eq!(world.send(R, &minted.back), Sent::To(addr(S)));
    for (from, to, grant, end) in [
        (S, R, &minted.there, after(120)),
        (R, S, &minted.back, after(180)),
    ] {
        world.now = end - NS;
        assert_eq!(world.send(from, grant), Sent::To(addr(to)));
        world.now = end;
        assert!(matches!(world.send(from, grant), Sent::Stale(_)), "{from}");
    }
}

/// An invitation's, and a registry's.
#[test]
fn a_voucher_ends_to_the_tick() {
    let mut world = World::new();
    let expires = START.as_secs() as u32 + 30;
    let client = public_key(&world.seed);
    let voucher = world
        .relay
        .keys()
        .vouch([1; 8], RateClass::MAX, expires, client);
    for (at, good) in [(after(30) - NS, true), (after(30), false)] {
        world.now = at;
        let (consent, _) = world.hello(R);
        let (_, proof) = world.hello(S);
        let minted = world.mint_with(S, proof, Peer::Consent(consent), voucher);
        let refusal = minted.unwrap().err();
        assert_eq!(refusal, (!good).then_some(Refusal::VoucherExpired));
    }
}

/// The keys that codes are made with: the last but one is forgotten when its last grant has ended.
#[test]
fn a_rotated_key_is_good_for_its_last_grant() {
    let mut world = World::new();
    world.now = after(200);
    let grant = world.grants(S, R).there;
    let mut keys = manyway_relay::Keys::from_text(&world.relay.keys().to_text()).unwrap();
    assert!(keys.rotate(world.now, &mut world.rng));
    world.relay.set_keys(keys);
    let mut keys = manyway_relay::Keys::from_text(&world.relay.keys().to_text()).unwrap();
    assert!(!keys.rotate(after(320) - NS, &mut world.rng));
    world.now = after(320) - NS;
    assert_eq!(world.send(S, &grant), Sent::To(addr(R)));
    assert!(keys.rotate(after(320), &mut world.rng));
    world.relay.set_keys(keys);
    world.now = after(320) - SECOND;
    assert!(!matches!(world.send(S, &grant), Sent::To(_)));
}
