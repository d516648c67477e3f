//! The α-fair family, throughput and log included.

use super::certificate::Certificate;
use super::interior::{Flow, Problem};
use super::program::Program;
use super::shape::Shape;
use super::{Allocation, OptimumError, SOLVED, into_bounds};
use crate::network::Network;

/// Maximises `Σ α_s y_s^(1−a)/(1−a)`, or its limits at 0 and 1. The former is a linear programme.
pub(super) fn solve(network: &Network, a: f64) -> Result<Allocation, OptimumError> {
    let (best, status) = match a {
        0.0 => linear(network)?,
        _ => Smooth::of(network, a).solve()?,
    };
    let Certificate { gap, .. } = best.certificate;
    if gap.is_nan() || gap > SOLVED {
        return Err(OptimumError::Unsolved { status, gap });
    }
    Ok(best)
}

fn linear(network: &Network) -> Result<(Allocation, String), OptimumError> {
    let shape = Shape::of(network, network.rough_shares(0.0));
    let weights = network.flows.iter().zip(&shape.units);
    let weights: Vec<f64> = weights.map(|(flow, unit)| flow.weight * unit).collect();
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    let mut costs = vec![0.0; shape.routes];
    for (own, weight) in shape.own.iter().zip(&weights) {
        own.iter().for_each(|&(n, _)| costs[n] = -weight / mean);
    }
    let mut program = Program::minimise(costs);
    shape.constrain(network, &mut program);
    let solved = program.solve().map_err(|status| OptimumError::Unsolved {
        status,
        gap: f64::INFINITY,
    })?;
    let rates = shape.rates(network, &solved);
    let prices = network.links.iter().zip(&solved.duals);
    let prices: Vec<f64> = prices
        .map(|(link, dual)| dual.max(0.0) * mean / link.capacity)
        .collect();
    let best = Allocation {
        certificate: Certificate::of(network, 0.0, &rates, &prices),
        rates,
        prices,
    };
    Ok((best, solved.status.to_string()))
}

/// A network's optimum as an interior-point method takes it: each flow's rates in its own unit, and
/// weights by the largest.
struct Smooth<'a> {
    network: &'a Network,
    problem: Problem,
    units: Vec<f64>,
    /// The links that a route passes, in the problem's order.
    links: Vec<usize>,
    /// The unit of the utility, which prices are in.
    unit: f64,
}

/// A residual that is good enough.
const POLISHED: f64 = 1e-12;

/// Of gaps that are smaller, the residual says which is best.
const CLOSED: f64 = 1e-9;

/// Where a point may be worth a look: the part of what flows pay that may be missing.
const NEAR: f64 = 1e-5;

/// Points in a row without any gain before the best is taken.
const IN_VAIN: usize = 20;

/// As many where rounding is all that is left to gain, and up to where that is.
const AT_THE_END: (usize, f64) = (2, 1e-13);

impl<'a> Smooth<'a> {
    fn of(network: &'a Network, a: f64) -> Self {
        let units = network.rough_shares(a);
        let mut places = vec![None; network.links.len()];
        let mut links = Vec::new();
        for (_, route) in network.routes() {
            for &link in &route.links {
                places[link].get_or_insert_with(|| {
                    links.push(link);
                    links.len() - 1
                });
            }
        }
        let log_weights = network.flows.iter().zip(&units);
        let log_weights = log_weights.map(|(flow, unit)| flow.weight.ln() + (1.0 - a) * unit.ln());
        let log_weights: Vec<f64> = log_weights.collect();
        let log_unit = log_weights.iter().copied().fold(f64::MIN, f64::max);
        // Half of what all links have room for.
        let mut rough = network.rough_parts(a).into_iter().map(|part| 0.5 * part);
        let flows = network.flows.iter().enumerate().map(|(s, flow)| {
            let takes = |&link: &usize| {
                let place = places[link]?;
                Some((place, units[s] / network.links[link].capacity))
            };
            let routes = flow.routes.iter();
            let routes = routes.map(|route| route.links.iter().filter_map(takes).collect());
            let start = rough.by_ref().take(flow.routes.len());
            let mut start: Vec<f64> = start.map(|rate| rate / units[s]).collect();
            let demand = flow.demand.map(|demand| demand / units[s]);
            if let Some(demand) = demand {
                let part = (0.5 * demand / start.iter().sum::<f64>()).min(1.0);
                start.iter_mut().for_each(|rate| *rate *= part);
            }
            Flow {
                log_weight: log_weights[s] - log_unit,
                demand,
                routes: routes.collect(),
                start,
            }
        });
        let problem = Problem {
            a,
            links: links.len(),
            flows: flows.collect(),
        };
        Smooth {
            network,
            problem,
            units,
            links,
            unit: log_unit.exp(),
        }
    }

    /// The best point on the way, judged by its certificate.
    fn solve(&self) -> Result<(Allocation, String), OptimumError> {
        let rank = |Certificate { gap, residual }| (f64::max(gap, CLOSED), residual);
        let (mut best, mut in_vain): (Option<Allocation>, usize) = (None, 0);
        let begun = self.problem.solve(|rates, prices, missing| {
            if missing > NEAR && best.is_none() {
                return false;
            }
            let found = self.allocation(rates, prices);
            in_vain += 1;
            let better = |best: &Allocation| rank(found.certificate) < rank(best.certificate);
            if found.certificate.gap.is_finite() && best.as_ref().is_none_or(better) {
                in_vain = 0;
                best = Some(found);
            }
            let (few, end) = AT_THE_END;
            let done = |best: &Allocation| best.certificate.residual <= POLISHED;
            best.as_ref().is_some_and(done) || in_vain > IN_VAIN || (in_vain > few && missing < end)
        });
        if !begun {
            return Err(OptimumError::TooMeshed {
                links: self.links.len(),
            });
        }
        let status = "too little progress".to_owned();
        match best {
            Some(best) => Ok((best, status)),
            None => Err(OptimumError::Unsolved {
                status,
                gap: f64::INFINITY,
            }),
        }
    }

    fn allocation(&self, rates: &[f64], prices: &[f64]) -> Allocation {
        let network = self.network;
        let rates = network.routes().zip(rates);
        let mut rates: Vec<f64> = rates.map(|((s, _), rate)| rate * self.units[s]).collect();
        into_bounds(network, &mut rates);
        let mut all = vec![0.0; network.links.len()];
        for (&link, price) in self.links.iter().zip(prices) {
            all[link] = price * self.unit / network.links[link].capacity;
        }
        Allocation {
            certificate: Certificate::of(network, self.problem.a, &rates, &all),
            rates,
            prices: all,
        }
    }
}
