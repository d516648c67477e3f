//! What is attempted against a relay's TCP side, without sockets: `docs/relays.md`, "Threats over TCP".

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use common::{R, S, START, V, World, addr};
use manyway_relay::gate::{ConnectionId, Gate, Step, name_of};
use manyway_relay::keys::{public_key, sign};
use manyway_relay::{Action, Config, Ending, Keys, Rates, StreamLimits};
use manyway_wire::relay::{
    CallToken, Challenge, Hello, ListenKey, ListenerName, Nonce, Peer, RateClass, RelayId,
    StreamAnswer, StreamConnect, StreamListen, StreamRefusal, StreamReply, StreamRequest, Voucher,
    VoucherTerms,
};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

/// A gate and its clients.
struct Tcp {
    gate: Gate,
    keys: Keys,
    now: Duration,
    seed: [u8; 32],
    rng: ChaCha20Rng,
}

const KEY: ListenKey = ListenKey([4; 16]);

impl Tcp {
    fn new() -> Self {
        Self::with(Config::default(), StreamLimits::default())
    }

    fn with(config: Config, limits: StreamLimits) -> Self {
        // The keys of `World::new`, so that what its relay makes can be tried here.
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let keys = Keys::generate(START, &mut rng);
        let again = Keys::from_text(&keys.to_text()).unwrap();
        let rates = Arc::new(Rates::new(config.limit, || 5));
        Self {
            gate: Gate::new(config, limits, again, rates, &mut rng),
            keys,
            now: START,
            seed: [7; 32],
            rng,
        }
    }

    fn id(&self) -> RelayId {
        self.keys.id()
    }

    fn open(&mut self, from: &str) -> ConnectionId {
        let (id, evicted) = self.gate.open(addr(from)).expect("room");
        assert_eq!(evicted, None);
        id
    }

    fn say(&mut self, id: ConnectionId, request: StreamRequest) -> Step {
        self.say_bytes(id, &request.to_bytes())
    }

    fn say_bytes(&mut self, id: ConnectionId, message: &[u8]) -> Step {
        self.gate.receive(self.now, id, message, &mut self.rng)
    }

    fn listen_request(&self) -> StreamRequest {
        StreamRequest::Listen(StreamListen {
            relay: self.id(),
            key: KEY,
        })
    }

    fn listener(&mut self, from: &str) -> ConnectionId {
        let id = self.open(from);
        let request = self.listen_request();
        assert_eq!(self.say(id, request), Step::Listening(None));
        id
    }

    /// A connection that has said HELLO, and what it has to sign.
    fn caller(&mut self, from: &str) -> (ConnectionId, Challenge) {
        let id = self.open(from);
        match self.say(id, StreamRequest::Hello(self.id())) {
            Step::Reply(StreamReply::Welcome(challenge)) => (id, challenge),
            other => panic!("{other:?}"),
        }
    }

    fn voucher(&self) -> Voucher {
        self.voucher_of([1; 8])
    }

    fn voucher_of(&self, account: [u8; 8]) -> Voucher {
        let client = public_key(&self.seed);
        self.keys.vouch(account, RateClass::MAX, u32::MAX, client)
    }

    fn connect_with(&mut self, from: &str, peer: Peer, voucher: Voucher) -> Step {
        let (id, challenge) = self.caller(from);
        let message = self.signed(peer, voucher, &challenge);
        self.say_bytes(id, &message)
    }

    fn signed(&self, peer: Peer, voucher: Voucher, challenge: &Challenge) -> Vec<u8> {
        let connect = StreamConnect { peer, voucher };
        connect
            .seal(challenge, |bytes| sign(&self.seed, bytes))
            .to_vec()
    }

    fn connect(&mut self, from: &str) -> Step {
        let voucher = self.voucher();
        self.connect_with(from, Peer::Name(name_of(&KEY)), voucher)
    }

    fn answer(&mut self, from: &str, token: CallToken) -> Step {
        let id = self.open(from);
        let relay = self.id();
        self.say(id, StreamRequest::Answer(StreamAnswer { relay, token }))
    }
}

