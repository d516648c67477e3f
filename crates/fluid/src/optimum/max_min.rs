use super::certificate::Certificate;
use super::program::Program;
use super::{Allocation, OptimumError, SOLVED, into_bounds, unit};
use crate::network::Network;

/// Max-min rates, level by level: the largest rate that all flows without a level can have is the level of those that no other split could give more, which
/// are those whose constraint has a price.
pub(super) fn solve(network: &Network) -> Result<Allocation, OptimumError> {
    let mut levels: Vec<Option<f64>> = vec![None; network.flows.len()];
    let mut prices = vec![0.0; network.links.len()];
    let mut gap = 0.0f64;
    loop {
        let round = next_level(network, &levels)?;
        gap = gap.max(round.gap);
        for (price, new) in prices.iter_mut().zip(&round.prices) {
            if *price == 0.0 && *new > PAID {
                *price = *new;
            }
        }
        for (s, level) in levels.iter_mut().enumerate() {
            let flow = &network.flows[s];
            if level.is_none() && round.stuck[s] * flow.weight > PAID {
                *level = Some(round.level * flow.weight);
            }
        }
        if levels.iter().all(Option::is_some) {
            let certificate = Certificate { gap, residual: gap };
            let rates = round.rates;
            return Ok(Allocation {
                rates,
                prices,
                certificate,
            });
        }
    }
}

/// Prices above this are more than rounding: those of a level's flows, times their weights, sum to 1.
const PAID: f64 = 1e-6;

struct Round {
    /// Of all flows without a level, per weight, in bits/s.
    level: f64,
    rates: Vec<f64>,
    /// The price of each flow's constraint; 0 of those that have a level.
    stuck: Vec<f64>,
    prices: Vec<f64>,
    gap: f64,
}

fn next_level(network: &Network, levels: &[Option<f64>]) -> Result<Round, OptimumError> {
    let unit = unit(network);
    let routes = network.routes().count();
    let mut cost = vec![0.0; routes];
    cost.push(-1.0);
    let mut program = Program::minimise(cost);
    let mut own = vec![Vec::new(); network.flows.len()];
    let mut members = vec![Vec::new(); network.links.len()];
    for (n, (flow, route)) in network.routes().enumerate() {
        own[flow].push(n);
        for &link in &route.links {
            members[link].push((n, 1.0));
        }
    }
    for (link, members) in network.links.iter().zip(members) {
        program.at_most(members, link.capacity / unit);
    }
    for n in 0..routes {
        program.at_most([(n, -1.0)], 0.0);
    }
    let mut rows = Vec::new();
    for (s, flow) in network.flows.iter().enumerate() {
        let total = own[s].iter().map(|&n| (n, -1.0));
        rows.push(match levels[s] {
            // A little less, so that rounding leaves something feasible.
            Some(level) => program.at_most(total, -level / unit * (1.0 - 1e-9)),
            None => program.at_most(total.chain([(routes, flow.weight)]), 0.0),
        });
        if let Some(demand) = flow.demand {
            program.at_most(own[s].iter().map(|&n| (n, 1.0)), demand / unit);
        }
    }
    let unsolved = |status, gap| OptimumError::Unsolved { status, gap };
    let solved = program
        .solve()
        .map_err(|status| unsolved(status, f64::INFINITY))?;
    let level = solved.variables[routes];
    let gap = solved.gap / level;
    let stuck = |(s, &row): (usize, &usize)| match levels[s] {
        Some(_) => 0.0,
        None => solved.duals[row],
    };
    let stuck: Vec<f64> = rows.iter().enumerate().map(stuck).collect();
    // Without a flow that is stuck there would be no end.
    let moved = stuck
        .iter()
        .zip(&network.flows)
        .any(|(z, flow)| z * flow.weight > PAID);
    if gap.is_nan() || gap > SOLVED || !moved {
        return Err(unsolved(solved.status.to_string(), gap));
    }
    let mut rates: Vec<f64> = solved.variables[..routes]
        .iter()
        .map(|x| x * unit)
        .collect();
    into_bounds(network, &mut rates);
    Ok(Round {
        level: level * unit,
        rates,
        stuck,
        prices: solved.duals[..network.links.len()].to_vec(),
        gap,
    })
}
