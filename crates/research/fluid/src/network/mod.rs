//! Networks as theory sees them: capacities, routes, weights; and how an experiment becomes one.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use manyway_scenario::Experiment;
use manyway_units::Time;
use nalgebra::DMatrix;

/// Links with capacities, and flows with routes over them: `A` (links by routes) and `B` (flows by
/// routes) of the papers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Network {
    /// All links.
    pub links: Vec<Link>,
    /// All flows.
    pub flows: Vec<Flow>,
}

/// A link.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its capacity `c_l` in bits/s, headers included; positive.
    pub capacity: f64,
}

/// A source with one or more routes to its destination.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// `α_s`, the factor of its utility; positive.
    pub weight: f64,
    /// The most it has to send, in bits/s, headers included.
    pub demand: Option<f64>,
    /// Its routes; at least one.
    pub routes: Vec<Route>,
}

/// One of a flow's paths.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Its name.
    pub name: String,
    /// Indices of the links it passes, none of them twice; at least one.
    pub links: Vec<usize>,
    /// Round-trip time without queues, in seconds; positive.
    pub rtt: f64,
    /// Bits of a packet, headers included; positive.
    pub packet: f64,
}

impl Network {
    /// What an experiment's network is like at one moment: the flows that are active then, over the
    /// links that are up. Links without a flow are kept. A subflow over a link that is down is left
    /// out, and a flow that has none left too.
    ///
    /// Capacities and demands count whole packets, headers included. Ways back are taken to be
    /// free: acknowledgements take no capacity here.
    pub fn at(experiment: &Experiment, now: Time) -> Self {
        let topology = &experiment.topology;
        let states: Vec<_> = topology.links.iter().map(|l| l.config.at(now)).collect();
        let link = |named: &manyway_network::NamedLink| Link {
            name: named.name.clone(),
            capacity: named.config.capacity(now).bits_per_sec(),
        };
        let mut network = Network {
            links: topology.links.iter().map(link).collect(),
            flows: Vec::new(),
        };
        for flow in &experiment.flows {
            if now < flow.start || flow.stop.is_some_and(|stop| now >= stop) {
                continue;
            }
            let routes = network.routes_of(flow, experiment, (now, &states));
            if routes.is_empty() {
                continue;
            }
            let size = f64::from(flow.sender.packet_size);
            let payload = size - f64::from(flow.headers);
            network.flows.push(Flow {
                name: flow.name.clone(),
                weight: 1.0,
                demand: flow.rate.map(|rate| rate.bits_per_sec() * size / payload),
                routes,
            });
        }
        network
    }

    /// The routes of a flow's subflows that take part, with the links they have for themselves.
    fn routes_of(
        &mut self,
        flow: &manyway_scenario::Flow,
        experiment: &Experiment,
        (now, states): (Time, &[manyway_network::LinkState]),
    ) -> Vec<Route> {
        let mut routes = Vec::new();
        let subflows = flow.paths.iter().zip(&flow.lifetimes);
        for (&path, lifetime) in subflows {
            let path = &experiment.topology.paths[path];
            let active = lifetime.from <= now && lifetime.until.is_none_or(|until| now < until);
            if !active || path.links.iter().any(|&link| !states[link].up) {
                continue;
            }
            let delay = |links: &[usize]| -> Duration {
                links.iter().map(|&link| states[link].delay).sum()
            };
            let mut rtt = delay(&path.links) + delay(&path.reverse) + path.return_delay;
            rtt += flow.extra_delay + flow.extra_return;
            let mut links = path.links.clone();
            if let Some(access) = &flow.access {
                let state = access.at(now);
                rtt += state.delay;
                links.insert(0, self.links.len());
                self.links.push(Link {
                    name: format!("{}/{}/access", flow.name, path.name),
                    capacity: access.capacity(now).bits_per_sec(),
                });
            }
            routes.push(Route {
                name: path.name.clone(),
                links,
                rtt: rtt.as_secs_f64(),
                packet: 8.0 * f64::from(flow.sender.packet_size),
            });
        }
        routes
    }

    /// Checks every link, flow and route.
    ///
    /// # Errors
    /// The first that can't be computed with, and how to mend it.
    pub fn validate(&self) -> Result<(), InvalidNetwork> {
        let positive = |x: f64| x > 0.0 && x.is_finite();
        for link in &self.links {
            if !positive(link.capacity) {
                let problem = format!(
                    "has a capacity of {} bps: give it a positive one, or leave it out together \
                     with the routes over it",
                    link.capacity
                );
                return Err(InvalidNetwork::new("link", &link.name, problem));
            }
        }
        if self.flows.is_empty() {
            return Err(InvalidNetwork::new(
                "network",
                "",
                "has no flow: at this moment none is active with all links of a path up".to_owned(),
            ));
        }
        for flow in &self.flows {
            self.check(flow)?;
        }
        Ok(())
    }

