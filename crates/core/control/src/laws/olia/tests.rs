use std::time::Duration;

use manyway_units::Time;
use proptest::prelude::*;

use super::*;
use crate::controller::{Ack, Controller, Loss, NewPath, Slot};
use crate::coupled::Coupled;
use crate::options::{Options, SlowStartKind};

/// Paths with a window, a round-trip time and `ℓ` in packets of 1000 bytes, half of them before the
/// last loss.
fn at(of: &[(f64, f64, f64)]) -> (Olia, Vec<Path<f64>>) {
    let mut olia = Olia::default();
    for (r, &(_, rtt, ell)) in of.iter().enumerate() {
        olia.on_path_added(1000);
        olia.on_acked(r, ell, rtt);
        olia.on_lost(r);
        olia.on_acked(r, ell / 2.0, rtt);
    }
    let paths = of.iter().map(|&(window, rtt, _)| Path { window, rtt });
    (olia, paths.collect())
}

fn alphas(of: &[(f64, f64, f64)]) -> Vec<f64> {
    let (olia, paths) = at(of);
    (0..of.len()).map(|r| olia.alpha(&paths, r)).collect()
}

/// Three paths of 0.1 s with windows 20, 10 and 5. Path 1 has the fewest losses: `B = {1}`, `M =
/// {0}`, n = 3. S = 350 packets/s, w/τ² = 2000, 1000 and 500, S² = 122,500.
#[test]
fn values_worked_out_by_hand() {
    let (olia, paths) = at(&[(20.0, 0.1, 100.0), (10.0, 0.1, 400.0), (5.0, 0.1, 100.0)]);
    let want = [
        2000.0 / 122_500.0 - 1.0 / 3.0 / 20.0,
        1000.0 / 122_500.0 + 1.0 / 3.0 / 10.0,
        500.0 / 122_500.0,
    ];
    for (r, want) in want.into_iter().enumerate() {
        let increase = olia.increase(&paths, r);
        assert!((increase - want).abs() < 1e-15, "{r} {increase} {want}");
        assert_eq!(olia.decrease(&paths, r), paths[r].window / 2.0);
    }
    // The path with the largest window and more losses than another shrinks: 0.0163 − 0.0167.
    assert!(want[0] < 0.0);
}

/// The cases of the rule, with the sets worked out by hand.
#[test]
fn alpha_by_hand() {
    let third = 1.0 / 3.0;
    for (of, want) in [
        // Alone: M = B.
        (vec![(7.0, 0.1, 10.0)], vec![0.0]),
        // The best path has the largest window: B∖M is empty.
        (vec![(20.0, 0.1, 400.0), (10.0, 0.1, 100.0)], vec![0.0, 0.0]),
        // Two equal windows are M, and the best of all is one of them.
        (
            vec![(20.0, 0.1, 400.0), (20.0, 0.1, 100.0), (5.0, 0.1, 100.0)],
            vec![0.0, 0.0, 0.0],
        ),
        // M = {0, 1}, B = {2}: −1/(3·2) twice, 1/(3·1).
        (
            vec![(20.0, 0.1, 100.0), (20.0, 0.1, 200.0), (5.0, 0.1, 300.0)],
            vec![-third / 2.0, -third / 2.0, third],
        ),
        // M = {0}, B = {0, 1, 2}: those of B that aren't in M share.
        (
            vec![(20.0, 0.1, 100.0), (10.0, 0.1, 100.0), (5.0, 0.1, 100.0)],
            vec![-third, third / 2.0, third / 2.0],
        ),
        // Nothing lost or acknowledged yet: everything is best.
        (vec![(20.0, 0.1, 0.0), (10.0, 0.1, 0.0)], vec![-0.5, 0.5]),
        // 400/0.2² = 10,000 against 200/0.1² = 20,000: quicker is better, though 400²/0.2 >
        // 200²/0.1.
        (vec![(10.0, 0.2, 400.0), (9.0, 0.1, 200.0)], vec![-0.5, 0.5]),
        (vec![(9.0, 0.2, 400.0), (10.0, 0.1, 200.0)], vec![0.0, 0.0]),
        // Ten packets both.
        (vec![(10.1, 0.1, 400.0), (10.9, 0.1, 200.0)], vec![0.0, 0.0]),
        (vec![(9.9, 0.1, 400.0), (10.1, 0.1, 200.0)], vec![0.5, -0.5]),
    ] {
        assert_eq!(alphas(&of), want, "{of:?}");
    }
}

/// `ℓ` is the larger of what came between the last two losses and what came since.
#[test]
fn memory_of_losses() {
    let mut olia = Olia::default();
    olia.on_path_added(100);
    let mut after = |acked: &[f64], lost: bool| {
        for &packets in acked {
            olia.on_acked(0, packets, 0.5);
        }
        if lost {
            olia.on_lost(0);
        }
        olia.memory[0].quality / 4.0
    };
    assert_eq!(after(&[], false), 0.0);
    assert_eq!(after(&[3.0, 4.0], false), 700.0);
    assert_eq!(after(&[], true), 700.0);
    assert_eq!(after(&[2.0], false), 700.0);
    assert_eq!(after(&[6.0], false), 800.0);
    assert_eq!(after(&[], true), 800.0);
    assert_eq!(after(&[1.0], true), 100.0);
    assert_eq!(after(&[], true), 0.0);
}

