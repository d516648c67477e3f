//! What clients may cost: connections, signature checks, rates and memory.

use super::*;
use crate::common::Sent;

#[test]
fn connections_are_bounded_by_source_account_and_altogether() {
    let limits = StreamLimits {
        connections: 40,
        new: 10,
        new_per_source: 5,
        per_source: 12,
        per_account: 3,
        listeners: 4,
        listeners_per_source: 2,
        ringing: 2,
        ..StreamLimits::default()
    };
    let mut tcp = Tcp::with(Config::default(), limits);
    let from = |host: u8, port: u16| SocketAddr::from(([198, 51, 100, host], port));
    // Of one source.
    for port in 1..=5 {
        assert!(tcp.gate.open(from(1, port)).is_some());
    }
    assert!(tcp.gate.open(from(1, 6)).is_none());
    assert_eq!(tcp.gate.counters().ended_by(Ending::Source), 1);
    // Of all: those that have said nothing make way for others, the oldest first.
    for port in 1..=5 {
        let (_, evicted) = tcp.gate.open(from(2, port)).unwrap();
        assert_eq!(evicted, None);
    }
    let (id, evicted) = tcp.gate.open(from(3, 1)).unwrap();
    let evicted = evicted.expect("the oldest");
    assert!(evicted < id);
    tcp.gate.closed(evicted);
    assert!(
        tcp.gate.open(from(1, 7)).is_some(),
        "its place is free again"
    );
    // Listeners.
    let relay = tcp.id();
    let mut listened = 0;
    for host in 10..20 {
        for key in 0..3 {
            let (id, evicted) = tcp.gate.open(from(host, key + 1)).unwrap();
            if let Some(evicted) = evicted {
                tcp.gate.closed(evicted);
            }
            let key = ListenKey([host.wrapping_mul(3) + key as u8; 16]);
            match tcp.say(id, StreamRequest::Listen(StreamListen { relay, key })) {
                Step::Listening(None) => listened += 1,
                other => {
                    assert_eq!(other, Step::Refuse(StreamRefusal::Busy));
                    tcp.gate.closed(id);
                }
            }
        }
    }
    assert_eq!(listened, 4);
    assert_eq!(tcp.gate.counters().listening, 4);
    // Calls that one listener hasn't answered, and streams of an account.
    let key = ListenKey([30; 16]);
    let voucher = tcp.voucher();
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let step = tcp.connect_with("198.51.100.99:1", Peer::Name(name_of(&key)), voucher);
        tokens.push(token(step));
    }
    let step = tcp.connect_with("198.51.100.99:1", Peer::Name(name_of(&key)), voucher);
    assert_eq!(step, Step::Refuse(StreamRefusal::Busy));
    assert!(matches!(
        tcp.answer("198.51.100.10:9", tokens[0]),
        Step::Splice(..)
    ));
    let step = tcp.connect_with("198.51.100.98:1", Peer::Name(name_of(&key)), voucher);
    token(step);
    let step = tcp.connect_with("198.51.100.98:1", Peer::Name(name_of(&key)), voucher);
    assert_eq!(step, Step::Refuse(StreamRefusal::Account));
    // Altogether.
    let mut opened = 0;
    for host in 100..200 {
        opened += usize::from(tcp.gate.open(from(host, 1)).is_some());
    }
    assert_eq!(opened, 100, "in place of those that have said nothing");
    assert!(tcp.gate.counters().connections <= 40);
}

/// A source's listeners are bounded, and each that goes makes room for another.
#[test]
fn a_source_has_so_many_listeners_at_a_time() {
    let limits = StreamLimits {
        listeners_per_source: 2,
        ..StreamLimits::default()
    };
    let mut tcp = Tcp::with(Config::default(), limits);
    let relay = tcp.id();
    let listen = |tcp: &mut Tcp, key: u8| {
        let id = tcp.open(R);
        let key = ListenKey([key; 16]);
        let step = tcp.say(id, StreamRequest::Listen(StreamListen { relay, key }));
        (step == Step::Listening(None)).then_some(id)
    };
    let first = listen(&mut tcp, 1).expect("room");
    listen(&mut tcp, 2).expect("room");
    assert_eq!(listen(&mut tcp, 3), None);
    tcp.gate.closed(first);
    let third = listen(&mut tcp, 3).expect("room");
    assert_eq!(listen(&mut tcp, 4), None);
    tcp.gate.closed(third);
    listen(&mut tcp, 4).expect("room");
}

