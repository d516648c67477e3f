//! What counts as an answer to an INIT, and what it makes us send.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use super::*;
use crate::config::Config;
use crate::handshake::{Outcome, Responder, ResponderConfig, Secrets};

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 9))
}

fn incoming(local: u32, remote: SocketAddr, data: &mut [u8]) -> Incoming<'_> {
    Incoming {
        local: LocalId(local),
        remote,
        ecn: None,
        data,
    }
}

#[test]
fn an_answer_comes_from_where_an_init_went() {
    let pair = |local, last| Pair::new(LocalId(local), address(last), Time::ZERO);
    let mut pairs = [pair(1, 1), pair(1, 2), pair(2, 1)];
    pairs[0].sent = 1;
    for (local, last, asks) in [(1, 1, true), (1, 2, false), (2, 1, false), (1, 3, false)] {
        let found = asked(&mut pairs, &incoming(local, address(last), &mut []));
        assert_eq!(found.is_some(), asks, "{last} to {local}");
    }
    pairs[2].sent = 1;
    let found = asked(&mut pairs, &incoming(2, address(1), &mut []));
    assert_eq!(found.map(|pair| pair.local), Some(LocalId(2)));
}

/// The initiator, what it has sent by now, and a listener's secrets.
fn begin() -> (Endpoint, Vec<u8>, Secrets) {
    let secrets = Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32]));
    let mut end = Endpoint::new(Arc::new(Config::default()), [1; 32]).expect("a valid one");
    for local in [1, 2] {
        let local = Local {
            id: LocalId(local),
            name: format!("if{local}"),
            addr: address(100 + local as u8),
            mtu: None,
        };
        end.add_local(Time::ZERO, local);
    }
    let ticket = secrets.ticket(vec![address(1)]);
    end.connect(Time::ZERO, &ticket).expect("a pair exists");
    end.handle_timeout(Time::ZERO);
    let init = sent(&mut end).pop().expect("an INIT");
    (end, init, secrets)
}

fn sent(end: &mut Endpoint) -> Vec<Vec<u8>> {
    let mut buf = Vec::new();
    let next = || {
        end.poll_transmit(Time::ZERO, 1, &mut buf)
            .map(|_| buf.clone())
    };
    std::iter::from_fn(next).collect()
}

/// A COOKIE of a listener with this seed.
fn cookie(secrets: &Secrets, seed: u8, init: &[u8]) -> Vec<u8> {
    let mut config = ResponderConfig::new(secrets.clone(), [seed; 32]);
    config.load.unproven_burst = 0.0;
    config.load.unproven_rate = 0.0;
    let mut responder = Responder::new(config);
    let params = || unreachable!("it asks for a cookie");
    match responder.on_init(Time::ZERO, address(101), init, params) {
        Outcome::Cookie { datagram } => datagram.to_vec(),
        other => panic!("no cookie but {other:?}"),
    }
}

#[test]
fn a_cookie_makes_us_send_once_and_only_so_many_do() {
    let (mut end, init, secrets) = begin();
    let mut answers = |local, last, seed| {
        let mut cookie = cookie(&secrets, seed, &init);
        end.handle_datagram(Time::ZERO, incoming(local, address(last), &mut cookie));
        sent(&mut end).len()
    };
    assert_eq!(answers(2, 1, 1), 0, "at another socket");
    assert_eq!(answers(1, 2, 1), 0, "from elsewhere");
    assert_eq!(answers(1, 1, 1), 1);
    assert_eq!(answers(1, 1, 1), 0, "a copy");
    let more = (2..20).map(|seed| answers(1, 1, seed));
    assert_eq!(more.sum::<usize>() + 1, MAX_COOKIES as usize);
}
