//! Clients: grants and their renewal.

use super::*;

/// A client, its relay and its socket; the listener's consent is at hand.
struct Talk {
    client: RelayClient,
    relay: Relay,
    access: RelayAccess,
    home: Local,
    /// Everything that was sent.
    sent: Vec<(Time, Datagram)>,
}

impl Talk {
    fn new(seed: u64) -> Self {
        let (relay, access) = relay(seed);
        let home = local(0, "192.0.2.1:1");
        let mut client = RelayClient::new([seed as u8; 32], vec![home.clone()]);
        assert_eq!(client.add(Time::ZERO, std::slice::from_ref(&access)), 1);
        Self {
            client,
            relay,
            access,
            home,
            sent: Vec::new(),
        }
    }

    /// A consent of the listener's, given now.
    fn consent(&mut self, now: Time) -> Consent {
        let mut registrar = Registrar::new([9; 32]);
        let far = [local(5, "203.0.113.5:9")];
        registrar.want(now, self.access.relay, user(1), &locals(&far));
        let hello = registrar
            .poll(now, &locals(&far), &mut |_, _| true)
            .expect("a HELLO");
        let reply = answer(&mut self.relay, now, far[0].addr, &hello.data);
        let Some(RelayReply::Consent(reply)) = reply else {
            panic!("no consent: {reply:?}");
        };
        let from = (LocalId(5), self.access.relay.address);
        let (Fresh { consent, .. }, ..) = registrar.on_reply(now, from, &reply).expect("ours");
        consent
    }

    /// Runs until `end`; the relay answers if it is `up`.
    fn run(&mut self, end: Time, up: bool) {
        while let Some(at) = self.client.timeout().filter(|at| *at <= end) {
            let mut progress = false;
            while let Some(datagram) = self.client.poll(at) {
                progress = true;
                self.sent.push((at, datagram.clone()));
                if !up {
                    continue;
                }
                if let Some(reply) = answer(&mut self.relay, at, self.home.addr, &datagram.data) {
                    let from = (self.home.id, self.access.relay.address);
                    assert!(self.client.on_reply(at, from, &reply), "{reply:?}");
                }
            }
            assert!(progress || self.client.timeout() != Some(at), "no progress");
        }
    }
}

#[test]
fn from_a_consent_to_grants_and_their_renewal() {
    let mut talk = Talk::new(10);
    talk.run(Time::from_millis(1000), true);
    assert_eq!(talk.sent, [], "nothing before the listener consents");
    let asks = talk.client.take_asks();
    assert_eq!((asks.len(), asks[0].slot, asks[0].seq), (1, 0, 0));
    let mut now = Time::from_millis(1000);
    for round in 0..5 {
        let consent = talk.consent(now);
        talk.client.on_consent(now, 0, 0, consent);
        talk.run(now, true);
        let news = talk.client.take_news();
        let route = match news[..] {
            [News::Granted(route)] if round == 0 => route,
            [News::Renewed(route)] if round > 0 => route,
            _ => panic!("{news:?}"),
        };
        let grants = *talk.client.grants(now, route).expect("valid");
        assert_eq!(grants.there.destination(), consent.address);
        assert_eq!(grants.back.destination(), talk.home.addr);
        now += 60 * SECOND;
        assert!(talk.client.grants(now, route).is_some());
        assert!(talk.client.grants(now + 60 * SECOND, route).is_none());
        talk.run(now, true);
    }
    let kinds: Vec<_> = talk
        .sent
        .iter()
        .filter_map(|(_, d)| RelayType::of(&d.data))
        .collect();
    assert_eq!(kinds, [RelayType::Hello, RelayType::Mint].repeat(5));
    // A consent that was overtaken by a newer one changes nothing.
    let old = Consent {
        issued: 0,
        ..talk.consent(now)
    };
    talk.client.on_consent(now, 0, 0, old);
    assert!(talk.client.poll(now).is_none());
}

