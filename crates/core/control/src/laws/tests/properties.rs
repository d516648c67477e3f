use std::time::Duration;

use manyway_units::Time;
use num_dual::Dual64;
use proptest::prelude::*;

use super::*;
use crate::controller::{Ack, Controller, Loss, NewPath};
use crate::options::{Options, SlowStartKind};
use crate::registry::laws;
use crate::registry::tests::{spec, spec_from};

/// The window laws of the registry, each with its parameters at these fractions of their ranges.
fn every_law(fractions: [f64; 4]) -> impl Iterator<Item = (LawSpec, AnyLaw)> {
    laws().filter_map(move |law| {
        let spec = spec_from(law.name(), fractions);
        let law = spec.window_law()?;
        Some((spec, law))
    })
}

/// The laws' defaults, with which all but EWTCP and the generalized class have to do.
fn every_default() -> impl Iterator<Item = AnyLaw> {
    laws().filter_map(|law| law.window_law())
}

/// Laws with which one path alone is Reno, EWTCP and BMC with their defaults.
const RENO_ALONE: [&str; 12] = [
    "reno",
    "ewtcp",
    "coupled",
    "semicoupled",
    "lia",
    "balia",
    "generalized",
    "olia",
    "mpath",
    "bmc",
    "bmc-proportion",
    "bmc-balance",
];

fn fractions() -> impl Strategy<Value = [f64; 4]> {
    // The ends of the ranges too: infinity is at 1.
    let fraction = prop_oneof![8 => 0.0..1.0f64, 1 => Just(0.0), 1 => Just(1.0)];
    proptest::array::uniform4(fraction)
}

fn path() -> impl Strategy<Value = (f64, f64)> {
    (1.0..1e5f64, 1e-5..10.0f64)
}

/// A dual number's real part is the f64 result (up to rounding: it divides by multiplying with the
/// inverse), and its derivative is the slope, by every window and every round-trip time.
fn differentiates(law: &AnyLaw, at: &[(f64, f64)]) {
    type Rule<D> = fn(&AnyLaw, &[Path<D>], usize) -> D;
    let rules: [(Rule<f64>, Rule<Dual64>); 2] = [
        (AnyLaw::increase::<f64>, AnyLaw::increase::<Dual64>),
        (AnyLaw::decrease::<f64>, AnyLaw::decrease::<Dual64>),
    ];
    for (real, dual) in rules {
        for r in 0..at.len() {
            for (k, by_rtt) in (0..at.len()).flat_map(|k| [(k, false), (k, true)]) {
                let mut seeded = paths::<Dual64>(at);
                let variable = if by_rtt {
                    &mut seeded[k].rtt
                } else {
                    &mut seeded[k].window
                };
                *variable = variable.derivative();
                let value = variable.re;
                let exact = dual(law, &seeded, r);
                assert!((exact.re / real(law, &paths::<f64>(at), r) - 1.0).abs() < 1e-9);

                let h = value * 1e-5;
                let shifted = |by: f64| {
                    let mut moved = paths::<f64>(at);
                    let variable = if by_rtt {
                        &mut moved[k].rtt
                    } else {
                        &mut moved[k].window
                    };
                    *variable += by;
                    real(law, &moved, r)
                };
                let slope = (shifted(h) - shifted(-h)) / (2.0 * h);
                let scale = exact.eps.abs().max(exact.re.abs() / value);
                assert!(
                    (exact.eps - slope).abs() <= 1e-7 * scale,
                    "{law:?} {at:?} r {r} k {k}: {} against {slope}",
                    exact.eps
                );
            }
        }
    }
}

/// Away from the kinks of max and min.
const SMOOTH: [&[(f64, f64)]; 4] = [
    &[(10.0, 0.1), (10.0, 0.05)],
    &[(50.0, 0.03), (20.0, 0.03), (7.0, 0.2)],
    &[(100.0, 1.0), (2.0, 0.01)],
    &[(33.0, 0.04)],
];

#[test]
fn derivatives_match_finite_differences() {
    for law in every_default() {
        for at in SMOOTH {
            differentiates(&law, at);
        }
    }
}

/// The kink of the cap is somewhere else with each choice of parameters.
fn at_a_cap(law: &AnyLaw, at: &[(f64, f64)]) -> bool {
    let AnyLaw::Generalized(generalized) = law else {
        return false;
    };
    let rates = paths::<f64>(at);
    let largest = rates.iter().map(Path::rate).fold(0.0, f64::max);
    let mut others = rates.iter().map(Path::rate).filter(|&rate| rate < largest);
    others.any(|rate| {
        let gain = 1.0 + generalized.eta * (largest / rate - 1.0);
        (gain / generalized.cap - 1.0).abs() < 1e-3
    })
}

