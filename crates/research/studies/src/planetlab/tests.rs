use manyway_scenario::Scenario;

use super::assumptions::{Assumptions, Background};
use super::experiments::{alone, networks};
use super::network::{Kind, Network, Node, bottlenecks};
use super::pair_scenario;
use super::scenario::{Law, Run};

fn run(law: Law) -> Run {
    Run {
        law,
        pairs: Network::new(Assumptions::default()).pairs(2),
        duration_s: 60,
        epoch: 0,
        series: true,
    }
}

#[test]
fn about_half_of_the_direct_paths_are_limited_in_the_core() {
    let networks = networks(10, &Assumptions::default());
    let limited = |network: &Network| {
        let pairs = network.pairs(50).into_iter();
        let limited = pairs.filter(|&(from, to)| {
            let (access, core) = bottlenecks(&network.route(from, to));
            core < access
        });
        limited.count()
    };
    let share = networks.iter().map(limited).sum::<usize>() as f64 / 500.0;
    assert!((0.45..0.55).contains(&share), "{share}");
}

#[test]
fn pairs_are_different_and_partitions_disjoint() {
    let network = Network::new(Assumptions::default());
    let mut pairs = network.pairs(500);
    assert!(pairs.iter().all(|(from, to)| from != to));
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(pairs.len(), 500);

    let nodes: Vec<Node> = (0..200).map(Node::End).collect();
    let partition = network.partition(nodes.clone(), 1);
    let mut ends: Vec<Node> = partition.iter().flat_map(|&(a, b)| [a, b]).collect();
    ends.sort_unstable();
    assert_eq!(ends, nodes);
    assert_ne!(partition, network.partition(nodes, 2));
}

#[test]
fn a_detour_is_two_direct_ways() {
    let network = Network::new(Assumptions::default());
    let (from, to) = network.pairs(1)[0];
    let detour = network.detour(from, 7, to);
    let halves = [
        network.route(from, Node::Relay(7)),
        network.route(Node::Relay(7), to),
    ]
    .concat();
    assert_eq!(detour, halves);
    assert!(detour.iter().any(|link| link.name == "relay7-down"));
}

#[test]
fn links_dont_depend_on_who_else_is_there() {
    let small = Network::new(Assumptions {
        relays: 10,
        ends: 20,
        ..Assumptions::default()
    });
    let large = Network::new(Assumptions::default());
    let ways = [Node::End(3), Node::Relay(9)];
    assert_eq!(small.route(ways[0], ways[1]), large.route(ways[0], ways[1]));
}

#[test]
fn another_seed_is_another_network() {
    let one = Network::new(Assumptions::default());
    let two = Network::new(Assumptions {
        seed: 2,
        ..Assumptions::default()
    });
    assert_ne!(one.pairs(5), two.pairs(5));
    assert_ne!(one.scenario(&run(Law::Tcp)), two.scenario(&run(Law::Tcp)));
}

#[test]
fn what_is_available_sways_about_its_mean() {
    let network = Network::new(Assumptions::default());
    let (from, to) = network.pairs(1)[0];
    let link = network.route(from, to).remove(0);
    assert_eq!(link.kind, Kind::Access);
    let all = network.sway(&link, (0, 4000));
    let mean = all.iter().map(|factor| factor.ln()).sum::<f64>() / 4000.0;
    // Standard error of the mean with these correlations: 0.15·√(8/4000).
    assert!(mean.abs() < 0.03, "{mean}");
    assert_eq!(all[20..40], network.sway(&link, (20, 40)));
}

#[test]
fn scenarios_are_valid() {
    for background in [Background::Reduced, Background::Elastic(4)] {
        let network = Network::new(Assumptions {
            background,
            ..Assumptions::default()
        });
        for law in [Law::Tcp, Law::Mpath(30)] {
            let text = network.scenario(&run(law));
            let scenario = Scenario::parse(&text, "planetlab.toml");
            let points = scenario.and_then(|scenario| scenario.points());
            let points = points.unwrap_or_else(|error| panic!("{error}"));
            let flows = &points[0].experiment.flows;
            let expected = if law == Law::Tcp { 1 } else { 31 };
            assert_eq!(flows[0].paths.len(), expected);
        }
    }
}

#[test]
fn longer_lists_of_relays_contain_shorter_ones() {
    let network = Network::new(Assumptions::default());
    let paths = |count| {
        let text = network.scenario(&run(Law::Mpath(count)));
        let lines = text.lines().filter(|line| line.starts_with("[paths.c0-"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (short, long) = (paths(5), paths(20));
    assert_eq!(short.len(), 6);
    assert!(short.iter().all(|path| long.contains(path)));
}

#[test]
fn results_dont_depend_on_the_number_of_threads() {
    let networks = networks(
        1,
        &Assumptions {
            relays: 20,
            ..Assumptions::default()
        },
    );
    let [one, three] = [1, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pairs = pool
            .build()
            .unwrap()
            .install(|| alone("test", &networks, (3, 20)));
        serde_json::to_string(&pairs.unwrap()).unwrap()
    });
    assert_eq!(one, three);
}

#[test]
fn a_pair_of_the_full_study_can_be_had_as_a_scenario() {
    let of = |tcp| pair_scenario(10, 49, tcp).expect("the last pair");
    assert!(of(false).contains("law = \"mpath\""));
    assert!(of(true).contains("law = \"reno\""));
    for (network, pair) in [(0, 0), (11, 0), (1, 50)] {
        assert_eq!(pair_scenario(network, pair, false), None);
    }
}
