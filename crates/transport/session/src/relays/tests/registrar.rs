//! Registrars: HELLOs and consents.

use super::*;

#[test]
fn a_silent_relay_hears_a_few_hellos_from_each_address_and_then_none() {
    let list = [
        local(0, "192.0.2.1:1"),
        local(1, "192.0.2.2:1"),
        local(2, "[2001:db8::1]:1"),
    ];
    let mut registrar = Registrar::new([1; 32]);
    registrar.want(Time::ZERO, relay_at(1), user(1), &locals(&list));
    let sent = greetings(&mut registrar, &list, Time::from_secs_f64(100_000.0));
    assert_eq!(sent.len(), 12);
    let from = |id| sent.iter().filter(|(_, d)| d.local == LocalId(id)).count();
    assert_eq!((from(0), from(1), from(2)), (6, 6, 0));
    assert!(
        sent.windows(2)
            .all(|pair| pair[1].0.since(pair[0].0) >= SECOND / 2)
    );
    // Asked for again, it gets some more.
    let now = Time::from_secs_f64(200_000.0);
    registrar.refresh(now, relay_at(1));
    assert!(!greetings(&mut registrar, &list, now + SECOND).is_empty());
}

#[test]
fn whoever_asks_how_often_a_relay_hears_one_hello_a_second() {
    let list = [local(0, "192.0.2.1:1")];
    let mut registrar = Registrar::new([2; 32]);
    let mut sent = 0;
    for ms in 0..10_000 {
        let now = Time::from_millis(ms);
        registrar.want(now, relay_at(1), user(ms % 7), &locals(&list));
        registrar.refresh(now, relay_at(1));
        registrar.refresh_at(now, relay_at(1).address);
        sent += greetings(&mut registrar, &list, now).len();
    }
    assert!((9..=12).contains(&sent), "{sent}");
}

#[test]
fn the_number_of_relays_and_their_pace_are_bounded() {
    let list = [local(0, "192.0.2.1:1")];
    let mut registrar = Registrar::new([3; 32]);
    for n in 0..5000 {
        registrar.want(Time::ZERO, relay_at(n), user(n.into()), &locals(&list));
    }
    let sent = greetings(&mut registrar, &list, Time::ZERO);
    assert_eq!(sent.len(), 16, "a burst");
    let more = greetings(&mut registrar, &list, Time::from_millis(1000));
    assert!(more.len() <= 250, "{}", more.len());
    let rest = greetings(&mut registrar, &list, Time::from_secs_f64(1e6));
    let all = sent.iter().chain(&more).chain(&rest);
    let relays: std::collections::BTreeSet<_> = all.map(|(_, d)| d.remote).collect();
    assert_eq!(relays.len(), 1024);
    (0..5000).for_each(|n| registrar.forget(user(n)));
    assert_eq!(registrar.timeout(), None);
}

#[test]
fn addresses_that_no_relay_has_are_not_greeted() {
    let list = [local(0, "192.0.2.1:1")];
    let mut registrar = Registrar::new([4; 32]);
    for at in [
        "127.0.0.1:443",
        "224.0.0.1:443",
        "255.255.255.255:443",
        "0.0.0.0:443",
        "198.51.100.1:0",
        "[2001:db8::1]:443",
    ] {
        let relay = RelayAddress {
            address: addr(at),
            id: RelayId([0; 32]),
        };
        registrar.want(Time::ZERO, relay, user(1), &locals(&list));
    }
    assert_eq!(registrar.timeout(), None);
}

#[test]
fn only_the_relay_that_was_asked_can_consent() {
    let list = [local(0, "192.0.2.1:1")];
    let (mut real, access) = relay(5);
    let mut registrar = Registrar::new([5; 32]);
    registrar.want(Time::ZERO, access.relay, user(1), &locals(&list));
    let sent = greetings(&mut registrar, &list, Time::ZERO);
    let from = list[0].addr;
    let Some(RelayReply::Consent(reply)) = answer(&mut real, Time::ZERO, from, &sent[0].1.data)
    else {
        panic!("no consent");
    };
    let mut forged = reply;
    forged.nonce.0[0] ^= 1;
    let at = (LocalId(0), access.relay.address);
    assert_eq!(registrar.on_reply(Time::ZERO, at, &forged), None);
    assert_eq!(
        registrar.on_reply(Time::ZERO, (LocalId(0), addr("203.0.113.9:443")), &reply),
        None
    );
    assert_eq!(
        registrar.on_reply(Time::ZERO, (LocalId(9), at.1), &reply),
        None
    );
    let (fresh, users, _) = registrar.on_reply(Time::ZERO, at, &reply).expect("genuine");
    assert_eq!(users, [user(1)]);
    assert_eq!(fresh.consent.address, from);
    assert_eq!(registrar.on_reply(Time::ZERO, at, &reply), None, "once");
    // From then on every 15 s.
    let sent = greetings(&mut registrar, &list, Time::from_millis(15_000));
    assert_eq!(sent.len(), 1);
}

