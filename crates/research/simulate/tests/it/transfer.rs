//! Two sessions over a virtual network: every byte once and in order, or an error that says why.

use std::time::Duration;

use crate::common::{MS, Setup, mbps};
use manyway_network::{Limit, LinkConfig, Loss, Queue, Red};
use manyway_session::{CloseReason, Event, PathDownReason, PathEvent, PathState};
use manyway_simulate::Impairments;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

#[test]
fn a_clean_transfer_uses_both_paths() {
    let mut run = Setup::new(1)
        .path(mbps(20.0, 10))
        .path(mbps(20.0, 10))
        .upload(8 << 20)
        .build();
    let took = run.complete(60_000 * MS);
    // 8 MiB at 2 × 20 Mbps less headers take 1.76 s; one path alone would need twice that.
    assert!((1760 * MS..2600 * MS).contains(&took), "{took:?}");
    let stats = run.client_stats();
    assert_eq!(stats.paths.len(), 2);
    for path in &stats.paths {
        assert_eq!(path.state, PathState::Active);
        assert!(path.stream_bytes_sent > 3 << 20, "{path:?}");
    }
    // What was sent on its way twice is little more than what was lost on it.
    let lost: u64 = stats.paths.iter().map(|p| p.packets_lost).sum();
    assert!(stats.bytes_resent < (lost + 100) * 1500, "{stats:?}");
}

/// A limit may come, change and go while data flows.
#[test]
fn a_limit_holds_from_when_it_is_set() {
    let link = || mbps(20.0, 10);
    let mut run = Setup::new(1)
        .path(link())
        .path(link())
        .upload(64 << 20)
        .build();
    run.run_for(1000 * MS);
    let handle = run.client().traffic().connection().expect("a connection");
    let mut sent = |rate: Option<&str>| {
        let (now, limit) = (run.world.now(), rate.map(|rate| rate.parse().unwrap()));
        let client = run.world.host_mut(run.pair.client).endpoint_mut();
        let connection = client.connection(handle).expect("it is open");
        connection.set_limit(now, limit);
        let before = run.client_stats().bytes_sent;
        run.run_for(2000 * MS);
        (run.client_stats().bytes_sent - before) * 8 / 2000
    };
    // kbps; headers are no part of it.
    for (rate, expected) in [
        (Some("8 Mbps"), 7_900..8_200),
        (Some("16 Mbps"), 15_800..16_400),
        (Some("1 Mbps"), 950..1_050),
        (None, 35_000..39_000),
    ] {
        let sent = sent(rate);
        assert!(expected.contains(&sent), "{rate:?}: {sent}");
    }
}

/// 20 Mbps with a round trip of 20 ms, and up to so many ms more each way.
#[test]
fn packets_that_overtake_each_other_cost_little() {
    let took = |jitter_ms: u32, overtaking: bool| {
        let link = LinkConfig {
            jitter: MS * jitter_ms,
            overtaking,
            ..mbps(20.0, 10)
        };
        let mut run = Setup::new(1).path(link).upload(20 << 20).build();
        let took = run.complete(600_000 * MS);
        let path = &run.client_stats().paths[0];
        (took, path.packets_lost)
    };
    for jitter_ms in [5, 30] {
        let (plain, _) = took(jitter_ms, false);
        let (took, lost) = took(jitter_ms, true);
        assert!(
            took < plain * 106 / 100,
            "{jitter_ms} ms: {took:?} instead of {plain:?}, {lost}"
        );
    }
}

#[test]
fn pairs_of_addresses_that_lead_nowhere_do_no_harm() {
    // Two sockets on each side, so four pairs, of which two have a route.
    let mut run = Setup::new(2)
        .path(mbps(20.0, 10))
        .path(mbps(20.0, 10))
        .server_sockets()
        .upload(8 << 20)
        .build();
    let took = run.complete(60_000 * MS);
    assert!(took < 2600 * MS, "{took:?}");
    let working = run.client_stats().paths;
    assert_eq!(
        working
            .iter()
            .filter(|p| p.stream_bytes_received > 0 || p.stream_bytes_sent > 1 << 20)
            .count(),
        2
    );
    assert!(run.world.stats().unroutable > 0);
}

