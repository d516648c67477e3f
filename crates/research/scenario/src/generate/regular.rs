//! Networks without anything random but who talks to whom.

use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

use super::{Flow, Link, Network, Path, Traffic, shown};

/// Each pair has links of its own with ten times the bottleneck's rate.
pub(super) fn dumbbell(pairs: u32, traffic: &Traffic) -> Network {
    let mut network = Network {
        about: format!("{pairs} flows over one bottleneck."),
        ..Network::default()
    };
    network.link("bottleneck", traffic);
    network.path("bottleneck", vec!["bottleneck".to_owned()]);
    let rate = shown(traffic.rate * 10.0);
    network.flows.push(Flow {
        name: "pair".to_owned(),
        paths: vec!["bottleneck".to_owned()],
        more: format!("count = {pairs}\naccess = {{ rate = \"{rate}\" }}\n"),
    });
    network
}

pub(super) fn parking_lot(hops: u32, traffic: &Traffic) -> Network {
    let mut network = Network {
        about: format!("A flow over {hops} links beside a flow over each."),
        ..Network::default()
    };
    let links: Vec<String> = (1..=hops).map(|n| format!("hop-{n}")).collect();
    for link in &links {
        network.link(link, traffic);
        network.path(link, vec![link.clone()]);
        network.flow(format!("over-{link}"), vec![link.clone()]);
    }
    network.path("all", links);
    network.flow("long".to_owned(), vec!["all".to_owned()]);
    network
}

/// A host of a fat tree: its pod, its edge switch there, and its place there.
#[derive(Debug, Copy, Clone, PartialEq)]
struct Host {
    pod: u32,
    edge: u32,
    place: u32,
}

impl Host {
    fn name(self) -> String {
        format!("h{}-{}-{}", self.pod, self.edge, self.place)
    }
}

/// Hosts send to each other in one round through all of them.
pub(super) fn fat_tree(ports: u32, traffic: &Traffic, rng: &mut Pcg64Mcg) -> Network {
    let half = ports / 2;
    let mut network = Network {
        about: format!(
            "{} hosts, each of which sends to another one and receives from one.",
            ports * half * half
        ),
        ..Network::default()
    };
    let each = |n: u32| 0..n;
    let mut hosts = Vec::new();
    for (pod, edge) in each(ports).flat_map(|pod| each(half).map(move |edge| (pod, edge))) {
        for place in each(half) {
            let host = Host { pod, edge, place };
            hosts.push(host);
            network.both(&host.name(), &format!("e{pod}-{edge}"), traffic);
        }
        for above in each(half) {
            network.both(
                &format!("e{pod}-{edge}"),
                &format!("a{pod}-{above}"),
                traffic,
            );
        }
    }
    for (pod, above) in each(ports).flat_map(|pod| each(half).map(move |above| (pod, above))) {
        for core in each(half) {
            network.both(
                &format!("a{pod}-{above}"),
                &format!("c{above}-{core}"),
                traffic,
            );
        }
    }
    hosts.shuffle(rng);
    let next = hosts.iter().skip(1).chain(hosts.first());
    for (from, to) in hosts.iter().zip(next) {
        let mut ways = ways(*from, *to, half);
        ways.shuffle(rng);
        ways.truncate(traffic.subflows as usize);
        let name = format!("{}-{}", from.name(), to.name());
        let mut paths = Vec::new();
        for (n, nodes) in ways.iter().enumerate() {
            let path = format!("{name}-{n}");
            let links = nodes.windows(2).map(|pair| pair.join("_"));
            network.path(&path, links.collect());
            paths.push(path);
        }
        network.flow(name, paths);
    }
    network
}

/// The nodes on each shortest way from one host to another.
fn ways(from: Host, to: Host, half: u32) -> Vec<Vec<String>> {
    let edge = |host: Host| format!("e{}-{}", host.pod, host.edge);
    let above = |pod: u32, n: u32| format!("a{pod}-{n}");
    let whole = |between: Vec<String>| {
        let ends = ([from.name(), edge(from)], [edge(to), to.name()]);
        ends.0
            .into_iter()
            .chain(between)
            .chain(ends.1)
            .collect::<Vec<_>>()
    };
    match (from.pod == to.pod, from.edge == to.edge) {
        (true, true) => vec![vec![from.name(), edge(from), to.name()]],
        (true, false) => (0..half).map(|n| whole(vec![above(from.pod, n)])).collect(),
        (false, _) => {
            let cores = (0..half).flat_map(|n| (0..half).map(move |core| (n, core)));
            let ways = cores.map(|(n, core)| {
                whole(vec![
                    above(from.pod, n),
                    format!("c{n}-{core}"),
                    above(to.pod, n),
                ])
            });
            ways.collect()
        }
    }
}

impl Network {
    fn link(&mut self, name: &str, traffic: &Traffic) {
        self.links.push(Link {
            name: name.to_owned(),
            rate: traffic.rate,
            delay: traffic.delay,
        });
    }

    /// A link in either direction.
    fn both(&mut self, a: &str, b: &str, traffic: &Traffic) {
        self.link(&format!("{a}_{b}"), traffic);
        self.link(&format!("{b}_{a}"), traffic);
    }

    pub(super) fn path(&mut self, name: &str, links: Vec<String>) {
        self.paths.push(Path {
            name: name.to_owned(),
            links,
        });
    }

    pub(super) fn flow(&mut self, name: String, paths: Vec<String>) {
        self.flows.push(Flow {
            name,
            paths,
            more: String::new(),
        });
    }
}
