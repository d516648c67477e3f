use manyway_control::rate_control::RoundRobin;
use proptest::prelude::*;

use super::*;

fn shared(capacities: &[f64], paths: &[&[usize]], sharing: Sharing, offered: &[f64]) -> Vec<f64> {
    let paths: Vec<Vec<usize>> = paths.iter().map(|links| links.to_vec()).collect();
    let mut links = SharedLinks::new(capacities.to_vec(), &paths).unwrap();
    let mut rates = vec![f64::NAN; paths.len()];
    links.share(sharing, offered, &mut rates);
    rates
}

fn assert_close(found: &[f64], expected: &[f64]) {
    let close = found
        .iter()
        .zip(expected)
        .all(|(a, b)| (a - b).abs() < 1e-9);
    assert!(
        close && found.len() == expected.len(),
        "{found:?} instead of {expected:?}"
    );
}

#[test]
fn who_loses_on_one_link() {
    let one: &[&[usize]] = &[&[0], &[0], &[0]];
    let with = |sharing, offered: &[f64]| shared(&[9.0], one, sharing, offered);
    for sharing in Sharing::ALL {
        assert_close(&with(sharing, &[1.0, 3.0, 5.0]), &[1.0, 3.0, 5.0]);
    }
    let offered = [1.0, 5.0, 6.0];
    assert_close(&with(Sharing::MaxMin, &offered), &[1.0, 4.0, 4.0]);
    assert_close(&with(Sharing::Proportional, &offered), &[0.75, 3.75, 4.5]);
    assert_close(&with(Sharing::EqualLoss, &offered), &[0.0, 4.0, 5.0]);
    // Who offers less than the common loss loses all, and the others no more than the rest.
    assert_close(
        &with(Sharing::EqualLoss, &[0.5, 7.5, 10.0]),
        &[0.0, 3.25, 5.75],
    );
    assert_close(&with(Sharing::MaxMin, &[9.0, 9.0, 9.0]), &[3.0, 3.0, 3.0]);
    for sharing in Sharing::ALL {
        assert_close(&shared(&[0.0], one, sharing, &offered), &[0.0; 3]);
    }
}

#[test]
fn over_several_links() {
    // The parking lot: one path over both links.
    let lot: &[&[usize]] = &[&[0, 1], &[0], &[1]];
    let with = |sharing| shared(&[6.0, 9.0], lot, sharing, &[10.0, 10.0, 10.0]);
    assert_close(&with(Sharing::MaxMin), &[3.0, 3.0, 6.0]);
    assert_close(&with(Sharing::Proportional), &[3.0, 3.0, 4.5]);
    assert_close(&with(Sharing::EqualLoss), &[3.0, 3.0, 4.5]);
    assert_close(
        &shared(&[6.0, 9.0], lot, Sharing::MaxMin, &[1.0, 10.0, 10.0]),
        &[1.0, 5.0, 8.0],
    );
}

#[test]
fn refuses_what_it_cannot_share() {
    let wrong = |capacities: &[f64], paths: &[Vec<usize>]| {
        SharedLinks::new(capacities.to_vec(), paths)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        wrong(&[1.0], &[vec![0], vec![1]]),
        "path 1 has links [1] of 1: it needs one or more different ones, counted from 0"
    );
    assert!(wrong(&[1.0], &[vec![]]).starts_with("path 0"));
    assert!(wrong(&[1.0, 1.0], &[vec![0, 1, 0]]).starts_with("path 0"));
    assert_eq!(
        wrong(&[1.0, f64::NAN], &[]),
        "capacity of link 1 is NaN: it must be a finite number of 0 or more"
    );
}

/// Links, paths over one to three of them, and what is offered.
fn networks(most: usize) -> impl Strategy<Value = (Vec<f64>, Vec<Vec<usize>>, Vec<f64>)> {
    prop::collection::vec(0.0..10.0_f64, 3..7).prop_flat_map(move |capacities| {
        let links: Vec<usize> = (0..capacities.len()).collect();
        let path = prop::sample::subsequence(links, 1..=most);
        let paths = prop::collection::vec((path, 0.0..10.0_f64), 1..12);
        (Just(capacities), paths).prop_map(|(capacities, paths)| {
            let (paths, offered) = paths.into_iter().unzip();
            (capacities, paths, offered)
        })
    })
}

fn load(paths: &[Vec<usize>], rates: &[f64], link: usize) -> f64 {
    let over = paths
        .iter()
        .zip(rates)
        .filter(|(links, _)| links.contains(&link));
    over.map(|(_, rate)| rate).sum()
}

