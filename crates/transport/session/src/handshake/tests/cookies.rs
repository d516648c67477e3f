//! A listener under load.

use super::*;

/// Under load from the first INIT on.
fn busy(change: impl FnOnce(&mut ResponderConfig)) -> Responder {
    let mut config = ResponderConfig::new(secrets(), [2; 32]);
    config.load.unproven_burst = 0.0;
    config.load.unproven_rate = 0.0;
    change(&mut config);
    Responder::new(config)
}

fn ask(responder: &mut Responder, now: Time, remote: SocketAddr, init: &[u8]) -> Outcome {
    let ours = cid(responder.stats().accepted + 500);
    responder.on_init(now, remote, init, || params(ours))
}

fn cookie(responder: &mut Responder, now: Time, remote: SocketAddr, init: &[u8]) -> Bytes {
    match ask(responder, now, remote, init) {
        Outcome::Cookie { datagram } => datagram,
        other => panic!("no cookie but {other:?}"),
    }
}

/// The INIT with the cookie that the responder gave for this address.
fn proven(responder: &mut Responder, now: Time, remote: SocketAddr, of: &Initiator) -> Vec<u8> {
    let cookie = cookie(responder, now, remote, of.datagram());
    of.datagram_with(&of.on_cookie(&cookie).expect("a genuine cookie"))
}

fn host(number: u8) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, number], 5000))
}

#[test]
fn a_cookie_opens_the_door() {
    let (mut initiator, mut responder) = (initiator(7), busy(|_| {}));
    let first = cookie(&mut responder, Time::ZERO, REMOTE, initiator.datagram());
    assert!(first.len() * 16 < INIT_LEN, "{}", first.len());
    assert!(responder.is_empty(), "nothing is kept for a COOKIE");
    let init = proven(&mut responder, Time::ZERO, REMOTE, &initiator);
    assert_eq!(init.len(), INIT_LEN);
    let Outcome::Reply { datagram, .. } = ask(&mut responder, Time::ZERO, REMOTE, &init) else {
        panic!("no reply")
    };
    assert_eq!(responder.stats().cookies, 2);
    complete(&mut initiator, &mut responder, &datagram);
}

#[test]
fn a_cookie_is_good_for_its_address_only() {
    let (initiator, mut responder) = (initiator(7), busy(|_| {}));
    let init = proven(&mut responder, Time::ZERO, REMOTE, &initiator);
    let other_port = SocketAddr::new(REMOTE.ip(), REMOTE.port() + 1);
    for elsewhere in [other_port, host(9), "[2001:db8::1]:4000".parse().unwrap()] {
        cookie(&mut responder, Time::ZERO, elsewhere, &init);
    }
    // And for this INIT only: its code covers every byte.
    let mut spliced = super::initiator(8).datagram().to_vec();
    spliced[INIT_LEN - 16..].copy_from_slice(&init[INIT_LEN - 16..]);
    cookie(&mut responder, Time::ZERO, REMOTE, &spliced);
    assert!(responder.is_empty());
    for bit in INIT_LEN * 8 - 128..INIT_LEN * 8 {
        cookie(&mut responder, Time::ZERO, REMOTE, &flipped(&init, bit));
    }
    let outcome = ask(&mut responder, Time::ZERO, REMOTE, &init);
    assert!(matches!(outcome, Outcome::Reply { fresh: true, .. }));
}

#[test]
fn old_secrets_overlap_with_new_ones() {
    // Taken at any time, a cookie is good for a minute at least and two at most.
    for taken in [0, 59_999, 60_000, 61_000, 1_000_000] {
        for (later, good) in [(0, true), (59_999, true), (120_001, false)] {
            let (initiator, mut responder) = (initiator(7), busy(|_| {}));
            let (taken, now) = (Time::from_millis(taken), Time::from_millis(taken + later));
            let init = proven(&mut responder, taken, REMOTE, &initiator);
            // Others keep the secret changing.
            for step in 1..5 {
                let between = Time::from_nanos(
                    taken.as_nanos() + (now.as_nanos() - taken.as_nanos()) / 5 * step,
                );
                cookie(&mut responder, between, host(1), initiator.datagram());
            }
            let answered = matches!(
                ask(&mut responder, now, REMOTE, &init),
                Outcome::Reply { .. }
            );
            assert_eq!(answered, good, "{later} ms after {taken:?}");
        }
    }
}

