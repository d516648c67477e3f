//! Floods of first messages that carry the right code: from a holder of the ticket, or recorded.

use std::net::SocketAddr;

use crate::common::{MS, Run, Setup, mbps};
use manyway_session::crypto::{KeyLimits, Suite};
use manyway_session::handshake::{Initiator, InitiatorConfig, ResponderStats};
use manyway_simulate::Captured;
use manyway_wire::{COOKIE_LEN, ConnectionId, INIT_LEN, TransportParameters};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

/// The bound of half-open handshakes.
const HALF_OPEN: usize = 1024;

/// A first message as good as anybody's.
fn init(run: &Run, seed: u64) -> Vec<u8> {
    let config = InitiatorConfig {
        ticket: &run.pair.ticket,
        identity: None,
        params: TransportParameters::new(ConnectionId(seed.to_be_bytes())),
        suite: Suite::default(),
        limits: KeyLimits::default(),
    };
    let initiator = Initiator::new(config, &mut ChaCha20Rng::seed_from_u64(seed));
    initiator.expect("a good ticket").datagram().to_vec()
}

fn handshakes(run: &mut Run) -> (usize, ResponderStats) {
    let server = run.pair.server;
    run.world.host_mut(server).endpoint_mut().handshakes()
}

/// `rate` first messages per millisecond, for two seconds before the true client knocks and until
/// it is in; each from the address that `from` gives. What the server sent to whom.
fn flood(mut run: Run, rate: u64, from: impl Fn(u64) -> SocketAddr) -> (Run, Vec<Captured>, u64) {
    let server_addr = run.pair.addresses[0].1;
    let client = run.pair.client;
    run.world.set_frozen(client, true);
    let (mut sent, mut answers) = (0, Vec::new());
    // The same messages again and again would be answered from the cache; these are all different.
    // Making one costs its sender a Diffie-Hellman, so after some thousands they come again, from
    // other addresses.
    let supply: Vec<Vec<u8>> = (0..4_000).map(|seed| init(&run, seed)).collect();
    let mut after = 0;
    for step in 0..10_000 {
        if step == 2_000 {
            run.world.set_frozen(client, false);
        }
        run.world.capture(0);
        run.world.capture(1 << 14);
        for _ in 0..rate {
            let data = supply[sent as usize % supply.len()].clone();
            run.world.inject(from(sent), server_addr, data);
            sent += 1;
        }
        run.run_for(MS);
        answers.extend(
            run.world
                .captured()
                .filter(|c| c.from == server_addr)
                .cloned(),
        );
        let (half_open, _) = handshakes(&mut run);
        assert!(half_open <= HALF_OPEN, "{half_open} half-open");
        if run.server().traffic().connected().is_some() {
            after += 1;
            if after == 500 {
                break;
            }
        }
    }
    run.world.capture(0);
    (run, answers, sent)
}

#[test]
fn a_true_sender_gets_in_while_spoofed_first_messages_come() {
    let run = Setup::new(1).path(mbps(50.0, 10)).upload(200_000).build();
    let client = run.pair.addresses[0].0;
    let spoofed = |n: u64| {
        let host = [198, 18 + (n >> 16 & 1) as u8, (n >> 8) as u8, n as u8];
        SocketAddr::from((host, 1024 + (n % 60_000) as u16))
    };
    // 20,000 per second; a gigabit has room for five times as many, and a core for ten times.
    let (mut run, answers, sent) = flood(run, 20, spoofed);
    let connected = run.client().traffic().connected().expect("it got in");
    // It began after two seconds. A handshake takes a round trip (20 ms), with a cookie two.
    let waited = connected.since(manyway_units::Time::ZERO) - 2_000 * MS;
    assert!(waited < 100 * MS, "{waited:?}");

    let to_others = answers.iter().filter(|c| c.to != client);
    let bytes: usize = to_others.clone().map(|c| c.data.len()).sum();
    assert!(to_others.clone().all(|c| c.data.len() <= INIT_LEN));
    // Hardly more than a COOKIE for each.
    let bound = sent as usize * COOKIE_LEN + sent as usize / 5 * INIT_LEN;
    assert!(bytes <= bound, "{bytes} bytes for {sent} messages");
    let (half_open, stats) = handshakes(&mut run);
    // Handshakes without a cookie are few, whatever comes: 64 at once and 32 per second.
    assert!(half_open <= 128 + 1, "{half_open}");
    assert!(stats.accepted <= 64 + 32 * 4 + 1, "{stats:?}");
    assert!(stats.cookies > sent / 2, "{stats:?}");
    run.complete(30_000 * MS);
}