fn phi(law: &impl WindowLaw, paths: &[Path<f64>], r: usize) -> f64 {
    law.increase(paths, r) / law.decrease(paths, r)
}

proptest! {
    #[test]
    fn derivatives_match_whatever_the_parameters(fractions in fractions()) {
        for (_, law) in every_law(fractions) {
            for at in SMOOTH {
                if !at_a_cap(&law, at) {
                    differentiates(&law, at);
                }
            }
        }
    }

    #[test]
    fn alone_many_laws_are_reno((window, rtt) in path(), fractions in fractions()) {
        let one = paths::<f64>(&[(window, rtt)]);
        let reno_alone = |(spec, _): &(LawSpec, AnyLaw)| RENO_ALONE.contains(&spec.name());
        for (spec, law) in every_law(fractions).filter(reno_alone) {
            let a = match law {
                AnyLaw::Ewtcp(ewtcp) => ewtcp.a,
                _ => 1.0,
            };
            prop_assert!((law.increase(&one, 0) * window / a - 1.0).abs() < 1e-9, "{spec}");
            prop_assert!((law.decrease(&one, 0) / window * 2.0 - 1.0).abs() < 1e-12, "{spec}");
        }
        for law in every_default().filter(|law| RENO_ALONE.contains(&law.name())) {
            prop_assert!(close(law.increase(&one, 0), 1.0 / window), "{law:?}");
        }
    }

    /// Their controllers move one path's window as Reno does, whatever happens to it.
    #[test]
    fn alone_many_controllers_run_like_reno(
        steps in proptest::collection::vec((0..12u32, 1.0..10.0f64, 1..300u64), 0..200),
        fractions in fractions(),
    ) {
        let options = Options::default().with_slow_start(SlowStartKind::Standard);
        let add = NewPath {
            now: Time::ZERO,
            initial_window: 10.0,
            packet_size: 1448,
            initial_rtt: Duration::from_millis(100),
        };
        let mut reno = "reno".parse::<LawSpec>().unwrap().controller(&options);
        let slot = reno.add_path(add);
        let specs = RENO_ALONE.iter().map(|&name| match name {
            "ewtcp" | "bmc" | "bmc-proportion" | "bmc-balance" => name.parse().unwrap(),
            _ => spec_from(name, fractions),
        });
        let made = specs.map(|spec: LawSpec| (spec.controller(&options), spec));
        let mut others: Vec<_> = made.collect();
        for (other, _) in &mut others {
            prop_assert_eq!(other.add_path(add), slot);
        }

        let mut now = Time::ZERO;
        for (what, packets, rtt_ms) in steps {
            let rtt = Duration::from_millis(rtt_ms);
            now += rtt;
            let apply = |controller: &mut dyn Controller| match what {
                0 => controller.on_timeout(slot, now),
                1..3 => controller.on_loss(&Loss { slot, now, sent: now, packets: 1.0 }),
                _ => controller.on_ack(&Ack {
                    slot,
                    now,
                    packets,
                    rtt,
                    rtt_sampled: true,
                    smoothed_rtt: rtt,
                    min_rtt: rtt,
                    sent: Time::ZERO,
 received: None,
                    app_limited: false,
                    in_recovery: false,
                    delivery: None,
                }),
            };
            apply(&mut reno);
            for (other, spec) in &mut others {
                apply(other);
                let (window, want) = (other.window(slot), reno.window(slot));
                prop_assert!((window / want - 1.0).abs() < 1e-9, "{spec} {window} {want}");
                prop_assert_eq!(other.in_slow_start(slot), reno.in_slow_start(slot));
            }
        }
    }

    #[test]
    fn every_law_is_sound(
        of in proptest::collection::vec(path(), 1..12),
        fractions in fractions(),
    ) {
        let real = paths::<f64>(&of);
        let dual = paths::<Dual64>(&of);
        for (spec, law) in every_law(fractions) {
            for r in 0..of.len() {
                let (up, down) = (law.increase(&real, r), law.decrease(&real, r));
                prop_assert!(up > 0.0 && up.is_finite(), "{spec} {up}");
                prop_assert!(down > 0.0 && down.is_finite(), "{spec} {down}");
                prop_assert!((law.increase(&dual, r).re / up - 1.0).abs() < 1e-9, "{spec}");
                prop_assert!((law.decrease(&dual, r).re / down - 1.0).abs() < 1e-9, "{spec}");
            }
        }
        // Of the laws that are Reno alone none without parameters is more aggressive than Reno on a
        // path, and none takes a window whole.
        for law in every_default().filter(|law| RENO_ALONE.contains(&law.name())) {
            let bounded = spec(WindowLaw::name(&law)).parameters().next().is_none();
            for (r, &(window, _)) in of.iter().enumerate().filter(|_| bounded) {
                prop_assert!(law.increase(&real, r) * window <= 1.0 + 1e-12, "{law:?}");
                prop_assert!(law.decrease(&real, r) <= 0.75 * window, "{law:?}");
            }
        }
    }

    /// With equal round-trip times, `W = Σ w_k`, the laws are functions of the windows alone.
    #[test]
    fn closed_forms_for_equal_round_trips(
        windows in proptest::collection::vec(1.0..1e4f64, 1..10),
        rtt in 1e-4..5.0f64,
    ) {
        let of: Vec<_> = windows.iter().map(|&w| (w, rtt)).collect();
        let of = paths::<f64>(&of);
        let total: f64 = windows.iter().sum();
        let largest = windows.iter().copied().fold(0.0, f64::max);
        let cubes: f64 = windows.iter().map(|w| w.powi(3)).sum();
        for (r, &w) in windows.iter().enumerate() {
            let alpha = largest / w;
            let square = total * total;
            for (name, increase, decrease) in [
                ("ewtcp:a=0.25", 0.25 / w, w / 2.0),
                ("coupled", w / square, w / 2.0),
                ("semicoupled", 1.0 / total, w / 2.0),
                ("lia", (largest / square).min(1.0 / w), w / 2.0),
                (
                    "balia",
                    w / square * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0,
                    w / 2.0 * alpha.min(1.5),
                ),
                (
                    "generalized:beta=0.3,n=3,eta=2",
                    (0.7 * w + 0.3 * cubes.cbrt()) / square * (2.0 * alpha - 1.0),
                    w / 2.0 * (2.0 * alpha - 1.0),
                ),
                (
                    "generalized:cap=1.5",
                    w / square * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0,
                    w / 2.0 * ((1.0 + alpha) / 2.0).min(1.5),
                ),
            ] {
                let law = law(name);
                let (up, down) = (law.increase(&of, r), law.decrease(&of, r));
                prop_assert!((up / increase - 1.0).abs() < 1e-9, "{name} {up} {increase}");
                prop_assert!((down / decrease - 1.0).abs() < 1e-9, "{name} {down} {decrease}");
            }
        }
    }

    /// What eq. (16) contains: with any round-trip times Coupled, Semicoupled and Balia's increase,
    /// with equal ones LIA.
    #[test]
    fn the_generalized_class_contains_the_others(
        of in proptest::collection::vec(path(), 1..10),
        rtt in 1e-4..5.0f64,
    ) {
        let any = paths::<f64>(&of);
        let equal: Vec<_> = of.iter().map(|&(w, _)| (w, rtt)).collect();
        let equal = paths::<f64>(&equal);
        for r in 0..of.len() {
            for (name, member, paths) in [
                ("generalized:beta=0,eta=0", FullyCoupled.increase(&any, r), &any),
                ("generalized:beta=1,eta=0,n=1", Semicoupled.increase(&any, r), &any),
                ("generalized:beta=0.2,eta=0.5,n=inf", Balia.increase(&any, r), &any),
                ("generalized:beta=1,eta=0,n=inf", Lia.increase(&equal, r), &equal),
            ] {
                let increase = law(name).increase(paths, r);
                prop_assert!((increase / member - 1.0).abs() < 1e-9, "{name} {increase} {member}");
                if name.contains("eta=0,") || name.ends_with("eta=0") {
                    prop_assert!(close(law(name).decrease(paths, r), Reno.decrease(paths, r)));
                }
            }
        }
    }

    /// Section III of the paper: with equal round-trip times φ, and with it aggressiveness, is
    /// ordered.
    #[test]
    fn phi_is_ordered(
        windows in proptest::collection::vec(1.0..1e4f64, 1..10),
        rtt in 1e-4..5.0f64,
    ) {
        let of: Vec<_> = windows.iter().map(|&w| (w, rtt)).collect();
        let of = paths::<f64>(&of);
        for r in 0..of.len() {
            let order = ["ewtcp:a=2", "ewtcp", "semicoupled", "lia", "coupled"];
            let values: Vec<f64> = order.iter().map(|name| phi(&law(name), &of, r)).collect();
            for pair in values.windows(2) {
                prop_assert!(pair[0] >= pair[1] * (1.0 - 1e-12), "{values:?}");
            }
        }
    }
}