#[test]
fn many_streams_both_ways() {
    let mut setup = Setup::new(3).path(mbps(20.0, 10)).path(mbps(10.0, 30));
    for n in 0..20 {
        setup = setup.upload(n * 40_000).download(n * n * 2000);
    }
    setup.build().complete(60_000 * MS);
}

fn bad(loss: f64, impairments: Impairments, seed: u64) -> Setup {
    let link = |mbps_, ms| LinkConfig {
        loss: Loss::Bernoulli(loss),
        seed,
        ..mbps(mbps_, ms)
    };
    Setup::new(seed)
        .impaired(link(20.0, 10), impairments)
        .impaired(link(5.0, 40), impairments)
        .upload(600_000)
        .upload(3)
        .download(200_000)
}

#[test]
fn hard_seeds() {
    let awful = Impairments {
        duplicate: 0.2,
        reorder: 0.3,
        reorder_by: 80 * MS,
        corrupt: 0.1,
        truncate: 0.05,
    };
    for seed in 0..6 {
        bad(0.15, awful, seed).build().complete(600_000 * MS);
    }
    // Each evil alone, at its worst.
    let calm = Impairments::default();
    let each = [
        (0.3, calm),
        (
            0.0,
            Impairments {
                duplicate: 1.0,
                ..calm
            },
        ),
        (
            0.0,
            Impairments {
                reorder: 1.0,
                reorder_by: 300 * MS,
                ..calm
            },
        ),
        (
            0.0,
            Impairments {
                corrupt: 0.3,
                ..calm
            },
        ),
        (
            0.0,
            Impairments {
                truncate: 0.3,
                ..calm
            },
        ),
    ];
    for (seed, (loss, impairments)) in (10..).zip(each) {
        bad(loss, impairments, seed).build().complete(600_000 * MS);
    }
}

#[test]
fn key_epochs_roll_over_in_mid_transfer() {
    let lossy = LinkConfig {
        loss: Loss::Bernoulli(0.02),
        ..mbps(20.0, 10)
    };
    let mut run = Setup::new(4)
        .config(|config| config.epoch_packets = 100)
        .path(lossy.clone())
        .path(lossy)
        .upload(4 << 20)
        .download(1 << 20)
        .build();
    run.complete(60_000 * MS);
    assert_eq!(run.client_stats().packets_rejected, 0);
    assert_eq!(run.server_stats().packets_rejected, 0);
}

#[test]
fn queues_that_mark_slow_the_sender_down_without_losses() {
    let marking = Red {
        ecn: true,
        ..Red::new(Limit::Packets(1000), 10.0, 400.0)
    };
    let link = LinkConfig {
        queue: Queue::Red(marking),
        ..mbps(20.0, 20)
    };
    let mut run = Setup::new(9).path(link).upload(16 << 20).build();
    run.complete(60_000 * MS);
    let [there, _] = run.links[0];
    let stats = run.world.link_stats(there);
    assert!(stats.marked >= 5 && stats.dropped() == 0, "{stats:?}");
    let path = &run.client_stats().paths[0];
    // At most one cut per round trip that had a mark.
    assert!(
        path.loss_events >= 3 && path.loss_events <= stats.marked,
        "{path:?} {stats:?}"
    );
    assert_eq!(path.packets_lost, 0);
}

#[test]
fn a_path_that_goes_dark_loses_nothing_and_the_other_carries_on() {
    let mut run = Setup::new(5)
        .path(mbps(20.0, 10))
        .path(mbps(20.0, 10))
        .upload(8 << 20)
        .download(1 << 20)
        .build();
    run.run_for(1000 * MS);
    let before = run.server().traffic().goodput().total();
    assert!(before > 2 << 20, "{before}");
    // Path 0 carried the handshake: nothing may hang on it.
    run.set_path_up(0, false);
    run.run_for(1000 * MS);
    let after = run.server().traffic().goodput().total() - before;
    // 20 Mbps less headers are 2.39 MB/s; some time goes by before the silence is noticed.
    assert!(
        after > 1_500_000,
        "{after} bytes in the second after path 0 went dark"
    );
    let took = run.complete(60_000 * MS);
    assert!(took < 5000 * MS, "{took:?}");
    for host in [run.client(), run.server()] {
        assert!(host.traffic().closed().is_none());
        let down = |event: &Event| match event {
            Event::Path(PathEvent::Down { path, reason, .. }) => {
                path.0 == 0 && *reason == PathDownReason::Stalled
            }
            _ => false,
        };
        assert!(
            host.traffic().log().iter().any(|(_, event)| down(event)),
            "{:?}",
            host.traffic().log()
        );
    }
}