    fn check(&self, flow: &Flow) -> Result<(), InvalidNetwork> {
        let wrong = |problem: String| Err(InvalidNetwork::new("flow", &flow.name, problem));
        let positive = |x: f64| x > 0.0 && x.is_finite();
        if !positive(flow.weight) {
            return wrong(format!(
                "has a weight of {}: choose a positive one",
                flow.weight
            ));
        }
        if let Some(demand) = flow.demand.filter(|&demand| !positive(demand)) {
            return wrong(format!(
                "has a demand of {demand} bps: choose a positive one, or leave the flow out"
            ));
        }
        if flow.routes.is_empty() {
            return wrong("is disconnected: give it at least one route".to_owned());
        }
        for route in &flow.routes {
            let name = &route.name;
            if route.links.is_empty() {
                return wrong(format!(
                    "has the route `{name}` over no link: nothing limits it"
                ));
            }
            for (n, &link) in route.links.iter().enumerate() {
                if link >= self.links.len() {
                    return wrong(format!(
                        "has the route `{name}` over link number {link}, but there are {} (counted \
                         from 0)",
                        self.links.len()
                    ));
                }
                if route.links[..n].contains(&link) {
                    return wrong(format!(
                        "has the route `{name}` twice over the link `{}`: leave the loop out",
                        self.links[link].name
                    ));
                }
            }
            if !positive(route.rtt) {
                return wrong(format!(
                    "has the route `{name}` with a round-trip time of {} s: give a link on it, or \
                     the return path, a delay",
                    route.rtt
                ));
            }
            if !positive(route.packet) {
                return wrong(format!(
                    "has the route `{name}` with packets of {} bits: choose a positive size",
                    route.packet
                ));
            }
        }
        Ok(())
    }

    /// What makes results ambiguous, though they can be computed.
    pub fn remarks(&self) -> Vec<Remark> {
        let mut remarks = Vec::new();
        for flow in &self.flows {
            let mut seen: HashMap<Vec<usize>, &Route> = HashMap::new();
            for route in &flow.routes {
                let mut links = route.links.clone();
                links.sort_unstable();
                if let Some(first) = seen.insert(links, route) {
                    remarks.push(Remark::SameLinks {
                        flow: flow.name.clone(),
                        first: first.name.clone(),
                        second: route.name.clone(),
                    });
                }
            }
        }
        remarks
    }

