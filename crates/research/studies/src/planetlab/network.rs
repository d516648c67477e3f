//! The synthetic PlanetLab: sites with access links, research networks, and the core between them.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::assumptions::Assumptions;
use super::geography::{HOMES, Region, delay_ms, gateway};

/// Carriers between continents, and how much longer their ways are than the shortest.
const CARRIERS: [f64; 3] = [1.0, 1.15, 1.3];
/// What a link has that isn't congested, Mbps: more than any site can send.
const AMPLE: f64 = 400.0;
/// The steps in which available rates change, seconds, and their correlation from one step to the
/// next (of about two minutes in time).
pub(crate) const STEP_S: f64 = 30.0;
const PERSISTENCE: f64 = 0.78;

/// A place in the network: a relay or an end host.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// Index of its network in [`HOMES`].
    pub(crate) home: usize,
    /// Mean available rates, Mbps, before scaling.
    pub(crate) up: f64,
    pub(crate) down: f64,
    /// From the site to its network, ms.
    pub(crate) delay_ms: f64,
    /// It never answers.
    pub(crate) dead: bool,
}

/// A one-way link.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Link {
    pub(crate) name: String,
    /// What a flow gets of it, Mbps, before scaling.
    pub(crate) rate: f64,
    pub(crate) delay_ms: f64,
    pub(crate) kind: Kind,
}

#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To or from a site: what it has is divided by fair queueing, so others' traffic is nothing
    /// but less of it.
    Access,
    /// In the core, full of others' traffic.
    Congested,
    /// In the core, never full.
    Ample,
}

/// All sites. Links are made when a route needs them, each from the seed and its name alone: a
/// network with other sites or routes has the same links.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) assumptions: Assumptions,
    pub(crate) relays: Vec<Site>,
    pub(crate) ends: Vec<Site>,
}

/// A site, by its kind and number.
#[derive(Debug, Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Node {
    Relay(usize),
    End(usize),
}

impl Node {
    pub(crate) fn name(self) -> String {
        match self {
            Node::Relay(n) => format!("relay{n}"),
            Node::End(n) => format!("end{n}"),
        }
    }
}

impl Network {
    pub(crate) fn new(assumptions: Assumptions) -> Self {
        let make = |what: &str, count: usize| -> Vec<Site> {
            let named = (0..count).map(|n| format!("{what}{n}"));
            named.map(|name| site(&assumptions, &name)).collect()
        };
        let mut relays = make("relay", assumptions.relays);
        for relay in &mut relays {
            relay.up *= assumptions.spare;
            relay.down *= assumptions.spare;
        }
        let mut ends = make("end", assumptions.ends);
        ends.iter_mut().for_each(|end| end.dead = false);
        Network {
            relays,
            ends,
            assumptions,
        }
    }

    pub(crate) fn site(&self, node: Node) -> &Site {
        match node {
            Node::Relay(n) => &self.relays[n],
            Node::End(n) => &self.ends[n],
        }
    }

