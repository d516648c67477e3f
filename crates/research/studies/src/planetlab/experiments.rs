//! The experiments of sections 4.3 to 4.5.

use serde::Serialize;

use super::assumptions::Assumptions;
use super::geography::HOMES;
use super::network::{Network, Node, bottlenecks};
use super::runs::{Connection, all, connections};
use super::scenario::{Law, Run};
use super::statistics::Sample;
use crate::failure::Failure;

/// Where many pairs are at work, each source is told of so many relays: four times as many as it
/// needs, and a scenario has its limits.
const LISTED: Law = Law::Mpath(200);

/// How much of it is done.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Size {
    /// Synthetic networks, each with a seed of its own, and pairs in each.
    pub(crate) networks: u64,
    pub(crate) pairs: usize,
    /// The first so many pairs of each network for lists of relays, and for other assumptions.
    pub(crate) few: usize,
    pub(crate) varied: usize,
    pub(crate) duration_s: u32,
    /// The same where many pairs are at work.
    pub(crate) together_s: u32,
    /// Lengths of the registration server's list.
    pub(crate) lists: Vec<usize>,
    /// Pairs at the same time, and runs of each in networks of their own.
    pub(crate) together: Vec<(usize, u64)>,
    /// The same if end hosts are relays themselves.
    pub(crate) relaying: Vec<(usize, u64)>,
    /// The same two with relays that have less to spare.
    pub(crate) scarce: Vec<(usize, u64)>,
    pub(crate) scarce_hosts: Vec<(usize, u64)>,
    /// What takes hours of simulated time.
    pub(crate) hours: Option<Plan>,
}

/// For how many networks hours are simulated, each with a pair of every kind.
#[derive(Debug, Copy, Clone, Serialize)]
pub(crate) struct Plan {
    pub(crate) networks: u64,
    /// Pairs in each for τ.
    pub(crate) pairs: usize,
}

/// A pair of hosts that had the network for itself.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Pair {
    pub(crate) network: u64,
    pub(crate) number: usize,
    pub(crate) one_continent: bool,
    /// Round-trip time of the direct path without queues, ms.
    pub(crate) rtt_ms: f64,
    /// What the access links and the core of the direct path have on the average, Mbps.
    pub(crate) access: f64,
    pub(crate) core: f64,
    pub(crate) mpath: Connection,
    /// TCP alone at the time of mPath's run, and in the time right after it.
    pub(crate) tcp: Connection,
    pub(crate) later: Connection,
}

impl Pair {
    /// As the paper measured it: mPath first, then TCP.
    pub(crate) fn ratio(&self) -> f64 {
        self.mpath.goodput / self.later.goodput
    }

    /// mPath against TCP under the same conditions.
    pub(crate) fn paired(&self) -> f64 {
        self.mpath.goodput / self.tcp.goodput
    }

    /// TCP, then TCP again.
    pub(crate) fn benchmark(&self) -> f64 {
        self.tcp.goodput / self.later.goodput
    }

    /// What the access links have over what the direct path has: no relay can help more.
    pub(crate) fn potential(&self) -> f64 {
        self.access / self.access.min(self.core)
    }

    /// Whether the direct path's bottleneck is in the core.
    pub(crate) fn in_core(&self) -> bool {
        self.core < self.access
    }
}

/// Ratios for one length of the list of relays.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Listed {
    pub(crate) relays: usize,
    pub(crate) ratios: Sample,
    /// Share of the load on proxied paths where these are of no use: of pairs limited at an end, in
    /// the second half.
    pub(crate) useless: Sample,
}

/// Ratios with so many pairs at the same time.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Together {
    pub(crate) pairs: usize,
    pub(crate) ratios: Sample,
    /// Over all pairs, Mbps per pair.
    pub(crate) mpath: f64,
    pub(crate) tcp: f64,
}

/// The same where relays have less to spare.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Scarce {
    pub(crate) name: &'static str,
    pub(crate) rows: Vec<Together>,
}

/// The networks of an experiment: as assumed, and with the seeds after that one.
pub(crate) fn networks(count: u64, assumptions: &Assumptions) -> Vec<Network> {
    let seeds = assumptions.seed..assumptions.seed + count;
    let make = |seed| {
        Network::new(Assumptions {
            seed,
            ..assumptions.clone()
        })
    };
    seeds.map(make).collect()
}

/// One after the other: each pair by mPath with all relays, by TCP at the same time, by TCP
/// afterwards.
pub(crate) fn alone(
    what: &str,
    networks: &[Network],
    (pairs, duration_s): (usize, u32),
) -> Result<Vec<Pair>, Failure> {
    let jobs: Vec<(&Network, usize)> = (0..pairs)
        .flat_map(|number| networks.iter().map(move |network| (network, number)))
        .collect();
    all(what, &jobs, |&(network, number)| {
        let ends = network.pairs(pairs)[number];
        let relays = network.relays.len();
        let one = |law, epoch| single(network, ends, (law, epoch), duration_s);
        let (route, back) = (network.route(ends.0, ends.1), network.route(ends.1, ends.0));
        let (access, core) = bottlenecks(&route);
        let scale = network.assumptions.scale;
        let region = |node| HOMES[network.site(node).home].region;
        Ok(Pair {
            network: network.assumptions.seed,
            number,
            one_continent: region(ends.0) == region(ends.1),
            rtt_ms: route.iter().chain(&back).map(|link| link.delay_ms).sum(),
            access: access * scale,
            core: core.min(400.0) * scale,
            mpath: one(Law::Mpath(relays), 0)?,
            tcp: one(Law::Tcp, 0)?,
            later: one(Law::Tcp, 1)?,
        })
    })
}