fn token(step: Step) -> CallToken {
    match step {
        Step::Call(_, StreamReply::Call(token)) => token,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_caller_with_access_gets_the_listener_it_names() {
    let mut tcp = Tcp::new();
    let listener = tcp.listener(R);
    let (caller, challenge) = tcp.caller(S);
    let message = tcp.signed(Peer::Name(name_of(&KEY)), tcp.voucher(), &challenge);
    let Step::Call(called, StreamReply::Call(token)) = tcp.say_bytes(caller, &message) else {
        panic!("no call")
    };
    assert_eq!(called, listener);
    match tcp.answer(R, token) {
        Step::Splice(with, terms) => {
            assert_eq!((with, terms.class), (caller, RateClass::MAX));
        }
        other => panic!("{other:?}"),
    }
    let counters = tcp.gate.counters();
    assert_eq!((counters.listening, counters.streams), (1, 1));
    assert_eq!((counters.calls, counters.spliced), (1, 1));
}

/// The relay connects to nobody: all that it does is to say something on a connection that a listener has opened, and to
/// join two that were opened to it.
#[test]
fn a_host_that_never_asked_gets_nothing() {
    let mut tcp = Tcp::new();
    tcp.listener(R);
    // Not by address, whatever the consent...
    let mut world = World::new();
    let (consent, _) = world.hello(V);
    let voucher = tcp.voucher();
    let step = tcp.connect_with(S, Peer::Consent(consent), voucher);
    assert_eq!(step, Step::Refuse(StreamRefusal::ForUdp));
    // ... and not by a name that nobody has.
    let step = tcp.connect_with(S, Peer::Name(ListenerName([9; 16])), voucher);
    assert_eq!(step, Step::Refuse(StreamRefusal::UnknownName));
    let step = tcp.connect_with(S, Peer::Name(ListenerName::NONE), voucher);
    assert_eq!(step, Step::Refuse(StreamRefusal::UnknownName));
    assert_eq!(tcp.gate.counters().calls, 0);
}

/// Consent is the listener's connection: with it ends everything.
#[test]
fn consent_ends_with_the_listeners_connection() {
    let mut tcp = Tcp::new();
    let listener = tcp.listener(R);
    tcp.gate.closed(listener);
    assert_eq!(tcp.connect(S), Step::Refuse(StreamRefusal::UnknownName));
    assert_eq!(tcp.gate.counters().listening, 0);
}

#[test]
fn what_is_for_udp_is_refused_with_a_clear_reason() {
    let mut tcp = Tcp::new();
    tcp.listener(R);
    let mut world = World::new();
    assert_eq!(world.relay.id(), tcp.id());
    let grant = world.grants(S, R).there;
    let (_, proof) = world.hello(S);
    let (consent, _) = world.hello(R);
    let mint = world.mint_datagram(proof, Peer::Consent(consent), world.voucher());
    let (nonce, relay) = (Nonce([1; 8]), tcp.id());
    let hello = Hello { nonce, relay }.to_bytes();
    for message in [grant.as_bytes(), &mint, &hello] {
        let id = tcp.open(S);
        let step = tcp.say_bytes(id, message);
        assert_eq!(step, Step::Refuse(StreamRefusal::ForUdp));
    }
    assert!(
        StreamRefusal::ForUdp
            .to_string()
            .contains("for the relay's UDP port")
    );
    // A consent of another relay's, or a forged one, is nothing else.
    let mut others = World::seeded(9, Config::default());
    let voucher = tcp.voucher();
    let step = tcp.connect_with(S, Peer::Consent(others.hello(R).0), voucher);
    assert_eq!(step, Step::Refuse(StreamRefusal::ForUdp));
    // A grant that this relay hasn't made tells that somebody guesses.
    let id = tcp.open(S);
    let step = tcp.say_bytes(id, others.grants(S, R).there.as_bytes());
    assert_eq!(step, Step::Close);
    assert_eq!(tcp.gate.counters().ended_by(Ending::Forged), 1);
}

#[test]
fn what_is_for_tcp_does_nothing_over_udp() {
    let tcp = Tcp::new();
    let mut world = World::new();
    let connect = tcp.signed(
        Peer::Name(name_of(&KEY)),
        tcp.voucher(),
        &Challenge([0; 16]),
    );
    let messages = [
        connect,
        tcp.listen_request().to_bytes(),
        StreamRequest::Hello(tcp.id()).to_bytes(),
    ];
    for message in messages {
        let action = world.handle(addr(S), &message);
        assert!(matches!(action, Action::Drop(_)), "{action:?}");
    }
    // A name over TCP is none over UDP.
    let (_, proof) = world.hello(S);
    let voucher = world.voucher();
    let minted = world.mint_with(S, proof, Peer::Name(name_of(&KEY)), voucher);
    minted.unwrap().unwrap_err();
}

#[test]
fn a_replayed_connect_is_refused() {
    let mut tcp = Tcp::new();
    tcp.listener(R);
    let (id, challenge) = tcp.caller(S);
    let message = tcp.signed(Peer::Name(name_of(&KEY)), tcp.voucher(), &challenge);
    token(tcp.say_bytes(id, &message));
    // On the same connection, on another of the same source, from elsewhere.
    assert_eq!(tcp.say_bytes(id, &message), Step::Close);
    for from in [S, V] {
        let (id, other) = tcp.caller(from);
        assert_ne!(other, challenge);
        let step = tcp.say_bytes(id, &message);
        assert_eq!(step, Step::Refuse(StreamRefusal::Voucher));
    }
    // And without a HELLO there is nothing to sign.
    let id = tcp.open(V);
    assert_eq!(tcp.say_bytes(id, &message), Step::Close);
}

#[test]
fn vouchers_that_are_not_good_here_connect_nothing() {
    let mut tcp = Tcp::new();
    tcp.listener(R);
    let peer = Peer::Name(name_of(&KEY));
    let client = public_key(&tcp.seed);
    let now = START.as_secs() as u32;
    let expired = tcp.keys.vouch([1; 8], RateClass::MAX, now, client);
    let stolen = tcp
        .keys
        .vouch([1; 8], RateClass::MAX, u32::MAX, public_key(&[9; 32]));
    let stranger = VoucherTerms {
        signer: public_key(&[3; 32]),
        ..tcp.voucher().terms
    }
    .seal(|bytes| sign(&[3; 32], bytes));
    let raised = Voucher {
        terms: VoucherTerms {
            expires: now + 1,
            ..tcp.voucher().terms
        },
        ..tcp.voucher()
    };
    for (voucher, reason) in [
        (expired, StreamRefusal::VoucherExpired),
        (stolen, StreamRefusal::Voucher),
        (stranger, StreamRefusal::Voucher),
        (raised, StreamRefusal::Voucher),
    ] {
        let step = tcp.connect_with(S, peer, voucher);
        assert_eq!(step, Step::Refuse(reason));
    }
    let elsewhere = Keys::generate(START, &mut ChaCha20Rng::seed_from_u64(77));
    let misdirected = elsewhere.vouch([1; 8], RateClass::MAX, u32::MAX, client);
    assert_eq!(tcp.connect_with(S, peer, misdirected), Step::Close);
    assert_eq!(tcp.gate.counters().calls, 0);
    // One that a trusted registry has signed is good.
    let registry = VoucherTerms {
        signer: public_key(&[3; 32]),
        ..tcp.voucher().terms
    }
    .seal(|bytes| sign(&[3; 32], bytes));
    let trusted = vec![public_key(&[3; 32])];
    let config = Config {
        trusted,
        ..Config::default()
    };
    let mut tcp = Tcp::with(config, StreamLimits::default());
    tcp.listener(R);
    token(tcp.connect_with(S, peer, registry));
}

#[test]
fn every_bit_of_a_connect_counts() {
    let mut tcp = Tcp::new();
    tcp.listener(R);
    let whole = StreamConnect::LEN;
    for byte in (0..whole).step_by(7) {
        tcp.now += Duration::from_secs(1);
        let (id, challenge) = tcp.caller(S);
        let mut message = tcp.signed(Peer::Name(name_of(&KEY)), tcp.voucher(), &challenge);
        message[byte] ^= 0x04;
        let step = tcp.say_bytes(id, &message);
        assert!(
            matches!(step, Step::Refuse(_) | Step::Close),
            "byte {byte}: {step:?}"
        );
        tcp.gate.closed(id);
    }
}

/// Who knows a listener's name can call it, and not take its place; who has its key can, and it is told.
#[test]
fn a_name_is_its_key_holders() {
    let mut tcp = Tcp::new();
    let first = tcp.listener(R);
    let thief = tcp.open(V);
    let key = ListenKey(name_of(&KEY).0);
    let relay = tcp.id();
    let step = tcp.say(thief, StreamRequest::Listen(StreamListen { relay, key }));
    assert_eq!(step, Step::Listening(None));
    assert!(matches!(tcp.connect(S), Step::Call(called, _) if called == first));
    let again = tcp.open(R);
    let request = tcp.listen_request();
    assert_eq!(tcp.say(again, request), Step::Listening(Some(first)));
    assert!(matches!(tcp.connect(S), Step::Call(called, _) if called == again));
    // The first one's end is not the second one's.
    tcp.gate.closed(first);
    assert!(matches!(tcp.connect(S), Step::Call(called, _) if called == again));
}

#[test]
fn a_call_is_answered_once_and_in_time_by_who_was_called() {
    let mut tcp = Tcp::new();
    tcp.listener(R);
    let first = token(tcp.connect(S));
    let guess = CallToken([0; 16]);
    let over = Step::Refuse(StreamRefusal::CallOver);
    assert_eq!(tcp.answer(V, guess), over);
    assert!(matches!(tcp.answer(R, first), Step::Splice(..)));
    assert_eq!(tcp.answer(V, first), over);
    let (caller, challenge) = tcp.caller(S);
    let message = tcp.signed(Peer::Name(name_of(&KEY)), tcp.voucher(), &challenge);
    let second = token(tcp.say_bytes(caller, &message));
    assert_eq!(tcp.gate.unanswered(caller), StreamRefusal::NoAnswer);
    assert_eq!(tcp.answer(R, second), over);
}

#[test]
fn strangers_who_dont_know_the_relay_get_no_answer() {
    let mut tcp = Tcp::new();
    let relay = RelayId([1; 32]);
    for request in [
        StreamRequest::Hello(relay),
        StreamRequest::Listen(StreamListen { relay, key: KEY }),
        StreamRequest::Answer(StreamAnswer {
            relay,
            token: CallToken([1; 16]),
        }),
        StreamRequest::Ping,
    ] {
        let id = tcp.open(S);
        assert_eq!(tcp.say(id, request), Step::Close);
    }
    let id = tcp.open(S);
    assert_eq!(tcp.say_bytes(id, b"G"), Step::Close, "GET / HTTP/1.1");
}

/// Whatever leaves a relay makes no relay do anything but close.
#[test]
fn loops_are_impossible() {
    let mut tcp = Tcp::new();
    for reply in [
        StreamReply::Welcome(Challenge([1; 16])),
        StreamReply::Call(CallToken([1; 16])),
        StreamReply::Ok,
        StreamReply::Refused(StreamRefusal::Busy),
        StreamReply::Ping,
        StreamReply::Leaving,
    ] {
        let id = tcp.open(S);
        assert_eq!(tcp.say_bytes(id, &reply.to_bytes()), Step::Close);
    }
    let own = "203.0.113.9:45170";
    let config = Config {
        own: vec![addr(own)],
        ..Config::default()
    };
    let mut tcp = Tcp::with(config, StreamLimits::default());
    assert!(tcp.gate.open(addr(own)).is_none());
}

#[test]
fn private_addresses_are_refused_unless_allowed() {
    let private = "192.168.1.1:9";
    let mut tcp = Tcp::new();
    for request in [StreamRequest::Hello(tcp.id()), tcp.listen_request()] {
        let id = tcp.open(private);
        let step = tcp.say(id, request);
        assert_eq!(step, Step::Refuse(StreamRefusal::Address));
    }
    let config = Config {
        allow_private: true,
        ..Config::default()
    };
    let mut tcp = Tcp::with(config, StreamLimits::default());
    tcp.listener(private);
    token(tcp.connect("10.0.0.1:7"));
}

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
    assert!(opened < 100);
    assert!(tcp.gate.counters().connections <= 40);
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
    assert_eq!(
        sent,
        common::Sent::Dropped(manyway_relay::Reason::AccountRate)
    );
    world.later(1.0);
    assert_eq!(world.send(S, &grant), common::Sent::To(addr(R)));
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
    assert!(!text.contains("4, 4, 4"), "{text}");
}

#[derive(Clone, Debug)]
enum Move {
    Open(u8),
    Hello(u8),
    Listen(u8, u8),
    Connect(u8, u8),
    Answer(u8, u8),
    Unanswered(u8),
    Close(u8),
    Raw(u8, Vec<u8>),
}

fn moves() -> impl Strategy<Value = Move> {
    let at = 0u8..12;
    prop_oneof![
        3 => (0u8..4).prop_map(Move::Open),
        2 => at.clone().prop_map(Move::Hello),
        2 => (at.clone(), 0u8..3).prop_map(|(a, b)| Move::Listen(a, b)),
        3 => (at.clone(), 0u8..3).prop_map(|(a, b)| Move::Connect(a, b)),
        3 => (at.clone(), 0u8..6).prop_map(|(a, b)| Move::Answer(a, b)),
        1 => at.clone().prop_map(Move::Unanswered),
        2 => at.clone().prop_map(Move::Close),
        1 => (at, prop::collection::vec(any::<u8>(), 1..80)).prop_map(|(a, b)| Move::Raw(a, b)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever clients do in whatever order: no panic, bounds hold, no stream without a voucher and a listener, and all
    /// is forgotten in the end.
    #[test]
    fn any_order_of_messages_is_safe(moves in prop::collection::vec(moves(), 1..120)) {
        let limits = StreamLimits {
            connections: 10, new: 4, new_per_source: 3, per_source: 8, per_account: 2,
            listeners: 2, listeners_per_source: 2, ringing: 1, ..StreamLimits::default()
        };
        let mut tcp = Tcp::with(Config::default(), limits);
        let mut open: Vec<(ConnectionId, Challenge)> = Vec::new();
        let mut tokens = Vec::new();
        let relay = tcp.id();
        let key = |n: u8| ListenKey([n; 16]);
        let (mut calls, mut splices) = (0, 0);
        for step in moves {
            tcp.now += Duration::from_millis(500);
            let pick = |at: u8| open.get(at as usize % open.len().max(1)).copied();
            let step = match step {
                Move::Open(host) => {
                    let from = SocketAddr::from(([203, 0, 113, host], 7));
                    if let Some((id, evicted)) = tcp.gate.open(from) {
                        open.push((id, Challenge([0; 16])));
                        if let Some(evicted) = evicted {
                            tcp.gate.closed(evicted);
                            open.retain(|(id, _)| *id != evicted);
                        }
                    }
                    continue;
                }
                Move::Close(at) => {
                    if let Some((id, _)) = pick(at) {
                        tcp.gate.closed(id);
                        open.retain(|(other, _)| *other != id);
                    }
                    continue;
                }
                Move::Unanswered(at) => {
                    if let Some((id, _)) = pick(at) {
                        tcp.gate.unanswered(id);
                    }
                    continue;
                }
                Move::Hello(at) => pick(at).map(|(id, _)| (id, StreamRequest::Hello(relay).to_bytes())),
                Move::Listen(at, n) => pick(at).map(|(id, _)| {
                    (id, StreamRequest::Listen(StreamListen { relay, key: key(n) }).to_bytes())
                }),
                Move::Connect(at, n) => pick(at).map(|(id, challenge)| {
                    (id, tcp.signed(Peer::Name(name_of(&key(n))), tcp.voucher(), &challenge))
                }),
                Move::Answer(at, n) => pick(at).and_then(|(id, _)| {
                    let token = *tokens.get(n as usize % tokens.len().max(1))?;
                    Some((id, StreamRequest::Answer(StreamAnswer { relay, token }).to_bytes()))
                }),
                Move::Raw(at, bytes) => pick(at).map(|(id, _)| (id, bytes)),
            };
            let Some((id, message)) = step else { continue };
            match tcp.say_bytes(id, &message) {
                Step::Reply(StreamReply::Welcome(challenge)) => {
                    open.iter_mut().filter(|(other, _)| *other == id).for_each(|it| it.1 = challenge);
                }
                Step::Call(_, StreamReply::Call(token)) => {
                    calls += 1;
                    tokens.push(token);
                }
                Step::Splice(caller, _) => {
                    splices += 1;
                    prop_assert!(caller != id);
                }
                _ => {}
            }
            prop_assert!(splices <= calls);
            let counters = tcp.gate.counters();
            prop_assert!(counters.connections <= 10 && counters.listening <= 2 && counters.streams <= 2);
        }
        for (id, _) in open {
            tcp.gate.closed(id);
        }
        let counters = tcp.gate.counters();
        prop_assert_eq!((counters.connections, counters.listening, counters.streams), (0, 0, 0));
    }
}
