use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{Experiment, Scenario};

fn traffic(subflows: u32) -> Traffic {
    Traffic {
        law: "lia".parse().unwrap(),
        rate: Rate::from_mbps(100.0),
        delay: Duration::from_millis(10),
        duration: Duration::from_secs(20),
        subflows,
        flows: 20,
        seed: 3,
    }
}

fn experiment(shape: Shape, traffic: &Traffic) -> Experiment {
    let text = generate(shape, traffic).unwrap();
    assert_eq!(generate(shape, traffic).unwrap(), text);
    let scenario = Scenario::parse(&text, "generated.toml");
    let points = scenario.and_then(|scenario| scenario.points());
    let points = points.unwrap_or_else(|error| panic!("{error}\n{text}"));
    points[0].experiment.clone()
}

fn links(experiment: &Experiment, path: usize) -> Vec<&str> {
    let links = &experiment.topology.links;
    let path = experiment.topology.paths[path].links.iter();
    path.map(|link| links[*link].name.as_str()).collect()
}

/// Each link of a path begins where the one before ends.
fn assert_connected(experiment: &Experiment) {
    for path in 0..experiment.topology.paths.len() {
        let links = links(experiment, path);
        let ends = links.iter().map(|link| link.split_once('_').unwrap());
        let ends: Vec<(&str, &str)> = ends.collect();
        assert!(
            ends.windows(2).all(|pair| pair[0].1 == pair[1].0),
            "{links:?}"
        );
    }
}

#[test]
fn a_dumbbell_has_one_bottleneck() {
    let experiment = experiment(Shape::Dumbbell { pairs: 30 }, &traffic(1));
    assert_eq!(experiment.topology.links.len(), 1);
    assert_eq!(experiment.flows.len(), 30);
    let access = experiment.flows[29].access.as_ref().unwrap();
    assert_eq!(access.rate, Rate::from_mbps(1000.0));
    assert_eq!(experiment.measure.from.as_secs_f64(), 4.0);
}

#[test]
fn a_parking_lot_has_a_flow_over_all_links_and_one_over_each() {
    let experiment = experiment(Shape::ParkingLot { hops: 3 }, &traffic(1));
    let paths: Vec<_> = experiment
        .flows
        .iter()
        .map(|flow| links(&experiment, flow.paths[0]))
        .collect();
    assert_eq!(
        paths,
        [
            vec!["hop-1"],
            vec!["hop-2"],
            vec!["hop-3"],
            vec!["hop-1", "hop-2", "hop-3"]
        ]
    );
}

/// k³/4 hosts, 3 k³/2 one-way links; k²/4 ways between pods.
#[test]
fn a_fat_tree_has_equal_cost_ways() {
    let experiment = experiment(Shape::FatTree { ports: 4 }, &traffic(100));
    assert_eq!(experiment.flows.len(), 16);
    assert_eq!(experiment.topology.links.len(), 96);
    assert_connected(&experiment);
    let mut receivers = BTreeSet::new();
    let mut kinds = BTreeMap::new();
    for flow in &experiment.flows {
        let ways: BTreeSet<_> = flow
            .paths
            .iter()
            .map(|path| links(&experiment, *path))
            .collect();
        assert_eq!(ways.len(), flow.paths.len());
        let lengths: BTreeSet<usize> = ways.iter().map(Vec::len).collect();
        assert_eq!(lengths.len(), 1);
        *kinds
            .entry((*lengths.first().unwrap(), ways.len()))
            .or_insert(0) += 1;
        receivers.insert(links(&experiment, flow.paths[0]).last().unwrap().to_owned());
    }
    assert_eq!(receivers.len(), 16);
    let known = [(2, 1), (4, 2), (6, 4)];
    assert!(kinds.keys().all(|kind| known.contains(kind)), "{kinds:?}");
}

#[test]
fn a_graph_grows_by_so_many_links() {
    let shape = Shape::BarabasiAlbert {
        nodes: 50,
        links: 2,
    };
    let experiment = experiment(shape, &traffic(3));
    // Three nodes all connected, and 47 with two links each, both ways.
    assert_eq!(experiment.topology.links.len(), 2 * (3 + 47 * 2));
    assert_connected(&experiment);
    // Hubs: the oldest nodes have many more than two links.
    let of_first = experiment.topology.links.iter();
    let of_first = of_first.filter(|link| link.name.starts_with("n0_")).count();
    assert!(of_first >= 6, "{of_first}");
}

#[test]
fn near_nodes_are_connected_more_often() {
    let delays = |beta: f64| -> f64 {
        let shape = Shape::Waxman {
            nodes: 200,
            alpha: 0.9,
            beta,
        };
        let experiment = experiment(shape, &traffic(1));
        assert_connected(&experiment);
        let delays = experiment
            .topology
            .links
            .iter()
            .map(|link| link.config.delay.as_secs_f64());
        delays.sum::<f64>() / experiment.topology.links.len() as f64
    };
    assert!(delays(0.05) < 0.4 * delays(1.0));
    let apart = Shape::Waxman {
        nodes: 50,
        alpha: 0.001,
        beta: 0.1,
    };
    assert_eq!(generate(apart, &traffic(1)), Err(Impossible::Disconnected));
}

#[test]
fn what_cant_be_is_told() {
    let error = |shape| generate(shape, &traffic(1)).unwrap_err().to_string();
    assert_eq!(
        error(Shape::FatTree { ports: 5 }),
        "the number of ports is out of range: choose an even number from 2 to 32"
    );
    assert!(error(Shape::Dumbbell { pairs: 0 }).contains("1 to 50000"));
    assert!(
        error(Shape::Waxman {
            nodes: 9,
            alpha: f64::NAN,
            beta: 0.1
        })
        .contains("alpha")
    );
    assert!(error(Shape::BarabasiAlbert { nodes: 9, links: 9 }).contains("less than"));
    let still = Traffic {
        rate: Rate::from_bits_per_sec(0.0),
        ..traffic(1)
    };
    assert_eq!(
        generate(Shape::Dumbbell { pairs: 1 }, &still)
            .unwrap_err()
            .to_string(),
        "the rate is out of range: choose at least 1 bps"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Subflows have no link in common, and the first has the shortest delay.
    #[test]
    fn subflows_are_disjoint(nodes in 2_u32..40, links in 1_u32..5, seed: u64) {
        let shape = Shape::BarabasiAlbert { nodes, links: links.min(nodes - 1) };
        let experiment = experiment(shape, &Traffic { seed, ..traffic(4) });
        for flow in &experiment.flows {
            let mut seen = BTreeSet::new();
            let ways = flow.paths.iter().map(|path| super::tests::links(&experiment, *path));
            let ways: Vec<_> = ways.collect();
            prop_assert!(ways.windows(2).all(|pair| pair[0].len() <= pair[1].len()));
            for link in ways.into_iter().flatten() {
                prop_assert!(seen.insert(link.to_owned()));
            }
        }
    }
}
