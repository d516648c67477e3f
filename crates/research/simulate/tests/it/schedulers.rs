//! Schedulers by name: what each of them does that the others don't. 20 Mbps at 20 ms, and a path
//! that is slower.

use std::time::Duration;

use manyway_control::Scheduler;
use manyway_network::LinkConfig;
use manyway_session::ConnectionStats;

use crate::common::{MS, Run, Setup, mbps};

const MIB: u64 = 1 << 20;
const LARGE: u64 = 64 << 20;

fn fast() -> LinkConfig {
    mbps(20.0, 10)
}

/// A tenth of the rate, fifteen times the delay.
fn slow() -> LinkConfig {
    mbps(2.0, 150)
}

fn run(scheduler: Scheduler, links: &[LinkConfig], window: u64, bytes: u64) -> Run {
    let setup = Setup::new(1).config(|config| {
        config.scheduler = scheduler;
        config.receive_window = window;
    });
    let with = |setup: Setup, link: &LinkConfig| setup.path(link.clone());
    links.iter().fold(setup, with).upload(bytes).build()
}

/// How long a transfer takes, and the sender's counters.
fn sent(
    scheduler: Scheduler,
    links: &[LinkConfig],
    window: u64,
    bytes: u64,
) -> (Duration, ConnectionStats) {
    let mut run = run(scheduler, links, window, bytes);
    let took = run.complete(120_000 * MS);
    (took, run.client_stats())
}

/// Without ECF's wait the last data would leave on the slow path and arrive long after the rest.
#[test]
fn ecf_waits_when_that_completes_the_transfer_sooner() {
    let took = |scheduler, links: &[LinkConfig]| sent(scheduler, links, LARGE, 4 * MIB).0;
    let alone = took(Scheduler::Ecf, &[fast()]);
    let ecf = took(Scheduler::Ecf, &[fast(), slow()]);
    let minrtt = took(Scheduler::MinRtt, &[fast(), slow()]);
    assert!(ecf < alone, "{ecf:?} with the slow path, {alone:?} without");
    assert!(
        minrtt > ecf + 200 * MS,
        "{minrtt:?} without waiting, {ecf:?} with"
    );
}

/// Without BLEST's check, what is on the slow path blocks a window of 256 KiB time and again.
#[test]
fn blest_waits_when_the_slow_path_would_block_the_window() {
    let took = |scheduler| sent(scheduler, &[fast(), slow()], 256 << 10, 4 * MIB).0;
    let (blest, minrtt, ecf) = (
        took(Scheduler::Blest),
        took(Scheduler::MinRtt),
        took(Scheduler::Ecf),
    );
    assert!(blest < 1950 * MS, "{blest:?}");
    assert!(minrtt > 3000 * MS, "{minrtt:?} without waiting");
    assert!(
        ecf > 3000 * MS,
        "{ecf:?} by ECF, which doesn't look at the window"
    );
}

/// The default does both.
#[test]
fn earliest_delivery_waits_for_either_reason() {
    let default = Scheduler::default();
    for window in [256 << 10, LARGE] {
        let alone = sent(default, &[fast()], window, MIB).0;
        let (took, stats) = sent(default, &[fast(), slow()], window, MIB);
        assert!(took < alone + 20 * MS, "{took:?} instead of {alone:?}");
        // A packet carries data while it validates the path.
        let on_slow = stats.paths[1].stream_bytes_sent;
        assert!(on_slow < 3000, "{on_slow} bytes on the slow path");
    }
}

#[test]
fn redundant_sends_every_byte_on_every_path() {
    let mut run = run(Scheduler::Redundant, &[fast(), fast()], LARGE, 4 * MIB);
    let took = run.complete(120_000 * MS);
    run.run_for(100 * MS);
    let stats = run.client_stats();
    for path in &stats.paths {
        assert!(path.stream_bytes_sent > 4 * MIB * 95 / 100, "{path:?}");
    }
    assert_eq!(stats.bytes_acked, 4 * MIB, "each counted once");
    let (alone, _) = sent(Scheduler::Redundant, &[fast()], LARGE, 4 * MIB);
    assert!(took < alone + 20 * MS, "{took:?}, {alone:?} alone");
}

/// A path that falls silent delays nothing: the other one carries the same. It began later, so it
/// is 12 ms behind. Which one leads by then depends on the law, so this is with `lia`.
#[test]
fn redundant_notices_no_path_that_falls_silent() {
    let lull = |scheduler, silent| {
        let setup = Setup::new(1).config(|config| {
            config.scheduler = scheduler;
            config.receive_window = LARGE;
            config.cc = "lia".parse().expect("a law");
        });
        let mut run = setup.path(fast()).path(fast()).upload(8 * MIB).build();
        run.run_for(800 * MS);
        run.set_path_up(silent, false);
        let mut longest = 0;
        let mut lull = 0;
        for _ in 0..100 {
            let before = run.server().traffic().goodput().total();
            run.run_for(2 * MS);
            lull = match run.server().traffic().goodput().total() == before {
                true => lull + 2,
                false => 0,
            };
            longest = longest.max(lull);
        }
        run.complete(120_000 * MS);
        longest
    };
    assert_eq!(lull(Scheduler::Redundant, 1), 0);
    let behind = lull(Scheduler::Redundant, 0);
    assert!(behind <= 12, "{behind} ms");
    for silent in [0, 1] {
        let minrtt = lull(Scheduler::MinRtt, silent);
        assert!(minrtt > 30, "{minrtt} ms");
    }
}

/// A path further behind than what is remembered leaves something out, and nothing is lost by that.
#[test]
fn redundant_leaves_out_what_a_slow_path_cannot_carry() {
    let (took, stats) = sent(
        Scheduler::Redundant,
        &[fast(), mbps(0.5, 10)],
        LARGE,
        10 * MIB,
    );
    let (alone, _) = sent(Scheduler::Redundant, &[fast()], LARGE, 10 * MIB);
    assert!(took < alone + 20 * MS, "{took:?}, {alone:?} alone");
    let on_slow = stats.paths[1].stream_bytes_sent;
    assert!((150_000..400_000).contains(&on_slow), "{on_slow}");
}

/// Whichever socket is the first: what fits into the fast path's window goes there.
#[test]
fn the_path_with_the_shortest_round_trip_goes_first() {
    let late = mbps(20.0, 40);
    for scheduler in [
        Scheduler::MinRtt,
        Scheduler::Ecf,
        Scheduler::Blest,
        Scheduler::default(),
    ] {
        let (_, stats) = sent(scheduler, &[fast(), late.clone()], LARGE, MIB);
        let on = |path: usize| stats.paths[path].stream_bytes_sent;
        assert!(on(0) > 3 * on(1), "{scheduler}: {} and {}", on(0), on(1));
        let (_, stats) = sent(scheduler, &[late.clone(), fast()], LARGE, MIB);
        let on = |path: usize| stats.paths[path].stream_bytes_sent;
        assert!(
            on(1) > on(0),
            "{scheduler}, slow path first: {} and {}",
            on(0),
            on(1)
        );
    }
}
