use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::network::{Flow, Link, Route};

/// Links by their capacities in Mbps, flows by their routes' links.
fn network(capacities: &[f64], flows: &[&[&[usize]]]) -> Network {
    let link = |(n, mbps): (usize, &f64)| Link {
        name: format!("l{n}"),
        capacity: mbps * 1e6,
    };
    let flow = |(n, routes): (usize, &&[&[usize]])| Flow {
        name: format!("s{n}"),
        weight: 1.0,
        demand: None,
        routes: routes.iter().enumerate().map(route).collect(),
    };
    Network {
        links: capacities.iter().enumerate().map(link).collect(),
        flows: flows.iter().enumerate().map(flow).collect(),
    }
}

fn route((n, links): (usize, &&[usize])) -> Route {
    Route {
        name: format!("r{n}"),
        links: links.to_vec(),
        rtt: 0.1,
        packet: 8000.0,
    }
}

/// Fig. 2(a) of Cao et al.: links of 5, 10 and 6 Mbps; S1 on the first, S2 on the first and on the
/// other two in series, S3 and S4 on one of those.
fn fig2a() -> Network {
    network(
        &[5.0, 10.0, 6.0],
        &[&[&[0]], &[&[0], &[1, 2]], &[&[1]], &[&[2]]],
    )
}

/// The paper's optimum, S1, S2 top, S2 bottom, S3, S4.
const FIG2A: [f64; 5] = [3.1028, 1.8972, 1.2056, 8.7944, 4.7944];

/// Fig. 1(b): three links of 9 Mbps in a ring, each flow with a way over one of them and one over
/// the other two.
fn fig1b() -> Network {
    network(
        &[9.0; 3],
        &[&[&[0], &[1, 2]], &[&[1], &[2, 0]], &[&[2], &[0, 1]]],
    )
}

fn mbps(rates: &[f64]) -> Vec<f64> {
    rates.iter().map(|rate| rate / 1e6).collect()
}

fn assert_near(rates: &[f64], expected: &[f64], tolerance: f64) {
    let rates = mbps(rates);
    let off = rates.iter().zip(expected).map(|(a, b)| (a - b).abs());
    assert!(
        rates.len() == expected.len() && off.fold(0.0, f64::max) <= tolerance,
        "{rates:?} against {expected:?}"
    );
}

#[test]
fn the_optimum_of_fig_2a_to_four_decimals() {
    let best = solve(&fig2a(), Utility::Log).unwrap();
    assert_near(&best.rates, &FIG2A, 0.5e-4);
    assert!(best.certificate.gap < 1e-6 && best.certificate.residual < 1e-6);
    // The price of a route is what its flow would pay for more: α/y.
    let prices = fig2a().route_prices(&best.prices);
    assert!((prices[0] * 3.1028e6 - 1.0).abs() < 1e-4, "{prices:?}");
}

#[test]
fn in_the_ring_everybody_takes_one_hop() {
    let best = solve(&fig1b(), Utility::Log).unwrap();
    assert_near(&best.rates, &[9.0, 0.0, 9.0, 0.0, 9.0, 0.0], 1e-4);
}

#[test]
fn algorithm_2_comes_to_the_optimum_of_fig_2a_within_30_steps() {
    let network = fig2a();
    for first in [0.001, 0.03, 0.5, 0.97, 0.999] {
        let initial = [1.0, first, 1.0 - first, 1.0, 1.0];
        let steps = reweight(&network, &initial, (30, 0.0)).unwrap();
        let last = steps.last().unwrap();
        assert_near(&last.rates, &FIG2A, 0.05);
        assert_eq!(steps[0].weights, initial);
    }
}

#[test]
fn algorithm_2_can_start_anywhere_in_the_ring_too() {
    let initial = [0.001, 0.999, 0.5, 0.5, 0.999, 0.001];
    let steps = reweight(&fig1b(), &initial, (200, 1e-6)).unwrap();
    let totals = fig1b().totals(&steps.last().unwrap().rates);
    assert_near(&totals, &[9.0; 3], 0.05);
}