/// The longest time in which an upload's reader gets nothing, after a path at `moment` carries no
/// packets any more in the directions that are `dark` (there, back).
fn longest_gap(rates: [f64; 2], path: usize, moment: Duration, dark: [bool; 2]) -> Duration {
    const BYTES: u64 = 24 << 20;
    let [first, second] = rates.map(|rate| mbps(rate, 10));
    let mut run = Setup::new(5).path(first).path(second).upload(BYTES).build();
    run.run_for(moment);
    for (link, dark) in run.links[path].into_iter().zip(dark) {
        run.world.set_link_up(link, !dark);
    }
    let (mut total, mut last, mut longest) = (0, run.world.now(), Duration::ZERO);
    while total < BYTES {
        run.run_for(5 * MS);
        let (now, read) = (run.world.now(), run.server().traffic().goodput().total());
        longest = longest.max(now.since(last));
        assert!(longest < 30_000 * MS, "the reader gets nothing any more");
        if read > total {
            (total, last) = (read, now);
        }
    }
    longest
}

#[test]
fn a_reader_hardly_waits_for_what_a_dark_path_had() {
    for rates in [[20.0, 20.0], [100.0, 20.0], [8.0, 2.0]] {
        for (path, moment) in [(0, 700), (1, 700), (0, 1003), (1, 1511)] {
            for dark in [[true, true], [true, false], [false, true]] {
                let gap = longest_gap(rates, path, moment * MS, dark);
                let about = format!("{rates:?} Mbps, path {path} at {moment} ms, {dark:?}");
                assert!(gap <= 250 * MS, "{about}: {gap:?}");
            }
        }
    }
}

#[test]
fn a_path_that_comes_back_is_used_again() {
    let mut run = Setup::new(6)
        .path(mbps(20.0, 10))
        .path(mbps(20.0, 10))
        .upload(24 << 20)
        .build();
    run.run_for(1000 * MS);
    run.set_path_up(1, false);
    run.run_for(2000 * MS);
    let before: Vec<u64> = run
        .client_stats()
        .paths
        .iter()
        .map(|p| p.stream_bytes_sent)
        .collect();
    run.set_path_up(1, true);
    let took = run.complete(60_000 * MS);
    let stats = run.client_stats();
    assert_eq!(stats.paths.len(), 2, "no new path was needed");
    assert!(
        stats.paths[1].stream_bytes_sent > before[1] + (4 << 20),
        "{stats:?}"
    );
    // 24 MiB take 5.3 s on both paths; two seconds on one cost one more.
    assert!(took < 9000 * MS, "{took:?}");
}

#[test]
fn a_connection_whose_paths_all_go_dark_for_a_while_goes_on() {
    let mut run = Setup::new(7)
        .path(mbps(20.0, 10))
        .path(mbps(5.0, 40))
        .upload(4 << 20)
        .build();
    run.run_for(500 * MS);
    for path in 0..2 {
        run.set_path_up(path, false);
    }
    run.run_for(8000 * MS);
    for path in 0..2 {
        run.set_path_up(path, true);
    }
    run.complete(60_000 * MS);
}

/// The last path stays in use, and users hear of its failure all the same.
#[test]
fn a_connection_with_one_path_tells_that_it_fails_and_that_it_works_again() {
    let mut run = Setup::new(7)
        .path(mbps(20.0, 10))
        .upload(8 << 20)
        .download(1 << 20)
        .build();
    run.run_for(1000 * MS);
    assert_eq!(run.client_stats().paths[0].state, PathState::Active);
    run.set_path_up(0, false);
    run.run_for(4000 * MS);
    assert_eq!(run.client_stats().paths[0].state, PathState::Stalled);
    run.set_path_up(0, true);
    run.run_for(8000 * MS);
    assert_eq!(run.client_stats().paths[0].state, PathState::Active);
    run.complete(60_000 * MS);
    for host in [run.client(), run.server()] {
        let changes = host.traffic().log().iter().filter_map(|(_, event)| {
            let (name, reason) = match event {
                Event::Path(PathEvent::Up { .. }) => ("up", None),
                Event::Path(PathEvent::Down { reason, .. }) => ("down", Some(*reason)),
                _ => return None,
            };
            Some((name, reason))
        });
        let stalled = ("down", Some(PathDownReason::Stalled));
        let all: Vec<_> = changes.collect();
        assert_eq!(all, [("up", None), stalled, ("up", None)]);
    }
}

