//! Garbage, truncated, replayed and forged datagrams, and peers that stop in the middle of the
//! handshake.

use std::net::SocketAddr;

use crate::common::{MS, Run, Setup, mbps};
use manyway_session::{CloseReason, Event, PathState};
use manyway_simulate::Captured;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const MALLORY: &str = "192.0.2.66:666";

fn setup(seed: u64) -> Setup {
    Setup::new(seed)
        .path(mbps(20.0, 10))
        .path(mbps(20.0, 10))
        .upload(2 << 20)
        .download(500_000)
}

fn mallory() -> SocketAddr {
    MALLORY.parse().unwrap()
}

/// Runs to the end while `attack` gets every datagram that the hosts send, 5 ms after the last
/// time.
fn under_attack(
    mut run: Run,
    mut attack: impl FnMut(&mut Run, Vec<Captured>, &mut Pcg64Mcg),
) -> Run {
    let mut rng = Pcg64Mcg::seed_from_u64(99);
    for _ in 0..300 {
        run.world.capture(0);
        run.world.capture(64);
        run.run_for(5 * MS);
        let seen: Vec<_> = run.world.captured().cloned().collect();
        run.world.capture(0);
        attack(&mut run, seen, &mut rng);
    }
    run.complete(60_000 * MS);
    for host in [run.client(), run.server()] {
        assert!(
            host.traffic().closed().is_none(),
            "{:?}",
            host.traffic().log()
        );
        let connected = host
            .traffic()
            .log()
            .iter()
            .filter(|(_, e)| *e == Event::Connected)
            .count();
        assert_eq!(connected, 1, "no second connection");
    }
    run
}

#[test]
fn garbage_is_harmless() {
    let run = under_attack(setup(1).build(), |run, _, rng| {
        let addresses = run.pair.addresses.clone();
        for _ in 0..5 {
            let (client, server) = addresses[rng.random_range(0..2)];
            let mut data = vec![0; rng.random_range(0..1600)];
            rng.fill_bytes(&mut data);
            if let Some(first) = data.first_mut() {
                // Mostly the types that are looked into.
                *first = [1, 2, 16, *first][rng.random_range(0..4)];
            }
            let (from, to) = [
                (client, server),
                (server, client),
                (mallory(), server),
                (mallory(), client),
            ][rng.random_range(0..4)];
            run.world.inject(from, to, data);
        }
    });
    assert!(run.world.stats().arrived > 1500);
}

#[test]
fn truncated_and_flipped_copies_are_harmless() {
    let mut run = under_attack(setup(2).build(), |run, seen, rng| {
        for Captured { from, to, mut data } in seen.into_iter().take(10) {
            if rng.random_bool(0.5) {
                data.truncate(rng.random_range(0..data.len()));
            } else {
                let bit = rng.random_range(0..data.len() * 8);
                data[bit / 8] ^= 1 << (bit % 8);
            }
            run.world.inject(from, to, data);
        }
    });
    assert!(
        run.server_stats().packets_rejected > 50,
        "{:?}",
        run.server_stats()
    );
}

#[test]
fn replayed_datagrams_are_harmless() {
    let mut kept: Vec<Captured> = Vec::new();
    let (mut from_mallory, mut to_mallory) = (0, 0);
    let mut run = under_attack(setup(3).build(), |run, seen, rng| {
        let for_mallory = seen.iter().filter(|c| c.to == mallory());
        to_mallory += for_mallory.map(|c| c.data.len()).sum::<usize>();
        kept.extend(seen.into_iter().filter(|c| c.to != mallory()));
        for _ in 0..10 {
            if kept.is_empty() {
                break;
            }
            let Captured { from, to, data } = kept[rng.random_range(0..kept.len())].clone();
            // From where it came, or from elsewhere: an attacker has only copies.
            let from = if rng.random_bool(0.5) {
                from
            } else {
                mallory()
            };
            from_mallory += usize::from(from == mallory()) * data.len();
            run.world.inject(from, to, data);
        }
    });
    assert!(
        run.server_stats().packets_rejected > 100,
        "{:?}",
        run.server_stats()
    );
    // A copy may arrive before its original and cast doubt on where the peer is. The address that
    // it came from never answers the challenge, so it never counts as a path's.
    assert!(to_mallory > 0 && to_mallory <= 3 * from_mallory);
    for host in [run.pair.client, run.pair.server] {
        let paths = run.world.host_mut(host).stats().unwrap().paths;
        assert!(paths.iter().all(|p| p.remote != mallory()), "{paths:?}");
    }
    let stats = run.client_stats();
    let ends = run
        .server()
        .traffic()
        .received()
        .map(|r| r.bytes)
        .sum::<u64>();
    assert_eq!(ends, 2 << 20);
    assert!(stats.bytes_acked <= (2 << 20) + 64, "{stats:?}");
}