#[test]
fn a_forged_cookie_is_left_alone() {
    let (initiator, mut responder) = (initiator(7), busy(|_| {}));
    let genuine = cookie(&mut responder, Time::ZERO, REMOTE, initiator.datagram());
    for bit in 0..genuine.len() * 8 {
        let error = initiator.on_cookie(&flipped(&genuine, bit)).unwrap_err();
        assert!(!error.is_fatal(), "bit {bit}: {error}");
    }
    // A holder of the ticket makes mac1 anew, but can't bind it to an INIT that he hasn't seen.
    let forged = authenticate(flipped(&genuine, 8 * 20));
    assert_eq!(
        initiator.on_cookie(&forged).unwrap_err(),
        HandshakeError::BadMac
    );
    // One for another attempt's INIT.
    let other = super::initiator(8);
    let for_other = cookie(&mut responder, Time::ZERO, REMOTE, other.datagram());
    assert_eq!(
        initiator.on_cookie(&for_other).unwrap_err(),
        HandshakeError::OtherAttempt
    );
    initiator.on_cookie(&genuine).expect("still waiting for it");
}

#[test]
fn who_brings_a_cookie_takes_the_place_of_who_does_not() {
    let mut responder = busy(|config| {
        config.max_half_open = 6;
        config.load.unproven_half_open = 4;
        config.load.unproven_burst = 100.0;
        config.load.per_host = 3;
    });
    for seed in 0..4 {
        let outcome = ask(
            &mut responder,
            Time::ZERO,
            host(1),
            initiator(seed).datagram(),
        );
        assert!(matches!(outcome, Outcome::Reply { .. }));
    }
    // No more of them without a cookie; and of those with one, three for each host.
    for seed in 10..20 {
        let init = proven(&mut responder, Time::ZERO, host(2), &initiator(seed));
        let outcome = ask(&mut responder, Time::ZERO, host(2), &init);
        if seed < 13 {
            assert!(
                matches!(outcome, Outcome::Reply { .. }),
                "{seed}: {outcome:?}"
            );
        } else {
            assert!(matches!(outcome, Outcome::Ignored(Ignored::TooMany)));
        }
        assert!(responder.len() <= 6 && responder.is_consistent());
    }
    assert_eq!(responder.stats().evicted, 1);
    // When all have one, there is no room.
    for seed in 30..34 {
        let init = proven(&mut responder, Time::ZERO, host(3), &initiator(seed));
        let outcome = ask(&mut responder, Time::ZERO, host(3), &init);
        let full = matches!(
            outcome,
            Outcome::Ignored(Ignored::Full { .. } | Ignored::TooMany)
        );
        assert_eq!(full, seed >= 33, "{seed}: {outcome:?}");
    }
    // Whatever host it comes from.
    let init = proven(&mut responder, Time::ZERO, host(4), &initiator(40));
    let outcome = ask(&mut responder, Time::ZERO, host(4), &init);
    let full = matches!(outcome, Outcome::Ignored(Ignored::Full { .. }));
    assert!(full, "{outcome:?}");
    assert_eq!((responder.len(), responder.stats().evicted), (6, 4));
    responder.expire(Time::ZERO + LIFETIME);
    assert!(responder.is_empty() && responder.is_consistent());
    // Everything has been given back.
    let now = Time::ZERO + LIFETIME;
    let outcome = ask(&mut responder, now, host(2), initiator(50).datagram());
    assert!(matches!(outcome, Outcome::Reply { .. }));
}

