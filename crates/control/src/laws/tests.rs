use num_dual::Dual64;
use proptest::prelude::*;

use super::{Balia, Lia, Reno};
use crate::law::{Path, Scalar, WindowLaw};

/// Calls a generic check for every window law.
macro_rules! for_every_law {
    ($check:ident($($argument:expr),*)) => {{
        $check(&Reno $(, $argument)*);
        $check(&Lia $(, $argument)*);
        $check(&Balia $(, $argument)*);
    }};
}

fn paths<D: Scalar>(from: &[(f64, f64)]) -> Vec<Path<D>> {
    from.iter()
        .map(|&(window, rtt)| Path {
            window: D::from(window),
            rtt: D::from(rtt),
        })
        .collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs()).max(1e-3)
}

/// Two paths with w = 10 and 10, τ = 0.1 and 0.05 s: x = 100 and 200, w/τ² = 1000 and 4000,
/// S² = 90,000, α = 2 and 1. Worked out by hand from the table of section II of Peng et al.
#[test]
fn values_worked_out_by_hand() {
    let two = paths::<f64>(&[(10.0, 0.1), (10.0, 0.05)]);
    let rows: [(f64, f64, f64, f64); 3] = [
        // (I, D) of path 0 and of path 1
        (0.1, 5.0, 0.1, 5.0),
        (4.0 / 90.0, 5.0, 4.0 / 90.0, 5.0),
        // 1/90 · 3/2 · 6/5 = 0.02, and the cut is capped at 1.5 halves.
        (0.02, 7.5, 4.0 / 90.0, 5.0),
    ];
    fn row<L: WindowLaw>(law: &L, two: &[Path<f64>]) -> (f64, f64, f64, f64) {
        (
            law.increase(two, 0),
            law.decrease(two, 0),
            law.increase(two, 1),
            law.decrease(two, 1),
        )
    }
    let got = [row(&Reno, &two), row(&Lia, &two), row(&Balia, &two)];
    for (want, got) in rows.iter().zip(&got) {
        assert!(close(want.0, got.0), "{want:?} {got:?}");
        assert!(close(want.1, got.1), "{want:?} {got:?}");
        assert!(close(want.2, got.2), "{want:?} {got:?}");
        assert!(close(want.3, got.3), "{want:?} {got:?}");
    }
}

/// Where coupling would be more aggressive than Reno on a path, LIA's minimum holds it back: a path
/// with a tiny round-trip time makes max(w/τ²)/S² large for the big slow window beside it.
#[test]
fn lia_never_exceeds_reno_on_a_path() {
    // x = 100/1 and 2/0.01 = 200; w/τ² = 100 and 20,000; 20,000/300² = 0.2222 > 1/100.
    let two = paths::<f64>(&[(100.0, 1.0), (2.0, 0.01)]);
    assert!(close(Lia.increase(&two, 0), 0.01));
    assert!(close(Lia.increase(&two, 1), 20_000.0 / 90_000.0));
}

/// RFC 6356 §3 in its own units: `min(α·bytes·MSS/cwnd_total, bytes·MSS/cwnd_i)` with
/// `α = cwnd_total · max(cwnd/rtt²) / (Σ cwnd/rtt)²`.
#[test]
fn lia_is_rfc_6356() {
    let two = [(30.0, 0.02), (12.0, 0.13)];
    let mss = 1448.0;
    let total: f64 = two.iter().map(|p| p.0 * mss).sum();
    let best = two
        .iter()
        .map(|p| p.0 * mss / (p.1 * p.1))
        .fold(0.0, f64::max);
    let rate: f64 = two.iter().map(|p| p.0 * mss / p.1).sum();
    let alpha = total * best / (rate * rate);
    for (r, path) in two.iter().enumerate() {
        let bytes = f64::min(alpha * mss * mss / total, mss * mss / (path.0 * mss));
        assert!(close(Lia.increase(&paths::<f64>(&two), r), bytes / mss));
    }
}

#[test]
fn floors() {
    assert_eq!(Reno.min_ssthresh(5), 2.0);
    assert_eq!(Lia.min_ssthresh(5), 2.0);
    assert_eq!(Balia.min_ssthresh(1), 2.0);
    assert_eq!(Balia.min_ssthresh(2), 1.0);
}

fn is_reno_alone<L: WindowLaw>(law: &L, window: f64, rtt: f64) {
    let one = paths::<f64>(&[(window, rtt)]);
    assert!(close(law.increase(&one, 0), 1.0 / window), "{}", law.name());
    assert!(close(law.decrease(&one, 0), window / 2.0), "{}", law.name());
}