struct Bench {
    olia: Coupled<Olia>,
}

impl Bench {
    fn new() -> Self {
        let options = Options::default().with_slow_start(SlowStartKind::Standard);
        let olia = Coupled::new(Olia::default(), options);
        Bench { olia }
    }

    fn add(&mut self, window: f64, packet_size: u32) -> Slot {
        self.olia.add_path(NewPath {
            now: Time::ZERO,
            initial_window: window,
            packet_size,
            initial_rtt: Duration::from_millis(100),
        })
    }

    fn ack(&mut self, slot: Slot, packets: f64, counts: bool) {
        let rtt = Duration::from_millis(100);
        self.olia.on_ack(&Ack {
            slot,
            now: Time::ZERO,
            packets,
            rtt,
            rtt_sampled: true,
            smoothed_rtt: rtt,
            min_rtt: rtt,
            sent: Time::ZERO,
            received: None,
            app_limited: !counts,
            in_recovery: false,
            delivery: None,
        });
    }

    fn lose(&mut self, slot: Slot) {
        self.olia.on_loss(&Loss {
            slot,
            now: Time::ZERO,
            sent: Time::ZERO,
            packets: 1.0,
        });
    }
}

#[test]
fn runs_as_a_controller() {
    let mut bench = Bench::new();
    let [a, b] = [bench.add(40.0, 1000), bench.add(20.0, 1000)];
    bench.ack(a, 0.5, true);
    assert!(bench.olia.in_slow_start(a));
    assert_eq!(bench.olia.window(a), 40.5);
    // What the window doesn't grow by counts for ℓ nevertheless.
    bench.ack(b, 30.0, false);
    bench.lose(a);
    bench.lose(b);
    assert_eq!([bench.olia.window(a), bench.olia.window(b)], [20.25, 10.0]);
    bench.ack(a, 5.0, false);

    // ℓ = 5 and 30: b is best, a is largest. S = 302.5.
    bench.ack(b, 1.0, true);
    let want = 10.0 + 1000.0 / (302.5 * 302.5) + 0.5 / 10.0;
    assert!((bench.olia.window(b) - want).abs() < 1e-12);
    let s: f64 = 202.5 + 10.0 * want;
    bench.ack(a, 1.0, true);
    let want = 20.25 + 2025.0 / (s * s) - 0.5 / 20.25;
    assert!((bench.olia.window(a) - want).abs() < 1e-12);

    // α has taken it below its threshold, and slow start doesn't lead beyond that.
    assert!(bench.olia.in_slow_start(a));
    bench.ack(a, 1.0, true);
    assert_eq!(bench.olia.window(a), 20.25);
}

/// A path's memory goes with it when another path takes over its place.
#[test]
fn memory_follows_its_path() {
    let mut bench = Bench::new();
    let [a, b, c] = [
        bench.add(10.0, 1000),
        bench.add(10.0, 1000),
        bench.add(10.0, 1000),
    ];
    for (slot, packets) in [(a, 1.0), (b, 2.0), (c, 3.0)] {
        bench.ack(slot, packets, false);
    }
    bench.olia.remove_path(a);
    let kept: Vec<f64> = bench.olia.law().memory.iter().map(|m| m.since).collect();
    assert_eq!(kept, [3000.0, 2000.0]);
    bench.ack(b, 5.0, false);
    bench.ack(c, 1.0, false);
    let kept: Vec<f64> = bench.olia.law().memory.iter().map(|m| m.since).collect();
    assert_eq!(kept, [4000.0, 7000.0]);
}

/// Windows and `ℓ` are compared in bytes: 30 packets of 1000 are less than 10 of 4000.
#[test]
fn packet_sizes_may_differ() {
    let mut bench = Bench::new();
    let [small, large] = [bench.add(60.0, 1000), bench.add(20.0, 4000)];
    bench.ack(small, 100.0, false);
    bench.ack(large, 24.0, false);
    bench.lose(small);
    bench.lose(large);
    // ℓ: 100,000 and 96,000 bytes. In packets of 1000: 30 and 40, S = 700, w/τ² = 3000.
    bench.ack(small, 1.0, true);
    let want = 30.0 + 3000.0 / (700.0 * 700.0) + 0.5 / 30.0;
    assert!((bench.olia.window(small) - want).abs() < 1e-12);
    // In packets of 4000: 10 and w/4.
    let s: f64 = 100.0 + 10.0 * want / 4.0;
    bench.ack(large, 1.0, true);
    let want = 10.0 + 1000.0 / (s * s) - 0.5 / 10.0;
    assert!((bench.olia.window(large) - want).abs() < 1e-12);
}

proptest! {
    /// Window is moved and none is made. Few values, so that sets have several members.
    #[test]
    fn alphas_add_up_to_nothing(
        of in proptest::collection::vec(
            (prop_oneof![1.0..4.0f64, 1.0..1e4f64], prop_oneof![Just(0.1), 1e-4..5.0f64], 0..4u8),
            1..20,
        ),
    ) {
        let of: Vec<_> = of.into_iter().map(|(w, rtt, ell)| (w, rtt, f64::from(ell))).collect();
        let alphas = alphas(&of);
        prop_assert!(alphas.iter().sum::<f64>().abs() < 1e-12, "{alphas:?}");
        let n = of.len() as f64;
        prop_assert!(alphas.iter().all(|alpha| alpha.abs() <= 1.0 / n));
    }
}
