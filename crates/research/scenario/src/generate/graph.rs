//! Random graphs, and ways through them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::{Link, Network, Traffic};

/// Nodes whose links go both ways.
pub(super) struct Graph {
    /// Of each node: the nodes that it has links to, and their delays.
    neighbours: Vec<Vec<(usize, Duration)>>,
}

impl Graph {
    fn new(nodes: u32) -> Self {
        Self {
            neighbours: vec![Vec::new(); nodes as usize],
        }
    }

    fn connect(&mut self, a: usize, b: usize, delay: Duration) {
        self.neighbours[a].push((b, delay));
        self.neighbours[b].push((a, delay));
    }

    /// `None` if no graph of a hundred is connected.
    pub(super) fn waxman(
        nodes: u32,
        (alpha, beta): (f64, f64),
        traffic: &Traffic,
        rng: &mut Pcg64Mcg,
    ) -> Option<Self> {
        let mut one = || {
            let mut graph = Self::new(nodes);
            let places = (0..nodes).map(|_| (rng.random::<f64>(), rng.random::<f64>()));
            let places: Vec<(f64, f64)> = places.collect();
            for (b, there) in places.iter().enumerate() {
                for (a, here) in places[..b].iter().enumerate() {
                    // In diagonals.
                    let far = (here.0 - there.0).hypot(here.1 - there.1) / 2.0_f64.sqrt();
                    if rng.random::<f64>() < alpha * (-far / beta).exp() {
                        // Whole microseconds, and no two nodes at one place.
                        let micros = traffic.delay.mul_f64(far).as_micros() as u64;
                        graph.connect(a, b, Duration::from_micros(micros.max(1)));
                    }
                }
            }
            graph
        };
        (0..100).map(|_| one()).find(Graph::is_connected)
    }

    /// Begins with a node more than each new one has links, all connected.
    pub(super) fn barabasi_albert(
        nodes: u32,
        links: u32,
        traffic: &Traffic,
        rng: &mut Pcg64Mcg,
    ) -> Self {
        let mut graph = Self::new(nodes);
        // Each node as often as it has links.
        let mut ends: Vec<usize> = Vec::new();
        for b in 0..nodes as usize {
            let others: BTreeSet<usize> = if b <= links as usize {
                (0..b).collect()
            } else {
                let mut others = BTreeSet::new();
                while others.len() < links as usize {
                    others.insert(ends[rng.random_range(0..ends.len())]);
                }
                others
            };
            for a in others {
                graph.connect(a, b, traffic.delay);
                ends.extend([a, b]);
            }
        }
        graph
    }

    fn is_connected(&self) -> bool {
        let mut seen = BTreeSet::from([0]);
        let mut open = vec![0];
        while let Some(node) = open.pop() {
            let others = self.neighbours[node].iter().map(|(other, _)| *other);
            open.extend(others.filter(|other| seen.insert(*other)));
        }
        seen.len() == self.neighbours.len()
    }

    /// The way with the shortest delay that has none of the links `without`, as nodes.
    fn way(
        &self,
        from: usize,
        to: usize,
        without: &BTreeSet<(usize, usize)>,
    ) -> Option<Vec<usize>> {
        let mut before = vec![None; self.neighbours.len()];
        let mut open = BinaryHeap::from([Reverse((Duration::ZERO, 0, from, from))]);
        while let Some(Reverse((delay, hops, node, last))) = open.pop() {
            if before[node].is_some() {
                continue;
            }
            before[node] = Some(last);
            if node == to {
                let back =
                    std::iter::successors(Some(to), |node| before[*node].filter(|_| *node != from));
                let mut way: Vec<usize> = back.collect();
                way.reverse();
                return Some(way);
            }
            for (other, link) in &self.neighbours[node] {
                if !without.contains(&(node, *other)) {
                    open.push(Reverse((delay + *link, hops + 1, *other, node)));
                }
            }
        }
        None
    }

    /// Its links, and flows between random nodes.
    pub(super) fn network(&self, traffic: &Traffic, rng: &mut Pcg64Mcg) -> Network {
        let nodes = self.neighbours.len();
        let name = |a: usize, b: usize| format!("n{a}_n{b}");
        let mut network = Network {
            about: format!("{} flows between random nodes.", traffic.flows),
            ..Network::default()
        };
        for (a, others) in self.neighbours.iter().enumerate() {
            for (b, delay) in others {
                network.links.push(Link {
                    name: name(a, *b),
                    rate: traffic.rate,
                    delay: *delay,
                });
            }
        }
        for flow in 1..=traffic.flows {
            let from = rng.random_range(0..nodes);
            let to = (from + rng.random_range(1..nodes)) % nodes;
            let mut used = BTreeSet::new();
            let mut paths = Vec::new();
            while paths.len() < traffic.subflows as usize
                && let Some(way) = self.way(from, to, &used)
            {
                let path = format!("f{flow}-{}", paths.len() + 1);
                let steps = || way.windows(2).map(|pair| (pair[0], pair[1]));
                used.extend(steps());
                network.path(&path, steps().map(|(a, b)| name(a, b)).collect());
                paths.push(path);
            }
            network.flow(format!("f{flow}"), paths);
        }
        network
    }
}
