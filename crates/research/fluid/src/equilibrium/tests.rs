use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::law::FluidLaw;
use crate::network::{Flow, Link, Network, Route};

/// A law, and routes by their links and round-trip times in seconds.
type Spec<'a> = (&'a str, &'a [(&'a [usize], f64)]);

/// The same, owned.
type Drawn = (&'static str, Vec<(Vec<usize>, f64)>);

/// Links in Mbps; packets of 1500 B.
fn model(capacities: &[f64], flows: &[Spec<'_>]) -> Model {
    let link = |(n, mbps): (usize, &f64)| Link {
        name: format!("l{n}"),
        capacity: mbps * 1e6,
    };
    let flow = |(n, (_, routes)): (usize, &Spec<'_>)| Flow {
        name: format!("s{n}"),
        weight: 1.0,
        demand: None,
        routes: routes
            .iter()
            .enumerate()
            .map(|(n, (links, rtt))| Route {
                name: format!("r{n}"),
                links: links.to_vec(),
                rtt: *rtt,
                packet: 12_000.0,
            })
            .collect(),
    };
    let network = Network {
        links: capacities.iter().enumerate().map(link).collect(),
        flows: flows.iter().enumerate().map(flow).collect(),
    };
    let laws = flows.iter().map(|(law, _)| match *law {
        "max" => FluidLaw::Max,
        law => FluidLaw::of(&law.parse().unwrap()).unwrap(),
    });
    Model::new(network, laws.collect()).unwrap()
}

#[test]
fn reno_alone_is_the_square_root_law() {
    // n flows: x_i = √2/(τ_i √p), so that √p = Σ √2/τ_i / c.
    let rtts = [0.01, 0.05, 0.2];
    let routes: Vec<[(&[usize], f64); 1]> = rtts.iter().map(|&rtt| [(&[0][..], rtt)]).collect();
    let flows: Vec<Spec<'_>> = routes.iter().map(|r| ("reno", &r[..])).collect();
    let found = model(&[10.0], &flows).equilibrium();
    assert!(found.converged, "{found:?}");
    let capacity = 10e6 / 12_000.0;
    let root = rtts.iter().map(|rtt| 2f64.sqrt() / rtt).sum::<f64>() / capacity;
    assert!((found.prices[0] / (root * root) - 1.0).abs() < 1e-9);
    for (rate, rtt) in found.rates.iter().zip(rtts) {
        assert!((rate * rtt * root / 2f64.sqrt() - 1.0).abs() < 1e-9);
    }
}

/// Fig. 2 of Peng et al., one flow of each kind: single-path Reno on the second link beside a flow
/// on both.
fn beside_reno(law: &str) -> Equilibrium {
    let found = model(
        &[20.0, 20.0],
        &[
            (law, &[(&[0], 0.02), (&[1], 0.02)]),
            ("reno", &[(&[1], 0.02)]),
        ],
    )
    .equilibrium();
    assert!(found.converged, "{law}: {found:?}");
    found
}

#[test]
fn friendliness_follows_phi() {
    // With equal round-trip times: ewtcp ≥ semicoupled ≥ max ≥ balia ≥ coupled (Theorem III.4).
    let single = ["ewtcp", "semicoupled", "max", "balia", "coupled"];
    let rates = single.map(|law| beside_reno(law).rates[2]);
    assert!(
        rates.windows(2).all(|pair| pair[0] < pair[1] + 1e-6),
        "{rates:?}"
    );
    // EWTCP with a = 1 takes Reno's share on the second link.
    let half = 10e6 / 12_000.0;
    assert!((rates[0] / half - 1.0).abs() < 1e-9);
    // Coupled leaves the second link to others. Both paths have one price then, so that only what
    // is left of complementarity keeps it off.
    assert!((rates[4] / (2.0 * half) - 1.0).abs() < 1e-5, "{rates:?}");
}

#[test]
fn a_flow_alone_fills_both_links_whatever_the_law() {
    for law in [
        "reno",
        "ewtcp",
        "semicoupled",
        "lia",
        "max",
        "balia",
        "generalized",
    ] {
        let found = model(&[8.0, 2.0], &[(law, &[(&[0], 0.02), (&[1], 0.2)])]).equilibrium();
        assert!(found.converged, "{law}: {found:?}");
        assert!(
            (found.rates[0] * 12_000.0 / 8e6 - 1.0).abs() < 1e-8,
            "{law}"
        );
        assert!(
            (found.rates[1] * 12_000.0 / 2e6 - 1.0).abs() < 1e-8,
            "{law}"
        );
    }
}

#[test]
fn as_many_laws_as_flows_are_needed() {
    let network = model(&[1.0], &[("reno", &[(&[0], 0.1)])]).network().clone();
    let error = Model::new(network, Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the network has 1 flows, but 0 laws were given: give each flow one"
    );
}

/// Balia as it runs isn't monotone in its rates, which leads Newton's method astray on some
/// networks: here the trajectory shows where it rests.
#[test]
fn where_newtons_method_fails_the_trajectory_leads_to_the_equilibrium() {
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    let mut settled = 0;
    for _ in 0..100 {
        let capacities: Vec<f64> = (0..rng.random_range(1..8))
            .map(|_| 10f64.powf(3.0 * rng.random::<f64>()))
            .collect();
        let flows = rng.random_range(1..10);
        let owned: Vec<Vec<(Vec<usize>, f64)>> = (0..flows)
            .map(|_| {
                let routes = rng.random_range(1..5);
                let mut route = || {
                    let hops = rng.random_range(1..4);
                    let mut links: Vec<usize> = (0..hops)
                        .map(|_| rng.random_range(0..capacities.len()))
                        .collect();
                    links.sort_unstable();
                    links.dedup();
                    (links, 10f64.powf(-3.0 + 3.0 * rng.random::<f64>()))
                };
                (0..routes).map(|_| route()).collect()
            })
            .collect();
        let borrowed: Vec<Vec<(&[usize], f64)>> = owned
            .iter()
            .map(|routes| {
                routes
                    .iter()
                    .map(|(links, rtt)| (&links[..], *rtt))
                    .collect()
            })
            .collect();
        let flows: Vec<Spec<'_>> = borrowed
            .iter()
            .map(|routes| ("balia", &routes[..]))
            .collect();
        let found = model(&capacities, &flows).equilibrium();
        assert!(found.converged, "{found:?}");
        settled += usize::from(found.method == Method::Trajectory);
    }
    assert!(settled > 0, "the fallback was not needed once");
}

/// With a loss that is no number nothing is to be found, and that is said.
#[test]
fn what_has_no_equilibrium_ends_all_the_same() {
    let model = model(&[0.01, 0.02], &[("coupled", &[(&[0], 1.0), (&[1], 0.001)])]);
    let losses = vec![f64::INFINITY, 0.0];
    let found = model.with_losses(losses).equilibrium();
    assert!(!found.converged, "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Laws that meet C1-C3 have an equilibrium on every network, and the method finds it.
    #[test]
    fn equilibria_are_found_on_random_networks(
        capacities in prop::collection::vec(1.0f64..100.0, 1..6),
        picks in prop::collection::vec(
            (
                0usize..5,
                prop::collection::vec(
                    (prop::collection::vec(0usize..100, 1..3), 0.01f64..0.3),
                    1..4,
                ),
            ),
            1..8,
        ),
    ) {
        let laws = ["reno", "ewtcp", "semicoupled", "max", "generalized"];
        let owned: Vec<Drawn> = picks
            .into_iter()
            .map(|(law, routes)| {
                let routes = routes.into_iter().map(|(links, rtt)| {
                    let links = links.iter().map(|l| l % capacities.len());
                    let mut links: Vec<usize> = links.collect();
                    links.sort_unstable();
                    links.dedup();
                    (links, rtt)
                });
                (laws[law], routes.collect())
            })
            .collect();
        let borrowed: Vec<Vec<(&[usize], f64)>> = owned
            .iter()
            .map(|(_, routes)| routes.iter().map(|(links, rtt)| (&links[..], *rtt)).collect())
            .collect();
        let flows: Vec<Spec<'_>> =
            owned.iter().zip(&borrowed).map(|((law, _), routes)| (*law, &routes[..])).collect();
        let found = model(&capacities, &flows).equilibrium();
        prop_assert!(found.converged, "{found:?}");
    }
}