    /// Random pairs of different end hosts, no pair twice.
    pub(crate) fn pairs(&self, count: usize) -> Vec<(Node, Node)> {
        let mut rng = stream(self.assumptions.seed, "pairs");
        let n = self.ends.len();
        let mut pairs: Vec<(Node, Node)> = Vec::with_capacity(count);
        while pairs.len() < count.min(n * (n - 1)) {
            let pair = (
                Node::End(rng.random_range(0..n)),
                Node::End(rng.random_range(0..n)),
            );
            if pair.0 != pair.1 && !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        pairs
    }

    /// Disjoint pairs among `nodes`, in random order; another partition for each number.
    pub(crate) fn partition(&self, mut nodes: Vec<Node>, number: u32) -> Vec<(Node, Node)> {
        let mut rng = stream(self.assumptions.seed, &format!("partition {number}"));
        for last in (1..nodes.len()).rev() {
            nodes.swap(last, rng.random_range(0..=last));
        }
        let pairs = nodes.chunks_exact(2);
        pairs.map(|pair| (pair[0], pair[1])).collect()
    }

    /// The links of the direct way between two sites, access links included.
    pub(crate) fn route(&self, from: Node, to: Node) -> Vec<Link> {
        let mut links = vec![self.access(from, true)];
        links.extend(self.core(self.site(from).home, self.site(to).home));
        links.push(self.access(to, false));
        links
    }

    /// The links of the way through a relay.
    pub(crate) fn detour(&self, from: Node, relay: usize, to: Node) -> Vec<Link> {
        let mut links = self.route(from, Node::Relay(relay));
        links.extend(self.route(Node::Relay(relay), to));
        links
    }

    fn access(&self, node: Node, up: bool) -> Link {
        let site = self.site(node);
        let (direction, rate) = match up {
            true => ("up", site.up),
            false => ("down", site.down),
        };
        Link {
            name: format!("{}-{direction}", node.name()),
            rate,
            delay_ms: site.delay_ms,
            kind: Kind::Access,
        }
    }

    /// From one research network to another: nothing within one, a peering within a continent; else
    /// out to a carrier, over its trunk between the continents, and in. The sender's network
    /// chooses the carrier, one for each continent.
    fn core(&self, from: usize, to: usize) -> Vec<Link> {
        let (a, b) = (HOMES[from], HOMES[to]);
        if from == to {
            return Vec::new();
        }
        if a.region == b.region {
            let name = format!("peer-{}-{}", a.name, b.name);
            return vec![self.core_link(name, delay_ms(from, to))];
        }
        let (out, into) = (gateway(a.region, b.region), gateway(b.region, a.region));
        let carrier = self.carrier(a.name, b.region);
        let (there, here) = (b.region.short(), a.region.short());
        vec![
            self.core_link(format!("out-{}-{there}", a.name), delay_ms(from, out) + 0.2),
            self.core_link(
                format!("trunk{carrier}-{here}-{there}"),
                delay_ms(out, into) * CARRIERS[carrier],
            ),
            self.core_link(
                format!("in{carrier}-{here}-{}", b.name),
                delay_ms(into, to) + 0.2,
            ),
        ]
    }

    fn carrier(&self, network: &str, to: Region) -> usize {
        let mut rng = stream(
            self.assumptions.seed,
            &format!("carrier {network} {}", to.short()),
        );
        rng.random_range(0..CARRIERS.len())
    }

    fn core_link(&self, name: String, delay_ms: f64) -> Link {
        let Assumptions {
            seed,
            congested,
            share,
            ..
        } = self.assumptions;
        let mut rng = stream(seed, &name);
        let kind = match rng.random_bool(congested) {
            true => Kind::Congested,
            false => Kind::Ample,
        };
        let place: f64 = rng.random();
        let rate = match kind {
            Kind::Congested => share.0 * (share.1 / share.0).powf(place),
            _ => AMPLE,
        };
        Link {
            name,
            rate,
            delay_ms,
            kind,
        }
    }

    /// Factors of what is available on a link in each step from `from` to `until` (in steps): an
    /// autoregressive process of its own.
    pub(crate) fn sway(&self, link: &Link, (from, until): (usize, usize)) -> Vec<f64> {
        let mut rng = stream(self.assumptions.seed, &format!("sway {}", link.name));
        let mut level = normal(&mut rng);
        let mut factors = Vec::with_capacity(until);
        for _ in 0..until {
            factors.push((self.assumptions.sway * level).exp());
            level =
                PERSISTENCE * level + (1.0 - PERSISTENCE * PERSISTENCE).sqrt() * normal(&mut rng);
        }
        factors.split_off(from.min(until))
    }
}

/// The bottlenecks of a route by the mean rates of its links, Mbps: at the ends, and in the core.
pub(crate) fn bottlenecks(route: &[Link]) -> (f64, f64) {
    let least = |access: bool| {
        let links = route.iter();
        let links = links.filter(|link| (link.kind == Kind::Access) == access);
        links.map(|link| link.rate).fold(f64::INFINITY, f64::min)
    };
    (least(true), least(false))
}

fn site(assumptions: &Assumptions, name: &str) -> Site {
    let mut rng = stream(assumptions.seed, name);
    let region = pick(
        &mut rng,
        Region::ALL.map(|region| (region, f64::from(region.percent()))),
    );
    let homes: Vec<usize> = (0..HOMES.len())
        .filter(|&home| HOMES[home].region == region)
        .collect();
    let home = homes[rng.random_range(0..homes.len())];
    let limit = pick(&mut rng, assumptions.limits);
    let others = rng.random_range(0..=assumptions.slices);
    let line = if rng.random_bool(assumptions.slow_lines) {
        10.0
    } else {
        100.0
    };
    Site {
        home,
        up: limit / f64::from(1 + others),
        down: line * rng.random_range(0.4..1.0),
        delay_ms: rng.random_range(0.5..5.0),
        dead: rng.random_bool(assumptions.dead),
    }
}

/// One of the choices, by weight.
fn pick<T: Copy, const N: usize>(rng: &mut Pcg64Mcg, choices: [(T, f64); N]) -> T {
    let total: f64 = choices.iter().map(|(_, weight)| weight).sum();
    let mut left = rng.random_range(0.0..total);
    for (choice, weight) in choices {
        if left < weight {
            return choice;
        }
        left -= weight;
    }
    choices[N - 1].0
}

/// A standard normal number (Box and Muller).
fn normal(rng: &mut Pcg64Mcg) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Random numbers for one purpose (FNV-1a of its name).
pub(crate) fn stream(seed: u64, purpose: &str) -> Pcg64Mcg {
    let hash = purpose
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let mut rng = Pcg64Mcg::seed_from_u64(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    // Neighbouring seeds begin alike.
    let _: u64 = rng.random();
    rng
}