#[test]
fn proportional_fairness_on_a_parking_lot_is_known() {
    // One flow over n links, and one on each: the long one gets 1/(n+1) of each.
    let lot = network(&[12.0; 3], &[&[&[0, 1, 2]], &[&[0]], &[&[1]], &[&[2]]]);
    let log = solve(&lot, Utility::Log).unwrap();
    assert_near(&log.rates, &[3.0, 9.0, 9.0, 9.0], 1e-4);
    // α-fair: y₀ = c/(1 + n^(1/α)).
    let two = solve(&lot, Utility::AlphaFair(2.0)).unwrap();
    let long = 12.0 / (1.0 + 3.0f64.sqrt());
    assert_near(
        &two.rates,
        &[long, 12.0 - long, 12.0 - long, 12.0 - long],
        1e-4,
    );
    let half = solve(&lot, Utility::AlphaFair(0.5)).unwrap();
    assert_near(&half.rates, &[1.2, 10.8, 10.8, 10.8], 1e-4);
    let all = solve(&lot, Utility::Throughput).unwrap();
    assert_near(&all.rates, &[0.0, 12.0, 12.0, 12.0], 1e-4);
    let equal = solve(&lot, Utility::MaxMin).unwrap();
    assert_near(&equal.rates, &[6.0; 4], 1e-4);
}

#[test]
fn max_min_goes_on_where_others_are_stuck() {
    // The first link is full at 2 each; what is left of the second goes to whoever is alone there.
    let mut shared = network(&[4.0, 10.0], &[&[&[0]], &[&[0, 1]], &[&[1]]]);
    let best = solve(&shared, Utility::MaxMin).unwrap();
    assert_near(&best.rates, &[2.0, 2.0, 8.0], 1e-5);
    // A demand is a limit of its own, and a weight a share.
    shared.flows[0].demand = Some(1e6);
    let best = solve(&shared, Utility::MaxMin).unwrap();
    assert_near(&best.rates, &[1.0, 3.0, 7.0], 1e-5);
    shared.flows[0].demand = None;
    shared.flows[0].weight = 3.0;
    let best = solve(&shared, Utility::MaxMin).unwrap();
    assert_near(&best.rates, &[3.0, 1.0, 9.0], 1e-5);
}

#[test]
fn demands_bound_the_linear_programme() {
    let mut shared = network(&[4.0, 10.0], &[&[&[0], &[1]], &[&[1]]]);
    for flow in &mut shared.flows {
        flow.demand = Some(6e6);
    }
    let best = solve(&shared, Utility::Throughput).unwrap();
    assert_near(&shared.totals(&best.rates), &[6.0, 6.0], 1e-5);
    let log = solve(&shared, Utility::Log).unwrap();
    assert_near(&shared.totals(&log.rates), &[6.0, 6.0], 1e-5);
    assert!(
        log.prices.iter().all(|price| price * 1e6 < 1e-4),
        "{:?}",
        log.prices
    );
}

#[test]
fn the_certificate_sees_through_a_wrong_optimum() {
    let network = fig2a();
    let best = solve(&network, Utility::Log).unwrap();
    let prices = best.prices;
    let honest = Certificate::of(&network, 1.0, &best.rates, &prices);
    assert!(honest.gap < 1e-6);
    let mut rates = best.rates.clone();
    rates[3] *= 0.9;
    let wrong = Certificate::of(&network, 1.0, &rates, &prices);
    assert!(wrong.gap > 0.01 && wrong.residual > 0.05, "{wrong:?}");
    let dearer: Vec<f64> = prices.iter().map(|price| price * 1.1).collect();
    let wrong = Certificate::of(&network, 1.0, &best.rates, &dearer);
    assert!(wrong.gap > 1e-3 && wrong.residual > 0.05, "{wrong:?}");
}

