use manyway_control::overlay::{Choice, RateConfig, Reselection};

use super::*;
use crate::flow::{Sharing, Start};

fn search(reselection: Reselection, choice: Choice) -> Search {
    Search {
        select: SelectConfig::new(2)
            .with_reselection(reselection)
            .with_choice(choice)
            .with_satisfied(0.92),
        rules: Rules {
            control: RateConfig::aiad().with_tolerance(0.0),
            start: Start::MaxMin,
            sharing: Sharing::MaxMin,
        },
        intervals: 200,
        judged: 100,
        limit: 200,
    }
}

#[test]
fn unsatisfied_sources_find_other_relays() {
    let overlay = Overlay::skewed(vec![1.2e6; 30], 0.5, 1.6);
    for reselection in [Reselection::All, Reselection::Slowest] {
        for choice in [Choice::Uniform, Choice::Proportional { error: 0.5 }] {
            for seed in 0..5 {
                let found = search(reselection, choice).run(&overlay, seed).unwrap();
                let iterations = found
                    .iterations
                    .expect("a few iterations are enough at f = 1.6");
                assert!(
                    iterations <= 60 && found.last >= found.first.min(0.92),
                    "{found:?}"
                );
            }
        }
    }
}

/// Reselection is what finds a good selection: when satisfied sources move, too, it is a matter of luck.
#[test]
fn the_baseline_does_not() {
    let overlay = Overlay::skewed(vec![1.2e6; 30], 1.0, 1.6);
    let found = search(Reselection::Everyone, Choice::Uniform)
        .run(&overlay, 1)
        .unwrap();
    assert_eq!(found.iterations, None);
    assert!(
        search(Reselection::All, Choice::Uniform)
            .run(&overlay, 1)
            .unwrap()
            .iterations
            .is_some()
    );
}

#[test]
fn equal_seeds_find_the_same() {
    let overlay = Overlay::skewed(vec![1.0; 10], 0.5, 1.4);
    let run = |seed| {
        search(Reselection::All, Choice::Uniform)
            .run(&overlay, seed)
            .unwrap()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn refuses_to_judge_by_nothing() {
    let overlay = Overlay::skewed(vec![1.0; 10], 0.5, 1.4);
    let mut none = search(Reselection::All, Choice::Uniform);
    none.judged = 0;
    assert!(
        none.run(&overlay, 1)
            .unwrap_err()
            .to_string()
            .starts_with("a search judged by 0 of 200 intervals")
    );
    let mut relays = search(Reselection::All, Choice::Uniform);
    relays.select.paths = 11;
    assert!(
        relays
            .run(&overlay, 1)
            .unwrap_err()
            .to_string()
            .contains("11 paths need as many relays")
    );
}
