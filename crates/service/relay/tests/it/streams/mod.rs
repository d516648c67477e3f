//! What is attempted against a relay's TCP side, without sockets: `docs/relays.md`, "Threats over
//! TCP".

mod any_order;
mod limits;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{R, S, START, V, World, addr};
use manyway_relay::gate::{ConnectionId, Gate, Step, name_of};
use manyway_relay::keys::{public_key, sign};
use manyway_relay::{AccountTag, Action, Config, Ending, Keys, Rates, Revoked, StreamLimits};
use manyway_wire::relay::{
    CallToken, Challenge, Hello, Listen, ListenKey, ListenerName, Nonce, Peer, RateClass, RelayId,
    StreamAnswer, StreamConnect, StreamListen, StreamRefusal, StreamReply, StreamRequest, Voucher,
    VoucherTerms,
};
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

/// The relay connects to nobody: all that it does is to say something on a connection that a
/// listener has opened, and to join two that were opened to it.
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
    let listen = |relay| Listen {
        nonce,
        relay,
        name: ListenerName([5; 16]),
        proof,
    };
    let own = listen(relay).to_bytes();
    for message in [grant.as_bytes(), &mint, &hello, &own] {
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
    // What is for another relay gets no answer.
    let id = tcp.open(S);
    let step = tcp.say_bytes(id, &listen(others.relay.id()).to_bytes());
    assert_eq!(step, Step::Close);
    assert_eq!(tcp.gate.counters().ended_by(Ending::OtherRelay), 1);
    // A grant that this relay hasn't made tells that somebody guesses.
    let id = tcp.open(S);
    let step = tcp.say_bytes(id, others.grants(S, R).there.as_bytes());
    assert_eq!(step, Step::Close);
    assert_eq!(tcp.gate.counters().ended_by(Ending::Forged), 1);
}

/// A relay that has rotated its keys knows the grants of its UDP side by the new ones.
#[test]
fn after_a_rotation_the_gate_decides_with_the_new_keys() {
    let mut tcp = Tcp::new();
    let mut world = World::new();
    world.later(3600.0);
    let mut keys = Keys::from_text(&tcp.keys.to_text()).unwrap();
    assert!(keys.rotate(world.now, &mut tcp.rng));
    let copy = || Keys::from_text(&keys.to_text()).unwrap();
    world.relay.set_keys(copy());
    let grant = world.grants(S, R).there;
    let id = tcp.open(S);
    assert_eq!(tcp.say_bytes(id, grant.as_bytes()), Step::Close, "unknown");
    tcp.gate.set_keys(copy());
    let id = tcp.open(S);
    let step = tcp.say_bytes(id, grant.as_bytes());
    assert_eq!(step, Step::Refuse(StreamRefusal::ForUdp));
}

/// Each connection and each refusal is counted once, under its reason.
#[test]
fn the_counters_tell_what_happened() {
    let mut tcp = Tcp::new();
    let first = tcp.listener(R);
    let again = tcp.open(R);
    let request = tcp.listen_request();
    assert_eq!(tcp.say(again, request), Step::Listening(Some(first)));
    let (caller, challenge) = tcp.caller(S);
    let message = tcp.signed(Peer::Name(name_of(&KEY)), tcp.voucher(), &challenge);
    token(tcp.say_bytes(caller, &message));
    tcp.gate.uncalled(caller, StreamRefusal::NoAnswer);
    tcp.gate.ended(Ending::Slow);
    assert!(tcp.gate.open(addr("0.0.0.0:1")).is_none());
    let counters = tcp.gate.counters();
    assert_eq!(counters.accepted, 4);
    assert_eq!(counters.connections, 3);
    assert_eq!(counters.refused_for(StreamRefusal::Replaced), 1);
    assert_eq!(counters.refused_for(StreamRefusal::NoAnswer), 1);
    assert_eq!(counters.ended_by(Ending::Slow), 1);
    assert_eq!(counters.ended_by(Ending::Address), 1);
    assert_eq!((counters.calls, counters.spliced), (1, 0));
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

/// Who knows a listener's name can call it, and not take its place; who has its key can, and it is
/// told.
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
    tcp.gate.uncalled(caller, StreamRefusal::NoAnswer);
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

/// An invitation's, and a registry's.
#[test]
fn a_voucher_ends_to_the_tick() {
    let end = Duration::from_secs(30);
    let tick = Duration::from_nanos(1);
    let expired = Step::Refuse(StreamRefusal::VoucherExpired);
    for (age, good) in [(end - tick, true), (end, false)] {
        let mut tcp = Tcp::new();
        tcp.listener(R);
        let client = public_key(&tcp.seed);
        let expires = (START + end).as_secs() as u32;
        let voucher = tcp.keys.vouch([1; 8], RateClass::MAX, expires, client);
        tcp.now = START + age;
        let step = tcp.connect_with(S, Peer::Name(name_of(&KEY)), voucher);
        assert_eq!(step == expired, !good, "{step:?}");
        assert_eq!(matches!(step, Step::Call(..)), good, "{step:?}");
    }
}

/// Whoever calls or has a stream is named to be ended, and nobody else; nothing new begins.
#[test]
fn a_revoked_account_calls_nobody_and_its_streams_end() {
    let mut tcp = Tcp::new();
    tcp.listener(R);
    let name = Peer::Name(name_of(&KEY));
    let call = |tcp: &mut Tcp, account: u8| {
        let (id, challenge) = tcp.caller(S);
        let voucher = tcp.voucher_of([account; 8]);
        let message = tcp.signed(name, voucher, &challenge);
        (id, tcp.say_bytes(id, &message))
    };
    let (spliced, step) = call(&mut tcp, 1);
    let answered = tcp.answer(R, token(step));
    assert!(matches!(answered, Step::Splice(..)));
    let (calling, step) = call(&mut tcp, 1);
    let (_, others) = call(&mut tcp, 2);
    let tag = AccountTag::in_voucher(&tcp.voucher_of([1; 8]).terms);
    let revoked = Revoked::from_iter([tag]);
    let mut ending = tcp.gate.set_revoked(revoked.clone());
    ending.sort_unstable();
    assert_eq!(ending, [spliced, calling]);
    let refused = Step::Refuse(StreamRefusal::Revoked);
    assert_eq!(call(&mut tcp, 1).1, refused);
    // The one that was calling has been told, so its listener is too late.
    tcp.gate.uncalled(calling, StreamRefusal::Revoked);
    let over = Step::Refuse(StreamRefusal::CallOver);
    assert_eq!(tcp.answer(R, token(step)), over);
    assert!(matches!(tcp.answer(R, token(others)), Step::Splice(..)));
    tcp.gate.closed(spliced);
    tcp.gate.closed(calling);
    assert_eq!(tcp.gate.set_revoked(revoked), []);
    assert_eq!(tcp.gate.counters().streams, 1, "the other account's");
    assert_eq!(tcp.gate.counters().refused_for(StreamRefusal::Revoked), 2);
}