/// The attacker has one address of his own, answers COOKIEs and holds the ticket: he gets his share
/// and no more.
#[test]
fn a_flood_from_one_host_does_not_fill_the_table() {
    let mallory: SocketAddr = "198.51.100.66:666".parse().unwrap();
    let mut run = Setup::new(2).path(mbps(50.0, 10)).upload(200_000).build();
    let server = run.pair.addresses[0].1;
    let client = run.pair.client;
    run.world.set_frozen(client, true);
    let initiators: Vec<Initiator> = (0..3_000)
        .map(|seed| {
            let config = InitiatorConfig {
                ticket: &run.pair.ticket,
                identity: None,
                params: TransportParameters::new(ConnectionId(u64::to_be_bytes(seed))),
                suite: Suite::default(),
                limits: KeyLimits::default(),
            };
            Initiator::new(config, &mut ChaCha20Rng::seed_from_u64(seed)).unwrap()
        })
        .collect();
    for (n, initiator) in initiators.iter().enumerate() {
        if n == 2_000 {
            run.world.set_frozen(client, false);
        }
        run.world.capture(0);
        run.world.capture(64);
        run.world
            .inject(mallory, server, initiator.datagram().to_vec());
        run.run_for(MS);
        let cookie = run
            .world
            .captured()
            .find(|c| c.to == mallory && c.data[0] == 3)
            .cloned();
        if let Some(cookie) = cookie {
            let value = initiator.on_cookie(&cookie.data).expect("for him");
            run.world
                .inject(mallory, server, initiator.datagram_with(&value));
        }
    }
    run.world.capture(0);
    let (half_open, stats) = handshakes(&mut run);
    assert!(stats.accepted > 128, "he did attack: {stats:?}");
    // 128 without a cookie and 64 with.
    assert!(half_open <= 192, "{half_open}: {stats:?}");
    let connected = run.client().traffic().connected().expect("it got in");
    let waited = connected.since(manyway_units::Time::ZERO) - 2_000 * MS;
    assert!(waited < 100 * MS, "{waited:?}");
    run.complete(30_000 * MS);
}

/// Somebody who has recorded a COOKIE and sends it again gets nothing sent on his behalf.
#[test]
fn a_replayed_cookie_makes_nobody_send() {
    let run = Setup::new(3).path(mbps(50.0, 10)).upload(200_000).build();
    let (client, server) = run.pair.addresses[0];
    let spoofed = |n: u64| SocketAddr::from(([198, 18, (n >> 8) as u8, n as u8], 1024));
    let (run, answers, _) = flood(run, 20, spoofed);
    let cookie = answers
        .iter()
        .find(|c| c.to == client && c.data[0] == 3)
        .expect("the client was asked for a cookie")
        .clone();
    drop(run);
    // The same again, and now the COOKIE comes a hundred times while the server is silent.
    let run = Setup::new(3).path(mbps(50.0, 10)).upload(200_000).build();
    let mut run = run;
    run.world.set_frozen(run.pair.server, true);
    run.world.capture(4096);
    run.run_for(5 * MS);
    for _ in 0..100 {
        run.world.inject(server, client, cookie.data.clone());
        run.run_for(MS);
    }
    let inits = run.world.captured().filter(|c| c.from == client).count();
    assert_eq!(inits, 2, "the first, and one with the cookie");
}