#[test]
fn a_word_of_leaving_is_doubted_and_asked_about() {
    let mut talk = Talk::new(14);
    let mut now = Time::from_millis(1000);
    let consent = talk.consent(now);
    talk.client.on_consent(now, 0, 0, consent);
    talk.run(now, true);
    let [News::Granted(route)] = talk.client.take_news()[..] else {
        panic!("no grants");
    };
    talk.sent.clear();
    now += 10 * SECOND;
    let from = (talk.home.id, talk.access.relay.address);
    let leaving = |talk: &mut Talk, now, of: &Grant| {
        let stale = Stale {
            reason: StaleReason::Leaving,
            now: 0,
            mac: of.header().mac,
        };
        talk.client.on_reply(now, from, &RelayReply::Stale(stale))
    };
    let grants = *talk.client.grants(now, route).expect("valid");
    // Who hasn't seen our grant has nothing to say.
    assert!(!leaving(&mut talk, now, &grants.back));
    assert_eq!(talk.client.take_news(), []);

    // Forged: the relay answers, and for a while nobody is believed.
    assert!(leaving(&mut talk, now, &grants.there));
    assert_eq!(talk.client.take_news(), [News::Leaving(route)]);
    talk.run(now, true);
    let news = talk.client.take_news();
    assert_eq!(news, [News::Stays(route), News::Renewed(route)]);
    let grants = *talk.client.grants(now, route).expect("valid");
    talk.sent.clear();
    for _ in 0..4 {
        now += SECOND;
        assert!(leaving(&mut talk, now, &grants.there));
        talk.run(now, true);
    }
    assert_eq!((talk.client.take_news(), talk.sent.len()), (vec![], 0));

    // True: it is asked a few times and doesn't answer. Its grants hold to their end.
    now += SECOND;
    talk.relay.leave();
    assert!(leaving(&mut talk, now, &grants.there));
    assert!(leaving(&mut talk, now, &grants.there));
    talk.run(now + 10 * SECOND, true);
    let news = talk.client.take_news();
    assert_eq!(news, [News::Leaving(route), News::Left(route)]);
    assert!((2..=5).contains(&talk.sent.len()), "{:?}", talk.sent);
    assert!(talk.client.grants(now + 10 * SECOND, route).is_some());
}

#[test]
fn a_relay_that_never_answers_is_given_up_after_a_bounded_number_of_datagrams() {
    let mut talk = Talk::new(11);
    let consent = talk.consent(Time::ZERO);
    talk.client.on_consent(Time::ZERO, 0, 0, consent);
    let mut asked = 0;
    let mut now = Time::ZERO;
    while now < Time::from_millis(4 * 3_600_000) {
        talk.run(now, false);
        for ask in talk.client.take_asks() {
            asked += 1;
            // The listener goes on consenting.
            talk.client.on_consent(now, 0, ask.seq, consent);
        }
        now += SECOND;
    }
    let news = talk.client.take_news();
    assert!(matches!(news[..], [News::Gone(_)]), "{news:?}");
    assert!(talk.sent.len() <= 64, "{}", talk.sent.len());
    assert!((2..=40).contains(&asked), "{asked}");
    assert_eq!(talk.client.timeout(), None);
}

#[test]
fn a_listener_that_never_consents_is_asked_ever_more_rarely() {
    let mut talk = Talk::new(12);
    let mut times = Vec::new();
    let mut now = Time::ZERO;
    while now < Time::from_millis(7_200_000) {
        talk.run(now, true);
        let asks = talk.client.take_asks();
        times.extend(asks.iter().filter(|ask| ask.relay.is_some()).map(|_| now));
        now += SECOND;
    }
    assert_eq!(talk.sent, []);
    assert_eq!(times.len(), 9, "{times:?}");
    assert!(
        times
            .last()
            .is_some_and(|at| *at < Time::from_millis(1_200_000))
    );
    assert!(matches!(talk.client.take_news()[..], [News::Gone(_)]));
}