fn single(
    network: &Network,
    ends: (Node, Node),
    (law, epoch): (Law, u32),
    duration_s: u32,
) -> Result<Connection, Failure> {
    let run = Run {
        law,
        pairs: vec![ends],
        duration_s,
        epoch,
        series: true,
    };
    let mut found = connections(network, &run)?;
    found
        .pop()
        .ok_or_else(|| "a run without a connection".into())
}

/// Section 4.4: the first pairs of each network again with shorter lists of relays. Pairs that were
/// `alone` have their TCP there.
pub(crate) fn listed(
    networks: &[Network],
    alone: &[Pair],
    size: &Size,
) -> Result<Vec<Listed>, Failure> {
    let few: Vec<&Pair> = alone.iter().filter(|pair| pair.number < size.few).collect();
    let jobs: Vec<(usize, &Pair)> = size
        .lists
        .iter()
        .flat_map(|&relays| few.iter().map(move |&pair| (relays, pair)))
        .collect();
    let runs = all("lists of relays", &jobs, |&(relays, pair)| {
        let network = networks
            .iter()
            .find(|network| network.assumptions.seed == pair.network)
            .ok_or("a pair of no network")?;
        let ends = network.pairs(size.pairs)[pair.number];
        single(network, ends, (Law::Mpath(relays), 0), size.duration_s)
    })?;
    let summed = |relays, runs: Vec<&Connection>| {
        let both = || few.iter().zip(&runs);
        let at_end = both().filter(|(pair, _)| !pair.in_core());
        Listed {
            relays,
            ratios: Sample::new(both().map(|(pair, run)| run.goodput / pair.later.goodput)),
            useless: Sample::new(at_end.map(|(_, run)| run.proxied)),
        }
    };
    let by_list = size.lists.iter().zip(runs.chunks(few.len().max(1)));
    let mut found: Vec<Listed> = by_list
        .map(|(&relays, runs)| summed(relays, runs.iter().collect()))
        .collect();
    let all_relays = networks.first().map_or(0, |network| network.relays.len());
    found.push(summed(
        all_relays,
        few.iter().map(|pair| &pair.mpath).collect(),
    ));
    Ok(found)
}

/// Section 4.5: disjoint pairs at the same time, by mPath and then by TCP. `relaying`: the pairs
/// are relays themselves.
pub(crate) fn together(
    networks: &[Network],
    (counts, relaying): (&[(usize, u64)], bool),
    duration_s: u32,
) -> Result<Vec<Together>, Failure> {
    let what = if relaying {
        "relays at the same time"
    } else {
        "at the same time"
    };
    // The largest first.
    let mut jobs: Vec<(usize, u64, Law)> = Vec::new();
    for &(pairs, runs) in counts {
        for number in 0..runs {
            jobs.extend([LISTED, Law::Tcp].map(|law| (pairs, number, law)));
        }
    }
    jobs.sort_by_key(|&(pairs, _, law)| (std::cmp::Reverse(pairs), law == Law::Tcp));
    let done = all(what, &jobs, |&(pairs, number, law)| {
        let network = &networks[number as usize % networks.len()];
        let nodes: Vec<Node> = match relaying {
            true => (0..network.relays.len())
                .map(Node::Relay)
                .filter(|&node| !network.site(node).dead)
                .collect(),
            false => (0..network.ends.len()).map(Node::End).collect(),
        };
        // A partition gives several runs if the pairs are fewer.
        let each = (nodes.len() / 2 / pairs).max(1);
        let part = number as usize / networks.len();
        let all = network.partition(nodes, (part / each) as u32);
        let chosen = all.chunks(pairs).nth(part % each).unwrap_or(&all);
        let run = Run {
            law,
            pairs: chosen.to_vec(),
            duration_s,
            epoch: u32::from(law == Law::Tcp),
            series: false,
        };
        connections(network, &run)
    })?;
    let of = |pairs, number, law| {
        let at = jobs.iter().position(|job| *job == (pairs, number, law));
        at.map_or(&[][..], |at| &done[at])
    };
    let summed = counts.iter().map(|&(pairs, runs)| {
        let numbers = 0..runs;
        let both = numbers.flat_map(|number| {
            of(pairs, number, LISTED)
                .iter()
                .zip(of(pairs, number, Law::Tcp))
        });
        let both: Vec<(f64, f64)> = both
            .map(|(mpath, tcp)| (mpath.goodput, tcp.goodput))
            .collect();
        Together {
            pairs,
            ratios: Sample::new(both.iter().map(|(mpath, tcp)| mpath / tcp)),
            mpath: Sample::new(both.iter().map(|both| both.0)).mean(),
            tcp: Sample::new(both.iter().map(|both| both.1)).mean(),
        }
    });
    Ok(summed.collect())
}
