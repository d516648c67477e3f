use crate::law::{Path, Scalar, WindowLaw};
use crate::laws::{AnyLaw, Balia, FullyCoupled, Lia, Reno, Semicoupled};
use crate::registry::LawSpec;

mod any_events;
mod properties;

/// A window law by its text form.
fn law(text: &str) -> AnyLaw {
    let spec: LawSpec = text.parse().unwrap_or_else(|error| panic!("{error}"));
    spec.window_law().expect("a window law")
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

/// Two situations worked out by hand from the table of section II of Peng et al. and from eq. (1),
/// (2) and (16).
#[test]
fn values_worked_out_by_hand() {
    // w = 10 and 10, τ = 0.1 and 0.05 s: x = 100 and 200, w/τ² = 1000 and 4000, S² = 90,000, α = 2
    // and 1.
    let unequal = paths::<f64>(&[(10.0, 0.1), (10.0, 0.05)]);
    // w = 30 and 40, τ = 0.1 s: x = 300 and 400, w/τ² = 3000 and 4000, S² = 490,000, α = 4/3 and 1,
    // ‖x‖₂ = 500.
    let equal = paths::<f64>(&[(30.0, 0.1), (40.0, 0.1)]);
    // I and D of path 0, then of path 1.
    type Row<'a> = (&'a str, &'a [Path<f64>], [f64; 4]);
    let rows: [Row; 19] = [
        ("reno", &unequal, [0.1, 5.0, 0.1, 5.0]),
        ("reno", &equal, [1.0 / 30.0, 15.0, 1.0 / 40.0, 20.0]),
        // a/w.
        ("ewtcp", &unequal, [0.1, 5.0, 0.1, 5.0]),
        ("ewtcp:a=0.25", &unequal, [0.025, 5.0, 0.025, 5.0]),
        ("ewtcp:a=3", &equal, [0.1, 15.0, 3.0 / 40.0, 20.0]),
        // 1000/90,000 and 4000/90,000; 3000/490,000 and 4000/490,000.
        ("coupled", &unequal, [1.0 / 90.0, 5.0, 4.0 / 90.0, 5.0]),
        ("coupled", &equal, [3.0 / 490.0, 15.0, 4.0 / 490.0, 20.0]),
        // 1/(0.1 · 300) and 1/(0.05 · 300); 1/(0.1 · 700).
        ("semicoupled", &unequal, [1.0 / 30.0, 5.0, 1.0 / 15.0, 5.0]),
        ("semicoupled", &equal, [1.0 / 70.0, 15.0, 1.0 / 70.0, 20.0]),
        // 4000/90,000 < 1/10; 4000/490,000 < 1/40.
        ("lia", &unequal, [4.0 / 90.0, 5.0, 4.0 / 90.0, 5.0]),
        ("lia", &equal, [4.0 / 490.0, 15.0, 4.0 / 490.0, 20.0]),
        // 1/90 · 3/2 · 6/5 = 0.02, and the cut is capped at 1.5 halves.
        ("balia", &unequal, [0.02, 7.5, 4.0 / 90.0, 5.0]),
        // 3/490 · (7/3)/2 · (16/3)/5 = 8/1050, and 15 · 4/3.
        ("balia", &equal, [8.0 / 1050.0, 20.0, 4.0 / 490.0, 20.0]),
        // Balia's increase: (0.8·100 + 0.2·200)/(0.1 · 90,000) · (1+0.5) = 0.02. The decrease is 5
        // · (1+0.5).
        ("generalized", &unequal, [0.02, 7.5, 4.0 / 90.0, 5.0]),
        // The same increase, and 15 · (1 + 0.5/3), where Balia has 15 · 4/3.
        (
            "generalized",
            &equal,
            [8.0 / 1050.0, 17.5, 4.0 / 490.0, 20.0],
        ),
        // (0.5·300 + 0.5·500)/(0.1 · 490,000) · (1 + 1/3) = 400/49,000 · 4/3 and 15 · 4/3;
        // (0.5·400 + 0.5·500)/49,000 and 20.
        (
            "generalized:beta=0.5,n=2,eta=1",
            &equal,
            [8.0 / 735.0, 20.0, 9.0 / 980.0, 20.0],
        ),
        // The cap is for the decrease alone: 15 · 1.2.
        (
            "generalized:beta=0.5,n=2,eta=1,cap=1.2",
            &equal,
            [8.0 / 735.0, 18.0, 9.0 / 980.0, 20.0],
        ),
        // η = 9: 1 + 9 · (2−1) = 10 halves of 10 packets, which is more than there is.
        (
            "generalized:beta=0,eta=9",
            &unequal,
            [10.0 / 90.0, 50.0, 4.0 / 90.0, 5.0],
        ),
        (
            "generalized:beta=0,eta=9,cap=1.5",
            &unequal,
            [10.0 / 90.0, 7.5, 4.0 / 90.0, 5.0],
        ),
    ];
    for (name, two, want) in rows {
        let law = law(name);
        let got = [
            law.increase(two, 0),
            law.decrease(two, 0),
            law.increase(two, 1),
            law.decrease(two, 1),
        ];
        for (want, got) in want.iter().zip(got) {
            assert!(close(*want, got), "{name}: {want:?} {got:?}");
        }
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
    for (name, with_five) in [
        ("reno", 2.0),
        ("ewtcp", 2.0),
        ("coupled", 1.0),
        ("semicoupled", 2.0),
        ("lia", 2.0),
        ("balia", 1.0),
        ("generalized", 1.0),
    ] {
        assert_eq!(law(name).min_ssthresh(1), 2.0, "{name}");
        assert_eq!(law(name).min_ssthresh(5), with_five, "{name}");
    }
}

/// Rates of which a high power is beyond f64, and a power so high that only the maximum is left of
/// the norm.
#[test]
fn norms_neither_overflow_nor_vanish() {
    let fast = paths::<f64>(&[(1e5, 1e-5), (1e4, 1e-5), (1.0, 10.0)]);
    for (n, norm) in [("40", 1e10), ("1e300", 1e10), ("inf", 1e10)] {
        let law = law(&format!("generalized:beta=1,eta=0,n={n}"));
        // ‖x‖_n/(τ S²).
        let total = 1e10 + 1e9 + 0.1;
        assert!(close(law.increase(&fast, 0), norm / (1e-5 * total * total)));
    }
}
