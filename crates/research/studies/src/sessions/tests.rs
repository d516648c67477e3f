//! The experiments in short, with bounds as wide as short runs need.

use std::time::Duration;

use manyway_simulate::measure::in_parallel;
use manyway_units::Rate;

use super::aggregation::{Aggregation, AggregationRun, NETWORKS};
use super::fairness::Fairness;
use super::return_path::ReturnPath;
use crate::statistics::mean;

fn aggregation(network: usize, law: &str) -> AggregationRun {
    let (_, paths) = NETWORKS[network];
    let paths = paths
        .iter()
        .map(|(mbps, ms)| (Rate::from_mbps(*mbps), Duration::from_millis(*ms)));
    let experiment = Aggregation {
        paths: paths.collect(),
        law: law.parse().unwrap(),
        jitter: Duration::ZERO,
        seed: 1,
        from: 10.0,
        until: 75.0,
    };
    experiment.run()
}

/// The gate of the full version, over as long a span: a shorter one may deliver more than the links
/// carry in it, what waited for the slower path before.
fn carries_nearly_the_sum(law: &str) {
    let equal = aggregation(0, law);
    assert!(
        (0.93..1.01).contains(&equal.after_headers),
        "{law}: {equal:#?}"
    );
    assert!(equal.ramp_up.is_some_and(|s| s < 3.0), "{law}: {equal:#?}");
    let unequal = aggregation(1, law);
    assert!(
        (0.93..1.01).contains(&unequal.after_headers),
        "{law}: {unequal:#?}"
    );
}

#[test]
fn two_paths_carry_nearly_their_sum() {
    for law in ["lia", "balia", "cubic"] {
        carries_nearly_the_sum(law);
    }
}

#[test]
fn two_paths_carry_nearly_their_sum_with_laws_that_keep_a_state() {
    for law in ["wvegas", "wvegas:forward=1", "bmc", "bmc-balance", "mpath"] {
        carries_nearly_the_sum(law);
    }
}

#[test]
fn a_hundred_megabits_twice() {
    let experiment = Aggregation {
        paths: vec![(Rate::from_mbps(100.0), Duration::from_millis(10)); 2],
        law: "lia".parse().unwrap(),
        jitter: Duration::ZERO,
        seed: 1,
        from: 3.0,
        until: 6.0,
    };
    let run = experiment.run();
    assert!((0.92..1.01).contains(&run.after_headers), "{run:#?}");
}

fn share(law: &str) -> f64 {
    let seeds = [1, 2].map(|seed| Fairness {
        law: law.parse().unwrap(),
        seed,
        from: 20.0,
        until: 65.0,
    });
    let shares: Vec<f64> = in_parallel(&seeds, 2, |fairness| fairness.run().share);
    mean(&shares)
}

/// The gates of the full version: LIA 0.45-0.59, Balia 0.45-0.56, Balia ≤ LIA < uncoupled (near
/// 0.67).
#[test]
fn two_subflows_through_one_bottleneck_are_no_two_connections() {
    let (lia, balia, uncoupled) = (share("lia"), share("balia"), share("reno"));
    assert!((0.42..0.62).contains(&lia), "LIA {lia}");
    assert!((0.42..0.60).contains(&balia), "Balia {balia}");
    assert!(
        (0.63..0.71).contains(&uncoupled),
        "uncoupled Reno {uncoupled}"
    );
    assert!(
        lia < uncoupled - 0.04 && balia < uncoupled - 0.04,
        "{lia} {balia} {uncoupled}"
    );
}

/// Beside one Reno flow; in full .42, .52, .52 and .58. wVegas keeps few packets queued and gets
/// what that is worth, BMC's weights make one flow of two paths.
#[test]
fn shares_of_laws_with_a_state() {
    for (law, range) in [
        ("wvegas", 0.30..0.52),
        ("bmc", 0.38..0.60),
        ("bmc-balance", 0.38..0.62),
        ("mpath", 0.45..0.66),
    ] {
        let share = share(law);
        assert!(range.contains(&share), "{law}: {share}");
    }
}

/// Receive timestamps get to the law: queues on the return path are none of its business then. What
/// is lost with four flows there is lost to acknowledgements that come in lumps; LIA loses as much.
#[test]
fn forward_delay_keeps_a_path_whose_way_back_is_congested() {
    for (law, against, range) in [
        ("wvegas", 0, 0.97..1.01),
        ("wvegas", 1, 0.0..0.10),
        ("wvegas", 4, 0.0..0.10),
        ("wvegas:forward=1", 0, 0.97..1.01),
        ("wvegas:forward=1", 1, 0.80..1.01),
        ("wvegas:forward=1", 4, 0.55..1.01),
    ] {
        let run = ReturnPath {
            law: law.parse().unwrap(),
            against,
            seed: 1,
            from: 20.0,
            until: 50.0,
        }
        .run();
        let [congested, free] = run.utilisation;
        assert!(
            range.contains(&congested),
            "{law}, {against} flows: {run:?}"
        );
        assert!(free > 0.97, "{law}, {against} flows: {run:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_numbers() {
    let fairness = Fairness {
        law: "lia".parse().unwrap(),
        seed: 3,
        from: 5.0,
        until: 12.0,
    };
    let (first, second) = (fairness.run(), fairness.run());
    assert_eq!(
        serde_json::to_string(&first).unwrap(),
        serde_json::to_string(&second).unwrap()
    );
}