#[test]
fn handshakes_with_a_cookie_have_a_rate_too() {
    let mut responder = busy(|config| {
        config.max_half_open = 1_000;
        config.load.proven_rate = 10.0;
    });
    let mut begun = 0;
    for step in 0..60u64 {
        let now = Time::from_millis(step * 33);
        let remote = host(step as u8);
        let init = proven(&mut responder, now, remote, &initiator(step as u8));
        let outcome = ask(&mut responder, now, remote, &init);
        begun += u32::from(matches!(outcome, Outcome::Reply { .. }));
    }
    // 10 at once and 10 per second, for two seconds.
    assert!((28..=31).contains(&begun), "{begun}");
}

/// An IPv6 host has 2⁶⁴ addresses: they count as one.
#[test]
fn hosts_are_what_one_owner_has() {
    let host = |text: &str| super::cookie::host(text.parse().unwrap());
    assert_eq!(host("[2001:db8::1]:1"), host("[2001:db8::ffff:2]:9"));
    assert_ne!(host("[2001:db8::1]:1"), host("[2001:db8:0:1::1]:1"));
    assert_eq!(host("[::ffff:192.0.2.1]:1"), host("192.0.2.1:2"));
    assert_ne!(host("192.0.2.1:1"), host("192.0.2.2:1"));
}

/// A COOKIE can't get back through a relay, so a listener under load takes some INITs of each of
/// its relays without.
#[test]
fn a_flood_shuts_nobody_out_who_comes_through_a_relay_of_the_listeners() {
    let relays = [host(100), host(101)];
    let mut responder = busy(|_| {});
    for relay in relays {
        responder.expect_through(relay);
    }
    for number in 0..50 {
        cookie(
            &mut responder,
            Time::ZERO,
            host(number),
            initiator(7).datagram(),
        );
    }
    let mut initiator_there = initiator(8);
    let outcome = ask(
        &mut responder,
        Time::ZERO,
        relays[0],
        initiator_there.datagram(),
    );
    let Outcome::Reply { datagram, .. } = outcome else {
        panic!("no reply but {outcome:?}")
    };
    complete(&mut initiator_there, &mut responder, &datagram);
    // A flood through a relay, or in its name, uses up that relay's share, and nobody else's.
    let mut begun = 0;
    for seed in 20..120 {
        let outcome = ask(
            &mut responder,
            Time::ZERO,
            relays[0],
            initiator(seed).datagram(),
        );
        begun += usize::from(matches!(outcome, Outcome::Reply { .. }));
    }
    assert_eq!(begun, 7, "the burst is 8");
    let other = ask(
        &mut responder,
        Time::ZERO,
        relays[1],
        initiator(9).datagram(),
    );
    assert!(matches!(other, Outcome::Reply { .. }), "{other:?}");
    // In the long run four a second begin, and sixteen are half-open.
    let mut begun = 0;
    for turn in 0..40u8 {
        let now = Time::from_millis(100 * u64::from(turn));
        let outcome = ask(
            &mut responder,
            now,
            relays[0],
            initiator(130 + turn).datagram(),
        );
        begun += usize::from(matches!(outcome, Outcome::Reply { .. }));
    }
    assert_eq!(begun, 9, "sixteen less the seven from before");
    // They make no room: whoever has a cookie goes first.
    assert_eq!(responder.stats().evicted, 0);
    // When they are over, others may come.
    let later = Time::from_millis(60_000);
    let outcome = ask(&mut responder, later, relays[0], initiator(10).datagram());
    assert!(matches!(outcome, Outcome::Reply { .. }), "{outcome:?}");
    assert_eq!(responder.len(), 1);
}

/// A cookie is masked with a stream that depends on the INIT and on the nonce: with one nonce, two
/// answers to one INIT would tell how two secrets differ.
#[test]
fn no_nonce_of_a_cookie_comes_twice() {
    let mut rng = rng(1);
    let nonces: std::collections::BTreeSet<_> = (0..100)
        .map(|_| super::super::cookie::nonce(&mut rng))
        .collect();
    assert_eq!(nonces.len(), 100);
}