#[test]
fn what_cannot_be_computed_is_said() {
    let message = |network: &Network| solve(network, Utility::Log).unwrap_err().to_string();
    let good = fig2a();
    let mut bad = good.clone();
    bad.links[1].capacity = 0.0;
    assert_eq!(
        message(&bad),
        "the link `l1` has a capacity of 0 bps: give it a positive one, or leave it out together \
         with the routes over it"
    );
    let mut bad = good.clone();
    bad.flows[2].routes.clear();
    assert_eq!(
        message(&bad),
        "the flow `s2` is disconnected: give it at least one route"
    );
    let mut bad = good.clone();
    bad.flows[0].routes[0].links = vec![7];
    assert_eq!(
        message(&bad),
        "the flow `s0` has the route `r0` over link number 7, but there are 3 (counted from 0)"
    );
    assert!(message(&Network::default()).starts_with("the network has no flow"));
    let error = weight_allocation(&good, &[1.0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1 weights for 5 routes: give each route a positive one"
    );
    assert_eq!(
        "alpha=-1".parse::<Utility>().unwrap_err().to_string(),
        "unknown utility \"alpha=-1\": choose log, alpha=NUMBER (more than 0, at most 20), max-min \
         or throughput"
    );
    let mut twice = good;
    twice.flows[1].routes[1].links = vec![0];
    assert_eq!(twice.remarks().len(), 1);
    assert_eq!(
        twice.remarks()[0].to_string(),
        "`r0` and `r1` of the flow `s1` pass the same links: only their sum is determined, not how \
         it is split"
    );
    let best = solve(&twice, Utility::Log).unwrap();
    assert_near(&twice.totals(&best.rates), &[2.5, 2.5, 10.0, 6.0], 1e-4);
}

#[test]
fn a_hundred_thousand_flows_that_are_alike_are_solved_as_a_few() {
    // Fig. 2(a) with S1 and S2 there 50,000 times each, and links for as many.
    let mut crowd = network(&[25e4, 50e4, 30e4], &[]);
    let [one, two, three, four] = &fig2a().flows[..] else {
        panic!("it has four flows");
    };
    for _ in 0..50_000 {
        crowd.flows.extend([one.clone(), two.clone()]);
    }
    crowd.flows.extend([three, four].map(|flow| Flow {
        weight: 5e4,
        ..flow.clone()
    }));
    assert_eq!(Alike::of(&crowd, Utility::Log).network.flows.len(), 4);
    let best = solve(&crowd, Utility::Log).unwrap();
    assert!(best.certificate.gap < 1e-6);
    assert_near(&best.rates[..3], &FIG2A[..3], 1e-4);
    assert_near(&best.rates[149_997..150_000], &FIG2A[..3], 1e-4);
    let loads = crowd.loads(&best.rates);
    for (link, load) in crowd.links.iter().zip(loads) {
        assert!(load <= link.capacity * (1.0 + 1e-12), "{load} of {link:?}");
    }
    // A demand of their own keeps flows apart.
    crowd.flows[0].demand = Some(1e6);
    let best = solve(&crowd, Utility::Log).unwrap();
    assert_near(&best.rates[..1], &[1.0], 1e-9);
    assert_near(&best.rates[1..3], &FIG2A[1..3], 1e-4);
}

/// Random networks: up to `links` links of 1 to 1000 Mbps, up to `flows` flows with one to four
/// routes of one to four links.
fn networks(links: usize, flows: usize) -> impl Strategy<Value = Network> {
    let capacities = prop::collection::vec(0.0f64..3.0, 1..=links);
    capacities.prop_flat_map(move |exponents| {
        let count = exponents.len();
        let route = prop::collection::btree_set(0..count, 1..=count.min(4));
        let routes = prop::collection::vec(route, 1..=4);
        let flow = (routes, 0.1f64..10.0);
        prop::collection::vec(flow, 1..=flows).prop_map(move |flows| {
            let capacities: Vec<f64> = exponents.iter().map(|e| 10f64.powf(*e)).collect();
            let mut made = network(&capacities, &[]);
            for (n, (routes, weight)) in flows.into_iter().enumerate() {
                let routes = routes.into_iter().enumerate();
                let routes = routes.map(|(n, links)| {
                    let links: Vec<usize> = links.into_iter().collect();
                    super::tests::route((n, &&links[..]))
                });
                made.flows.push(Flow {
                    name: format!("s{n}"),
                    weight,
                    demand: None,
                    routes: routes.collect(),
                });
            }
            made
        })
    })
}

/// Nothing is negative, and no link and no demand exceeded.
fn assert_feasible(network: &Network, rates: &[f64]) {
    assert!(rates.iter().all(|&rate| rate >= 0.0), "{rates:?}");
    for (link, load) in network.links.iter().zip(network.loads(rates)) {
        assert!(load <= link.capacity * (1.0 + 1e-12), "{load} of {link:?}");
    }
    for (flow, total) in network.flows.iter().zip(network.totals(rates)) {
        let demand = flow.demand.unwrap_or(f64::INFINITY);
        assert!(total <= demand * (1.0 + 1e-12), "{total} of {demand}");
    }
}

proptest! {
    // The same networks every time.
    #![proptest_config(ProptestConfig {
        cases: 128,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// Nothing better is possible, and the conditions of Karush, Kuhn and Tucker hold for each
    /// flow, however little it counts.
    #[test]
    fn random_networks_are_shared_out_optimally(
        network in networks(20, 30),
        a in prop::sample::select(vec![0.01, 0.1, 0.5, 1.0, 2.0]),
    ) {
        let best = solve(&network, Utility::AlphaFair(a)).unwrap();
        let Certificate { gap, residual } = best.certificate;
        prop_assert!(gap < 1e-10 && residual < 1e-8, "{:?}", best.certificate);
        assert_feasible(&network, &best.rates);
    }

    /// Capacities of 1 bit/s to 1 Tbit/s, weights of 1e-6 to 1e6, demands of any size or none, and
    /// routes that are there twice. With an `a` above 5 there are such networks without a solution,
    /// and with 0.01 about 1 of 1,000.
    #[test]
    fn networks_of_extreme_scales_are_shared_out_too(
        mut network in networks(20, 20),
        demands in prop::collection::vec(prop::option::of(-6.0f64..0.5), 20),
        twice in prop::collection::vec(any::<bool>(), 20),
        a in prop::sample::select(vec![0.1, 0.5, 1.0, 2.0, 5.0]),
    ) {
        for link in &mut network.links {
            link.capacity = (link.capacity / 1e6).powi(4);
        }
        for ((flow, demand), twice) in network.flows.iter_mut().zip(demands).zip(twice) {
            flow.weight = flow.weight.powi(6);
            let first = network.links[flow.routes[0].links[0]].capacity;
            flow.demand = demand.map(|exponent| first * 10f64.powf(exponent));
            if twice {
                flow.routes.push(flow.routes[0].clone());
            }
        }
        let best = solve(&network, Utility::AlphaFair(a)).unwrap();
        prop_assert!(best.certificate.gap < 1e-6, "{:?}", best.certificate);
        assert_feasible(&network, &best.rates);
    }

    /// Weights of routes down to what counts as nothing, as [`reweight`] has them.
    #[test]
    fn the_smallest_weights_are_allocated_for(
        network in networks(12, 12),
        exponents in prop::collection::vec(-9.0f64..0.0, 48),
    ) {
        let weights: Vec<f64> = exponents.iter().map(|e| 10f64.powf(*e)).collect();
        let routes = network.routes().count();
        let best = weight_allocation(&network, &weights[..routes]).unwrap();
        let Certificate { gap, residual } = best.certificate;
        prop_assert!(gap < 1e-10 && residual < 1e-8, "{:?}", best.certificate);
    }

    /// Flows that are alike have what they have where nobody takes them for one.
    #[test]
    fn flows_that_are_alike_are_as_well_off_as_ever(
        few in networks(8, 5),
        copies in prop::collection::vec(1usize..5, 5),
        demand in prop::option::of(1e5f64..1e8),
        a in prop::sample::select(vec![0.5, 1.0, 2.0]),
    ) {
        let mut network = few;
        network.flows[0].demand = demand;
        let copies = network.flows.iter().zip(copies);
        let copies = copies.flat_map(|(flow, count)| vec![flow.clone(); count]);
        network.flows = copies.collect();
        let best = solve(&network, Utility::AlphaFair(a)).unwrap();
        let own = Certificate::of(&network, a, &best.rates, &best.prices);
        prop_assert!(own.gap < 1e-6, "{own:?}");
        let apart = concave::solve(&network, a).unwrap();
        let level = |utility: Utility| -> Vec<f64> {
            let best = solve(&network, utility).unwrap();
            network.totals(&best.rates)
        };
        let totals = level(Utility::AlphaFair(a));
        let scale = totals.iter().copied().fold(0.0, f64::max);
        for (one, other) in totals.iter().zip(network.totals(&apart.rates)) {
            prop_assert!((one - other).abs() < 1e-3 * other + 1e-5 * scale, "{one} {other}");
        }
        let apart = network.totals(&max_min::solve(&network).unwrap().rates);
        for (one, other) in level(Utility::MaxMin).iter().zip(apart) {
            prop_assert!((one - other).abs() < 1e-4 * other, "{one} {other}");
        }
    }

    /// Nobody with the least can have more, whatever the split: checked against another utility
    /// that is nearly max-min.
    #[test]
    fn max_min_gives_the_least_the_most(mut network in networks(12, 12)) {
        for flow in &mut network.flows {
            flow.weight = 1.0;
        }
        let least = |rates: &[f64]| network.totals(rates).into_iter().fold(f64::INFINITY, f64::min);
        let best = solve(&network, Utility::MaxMin).unwrap();
        for other in [Utility::Log, Utility::AlphaFair(4.0)] {
            if let Ok(other) = solve(&network, other) {
                // Levels count as solved with a gap of 1e-6, and the other has one, too.
                prop_assert!(least(&best.rates) >= least(&other.rates) * (1.0 - 3e-6));
            }
        }
    }
}