#[test]
fn a_voucher_that_is_refused_ends_it() {
    let mut talk = Talk::new(13);
    let (_, stranger) = relay(99);
    let mut wrong = talk.access.clone();
    wrong.access.seed = [8; 32];
    for access in [stranger.access, wrong.access] {
        let mut client = RelayClient::new([1; 32], vec![talk.home.clone()]);
        let mut info = talk.access.clone();
        info.access = access;
        client.add(Time::ZERO, &[info]);
        let consent = talk.consent(Time::ZERO);
        client.on_consent(Time::ZERO, 0, 0, consent);
        let from = (talk.home.id, talk.access.relay.address);
        while let Some(datagram) = client.poll(Time::ZERO) {
            let reply = answer(&mut talk.relay, Time::ZERO, talk.home.addr, &datagram.data);
            if let Some(reply) = reply {
                client.on_reply(Time::ZERO, from, &reply);
            }
        }
        let news = client.take_news();
        assert!(
            news.iter().all(|news| matches!(news, News::Gone(_))),
            "{news:?}"
        );
    }
}

#[test]
fn access_that_ends_is_told() {
    let mut talk = Talk::new(14);
    let consent = talk.consent(Time::ZERO);
    talk.client.on_consent(Time::ZERO, 0, 0, consent);
    talk.run(Time::ZERO, true);
    let [News::Granted(route)] = talk.client.take_news()[..] else {
        panic!("no grants");
    };
    let account = AccountTag::in_voucher(&talk.access.access.voucher.terms);
    talk.relay.set_revoked([account].into_iter().collect());
    talk.client.distrust(Time::ZERO + SECOND, route);
    talk.run(Time::ZERO + SECOND, true);
    let refused = News::Refused(talk.access.relay.address, Refusal::Revoked);
    assert_eq!(talk.client.take_news(), [refused, News::Gone(route)]);
}

/// What is given for two hours has to be renewed while a long transfer runs.
#[test]
fn a_relay_that_is_offered_again_is_minted_for_with_the_newer_voucher() {
    let mut talk = Talk::new(19);
    let (_, stranger) = relay(98);
    let good = talk.access.clone();
    let bad = RelayAccess {
        access: stranger.access,
        ..good.clone()
    };
    assert_eq!(talk.client.add(Time::ZERO, &[bad]), 0);
    assert_eq!(talk.client.add(Time::ZERO, &[good]), 0);
    let consent = talk.consent(Time::ZERO);
    talk.client.on_consent(Time::ZERO, 0, 0, consent);
    talk.run(Time::ZERO, true);
    assert!(matches!(talk.client.take_news()[..], [News::Granted(_)]));
    // The same address with another key is another relay, and isn't taken for this one.
    let mut other = talk.access.clone();
    other.relay.id = RelayId([1; 32]);
    assert_eq!(talk.client.add(Time::ZERO, &[other]), 0);
    let known: Vec<_> = talk.client.relays().map(|(relay, ..)| relay).collect();
    assert_eq!(known, [talk.access.relay]);
}

#[test]
fn at_most_256_relays_and_each_once() {
    let mut client = RelayClient::new([1; 32], vec![local(0, "192.0.2.1:1")]);
    let (_, access) = relay(14);
    let info = |n| RelayAccess {
        relay: relay_at(n),
        ..access.clone()
    };
    let many: Vec<_> = (0..300).map(info).collect();
    assert_eq!(client.add(Time::ZERO, &many), 256);
    assert_eq!(client.add(Time::ZERO, &many[..10]), 0);
    assert_eq!(client.relays().count(), 256);
}