#[test]
fn a_flood_of_connects_costs_a_bounded_number_of_signature_checks() {
    let mut tcp = Tcp::new();
    tcp.listener(R);
    let peer = Peer::Name(name_of(&KEY));
    // From one source.
    let forged = Voucher {
        signature: [0; 64],
        ..tcp.voucher()
    };
    let mut checked = 0;
    for _ in 0..1000 {
        let (id, challenge) = tcp.caller(S);
        let message = tcp.signed(peer, forged, &challenge);
        checked += usize::from(tcp.say_bytes(id, &message) == Step::Refuse(StreamRefusal::Voucher));
        tcp.gate.closed(id);
    }
    assert!(checked <= 41, "{checked}");
    // From many.
    let mut checked = 0;
    for host in 0..3000u32 {
        let from = SocketAddr::from(((0x2000_0000 + host).to_be_bytes(), 9)).to_string();
        let (id, challenge) = tcp.caller(&from);
        let message = tcp.signed(peer, forged, &challenge);
        checked += usize::from(tcp.say_bytes(id, &message) == Step::Refuse(StreamRefusal::Voucher));
        tcp.gate.closed(id);
    }
    assert!(checked <= 1001, "{checked}");
}

#[test]
fn a_listener_that_floods_with_pings_is_closed() {
    let mut tcp = Tcp::new();
    let listener = tcp.listener(R);
    for _ in 0..100 {
        assert_eq!(
            tcp.say(listener, StreamRequest::Ping),
            Step::Reply(StreamReply::Ping)
        );
        tcp.now += Duration::from_secs(1);
    }
    let closed = (0..10).any(|_| tcp.say(listener, StreamRequest::Ping) == Step::Close);
    assert!(closed);
    assert_eq!(tcp.connect(S), Step::Refuse(StreamRefusal::UnknownName));
}

#[test]
fn a_relay_that_is_leaving_promises_nothing_new() {
    let mut tcp = Tcp::new();
    let listener = tcp.listener(R);
    let pending = token(tcp.connect(S));
    assert_eq!(tcp.gate.leave(), [listener]);
    assert_eq!(tcp.connect(S), Step::Refuse(StreamRefusal::Leaving));
    let id = tcp.open(V);
    let request = tcp.listen_request();
    assert_eq!(tcp.say(id, request), Step::Refuse(StreamRefusal::Leaving));
    // What was promised holds.
    assert!(matches!(tcp.answer(R, pending), Step::Splice(..)));
}

/// TCP and UDP together.
#[test]
fn an_account_gets_its_rate_over_both() {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let mut world = World::new();
    let class = RateClass::new(3).unwrap();
    let voucher = world.voucher_of([1; 8], class);
    let grant = world.grants_with(S, R, voucher).there;
    let rates = world.relay.rates();
    let config = Config::default();
    let keys = Keys::from_text(&world.relay.keys().to_text()).unwrap();
    let mut tcp = Tcp::new();
    tcp.gate = Gate::new(
        config,
        StreamLimits::default(),
        keys,
        Arc::clone(&rates),
        &mut rng,
    );
    tcp.listener(R);
    let call = token(tcp.connect_with(S, Peer::Name(name_of(&KEY)), voucher));
    let Step::Splice(_, terms) = tcp.answer(R, call) else {
        panic!("no stream")
    };
    assert_eq!(terms.class, class);
    // 8 Mbit/s: a second's worth goes by TCP, and then nothing by UDP for nearly as long.
    rates.charge(terms.account, class, world.now, 1_000_000);
    assert!(rates.delay(terms.account, class, world.now) > Duration::from_millis(800));
    let sent = world.send(S, &grant);
    assert_eq!(sent, Sent::Dropped(manyway_relay::Reason::AccountRate));
    world.later(1.0);
    assert_eq!(world.send(S, &grant), Sent::To(addr(R)));
}

/// Nothing is kept of connections that are closed.
#[test]
fn memory_ends_with_the_connection() {
    let mut tcp = Tcp::new();
    for round in 0..50 {
        tcp.now += Duration::from_secs(5);
        let listener = tcp.listener(R);
        let (caller, challenge) = tcp.caller(S);
        let message = tcp.signed(Peer::Name(name_of(&KEY)), tcp.voucher(), &challenge);
        let token = token(tcp.say_bytes(caller, &message));
        let answered = tcp.open(R);
        let relay = tcp.id();
        if round % 2 == 0 {
            tcp.say(
                answered,
                StreamRequest::Answer(StreamAnswer { relay, token }),
            );
        }
        for id in [listener, caller, answered] {
            tcp.gate.closed(id);
        }
        let counters = tcp.gate.counters();
        let left = (counters.connections, counters.listening, counters.streams);
        assert_eq!(left, (0, 0, 0));
    }
    let text = format!("{:?}", tcp.gate);
    assert!(text.contains("connections: 0"), "{text}");
    assert!(!text.contains("4, 4, 4"), "{text}");
}