/// Who copies the initiator's packets and overtakes every one of them, from the first on, neither
/// gets the connection nor ends it. `from_type`: the first type of datagram that is copied.
fn overtaken(from_type: u8, paths: usize) -> Run {
    let mut setup = Setup::new(10).upload(300_000).download(300_000);
    for _ in 0..paths {
        setup = setup.path(mbps(20.0, 10));
    }
    let mut run = setup.build();
    let addresses = run.pair.addresses.clone();
    for _ in 0..3000 {
        run.world.capture(0);
        run.world.capture(4096);
        run.run_for(MS);
        let seen: Vec<_> = run.world.captured().cloned().collect();
        for copy in seen {
            if addresses.iter().any(|(client, _)| *client == copy.from) && copy.data[0] >= from_type
            {
                run.world.inject(mallory(), copy.to, copy.data);
            }
        }
    }
    run.world.capture(0);
    run
}

#[test]
fn a_copy_that_overtakes_each_packet_does_no_harm() {
    for (from_type, paths) in [(0x10, 1), (0x01, 1), (0x10, 2), (0x01, 2)] {
        let mut run = overtaken(from_type, paths);
        run.complete(3000 * MS);
        let (client, _) = run.pair.addresses[0];
        let paths = run.server_stats().paths;
        let first = paths.iter().find(|p| p.id.0 == 0).expect("path 0");
        assert_eq!(first.remote, client, "{paths:#?}");
        assert_eq!(first.state, PathState::Active, "{paths:#?}");
    }
}

/// An address that a packet came from gets three times its bytes, whichever end it is sent to: a
/// challenge padded to that, and not one byte more, however long it stays silent.
#[test]
fn an_address_that_never_answers_gets_exactly_three_times_what_came_from_it() {
    for to_server in [true, false] {
        let mut run = Setup::new(11)
            .path(mbps(20.0, 10))
            .upload(200_000)
            .download(200_000)
            .build();
        let (client, server) = run.pair.addresses[0];
        let victim = if to_server { server } else { client };
        run.run_for(300 * MS);
        // One small packet is copied, overtakes the original, and the real path goes dark: so
        // nothing proves that the peer is where it was, and every repetition is due.
        let small = |c: &&Captured| c.to == victim && c.data.len() < 100;
        let copy = loop {
            run.world.capture(0);
            run.world.capture(4096);
            run.run_for(MS);
            if let Some(copy) = run.world.captured().find(small) {
                break copy.clone();
            }
        };
        run.set_path_up(0, false);
        let came = copy.data.len();
        run.world.inject(mallory(), victim, copy.data);
        run.run_for(8000 * MS);
        let captured = run.world.captured();
        let went: usize = captured
            .filter(|c| c.to == mallory())
            .map(|c| c.data.len())
            .sum();
        assert_eq!(went, 3 * came, "to_server: {to_server}");
    }
}