    /// What makes prices ambiguous at these loads, in bits/s: of links that are full, rows of the
    /// routing matrix that depend on each other. (The papers ask for full row rank, of all links;
    /// those with room to spare have a price of 0 whatever their row.)
    pub fn remarks_at(&self, loads: &[f64]) -> Vec<Remark> {
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); self.links.len()];
        for (r, (_, route)) in self.routes().enumerate() {
            for &link in &route.links {
                rows[link].push(r);
            }
        }
        let full = |&link: &usize| loads[link] > FULL * self.links[link].capacity;
        let mut seen: BTreeMap<&[usize], usize> = BTreeMap::new();
        let mut remarks = Vec::new();
        for link in (0..self.links.len()).filter(full) {
            let row = &rows[link][..];
            let Some(&first) = seen.get(row) else {
                seen.insert(row, link);
                continue;
            };
            remarks.push(Remark::SameRoutes {
                first: self.links[first].name.clone(),
                second: self.links[link].name.clone(),
            });
        }
        let distinct: Vec<usize> = seen.into_values().collect();
        let links = distinct.len();
        if (1..=MOST_RANKED).contains(&links) {
            let mut place = vec![None; self.links.len()];
            for (n, &link) in distinct.iter().enumerate() {
                place[link] = Some(n);
            }
            // AAᵀ, the routes that two links have in common, has A's rank.
            let mut gram = DMatrix::<f64>::zeros(links, links);
            for (_, route) in self.routes() {
                let full = || route.links.iter().filter_map(|&link| place[link]);
                for (i, j) in full().flat_map(|i| full().map(move |j| (i, j))) {
                    gram[(i, j)] += 1.0;
                }
            }
            let rank = gram.rank(1e-9 * gram.amax());
            if rank < links {
                remarks.push(Remark::Rank { links, rank });
            }
        }
        remarks
    }

    /// All routes with the index of their flow, flow by flow: the columns of `A` and `B`.
    pub fn routes(&self) -> impl Iterator<Item = (usize, &Route)> {
        let flows = self.flows.iter().enumerate();
        flows.flat_map(|(flow, spec)| spec.routes.iter().map(move |route| (flow, route)))
    }

    /// `A x`: the load of every link, in the unit of `rates`, of which there is one for each of
    /// [`routes`](Self::routes).
    pub fn loads(&self, rates: &[f64]) -> Vec<f64> {
        let mut loads = vec![0.0; self.links.len()];
        for ((_, route), rate) in self.routes().zip(rates) {
            for &link in &route.links {
                loads[link] += rate;
            }
        }
        loads
    }

    /// `B x`: the sum over every flow's routes, in the unit of `rates`.
    pub fn totals(&self, rates: &[f64]) -> Vec<f64> {
        let mut totals = vec![0.0; self.flows.len()];
        for ((flow, _), rate) in self.routes().zip(rates) {
            totals[flow] += rate;
        }
        totals
    }

    /// `Aᵀ λ`: the price of every route, the sum over its links'.
    pub fn route_prices(&self, prices: &[f64]) -> Vec<f64> {
        let price = |route: &Route| route.links.iter().map(|&link| prices[link]).sum();
        self.routes().map(|(_, route)| price(route)).collect()
    }

    /// About what each flow will get of the network, in bits/s: the largest of its routes' parts of
    /// the narrowest link on them, at α-fairness of this exponent as if each link were alone.
    pub(crate) fn rough_shares(&self, a: f64) -> Vec<f64> {
        let mut shares = vec![0.0f64; self.flows.len()];
        for ((flow, _), share) in self.routes().zip(self.rough_parts(a)) {
            let demand = self.flows[flow].demand.unwrap_or(f64::INFINITY);
            shares[flow] = shares[flow].max(share).min(demand);
        }
        shares
    }

    /// Each route's part of the narrowest link on it, in bits/s: see
    /// [`rough_shares`](Self::rough_shares).
    pub(crate) fn rough_parts(&self, a: f64) -> Vec<f64> {
        let part = |flow: usize| self.flows[flow].weight.powf(1.0 / a.max(0.5));
        let room = self.room(part);
        let least = |(flow, route): (usize, &Route)| {
            let share = |&link: &usize| room[link] * part(flow);
            route.links.iter().map(share).fold(f64::INFINITY, f64::min)
        };
        self.routes().map(least).collect()
    }

    /// Capacity of each link over the sum of the `part`s of all routes over it.
    pub(crate) fn room(&self, part: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut crowds = vec![0.0; self.links.len()];
        for (flow, route) in self.routes() {
            for &link in &route.links {
                crowds[link] += part(flow);
            }
        }
        self.links
            .iter()
            .zip(crowds)
            .map(|(link, crowd)| link.capacity / crowd)
            .collect()
    }
}

/// A network that nothing can be computed for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {part}{} {problem}", quoted(.name))]
pub struct InvalidNetwork {
    /// `link`, `flow` or `network`.
    pub part: &'static str,
    /// Its name.
    pub name: String,
    /// What is wrong, and how to mend it.
    pub problem: String,
}

impl InvalidNetwork {
    fn new(part: &'static str, name: &str, problem: String) -> Self {
        InvalidNetwork {
            part,
            name: name.to_owned(),
            problem,
        }
    }

    /// About the network as a whole.
    pub(crate) fn unnamed(problem: String) -> Self {
        InvalidNetwork::new("network", "", problem)
    }
}

fn quoted(name: &str) -> String {
    match name {
        "" => String::new(),
        _ => format!(" `{name}`"),
    }
}

/// Links count as full from this part of their capacity.
const FULL: f64 = 1.0 - 1e-5;

/// Of more links than these the rank isn't computed.
const MOST_RANKED: usize = 200;

/// Something to know about a network before its results are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// Two routes of one flow pass the same links.
    SameLinks {
        /// The flow.
        flow: String,
        /// The one that comes first.
        first: String,
        /// The other.
        second: String,
    },
    /// Two links are passed by the same routes, and so limit them together.
    SameRoutes {
        /// The one that comes first.
        first: String,
        /// The other.
        second: String,
    },
    /// The links' rows of the routing matrix depend on each other, though no two of them are equal.
    Rank {
        /// How many links are full.
        links: usize,
        /// How many of them are independent.
        rank: usize,
    },
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::SameLinks {
                flow,
                first,
                second,
            } => write!(
                f,
                "`{first}` and `{second}` of the flow `{flow}` pass the same links: only their sum \
                 is determined, not how it is split"
            ),
            Remark::SameRoutes { first, second } => write!(
                f,
                "the links `{first}` and `{second}` are both full and passed by the same routes: \
                 only the sum of their prices is determined"
            ),
            Remark::Rank { links, rank } => write!(
                f,
                "of the {links} full links only {rank} are independent (their routing matrix has \
                 no full row rank): their prices are not unique"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