/// A dual number's real part is the f64 result (up to rounding: it divides by multiplying with the
/// inverse), and its derivative is the slope.
fn differentiates<L: WindowLaw>(law: &L, at: &[(f64, f64)]) {
    type Rule<L, D> = fn(&L, &[Path<D>], usize) -> D;
    let rules: [(Rule<L, f64>, Rule<L, Dual64>); 2] = [
        (L::increase::<f64>, L::increase::<Dual64>),
        (L::decrease::<f64>, L::decrease::<Dual64>),
    ];
    for (real, dual) in rules {
        for r in 0..at.len() {
            for k in 0..at.len() {
                let mut seeded = paths::<Dual64>(at);
                seeded[k].window = seeded[k].window.derivative();
                let exact = dual(law, &seeded, r);
                assert!(close(exact.re, real(law, &paths::<f64>(at), r)));

                let h = at[k].0 * 1e-5;
                let shifted = |by: f64| {
                    let mut moved = at.to_vec();
                    moved[k].0 += by;
                    real(law, &paths::<f64>(&moved), r)
                };
                let slope = (shifted(h) - shifted(-h)) / (2.0 * h);
                let scale = exact.eps.abs().max(exact.re.abs() / at[k].0);
                assert!(
                    (exact.eps - slope).abs() <= 1e-7 * scale,
                    "{} {at:?} r {r} k {k}: {} against {slope}",
                    law.name(),
                    exact.eps
                );
            }
        }
    }
}

#[test]
fn derivatives_match_finite_differences() {
    // Away from the kinks of max and min.
    for_every_law!(differentiates(&[(10.0, 0.1), (10.0, 0.05)]));
    for_every_law!(differentiates(&[(50.0, 0.03), (20.0, 0.03), (7.0, 0.2)]));
    for_every_law!(differentiates(&[(100.0, 1.0), (2.0, 0.01)]));
    for_every_law!(differentiates(&[(33.0, 0.04)]));
}

fn is_sound<L: WindowLaw>(law: &L, of: &[(f64, f64)]) {
    let real = paths::<f64>(of);
    let dual = paths::<Dual64>(of);
    for (r, &(window, _)) in of.iter().enumerate() {
        let (up, down) = (law.increase(&real, r), law.decrease(&real, r));
        // No law here is more aggressive than Reno on a path, and none takes a window whole.
        let limit = 1.0 / window;
        assert!(
            up > 0.0 && up <= limit * (1.0 + 1e-12),
            "{} {up}",
            law.name()
        );
        assert!(down > 0.0 && down <= 0.75 * window, "{} {down}", law.name());
        assert!((law.increase(&dual, r).re / up - 1.0).abs() < 1e-12);
        assert!((law.decrease(&dual, r).re / down - 1.0).abs() < 1e-12);
    }
}

fn path() -> impl Strategy<Value = (f64, f64)> {
    (1.0..1e5f64, 1e-5..10.0f64)
}

proptest! {
    #[test]
    fn alone_every_law_is_reno((window, rtt) in path()) {
        for_every_law!(is_reno_alone(window, rtt));
    }

    #[test]
    fn every_law_is_sound(of in proptest::collection::vec(path(), 1..12)) {
        for_every_law!(is_sound(&of));
    }

    /// With equal round-trip times: LIA `w_max/W²` (or Reno), Balia `w_r/W² · (1+α)/2 · (4+α)/5`.
    #[test]
    fn closed_forms_for_equal_round_trips(
        windows in proptest::collection::vec(1.0..1e4f64, 1..10),
        rtt in 1e-4..5.0f64,
    ) {
        let of: Vec<_> = windows.iter().map(|&w| (w, rtt)).collect();
        let of = paths::<f64>(&of);
        let total: f64 = windows.iter().sum();
        let largest = windows.iter().copied().fold(0.0, f64::max);
        for (r, &w) in windows.iter().enumerate() {
            let lia = (largest / (total * total)).min(1.0 / w);
            prop_assert!((Lia.increase(&of, r) / lia - 1.0).abs() < 1e-9);
            let alpha = largest / w;
            let balia = w / (total * total) * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0;
            prop_assert!((Balia.increase(&of, r) / balia - 1.0).abs() < 1e-9);
            prop_assert!((Balia.decrease(&of, r) / (w / 2.0 * alpha.min(1.5)) - 1.0).abs() < 1e-9);
        }
    }
}