#[test]
fn a_connection_whose_paths_are_gone_says_so() {
    let mut run = Setup::new(8)
        .path(mbps(20.0, 10))
        .path(mbps(20.0, 10))
        .upload(8 << 20)
        .build();
    run.run_for(1000 * MS);
    for path in 0..2 {
        run.set_path_up(path, false);
    }
    run.run_for(31_500 * MS);
    for host in [run.client(), run.server()] {
        let (_, reason) = host.traffic().closed().expect("an end");
        assert!(
            matches!(reason, CloseReason::TimedOut { seconds: 30, .. }),
            "{reason:?}"
        );
        let text = reason.to_string();
        assert!(
            text.contains("30 s") && text.contains("reachable"),
            "{text}"
        );
    }
    // What had been read until then was right.
    run.check_content();
}

#[test]
fn a_slow_path_does_not_block_a_fast_one() {
    let alone = Setup::new(9)
        .path(mbps(20.0, 10))
        .upload(4 << 20)
        .build()
        .complete(60_000 * MS);
    for (slow, ms) in [(1.0, 100), (0.3, 400), (20.0, 500)] {
        let both = Setup::new(9)
            .path(mbps(20.0, 10))
            .path(mbps(slow, ms))
            .upload(4 << 20)
            .build()
            .complete(60_000 * MS);
        assert!(
            both < alone * 115 / 100,
            "{slow} Mbps, {ms} ms: {both:?} instead of {alone:?} on the fast path alone"
        );
    }
}

#[test]
fn a_small_receive_window_does_not_stall_unequal_paths() {
    let mut run = Setup::new(10)
        .config(|config| config.receive_window = 256 << 10)
        .path(mbps(20.0, 10))
        .path(mbps(2.0, 100))
        .upload(4 << 20)
        .build();
    let took = run.complete(60_000 * MS);
    // The window alone allows 256 KiB per round trip of at most 60 ms on the fast path.
    assert!(took < 3500 * MS, "{took:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let impairments = Impairments {
            duplicate: 0.05,
            reorder: 0.1,
            reorder_by: 30 * MS,
            corrupt: 0.02,
            truncate: 0.01,
        };
        let mut run = bad(0.05, impairments, seed).build();
        let took = run.complete(600_000 * MS);
        (run.world.trace_hash(), run.world.stats(), took)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

/// The same transfers every time, unless PROPTEST_RNG_SEED asks for others.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: 12,
        max_shrink_iters: 40,
        failure_persistence: None,
        rng_seed: match config.rng_seed {
            RngSeed::Random => RngSeed::Fixed(2),
            fixed => fixed,
        },
        ..config
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_byte_once_and_in_order(
        seed: u64,
        loss in 0.0..0.1_f64,
        duplicate in 0.0..0.3_f64,
        reorder in 0.0..0.5_f64,
        reorder_ms in 0u64..200,
        corrupt in 0.0..0.08_f64,
        truncate in 0.0..0.05_f64,
        upload in 0u64..400_000,
        dark in prop::option::of((0usize..2, 0u64..2000)),
    ) {
        let impairments = Impairments {
            duplicate,
            reorder,
            reorder_by: Duration::from_millis(reorder_ms),
            corrupt,
            truncate,
        };
        let mut run = bad(loss, impairments, seed).upload(upload).build();
        if let Some((path, at)) = dark {
            run.run_for(Duration::from_millis(at));
            let spare = run.is_path_up(1 - path);
            run.set_path_up(path, false);
            if !spare {
                // The other path may not be open yet, nor ever be: then both ends have to say that
                // it's over.
                run.complete_or_time_out(600_000 * MS);
                return Ok(());
            }
        }
        run.complete(600_000 * MS);
    }
}
