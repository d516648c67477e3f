//! Short versions of the experiments of `examples/must_show.rs`, with bounds as wide as short runs need. `docs/results` has the full ones.

use std::time::Duration;

use manyway_simulate::measure::{Summary, in_parallel};
use manyway_simulate::stack::experiments::{
    AGGREGATION_NETWORKS, Aggregation, AggregationRun, Fairness, ReturnPath,
};
use manyway_units::Rate;

fn aggregation(network: usize, law: &str) -> AggregationRun {
    let (_, paths) = AGGREGATION_NETWORKS[network];
    let paths = paths
        .iter()
        .map(|(mbps, ms)| (Rate::from_mbps(*mbps), Duration::from_millis(*ms)));
    let experiment = Aggregation {
        paths: paths.collect(),
        law: law.to_owned(),
        jitter: Duration::ZERO,
        seed: 1,
        from: 10.0,
        until: 25.0,
    };
    experiment.run()
}

/// The gate of the full version is 0.93 over 60 s; these are 15 s, in which a few cuts more or less show.
#[test]
fn two_paths_carry_nearly_their_sum() {
    for law in ["lia", "balia", "cubic"] {
        let equal = aggregation(0, law);
        assert!(
            (0.92..1.01).contains(&equal.after_headers),
            "{law}: {equal:#?}"
        );
        assert!(equal.ramp_up.is_some_and(|s| s < 3.0), "{law}: {equal:#?}");
        let unequal = aggregation(1, law);
        assert!(
            (0.88..1.01).contains(&unequal.after_headers),
            "{law}: {unequal:#?}"
        );
    }
}

#[test]
fn a_hundred_megabits_twice() {
    let experiment = Aggregation {
        paths: vec![(Rate::from_mbps(100.0), Duration::from_millis(10)); 2],
        law: "lia".to_owned(),
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
        law: law.to_owned(),
        seed,
        from: 20.0,
        until: 65.0,
    });
    let shares: Vec<f64> = in_parallel(&seeds, 2, |fairness| fairness.run().share);
    Summary::of(&shares).expect("two seeds").mean
}

/// The gates of the full version: LIA 0.45-0.59, Balia 0.45-0.56, Balia ≤ LIA < uncoupled (near 0.67).
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

/// The laws with a state of their own, in the transport.
#[test]
fn laws_with_a_state_carry_the_sum_too() {
    for law in ["wvegas", "wvegas:forward=1", "bmc", "bmc-balance", "mpath"] {
        for network in [0, 1] {
            let run = aggregation(network, law);
            println!("{law} {network} {:.3} {:?}", run.after_headers, run.ramp_up);
        }
    }
}

/// Queues on the way back are none of the forward delay's business, and receive timestamps get to the law.
#[test]
fn forward_delay_keeps_a_path_whose_way_back_is_congested() {
    for (law, against) in [
        ("wvegas", 0),
        ("wvegas", 4),
        ("wvegas:forward=1", 0),
        ("wvegas:forward=1", 1),
        ("wvegas:forward=1", 4),
        ("wvegas:forward=1,drain=0", 4),
        ("lia", 4),
    ] {
        let run = ReturnPath {
            law: law.to_owned(),
            against,
            seed: 1,
            from: 20.0,
            until: 50.0,
        }
        .run();
        println!("{law} {against} {run:?}");
    }
}

#[test]
fn shares_of_laws_with_a_state() {
    for law in ["wvegas", "bmc", "bmc-balance", "mpath"] {
        println!("{law} {:.3}", share(law));
    }
}

#[test]
fn the_same_seed_gives_the_same_numbers() {
    let fairness = Fairness {
        law: "lia".to_owned(),
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