/// With as few connections as a process with 1024 files can have, two sources take all that they
/// can: connections that say nothing, HELLOs, and listeners. A third one gets a stream.
#[test]
fn two_sources_dont_shut_out_a_third() {
    let limits = StreamLimits::default().within(320);
    let mut tcp = Tcp::with(Config::default(), limits);
    let relay = tcp.id();
    let mut key = 0u128;
    let mut crowd = |tcp: &mut Tcp| {
        for host in [1, 2] {
            for port in 1..=1000 {
                tcp.now += Duration::from_millis(60);
                let Some((id, _)) = tcp.gate.open(SocketAddr::from(([192, 0, 2, host], port)))
                else {
                    continue;
                };
                key += 1;
                let listen = StreamListen {
                    relay,
                    key: ListenKey(key.to_be_bytes()),
                };
                match port % 3 {
                    0 => tcp.say(id, StreamRequest::Listen(listen)),
                    1 => tcp.say(id, StreamRequest::Hello(relay)),
                    _ => continue,
                };
            }
        }
    };
    crowd(&mut tcp);
    tcp.listener(R);
    crowd(&mut tcp);
    let (caller, challenge) = tcp.caller(S);
    crowd(&mut tcp);
    let message = tcp.signed(Peer::Name(name_of(&KEY)), tcp.voucher(), &challenge);
    let token = token(tcp.say_bytes(caller, &message));
    crowd(&mut tcp);
    assert!(matches!(tcp.answer(R, token), Step::Splice(..)));
}

/// However many sources push: as long as one of them has more connections that say nothing than an
/// honest client has, the client isn't the one to go.
#[test]
fn a_crowded_source_makes_way_first() {
    let limits = StreamLimits {
        connections: 30,
        new: 20,
        new_per_source: 4,
        ..StreamLimits::default()
    };
    let mut tcp = Tcp::with(Config::default(), limits);
    let honest = tcp.open(S);
    for round in 0..50 {
        for host in 0..6 {
            let from = SocketAddr::from(([192, 0, 2, host], 1 + round));
            if let Some((_, evicted)) = tcp.gate.open(from) {
                assert_ne!(evicted, Some(honest));
            }
        }
        let counters = tcp.gate.counters();
        assert!(counters.connections <= 20, "{}", counters.connections);
    }
    // Nor are newcomers refused as long as there is one that says nothing.
    let mut tcp = Tcp::with(
        Config::default(),
        StreamLimits {
            connections: 3,
            ..StreamLimits::default()
        },
    );
    let silent = tcp.open(V);
    tcp.listener(R);
    tcp.open(S);
    let (newcomer, evicted) = tcp.gate.open(addr("198.51.100.9:1")).unwrap();
    assert_eq!(evicted, Some(silent), "the oldest");
    assert_eq!(tcp.gate.counters().connections, 3);
    let key = ListenKey([9; 16]);
    let relay = tcp.id();
    tcp.say(newcomer, StreamRequest::Listen(StreamListen { relay, key }));
    let (last, evicted) = tcp.gate.open(addr("198.51.100.8:1")).unwrap();
    assert!(evicted.is_some());
    let key = ListenKey([8; 16]);
    tcp.say(last, StreamRequest::Listen(StreamListen { relay, key }));
    assert_eq!(tcp.gate.counters().ended_by(Ending::Full), 0);
    assert_eq!(tcp.gate.open(addr("198.51.100.7:1")), None, "all listen");
    assert_eq!(tcp.gate.counters().ended_by(Ending::Full), 1);
}

#[test]
fn limits_fit_into_the_connections_that_there_are() {
    let of = |connections| {
        let limits = StreamLimits::default().within(connections);
        let new = (limits.new, limits.new_per_source);
        let listeners = (limits.listeners, limits.listeners_per_source);
        (limits.connections, limits.per_source, new, listeners)
    };
    assert_eq!(of(320), (320, 80, (40, 10), (80, 20)));
    assert_eq!(of(2), (2, 1, (1, 1), (1, 1)));
    assert_eq!(of(4096), (4096, 256, (512, 32), (1024, 64)));
    assert_eq!(of(9999), of(4096));
}