#[test]
fn a_relay_of_the_listeners_own_hears_its_name_and_is_never_given_up() {
    let list = [local(0, "192.0.2.1:1")];
    let (mut real, access) = relay(6);
    let mut registrar = Registrar::new([6; 32]);
    let name = manyway_wire::relay::ListenerName([9; 16]);
    registrar.want(Time::ZERO, access.relay, name.into(), &locals(&list));
    let silent = greetings(&mut registrar, &list, Time::from_millis(3_600_000));
    assert!(silent.len() > 60, "{}", silent.len());
    let at = (LocalId(0), access.relay.address);
    let mut now = registrar.timeout().expect("goes on");
    let mut kinds = Vec::new();
    for _ in 0..6 {
        for (at_time, datagram) in greetings(&mut registrar, &list, now) {
            kinds.push(RelayType::of(&datagram.data));
            let reply = answer(&mut real, at_time, list[0].addr, &datagram.data);
            if let Some(RelayReply::Consent(reply)) = reply {
                registrar.on_reply(at_time, at, &reply);
            }
        }
        now = registrar.timeout().expect("goes on");
    }
    use RelayType::{Hello, Listen};
    // From the second time on, those for its name and those for a newer consent take turns.
    let expected = [Hello, Listen, Listen, Listen, Listen, Listen].map(Some);
    assert_eq!(kinds, expected);
}

#[test]
fn a_relay_of_a_listener_without_a_network_is_greeted_when_there_is_one() {
    let list = [local(0, "192.0.2.1:1")];
    let (mut real, access) = relay(6);
    let mut registrar = Registrar::new([6; 32]);
    let name = manyway_wire::relay::ListenerName([9; 16]);
    registrar.want(Time::ZERO, access.relay, name.into(), &locals(&[]));
    let other = RelayAddress {
        address: addr("[2001:db8::1]:443"),
        ..access.relay
    };
    registrar.want(Time::ZERO, other, name.into(), &locals(&[]));
    registrar.want(Time::ZERO, relay_at(7), user(1), &locals(&list));
    assert_eq!(greetings(&mut registrar, &[], Time::ZERO + SECOND).len(), 0);
    // One of the relay's addresses stands for it, and the peer's relay isn't the listener's.
    assert_eq!(registrar.silent(), [other.address]);
    let now = Time::ZERO + 60 * SECOND;
    registrar.on_locals(now, &locals(&list));
    let sent = greetings(&mut registrar, &list, now);
    let to = |(_, datagram): &&(Time, Datagram)| datagram.remote == access.relay.address;
    let (at, hello) = sent.iter().find(to).expect("a greeting");
    let reply = answer(&mut real, *at, list[0].addr, &hello.data);
    let Some(RelayReply::Consent(reply)) = reply else {
        panic!("{reply:?}");
    };
    let from = (LocalId(0), access.relay.address);
    registrar.on_reply(now, from, &reply).expect("its answer");
    assert!(registrar.silent().is_empty());
}

/// A flood of spoofed HELLOs may use up a relay's answers to strangers for an hour.
#[test]
fn who_has_shown_its_address_goes_on_without_hello() {
    let list = [local(0, "192.0.2.1:1")];
    let (mut real, access) = relay(17);
    let mut registrar = Registrar::new([7; 32]);
    registrar.want(Time::ZERO, access.relay, user(1), &locals(&list));
    let at = (LocalId(0), access.relay.address);
    let mut answered = Vec::new();
    while let Some(now) = registrar
        .timeout()
        .filter(|at| *at < Time::from_millis(3_600_000))
    {
        for (now, datagram) in greetings(&mut registrar, &list, now) {
            if !answered.is_empty() && RelayType::of(&datagram.data) == Some(RelayType::Hello) {
                continue;
            }
            if let Some(RelayReply::Consent(reply)) =
                answer(&mut real, now, list[0].addr, &datagram.data)
            {
                assert!(registrar.on_reply(now, at, &reply).is_some());
                answered.push(now);
            }
        }
    }
    assert_eq!(answered.len(), 240, "every 15 s");
}

#[test]
fn a_registrar_whose_proof_does_not_hold_any_more_begins_anew() {
    let list = [local(0, "192.0.2.1:1")];
    let (mut real, access) = relay(18);
    let mut registrar = Registrar::new([8; 32]);
    registrar.want(Time::ZERO, access.relay, user(1), &locals(&list));
    let at = (LocalId(0), access.relay.address);
    let mut now = Time::ZERO;
    for (from, within) in [("192.0.2.1:1", 0), ("192.0.2.1:7777", 1)] {
        let started = registrar.timeout().expect("goes on");
        let consent = loop {
            now = registrar.timeout().expect("goes on");
            let sent = greetings(&mut registrar, &list, now);
            let reply = sent
                .iter()
                .find_map(|(at, d)| answer(&mut real, *at, addr(from), &d.data));
            if let Some(RelayReply::Consent(reply)) = reply {
                break registrar.on_reply(now, at, &reply).expect("ours").0.consent;
            }
        };
        assert_eq!(consent.address, addr(from), "its NAT has bound anew");
        assert!(now.since(started) <= within * SECOND, "{now:?}");
    }
    assert!(now > Time::from_millis(15_000));
}
