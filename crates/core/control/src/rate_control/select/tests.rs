use proptest::prelude::*;

use super::*;

const PROPORTIONAL: Choice = Choice::Proportional { error: 0.0 };

/// How often each relay is chosen by 4000 sources.
fn counts(config: SelectConfig, bandwidths: &[f64]) -> Vec<f64> {
    let mut counts = vec![0.0; bandwidths.len()];
    for seed in 0..4000 {
        let selector = PathSelector::new(config, bandwidths, seed).unwrap();
        selector
            .relays()
            .iter()
            .for_each(|&relay| counts[relay] += 1.0 / 4000.0);
    }
    counts
}

#[test]
fn chooses_uniformly_or_in_proportion() {
    let bandwidths = [4.0, 2.0, 1.0, 1.0];
    let uniform = counts(SelectConfig::new(2), &bandwidths);
    // Standard deviations of these shares are 0.008 at most.
    assert!(
        uniform.iter().all(|share| (share - 0.5).abs() < 0.04),
        "{uniform:?}"
    );
    let one = counts(SelectConfig::new(1).with_choice(PROPORTIONAL), &bandwidths);
    for (share, bandwidth) in one.iter().zip(bandwidths) {
        assert!((share - bandwidth / 8.0).abs() < 0.04, "{one:?}");
    }
    // The second without the first: 1/2 + 1/4·4/6 + 2·1/8·4/7 for the largest.
    let two = counts(SelectConfig::new(2).with_choice(PROPORTIONAL), &bandwidths);
    assert!(
        (two[0] - (0.5 + 1.0 / 6.0 + 1.0 / 7.0)).abs() < 0.04,
        "{two:?}"
    );
    // The mean of the errors is none, but for the curvature of shares.
    let wrong = Choice::Proportional { error: 0.5 };
    let wrong = counts(SelectConfig::new(1).with_choice(wrong), &bandwidths);
    assert!(
        wrong.iter().zip(&one).all(|(a, b)| (a - b).abs() < 0.06),
        "{wrong:?}"
    );
}

#[test]
fn a_relay_without_bandwidth_is_the_last_resort() {
    let config = SelectConfig::new(2).with_choice(PROPORTIONAL);
    for seed in 0..50 {
        let chosen = PathSelector::new(config, &[0.0, 1.0, 0.0, 1.0], seed).unwrap();
        assert!(!chosen.relays().contains(&0) && !chosen.relays().contains(&2));
        let chosen = PathSelector::new(config, &[0.0, 1.0, 0.0], seed).unwrap();
        assert!(chosen.relays().contains(&1) && chosen.relays().len() == 2);
    }
}

#[test]
fn who_reselects_what() {
    let relays = [1.0; 100];
    let with = |reselection| {
        let config = SelectConfig::new(3)
            .with_reselection(reselection)
            .with_satisfied(0.9);
        PathSelector::new(config, &relays, 5).unwrap()
    };
    for reselection in [Reselection::All, Reselection::Slowest] {
        let mut selector = with(reselection);
        let before = selector.relays().to_vec();
        assert!(
            !selector.reselect(&[3.0, 3.0, 3.0], 10.0),
            "9 of 10 is enough"
        );
        assert_eq!(selector.relays(), before);
    }
    let mut slowest = with(Reselection::Slowest);
    let before = slowest.relays().to_vec();
    assert!(slowest.reselect(&[4.0, 1.0, 2.0], 10.0));
    assert_eq!(
        (slowest.relays()[0], slowest.relays()[2]),
        (before[0], before[2])
    );
    assert!(!before.contains(&slowest.relays()[1]), "another relay");

    let mut all = with(Reselection::All);
    assert!(all.reselect(&[4.0, 1.0, 2.0], 10.0));
    assert!(
        all.relays().iter().all(|relay| !before.contains(relay)),
        "of 100, with this seed"
    );

    let mut everyone = with(Reselection::Everyone);
    assert!(everyone.reselect(&[4.0, 4.0, 2.0], 10.0));
    assert_ne!(everyone.relays(), before);
}

#[test]
fn refuses_more_paths_than_relays() {
    let error = PathSelector::new(SelectConfig::new(3), &[1.0; 2], 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "3 paths need as many relays, but there are 2: choose fewer paths, or add relays"
    );
    assert!(PathSelector::new(SelectConfig::new(0), &[1.0; 2], 1).is_err());
    let wrong = SelectConfig::new(1).with_choice(Choice::Proportional { error: 1.0 });
    assert!(PathSelector::new(wrong, &[1.0; 2], 1).is_err());
    let nonsense = SelectConfig::new(1).with_choice(PROPORTIONAL);
    assert!(PathSelector::new(nonsense, &[1.0, f64::NAN], 1).is_err());
}

proptest! {
    #[test]
    fn relays_are_known_and_all_different(
        bandwidths in prop::collection::vec(0.0..1e9_f64, 1..20),
        wanted in 1..20_usize,
        error in prop::option::of(0.0..0.99_f64),
        reselection in prop_oneof![
            Just(Reselection::All),
            Just(Reselection::Slowest),
            Just(Reselection::Everyone),
        ],
        rates in prop::collection::vec(prop_oneof![0.0..1.0_f64, prop::num::f64::ANY], 0..30),
        seed: u64,
    ) {
        let paths = wanted.min(bandwidths.len());
        let choice = error.map_or(Choice::Uniform, |error| Choice::Proportional { error });
        let config = SelectConfig::new(paths).with_choice(choice).with_reselection(reselection);
        let mut selector = PathSelector::new(config, &bandwidths, seed).unwrap();
        for rates in rates.chunks(3) {
            selector.reselect(rates, 1.0);
            let mut relays = selector.relays().to_vec();
            relays.sort_unstable();
            relays.dedup();
            prop_assert_eq!(relays.len(), paths);
            prop_assert!(relays.iter().all(|&relay| relay < bandwidths.len()));
        }
    }
}