#[test]
fn forged_packets_with_a_known_connection_id_are_harmless() {
    let mut run = under_attack(setup(4).build(), |run, seen, rng| {
        for Captured { from, to, data } in seen.into_iter().filter(|c| c.data[0] == 0x10).take(10) {
            // The header is right, even the next packet number; what follows can't be.
            let mut forged = data[..14].to_vec();
            let number = u32::from_be_bytes(forged[10..14].try_into().unwrap());
            forged[10..14]
                .copy_from_slice(&number.wrapping_add(rng.random_range(0..1000)).to_be_bytes());
            forged.resize(rng.random_range(14..1200), 0);
            rng.fill_bytes(&mut forged[14..]);
            run.world.inject(from, to, forged);
        }
    });
    assert!(run.server_stats().packets_rejected > 50);
}

#[test]
fn a_flood_of_handshakes_gets_no_more_than_it_sends_and_keeps_nobody_out() {
    let mut run = setup(5).build();
    run.world.capture(1);
    run.run_for(MS);
    let init = run.world.captured().next().cloned().expect("an INIT");
    assert_eq!((init.data.len(), init.data[0]), (1200, 1));
    run.world.capture(100_000);
    let before = run.world.captured().len();
    // The same INIT from a thousand addresses: the listener has one half-open handshake and one
    // cached answer for all.
    for n in 0..1000u16 {
        let from = SocketAddr::from(([192, 0, 2, (n % 250) as u8], 1000 + n));
        run.world.inject(from, init.to, init.data.clone());
    }
    run.run_for(MS);
    let answers: Vec<_> = run
        .world
        .captured()
        .skip(before)
        .filter(|c| c.to.ip().to_string().starts_with("192.0.2."))
        .collect();
    assert!(answers.len() <= 1000);
    assert!(
        answers.iter().all(|c| c.data.len() <= 1200),
        "an answer longer than its request"
    );
    run.world.capture(0);
    run.complete(60_000 * MS);
}

#[test]
fn a_listener_that_stops_before_it_answers_is_given_up_with_its_name() {
    let mut run = setup(6).build();
    run.world.set_frozen(run.pair.server, true);
    run.run_for(16_000 * MS);
    let (at, reason) = run.client().traffic().closed().expect("an end").clone();
    assert!(at.as_secs_f64() <= 15.5, "{at:?}");
    assert!(
        matches!(reason, CloseReason::ConnectTimedOut { .. }),
        "{reason:?}"
    );
    let (_, server) = run.pair.addresses[0];
    assert!(reason.to_string().contains(&server.to_string()), "{reason}");
}

#[test]
fn a_listener_that_stops_after_its_answer_ends_the_connection_with_a_reason() {
    let mut run = setup(7).build();
    run.world.capture(16);
    // Until the REPLY is under way, and not a moment longer.
    let reply = |run: &Run| run.world.captured().any(|c| c.data[0] == 2);
    while !reply(&run) {
        run.run_for(MS);
    }
    run.world.set_frozen(run.pair.server, true);
    run.run_for(40_000 * MS);
    let (_, reason) = run.client().traffic().closed().expect("an end");
    assert!(matches!(reason, CloseReason::TimedOut { .. }), "{reason:?}");
    // It never had a packet that proves the peer, so its application heard of nobody, and it has
    // forgotten the attempt.
    run.world.set_frozen(run.pair.server, false);
    run.run_for(1000 * MS);
    assert!(
        run.server().traffic().log().is_empty(),
        "{:?}",
        run.server().traffic().log()
    );
}

#[test]
fn an_initiator_that_stops_after_its_first_message_leaves_nothing_behind() {
    let mut run = setup(8).build();
    run.run_for(5 * MS);
    run.world.set_frozen(run.pair.client, true);
    run.run_for(30_000 * MS);
    assert!(run.server().traffic().log().is_empty());
    // Nothing is left that would want to be woken: the half-open handshake has expired.
    let timeout = manyway_simulate::Host::timeout(run.server());
    assert_eq!(timeout, None);
}

#[test]
fn an_initiator_that_pauses_in_mid_handshake_still_gets_through() {
    let mut run = setup(9).build();
    run.run_for(15 * MS);
    run.world.set_frozen(run.pair.client, true);
    run.run_for(2000 * MS);
    run.world.set_frozen(run.pair.client, false);
    run.complete(60_000 * MS);
}