/// What may happen to a client, in any order.
#[derive(Clone, Debug)]
enum Step {
    Wait(u16),
    Consent { slot: u16, seq: u64, age: u32 },
    Answer(bool),
    Distrust(u64),
    Remove(u64),
    AddLocal(u32),
    RemoveLocal(u32),
    Add(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<u16>().prop_map(Step::Wait),
        (0u16..4, 0u64..6, 0u32..200).prop_map(|(slot, seq, age)| Step::Consent { slot, seq, age }),
        any::<bool>().prop_map(Step::Answer),
        (0u64..8).prop_map(Step::Distrust),
        (0u64..8).prop_map(Step::Remove),
        (0u32..3).prop_map(Step::AddLocal),
        (0u32..3).prop_map(Step::RemoveLocal),
        (0u32..4).prop_map(Step::Add),
    ]
}

proptest! {
    /// Whatever happens: no panic, a bounded rate, grants only from the relay, and never a timer
    /// that can't be met.
    #[test]
    fn any_order_of_events_is_safe(steps in prop::collection::vec(step(), 1..60)) {
        let mut talk = Talk::new(15);
        let mut now = Time::ZERO;
        let mut pending: Vec<(Time, Datagram)> = Vec::new();
        for step in steps {
            match step {
                Step::Wait(ms) => now += Duration::from_millis(ms.into()),
                Step::Consent { slot, seq, age } => {
                    let mut consent = talk.consent(now);
                    consent.issued = consent.issued.saturating_sub(age);
                    talk.client.on_consent(now, slot, seq, consent);
                }
                Step::Answer(genuine) => {
                    for (_, datagram) in pending.drain(..) {
                        let from = if genuine { talk.home.addr } else { addr("203.0.113.77:1") };
                        if let Some(reply) = answer(&mut talk.relay, now, from, &datagram.data) {
                            talk.client.on_reply(now, (datagram.local, datagram.remote), &reply);
                        }
                    }
                }
                Step::Distrust(route) => talk.client.distrust(now, RelayRoute(route)),
                Step::Remove(route) => talk.client.remove(RelayRoute(route)),
                Step::AddLocal(id) => talk.client.add_local(now, &local(id, "192.0.2.1:1")),
                Step::RemoveLocal(id) => talk.client.remove_local(LocalId(id)),
                Step::Add(n) => {
                    let relay = RelayAccess { relay: relay_at(n), ..talk.access.clone() };
                    talk.client.add(now, &[relay]);
                }
            }
            let mut burst = 0;
            while let Some(datagram) = talk.client.poll(now) {
                burst += 1;
                pending.push((now, datagram));
            }
            prop_assert!(burst <= BURST as u32);
            prop_assert!(talk.client.timeout().is_none_or(|at| at > now));
            for (relay, _, routes) in talk.client.relays() {
                for route in routes {
                    let (_, at) = talk.client.ends(route).expect("a route has ends");
                    prop_assert_eq!(at, relay.address);
                }
            }
            talk.client.take_asks();
            talk.client.take_news();
        }
    }
}

#[test]
fn a_named_listener_needs_no_consent_to_be_minted_for() {
    let mut talk = Talk::new(16);
    let name = manyway_wire::relay::ListenerName([3; 16]);
    let mut client = RelayClient::new([2; 32], vec![talk.home.clone()]);
    client.add_named(Time::ZERO, &talk.access, name);
    talk.client = client;
    // Nobody listens under the name yet.
    talk.run(Time::from_millis(1500), true);
    assert_eq!(talk.client.take_news(), []);
    let mut registrar = Registrar::new([6; 32]);
    let far = [local(5, "203.0.113.5:9")];
    registrar.want(
        Time::from_millis(1500),
        talk.access.relay,
        name.into(),
        &locals(&far),
    );
    for _ in 0..2 {
        for (at, datagram) in greetings(&mut registrar, &far, Time::from_millis(1500)) {
            let reply = answer(&mut talk.relay, at, far[0].addr, &datagram.data);
            if let Some(RelayReply::Consent(reply)) = reply {
                registrar.on_reply(at, (LocalId(5), talk.access.relay.address), &reply);
            }
        }
    }
    talk.run(Time::from_millis(10_000), true);
    let news = talk.client.take_news();
    assert!(matches!(news[..], [News::Granted(_)]), "{news:?}");
}