proptest! {
    #[test]
    fn keeps_to_capacities_and_offers((capacities, paths, offered) in networks(3)) {
        let mut links = SharedLinks::new(capacities.clone(), &paths).unwrap();
        let mut rates = vec![0.0; paths.len()];
        for sharing in Sharing::ALL {
            links.share(sharing, &offered, &mut rates);
            for (rate, offered) in rates.iter().zip(&offered) {
                prop_assert!((0.0..=*offered).contains(rate));
            }
            for (link, capacity) in capacities.iter().enumerate() {
                prop_assert!(load(&paths, &rates, link) <= capacity + 1e-9);
                let overloaded = load(&paths, &offered, link) > capacity * (1.0 + 1e-9);
                // Everyone is told, if the rule says so.
                for (path, links) in paths.iter().enumerate() {
                    if overloaded && sharing.tells_everyone() && links.contains(&link) && offered[path] > 0.0 {
                        prop_assert!(rates[path] < offered[path]);
                    }
                }
            }
        }
    }

    /// Max-min, as its definition says: a path that gets less than it offers has a full link on
    /// which no other gets more.
    #[test]
    fn max_min_has_bottlenecks((capacities, paths, offered) in networks(3)) {
        let mut links = SharedLinks::new(capacities.clone(), &paths).unwrap();
        let mut rates = vec![0.0; paths.len()];
        links.share(Sharing::MaxMin, &offered, &mut rates);
        for path in 0..paths.len() {
            let bottleneck = |&link: &usize| {
                let others = (0..paths.len()).filter(|&other| paths[other].contains(&link));
                load(&paths, &rates, link) >= capacities[link] - 1e-9
                    && others.map(|other| rates[other]).fold(0.0, f64::max) <= rates[path] + 1e-9
            };
            prop_assert!(rates[path] >= offered[path] - 1e-9 || paths[path].iter().any(bottleneck));
        }
    }

    /// Looked at link by link it is the same as filled progressively.
    #[test]
    fn one_link_per_path_is_no_special_case((capacities, paths, offered) in networks(1)) {
        let mut links = SharedLinks::new(capacities, &paths).unwrap();
        let (mut quick, mut filled) = (vec![0.0; paths.len()], vec![0.0; paths.len()]);
        links.share(Sharing::MaxMin, &offered, &mut quick);
        links.single = false;
        links.share(Sharing::MaxMin, &offered, &mut filled);
        for (quick, filled) in quick.iter().zip(&filled) {
            prop_assert!((quick - filled).abs() < 1e-9);
        }
    }

    /// Each source takes turns over the paths that are still writable, unit by unit, as the
    /// procedure is described; the units are small.
    #[test]
    fn the_limit_of_cycling_over_paths(
        (capacities, paths, _) in networks(1),
        demands in prop::collection::vec(0.0..10.0_f64, 12),
    ) {
        const UNIT: f64 = 0.01;
        let links = SharedLinks::new(capacities.clone(), &paths).unwrap();
        // Sources of up to two paths, on different links as the selection has it.
        let owners: Vec<usize> = (0..paths.len()).map(|path| path / 2).collect();
        let sources = paths.len().div_ceil(2);
        let found = links.fill_to_demands(&owners, &demands[..sources]);
        let mut left = capacities;
        let (mut units, mut cycles) = (vec![0.0; paths.len()], vec![RoundRobin::default(); sources]);
        let mut sent = vec![0.0; sources];
        let mut moved = true;
        while moved {
            moved = false;
            for source in 0..sources {
                // A source with two writable paths sends two units in the time in which one with
                // one path sends one.
                let own: Vec<usize> = (0..paths.len()).filter(|&path| owners[path] == source).collect();
                let writable = own.iter().filter(|&&path| left[paths[path][0]] >= UNIT).count();
                for _ in 0..writable {
                    if sent[source] + UNIT > demands[source] {
                        break;
                    }
                    if let Some(at) = cycles[source].next(own.len(), |at| left[paths[own[at]][0]] >= UNIT) {
                        left[paths[own[at]][0]] -= UNIT;
                        units[own[at]] += UNIT;
                        sent[source] += UNIT;
                        moved = true;
                    }
                }
            }
        }
        for (path, (found, units)) in found.iter().zip(&units).enumerate() {
            // A unit is missing where a link is full, here and on links before.
            prop_assert!((found - units).abs() < 0.15, "path {path}: {found} and {units}");
        }
    }
}
