//! Whatever clients do in whatever order.

use proptest::prelude::*;

use super::*;

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

    /// Whatever clients do in whatever order: no panic, bounds hold, no stream without a voucher
    /// and a listener, and all is forgotten in the end.
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
                        tcp.gate.uncalled(id, StreamRefusal::NoAnswer);
                    }
                    continue;
                }
                Move::Hello(at) => {
                    pick(at).map(|(id, _)| (id, StreamRequest::Hello(relay).to_bytes()))
                }
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
                    open.iter_mut()
                        .filter(|(other, _)| *other == id)
                        .for_each(|it| it.1 = challenge);
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
            prop_assert!(
                counters.connections <= 10 && counters.listening <= 2 && counters.streams <= 2
            );
        }
        for (id, _) in open {
            tcp.gate.closed(id);
        }
        let counters = tcp.gate.counters();
        prop_assert_eq!((counters.connections, counters.listening, counters.streams), (0, 0, 0));
    }
}
